"""The same work on many logs: over all cores where that pays, results as they come.

Rule: never more processes than cores, never more than the work is worth, and none left behind,
whatever ends the work: the last result, an error, Ctrl-C, a signal. A log whose process dies is a
result, too. What the work is, it does not know.

The standard library's pool is no help: an interrupt that meets it while it forks is lost in a hook
of `logging`, or leaves it waiting for ever; seen in one of ten runs on a busy machine.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, NoReturn, Self, TypeVar

from dsh_compact import cores
from dsh_compact.cli.progress import Progress
from dsh_compact.errors import DshcError, ShortOfMemory

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Result = TypeVar("Result")

HERE_SECONDS: Final = 0.15
"""So long the work is done in this process: starting others takes a third of it."""

LARGE_BYTES: Final = 16_000_000
"""A log of this size is worth processes at once."""

MOST_AT_ONCE: Final = 32
"""Logs that a process is handed at once: handing over costs half as much as a small log."""

BYTES_AT_ONCE: Final = 1_000_000
"""With so many bytes a part is large enough, however few its logs are."""

MOST_AHEAD: Final = 2_048
"""Results that may wait for an earlier one, where their order is kept: it bounds the memory."""

ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends this process by its user's will, and its processes with it."""


class WorkerDied(DshcError):
    """The process that read a log was ended from outside; short memory is the usual reason."""

    exit_code = 4

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        """Where, what happened and what to do."""
        why = "the process that read it died, perhaps for want of memory"
        return f"{self.path}: {why}; try it alone"


class NoWorker(DshcError):
    """The system lets us start no process."""

    exit_code = 4

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """What failed, why, and what to do."""
        why = self.reason.strerror or self.reason
        return f"no process can be started to read many logs: {why}; name fewer logs at once"


class WorkerFailed(Exception):
    """A bug of ours in another process: its traceback."""

    def __str__(self) -> str:
        """The traceback, below a line of its own."""
        return f"in a process that read logs\n{self.args[0]}"


class Job(NamedTuple, Generic[Result]):
    """What is done to each log, and what stands for a log of which an error was raised.

    Both cross a process's border, and so do results: a module's functions or partials of them, and
    plain values.
    """

    work: Callable[[str], Result]
    failed: Callable[[str, DshcError], Result]

    def __call__(self, path: str) -> Result:
        """The result for one log; no `DshcError` leaves it, and no want of memory."""
        try:
            return self.work(path)
        except DshcError as fault:
            return self.failed(path, fault)
        except MemoryError:
            pass  # what it holds is let go before anything else is done
        return self.failed(path, ShortOfMemory(path))


def each(
    job: Job[Result], paths: Sequence[str], *, label: str, stream: bool = False
) -> Generator[Result]:
    """What the job gives for each path, as soon as it is there; the largest logs are begun first.

    A `stream` keeps the order of `paths` instead, and holds back only what waits for an earlier
    one: it is for results that are printed as they come. Close the iterator, or read it to its end.
    """
    todo = deque(paths if stream else sorted(paths, key=_size_bytes, reverse=True))
    with _Endings() as endings, Progress(label, len(paths), beside_output=stream) as progress:
        for result in _each(job, todo, endings, in_order=stream):
            progress.advance()
            yield result


def _each(
    job: Job[Result], paths: deque[str], endings: "_Endings", *, in_order: bool
) -> Iterator[Result]:
    begun = monotonic()
    alone = cores.count() < 2 or "-" in paths  # a pipe has one reader
    while paths and (alone or not _pays(paths, begun)):
        yield job(paths.popleft())
    if paths:
        endings.held = True
        with _Crew(job, min(cores.count(), len(paths))) as crew:
            for result in _in_processes(job, paths, crew, endings, in_order=in_order):
                endings.obey()
                try:
                    yield result
                finally:
                    endings.held = True


def _pays(paths: deque[str], begun_seconds: float) -> bool:
    """Whether it is time for processes, to judge by what is done and what is next."""
    if len(paths) < 2:
        return False
    return monotonic() - begun_seconds > HERE_SECONDS or _size_bytes(paths[0]) >= LARGE_BYTES


def _size_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116, five thousand of them
    except (OSError, ValueError):
        return 0


# Signals ------------------------------------------------------------------------------------------


class _Endings:
    """Signals that end the process: obeyed at once, or, while `held`, at the next good moment.

    As a context it answers for what is inside: there `KeyboardInterrupt` or `SystemExit` is raised,
    once, and nothing disturbs the tidying up; outside the signal takes its usual course. A signal
    that the process was started to ignore stays ignored.
    """

    def __init__(self) -> None:
        self.held = False
        self._noted: int | None = None
        self._usual: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in ENDINGS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._usual[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held = True
        for number, usual in self._usual.items():
            signal.signal(number, usual)
        if self._noted is not None and not isinstance(error, KeyboardInterrupt):
            signal.raise_signal(self._noted)

    def obey(self) -> None:
        """The good moment: raise what was noted, and what comes until the next one."""
        self.held = False
        if self._noted is not None:
            self._end()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = self._noted or number
        if not self.held:
            self._end()

    def _end(self) -> NoReturn:
        assert self._noted is not None
        self.held = True
        if self._noted == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + self._noted)


