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
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

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

_HEAD: Final = re.compile(rb'\{"type":"([a-z/-]{1,60})","seq":(\d{1,15}),"time":\d{1,15},"data":\{')
"""The usual layout: type, seq, time, data, and whatever belongs to the surface behind the data."""

_SURFACE_OP: Final = b'"surfaceOp"'
_APPENDED: Final = b',"surfaceOp":"append"}'
_SKIP: Final = 0
_DECODE: Final = 1
_DECODE_FAILURE: Final = 2
_HEADER: Final = 3


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


def _actions(version: int, wanted: frozenset[type[Any]]) -> dict[bytes, int | str]:
    """What to do with a line of the usual layout, by its type; a surface type's kind is its action."""
    actions: dict[bytes, int | str] = {kind.encode(): _SKIP for kind in KNOWN_TYPES[version]}
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

    def scan(self, lines: Sequence[bytes], frame_bytes: int, start_bytes: int) -> list[Event]:
        """The events in `lines`, of which the first lies at that place; unwanted ones left out.

        Raises `RuleBroken`, which then carries the events before the line at fault; `self.lines`
        counts that line as the last one.
        """
        if self._strict:
            return self._scan_strictly(lines, frame_bytes, start_bytes)
        found: list[Event] = []
        head, actions, seq = _HEAD.match, self._actions, self.next_seq
        index = -1
        try:
            for index, line in enumerate(lines):
                size = len(line)
                glance = head(line)
                if glance is not None and int(glance[2]) == seq:
                    action = actions.get(glance[1])
                    if action == _SKIP:
                        if _SURFACE_OP not in line and line.endswith(b"}"):
                            seq += 1
                            start_bytes += size + 1
                            continue
                    elif action.__class__ is str:
                        if line.endswith(_APPENDED):
                            place = Place(frame_bytes, start_bytes, size)
                            found.append(
                                SurfaceChange(seq, cast("Kind", action), APPEND, (), place)
                            )
                            seq += 1
                            start_bytes += size + 1
                            continue
                    elif action == _DECODE_FAILURE:
                        if b'"failure"' not in line and line.endswith(b"}}}"):
                            seq += 1
                            start_bytes += size + 1
                            continue
                    elif action == _HEADER and _SURFACE_OP not in line:
                        found.append(RequestHeader(seq, Place(frame_bytes, start_bytes, size)))
                        seq += 1
                        start_bytes += size + 1
                        continue
                seq = self._decode(line, seq, Place(frame_bytes, start_bytes, size), found)
                start_bytes += size + 1
        except RuleBroken as fault:
            fault.events = tuple(found)
            raise
        finally:
            self.lines += index + 1
            self.next_seq = seq
        return found

    def _scan_strictly(
        self, lines: Sequence[bytes], frame_bytes: int, start_bytes: int
    ) -> list[Event]:
        found: list[Event] = []
        try:
            for line in lines:
                self.lines += 1
                wire.load(line)
                place = Place(frame_bytes, start_bytes, len(line))
                self.next_seq = self._decode(line, self.next_seq, place, found)
                start_bytes += len(line) + 1
        except RuleBroken as fault:
            fault.events = tuple(found)
            raise
        return found

    def _decode(self, line: bytes, seq: int, place: Place, found: list[Event]) -> int:
        """Appends the line's event where it is wanted; returns the seq that must come next."""
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
