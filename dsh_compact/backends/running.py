"""Where a backend runs, and for how long: in a thread of ours, or in a process of its own.

Whatever it raises is kept, not passed on: an attempt that failed is a fact for the decision. A
backend that overruns its time loses its workbench: what it does later reaches nothing.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from threading import Thread
from typing import TypeAlias

import msgspec
from msgspec import Struct

from dsh_compact.backends import Backend, Claim
from dsh_compact.errors import BackendFailed, DshcError
from dsh_compact.workbench import Bloated, Workbench


class Ran(Struct, frozen=True, kw_only=True):
    """How one round of a backend went: what it claims, what it raised, whether its time ran out."""

    claim: Claim | None = None
    error: BaseException | None = None
    timed_out: bool = False


Runner: TypeAlias = Callable[[Backend, Workbench, float], Ran]


def run_here(backend: Backend, bench: Workbench, timeout_seconds: float) -> Ran:
    """Runs the backend in a thread of this process; a thread that hangs is left behind.

    A backend that says `needs_isolation` is given a process of its own all the same.
    """
    if getattr(backend, "needs_isolation", False):
        return run_isolated(backend, bench, timeout_seconds)
    outcome: list[Ran] = []
    thread = Thread(
        target=lambda: outcome.append(_kept(backend, bench)),
        name=f"backend {backend.name}",
        daemon=True,
    )
    thread.start()
    try:
        thread.join(timeout_seconds)
    finally:
        bench.revoke()
    if thread.is_alive() or not outcome:
        return Ran(timed_out=True)
    return outcome[0]


def run_isolated(backend: Backend, bench: Workbench, timeout_seconds: float) -> Ran:
    """Runs the backend in a forked process, which is killed when its time is over.

    The child shares our lock and writes to the same file; afterwards our session catches up with
    what really landed. Its memory is its own: nothing that it changes there reaches us.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _report(writing, _kept(backend, bench))
    os.close(writing)
    try:
        answer = _read_until(reading, time.monotonic() + timeout_seconds)
    finally:
        os.close(reading)
        status = _ended(child)
    try:
        bench.session.catch_up()
    except DshcError as fault:
        bench.notices.append(f"what the backend left behind cannot be read: {fault}")
    bench.revoke()  # only now: a bracket that the child left open is seen, and closed
    return _ran(backend, answer, status)


def _kept(backend: Backend, bench: Workbench) -> Ran:
    try:
        return Ran(claim=backend.compact(bench))
    except BaseException as fault:  # noqa: BLE001  (also SystemExit: it must not end the caller)
        return Ran(error=fault)


class _Report(Struct):
    """What the child sends home: exceptions don't travel, their words do."""

    acted: bool | None = None
    note: str = ""
    error: str | None = None
    is_bloated: bool = False


def _report(writing: int, ran: Ran) -> None:
    """The child's last act: it never returns into the parent's code."""
    try:
        claim = ran.claim or Claim(acted=False)
        error = None if ran.error is None else f"{type(ran.error).__name__}: {ran.error}"
        report = _Report(
            acted=None if ran.claim is None else claim.acted,
            note=claim.note,
            error=error,
            is_bloated=isinstance(ran.error, Bloated),
        )
        os.write(writing, msgspec.json.encode(report))
    finally:
        os._exit(0)


def _read_until(fd: int, deadline_seconds: float) -> bytes | None:
    """Everything until the other end is closed; None where the deadline comes first."""
    pieces: list[bytes] = []
    while True:
        left = deadline_seconds - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return None
        piece = os.read(fd, 65536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def _ended(child: int) -> int:
    """The child's status, after making sure that it is gone."""
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _ran(backend: Backend, answer: bytes | None, status: int) -> Ran:
    if answer is None:
        return Ran(timed_out=True)
    try:
        report = msgspec.json.decode(answer, type=_Report)
    except msgspec.DecodeError:
        return Ran(error=BackendFailed(backend.name, f"its process ended with status {status}"))
    if report.error is not None:
        family = Bloated if report.is_bloated else BackendFailed
        return Ran(error=family(backend.name, report.error))
    return Ran(claim=Claim(acted=bool(report.acted), note=report.note))
