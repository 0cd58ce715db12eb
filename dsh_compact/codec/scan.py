"""Lines in bulk: every seq checked, and no more decoded than the caller needs.

A log is mostly bytes that a question does not touch. `Scanner` compares each line's head with the
seq that must come next and looks at its type; only lines of wanted types, and lines whose layout is
not the usual one (other key order, spaces, escapes: other writers' logs), are decoded in full. So
the fast way never guesses: what it does not recognise at a glance, it reads.

Two modes, one answer: a glance believes that a line is JSON, which every byte is held to only where
the scanner is `strict`; the modes differ in whether damage inside a record that nobody needs is
noticed. What such a record ought to hold is not asked in either (`verify` does).
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from msgspec import Struct

from dsh_compact.codec import wire
from dsh_compact.codec.decode import decode
from dsh_compact.codec.light import LIGHTS, SURFACE_OP, Light, replacement
from dsh_compact.codec.types import KNOWN_TYPES, SURFACE_KINDS
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import (
    APPEND,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    EndSeed,
    Event,
    Kind,
    Other,
    Place,
    RequestContext,
    RequestFailed,
    RequestHeader,
    StepEnd,
    StepStart,
    SurfaceChange,
    ToolCallStarted,
    TurnEnd,
    TurnStart,
)

_HEAD: Final = re.compile(
    rb'\{"type":"([^"]{1,60})","seq":([0-9]{1,15}),"time":[0-9]{1,15},"data":\{'
)
"""The usual layout: type, seq, time, data, and whatever belongs to the surface behind the data."""

_ROW: Final = (
    rb'\{"type":"(?:text|reasoning|tool-call)-chunks","seq0":([0-9]{1,15}),"time0":[0-9]{1,15},'
    rb'"data":\{"turn":[0-9]{1,9},"step":[0-9]{1,9},"index":[0-9]{1,9},"dt":\['
)
_PIECES: Final = rb'\],(?:"id":"[^"\\]*",)?(?:"name":"[^"\\]*",)?"(?:texts|args)":\["'
"""Format 0: a packed row up to the times between its pieces, and from there to the first piece."""

_ROW_END: Final = b'"]}}'
_BETWEEN_PIECES: Final = b'","'

_ENDS: Final = (b"}}", b'},"ignorable":true}')
"""The usual line ends with its data: whatever else it says, a second seq, say, must be read."""

_APPENDED: Final = (b'},"surfaceOp":"append"}', b'],"surfaceOp":"append"}')
"""A usual line of the surface: what stands behind its data, the sources at most, ends so."""

_FAILURE: Final = b'"failure"'
_ESCAPE: Final = b"\\u00"
"""A piece of an answer that tells of a failure holds that key, or spells it in another way."""

_TYPES: Final[dict[type[Any], tuple[str, ...]]] = {
    TurnStart: ("turn/start",),
    TurnEnd: ("turn/end",),
    StepStart: ("step/start",),
    StepEnd: ("step/end",),
    RequestHeader: ("request/header",),
    RequestContext: ("request/context",),
    RequestFailed: ("assistant/attempt", "assistant/chunk"),
    ToolCallStarted: ("tool/call",),
    CompactionStart: ("compaction/start",),
    CompactionSummary: ("compaction/summary",),
    CompactionPrune: ("compaction/prune",),
    CompactionEnd: ("compaction/end",),
    EndSeed: ("session/end-seed",),
}


EVERY: Final = frozenset(_TYPES)
"""All classes of events that a scanner can be asked for."""


class _Actions(Struct, frozen=True):
    """What to do with a line of the usual layout, by its type; all others are decoded.

    `kinds` are the surface's events. `skipped` is of no interest where it does not claim to change
    the surface, nor, if it is among the `pieces` of answers, tells of a failure.
    """

    kinds: dict[bytes, Kind]
    skipped: frozenset[bytes]
    pieces: frozenset[bytes]
    lights: dict[bytes, Light]


def _actions(version: int, wanted: frozenset[type[Any]]) -> _Actions:
    kinds = {name.encode(): kind for name, kind in SURFACE_KINDS[version].items()}
    lights = {_TYPES[event][0].encode(): LIGHTS[event] for event in LIGHTS.keys() & wanted}
    read = {name.encode() for event in wanted for name in _TYPES[event]}
    known = frozenset(name.encode() for name in KNOWN_TYPES[version])
    pieces = frozenset([b"assistant/chunk"] if RequestFailed in wanted and version == 0 else [])
    return _Actions(kinds, (known - read - kinds.keys()) | pieces, pieces, lights)


def _head_of_json(data: bytes | bytearray, at: int) -> "re.Match[bytes] | None":
    """The head of a line that is JSON, in data that is UTF-8; raises `RuleBroken` where it is not.

    `wire.check` finds fault with all but the encoding, in half the time of decoding.
    """
    wire.check(memoryview(data)[at : data.index(b"\n", at)])
    return _HEAD.match(data, at)


def _head_of_whole(data: bytes | bytearray, at: int) -> "re.Match[bytes] | None":
    """The same in data that is not all UTF-8: the line at fault must be found."""
    wire.load(memoryview(data)[at : data.index(b"\n", at)])
    return _HEAD.match(data, at)


def _is_utf8(data: bytes | bytearray, size_bytes: int) -> bool:
    try:
        str(memoryview(data)[:size_bytes], "utf-8")
    except UnicodeDecodeError:
        return False
    return True


@cache
def _row_patterns() -> tuple["re.Pattern[bytes]", "re.Pattern[bytes]"]:
    """Compiled only for the logs that have packed rows."""
    return re.compile(_ROW), re.compile(_PIECES)


def _row_count(data: bytes | bytearray, at: int, end: int, seq: int) -> int:
    """How many events a packed row of the usual layout stands for; 0 where it must be read.

    Between two pieces stands `","`. Inside a piece it cannot, but for the piece `,` itself and one
    that ends in `",`: each lends a quote to the separator beside it, and the count stays right.
    """
    row, pieces = _row_patterns()
    head = row.match(data, at, end)
    if head is None or int(head[1]) != seq:
        return 0
    waits = data.find(b"]", head.end(), end)
    first = pieces.match(data, waits, end) if waits >= 0 else None
    if first is None or not data.endswith(_ROW_END, first.end(), end):
        return 0
    count = data.count(_BETWEEN_PIECES, first.end(), end - len(_ROW_END)) + 1
    between = data.count(b",", head.end(), waits) + 1 if waits > head.end() else 0
    return count if between == count - 1 else 0


class Scanner:
    """Turns the lines behind the header into events; one scanner reads one log once, in order.

    `next_seq` is the seq that the next event must carry; `lines` counts the lines read so far, the
    header among them; `version` is the log's format, `strict` as the scanner was made.
    """

    __slots__ = ("_actions", "_wanted", "lines", "next_seq", "strict", "version")

    def __init__(
        self, version: int, wanted: Iterable[type[Any]] = (), *, strict: bool = False
    ) -> None:
        """`wanted` are the classes of events, beside the surface's, that the caller needs."""
        self.version = version
        self._wanted = frozenset(wanted)
        self.strict = strict
        self._actions = _actions(version, self._wanted)
        self.next_seq = 0
        self.lines = 1

    def scan(
        self, data: bytes | bytearray, size_bytes: int, frame_bytes: int, start_bytes: int
    ) -> list[Event]:
        """The events in the lines of `data[:size_bytes]`, the first at that place.

        Unwanted ones are left out. Raises `RuleBroken`, which then carries the events before the
        line at fault; `self.lines` counts that line as the last one.
        """
        found: list[Event] = []
        head = self._glance(data, size_bytes)
        find, endswith, has_rows = data.find, data.endswith, self.version == 0
        actions = self._actions
        kinds, skipped, pieces = actions.kinds, actions.skipped, actions.pieces
        at = lines = 0
        seq = self.next_seq
        try:
            while at < size_bytes:
                end = find(b"\n", at, size_bytes)
                lines += 1
                glance = head(data, at)
                if glance is not None:
                    name, digits = glance.groups()
                    if int(digits) != seq:
                        glance = None
                    elif (kind := kinds.get(name)) is not None:
                        if endswith(_APPENDED, at, end):
                            place = Place(frame_bytes, start_bytes + at, end - at)
                            found.append(SurfaceChange(seq, kind, APPEND, (), place))
                            seq += 1
                            at = end + 1
                            continue
                    elif (
                        name in skipped
                        and endswith(_ENDS, at, end)
                        and find(SURFACE_OP, at, end) < 0
                        and (
                            name not in pieces
                            or (find(_FAILURE, at, end) < 0 and find(_ESCAPE, at, end) < 0)
                        )
                    ):
                        seq += 1
                        at = end + 1
                        continue
                elif has_rows and (count := _row_count(data, at, end, seq)):
                    seq += count
                    at = end + 1
                    continue
                place = Place(frame_bytes, start_bytes + at, end - at)
                seq = self._look(data, at, end, glance, seq, place, found)
                at = end + 1
        except RuleBroken as fault:
            fault.events = tuple(found)
            raise
        finally:
            self.lines += lines
            self.next_seq = seq
        return found

    def _glance(
        self, data: bytes | bytearray, size_bytes: int
    ) -> Callable[[bytes | bytearray, int], "re.Match[bytes] | None"]:
        """What looks at the head of a line; a strict one holds the whole line to JSON."""
        if not self.strict:
            return _HEAD.match
        return _head_of_json if _is_utf8(data, size_bytes) else _head_of_whole

    def _look(
        self,
        data: bytes | bytearray,
        at: int,
        end: int,
        glance: "re.Match[bytes] | None",
        seq: int,
        place: Place,
        found: list[Event],
    ) -> int:
        """Appends the line's event where it is wanted; returns the seq that must come next."""
        if glance is not None:
            kind = self._actions.kinds.get(glance[1])
            if kind is not None and (
                change := replacement(data, at, end, seq, place, kind, self.version)
            ):
                found.append(change)
                return seq + 1
            light = self._actions.lights.get(glance[1])
            if (
                light is not None
                and data.endswith(_ENDS, at, end)
                and (event := light(data, glance.start(), end, seq, place))
            ):
                found.append(event)
                return seq + 1
        return self._decode(bytes(data[at:end]), seq, place, found)

    def _decode(self, line: bytes, seq: int, place: Place, found: list[Event]) -> int:
        """The same for a line that must be read."""
        event = decode(line, self.version, place)
        check_seq(event.seq, seq)
        match event:
            case Other():
                if not event.known and not event.ignorable:
                    found.append(event)
                return seq + event.count
            case SurfaceChange():
                found.append(event)
            case _:
                if type(event) in self._wanted:
                    found.append(event)
        return seq + 1


def check_seq(found: int, expected: int) -> None:
    """Raises `RuleBroken` (seq-gap, seq-repeated, record-wrong where it is none) unless `found` is
    the seq that must come next.
    """
    if found < 0:
        raise RuleBroken(
            Damage.RECORD_WRONG, f"its seq is {found}, and none is below 0; {expected} must come"
        )
    if found > expected:
        missing = "" if found == expected + 1 else f"–{found - 1}"
        raise RuleBroken(
            Damage.SEQ_GAP, f"seq {expected}{missing} missing: {found} comes next", found
        )
    if found < expected:
        raise RuleBroken(
            Damage.SEQ_REPEATED, f"seq {found} again, where {expected} must come", found
        )