# Processes ----------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Logs that one process is handed at once; `first` is the place of the first among all."""

    first: int
    paths: tuple[str, ...]

    def singles(self) -> Iterator["_Part"]:
        """The same logs one by one."""
        return (_Part(first, (path,)) for first, path in enumerate(self.paths, self.first))


def _parts(paths: deque[str]) -> Iterator[_Part]:
    first, taken, size_bytes = 0, list[str](), 0
    for path in paths:
        taken.append(path)
        size_bytes += _size_bytes(path)
        if len(taken) == MOST_AT_ONCE or size_bytes >= BYTES_AT_ONCE:
            yield _Part(first, tuple(taken))
            first, taken, size_bytes = first + len(taken), [], 0
    if taken:
        yield _Part(first, tuple(taken))


def _in_processes(
    job: Job[Result],
    paths: deque[str],
    crew: "_Crew[Result]",
    endings: _Endings,
    *,
    in_order: bool,
) -> Iterator[Result]:
    """The results, some at a time; a part whose process died is tried again log by log."""
    todo = deque(_parts(paths))
    there: dict[int, Result] = {}
    due = 0
    while todo or crew.busy:
        while todo and crew.has_room and (not in_order or todo[0].first < due + MOST_AHEAD):
            if not crew.hand(todo[0]):
                break
            todo.popleft()
        endings.obey()
        ready = crew.wait()
        endings.held = True
        for part, results in map(crew.finished, ready):
            if results is not None:
                there.update(enumerate(results, part.first))
            elif len(part.paths) > 1:
                todo.extendleft(reversed([*part.singles()]))
            else:
                there[part.first] = job.failed(part.paths[0], WorkerDied(part.paths[0]))
        if not in_order:
            yield from there.values()
            there.clear()
        while due in there:
            yield there.pop(due)
            due += 1


class _Worker(NamedTuple):
    """Another process, and our end of the pipe between us."""

    process: Any
    pipe: "Connection"

    def end(self) -> None:
        """It only reads, so it has nothing to put away."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Crew(Generic[Result]):
    """At most `size` processes, each with one part at a time, all gone when the context is left.

    They start as they are needed, as far as the system lets them; one that died is replaced.
    """

    def __init__(self, job: Job[Result], size: int) -> None:
        import multiprocessing

        # A fork starts at once and is safe here, where no thread runs; not every system has it.
        self._forks = sys.platform == "linux"
        context: Any = multiprocessing.get_context("fork" if self._forks else "spawn")
        self._pipe, self._process = context.Pipe, context.Process
        self._job = job
        self._size = size
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, _Part]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers():
            worker.end()

    @property
    def busy(self) -> bool:
        """Whether anything is in work."""
        return bool(self._busy)

    @property
    def has_room(self) -> bool:
        """Whether a part can be handed over."""
        return len(self._busy) < self._size

    def hand(self, part: _Part) -> bool:
        """Let a process work on the part; False where there is none to spare after all.

        Raises `NoWorker` where there is none at all.
        """
        try:
            worker = self._idle.pop() if self._idle else self._hired()
        except OSError as fault:
            if not self._busy:
                raise NoWorker(fault) from None
            self._size = len(self._busy)
            return False
        self._busy[worker.pipe] = worker, part
        with suppress(OSError):  # it died in the meantime, as `finished` will find
            worker.pipe.send(part.paths)
        return True

    def wait(self) -> list["Connection"]:
        """The pipes of processes that have finished their part or died, at least one."""
        from multiprocessing.connection import wait

        ready = wait([*self._busy])
        return [pipe for pipe in self._busy if pipe in ready]

    def finished(self, pipe: "Connection") -> tuple[_Part, list[Result] | None]:
        """A part and its results, or None where the process died; raises `WorkerFailed`."""
        worker, part = self._busy.pop(pipe)
        try:
            results = pipe.recv()
        except (EOFError, OSError):
            worker.end()
            return part, None
        self._idle.append(worker)
        if isinstance(results, str):
            raise WorkerFailed(results)
        return part, results

    def _hired(self) -> _Worker:
        ours, theirs = self._pipe()
        # A forked process inherits our ends: as long as it has one, nobody learns of our death.
        inherited = [ours, *(worker.pipe for worker in self._workers())] if self._forks else []
        process = self._process(target=_serve, args=(self._job, theirs, inherited), daemon=True)
        try:
            process.start()
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Worker(process, ours)

    def _workers(self) -> list[_Worker]:
        return [*self._idle, *(worker for worker, _ in self._busy.values())]


def _serve(job: Job[Result], pipe: "Connection", inherited: list["Connection"]) -> None:
    """A worker's life: it ends when the other end of its pipe does, or is killed."""
    import traceback

    cores.yield_back()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent obeys it, and ends us
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for end in inherited:
        end.close()
    try:
        while True:
            paths = pipe.recv()
            try:
                results: object = [job(path) for path in paths]
            except Exception:  # noqa: BLE001, a bug of ours: the parent shows it
                results = traceback.format_exc()
            pipe.send(results)
    except (EOFError, OSError, MemoryError):  # nobody waits for us any more, or nothing can be said
        return
