"""The journal adds whole records behind the last good end, under the lock, or nothing at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from failing_disk import FailingDisk

from dsh_compact import frames
from dsh_compact.errors import ForeignAppend, LogError, OwnedLog, UnreadableLog, WriteFailed
from dsh_compact.journal import (
    COMPARED_BYTES,
    LOCK_NAME,
    Disk,
    Journal,
    replace_file,
    write_new_file,
)

HEADER = b'{"type":"session","version":4,"id":"s"}\n'
FIRST = b'{"type":"a","seq":0}'
SECOND = b'{"type":"b","seq":1}'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A plain log of a header and one record."""
    path = tmp_path / "session.v4.jsonl"
    path.write_bytes(HEADER + FIRST + b"\n")
    return path


def opened(log: Path, disk: Disk | None = None, *, own_lock: bool = False) -> Journal:
    """A journal at the end of the log."""
    journal = Journal(str(log), own_lock=own_lock, disk=disk)
    journal.start_at(log.stat().st_size)
    return journal


# Appending


def test_records_are_put_behind_the_end(log: Path) -> None:
    """What is appended stands behind what was there, line by line, at the places that are told."""
    before = log.read_bytes()
    with opened(log) as journal:
        places = journal.append([SECOND, FIRST])
    content = log.read_bytes()
    assert before + SECOND + b"\n" + FIRST + b"\n" == content
    assert [SECOND, FIRST] == [content[p.start_bytes :][: p.size_bytes] for p in places]


def test_a_framed_log_gets_one_frame(tmp_path: Path) -> None:
    """All records of one append make one frame with a checksum."""
    log = tmp_path / "log"
    log.write_bytes(frames.pack(HEADER))
    before = log.stat().st_size
    with opened(log) as journal:
        journal.append([FIRST, SECOND])
    added = log.read_bytes()[before:]
    assert len(added) == frames.frame_length(added)
    assert FIRST + b"\n" + SECOND + b"\n" == frames.unpack(added)


FAULTS = [
    ("write", {"fault": errno.ENOSPC}),
    ("write", {"fault": errno.EIO}),
    ("write", {"short": 0}),
    ("write", {"short": 7}),
    ("fsync", {"fault": errno.EIO}),
    ("fsync", {"fault": errno.ENOSPC}),
]


@pytest.mark.parametrize(("operation", "fault"), FAULTS)
@pytest.mark.parametrize("framed", [False, True])
def test_a_disk_that_refuses_leaves_the_log_as_it_was(
    tmp_path: Path, operation: str, fault: dict[str, int], framed: bool
) -> None:
    """A full or broken disk, a short write, a failed flush: cut back, raised, not counted, and
    never taken for somebody else's doing.
    """
    log = tmp_path / "log"
    log.write_bytes(frames.pack(HEADER) if framed else HEADER)
    before = log.read_bytes()
    disk = FailingDisk(tmp_path, fail_at=["write", "fsync"].index(operation) + 1, **fault)
    with opened(log, disk) as journal:
        assert journal.mark()
        with pytest.raises(WriteFailed, match="nothing of it was added") as raised:
            journal.append([SECOND])
        assert (len(before), True) == (journal.end_bytes, journal.is_as_marked)
        assert before == log.read_bytes()
        with pytest.raises(WriteFailed, match="open the log anew"):
            journal.append([SECOND])
    assert 4 == raised.value.exit_code
    assert before == log.read_bytes()
    with opened(log) as journal:
        journal.append([SECOND])
    assert log.stat().st_size > len(before)


def test_what_cannot_be_cut_back_is_never_built_upon(log: Path) -> None:
    """Where even the cutting fails, the journal says so and refuses every further append."""

    class Dying(Disk):
        def fsync(self, fd: int) -> None:
            raise OSError(errno.EIO, "dead")

        def truncate(self, fd: int, size_bytes: int) -> None:
            raise OSError(errno.EIO, "dead")

    with opened(log, Dying()) as journal:
        with pytest.raises(WriteFailed):
            journal.append([SECOND])
        with pytest.raises(WriteFailed, match="could not be cut off"):
            journal.append([SECOND])


# Others who write


def test_a_foreign_append_is_an_error(log: Path) -> None:
    """What somebody else put behind the end since it was read is never written behind."""
    with opened(log) as journal:
        with log.open("ab") as other:
            other.write(SECOND + b"\n")
        before = log.read_bytes()
        with pytest.raises(ForeignAppend, match="somebody else wrote"):
            journal.append([SECOND])
        assert before == log.read_bytes()


