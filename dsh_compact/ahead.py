"""Reading ahead: the greater part of a large log is scanned by a second process, while this one
scans and folds its beginning.

Rule: what the other process read counts only where it continues what this one has read, with the
next byte and the next seq. Whatever else happens over there (a fault in the log, a lie, its death)
ends its parts, and whoever asked reads on alone. So it makes a fold faster, and nothing else: no
fault is found here, and none is passed over.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NoReturn, Self

import msgspec
from msgspec import Struct

from dsh_compact import cores
from dsh_compact.codec import Identity, Scanner, decode
from dsh_compact.errors import UnreadableLog
from dsh_compact.events import Event, Place
from dsh_compact.reader import LogReader

LARGE_BYTES: Final = 32_000_000
LARGE_FRAMES_BYTES: Final = 8_000_000
"""Below, a second process costs more than it saves: it starts in a hundredth of a second."""

FIRST_SHARE: Final = 0.25
FIRST_SHARE_OF_DEAR_LINES: Final = 0.4
"""So much of the log this process scans: it has the fold to do besides, which the other has not.
That counts for less where a line costs more, by strictness, unpacking, or the rows of format 0.
Measured: both processes are then ready at about the same time.
"""

SENT_BYTES: Final = 1 << 16
"""So many bytes of events are sent at once."""

MOST_UNSENT_BYTES: Final = 1 << 25
"""So many may wait until they are asked for; then the other process waits, too."""

_LENGTH_BYTES: Final = 8
_IDENTITY: Final = 1
"""The extension of msgpack by which a tool result's identity travels."""


class Part(Struct, frozen=True, array_like=True):
    """What one run of whole lines holds: the wanted events, and how it fits to its neighbours.

    It lies at that place (see `Place`) and ends before `end_bytes` of the file.
    """

    place: Place
    end_bytes: int
    first_seq: int
    next_seq: int
    lines: int
    events: tuple[Event, ...]


