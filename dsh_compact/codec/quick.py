"""The message in a surface event's line, and nothing beside it: what a price needs.

Rule: this is a shorter way to what `decode_surface_event` gives, never another answer (a key
written twice aside, which no writer of logs does); where a line is not of the usual kind, that is
asked. In formats 3 and 4 an answer's line ends in the stream that it came in, often several times
the message. `,"stream":[` cannot stand inside a JSON string, whose quotes are escaped; and what
stands before it, closed by two braces, is JSON with a message only if it stood right in the event's
data. So a line may be cut there, or read no further.
"""

from typing import Final

import msgspec
from msgspec import Struct

from dsh_compact.codec import wire
from dsh_compact.codec.decode import decode_surface_event, message_of
from dsh_compact.events import Kind, Message

_STREAM: Final = b',"stream":['


class _Spoken(Struct):
    """A user's message is the event's data."""

    data: wire.Message


class _Data(Struct):
    message: wire.Message


class _InStep(Struct):
    """Every other message stands in the data."""

    data: _Data


def decode_message(line: bytes, kind: Kind, version: int) -> Message:
    """The message of the node that `line` made; raises `RuleBroken` where it holds none."""
    if kind == "user":
        message = _spoken(line)
    else:
        message = _in_step(line, line.find(_STREAM) if kind == "assistant" else -1)
    return message or decode_surface_event(line, version).message


def message_in(head: bytes) -> Message | None:
    """An answer's message, if `head`, the beginning of its line, holds all of it."""
    cut = head.find(_STREAM)
    return None if cut < 0 else _in_step(head, cut)


def _spoken(line: bytes) -> Message | None:
    try:
        return message_of(msgspec.json.decode(line, type=_Spoken).data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _in_step(line: bytes, cut: int) -> Message | None:
    whole = line if cut < 0 else line[:cut] + b"}}"
    try:
        return message_of(msgspec.json.decode(whole, type=_InStep).data.message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