def test_a_changed_tail_of_the_same_length_is_an_error(log: Path) -> None:
    """The bytes are compared, not only their number."""
    with opened(log) as journal:
        log.write_bytes(log.read_bytes().replace(b'"a"', b'"x"'))
        with pytest.raises(ForeignAppend):
            journal.append([SECOND])


def test_a_foreign_append_at_the_very_moment_is_seen(log: Path) -> None:
    """Another process appends between our last look and our write: ours goes, theirs stays."""
    theirs = b'{"type":"theirs","seq":1}\n'

    class Interrupted(Disk):
        def write(self, fd: int, data: bytes) -> int:
            with log.open("ab") as other:
                other.write(theirs)
            return super().write(fd, data)

    before = log.read_bytes()
    with opened(log, Interrupted()) as journal:
        with pytest.raises(ForeignAppend, match="nothing was added"):
            journal.append([SECOND])
        with pytest.raises(WriteFailed):
            journal.append([SECOND])
    assert before + theirs == log.read_bytes()


def test_what_others_wrote_is_never_cut(log: Path) -> None:
    """A failed write is not cut back where somebody else's record stands behind it."""
    theirs = b'{"type":"theirs","seq":1}\n'

    class Failing(Disk):
        def fsync(self, fd: int) -> None:
            with log.open("ab") as other:
                other.write(theirs)
            raise OSError(errno.EIO, "dead")

    with opened(log, Failing()) as journal, pytest.raises(WriteFailed):
        journal.append([SECOND])
    assert log.read_bytes().endswith(SECOND + b"\n" + theirs)


def test_a_log_that_was_replaced_is_left_alone(log: Path) -> None:
    """A new file under the log's name is another log, even with the same bytes."""
    with opened(log) as journal:
        twin = log.with_suffix(".twin")
        twin.write_bytes(log.read_bytes())
        replace_file(str(twin), str(log))
        before = log.read_bytes()
        with pytest.raises(ForeignAppend, match="replaced"):
            journal.append([SECOND])
        assert before == log.read_bytes()


# The lock


def test_the_lock_is_the_harness_s(log: Path) -> None:
    """While a journal is open, `session.lock` is locked exclusively; the file stays there."""
    lock = log.with_name(LOCK_NAME)
    with opened(log), lock.open("w") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lock.exists()


def test_format_0_locks_the_log_itself(log: Path) -> None:
    """Where there was no lock file, none is made, and two of us still exclude each other."""
    with opened(log, own_lock=True), pytest.raises(OwnedLog):
        opened(log, own_lock=True)
    assert not log.with_name(LOCK_NAME).exists()
    opened(log, own_lock=True).close()


def test_a_locked_log_is_refused_and_its_owner_named(log: Path) -> None:
    """A live process that holds the lock is told by its number, and the log is not touched."""
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    lock = str(log.with_name(LOCK_NAME))
    before = log.read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(OwnedLog) as raised:
            Journal(str(log), own_lock=False)
        holder.communicate()
    assert raised.value.owner is not None
    assert str(holder.pid) in raised.value.owner
    assert 4 == raised.value.exit_code
    assert before == log.read_bytes()


