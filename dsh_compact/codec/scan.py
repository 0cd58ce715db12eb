"""Lines in bulk: every seq checked, and no more decoded than the caller needs.

A log is mostly bytes that a question does not touch. `Scanner` compares each line's head with the
seq that must come next and looks at its type; only lines of wanted types, and lines whose layout is
not the usual one (other key order, spaces, escapes: other writers' logs), are decoded in full. So
the fast way never guesses: what it does not recognise at a glance, it reads. `strict` decodes
everything.

Two modes, one answer: they differ only in whether damage inside a record that nobody needs is
noticed.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from dsh_compact.codec import wire
from dsh_compact.codec.decode import decode
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

_HEAD: Final = re.compile(rb'\{"type":"([a-z/-]{1,60})","seq":(\d{1,15}),"time":\d{1,15},"data":\{')
"""The usual layout: type, seq, time, data, and whatever belongs to the surface behind the data."""

_SURFACE_OP: Final = b'"surfaceOp"'
_APPENDED: Final = b',"surfaceOp":"append"}'
_FAILURE: Final = b'"failure"'
_BRACE: Final = ord("}")

_SKIP: Final = "skip"
_DECODE: Final = "decode"
_DECODE_FAILURE: Final = "decode failure"
_HEADER: Final = "header"
"""What to do with a line of the usual layout; a surface type's action is its node's kind."""


_KINDS: Final = frozenset(SURFACE_KINDS[4].values())

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


def _light_event(
    action: str, data: bytes | bytearray, at: int, end: int, seq: int, place: Place
) -> Event | None:
    """What can be told from the ends of a line of the usual layout; None where it must be read."""
    if action is _HEADER:
        return RequestHeader(seq, place) if data.find(_SURFACE_OP, at, end) < 0 else None
    if action in _KINDS and data.endswith(_APPENDED, at, end):
        return SurfaceChange(seq, action, APPEND, (), place)
    return None


def _actions(version: int, wanted: frozenset[type[Any]]) -> dict[bytes, str]:
    """What to do with a line of the usual layout, by its type."""
    actions: dict[bytes, str] = {kind.encode(): _SKIP for kind in KNOWN_TYPES[version]}
    for event in wanted:
        for name in _TYPES[event]:
            if name.encode() in actions:
                actions[name.encode()] = _DECODE
    if RequestHeader in wanted:
        actions[b"request/header"] = _HEADER
    if RequestFailed in wanted and version == 0:
        actions[b"assistant/chunk"] = _DECODE_FAILURE
    actions.update({name.encode(): kind for name, kind in SURFACE_KINDS[version].items()})
    return actions


class Scanner:
    """Turns the lines behind the header into events; one scanner reads one log once, in order.

    `next_seq` is the seq that the next event must carry; `lines` counts the lines read so far, the
    header among them.
    """

    __slots__ = ("_actions", "_skipped", "_strict", "_version", "_wanted", "lines", "next_seq")

    def __init__(
        self, version: int, wanted: Iterable[type[Any]] = (), *, strict: bool = False
    ) -> None:
        """`wanted` are the classes of events, beside the surface's, that the caller needs."""
        self._version = version
        self._wanted = frozenset(wanted)
        self._strict = strict
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
        head, find, actions = _HEAD.match, data.find, {} if self._strict else self._actions
        at, lines, seq = 0, 0, self.next_seq
        try:
            while at < size_bytes:
                end = find(b"\n", at, size_bytes)
                lines += 1
                glance = head(data, at)
                action = None
                if glance is not None and int(glance[2]) == seq:
                    action = actions.get(glance[1])
                if action is _DECODE_FAILURE and find(_FAILURE, at, end) < 0:
                    action = _SKIP
                if action is _SKIP and find(_SURFACE_OP, at, end) < 0 and data[end - 1] == _BRACE:
                    seq += 1
                else:
                    place = Place(frame_bytes, start_bytes + at, end - at)
                    event = action and _light_event(action, data, at, end, seq, place)
                    if event:
                        found.append(event)
                        seq += 1
                    else:
                        seq = self._decode(bytes(data[at:end]), seq, place, found)
                at = end + 1
        except RuleBroken as fault:
            fault.events = tuple(found)
            raise
        finally:
            self.lines += lines
            self.next_seq = seq
        return found

    def _decode(self, line: bytes, seq: int, place: Place, found: list[Event]) -> int:
        """Appends the line's event where it is wanted; returns the seq that must come next."""
        if self._strict:
            wire.load(line)
        event = decode(line, self._version, place)
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
    """Raises `RuleBroken` (seq-gap, seq-repeated) unless `found` is the seq that must come next."""
    if found > expected:
        missing = "" if found == expected + 1 else f"–{found - 1}"
        raise RuleBroken(
            Damage.SEQ_GAP, f"seq {expected}{missing} missing: {found} comes next", found
        )
    if found < expected:
        raise RuleBroken(
            Damage.SEQ_REPEATED, f"seq {found} again, where {expected} must come", found
        )
