"""Where a session stands: the open turn and step, the calls that wait, the open compaction bracket.

A fold beside the surface's. It believes what it reads and judges nothing (`verify` does): it
answers what a writer must know before it adds a record.
"""

from typing import Any, Final, TypeAlias

from msgspec import Struct, structs

from dsh_compact.events import (
    CompactionEnd,
    CompactionStart,
    EndSeed,
    Event,
    StepEnd,
    StepStart,
    ToolCallStarted,
    TurnEnd,
    TurnStart,
)

WANTED: Final = frozenset(
    {
        TurnStart,
        TurnEnd,
        StepStart,
        StepEnd,
        ToolCallStarted,
        CompactionStart,
        CompactionEnd,
        EndSeed,
    }
)
"""The events beside the surface's that this fold looks at."""


FAILURES_KEPT: Final = 32
"""Failed attempts that are remembered: a span grows with the session, old ones do not come back."""


_Started: TypeAlias = tuple[Any, ToolCallStarted] | None
"""The calls that a step has started, the newest first, each beside those before it: to add one
costs the same however many there are.
"""


class Turns(Struct, frozen=True, kw_only=True):
    """The fold's state.

    `last_turn` and `last_step` are the newest numbers given, `turn` and `step` those that are open.
    `bracket` is the compaction that began and has not ended; `bracket_is_stale` once a
    `session/end-seed` stands behind it: the process that held it is gone. `failed` are the newest
    attempts that ended in an error.
    """

    turn: int | None = None
    step: int | None = None
    last_turn: int = 0
    last_step: int = 0
    bracket: CompactionStart | None = None
    bracket_is_stale: bool = False
    _started: _Started = None
    failed: tuple[CompactionStart, ...] = ()

    @property
    def started_seqs(self) -> dict[str, int]:
        """The calls that the open step has started: the call's id, and the seq of its start."""
        found: dict[str, int] = {}
        rest = self._started
        while rest is not None:
            rest, call = rest
            found[call.call_id] = call.seq
        return found

    def extend(self, event: Event) -> "Turns":
        """Where the session stands after `event`."""
        match event:
            case ToolCallStarted():
                return structs.replace(self, _started=(self._started, event))
            case StepStart(step=step):
                return structs.replace(self, step=step, last_step=step, _started=None)
            case StepEnd():
                return structs.replace(self, step=None, _started=None)
            case TurnStart(turn=turn):
                return structs.replace(
                    self, turn=turn, last_turn=turn, step=None, last_step=0, _started=None
                )
            case TurnEnd():
                return structs.replace(self, turn=None, step=None, _started=None)
            case CompactionStart():
                return structs.replace(self, bracket=event, bracket_is_stale=False)
            case CompactionEnd(error=error):
                failed = self.failed
                if error is not None and self.bracket is not None:
                    failed = (*failed[-FAILURES_KEPT + 1 :], self.bracket)
                return structs.replace(self, bracket=None, bracket_is_stale=False, failed=failed)
            case EndSeed():
                return structs.replace(self, bracket_is_stale=self.bracket is not None)
            case _:
                return self