def test_a_lock_file_that_was_replaced_is_opened_anew(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock that counts is the one that the path names after locking."""
    lock = log.with_name(LOCK_NAME)
    real, calls = fcntl.flock, list[int]()

    def replacing(fd: int, operation: int) -> None:
        real(fd, operation)
        if not calls:
            lock.unlink()
            lock.touch()
        calls.append(fd)

    monkeypatch.setattr(fcntl, "flock", replacing)
    with opened(log):
        monkeypatch.undo()
        with lock.open("w") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert 2 == len(calls)


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder"])
def test_an_irregular_lock_file_is_refused(log: Path, kind: str) -> None:
    """A link or a pipe in the lock's place cannot stand for the lock."""
    make(kind, log.with_name(LOCK_NAME), log)
    with pytest.raises(UnreadableLog):
        Journal(str(log), own_lock=False)


# What is no log to write to


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder"])
def test_only_a_regular_file_is_written_to(tmp_path: Path, log: Path, kind: str) -> None:
    """Links, pipes and folders are refused before anything, a lock file too, is made."""
    folder = tmp_path / "other"
    folder.mkdir()
    target = folder / "session.v4.jsonl"
    make(kind, target, log)
    before = log.read_bytes()
    with pytest.raises(UnreadableLog):
        Journal(str(target), own_lock=False)
    assert [target] == list(folder.iterdir())
    assert before == log.read_bytes()


def make(kind: str, path: Path, log: Path) -> None:
    """Something that is no regular file."""
    match kind:
        case "symlink":
            path.symlink_to(log)
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()


# Torn tails


@pytest.mark.parametrize("torn", [b"{", b'{"type":"user/message"', b"\0" * 4096, b"x" * 3_000_000])
def test_a_torn_tail_is_cut_and_kept(log: Path, torn: bytes) -> None:
    """What stands behind the last whole record goes into a private file beside the log."""
    whole = log.read_bytes()
    log.write_bytes(whole + torn)
    journal = Journal(str(log), own_lock=False)
    kept = journal.start_at(len(whole))
    journal.append([SECOND])
    journal.close()
    assert kept is not None
    assert torn == Path(kept).read_bytes()
    assert 0o600 == stat.S_IMODE(Path(kept).stat().st_mode)
    assert whole + SECOND + b"\n" == log.read_bytes()


def test_an_earlier_tail_is_not_overwritten(log: Path) -> None:
    """Each torn tail has a file of its own."""
    whole = log.read_bytes()
    kept = []
    for torn in (b"one", b"two"):
        log.write_bytes(whole + torn)
        with Journal(str(log), own_lock=False) as journal:
            kept.append(journal.start_at(len(whole)))
    assert [b"one", b"two"] == [Path(path or "").read_bytes() for path in kept]


@pytest.mark.parametrize("operation", [1, 2, 3, 4, 5, 6, 7])
def test_a_tail_that_cannot_be_kept_is_not_cut(log: Path, operation: int) -> None:
    """Where the disk refuses, the torn tail stays, or it is cut and its copy is whole."""
    whole, torn = log.read_bytes(), b"torn"
    log.write_bytes(whole + torn)
    disk = FailingDisk(log.parent, fail_at=operation)
    with Journal(str(log), own_lock=False, disk=disk) as journal:
        try:
            journal.start_at(len(whole))
        except WriteFailed:
            kept = [path.read_bytes() for path in log.parent.glob("*.torn")]
            assert log.read_bytes() == whole + torn or kept == [torn]
        else:
            assert disk.operations < operation or "link" in disk.log


# New files


def test_a_new_file_is_private(tmp_path: Path) -> None:
    """Whatever the umask allows, nobody else may read what is created."""
    old = os.umask(0)
    try:
        write_new_file(str(tmp_path / "new"), [b"a", b"b"])
    finally:
        os.umask(old)
    assert b"ab" == (tmp_path / "new").read_bytes()
    assert 0o600 == stat.S_IMODE((tmp_path / "new").stat().st_mode)
    assert ["new"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("kind", ["file", "symlink", "dangling", "folder"])
def test_a_new_file_replaces_nothing(tmp_path: Path, kind: str) -> None:
    """A name that is taken stays what it is, a dangling link's target too."""
    target, other = tmp_path / "new", tmp_path / "other"
    if kind == "file":
        target.write_bytes(b"old")
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to(other)
        if kind == "symlink":
            other.write_bytes(b"old")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(LogError, match="exists already"):
        write_new_file(str(target), [b"new"])
    assert before == sorted(tmp_path.iterdir())


def test_a_name_taken_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Even between the look and the naming nothing is overwritten."""
    target = tmp_path / "new"

    def pieces() -> list[bytes]:
        target.write_bytes(b"theirs")
        return [b"ours"]

    with pytest.raises(LogError, match="exists already"):
        write_new_file(str(target), (piece for piece in pieces()))
    assert [target] == list(tmp_path.iterdir())
    assert b"theirs" == target.read_bytes()


def test_without_links_a_new_file_is_named_all_the_same(tmp_path: Path) -> None:
    """File systems without hard links get their new files, too."""

    class Linkless(Disk):
        def link(self, source: str, target: str) -> None:
            raise OSError(errno.EPERM, "no links here")

    write_new_file(str(tmp_path / "new"), [b"a"], disk=Linkless())
    assert [(tmp_path / "new", b"a")] == [(p, p.read_bytes()) for p in tmp_path.iterdir()]
    with pytest.raises(LogError, match="exists already"):
        write_new_file(str(tmp_path / "new"), [b"b"], disk=Linkless())


@pytest.mark.parametrize("operation", range(1, 6))
def test_a_new_file_that_fails_is_not_there(tmp_path: Path, operation: int) -> None:
    """A disk that refuses leaves nothing behind, under any name."""
    disk = FailingDisk(tmp_path, fail_at=operation)
    try:
        write_new_file(str(tmp_path / "new"), [b"abc"], disk=disk)
    except WriteFailed:
        assert [] == list(tmp_path.iterdir())
    else:
        assert b"abc" == (tmp_path / "new").read_bytes()


# Replacing a log


def test_a_log_is_replaced_at_once_and_kept(log: Path) -> None:
    """The new log has the name, the old one another, and both are whole."""
    before = log.read_bytes()
    write_new_file(str(log.with_suffix(".new")), [HEADER])
    with opened(log) as journal:
        journal.replace_with(str(log.with_suffix(".new")), str(log.with_suffix(".old")))
        with pytest.raises(WriteFailed):
            journal.append([SECOND])
    assert (HEADER, before) == (log.read_bytes(), log.with_suffix(".old").read_bytes())
    assert not log.with_suffix(".new").exists()


def test_a_log_that_grew_is_not_replaced(log: Path) -> None:
    """What somebody else appended meanwhile would be lost."""
    fresh, backup = log.with_suffix(".new"), log.with_suffix(".old")
    write_new_file(str(fresh), [HEADER])
    with opened(log) as journal:
        with log.open("ab") as other:
            other.write(SECOND + b"\n")
        before = log.read_bytes()
        with pytest.raises(ForeignAppend):
            journal.replace_with(str(fresh), str(backup))
    assert before == log.read_bytes()
    assert not backup.exists()


# The mark


def overwrite(log: Path) -> None:
    """Other bytes of the same length, in the middle."""
    with log.open("r+b") as other:
        other.seek(10)
        other.write(b"?")


def grow(log: Path) -> None:
    """A few bytes more."""
    with log.open("ab") as other:
        other.write(b"more")


def swap(log: Path) -> None:
    """Another file with the log's name and content, of the same time."""
    twin = log.with_suffix(".twin")
    shutil.copy2(log, twin)
    twin.rename(log)


def lose(log: Path) -> None:
    """No file at all."""
    log.unlink()


@pytest.mark.parametrize("change", [overwrite, grow, swap, lose])
@pytest.mark.parametrize("appends", [0, 1])
def test_whoever_else_writes_breaks_the_mark(
    change: Callable[[Path], None], appends: int, log: Path
) -> None:
    """At once behind our own write, too, where the system's clock has not moved on."""
    with opened(log) as journal:
        assert (True, True) == (journal.is_as_marked, journal.mark())
        for _ in range(appends):
            journal.append([SECOND])
        before = journal.is_as_marked
        change(log)
        assert (True, False) == (before, journal.is_as_marked)


@pytest.mark.parametrize("change", [overwrite, grow, swap, lose])
@pytest.mark.parametrize("age_seconds", [0, 1, 100, -100], ids=["new", "recent", "old", "future"])
def test_no_log_is_marked_that_was_written_to_since_it_was_opened(
    change: Callable[[Path], None], age_seconds: int, log: Path
) -> None:
    """What was read then is not what stands there; however long the log was left alone before."""
    now_ns = time.time_ns()
    os.utime(log, ns=(now_ns, now_ns - age_seconds * 10**9))
    with opened(log) as journal:
        change(log)
        assert (False, False) == (journal.is_as_marked, journal.mark())


def test_opening_a_log_that_was_left_alone_leaves_its_times(log: Path) -> None:
    """Nothing is set before something is to be proven."""
    os.utime(log, ns=(1, 1))
    with opened(log) as journal:
        assert (True, 1) == (journal.is_as_marked, log.stat().st_mtime_ns)


def test_a_tail_that_we_cut_off_leaves_the_mark(log: Path) -> None:
    """It is no foreign writing."""
    whole_bytes = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"torn")
    with Journal(str(log), own_lock=False) as journal:
        assert journal.start_at(whole_bytes) is not None
        assert (True, whole_bytes) == (journal.is_as_marked, log.stat().st_size)


def test_a_broken_mark_is_not_mended_by_our_own_writing(log: Path) -> None:
    """What somebody wrote before our append, far from the end, is not forgotten with it."""
    with log.open("ab") as file:
        file.write(b" " * COMPARED_BYTES + b"\n")
    with opened(log) as journal:
        journal.mark()
        overwrite(log)
        journal.append([SECOND])
        assert not journal.is_as_marked


def refuse(fd: int, ns: tuple[int, int]) -> None:
    """A file that is not ours, though we may write to it."""
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_file_system_without_such_times_keeps_no_mark(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds tell nothing; nor does a time that is not ours to set."""
    real = os.utime
    with opened(log) as journal:
        monkeypatch.setattr(os, "utime", lambda fd, ns: real(fd, ns=(ns[0], ns[1] // 10**9)))
        assert (False, False) == (journal.mark(), journal.is_as_marked)
        monkeypatch.setattr(os, "utime", refuse)
        assert (False, False) == (journal.mark(), journal.is_as_marked)
