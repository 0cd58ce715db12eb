"""Where a backend runs, and for how long: in a thread of ours, or in a process of its own.

Whatever it raises is kept, not passed on: an attempt that failed is a fact for the decision. A
backend that overruns its time, or whose request is cancelled, loses its workbench: what it does
later reaches nothing.
"""

import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Final, NoReturn, Protocol

import msgspec
from msgspec import Struct

from dsh_compact.backends import Backend, Claim
from dsh_compact.errors import BackendFailed, DshcError
from dsh_compact.workbench import Bloated, Workbench

LOOK_SECONDS: Final = 0.05
"""How often it is asked whether the request was cancelled, or an isolated process is gone."""

_OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120
_PYTHONS: Final = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120

MOST_NOTE_CHARACTERS: Final = 2000
"""A backend's own words are shown on a line; nobody reads more of them."""


class Ran(Struct, frozen=True, kw_only=True):
    """How one round of a backend went: what it claims, what it raised, whether its time ran out.

    All empty where the request was cancelled meanwhile.
    """

    claim: Claim | None = None
    error: BaseException | None = None
    timed_out: bool = False


def never() -> bool:
    """A request that nobody cancels."""
    return False


class Runner(Protocol):
    """Runs a backend on a workbench, and takes the bench away when its time is over."""

    def __call__(
        self,
        backend: Backend,
        bench: Workbench,
        timeout_seconds: float,
        *,
        is_cancelled: Callable[[], bool] = never,
    ) -> Ran:
        """One round; returns once the backend has, or may do nothing more."""


def stays_here(run: Runner, backend: Backend) -> bool:
    """Whether all that the backend writes goes through our own session."""
    return run is run_here and not getattr(backend, "needs_isolation", False)


def run_here(
    backend: Backend,
    bench: Workbench,
    timeout_seconds: float,
    *,
    is_cancelled: Callable[[], bool] = never,
) -> Ran:
    """Runs the backend in a thread of this process; a thread that hangs is left behind.

    A backend that says `needs_isolation` is given a process of its own all the same.
    """
    if getattr(backend, "needs_isolation", False):
        return run_isolated(backend, bench, timeout_seconds, is_cancelled=is_cancelled)
    outcome: list[Ran] = []
    thread = Thread(
        target=lambda: outcome.append(_kept(backend, bench)),
        name=f"backend {backend.name}",
        daemon=True,
    )
    clock = _Clock(timeout_seconds)
    thread.start()
    try:
        while thread.is_alive() and clock.left_seconds() > 0 and not is_cancelled():
            thread.join(max(0, min(LOOK_SECONDS, clock.left_seconds())))
    finally:
        bench.session.bar(thread)
        bench.revoke()
    return outcome[0] if outcome else Ran(timed_out=not is_cancelled())


class _Clock:
    """How much of the time is left."""

    def __init__(self, timeout_seconds: float) -> None:
        self._end = time.monotonic() + timeout_seconds

    def left_seconds(self) -> float:
        return self._end - time.monotonic()


# In a process of its own --------------------------------------------------------------------------


def run_isolated(
    backend: Backend,
    bench: Workbench,
    timeout_seconds: float,
    *,
    is_cancelled: Callable[[], bool] = never,
) -> Ran:
    """Runs the backend in a forked process, which is killed, with all that it started and did not
    part from, when its time is over.

    The child shares our lock and writes to the same file; afterwards our session catches up with
    what really landed. Its memory is its own: nothing that it changes there reaches us.
    """
    reading, writing = os.pipe()
    child = _fork()
    if child == 0:
        os.setpgid(0, 0)
        _report(writing, _kept(backend, bench))
    os.close(writing)
    try:
        answer = _answer(reading, child, _Clock(timeout_seconds), is_cancelled)
    finally:
        os.close(reading)
        status = _ended(child)
        _take_over(bench)
    if answer is None and is_cancelled():
        return Ran()
    return _ran(backend, answer, status)


