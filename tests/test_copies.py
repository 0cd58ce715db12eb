"""Private copies: the original is only read, and nothing of them is left."""

import os
import stat
from pathlib import Path

import pytest
from running import LOGS

from dsh_compact.cli.options import DEMO_LOG
from dsh_compact.copies import BUILT_IN, check_free, keep, private_copy
from dsh_compact.errors import LogError, UnreadableLog

LOG = LOGS / "v4-stuck.jsonl"


def test_a_copy_is_faithful_private_and_gone() -> None:
    """The same bytes under the same name, in a folder for its owner alone, until the end."""
    with private_copy(LOG) as copy:
        path = Path(copy)
        assert LOG.read_bytes() == path.read_bytes()
        assert (LOG.name, 0o700) == (path.name, stat.S_IMODE(path.parent.stat().st_mode))
        (path.parent / "session.lock").touch()
    assert not path.parent.exists()


def test_it_is_gone_whatever_happens() -> None:
    """An exception takes it along, even one that ends programs."""
    with pytest.raises(KeyboardInterrupt), private_copy(LOG) as copy:
        raise KeyboardInterrupt
    assert not Path(copy).parent.exists()


def test_a_folder_means_its_log(tmp_path: Path) -> None:
    """A session's folder is found as everywhere."""
    (tmp_path / "session.v4.jsonl").write_bytes(LOG.read_bytes())
    with private_copy(tmp_path) as copy:
        assert "session.v4.jsonl" == Path(copy).name


def test_bytes_are_a_log_too() -> None:
    """What came through a pipe."""
    with private_copy(b"so be it\n") as copy:
        assert b"so be it\n" == Path(copy).read_bytes()


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As in `dshc recover <(zstdcat log)`."""
    reading, writing = os.pipe()
    os.write(writing, b"so be it\n")
    os.close(writing)
    with private_copy(f"/dev/fd/{reading}") as copy:
        assert b"so be it\n" == Path(copy).read_bytes()
    os.close(reading)


def test_what_is_not_there_cannot_be_copied(tmp_path: Path) -> None:
    """The error is the log's, and names it."""
    with (
        pytest.raises(UnreadableLog, match=r"nowhere\.jsonl: cannot be opened"),
        private_copy(tmp_path / "nowhere.jsonl"),
    ):
        pass


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A copy is kept under a new name only; a dangling link is a name, too."""
    (tmp_path / "there").symlink_to(tmp_path / "nowhere")
    with pytest.raises(LogError, match="exists already"):
        check_free(str(tmp_path / "there"))
    with pytest.raises(LogError, match="exists already"):
        keep(str(LOG), str(tmp_path / "there"))
    keep(str(LOG), str(tmp_path / "kept"))
    assert LOG.read_bytes() == (tmp_path / "kept").read_bytes()


def test_one_session_ships() -> None:
    """`--demo` and a rehearsal without a log mean the same one."""
    assert DEMO_LOG == BUILT_IN
