"""Whether each record may stand where it stands: turns, steps, calls, brackets, and who answers whom.

A fold beside the surface's, over audited records. `judge` says what a record breaks and changes
nothing; `accept` takes it in all the same, so that what follows is judged by what the log says. The
rules are those by which release 0.2.1 opens a log, and those by which a record means anything at all.
This module knows no file and no line of JSON.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from dsh_compact.codec.audit import (
    Audited,
    Catalogued,
    Command,
    Definer,
    Delivery,
    Dispatch,
    Owner,
    Retry,
    Route,
    Seed,
    Title,
)
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import (
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    Replace,
    SurfaceChange,
    ToolCallStarted,
)
from dsh_compact.surface import Node, Surface

NOT_STARTED: Final = "TOOL_NOT_STARTED"
NOT_STARTED_TEXT: Final = (
    "The tool call was interrupted before the Harness recorded it as started."
    " Retry it if it is still needed."
)
"""What stands in the result of a call that never began; release 0.2.1 compares it to the letter."""


class Breach(NamedTuple):
    """A record breaks a rule."""

    record: Audited
    damage: Damage
    problem: str


class Call(Struct, kw_only=True):
    """A call that waits for its result; `started_seq` is None until the harness ran it."""

    call_id: str
    name: str
    arguments: str
    record: Audited
    started_seq: int | None = None


class Bracket(Struct, kw_only=True):
    """The open compaction; `pending` breaks a rule unless the process turns out to have died."""

    record: Audited
    start: CompactionStart
    command_id: str | None
    has_summary: bool = False
    pending: list[Breach] = []


Price = Callable[[Node], int | None]


class Conduct:
    """Where the session stands, and all that later records may refer to.

    `calls` are those that wait, by id and in order; `bracket` the open compaction.
    """

    def __init__(
        self,
        version: int,
        session_id: str | None,
        *,
        is_seeded: bool = False,
        has_parent: bool = False,
    ) -> None:
        """All as the header says; `session_id` is None where there is none."""
        self.version = version
        self.session_id = session_id
        self.is_seeded = is_seeded
        self.has_parent = has_parent
        self.turn: int | None = None
        self.step: int | None = None
        self.last_turn = 0
        self.last_step = 0
        self.calls: dict[str, Call] = {}
        self.bracket: Bracket | None = None
        self.provider: str | None = None
        self.before: Audited | None = None
        self.has_inherited = False
        self.pairs: dict[int, tuple[Audited, tuple[str, ...], str | None]] = {}
        self._human_seqs: set[int] = set()
        self._header_seqs: set[int] = set()
        self._command_seqs: set[int] = set()
        self._commands: set[str] = set()
        self._children: dict[str, Audited] = {}
        self._retries: dict[tuple[str, int], tuple[int | None, int | None]] = {}
        self._policies: dict[tuple[int | None, int | None, str, str], Retry] = {}
        self._retry_ids: set[str] = set()
        self._begun_retries: set[tuple[str, int]] = set()
        self._dispatches: dict[str, tuple[Dispatch, bool]] = {}
        self._foreign_deliveries: list[Breach] = []

    # Judging --------------------------------------------------------------------------------------

    def judge(self, record: Audited, surface: Surface, price: Price) -> list[Breach]:
        """What `record` breaks, given the surface before it; changes nothing."""
        found = list(self._judge_pairs(record))
        judge = _JUDGES.get(record.type)
        if judge is not None and record.event is not None:
            found += judge(self, record, surface, price)
        return found

    def _judge_pairs(self, record: Audited) -> Iterator[Breach]:
        """A prune stands directly before the result that it announces, a summary before its message."""
        before = None if self.before is None else self.before.event
        ends = _ends(record)
        if isinstance(before, CompactionPrune):
            assert self.before is not None
            if record.type != "tool/result" or ends != (before.start_seq, before.end_seq):
                problem = "the prune is not followed by the result that replaces its original"
                yield Breach(self.before, Damage.PRUNE_WITHOUT_RESULT, problem)
        elif record.type == "tool/result" and ends is not None:
            problem = "a result is replaced with no compaction/prune directly before"
            yield Breach(record, Damage.PRUNE_UNANNOUNCED, problem)
        if _is_checkpoint(record) and not _follows(before, record):
            problem = "no summary of the same range stands directly before the checkpoint"
            yield Breach(record, Damage.SUMMARY_MISSING, problem)

    def _judge_turn_start(
        self, record: Audited, surface: Surface, price: Price
    ) -> Iterator[Breach]:
        if self.turn is not None:
            problem = f"turn {record.turn} starts while turn {self.turn} is open"
            yield Breach(record, Damage.TURN_UNBALANCED, problem)
        elif record.turn != self.last_turn + 1:
            problem = f"turn {record.turn} starts where {self.last_turn + 1} must"
            yield Breach(record, Damage.TURN_MISCOUNTED, problem)

    def _judge_turn_end(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        if self.turn is None or record.turn != self.turn:
            problem = f"turn {record.turn} ends, and {_open('turn', self.turn)}"
            yield Breach(record, Damage.TURN_UNBALANCED, problem)
            return
        if self.step is not None:
            problem = f"turn {record.turn} ends while its step {self.step} is open"
            yield Breach(record, Damage.STEP_UNBALANCED, problem)
        yield from self._judge_waiting(record)

    def _judge_step_start(
        self, record: Audited, surface: Surface, price: Price
    ) -> Iterator[Breach]:
        if self.turn is None or record.turn != self.turn:
            problem = f"a step of turn {record.turn} starts, and {_open('turn', self.turn)}"
            yield Breach(record, Damage.OUTSIDE_TURN, problem)
        elif self.step is not None:
            problem = f"step {record.step} starts while step {self.step} is open"
            yield Breach(record, Damage.STEP_UNBALANCED, problem)
        elif record.step != self.last_step + 1:
            problem = f"step {record.step} starts where {self.last_step + 1} must"
            yield Breach(record, Damage.STEP_MISCOUNTED, problem)

    def _judge_step_end(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        if self.step is None or (record.turn, record.step) != (self.turn, self.step):
            problem = f"step {record.step} of turn {record.turn} ends, and {self._where()}"
            yield Breach(record, Damage.STEP_UNBALANCED, problem)
            return
        yield from self._judge_waiting(record)

    def _judge_waiting(self, record: Audited) -> Iterator[Breach]:
        if self.calls:
            names = ", ".join(f"{name!r:.40}" for name in list(self.calls)[:3])
            more = f" and {len(self.calls) - 3} more" if len(self.calls) > 3 else ""
            problem = f"{record.type} while a call has no result: {names}{more}"
            yield Breach(record, Damage.CALL_WITHOUT_RESULT, problem)

    def _judge_in_step(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        if self.step is None or (record.turn, record.step) != (self.turn, self.step):
            where = f"step {record.step} of turn {record.turn}"
            problem = f"{record.type} belongs to {where}, and {self._where()}"
            yield Breach(record, Damage.OUTSIDE_STEP, problem)

    def _judge_in_turn(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        if self.turn is None:
            problem = f"{record.type} stands where no turn is open"
            yield Breach(record, Damage.OUTSIDE_TURN, problem)

    def _judge_system(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        yield from self._judge_in_step(record, surface, price)
        head = surface.head
        if head is not None and head.kind != "system":
            problem = "a system message, and the surface does not begin with one"
            yield Breach(record, Damage.SYSTEM_MISPLACED, problem)

    def _judge_developer(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        yield from self._judge_in_step(record, surface, price)
        if isinstance(record.detail, Definer) and record.detail.header_seq not in self._header_seqs:
            problem = f"headerSeq {record.detail.header_seq} is no earlier request/header"
            yield Breach(record, Damage.MESSAGE_WRONG, problem)

    def _judge_answer(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        yield from self._judge_in_step(record, surface, price)
        asked: set[str] = set()
        for call in record.message.message.calls if record.message is not None else ():
            if call.id in self.calls or call.id in asked:
                problem = f"the call id {call.id!r:.60} is used again while it waits for its result"
                yield Breach(record, Damage.CALL_ID_REPEATED, problem)
            asked.add(call.id)

    def _judge_call(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        yield from self._judge_in_step(record, surface, price)
        event = record.event
        assert isinstance(event, ToolCallStarted)
        call = self.calls.get(event.call_id)
        if call is None:
            problem = f"the call {event.call_id!r:.60} is started, and no message asks for it"
            yield Breach(record, Damage.CALL_DIFFERS, problem)
        elif (call.name, call.arguments) != (event.name, event.arguments):
            problem = f"the call {event.call_id!r:.60} is started otherwise than the message asks"
            yield Breach(record, Damage.CALL_DIFFERS, problem)
        elif call.started_seq is not None:
            problem = f"the call {event.call_id!r:.60} is started a second time"
            yield Breach(record, Damage.CALL_ID_REPEATED, problem)

    def _judge_result(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        if _ends(record) is not None:
            yield from self._judge_in_turn(record, surface, price)
            return
        yield from self._judge_in_step(record, surface, price)
        if record.message is None:
            return
        call_id = record.message.message.call_id or _wrapped_id(record)
        call = self.calls.get(call_id or "")
        if call is None:
            problem = f"a result for the call {call_id!r:.60}, which is not waiting for one"
            yield Breach(record, Damage.RESULT_WITHOUT_CALL, problem)
        elif call.started_seq is None and not self._is_not_started(record, call.call_id):
            problem = f"a result for the call {call_id!r:.60}, which was never started"
            yield Breach(record, Damage.RESULT_WITHOUT_CALL, problem)

    def _is_not_started(self, record: Audited, call_id: str) -> bool:
        """Whether it is the very result by which the harness closes a call that never began."""
        if record.error_code != NOT_STARTED or record.message is None:
            return False
        message_id = record.message.message.id or ""
        if self.version != 4 or message_id.startswith(f"forked-tool-result-{call_id}-"):
            return True
        prefix = f"interrupted-tool-result-{call_id}-"
        return (
            message_id.startswith(prefix)
            and message_id[len(prefix) :].isdecimal()
            and record.message.message.text == NOT_STARTED_TEXT
            and not record.message.sources
        )

    def _judge_user(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        if _is_checkpoint(record):
            assert record.message is not None
            command = record.detail.command_id if isinstance(record.detail, Owner) else None
            named = record.message.message.compaction_id or ""
            yield from self._judge_owner(record, named, command)

    # Compactions

    def _judge_start(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        assert isinstance(record.event, CompactionStart)
        if self.bracket is not None:
            problem = (
                f"a compaction starts inside the one that starts at seq {self.bracket.start.seq}"
            )
            yield Breach(record, Damage.BRACKET_NESTED, problem)
        if record.event.turn != self.turn:
            problem = f"the compaction names turn {_named(record.event.turn)}, and {self._where()}"
            yield Breach(record, Damage.BRACKET_TURN_WRONG, problem)

    def _judge_summary(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        event = record.event
        assert isinstance(event, CompactionSummary)
        command = record.detail.command_id if isinstance(record.detail, Owner) else None
        yield from self._judge_owner(record, event.compaction_id, command)
        if self.bracket is not None and self.bracket.has_summary:
            problem = "a second summary in one compaction"
            yield Breach(record, Damage.SUMMARY_REPEATED, problem)
        yield from self._judge_shadow(record, event, surface, price)

    def _judge_prune(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        assert isinstance(record.event, CompactionPrune)
        yield from self._judge_shadow(record, record.event, surface, price)

    def _judge_end(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        event = record.event
        assert isinstance(event, CompactionEnd)
        command = record.detail.command_id if isinstance(record.detail, Owner) else None
        wrong = list(self._judge_owner(record, event.compaction_id, command))
        yield from wrong
        if wrong or self.bracket is None:
            return
        if event.turn != self.bracket.start.turn:
            problem = f"the compaction ends in turn {_named(event.turn)}, and started in another"
            yield Breach(record, Damage.BRACKET_TURN_WRONG, problem)
        if event.error is None and not self.bracket.has_summary:
            problem = "a compaction without a summary ends without an error"
            yield Breach(record, Damage.BRACKET_EMPTY, problem)

    def _judge_owner(self, record: Audited, named: str, command: str | None) -> Iterator[Breach]:
        """The compaction that is named is the open one, and its turn still is the open turn."""
        bracket = self.bracket
        if bracket is None or (bracket.start.compaction_id, bracket.command_id) != (named, command):
            problem = f"{record.type} belongs to the compaction {named!r:.60}, which is not open"
            yield Breach(record, Damage.BRACKET_ID_WRONG, problem)
        elif bracket.start.turn != self.turn and record.type != "user/message":
            problem = (
                f"the compaction belongs to turn {_named(bracket.start.turn)}, {self._where()}"
            )
            yield Breach(record, Damage.BRACKET_TURN_WRONG, problem)

    def _judge_shadow(
        self,
        record: Audited,
        shadow: CompactionSummary | CompactionPrune,
        surface: Surface,
        price: Price,
    ) -> Iterator[Breach]:
        try:
            span = surface.span(shadow.start_seq, shadow.end_seq)
        except RuleBroken as fault:
            yield Breach(record, Damage.SHADOW_DIFFERS, fault.problem)
            return
        if tuple(node.seq for node in span) != shadow.shadowed_seqs:
            problem = f"shadowedSeqs differs from the {len(span)} messages of its range"
            yield Breach(record, Damage.SHADOW_DIFFERS, problem)
            return
        if span[0].kind == "system" and surface.head is span[0]:
            yield Breach(record, Damage.SYSTEM_FOLDED, "the range begins at the system prompt")
        prices = [price(node) for node in span]
        known = [one for one in prices if one is not None]
        if len(known) == len(prices) and sum(known) != shadow.shadowed_tokens:
            problem = f"shadowedTokenCount is {shadow.shadowed_tokens}, the price is {sum(known)}"
            yield Breach(record, Damage.PRICE_DIFFERS, problem)

    # Other events

    def _judge_title(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        title = record.detail
        if not isinstance(title, Title):
            return
        if not title.is_request and title.by_user != (not title.message_seqs):
            problem = "a title cites messages unless a user gave it, and only then none"
            yield Breach(record, Damage.TITLE_WRONG, problem)
        strange = [seq for seq in title.message_seqs if seq not in self._human_seqs]
        if strange or len(set(title.message_seqs)) < len(title.message_seqs):
            cited = strange[0] if strange else "a seq twice"
            problem = f"the title cites {cited}, which is no earlier message of a human"
            yield Breach(record, Damage.TITLE_WRONG, problem)

    def _judge_delivery(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        delivery = record.detail
        if isinstance(delivery, Delivery) and delivery.through_seq >= (record.seq or 0):
            problem = f"throughSeq {delivery.through_seq} is not earlier than the event itself"
            yield Breach(record, Damage.DELIVERY_WRONG, problem)
        if not self.has_parent:
            yield from self._judge_delivered(record)

    def _judge_delivered(self, record: Audited) -> Iterator[Breach]:
        delivery = record.detail
        if isinstance(delivery, Delivery) and delivery.session_id != self.session_id:
            problem = f"a delivery of the session {delivery.session_id!r:.60}, not of this one"
            yield Breach(record, Damage.DELIVERY_WRONG, problem)

    def _judge_seed(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        seed = record.detail
        if isinstance(seed, Seed) and seed.inherited and self.version == 4 and not self.is_seeded:
            problem = "events are marked as inherited, and the header says that none are"
            yield Breach(record, Damage.SEED_WRONG, problem)

    def _judge_command(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        command = record.detail
        if not isinstance(command, Command):
            return
        known = command.command_id in self._commands
        if command.is_done is not known:
            problem = "has no command/run before it" if command.is_done else "is run a second time"
            yield Breach(
                record, Damage.PAIR_BROKEN, f"command {command.command_id!r:.60} {problem}"
            )
        source = command.source_seq
        if source is not None and (source >= (record.seq or 0) or source in self._command_seqs):
            problem = f"sourceEventSeq {source} is no earlier event that a command can come from"
            yield Breach(record, Damage.PAIR_BROKEN, problem)

    def _judge_retry(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        retry = record.detail
        if not isinstance(retry, Retry):
            return
        key, where = (retry.retry_id, retry.number), (record.turn, record.step)
        if retry.is_started:
            if self._retries.get(key) != where or key in self._begun_retries:
                problem = "llm/retry-started answers no retry that was announced"
                yield Breach(record, Damage.PAIR_BROKEN, problem)
            return
        step = self.last_step if self.step is None else self.step
        if self.turn is None or where != (self.turn, step):
            problem = f"llm/retry names step {record.step} of turn {record.turn}, {self._where()}"
            yield Breach(record, Damage.OUTSIDE_STEP, problem)
        prior = self._policies.get((*where, *retry.policy))
        if retry.policy[0] != self.provider:
            problem = f"llm/retry is for {retry.policy[0]!r:.60}, requests go to {self.provider!r}"
            yield Breach(record, Damage.PAIR_BROKEN, problem)
        elif retry.number != (1 if prior is None else prior.number + 1) or (
            retry.retry_id in self._retry_ids if prior is None else prior.retry_id != retry.retry_id
        ):
            problem = f"llm/retry counts {retry.number}, which does not go on from the one before"
            yield Breach(record, Damage.PAIR_BROKEN, problem)

    def _judge_dispatch(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        yield from self._judge_in_turn(record, surface, price)
        dispatch = record.detail
        if not isinstance(dispatch, Dispatch):
            return
        known = self._dispatches.get(dispatch.call_id)
        parent = self._dispatches.get(dispatch.parent_id)
        is_child = dispatch.parent_id == dispatch.root_id or (
            parent is not None and parent[0].root_id == dispatch.root_id
        )
        if dispatch.is_start:
            fits = known is None
        else:
            fits = known is not None and known[1] and known[0].identity == dispatch.identity
        if not fits or not is_child:
            problem = f"the inner call {dispatch.call_id!r:.60} does not fit its start or parent"
            yield Breach(record, Damage.PAIR_BROKEN, problem)

    def _judge_catalogue(self, record: Audited, surface: Surface, price: Price) -> Iterator[Breach]:
        child = record.detail
        if isinstance(child, Catalogued) and child.child_id in self._children:
            problem = f"the child {child.child_id!r:.60} is in the catalogue already"
            yield Breach(record, Damage.PAIR_BROKEN, problem)

    # Accepting ------------------------------------------------------------------------------------

    def accept(self, record: Audited, surface: Surface) -> list[Breach]:
        """Takes `record` in, whatever was judged; returns what only now turns out to be broken.

        `surface` is the one that the record found.
        """
        late = self._expect_checkpoint(record)
        take = _TAKERS.get(record.type)
        if take is not None and record.event is not None:
            late += take(self, record) or []
        if record.message is not None and isinstance(record.event, SurfaceChange):
            self._remember(record)
        self.before = record
        return late

    def end(self, surface: Surface, price: Price) -> list[Breach]:
        """What the end of the log shows: what is open, and calls and results that were parted."""
        found = list(self._judge_parted(surface))
        before = self.before
        if before is not None and isinstance(before.event, CompactionPrune):
            problem = "the prune is not followed by the result that replaces its original"
            found.append(Breach(before, Damage.PRUNE_WITHOUT_RESULT, problem))
        if self.bracket is not None:
            found += self.bracket.pending
            problem = "the compaction that starts here has no end"
            found.append(Breach(self.bracket.record, Damage.BRACKET_OPEN, problem))
        for call in self.calls.values():
            problem = f"the call {call.call_id!r:.60} has no result, and the log ends"
            found.append(Breach(call.record, Damage.CALL_OPEN, problem))
        if self.turn is not None and before is not None:
            found.append(Breach(before, Damage.TURN_OPEN, f"the log ends in turn {self.turn}"))
        return found + self._foreign_deliveries

    def _judge_parted(self, surface: Surface) -> Iterator[Breach]:
        waiting: dict[str, Audited] = {}
        for node in surface:
            record, asked, answered = self.pairs.get(node.seq, (None, (), None))
            if record is None:
                continue
            waiting.update(dict.fromkeys(asked, record))
            if answered is not None and waiting.pop(answered, None) is None:
                problem = f"the result of the call {answered!r:.60} is on the surface without it"
                yield Breach(record, Damage.RESULT_PARTED, problem)
        for call_id, record in waiting.items():
            if call_id not in self.calls:
                problem = f"the call {call_id!r:.60} is on the surface without its result"
                yield Breach(record, Damage.CALL_PARTED, problem)

    def _expect_checkpoint(self, record: Audited) -> list[Breach]:
        """A summary without its checkpoint means nothing, unless its process died right there."""
        before = self.before
        if before is None or not isinstance(before.event, CompactionSummary):
            return []
        if _is_checkpoint(record) and _follows(before.event, record):
            return []
        problem = "the summary is not followed by the message that replaces its range"
        breach = Breach(before, Damage.SUMMARY_WITHOUT_REPLACEMENT, problem)
        if self.bracket is None:
            return [breach]
        self.bracket.pending.append(breach)
        return []

    def _remember(self, record: Audited) -> None:
        assert record.message is not None and record.seq is not None
        message = record.message.message
        asked = (
            tuple(call.id for call in message.calls) if record.type == "assistant/message" else ()
        )
        answered = None
        if record.type == "tool/result":
            answered = message.call_id or _wrapped_id(record)
        if asked or answered is not None:
            self.pairs[record.message.seq] = (record, asked, answered)
        if record.type == "user/message" and message.source_kind == "user":
            self._human_seqs.add(record.message.seq)

    def _take_turn_start(self, record: Audited) -> list[Breach]:
        late = self._cross(record)
        self.turn, self.step, self.last_step = record.turn, None, 0
        self.last_turn = self.last_turn + 1 if record.turn is None else record.turn
        self.calls = {}
        return late

    def _take_turn_end(self, record: Audited) -> list[Breach]:
        late = self._cross(record)
        self.turn = self.step = None
        self.calls = {}
        return late

    def _cross(self, record: Audited) -> list[Breach]:
        if self.bracket is not None:
            problem = f"{record.type} inside the compaction that starts at seq"
            whole = f"{problem} {self.bracket.start.seq}"
            self.bracket.pending.append(Breach(record, Damage.BRACKET_CROSSES_TURN, whole))
        return []

    def _take_step_start(self, record: Audited) -> None:
        if record.turn != self.turn and record.turn is not None:
            self.turn, self.last_turn = record.turn, max(self.last_turn, record.turn)
        self.step = record.step
        self.last_step = self.last_step + 1 if record.step is None else record.step
        self.calls = {}

    def _take_step_end(self, record: Audited) -> None:
        self.step = None
        self.calls = {}

    def _take_answer(self, record: Audited) -> None:
        for call in record.message.message.calls if record.message is not None else ():
            self.calls[call.id] = Call(
                call_id=call.id, name=call.name, arguments=call.arguments, record=record
            )

    def _take_call(self, record: Audited) -> None:
        assert isinstance(record.event, ToolCallStarted)
        call = self.calls.get(record.event.call_id)
        if call is not None:
            call.started_seq = record.event.seq

    def _take_result(self, record: Audited) -> None:
        if _ends(record) is None and record.message is not None:
            self.calls.pop(record.message.message.call_id or _wrapped_id(record) or "", None)

    def _take_start(self, record: Audited) -> list[Breach]:
        assert isinstance(record.event, CompactionStart)
        late = [] if self.bracket is None else self.bracket.pending
        command = record.detail.command_id if isinstance(record.detail, Owner) else None
        self.bracket = Bracket(record=record, start=record.event, command_id=command, pending=[])
        return late

    def _take_summary(self, record: Audited) -> None:
        if self.bracket is not None:
            self.bracket.has_summary = True

    def _take_end(self, record: Audited) -> list[Breach]:
        assert isinstance(record.event, CompactionEnd)
        bracket, self.bracket = self.bracket, None
        if bracket is None:
            return []
        if record.event.error is None:
            return bracket.pending
        return [x for x in bracket.pending if x.damage is not Damage.SUMMARY_WITHOUT_REPLACEMENT]

    def _take_seed(self, record: Audited) -> list[Breach]:
        if isinstance(record.detail, Seed) and record.detail.inherited:
            self.has_inherited = True
            self._foreign_deliveries = []  # what came before is another session's
            self._children = {}
        bracket, self.bracket = self.bracket, None
        if bracket is None:
            return []
        problem = "the process that held this compaction died before its end"
        return [Breach(bracket.record, Damage.BRACKET_STALE, problem)]

    def _take_header(self, record: Audited) -> None:
        assert record.event is not None
        self._header_seqs.add(record.event.seq)
        if isinstance(record.detail, Route):
            self.provider = record.detail.provider

    def _take_command(self, record: Audited) -> None:
        if isinstance(record.detail, Command) and record.seq is not None:
            self._commands.add(record.detail.command_id)
            self._command_seqs.add(record.seq)

    def _take_retry(self, record: Audited) -> None:
        retry = record.detail
        if not isinstance(retry, Retry):
            return
        key, where = (retry.retry_id, retry.number), (record.turn, record.step)
        if retry.is_started:
            self._begun_retries.add(key)
        else:
            self._retries[key] = where
            self._policies[(*where, *retry.policy)] = retry
            self._retry_ids.add(retry.retry_id)

    def _take_dispatch(self, record: Audited) -> None:
        if isinstance(record.detail, Dispatch):
            self._dispatches[record.detail.call_id] = (record.detail, record.detail.is_start)

    def _take_delivery(self, record: Audited) -> None:
        if self.has_parent:
            self._foreign_deliveries += self._judge_delivered(record)

    def _take_catalogue(self, record: Audited) -> None:
        if isinstance(record.detail, Catalogued):
            self._children[record.detail.child_id] = record

    # Words ----------------------------------------------------------------------------------------

    def _where(self) -> str:
        if self.turn is None:
            return "no turn is open"
        if self.step is None:
            return f"turn {self.turn} is open, with no step"
        return f"step {self.step} of turn {self.turn} is open"


def _open(what: str, number: int | None) -> str:
    return f"no {what} is open" if number is None else f"{what} {number} is open"


def _named(turn: int | None) -> str:
    return "none" if turn is None else str(turn)


def _ends(record: Audited) -> tuple[int, int] | None:
    """The range that a record replaces, None where it does not replace."""
    match record.event:
        case SurfaceChange(op=Replace(start_seq=start, end_seq=end)):
            return start, end
        case _:
            return None


def _is_checkpoint(record: Audited) -> bool:
    return (
        record.type == "user/message"
        and record.message is not None
        and record.message.message.compaction_id is not None
        and _ends(record) is not None
    )


def _follows(before: object, record: Audited) -> bool:
    """Whether `before` is the summary that announces the checkpoint `record`."""
    return (
        isinstance(before, CompactionSummary)
        and record.message is not None
        and before.compaction_id == record.message.message.compaction_id
        and (before.start_seq, before.end_seq) == _ends(record)
    )


def _wrapped_id(record: Audited) -> str | None:
    """The call that a result of formats 0 and 3 names in its block."""
    from dsh_compact.events import ToolResult

    match record.message.message.content if record.message is not None else ():
        case (ToolResult(call_id=call_id),):
            return call_id
        case _:
            return None


Judge = Callable[[Conduct, Audited, Surface, Price], Iterator[Breach]]
Taker = Callable[[Conduct, Audited], list[Breach] | None]

# fmt: off
_JUDGES: Final[dict[str, Judge]] = {
    "turn/start": Conduct._judge_turn_start,
    "turn/end": Conduct._judge_turn_end,
    "step/start": Conduct._judge_step_start,
    "step/end": Conduct._judge_step_end,
    "system/message": Conduct._judge_system,
    "developer/message": Conduct._judge_developer,
    "user/message": Conduct._judge_user,
    "assistant/message": Conduct._judge_answer,
    "assistant/attempt": Conduct._judge_in_step,
    "tool/call": Conduct._judge_call,
    "tool/result": Conduct._judge_result,
    "request/header": Conduct._judge_in_turn,
    "request/context": Conduct._judge_in_turn,
    "compaction/start": Conduct._judge_start,
    "compaction/summary": Conduct._judge_summary,
    "compaction/prune": Conduct._judge_prune,
    "compaction/end": Conduct._judge_end,
    "session/title": Conduct._judge_title,
    "session/title-llm-request": Conduct._judge_title,
    "session-log-deepseek/delivery-accepted": Conduct._judge_delivery,
    "session/end-seed": Conduct._judge_seed,
    "command/run": Conduct._judge_command,
    "command/done": Conduct._judge_command,
    "llm/retry": Conduct._judge_retry,
    "llm/retry-started": Conduct._judge_retry,
    "tool/ptc-dispatch": Conduct._judge_dispatch,
    "tool/ptc-dispatch-start": Conduct._judge_dispatch,
    "subagent/catalog": Conduct._judge_catalogue,
}
_TAKERS: Final[dict[str, Taker]] = {
    "turn/start": Conduct._take_turn_start,
    "turn/end": Conduct._take_turn_end,
    "step/start": Conduct._take_step_start,
    "step/end": Conduct._take_step_end,
    "assistant/message": Conduct._take_answer,
    "tool/call": Conduct._take_call,
    "tool/result": Conduct._take_result,
    "request/header": Conduct._take_header,
    "compaction/start": Conduct._take_start,
    "compaction/summary": Conduct._take_summary,
    "compaction/end": Conduct._take_end,
    "session/end-seed": Conduct._take_seed,
    "session-log-deepseek/delivery-accepted": Conduct._take_delivery,
    "command/run": Conduct._take_command,
    "command/done": Conduct._take_command,
    "llm/retry": Conduct._take_retry,
    "llm/retry-started": Conduct._take_retry,
    "tool/ptc-dispatch": Conduct._take_dispatch,
    "tool/ptc-dispatch-start": Conduct._take_dispatch,
    "subagent/catalog": Conduct._take_catalogue,
}
# fmt: on
