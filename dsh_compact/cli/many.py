"""The same work on many logs: over all cores where that pays, results as they come.

Rule: never more processes than cores, never more than the work is worth, and none left behind,
whatever ends the work: the last result, an error, Ctrl-C. What the work is, it does not know.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from dsh_compact.cli.progress import Progress
from dsh_compact.errors import DshcError

Result = TypeVar("Result")

LOG_SECONDS: Final = 0.001
BYTE_SECONDS: Final = 1 / 200_000_000
"""What a log and its bytes cost, roughly: they decide only whether processes pay."""

WORTH_SECONDS: Final = 0.5
"""Less work than this is done before a second process has shown its worth."""

MOST_AT_ONCE: Final = 16
"""Logs that a process is handed at once: handing over costs as much as a small log."""


class WorkerDied(DshcError):
    """A process that read logs was ended from outside; short memory is the usual reason."""

    exit_code = 4

    def __str__(self) -> str:
        """What happened and what to do."""
        return "a process that read logs died, perhaps for want of memory; name fewer logs at once"


def each(
    work: Callable[[str], Result], paths: Sequence[str], *, label: str
) -> Iterator[tuple[str, Result]]:
    """Each path with what `work` gives for it, in the order in which they are finished.

    `work` and its results cross process borders: a module's function, or a partial of one, and
    plain values. Close the iterator, or read it to its end.
    """
    with Progress(label, total=len(paths)) as progress:
        for pair in _each(work, paths):
            progress.advance()
            yield pair


def _each(work: Callable[[str], Result], paths: Sequence[str]) -> Iterator[tuple[str, Result]]:
    processes = min(cores(), len(paths))
    if processes < 2 or "-" in paths or _seconds(paths) < WORTH_SECONDS:
        return ((path, work(path)) for path in paths)
    return _in_processes(work, paths, processes)


def cores() -> int:
    """The cores that this process may use, where the system tells; else all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _seconds(paths: Sequence[str]) -> float:
    return sum(LOG_SECONDS + _size_bytes(path) * BYTE_SECONDS for path in paths)


def _size_bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _in_processes(
    work: Callable[[str], Result], paths: Sequence[str], processes: int
) -> Iterator[tuple[str, Result]]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from functools import partial

    # A fork starts at once and is safe here, where no thread runs yet; not every system has it.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    at_once = max(1, min(MOST_AT_ONCE, len(paths) // (processes * 4)))
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_obey_interrupts)
    try:
        parts = (paths[start : start + at_once] for start in range(0, len(paths), at_once))
        waiting = [pool.submit(partial(_work_on, work), part) for part in parts]
        for done in as_completed(waiting):
            yield from done.result()
    except BrokenProcessPool:
        raise WorkerDied from None
    except BaseException:  # whoever asked has left: nobody waits for what is still in work
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _work_on(work: Callable[[str], Result], paths: Sequence[str]) -> list[tuple[str, Result]]:
    return [(path, work(path)) for path in paths]


def _obey_interrupts() -> None:
    """Ctrl-C ends a worker at once and without a word: it has nothing to put away."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
