"""The same work on many logs: every result once, and never more processes than cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsh_compact.cli import many


def weigh(path: str) -> tuple[int, int]:
    """The work: a file's length, and who did it."""
    return Path(path).stat().st_size, os.getpid()


def die(path: str) -> int:
    """The work of a process that is ended from outside."""
    os._exit(len(path))


def fail(path: str) -> int:
    """The work that raises."""
    raise ValueError(path)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Files of many lengths."""
    found = []
    for number in range(40):
        path = tmp_path / str(number)
        path.write_bytes(b"x" * number)
        found.append(str(path))
    return found


@pytest.mark.parametrize("worth_seconds", [0, 1_000], ids=["processes", "one process"])
def test_every_path_has_its_result_once(
    worth_seconds: float, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order they are finished; many processes only where the work is worth them."""
    monkeypatch.setattr(many, "WORTH_SECONDS", worth_seconds)
    found = dict(many.each(weigh, paths, label="weighing"))
    assert {path: number for number, path in enumerate(paths)} == {
        path: size for path, (size, _) in found.items()
    }
    workers = {worker for _, worker in found.values()}
    if worth_seconds:
        assert {os.getpid()} == workers
    elif many.cores() > 1:
        assert os.getpid() not in workers
        assert len(workers) <= many.cores()


def test_standard_input_is_read_here(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has one reader."""
    monkeypatch.setattr(many, "WORTH_SECONDS", 0)
    words = dict(many.each(len, ["-", *paths], label="counting"))
    assert 1 == words["-"]


@pytest.mark.skipif(many.cores() < 2, reason="one core, so no processes")
def test_a_worker_that_dies_is_an_error_and_no_wait(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory may run short in one of them."""
    monkeypatch.setattr(many, "WORTH_SECONDS", 0)
    with pytest.raises(many.WorkerDied):
        list(many.each(die, paths, label="dying"))


@pytest.mark.skipif(many.cores() < 2, reason="one core, so no processes")
def test_an_error_comes_back_as_it_was(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the work does not answer with, it raises here."""
    monkeypatch.setattr(many, "WORTH_SECONDS", 0)
    with pytest.raises(ValueError, match="/"):
        list(many.each(fail, paths, label="failing"))
