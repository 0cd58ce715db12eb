"""The reader hands out whole records, tells a torn tail from damage, and never writes."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Conversation, frame, line
from footprints import footprints
from hypothesis import given, settings
from hypothesis import strategies as st
from privilege import locked_out, without_privilege
from strategies import Torn, torn_logs

from dsh_compact import frames
from dsh_compact import reader as reading
from dsh_compact.errors import LogError, RuleBroken, UnreadableLog
from dsh_compact.events import Place
from dsh_compact.reader import LogReader, find_log, find_logs


def put(folder: Path, content: bytes, name: str = "log") -> Path:
    """A file with that content."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def lines_of(path: Path) -> list[bytes]:
    """All whole lines, as the reader hands them out."""
    with LogReader(str(path)) as reader:
        return [one for batch in reader.batches() for one in batch.lines]


def talk() -> Conversation:
    """A small log."""
    return Conversation().user("list the files").assistant("Well.").end()


@pytest.mark.parametrize("chunk_bytes", [64, 300, 1 << 18])
@pytest.mark.parametrize("framed", [False, True])
def test_lines_are_whole_whatever_the_chunk(
    tmp_path: Path, framed: bool, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line longer than a chunk is handed out whole, and each is found again at its place."""
    monkeypatch.setattr(reading, "CHUNK_BYTES", chunk_bytes)
    path = put(tmp_path, talk().framed() if framed else talk().bytes())
    expected = [one[:-1] for one in talk().lines()]
    with LogReader(str(path)) as reader:
        found, again = [], []
        for batch in reader.batches():
            start = batch.start_bytes
            for one in batch.lines:
                place = Place(batch.frame_bytes, start, len(one))
                found.append(bytes(one))
                again.append(reader.read(place))
                start += len(one) + 1
        assert expected == found == again
        assert (path.stat().st_size, None) == (reader.end_bytes, reader.torn)


@settings(max_examples=40)
@given(torn_logs())
def test_a_torn_tail_is_never_handed_out(torn: Torn) -> None:
    """Whole records come out, what stands behind them is told by its place and size."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path, whole = put(Path(folder), torn.data), put(Path(folder), torn.whole, "whole")
        assert lines_of(path) == (lines_of(whole) if torn.whole else [])
        with LogReader(str(path)) as reader:
            for _ in reader.batches():
                pass
            assert len(torn.whole) == reader.end_bytes
            assert reader.torn is not None
            assert len(torn.data) - len(torn.whole) == reader.torn.size_bytes


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ")), max_size=20))
def test_a_log_that_grows_is_caught_up_with(appended: list[bytes]) -> None:
    """Reading goes on where it ended, however the file has grown."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path, found = put(Path(folder), b"first\n"), []
        with LogReader(str(path)) as reader, path.open("ab") as writer:
            for one in [b"", *appended]:
                writer.write(one + b"\n")
                writer.flush()
                found += [bytes(x) for batch in reader.batches() for x in batch.lines]
        assert [b"first", b"", *appended] == found


def test_zeros_at_the_end_of_a_framed_log_are_a_torn_tail(tmp_path: Path) -> None:
    """A crash may leave a file longer than what reached the disk."""
    path = put(tmp_path, talk().framed() + b"\0" * 5_000)
    with LogReader(str(path)) as reader:
        list(reader.batches())
        assert reader.torn is not None
        assert 5_000 == reader.torn.size_bytes


def test_a_broken_frame_is_damage_and_no_tail(tmp_path: Path) -> None:
    """What is wrong in the middle is not taken for the end."""
    frames = [frame(line(record)) for record in talk().records]
    path = put(tmp_path, b"".join([frames[0], b"garbage", *frames[1:]]))
    with LogReader(str(path)) as reader, pytest.raises(RuleBroken):
        list(reader.batches())


def test_a_record_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is held in memory that is longer than the named limit."""
    monkeypatch.setattr(reading, "CHUNK_BYTES", 100)
    monkeypatch.setattr(reading, "MAX_RECORD_BYTES", 1_000)
    path = put(tmp_path, b"x" * 5_000)
    with LogReader(str(path)) as reader, pytest.raises(RuleBroken, match="MAX_RECORD_BYTES"):
        list(reader.batches())


def test_reading_leaves_no_trace(tmp_path: Path) -> None:
    """Not even an access time."""
    path = put(tmp_path, talk().bytes())
    before = footprints(tmp_path)
    lines_of(path)
    assert before == footprints(tmp_path)


def test_a_pipe_is_read_once_and_can_be_looked_up(tmp_path: Path) -> None:
    """What comes through a pipe is kept, so that a record can be read again."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(talk().bytes(),))
    writer.start()
    with LogReader(str(pipe)) as reader:
        batches = list(reader.batches())
        second = len(talk().lines()[0])
        place = Place(-1, second, len(talk().lines()[1]) - 1)
        assert talk().lines()[1][:-1] == reader.read(place)
    writer.join()
    assert len(talk().records) == sum(len(batch.lines) for batch in batches)


@pytest.mark.parametrize("what", ["absent", "folder"])
def test_what_cannot_be_read_says_so(tmp_path: Path, what: str) -> None:
    """The path and the system's reason, and the exit code 4."""
    path = tmp_path / "log"
    if what == "folder":
        path.mkdir()
    with pytest.raises(UnreadableLog) as raised:
        lines_of(path)
    assert (str(path), 4) == (raised.value.path, raised.value.exit_code)


@pytest.mark.parametrize("what", ["device", "link to a device", "socket"])
def test_what_can_hold_no_log_is_not_opened(tmp_path: Path, what: str) -> None:
    """A device may never end, and a socket has nothing to read: the error says which it is."""
    path = Path("/dev/zero") if what == "device" else tmp_path / "log"
    if what == "link to a device":
        path.symlink_to("/dev/zero")
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    with pytest.raises(UnreadableLog, match=r"is a (device|socket): a log is a file or a pipe"):
        lines_of(path)


@pytest.mark.parametrize("has_lines", [False, True])
def test_a_pipe_is_kept_while_its_lines_end(
    has_lines: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what has no lines no more is kept than a record may have; a long log is kept whole."""
    monkeypatch.setattr(reading, "CHUNK_BYTES", 100)
    monkeypatch.setattr(reading, "MAX_RECORD_BYTES", 1_000)
    theirs, ours = os.pipe()
    os.write(ours, (b"x" * 149 + (b"\n" if has_lines else b"x")) * 50)
    os.close(ours)
    pipe = Path(f"/dev/fd/{theirs}")
    try:
        if has_lines:
            assert [b"x" * 149] * 50 == lines_of(pipe)
        else:
            with pytest.raises(UnreadableLog, match="MAX_RECORD_BYTES"):
                lines_of(pipe)
    finally:
        os.close(theirs)


# Finding logs


def test_a_session_s_folder_means_its_newest_log(tmp_path: Path) -> None:
    """What the harness left behind when it migrated is told, not read."""
    old = put(tmp_path, b"", "session.jsonl")
    new = put(tmp_path, b"", "session.v4.jsonl.zstd")
    assert (str(new), (str(old),)) == find_log(str(tmp_path))
    assert (str(old), ()) == find_log(str(old))


def test_a_folder_of_sessions_means_all_of_them(tmp_path: Path) -> None:
    """Each session's newest log, and elsewhere what is named like a log."""
    put(tmp_path, b"", "a/session.jsonl")
    expected = [
        put(tmp_path, b"", "a/session.v4.jsonl"),
        put(tmp_path, b"", "b/c/session.v3.jsonl.zstd"),
        put(tmp_path, b"", "loose/copy.jsonl"),
    ]
    put(tmp_path, b"", "loose/notes.txt")
    put(tmp_path, b"", "a/session.v4.jsonl.set-aside")
    assert (tuple(map(str, expected)), ()) == find_logs(str(tmp_path))


def test_only_a_file_is_found_in_a_folder(tmp_path: Path) -> None:
    """A pipe would be waited for: what bears a log's name and is none is told apart."""
    log = put(tmp_path, b"", "a/session.v3.jsonl")
    (tmp_path / "b.jsonl").symlink_to(log)
    (tmp_path / "c.jsonl").symlink_to(tmp_path / "nowhere")
    pipes = [tmp_path / "a/session.v4.jsonl", tmp_path / "d.jsonl"]
    for pipe in pipes:
        os.mkfifo(pipe)
    found = [tmp_path / "b.jsonl", tmp_path / "c.jsonl", log]
    assert (tuple(map(str, found)), (str(pipes[1]), str(pipes[0]))) == find_logs(str(tmp_path))
    assert ((str(pipes[1]),), ()) == find_logs(str(pipes[1]))


def test_a_folder_of_pipes_holds_no_log(tmp_path: Path) -> None:
    """Nothing but a pipe is nothing found, and the pipe is named."""
    os.mkfifo(tmp_path / "d.jsonl")
    with pytest.raises(LogError, match=r"no session log .*d\.jsonl is no file"):
        find_logs(str(tmp_path))


def test_a_folder_without_logs_is_an_error(tmp_path: Path) -> None:
    """Nothing found is not nothing wrong."""
    with pytest.raises(LogError, match="no session log"):
        find_log(str(tmp_path))
    with pytest.raises(LogError, match="no session log"):
        find_logs(str(tmp_path))


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder with one session's folder in it, where everybody may come."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        session = Path(folder) / "session"
        put(session, talk().bytes(), "session.v4.jsonl").chmod(0o644)
        yield session
        session.chmod(0o755)


@pytest.mark.parametrize("mode", [0o000, 0o444], ids=["no access", "names alone"])
def test_a_folder_that_may_not_be_looked_into_says_so(closed: Path, mode: int) -> None:
    """It holds a log for all that anybody knows, and the system's reason is told."""
    with locked_out(closed, mode):
        for find in (find_log, find_logs):
            with pytest.raises(UnreadableLog, match="looked into: Permission denied") as raised:
                find(str(closed))
            assert str(closed) == raised.value.path


def test_a_closed_folder_among_others_is_told_when_it_is_read(closed: Path) -> None:
    """It stands for itself among the logs, and reading it gives the reason."""
    with locked_out(closed):
        assert ((str(closed),), ()) == find_logs(str(closed.parent))


def test_a_log_is_found_where_names_may_not_be_listed(closed: Path) -> None:
    """Who may enter a folder finds a session's file by its name; what is absent is unknown."""
    closed.chmod(0o111)
    log = closed / "session.v4.jsonl"
    with without_privilege():
        assert (str(log), ()) == find_log(str(closed))
        if os.access(closed, os.R_OK, effective_ids=True):
            pytest.skip("this user may look everywhere")
    log.unlink()
    with without_privilege(), pytest.raises(UnreadableLog, match="Permission denied"):
        find_log(str(closed))


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for every frame that is unpacked."""
    sizes: list[int] = []
    real = frames.unpack

    def counting(packed: bytes) -> bytes:
        sizes.append(len(packed))
        return real(packed)

    monkeypatch.setattr(frames, "unpack", counting)
    return sizes


def test_a_large_frame_is_kept_while_small_ones_are_read(
    tmp_path: Path, unpacked: list[int]
) -> None:
    """What was replaced lies in frames of its own, and is read by turns with what was not."""
    large = frame(b"".join(b"%d\n" % number for number in range(1_000)))
    small = [frame(b"%d\n" % number) for number in range(5)]
    path = put(tmp_path, large + b"".join(small))
    with LogReader(str(path)) as reader:
        place = len(large)
        for number, one in enumerate(small):
            assert b"0" == reader.read(Place(0, 0, 1))
            assert b"%d" % number == reader.read(Place(place, 0, 1))
            place += len(one)
    assert [len(large), *map(len, small)] == unpacked


def test_who_starts_over_reads_anew(tmp_path: Path) -> None:
    """Also the frame that was read last, if another stands in its place."""
    path = put(tmp_path, frame(b"1\n"))
    with LogReader(str(path)) as reader:
        before = reader.read(Place(0, 0, 1))
        path.write_bytes(frame(b"2\n"))
        reader.start_over()
        assert (b"1", b"2") == (before, reader.read(Place(0, 0, 1)))
