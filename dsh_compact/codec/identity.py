"""Which tool result a record is: all that it says but its content.

The rule that it serves: a tool result may take the place of one other, changing nothing but its
content (FORMAT, "The surface"). Two records that say the same have the same identity, in whatever
order and style their keys are written.
"""

from typing import Any, Final, Self

import msgspec
from msgspec import Raw, Struct

from dsh_compact.codec import wire

_CONTENT: Final = b'"content":'
_WRAPPING: Final = b'[{"type":"tool-result",'
_UNWRAPPED: Final = b'[{"type":"text",'
"""How a tool result's content begins in formats 0 and 3, and in 4."""


class _Content(Struct):
    """A message's or block's content, undecoded; everything beside it is skipped."""

    content: Raw


class _Data(Struct):
    message: _Content


class _Result(Struct):
    """In format 4 the content stands in the message."""

    data: _Data


class _Blocks(Struct):
    content: list[_Content]


class _WrappedData(Struct):
    message: _Blocks


class _WrappedResult(Struct):
    """In formats 0 and 3 a block stands between."""

    data: _WrappedData


class _Outline(Struct):
    """A record's data as it is written."""

    data: Raw


class Identity:
    """A tool result's record without its content: what the result that replaces it must repeat.

    Two are equal where they say the same. Nearly always they are written alike, which is seen
    without reading either.
    """

    __slots__ = ("_data", "_line")

    def __init__(self, line: bytes) -> None:
        """Of the record in `line`, which is JSON."""
        self._line = _without_content(line)
        self._data: bytes | None = None
        if self._line is not line:
            self._data = bytes(msgspec.json.decode(self._line, type=_Outline).data)

    def to_bytes(self) -> bytes:
        """For `from_bytes`, in another process."""
        return msgspec.msgpack.encode((self._line, self._data))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The identity that those bytes were made of."""
        one = cls.__new__(cls)
        one._line, one._data = msgspec.msgpack.decode(data, type=tuple[bytes, bytes | None])
        return one

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return NotImplemented
        if self._data is not None and self._data == other._data:
            return True
        return _sorted(self._line) == _sorted(other._line)

    def __hash__(self) -> int:
        return hash(_sorted(self._line))


def _sorted(line: bytes) -> bytes:
    """All but the content, the same bytes for whatever says the same."""
    data = wire.read(line, dict[str, Any]).get("data")
    message = data.get("message") if isinstance(data, dict) else None
    if isinstance(message, dict):
        match message.get("content"):
            case [{"type": "tool-result"} as block]:
                block.pop("content", None)
            case _:
                message.pop("content", None)
    return wire.dump_sorted(data)


def _without_content(line: bytes) -> bytes:
    """A tool result's line with null for its content, if that stands where it usually does.

    Content is most of a line, and to skip it takes a fraction of the time that decoding takes.
    """
    at = line.find(_CONTENT) + len(_CONTENT)
    content_of = _unwrapped
    try:
        if line.startswith(_WRAPPING, at):
            at = line.index(_CONTENT, at) + len(_CONTENT)
            content_of = _wrapped
        elif not line.startswith(_UNWRAPPED, at):
            return line
        content = content_of(line)
        if not line.startswith(content, at):
            return line
        cut = b"%bnull%b" % (line[:at], line[at + len(content) :])
        return cut if content_of(cut) == b"null" else line  # another member may hold the same
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return line


def _unwrapped(line: bytes) -> bytes:
    return bytes(msgspec.json.decode(line, type=_Result).data.message.content)


def _wrapped(line: bytes) -> bytes:
    (block,) = msgspec.json.decode(line, type=_WrappedResult).data.message.content
    return bytes(block.content)