class Ahead:
    """A second process that scans a log from `start_bytes` on; gone when the context is left."""

    def __init__(self, pid: int, pipe: int, start_bytes: int, usual: Iterable[int]) -> None:
        """Takes over the process `pid` and the end of the pipe that it writes to; `usual` are the
        signals that are blocked at other times than now.
        """
        self.start_bytes: Final = start_bytes
        self._pid = pid
        self._pipe = os.fdopen(pipe, "rb")
        self._usual = usual

    def __enter__(self) -> Self:
        import signal

        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._usual)  # what waited is raised here
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        import signal

        with suppress(ProcessLookupError, ChildProcessError):  # a caller collects all children
            os.kill(self._pid, signal.SIGKILL)  # it only reads, so it has nothing to put away
            os.waitpid(self._pid, 0)
        self._pipe.close()

    def parts(self) -> Iterator[Part]:
        """What the other process read, in order, to the log's end or to the first thing that it
        could not read.
        """
        decoder = msgspec.msgpack.Decoder(Part, ext_hook=_identity)
        while len(length := self._pipe.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            size = int.from_bytes(length)
            data = self._pipe.read(size)
            try:
                part = decoder.decode(data)
            except msgspec.MsgspecError:  # it died before it had said all
                return
            yield part


def read_ahead(reader: LogReader, scanner: Scanner) -> Ahead | None:
    """A second process that goes on with what `reader` and `scanner` have begun, further behind.

    None where that does not pay, is not ours to do (see `cores`), or cannot be done. Enter its
    context at once: signals wait until then, so that none comes between a process and its end.
    """
    left_bytes = reader.size_bytes - reader.end_bytes
    if left_bytes < (LARGE_FRAMES_BYTES if reader.framed else LARGE_BYTES) or not _may_fork():
        return None
    are_dear = scanner.strict or reader.framed or scanner.version == 0
    share = FIRST_SHARE_OF_DEAR_LINES if are_dear else FIRST_SHARE
    try:
        start = reader.boundary(reader.end_bytes + int(left_bytes * share))
    except UnreadableLog:  # told when all before it has been read
        return None
    if start is None:
        return None
    import signal

    started = None
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        started = _started(reader, scanner, start, usual)
    finally:
        if started is None:
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    return started


def _started(
    reader: LogReader, scanner: Scanner, start_bytes: int, usual: Iterable[int]
) -> Ahead | None:
    try:
        ours, theirs = os.pipe()
    except OSError:
        return None
    parent = os.getpid()
    try:
        pid = os.fork()
        if pid == 0:
            _serve(reader, scanner, start_bytes, theirs, parent, usual)
    except OSError:
        os.close(ours)
        return None
    finally:
        os.close(theirs)
    return Ahead(pid, ours, start_bytes, usual)


def _may_fork() -> bool:
    """A fork starts at once, and is safe where no other thread runs; not every system has it.

    Where the system collects our children's ends, their numbers may be another's when we use them.
    """
    if not cores.spare() or sys.platform != "linux":
        return False
    import signal
    import threading

    return threading.active_count() == 1 and signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


# The second process -------------------------------------------------------------------------------


def _serve(
    reader: LogReader,
    scanner: Scanner,
    start_bytes: int,
    pipe: int,
    parent: int,
    usual: Iterable[int],
) -> NoReturn:
    """Its whole life. It says nothing but its parts, and nobody but its pipe hears of its end."""
    import signal

    try:  # Ctrl-C stays blocked here: the other one obeys it, and ends us
        signal.pthread_sigmask(signal.SIG_SETMASK, {*usual, signal.SIGINT})
        _let_go_of_all_but(reader.fileno(), pipe)
        reader.end_bytes = start_bytes
        _send(_parts(reader, scanner, parent), pipe)
    except BaseException:  # noqa: BLE001, S110, it is told by what is missing
        pass
    finally:
        os._exit(0)


def _let_go_of_all_but(*kept: int) -> None:
    """A lock, or the pipe behind our output, is not held longer than our user holds it."""
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208, numbers
        if fd not in kept:
            with suppress(OSError):  # the one that the list was read from
                os.close(fd)


def _parts(reader: LogReader, scanner: Scanner, parent: int) -> Iterator[Part]:
    """The parts up to the first fault, or while that process lives; what they say of themselves is
    judged by the receiver.
    """
    version = scanner.version
    is_first = True
    for run in reader.runs():
        if os.getppid() != parent:  # killed: the pipe would tell, but not before we have a word
            return
        if is_first:
            is_first = False
            line = bytes(run.data[: run.data.index(b"\n")])
            scanner.next_seq = decode(line, version, Place(-1, 0, len(line))).seq
        first_seq, scanner.lines = scanner.next_seq, 0
        events = scanner.scan(*run)
        yield Part(
            place=Place(run.frame_bytes, run.start_bytes, run.size_bytes),
            end_bytes=reader.end_bytes,
            first_seq=first_seq,
            next_seq=scanner.next_seq,
            lines=scanner.lines,
            events=tuple(events),
        )


def _send(parts: Iterable[Part], pipe: int) -> None:
    """What the pipe does not take yet is kept, so that scanning goes on meanwhile; a fault ends the
    parts, and what was read before it is sent all the same.
    """
    os.set_blocking(pipe, False)
    encoder = msgspec.msgpack.Encoder(enc_hook=_extension)
    unsent = bytearray()
    with suppress(Exception):
        for message in map(encoder.encode, parts):
            unsent += len(message).to_bytes(_LENGTH_BYTES)
            unsent += message
            if len(unsent) > MOST_UNSENT_BYTES:
                os.set_blocking(pipe, True)
            if len(unsent) >= SENT_BYTES:
                with suppress(BlockingIOError):
                    del unsent[: os.write(pipe, unsent)]
    os.set_blocking(pipe, True)
    while unsent:
        del unsent[: os.write(pipe, unsent)]


# How a result's identity travels ------------------------------------------------------------------


def _extension(value: object) -> msgspec.msgpack.Ext:
    if isinstance(value, Identity):
        return msgspec.msgpack.Ext(_IDENTITY, value.to_bytes())
    raise NotImplementedError(type(value))


def _identity(code: int, data: memoryview) -> Identity:
    assert code == _IDENTITY, "nothing else has an extension"
    return Identity.from_bytes(bytes(data))
