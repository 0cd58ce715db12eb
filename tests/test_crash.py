"""Whatever moment the machine stops at, no acknowledged record is lost and the log goes on.

Each test stops its body before operation 1, 2, 3 … until it runs through, and looks at all that may
be on disk after each stop: any prefix of the bytes that were not flushed, with and without the
names that were not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import Conversation, call
from failing_disk import CrashError, FailingDisk

from dsh_compact import frames, repair
from dsh_compact.codec import encode
from dsh_compact.codec.encode import Draft
from dsh_compact.events import Text
from dsh_compact.journal import Disk
from dsh_compact.session import create_session, open_session, read_session
from dsh_compact.verify import verify

LOG = "session.v4.jsonl"
MOST_OPERATIONS = 200  # a body that needs more never ends


def drafts(number: int, count: int = 2) -> list[Draft]:
    """Messages that can be told apart."""
    return [
        encode.user_message([Text(text=f"{number}.{i} ü" * 9)], f"added-{number}-{i}")
        for i in range(count)
    ]


def conversation() -> Conversation:
    """A log that was written before the machine stopped."""
    return (
        Conversation()
        .system("You help.")
        .user("list the files")
        .assistant("Running it.", calls=[call("c1")])
        .result("c1", "a.txt")
        .assistant("One file.")
        .end()
    )


Body = Callable[[Path, Disk, list[str]], None]


def append_three_times(folder: Path, disk: Disk, acknowledged: list[str]) -> None:
    """Three batches, each acknowledged once `append` returns."""
    with open_session(folder / LOG, disk=disk) as session:
        for number in range(3):
            session.append(drafts(number))
            acknowledged += [f"added-{number}-{i}" for i in range(2)]


def after_each_stop(tmp_path: Path, prepare: Callable[[Path], None], body: Body) -> int:
    """Stop the body everywhere, check every state; how many operations it has."""
    for stop_at in range(1, MOST_OPERATIONS):
        folder = tmp_path / f"run{stop_at}"
        folder.mkdir()
        prepare(folder)
        disk, acknowledged = FailingDisk(folder, stop_at=stop_at), list[str]()
        try:
            body(folder, disk, acknowledged)
        except CrashError:
            for state in disk.states():
                state.write(tmp_path / "after")
                assert_goes_on(tmp_path / "after" / LOG, acknowledged, disk.log)
        else:
            return disk.operations
    raise AssertionError("the body never ends")


def assert_goes_on(log: Path, acknowledged: list[str], done: list[str]) -> None:
    """Acknowledged records are there once, the others whole or not at all, and the log goes on."""
    with open_session(log) as session:
        session.append(drafts(99, 1))
    report = verify(log)
    assert (True, ()) == (report.ok, report.findings), done
    ids = added_ids(log)
    assert len(set(ids)) == len(ids), done
    assert [*acknowledged, "added-99-0"] == [*ids[: len(acknowledged)], ids[-1]], done


def added_ids(log: Path) -> list[str]:
    """The messages that a test added, in the log's order."""
    with read_session(log) as session:
        messages = [session.event(node).message for node in session.surface]
    return [m.id for m in messages if m.id is not None and m.id.startswith("added-")]


@pytest.mark.parametrize("framed", [False, True])
def test_appending_survives_every_stop(tmp_path: Path, framed: bool) -> None:
    """An append that returned is on disk; one that did not is there whole, or gone."""
    write = conversation().framed() if framed else conversation().bytes()
    count = after_each_stop(tmp_path, lambda folder: put(folder, write), append_three_times)
    assert 6 == count


def put(folder: Path, content: bytes) -> None:
    """The log as it was before."""
    (folder / LOG).write_bytes(content)


@pytest.mark.parametrize("framed", [False, True])
def test_cutting_a_torn_tail_survives_every_stop(tmp_path: Path, framed: bool) -> None:
    """The torn tail goes, what was cut is kept beside, and nothing else is touched."""
    whole = conversation().framed() if framed else conversation().bytes()
    torn = frames.pack(b'{"type":"user/mess\n')[:-3] if framed else b'{"type":"user/mess'

    def body(folder: Path, disk: Disk, acknowledged: list[str]) -> None:
        append_three_times(folder, disk, acknowledged)
        assert [torn] == [path.read_bytes() for path in folder.glob("*.torn*")]

    count = after_each_stop(tmp_path, lambda folder: put(folder, whole + torn), body)
    assert count > 6


def test_a_new_log_is_whole_or_not_there(tmp_path: Path) -> None:
    """A stop while a log is created leaves a log with its header, or none."""
    for stop_at in range(1, MOST_OPERATIONS):
        folder = tmp_path / f"run{stop_at}"
        folder.mkdir()
        disk = FailingDisk(folder, stop_at=stop_at)
        try:
            create(folder / LOG, disk)
        except CrashError:
            for state in disk.states():
                state.write(tmp_path / "after")
                assert_whole_or_absent(tmp_path / "after" / LOG)
        else:
            assert disk.operations > 3
            return


def create(log: Path, disk: Disk) -> None:
    """What `create_session` does, on that disk."""
    from dsh_compact.codec.encode import session_header
    from dsh_compact.journal import write_new_file

    write_new_file(str(log), [session_header("new", 1, 4) + b"\n"], disk=disk)


def assert_whole_or_absent(log: Path) -> None:
    """A log that can be appended to, or the room for one."""
    if not log.exists():
        create_session(log).close()
    with open_session(log) as session:
        session.append(drafts(99, 1))
    assert verify(log).ok


@pytest.mark.parametrize("framed", [False, True])
def test_repairing_in_place_survives_every_stop(tmp_path: Path, framed: bool) -> None:
    """At every moment the log's name leads to the damaged log, or to the repaired one, whole."""
    log = conversation()
    damaged = log.drop(5).framed() if framed else log.drop(5).bytes()

    def body(folder: Path, disk: Disk) -> None:
        assert repair.repair(folder / LOG, in_place=True, disk=disk).ok

    whole = tmp_path / "whole"
    whole.mkdir()
    put(whole, damaged)
    body(whole, Disk())
    repaired = (whole / LOG).read_bytes()
    for stop_at in range(1, MOST_OPERATIONS):
        folder = tmp_path / f"run{stop_at}"
        folder.mkdir()
        put(folder, damaged)
        disk = FailingDisk(folder, stop_at=stop_at)
        try:
            body(folder, disk)
        except CrashError:
            for state in disk.states():
                assert state.files[LOG] in (damaged, repaired), disk.log
                if state.files[LOG] == repaired:
                    assert damaged in [state.files[name] for name in state.files if name != LOG]
        else:
            assert disk.operations > 6
            return
    raise AssertionError("the body never ends")


def test_the_test_would_see_a_missing_flush(tmp_path: Path) -> None:
    """A disk that forgets to flush is caught by the very checks above."""

    class Careless(FailingDisk):
        def fsync(self, fd: int) -> None:
            self._operate("fsync")

    put(tmp_path, conversation().bytes())
    disk, acknowledged = Careless(tmp_path, stop_at=6), list[str]()
    with pytest.raises(CrashError):
        append_three_times(tmp_path, disk, acknowledged)
    lost = 0
    for state in disk.states():
        state.write(tmp_path / "after")
        try:
            assert_goes_on(tmp_path / "after" / LOG, acknowledged, disk.log)
        except AssertionError:
            lost += 1
    assert lost > 0
