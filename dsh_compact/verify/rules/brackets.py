"""Compactions: brackets don't nest or cross a turn, and a summary is followed by its message.

A bracket that a `session/end-seed` follows belongs to a process that died. So what a crash may
leave behind (a turn closed inside it, a summary without its message) breaks a rule only once the
bracket goes on; until then it is pending.
"""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from dsh_compact.codec.audit import Audited, Owner
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import (
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
)
from dsh_compact.verify.rules.breach import (
    Breach,
    Fold,
    Judge,
    Taker,
    View,
    ends_of,
    is_checkpoint,
    quoted,
)
from dsh_compact.verify.rules.lifecycle import Lifecycle
from dsh_compact.words import counted


class Bracket(Struct, kw_only=True):
    """The open compaction, and what it breaks unless its process turns out to have died.

    `turn` is the one that was open when it started, which `start` should name.
    """

    record: Audited
    start: CompactionStart
    turn: int | None
    command_id: str | None
    pending: list[Breach]
    has_summary: bool = False


class Saved(Struct, frozen=True):
    """What a summary or prune changes here."""

    before: Audited | None
    has_summary: bool


class Brackets(Fold):
    """The open bracket, None while there is none."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        """`lifecycle` says which turn is open; it takes each record in after this fold."""
        self._lifecycle = lifecycle
        self._before: Audited | None = None
        self.bracket: Bracket | None = None

    def end(self, view: View) -> Iterator[Breach]:
        """A prune without its result, a bracket without its end."""
        if self._before is not None and isinstance(self._before.event, CompactionPrune):
            yield _lonely(self._before)
        if self.bracket is not None:
            yield from self.bracket.pending
            problem = "the compaction that starts here has no end"
            yield Breach(self.bracket.record, Damage.BRACKET_OPEN, problem)

    def save(self) -> "Saved":
        """What `load` needs to forget the records taken since."""
        bracket = self.bracket
        return Saved(self._before, bracket is not None and bracket.has_summary)

    def load(self, saved: "Saved") -> None:
        """Forgets a summary or prune that was taken since `save`."""
        self._before = saved.before
        if self.bracket is not None:
            self.bracket.has_summary = saved.has_summary

    # What stands directly before what

    def announces(self, record: Audited) -> bool:
        """Whether the record directly before, a prune or a summary, is about this one."""
        match None if self._before is None else self._before.event:
            case CompactionPrune(start_seq=start, end_seq=end):
                return record.type == "tool/result" and ends_of(record) == (start, end)
            case CompactionSummary(start_seq=start, end_seq=end, compaction_id=named):
                about = is_checkpoint(record) and ends_of(record) == (start, end)
                return about and _compaction(record) == named
            case _:
                return False

    def judge_announced(self, record: Audited) -> list[Breach]:
        """What is missing directly before the record, or behind what stands there."""
        found: list[Breach] = []
        if self._before is None and record.type not in ("tool/result", "user/message"):
            return found  # nearly every record
        if self.announces(record):
            return found
        if self._before is not None and isinstance(self._before.event, CompactionPrune):
            found.append(_lonely(self._before))
        elif record.type == "tool/result" and ends_of(record) is not None:
            problem = "a result is replaced with no compaction/prune directly before"
            found.append(Breach(record, Damage.PRUNE_UNANNOUNCED, problem))
        if is_checkpoint(record):
            problem = "no summary of the same range stands directly before the checkpoint"
            found.append(Breach(record, Damage.SUMMARY_MISSING, problem))
        return found

    def expect_announced(self, record: Audited) -> list[Breach]:
        """Takes in what the record announces; gives a summary that it does not complete."""
        late = [] if self._before is None else self._expect_checkpoint(self._before, record)
        announces = isinstance(record.event, CompactionSummary | CompactionPrune)
        self._before = record if announces else None
        return late

    def _expect_checkpoint(self, before: Audited, record: Audited) -> list[Breach]:
        if not isinstance(before.event, CompactionSummary) or self.announces(record):
            return []
        problem = "the summary is not followed by the message that replaces its range"
        breach = Breach(before, Damage.SUMMARY_WITHOUT_REPLACEMENT, problem)
        if self.bracket is None:
            return [breach]
        self.bracket.pending.append(breach)
        return []

    # Starts, ends and what is in between

    def _judge_start(self, record: Audited, view: View) -> Iterator[Breach]:
        assert isinstance(record.event, CompactionStart)
        if self.bracket is not None:
            other = self.bracket.start.seq
            problem = f"a compaction starts inside the one that starts at seq {other}"
            yield Breach(record, Damage.BRACKET_NESTED, problem)
        if record.event.turn != self._lifecycle.turn:
            named = f"the compaction names {_turn(record.event.turn)}"
            problem = f"{named}, and {self._lifecycle.where}"
            yield Breach(record, Damage.BRACKET_TURN_WRONG, problem)

    def _judge_summary(self, record: Audited, view: View) -> Iterator[Breach]:
        assert isinstance(record.event, CompactionSummary)
        yield from self._judge_owner(record, record.event.compaction_id)
        if self.bracket is not None and self.bracket.has_summary:
            yield Breach(record, Damage.SUMMARY_REPEATED, "a second summary in one compaction")
        yield from _judge_shadow(record, record.event, view)

    def _judge_prune(self, record: Audited, view: View) -> Iterator[Breach]:
        assert isinstance(record.event, CompactionPrune)
        yield from _judge_shadow(record, record.event, view)

    def _judge_checkpoint(self, record: Audited, view: View) -> Iterator[Breach]:
        if is_checkpoint(record):
            yield from self._judge_owner(record, _compaction(record))

    def _judge_end(self, record: Audited, view: View) -> Iterator[Breach]:
        event = record.event
        assert isinstance(event, CompactionEnd)
        foreign = list(self._judge_owner(record, event.compaction_id))
        yield from foreign
        if foreign or self.bracket is None:
            return
        if event.turn != self.bracket.turn:
            started = _turn(self.bracket.turn)
            problem = f"the compaction of {started} ends in {_turn(event.turn)}"
            yield Breach(record, Damage.BRACKET_TURN_WRONG, problem)
        if event.error is None and not self.bracket.has_summary:
            problem = "a compaction without a summary ends without an error"
            yield Breach(record, Damage.BRACKET_EMPTY, problem)

    def _judge_owner(self, record: Audited, named: str | None) -> Iterator[Breach]:
        """The compaction that is named is the open one, and its turn is still open."""
        bracket = self.bracket
        command = record.detail.command_id if isinstance(record.detail, Owner) else None
        if bracket is None or (bracket.start.compaction_id, bracket.command_id) != (named, command):
            problem = f"{record.type} belongs to the compaction {quoted(named)}, which is not open"
            yield Breach(record, Damage.BRACKET_ID_WRONG, problem)
        elif bracket.turn != self._lifecycle.turn and record.type != "user/message":
            belongs = f"the compaction belongs to {_turn(bracket.turn)}"
            problem = f"{belongs}, and {self._lifecycle.where}"
            yield Breach(record, Damage.BRACKET_TURN_WRONG, problem)

    # Taking in

    def _take_turn(self, record: Audited) -> None:
        if self.bracket is not None:
            start = self.bracket.start.seq
            problem = f"{record.type} inside the compaction that starts at seq {start}"
            self.bracket.pending.append(Breach(record, Damage.BRACKET_CROSSES_TURN, problem))

    def _take_start(self, record: Audited) -> list[Breach]:
        if not isinstance(record.event, CompactionStart):
            return []
        late = [] if self.bracket is None else self.bracket.pending
        command = record.detail.command_id if isinstance(record.detail, Owner) else None
        self.bracket = Bracket(
            record=record,
            start=record.event,
            turn=self._lifecycle.turn,
            command_id=command,
            pending=[],
        )
        return late

    def _take_summary(self, record: Audited) -> None:
        if self.bracket is not None:
            self.bracket.has_summary = True

    def _take_end(self, record: Audited) -> list[Breach]:
        bracket, self.bracket = self.bracket, None
        if bracket is None or not isinstance(record.event, CompactionEnd):
            return []
        if record.event.error is None:
            return bracket.pending
        failed = Damage.SUMMARY_WITHOUT_REPLACEMENT  # is what a failed attempt may leave
        return [breach for breach in bracket.pending if breach.damage is not failed]

    def _take_seed(self, record: Audited) -> list[Breach]:
        bracket, self.bracket = self.bracket, None
        if bracket is None:
            return []
        problem = "the process that held this compaction died before its end"
        return [Breach(bracket.record, Damage.BRACKET_STALE, problem)]

    JUDGES: ClassVar[dict[str, Judge]] = {
        "user/message": _judge_checkpoint,
        "compaction/start": _judge_start,
        "compaction/summary": _judge_summary,
        "compaction/prune": _judge_prune,
        "compaction/end": _judge_end,
    }
    TAKERS: ClassVar[dict[str, Taker]] = {
        "turn/start": _take_turn,
        "turn/end": _take_turn,
        "compaction/start": _take_start,
        "compaction/summary": _take_summary,
        "compaction/end": _take_end,
        "session/end-seed": _take_seed,
    }


def _judge_shadow(
    record: Audited, shadow: CompactionSummary | CompactionPrune, view: View
) -> Iterator[Breach]:
    """What is announced to leave is exactly what stands in the range, at its price."""
    try:
        span = view.surface.span(shadow.start_seq, shadow.end_seq)
    except RuleBroken as fault:
        yield Breach(record, Damage.SHADOW_DIFFERS, fault.problem)
        return
    if tuple(node.seq for node in span) != shadow.shadowed_seqs:
        problem = f"shadowedSeqs differs from the {counted(len(span), 'message')} of its range"
        yield Breach(record, Damage.SHADOW_DIFFERS, problem)
        return
    if span[0].kind == "system" and view.surface.head is span[0]:
        yield Breach(record, Damage.SYSTEM_FOLDED, "the range begins at the system prompt")
    prices = [view.price(node) for node in span]
    known = [price for price in prices if price is not None]
    if len(known) == len(prices) and sum(known) != shadow.shadowed_tokens:
        found = "no whole number" if shadow.shadowed_tokens is None else shadow.shadowed_tokens
        problem = f"shadowedTokenCount is {found}, the price is {sum(known)}"
        yield Breach(record, Damage.PRICE_DIFFERS, problem)


def _lonely(prune: Audited) -> Breach:
    problem = "the prune is not followed by the result that replaces its original"
    return Breach(prune, Damage.PRUNE_WITHOUT_RESULT, problem)


def _compaction(record: Audited) -> str | None:
    return None if record.message is None else record.message.message.compaction_id


def _turn(turn: int | None) -> str:
    return "no turn" if turn is None else f"turn {turn}"