def _fork() -> int:
    """Beside other threads, too: should one of them hold a lock that the child needs, the child
    hangs, and its time limit ends it.
    """
    _flush_streams()  # what waits in our buffers must not be written by the child as well
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _flush_streams() -> None:
    """What was printed so far is on its way."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or none at all
            stream.flush()


def _take_over(bench: Workbench) -> None:
    """The session learns what the child wrote; a bracket that it left open is seen, and closed."""
    try:
        bench.session.catch_up()
    except DshcError as fault:
        bench.notices.append(f"what the backend left behind cannot be read: {fault}")
    bench.revoke()


def _answer(
    reading: int, child: int, clock: _Clock, is_cancelled: Callable[[], bool]
) -> bytes | None:
    """All that the child reports; None where its time is over, or the request cancelled, before.

    A child that is gone reports nothing more, although processes that it left behind may hold the
    pipe open.
    """
    pieces: list[bytes] = []
    while True:
        left = clock.left_seconds()
        if left <= 0 or is_cancelled():
            return None
        is_gone = _is_gone(child)
        if select.select([reading], [], [], 0 if is_gone else min(LOOK_SECONDS, left))[0]:
            pieces.append(os.read(reading, 65536))
            if not pieces[-1]:
                return b"".join(pieces)
        elif is_gone:
            return b"".join(pieces)


def _is_gone(child: int) -> bool:
    """Whether the child has ended; its status stays to be fetched."""
    found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found is not None


def _ended(child: int) -> int:
    """The child's status, after making sure that it and its own children are gone."""
    for kill in (os.killpg, os.kill):  # it may not have its group yet, or have left it
        with suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _ran(backend: Backend, answer: bytes | None, status: int) -> Ran:
    if answer is None:
        return Ran(timed_out=True)
    try:
        report = msgspec.json.decode(answer, type=_Report)
    except msgspec.DecodeError:
        ended = f"its process ended with status {status}"
        return Ran(
            error=BackendFailed(backend.name, ended, "look at what it wrote to standard error")
        )
    if report.error is not None:
        family = Bloated if report.is_bloated else BackendFailed
        return Ran(error=family(backend.name, report.error))
    return Ran(claim=report.claim)


class _Report(Struct):
    """What the child sends home: exceptions don't travel, their words do."""

    claim: Claim | None = None
    error: str | None = None
    is_bloated: bool = False


def _report(writing: int, ran: Ran) -> NoReturn:
    """The child's last act: it never returns into the parent's code."""
    try:
        error = None if ran.error is None else _sendable(_sent_home(ran.error))
        report = _Report(claim=ran.claim, error=error, is_bloated=isinstance(ran.error, Bloated))
        _flush_streams()  # before the report: whoever has it ends this process at once
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(msgspec.json.encode(report))
    finally:
        os._exit(0)


def _sent_home(error: BaseException) -> str:
    """The error's words, without the name of the backend where the parent gives it again."""
    if isinstance(error, BackendFailed):
        return str(error).removeprefix(f"backend {error.backend}: ")
    return words_of(error)


# What it says -------------------------------------------------------------------------------------


def _kept(backend: Backend, bench: Workbench) -> Ran:
    try:
        return Ran(claim=_plain(backend.compact(bench)))
    except BaseException as fault:  # noqa: BLE001  (also SystemExit: it must not end the caller)
        return Ran(error=fault)


def _plain(claim: object) -> Claim | None:
    """A claim of ours with a backend's words, whatever it returned; None where it says nothing."""
    if claim is None:
        return None
    note = str(getattr(claim, "note", "") or "")
    return Claim(acted=bool(getattr(claim, "acted", False)), note=_sendable(note))


def _sendable(words: str) -> str:
    """Of bounded length, and without the lone surrogates that no encoding takes."""
    return words[:MOST_NOTE_CHARACTERS].encode("utf-8", "backslashreplace").decode("utf-8")


def words_of(error: BaseException) -> str:
    """What an error says: ours speak for themselves, a backend's need their name and place."""
    name = type(error).__name__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001  (foreign code speaks here)
        return name
    return words if isinstance(error, DshcError) else f"{name}: {words}{_place_of(error)}"


def _place_of(error: BaseException) -> str:
    """The line of foreign code that it came through last, ` (mine.py, line 7)`; else nothing.

    Foreign is the first file that is neither ours nor Python's own: what that one calls may be
    anybody's, and its author looks for the call.
    """
    from traceback import walk_tb

    steps = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    file = next((name for name, _ in steps if _is_foreign(name)), None)
    if file is None:
        return ""
    line = [line for name, line in steps if name == file][-1]
    return f" ({os.path.basename(file)}, line {line})"  # noqa: PTH119, it need not be a path


def _is_foreign(file: str) -> bool:
    if file.startswith(("<frozen ", _OURS)):
        return False
    return not file.startswith(_PYTHONS) or "site-packages" in file
