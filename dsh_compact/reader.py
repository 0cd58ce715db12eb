"""The file as it is read: plain or framed, a path or standard input, in bulk or one record again.

Reading never writes, not even a lock file or an access time. It knows bytes and lines; what a line
means is `codec`'s business. A record is what ends in a newline: whatever stands behind the last one
is a torn tail, told apart from damage and never handed out. Memory: one chunk, or one record.
"""

import os
import stat
import sys
from collections.abc import Iterator
from io import RawIOBase
from typing import BinaryIO, Final, NamedTuple, Self, cast

from dsh_compact import frames
from dsh_compact.errors import Damage, LogError, RuleBroken, UnreadableLog
from dsh_compact.events import Place

CHUNK_BYTES: Final = 1 << 18
"""How much of a plain log is read at once: large enough for speed, small beside the interpreter."""

MAX_RECORD_BYTES: Final = 1 << 28
"""A record longer than 256 MiB is refused: it would have to be held in memory at once."""

NEAR_BYTES: Final = 1 << 20
"""So far a line or a frame is looked for that begins behind a place: most are far shorter."""

MARK_BYTES: Final = 256
"""So much of a log's end tells whether it was rewritten meanwhile: seqs and times stand in it."""

FRAMES_KEPT: Final = 2
"""Unpacked frames that are held for the next record to be read again: a session that began as a
copy has one large frame, and small ones for what was replaced since, which are read by turns.
"""

STANDARD_INPUT: Final = "-"

SESSION_FILES: Final = tuple(
    name + suffix
    for name in ("session.v4.jsonl", "session.v3.jsonl", "session.jsonl")
    for suffix in ("", ".zstd")
)
"""What a session's folder may hold, the newest format first."""

LOG_SUFFIXES: Final = (".jsonl", ".jsonl.zstd")
"""What a log's name ends in, in a folder that is no session's."""


class Run(NamedTuple):
    """Whole lines, newlines included, in the first `size_bytes` of `data`.

    The first line begins at that place (see `Place`). `data` is used again for the next run.
    """

    data: bytes | bytearray
    size_bytes: int
    frame_bytes: int
    start_bytes: int


class Batch(NamedTuple):
    """Whole lines without their newlines; the first begins at that place (see `Place`)."""

    lines: list[bytes]
    frame_bytes: int
    start_bytes: int


class TornTail(NamedTuple):
    """What stands behind the last whole record or frame."""

    start_bytes: int
    size_bytes: int
    is_frame: bool


