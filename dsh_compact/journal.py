"""The file as it is written: lock, append, flush; nothing else opens a log for writing.

Rule 1: bytes are added behind the last good end and nowhere else, under the lock, in one write, and
count only once the flush has returned. Rule 2: what could not be written whole is cut off again;
where even that fails, the journal refuses every further append. Rule 3: what somebody else wrote is
never cut, and a new file has its name only once it is whole. It knows bytes, not events.

The lock is the harness's own: a non-blocking exclusive `flock` on `session.lock` beside the log,
never removed; format 0 had no such file, there the log itself is locked.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Self

from dsh_compact import frames
from dsh_compact.errors import ForeignAppend, LogError, OwnedLog, UnreadableLog, WriteFailed
from dsh_compact.events import Place

LOCK_NAME: Final = "session.lock"

PRIVATE: Final = 0o600
"""Conversations are nobody else's business: what we create is readable by its owner alone."""

COMPARED_BYTES: Final = 4096
"""How much of the tail is compared with what was read before something is put behind it."""

COPIED_BYTES: Final = 1 << 20
"""How much of a file is held at once while it is copied."""

SETTLED_NS: Final = 2 * 10**9
"""A time of change that is older than this is told from that of any write to come, on every file
system: the coarsest count in steps of two seconds.
"""

_TRIES: Final = 8
"""How often a lock file that was replaced under our hands is opened again."""


_WHO_WRITES: Final = "see who writes without the lock, then try again"

_NO_FILE: Final = "is no regular file: nothing is written to it"

_REMEDIES: Final = {
    errno.ENOENT: "make its folder first",
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room on the disk",
    errno.EROFS: "name a place that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
}
"""What can be done about a write that the system refused, where its reason tells."""


class Disk:
    """The operations that a crash may interrupt; tests put a failing disk here."""

    def write(self, fd: int, data: bytes) -> int:
        """Writes at the end; returns how many bytes were taken."""
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        """Returns once everything written so far survives a crash."""
        os.fsync(fd)

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Cuts the file."""
        os.ftruncate(fd, size_bytes)

    def link(self, source: str, target: str) -> None:
        """Gives the file a second name."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        """Takes a name away."""
        os.unlink(path)

    def rename(self, source: str, target: str) -> None:
        """Puts `source` in `target`'s place, at once."""
        os.rename(source, target)


