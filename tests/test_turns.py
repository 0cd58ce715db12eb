"""Where a session stands: the calls that its open step has started."""

from __future__ import annotations

from dsh_compact.events import StepEnd, StepStart, ToolCallStarted, TurnStart
from dsh_compact.turns import Turns


def started(seq: int, call_id: str) -> ToolCallStarted:
    """A call that is run."""
    return ToolCallStarted(seq=seq, turn=1, step=1, call_id=call_id, name="bash", arguments="{}")


def in_step() -> Turns:
    """In the first step of the first turn."""
    return Turns().extend(TurnStart(seq=0, time_ms=0, turn=1)).extend(StepStart(1, 1, 1))


def test_a_call_is_known_by_its_first_start() -> None:
    """Until the step ends."""
    turns = in_step()
    for event in (started(2, "a"), started(3, "b"), started(4, "a")):
        turns = turns.extend(event)
    assert {"a": 2, "b": 3} == turns.started_seqs
    assert {} == turns.extend(StepEnd(5, 1, 1)).started_seqs


def test_many_calls_of_one_step_are_each_as_cheap() -> None:
    """So many that a copy for each would take minutes, and whatever nests them would overflow."""
    turns = in_step()
    for seq in range(2, 300_002):
        turns = turns.extend(started(seq, str(seq)))
    assert 300_000 == len(turns.started_seqs)
    del turns
