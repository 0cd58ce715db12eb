"""Where a backend runs, and for how long: here under a time limit, or in a process of its own.

Whatever it raises is kept, not passed on: an attempt that failed is a fact for the decision. A
backend that overruns its time loses its workbench: what it does later reaches nothing.
"""

from collections.abc import Callable
from threading import Thread
from typing import TypeAlias

from msgspec import Struct

from dsh_compact.backends import Backend, Claim
from dsh_compact.workbench import Workbench


class Ran(Struct, frozen=True, kw_only=True):
    """How one round of a backend went: what it claims, what it raised, whether its time ran out."""

    claim: Claim | None = None
    error: BaseException | None = None
    timed_out: bool = False


Runner: TypeAlias = Callable[[Backend, Workbench, float], Ran]


def run_here(backend: Backend, bench: Workbench, timeout_seconds: float) -> Ran:
    """Runs the backend in a thread of this process; a thread that hangs is left behind."""
    outcome: list[Ran] = []

    def work() -> None:
        try:
            outcome.append(Ran(claim=backend.compact(bench)))
        except BaseException as fault:  # noqa: BLE001  (also SystemExit: it must not end the caller)
            outcome.append(Ran(error=fault))

    thread = Thread(target=work, name=f"backend {backend.name}", daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    bench.revoke()
    if thread.is_alive() or not outcome:
        return Ran(timed_out=True)
    return outcome[0]