class Journal:
    """A log that we may write to, from opening to closing.

    `end_bytes` is the offset behind the last record that is on disk.
    """

    def __init__(self, path: str, *, own_lock: bool, disk: Disk | None = None) -> None:
        """Opens and locks an existing log; `own_lock`: lock the log itself (format 0).

        Raises `UnreadableLog` (no regular file, no permission) and `OwnedLog`.
        """
        refuse_special_file(path)
        self.path = path
        self._disk = disk or Disk()
        self._refusal: str | None = None
        self._fd = -1
        self._lock_fd = -1 if own_lock else _locked_file(path)
        try:
            self._fd = _open_for_writing(path)
            if own_lock:
                _lock(self._fd, path, path)
        except BaseException:
            self.close()
            raise
        self._inode = os.fstat(self._fd).st_ino
        self.end_bytes = 0
        self._framed = os.pread(self._fd, 4, 0) == frames.MAGIC
        self._tail = b""
        self._mark: tuple[int, ...] | None = None
        self.watch()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the lock back."""
        for fd in (self._fd, self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock_fd = -1

    def start_at(self, end_bytes: int) -> str | None:
        """Declares that whole records end at `end_bytes`; cuts off what is torn behind.

        What is cut is kept beside the log; returns its path, None where nothing was torn. Raises
        `WriteFailed`, and then nothing was cut.
        """
        self.end_bytes = end_bytes
        self._tail = self._read_tail()
        if self._size <= end_bytes:
            return None
        kept = free_name(f"{self.path}.torn")
        write_new_file(kept, _chunks(self._fd, end_bytes), disk=self._disk)
        is_marked = self.is_as_marked
        try:
            self._disk.truncate(self._fd, end_bytes)
            if is_marked:
                self._set_mark()
            self._disk.fsync(self._fd)
        except OSError as fault:
            raise _refused(self.path, "the torn tail cannot be cut off", fault) from fault
        return kept

    def append(self, records: Sequence[bytes]) -> list[Place]:
        """Puts `records` (lines without newlines) on disk, all or none; returns where each lies.

        A framed log gets one frame. Raises `ForeignAppend` when the end is not what was read, and
        `WriteFailed` when the disk refuses: in both cases the log is as it was.
        """
        if self._refusal is not None:
            raise WriteFailed(self.path, self._refusal, remedy="open the log anew")
        self._compare_end()
        content = b"".join(b"%b\n" % record for record in records)
        data = frames.pack(content) if self._framed else content
        self._write(data)
        places = self._places(records)
        self.end_bytes += len(data)
        self._tail = (self._tail + data)[-COMPARED_BYTES:]
        return places

    def watch(self) -> None:
        """Call it before the log is read anew: `is_as_marked` tells whether anybody else has
        written since. (Opening does.)

        A log that was left alone for a while is told by the time of change that it has.
        """
        found = os.fstat(self._fd)
        self._mark = _marks(found)
        if abs(time.time_ns() - found.st_mtime_ns) < SETTLED_NS:
            self._set_mark()

    def mark(self) -> bool:
        """Marks the log, if it is what was read, so that our own appends leave it `is_as_marked`.

        The mark is a time of change to the nanosecond: what a write leaves is the system's clock,
        which moves in steps of milliseconds. Hidden from it is who writes in the microseconds
        between a write of ours and the mark behind it, or through memory that he has mapped (on a
        file system in memory always, on others until the next flush). False where somebody else
        wrote since the log was read, where the file system knows no such times, or where they are
        not ours to set.
        """
        return self.is_as_marked and self._set_mark()

    def _set_mark(self) -> bool:
        found = os.fstat(self._fd)
        now_ns = time.time_ns()
        self._mark = None
        with suppress(OSError, NotImplementedError):
            os.utime(self._fd, ns=(found.st_atime_ns, now_ns))
            marked = os.fstat(self._fd)
            if marked.st_mtime_ns == now_ns:
                self._mark = _marks(marked)
        return self._mark is not None

    @property
    def is_as_marked(self) -> bool:
        """Whether nobody but us has written to the log since it was read; False where that cannot
        be told.
        """
        if self._mark is None:
            return False
        try:
            return _marks(os.stat(self.path)) == self._mark
        except OSError:
            return False

    @property
    def _size(self) -> int:
        return os.fstat(self._fd).st_size

    @property
    def mode(self) -> int:
        """Who may read and write the log."""
        return stat.S_IMODE(os.fstat(self._fd).st_mode)

    def replace_with(self, source: str, backup: str) -> None:
        """Puts the flushed file `source` in the log's place, at once; the log is `backup` then.

        At every moment one of the two has the log's name; nothing can be appended afterwards.
        Raises `ForeignAppend` when the log is not what was read, and `WriteFailed`: the log is as
        it was.
        """
        self._compare_end()
        try:
            self._disk.link(self.path, backup)
        except FileExistsError:
            raise LogError(backup, "exists already", remedy="move it away") from None
        except OSError:  # a file system without links
            write_new_file(backup, _chunks(self._fd, 0), disk=self._disk, mode=self.mode)
        self._refusal = "the log was replaced"
        replace_file(source, self.path, disk=self._disk)

    def _places(self, records: Sequence[bytes]) -> list[Place]:
        frame, start = (self.end_bytes, 0) if self._framed else (-1, self.end_bytes)
        places = []
        for record in records:
            places.append(Place(frame, start, len(record)))
            start += len(record) + 1
        return places

    def _compare_end(self) -> None:
        try:
            inode = os.stat(self.path, follow_symlinks=False).st_ino
        except OSError:
            inode = -1
        if inode != self._inode:
            raise ForeignAppend(
                self.path, "the file was replaced while we had it open", remedy=_WHO_WRITES
            )
        if self._size != self.end_bytes or self._read_tail() != self._tail:
            raise ForeignAppend(
                self.path,
                f"somebody else wrote to the log: it ended at byte {self.end_bytes} when it was"
                f" read and ends at {self._size} now",
                remedy=_WHO_WRITES,
            )

    def _read_tail(self) -> bytes:
        size = min(COMPARED_BYTES, self.end_bytes)
        return os.pread(self._fd, size, self.end_bytes - size)

    def _write(self, data: bytes) -> None:
        is_marked = self.is_as_marked
        try:
            try:
                written = self._disk.write(self._fd, data)
            finally:  # part of what is refused may stand there all the same
                if is_marked:  # at once: what somebody else writes before is hidden by it
                    self._set_mark()
            if written < len(data):
                raise OSError(f"only {written} of {len(data)} bytes were taken")
            if self._size != self.end_bytes + len(data):
                self._withdraw(data)
            self._disk.fsync(self._fd)
        except OSError as fault:
            self._take_back(data)
            raise WriteFailed(
                self.path,
                f"the record could not be written: {fault.strerror or fault}",
                remedy="nothing of it was added; see to the disk, then try again",
            ) from fault

    def _take_back(self, data: bytes) -> None:
        """Cuts off what an append left half done; a flush that failed is never believed again."""
        self._refusal = "an earlier write to this log failed"
        try:
            left = os.pread(self._fd, len(data) + 1, self.end_bytes)
            if not data.startswith(left):
                self._refusal += ", and somebody else wrote behind it"
            elif left:
                is_marked = self.is_as_marked
                self._disk.truncate(self._fd, self.end_bytes)
                if is_marked:
                    self._set_mark()
                self._disk.fsync(self._fd)
        except OSError:
            self._refusal += ", and what it left behind could not be cut off"

    def _withdraw(self, data: bytes) -> None:
        """Somebody else wrote between the last look and our write: what is ours goes, if it can."""
        self._refusal = "somebody else wrote to the log at the same moment"
        start = self._size - len(data)
        if os.pread(self._fd, len(data), start) != data:
            raise ForeignAppend(
                self.path,
                f"{self._refusal}: our records stand among theirs",
                remedy=f'run "dshc verify {self.path}"',
            )
        self._disk.truncate(self._fd, start)
        self._disk.fsync(self._fd)
        raise ForeignAppend(self.path, f"{self._refusal}: nothing was added", remedy=_WHO_WRITES)


def _marks(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def free_name(path: str) -> str:
    """`path`, or the first of `path2`, `path3`, … that does not exist."""
    name, number = path, 1
    while os.path.lexists(name):
        number += 1
        name = f"{path}{number}"
    return name


def write_new_file(
    path: str, pieces: Iterable[bytes], *, disk: Disk | None = None, mode: int = PRIVATE
) -> None:
    """A new file with that content, private unless `mode` says otherwise, flushed, its folder too.

    It has its name only once it is whole, and never replaces anything. Raises `WriteFailed`,
    `LogError` where something of that name exists, and what `pieces` raises; there is then no such
    file.
    """
    disk = disk or Disk()
    if os.path.lexists(path):
        raise _taken(path)
    part = free_name(f"{path}.{os.getpid()}.part")
    try:
        _write_part(part, pieces, disk, mode)
        try:
            _name(part, path, disk)
        except BaseException:
            disk.unlink(part)
            raise
        try:
            flush_folder(path, disk)
        except OSError:
            disk.unlink(path)
            raise
    except OSError as fault:
        raise _refused(path, "cannot be written", fault) from fault


def _refused(path: str, problem: str, fault: OSError) -> WriteFailed:
    """What the system refused, in its words, and what can be done about it."""
    remedy = _REMEDIES.get(fault.errno or 0, "see to the disk, and to who may write there")
    return WriteFailed(path, f"{problem}: {fault.strerror or fault}", remedy=remedy)


def _taken(path: str) -> LogError:
    return LogError(path, "exists already", remedy="choose another name")


def _write_part(part: str, pieces: Iterable[bytes], disk: Disk, mode: int) -> None:
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    try:
        os.fchmod(fd, mode)
        for chunk in _in_chunks(pieces):
            _write_all(disk, fd, chunk)
        disk.fsync(fd)
    except BaseException:
        disk.unlink(part)
        raise
    finally:
        os.close(fd)


def _name(part: str, path: str, disk: Disk) -> None:
    """Gives a whole file its name, unless something has it."""
    try:
        disk.link(part, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise _taken(path) from None
        disk.rename(part, path)
        return
    with suppress(OSError):  # a second name does no harm
        disk.unlink(part)


def replace_file(source: str, target: str, *, disk: Disk | None = None) -> None:
    """Puts the flushed file `source` in the place of `target`, at once, and flushes the folder."""
    disk = disk or Disk()
    try:
        disk.rename(source, target)
        flush_folder(target, disk)
    except OSError as fault:
        raise _refused(target, "cannot be replaced", fault) from fault


def pour(path: str, data: bytes) -> None:
    """Writes `data` into what is there and is no file: a pipe, a terminal; raises `WriteFailed`."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            _write_all(Disk(), fd, data)
        finally:
            os.close(fd)
    except OSError as fault:
        raise _refused(path, "cannot be written", fault) from fault