class LogReader:
    """An open log.

    `end_bytes` is the offset behind the last whole record (or frame) that `batches` has handed out,
    `torn` what stands there, None while nothing does.
    """

    def __init__(self, path: str) -> None:
        """Opens `path` (`-`: standard input) for reading; raises `UnreadableLog`."""
        self.path = path
        self._file = _spooled_input() if path == STANDARD_INPUT else _opened(path)
        self._fd = self._file.fileno()
        self._unpacked: dict[int, bytes] = {}  # by place, the one that was read last behind
        self.framed = os.pread(self._fd, 4, 0) == frames.MAGIC
        self.end_bytes = 0
        self.torn: TornTail | None = None
        self._mark = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets the file go; no place can be read any more."""
        self._file.close()

    def fileno(self) -> int:
        """The open file's descriptor."""
        return self._fd

    @property
    def size_bytes(self) -> int:
        """The file's length now."""
        return os.fstat(self._fd).st_size

    def mark_end(self) -> None:
        """Remembers what stands before `end_bytes`, for `lost` to compare."""
        self._mark = self._before_end()

    def lost(self) -> str | None:
        """Why the path leads no longer to the bytes that were read, None while it does."""
        try:
            named = os.stat(self.path)
        except OSError:
            return "the log is gone"
        if not stat.S_ISREG(named.st_mode):
            return "the log is gone, and what has its name is no file"
        if not os.path.samestat(named, os.fstat(self._fd)):
            return "another file has taken the log's place"
        if self.size_bytes < self.end_bytes:
            return "the log was cut short"
        return None if self._before_end() == self._mark else "the log was rewritten"

    def _before_end(self) -> bytes:
        size = min(MARK_BYTES, self.end_bytes)
        return self._pread(size, self.end_bytes - size)

    def start_over(self) -> None:
        """Forgets what was read: `runs` begins at the beginning, and records are read anew."""
        self.end_bytes = 0
        self._unpacked.clear()

    def runs(self, until_bytes: int = sys.maxsize) -> Iterator[Run]:
        """Whole lines from `end_bytes` on; call it again to catch up with another writer.

        It stops at `until_bytes`, a `boundary`, or behind the frame that reaches beyond it. Raises
        `RuleBroken` (too-large, bad-frame, bad-checksum) at the run where it happens.
        """
        self.torn = None
        return self._frames(until_bytes) if self.framed else self._chunks(until_bytes)

    def boundary(self, from_bytes: int) -> int | None:
        """Where the first line from there on begins, or what looks like a frame's beginning; None
        where it is not near.
        """
        if self.framed:
            at = self._pread(NEAR_BYTES, from_bytes).find(frames.MAGIC)
        else:
            at = self._pread(NEAR_BYTES, from_bytes - 1).find(b"\n")
        return None if at < 0 else from_bytes + at

    def batches(self) -> Iterator[Batch]:
        """The same as separate lines, for those who look at every one."""
        for data, size, frame, start in self.runs():
            yield Batch(bytes(memoryview(data)[: size - 1]).split(b"\n"), frame, start)

    def head(self, size_bytes: int) -> bytes:
        """The beginning of what is read as lines, that long or shorter; packed bytes where there is
        no whole frame.
        """
        place = Place(0 if self.framed else -1, 0, size_bytes)
        try:
            return self.read(place)
        except RuleBroken:
            return self._pread(size_bytes, 0)

    def read(self, place: Place) -> bytes:
        """The record at `place`, without its newline."""
        if place.frame_bytes < 0:
            return self._pread(place.size_bytes, place.start_bytes)
        content = self._unpacked.pop(place.frame_bytes, None)
        if content is None:
            content = self._unpack(place.frame_bytes)
            if len(self._unpacked) == FRAMES_KEPT:
                del self._unpacked[next(iter(self._unpacked))]
        self._unpacked[place.frame_bytes] = content
        return content[place.start_bytes : place.start_bytes + place.size_bytes]

    # Plain ----------------------------------------------------------------------------------------

    def _chunks(self, until_bytes: int) -> Iterator[Run]:
        buffer = bytearray(CHUNK_BYTES)
        while got := self._fill(buffer, until_bytes - self.end_bytes):
            size = buffer.rfind(b"\n", 0, got) + 1
            if size:
                start = self.end_bytes
                self.end_bytes += size  # the beginning of a next line is read again with it
                yield Run(buffer, size, -1, start)
            elif got < len(buffer):
                break
            elif len(buffer) > MAX_RECORD_BYTES:
                raise RuleBroken(
                    Damage.TOO_LARGE,
                    f"a record of more than {MAX_RECORD_BYTES >> 20} MiB (MAX_RECORD_BYTES)",
                )
            else:
                buffer = bytearray(2 * len(buffer))
        if got:
            self.torn = TornTail(self.end_bytes, got, False)

    def _fill(self, buffer: bytearray, most_bytes: int) -> int:
        """What stands behind `end_bytes`, as much as fits; the number of bytes."""
        room = buffer if most_bytes >= len(buffer) else memoryview(buffer)[:most_bytes]
        try:
            return os.preadv(self._fd, [room], self.end_bytes)
        except OSError as fault:
            raise UnreadableLog(self.path, f"cannot be read: {fault.strerror}") from fault

    def _pread(self, size_bytes: int, start_bytes: int) -> bytes:
        try:
            data = os.pread(self._fd, size_bytes, start_bytes)
            if len(data) in (0, size_bytes) or size_bytes <= CHUNK_BYTES:
                return data
            pieces = [data]
            while (have := sum(map(len, pieces))) < size_bytes:
                piece = os.pread(self._fd, size_bytes - have, start_bytes + have)
                if not piece:
                    break
                pieces.append(piece)
            return b"".join(pieces)
        except OSError as fault:
            raise UnreadableLog(self.path, f"cannot be read: {fault.strerror}") from fault

    # Framed ---------------------------------------------------------------------------------------

    def _frames(self, until_bytes: int) -> Iterator[Run]:
        window, window_start = b"", self.end_bytes
        while self.end_bytes < until_bytes:
            at = self.end_bytes - window_start
            try:
                length = frames.frame_length(window, at) if at < len(window) else None
            except RuleBroken:
                if self._only_zeros_follow():
                    break
                raise
            if length is None:
                more = self._longer_window(len(window) - at)
                if len(more) <= len(window) - at:
                    break
                window, window_start = more, self.end_bytes
                continue
            content = frames.unpack(window[at : at + length])
            if not content.endswith(b"\n"):
                raise RuleBroken(Damage.NOT_ZSTD, "the frame ends in the middle of a record")
            start = self.end_bytes
            self.end_bytes += length
            yield Run(content, len(content), start, 0)
        else:
            return
        if left := self.size_bytes - self.end_bytes:
            self.torn = TornTail(self.end_bytes, left, True)

    def _only_zeros_follow(self) -> bool:
        """A crash may leave a file that is longer than what reached the disk."""
        tail = self._pread(CHUNK_BYTES, self.end_bytes)
        return len(tail) < CHUNK_BYTES and not any(tail)

    def _longer_window(self, have_bytes: int) -> bytes:
        """At least twice what is at hand of the file from `end_bytes` on, if there is that much."""
        if have_bytes > frames.MAX_PACKED_BYTES:
            raise RuleBroken(
                Damage.TOO_LARGE,
                f"a frame of more than {frames.MAX_PACKED_BYTES >> 20} MiB (MAX_PACKED_BYTES)",
            )
        return self._pread(max(CHUNK_BYTES, 2 * have_bytes), self.end_bytes)

    def _unpack(self, frame_bytes: int) -> bytes:
        size = CHUNK_BYTES // 16
        while True:
            window = self._pread(size, frame_bytes)
            length = frames.frame_length(window)
            if length is not None:
                return frames.unpack(window[:length])
            if len(window) < size:
                raise RuleBroken(Damage.TORN_FRAME, f"the frame at byte {frame_bytes} is cut off")
            size *= 4


