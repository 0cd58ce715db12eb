"""Events that the layout of their line tells: what the usual writer writes, and nothing else.

A light looks at one line whose head (type, seq) is known, and gives the event that `decode` would
give, at a fraction of its price; None where the line is not of the usual layout: then `decode` is
asked. So a light never guesses, and finds no fault.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from dsh_compact.codec.identity import Identity
from dsh_compact.events import (
    CompactionPrune,
    Event,
    Kind,
    Place,
    Replace,
    RequestHeader,
    StepEnd,
    StepStart,
    SurfaceChange,
    ToolCallStarted,
    TurnEnd,
    TurnStart,
)

SURFACE_OP: Final = b'"surfaceOp"'
"""What claims to change the surface; on an event that must not, it is a fault."""

Light: TypeAlias = Callable[[bytes | bytearray, int, int, int, Place], Event | None]
"""Gives the event of the line in `data[at:end]`, which has that seq and place, or None."""

# Numbers are written without leading zeros; a 0 itself, which is rare, is left to `decode`.
_STEP: Final = (
    rb'\{"type":"step/(?:start|end)","seq":[1-9][0-9]{0,14},"time":[1-9][0-9]{0,14},"data":'
    rb'\{"turn":([1-9][0-9]{0,14}),"step":([1-9][0-9]{0,14})\}\}\n'
)
_TURN_START: Final = (
    rb'\{"type":"turn/start","seq":[1-9][0-9]{0,14},"time":([1-9][0-9]{0,14}),"data":'
    rb'\{"turn":([1-9][0-9]{0,14})\}\}\n'
)
_TURN_END: Final = (
    rb'\{"type":"turn/end","seq":[1-9][0-9]{0,14},"time":([1-9][0-9]{0,14}),"data":'
    rb'\{"turn":([1-9][0-9]{0,14}),"reason":\{"kind":"([a-z-]{1,20})"\}\}\}\n'
)
_PRUNE: Final = (
    rb'\{"type":"compaction/prune","seq":[1-9][0-9]{0,14},"time":([1-9][0-9]{0,14}),"data":'
    rb'\{"shadowedRange":\{"start":([1-9][0-9]{0,14}),"end":([1-9][0-9]{0,14})\},'
    rb'"shadowedSeqs":\[([1-9][0-9]{0,14})\],"shadowedTokenCount":([1-9][0-9]{0,14})\}\}\n'
)
"""Whole lines: a turn that did not fail, a prune that names one result."""

_SOURCES: Final = b'},"sourceEventSeqs":['
"""Where the data of a replacement ends, as it is usually written."""

_REPLACES: Final = {
    version: rb'([0-9,]+)\],"surfaceOp":'
    rb'\{"op":"replace","%b":([1-9][0-9]{0,14}),"%b":([1-9][0-9]{0,14})\}\}\n' % names
    for version, names in (
        (0, (b"start", b"end")),
        (3, (b"startSeq", b"endSeq")),
        (4, (b"startSeq", b"endSeq")),
    )
}
"""The rest of such a line: by the braces at its end it is the record that says so, not its data."""


@cache
def _pattern(source: bytes) -> "re.Pattern[bytes]":
    """Compiled where a command asks for such events: most ask for few."""
    return re.compile(source)


class _Call(Struct, rename="camel"):
    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class _CallLine(Struct):
    data: _Call


def _step_start(
    data: bytes | bytearray, at: int, end: int, seq: int, _place: Place
) -> Event | None:
    found = _pattern(_STEP).match(data, at, end + 1)
    return None if found is None else StepStart(seq, int(found[1]), int(found[2]))


def _step_end(data: bytes | bytearray, at: int, end: int, seq: int, _place: Place) -> Event | None:
    found = _pattern(_STEP).match(data, at, end + 1)
    return None if found is None else StepEnd(seq, int(found[1]), int(found[2]))


def _turn_start(
    data: bytes | bytearray, at: int, end: int, seq: int, _place: Place
) -> Event | None:
    found = _pattern(_TURN_START).match(data, at, end + 1)
    if found is None:
        return None
    return TurnStart(seq=seq, time_ms=int(found[1]), turn=int(found[2]))


def _turn_end(data: bytes | bytearray, at: int, end: int, seq: int, _place: Place) -> Event | None:
    found = _pattern(_TURN_END).match(data, at, end + 1)
    if found is None:
        return None
    time, turn, reason = found.groups()
    return TurnEnd(seq=seq, time_ms=int(time), turn=int(turn), reason=reason.decode("ascii"))


def _request_header(
    data: bytes | bytearray, at: int, end: int, seq: int, place: Place
) -> Event | None:
    return None if data.find(SURFACE_OP, at, end) >= 0 else RequestHeader(seq, place)


def _tool_call(data: bytes | bytearray, at: int, end: int, seq: int, _place: Place) -> Event | None:
    if data.find(SURFACE_OP, at, end) >= 0:
        return None
    try:
        call = msgspec.json.decode(memoryview(data)[at:end], type=_CallLine).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return ToolCallStarted(
        seq=seq,
        turn=call.turn,
        step=call.step,
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
    )


def _compaction_prune(
    data: bytes | bytearray, at: int, end: int, seq: int, _place: Place
) -> Event | None:
    found = _pattern(_PRUNE).match(data, at, end + 1)
    if found is None:
        return None
    time, start, last, shadowed, tokens = map(int, found.groups())
    return CompactionPrune(
        seq=seq,
        time_ms=time,
        start_seq=start,
        end_seq=last,
        shadowed_seqs=(shadowed,),
        shadowed_tokens=tokens,
    )


def replacement(
    data: bytes | bytearray, at: int, end: int, seq: int, place: Place, kind: Kind, version: int
) -> SurfaceChange | None:
    """The same for what changes the surface in another way than by an append."""
    sources = data.rfind(_SOURCES, at, end)
    if sources < 0:
        return None
    found = _pattern(_REPLACES[version]).match(data, sources + len(_SOURCES), end + 1)
    if found is None:
        return None
    listed, first, last = found.groups()
    try:
        named = tuple(map(int, listed.split(b",")))
    except ValueError:  # `,,`
        return None
    identity = Identity(bytes(data[at:end])) if kind == "tool" else None
    return SurfaceChange(seq, kind, Replace(int(first), int(last)), named, place, identity)


LIGHTS: Final[dict[type[Any], Light]] = {
    TurnStart: _turn_start,
    TurnEnd: _turn_end,
    StepStart: _step_start,
    StepEnd: _step_end,
    RequestHeader: _request_header,
    ToolCallStarted: _tool_call,
    CompactionPrune: _compaction_prune,
}
"""The lights, by the event that they give."""