def flush_folder(path: str, disk: Disk) -> None:
    """A new name survives a crash only once its folder is flushed; raises `OSError`."""
    fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.fsync(fd)
    finally:
        os.close(fd)


def _chunks(fd: int, start_bytes: int) -> Iterator[bytes]:
    at = start_bytes
    while chunk := os.pread(fd, COPIED_BYTES, at):
        yield chunk
        at += len(chunk)


def _in_chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: a write costs the same for a line and for a thousand."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= COPIED_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _write_all(disk: Disk, fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[disk.write(fd, bytes(view)) :]


def refuse_special_file(path: str) -> None:
    """Raises `UnreadableLog` unless `path` is a regular file itself; opens nothing.

    Opening a pipe to look into it would wait for whoever writes to it.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError as fault:
        raise UnreadableLog(path, f"cannot be opened for writing: {fault.strerror}") from fault
    if stat.S_ISLNK(mode):
        raise _link(path)
    if not stat.S_ISREG(mode):
        raise UnreadableLog(path, _NO_FILE, remedy="name a file")


def _link(path: str) -> UnreadableLog:
    """Two names would mean two locks."""
    return UnreadableLog(
        path,
        "cannot be opened for writing: is a symbolic link",
        remedy=f"name {os.path.realpath(path)}",
    )


def _open_for_writing(path: str) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags)
    except OSError as fault:
        if os.path.islink(path):
            raise _link(path) from fault
        raise UnreadableLog(path, f"cannot be opened for writing: {fault.strerror}") from fault
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UnreadableLog(path, _NO_FILE, remedy="name a file")
    return fd


# The lock ---------------------------------------------------------------------------------------


def lock_path_of(path: str) -> str:
    """Where the harness keeps the lock of the log at `path`."""
    return os.path.join(os.path.dirname(path), LOCK_NAME)


def _locked_file(path: str) -> int:
    """The lock file's descriptor, locked; the path is made sure to name the locked file."""
    lock_path = lock_path_of(path)
    for _ in range(_TRIES):
        try:
            fd = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
        except OSError as fault:
            raise UnreadableLog(lock_path, f"cannot be opened: {fault.strerror}") from fault
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise UnreadableLog(
                    lock_path,
                    "is no regular file, so it cannot lock the log",
                    remedy="move it away",
                )
            _lock(fd, path, lock_path)
            if os.path.samestat(os.fstat(fd), os.stat(lock_path)):
                return fd
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    raise OwnedLog(path, lock_path, None)


def _lock(fd: int, path: str, lock_path: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OwnedLog(path, lock_path, _owner(os.fstat(fd).st_ino)) from None


def _owner(inode: int) -> str | None:
    """`PID (name)` of the process that holds a lock on the inode, where the system tells."""
    try:
        with open("/proc/locks", encoding="ascii") as table:
            rows = [row.split() for row in table]
        holders = (row[4] for row in rows if len(row) > 5 and row[5].endswith(f":{inode}"))
        pid = next(holders, None)
        if pid is None:
            return None
        with open(f"/proc/{int(pid)}/comm", encoding="utf-8", errors="replace") as name:
            return f"{pid} ({name.read().strip()})"
    except (OSError, ValueError):
        return None


def flush_file(path: str) -> None:
    """Returns once all that was written to the file survives a crash; raises `WriteFailed`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not wait
    except OSError as fault:
        raise UnreadableLog(path, f"cannot be opened: {fault.strerror}") from fault
    try:
        os.fsync(fd)
    except OSError as fault:
        raise _refused(path, "cannot be flushed", fault) from fault
    finally:
        os.close(fd)
