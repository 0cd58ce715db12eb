"""Turns, steps and calls: what is open, and what may therefore stand here.

Turns count 1, 2, 3 and don't overlap; so do the steps of a turn. What a request yields stands in
its step; a call is asked for, started, answered, and nothing ends while one waits.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from msgspec import Struct

from dsh_compact.codec import encode
from dsh_compact.codec.audit import Audited
from dsh_compact.errors import Damage
from dsh_compact.events import ToolCallStarted
from dsh_compact.verify.rules.breach import Breach, Fold, Judge, Taker, View, ends_of, quoted

_NAMED: Final = 3
"""Waiting calls that a problem names; more are counted."""


class Call(Struct, kw_only=True):
    """A call that waits for its result; `started_seq` is None until the harness ran it."""

    call_id: str
    name: str
    arguments: str
    record: Audited
    started_seq: int | None = None


class Lifecycle(Fold):
    """Which turn and step are open; `calls` waits by id, in the order of asking.

    `newest` is the record that came last; `told` are the calls and results (seq of the message, id
    of the call) that broke a rule already.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self.newest: Audited | None = None
        self.turn: int | None = None
        self.step: int | None = None
        self.last_turn = 0
        self.last_step = 0
        self.calls: dict[str, Call] = {}
        self.told: set[tuple[int | None, str]] = set()

    @property
    def where(self) -> str:
        """What is open, in words."""
        if self.turn is None:
            return "no turn is open"
        if self.step is None:
            return f"turn {self.turn} is open, with no step"
        return f"step {self.step} of turn {self.turn} is open"

    def end(self, view: View) -> Iterator[Breach]:
        """What the log ends in: the harness closes it on the next resume."""
        for call in self.calls.values():
            problem = f"the call {quoted(call.call_id)} has no result, and the log ends"
            yield Breach(call.record, Damage.CALL_OPEN, problem)
        if self.turn is not None and self.newest is not None:
            yield Breach(self.newest, Damage.TURN_OPEN, f"the log ends in turn {self.turn}")

    # Turns and steps

    def _judge_turn_start(self, record: Audited, view: View) -> Iterator[Breach]:
        if self.turn is not None:
            problem = f"turn {record.turn} starts while turn {self.turn} is open"
            yield Breach(record, Damage.TURN_UNBALANCED, problem)
        elif record.turn != self.last_turn + 1:
            problem = f"turn {record.turn} starts where {self.last_turn + 1} must"
            yield Breach(record, Damage.TURN_MISCOUNTED, problem)

    def _judge_turn_end(self, record: Audited, view: View) -> Iterator[Breach]:
        if self.turn is None or record.turn != self.turn:
            problem = f"turn {record.turn} ends, and {self.where}"
            yield Breach(record, Damage.TURN_UNBALANCED, problem)
            return
        if self.step is not None:
            problem = f"turn {record.turn} ends while its step {self.step} is open"
            yield Breach(record, Damage.STEP_UNBALANCED, problem)
        yield from self._judge_waiting(record)

    def _judge_step_start(self, record: Audited, view: View) -> Iterator[Breach]:
        if self.turn is None or record.turn != self.turn:
            problem = f"a step of turn {record.turn} starts, and {self.where}"
            yield Breach(record, Damage.OUTSIDE_TURN, problem)
        elif self.step is not None:
            problem = f"step {record.step} starts while step {self.step} is open"
            yield Breach(record, Damage.STEP_UNBALANCED, problem)
        elif record.step != self.last_step + 1:
            problem = f"step {record.step} starts where {self.last_step + 1} must"
            yield Breach(record, Damage.STEP_MISCOUNTED, problem)

    def _judge_step_end(self, record: Audited, view: View) -> Iterator[Breach]:
        if self.step is None or (record.turn, record.step) != (self.turn, self.step):
            problem = f"step {record.step} of turn {record.turn} ends, and {self.where}"
            yield Breach(record, Damage.STEP_UNBALANCED, problem)
            return
        yield from self._judge_waiting(record)

    def _judge_waiting(self, record: Audited) -> Iterator[Breach]:
        if self.calls:
            names = ", ".join(map(quoted, [*self.calls][:_NAMED]))
            more = f" and {len(self.calls) - _NAMED} more" if len(self.calls) > _NAMED else ""
            problem = f"{record.type} while a call has no result: {names}{more}"
            yield Breach(record, Damage.CALL_WITHOUT_RESULT, problem)

    # What stands in them

    def _judge_in_step(self, record: Audited, view: View) -> Iterator[Breach]:
        if self.step is None or (record.turn, record.step) != (self.turn, self.step):
            belongs = f"step {record.step} of turn {record.turn}"
            problem = f"{record.type} belongs to {belongs}, and {self.where}"
            yield Breach(record, Damage.OUTSIDE_STEP, problem)

    def _judge_in_turn(self, record: Audited, view: View) -> Iterator[Breach]:
        if self.turn is None:
            problem = f"{record.type} stands where no turn is open"
            yield Breach(record, Damage.OUTSIDE_TURN, problem)

    def _judge_system(self, record: Audited, view: View) -> Iterator[Breach]:
        yield from self._judge_in_step(record, view)
        head = view.surface.head
        if head is not None and head.kind != "system":
            problem = "a system message, and the surface does not begin with one"
            yield Breach(record, Damage.SYSTEM_MISPLACED, problem)

    def _judge_answer(self, record: Audited, view: View) -> Iterator[Breach]:
        yield from self._judge_in_step(record, view)
        asked: set[str] = set()
        for call in record.calls:
            if call.id in self.calls or call.id in asked:
                problem = f"the call id {quoted(call.id)} is used again while it waits"
                yield Breach(record, Damage.CALL_ID_REPEATED, problem)
            asked.add(call.id)

    def _judge_call(self, record: Audited, view: View) -> Iterator[Breach]:
        yield from self._judge_in_step(record, view)
        event = record.event
        assert isinstance(event, ToolCallStarted)
        call, name = self.calls.get(event.call_id), quoted(event.call_id)
        if call is None:
            problem = f"the call {name} is started, and no message asks for it"
            yield Breach(record, Damage.CALL_DIFFERS, problem)
        elif (call.name, call.arguments) != (event.name, event.arguments):
            problem = f"the call {name} is started otherwise than the message asks"
            yield Breach(record, Damage.CALL_DIFFERS, problem)
        elif call.started_seq is not None:
            problem = f"the call {name} is started a second time"
            yield Breach(record, Damage.CALL_ID_REPEATED, problem)

    def _judge_result(self, record: Audited, view: View) -> Iterator[Breach]:
        if ends_of(record) is not None:
            yield from self._judge_in_turn(record, view)
            return
        yield from self._judge_in_step(record, view)
        call = self.calls.get(record.answered or "")
        if call is None:
            problem = f"a result for the call {quoted(record.answered)}, which waits for none"
            yield Breach(record, Damage.RESULT_WITHOUT_CALL, problem)
        elif call.started_seq is None and not self._closes_unstarted(record, call.call_id):
            problem = f"a result for the call {quoted(call.call_id)}, which was never started"
            yield Breach(record, Damage.RESULT_WITHOUT_CALL, problem)

    def _closes_unstarted(self, record: Audited, call_id: str) -> bool:
        """Whether it is the very result by which the harness closes a call that never began."""
        if (
            record.error_code != encode.NOT_STARTED_CODE
            or record.message is None
            or record.message.sources
        ):
            return False
        message = record.message.message
        if self._version != 4 or (message.id or "").startswith(f"forked-tool-result-{call_id}-"):
            return True
        head, _, number = (message.id or "").rpartition("-")
        named = head == f"{encode.INTERRUPTED_ID}{call_id}" and number.isdecimal()
        return named and len(message.content) == 1 and message.text == encode.NOT_STARTED

    # Taking in

    def _take_turn_start(self, record: Audited) -> None:
        self.turn, self.step, self.last_step = record.turn, None, 0
        self.last_turn = self.last_turn + 1 if record.turn is None else record.turn
        self._give_up_calls()

    def _take_turn_end(self, record: Audited) -> None:
        self.turn = self.step = None
        self._give_up_calls()

    def _take_step_start(self, record: Audited) -> None:
        if record.turn != self.turn and record.turn is not None:
            self.turn, self.last_turn = record.turn, max(self.last_turn, record.turn)
        self.step = record.step
        self.last_step = self.last_step + 1 if record.step is None else record.step
        self._give_up_calls()

    def _take_step_end(self, record: Audited) -> None:
        self.step = None
        self._give_up_calls()

    def _give_up_calls(self) -> None:
        self.told |= {(call.record.seq, call_id) for call_id, call in self.calls.items()}
        self.calls = {}

    def _take_answer(self, record: Audited) -> None:
        for call in record.calls:
            self.calls[call.id] = Call(
                call_id=call.id, name=call.name, arguments=call.arguments, record=record
            )

    def _take_call(self, record: Audited) -> None:
        match record.event:
            case ToolCallStarted(seq=seq, call_id=call_id) if call_id in self.calls:
                self.calls[call_id].started_seq = seq
            case _:
                pass

    def _take_result(self, record: Audited) -> None:
        if ends_of(record) is not None or record.answered is None:
            return
        if self.calls.pop(record.answered, None) is None:
            self.told.add((record.seq, record.answered))

    JUDGES: ClassVar[dict[str, Judge]] = {
        "turn/start": _judge_turn_start,
        "turn/end": _judge_turn_end,
        "step/start": _judge_step_start,
        "step/end": _judge_step_end,
        "system/message": _judge_system,
        "developer/message": _judge_in_step,
        "assistant/message": _judge_answer,
        "assistant/attempt": _judge_in_step,
        "tool/call": _judge_call,
        "tool/result": _judge_result,
        "tool/ptc-dispatch": _judge_in_turn,
        "tool/ptc-dispatch-start": _judge_in_turn,
        "request/header": _judge_in_turn,
        "request/context": _judge_in_turn,
    }
    TAKERS: ClassVar[dict[str, Taker]] = {
        "turn/start": _take_turn_start,
        "turn/end": _take_turn_end,
        "step/start": _take_step_start,
        "step/end": _take_step_end,
        "assistant/message": _take_answer,
        "tool/call": _take_call,
        "tool/result": _take_result,
    }