def find_log(path: str) -> tuple[str, tuple[str, ...]]:
    """The log that `path` means, and its stale siblings.

    A session's folder means the file of the newest format in it; the other formats' files are what
    the harness left behind when it migrated. Raises `LogError` where the folder holds none, and
    `UnreadableLog` where it may not be looked into.
    """
    if path == STANDARD_INPUT or not os.path.isdir(path):
        return path, ()
    found = _session_files(path)
    if not found:
        _listed(path)  # a name that was not found is no proof where nobody may look
        raise LogError(
            path,
            "no session log in this folder",
            remedy=f"name the file; a session's folder holds {SESSION_FILES[0]} or the like",
        )
    return found[0], tuple(found[1:])


def _session_files(folder: str) -> list[str]:
    paths = (os.path.join(folder, name) for name in SESSION_FILES)
    return [path for path in paths if _is_file(folder, path)]


def _is_file(folder: str, path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError as fault:
        raise _closed(folder, fault) from fault
    except OSError:  # absent, or a link that leads nowhere
        return False


def _listed(folder: str) -> None:
    try:
        with os.scandir(folder):
            return
    except OSError as fault:
        raise _closed(folder, fault) from fault


def _closed(folder: str, fault: OSError) -> UnreadableLog:
    return UnreadableLog(
        folder,
        f"the folder cannot be looked into: {fault.strerror}",
        remedy="name the file, or let its owner open the folder",
    )


def find_logs(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All logs that `path` means: a file or a session's folder itself, or what lies in a folder;
    and what has a log's name there but is no file.

    In any other folder, and below, that is each session's newest file, and elsewhere the `.jsonl`
    and `.jsonl.zstd` files, in order. A pipe among them would be waited for: it is a log only where
    `path` names it. A folder that cannot be listed stands for itself, so that reading it says why.
    Raises `LogError` where a folder holds no log, and `UnreadableLog` where `path` itself may not
    be looked into.
    """
    if path == STANDARD_INPUT or not os.path.isdir(path) or _session_files(path):
        return (path,), ()
    found: list[str] = []
    closed: list[str] = []
    special: list[str] = []
    for folder, folders, names in os.walk(
        path, onerror=lambda fault: closed.append(fault.filename)
    ):
        folders.sort()
        logs: list[str] = []
        for name in sorted(name for name in names if name.endswith(LOG_SUFFIXES)):
            log = os.path.join(folder, name)
            (special if _is_special(log) else logs).append(log)
        session = (os.path.join(folder, name) for name in SESSION_FILES)
        newest = next((log for log in session if log in logs), None)
        found += logs if newest is None else [newest]
    if not found and not closed:
        but = f", and {special[0]} is no file" if special else ""
        raise LogError(path, f"no session log in this folder or below{but}", remedy="name the file")
    return (*found, *closed), tuple(special)


def _is_special(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # reading it says why
        return False


def _opened(path: str) -> BinaryIO:
    try:
        file = os.fdopen(open_quietly(path), "rb", buffering=0)
    except OSError as fault:
        raise UnreadableLog(path, f"cannot be opened: {fault.strerror}") from fault
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file  # a raw file reads as well as a buffered one
    with file:
        return _spooled(path, file)  # a pipe can be read only once


def open_quietly(path: str) -> int:
    """Without touching the access time, where the system lets us; raises `UnreadableLog` for what
    no log can be, before it is opened.
    """
    _refuse_device(path, os.stat(path).st_mode)
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOATIME", 0))
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def is_pipe(path: str) -> bool:
    """Whether what is there can be read only once."""
    try:
        return path == STANDARD_INPUT or stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _refuse_device(path: str, mode: int) -> None:
    """Some devices never end, and looking into others changes something."""
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or (stat.S_ISSOCK(mode) and path != STANDARD_INPUT):
        what = "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise UnreadableLog(path, f"is {what}: a log is a file or a pipe", remedy="name one")


def _spooled_input() -> BinaryIO:
    if sys.stdin is None:  # the shell's `<&-`
        raise UnreadableLog(STANDARD_INPUT, "standard input is closed", remedy="name a file")
    source = sys.stdin.buffer
    if not source.isatty():  # what is typed or pasted ends
        _refuse_device(STANDARD_INPUT, os.fstat(source.fileno()).st_mode)
    return _spooled(STANDARD_INPUT, source)


def _spooled(path: str, source: BinaryIO | RawIOBase) -> BinaryIO:
    """A file without a name that holds what a pipe delivers: records are read more than once."""
    from contextlib import ExitStack
    from tempfile import TemporaryFile

    try:
        with ExitStack() as stack:
            spool = stack.enter_context(TemporaryFile())
            _copy_lines(path, source, spool)
            stack.pop_all()  # the reader closes it
    except OSError as fault:
        raise UnreadableLog(
            path,
            f"cannot be kept in a temporary file: {fault.strerror}",
            remedy="point TMPDIR at a folder with room for it",
        ) from fault
    return cast("BinaryIO", spool)


def _copy_lines(path: str, source: BinaryIO | RawIOBase, target: BinaryIO) -> None:
    since_newline = 0
    while chunk := source.read(CHUNK_BYTES):
        target.write(chunk)
        newline = chunk.rfind(b"\n")
        since_newline = len(chunk) - newline - 1 + (since_newline if newline < 0 else 0)
        if since_newline > MAX_RECORD_BYTES:  # it may never end
            problem = f"a record of more than {MAX_RECORD_BYTES >> 20} MiB (MAX_RECORD_BYTES)"
            raise UnreadableLog(path, problem, remedy="if it is a log, save it to a file")
    target.flush()
