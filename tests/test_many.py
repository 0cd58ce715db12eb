"""The same work on many logs: every result once, never more processes than cores, none left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from running import group_of

from dsh_compact import cores
from dsh_compact.cli import many
from dsh_compact.errors import DshcError, UsageError

needs_cores = pytest.mark.skipif(cores.count() < 2, reason="one core, so no processes")


def weigh(path: str) -> tuple[int, int]:
    """The work: a file's length, and who did it."""
    return Path(path).stat().st_size, os.getpid()


def die(path: str) -> tuple[int, int]:
    """The work of a process that is ended from outside, if the path says so."""
    if path.endswith("7"):
        os.kill(os.getpid(), signal.SIGKILL)
    return weigh(path)


def die_once(path: str) -> tuple[int, int]:
    """The same, but not when it is tried again."""
    flag = Path(f"{path}.died")
    if path.endswith("7") and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return weigh(path)


def refuse(path: str) -> tuple[int, int]:
    """The work that meets something wrong with a log."""
    raise UsageError(path, "name another")


def starve(path: str) -> tuple[int, int]:
    """The work that takes more memory than there is, if the path says so."""
    if path.endswith("7"):
        bytearray(1 << 60)
    return weigh(path)


def fail(path: str) -> tuple[int, int]:
    """The work that has a bug."""
    raise LookupError(path)


def failed(path: str, fault: DshcError) -> tuple[int, int]:
    """What stands for an error: its exit code below zero."""
    return -fault.exit_code, 0


def sleep(path: str) -> tuple[int, int]:
    """The work that takes a while."""
    time.sleep(0.01)
    return weigh(path)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Files of many lengths, the shortest first."""
    found = []
    for number in range(40):
        path = tmp_path / f"{number:02}"
        path.write_bytes(b"x" * number)
        found.append(str(path))
    return found


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes from the start, four logs at a time."""
    monkeypatch.setattr(many, "HERE_SECONDS", -1)
    monkeypatch.setattr(many, "MOST_AT_ONCE", 4)


@pytest.mark.parametrize("here_seconds", [-1, 1_000], ids=["processes", "one process"])
def test_every_path_has_its_result_once(
    here_seconds: float, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order they are finished; many processes only where the work goes on for long."""
    monkeypatch.setattr(many, "HERE_SECONDS", here_seconds)
    found = list(many.each(many.Job(weigh, failed), paths, label="weighing"))
    assert [*range(40)] == sorted(size for size, _ in found)
    workers = {worker for _, worker in found}
    if here_seconds > 0:
        assert {os.getpid()} == workers
    elif cores.count() > 1:
        assert os.getpid() not in workers
        assert len(workers) <= cores.count()


@needs_cores
def test_work_that_goes_on_is_shared(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first logs are read here; when it turns out to be long, processes take over."""
    monkeypatch.setattr(many, "HERE_SECONDS", 0.05)
    found = list(many.each(many.Job(sleep, failed), paths, label="sleeping", stream=True))
    workers = [worker for _, worker in found]
    assert os.getpid() == workers[0]
    assert os.getpid() != workers[-1]


@needs_cores
def test_a_large_log_is_worth_processes_at_once(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it to be read before the others are begun."""
    monkeypatch.setattr(many, "LARGE_BYTES", 39)
    found = list(many.each(many.Job(weigh, failed), paths, label="weighing"))
    assert os.getpid() not in {worker for _, worker in found}


def test_the_largest_logs_are_begun_first(paths: list[str]) -> None:
    """So that none of them is still in work when all others are done."""
    found = list(many.each(many.Job(weigh, failed), paths, label="weighing"))
    assert [*range(39, -1, -1)] == [size for size, _ in found]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("ahead", [4, 1_000])
def test_a_stream_keeps_the_order(
    ahead: int, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is finished first, and however few results may wait."""
    monkeypatch.setattr(many, "MOST_AHEAD", ahead)
    found = many.each(many.Job(weigh, failed), paths, label="weighing", stream=True)
    assert [*range(40)] == [size for size, _ in found]


@needs_cores
@pytest.mark.usefixtures("at_once")
def test_a_stream_runs_only_so_far_ahead(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for an earlier result is bounded, however slow that one is."""
    monkeypatch.setattr(many, "MOST_AHEAD", 8)
    job = many.Job(wait_first, lambda path, _: path)
    with closing(many.each(job, paths, label="waiting", stream=True)) as results:
        assert paths[0] == next(results)
        begun = {path.stem for path in tmp_path.glob("*.begun")}
    assert {f"{number:02}" for number in range(1, 8)} == begun


def wait_first(path: str) -> str:
    """The first takes long, the others note that they were begun."""
    if path.endswith("00"):
        time.sleep(0.3)
    else:
        Path(f"{path}.begun").touch()
    return path


def test_standard_input_is_read_here(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has one reader."""
    monkeypatch.setattr(many, "HERE_SECONDS", -1)
    who = many.each(many.Job(lambda _: os.getpid(), lambda *_: 0), ["-", *paths], label="counting")
    assert {os.getpid()} == set(who)


@needs_cores
@pytest.mark.usefixtures("at_once")
def test_a_log_whose_process_dies_is_a_result(paths: list[str]) -> None:
    """Memory may run short in one: its log has an error, all others have their results."""
    found = list(many.each(many.Job(die, failed), paths, label="dying", stream=True))
    assert [-4 if number % 10 == 7 else number for number in range(40)] == [
        size for size, _ in found
    ]


@needs_cores
@pytest.mark.usefixtures("at_once")
def test_logs_of_a_process_that_died_by_chance_are_tried_again(paths: list[str]) -> None:
    """One at a time, so that the guilty one is found, if there is one."""
    found = list(many.each(many.Job(die_once, failed), paths, label="dying", stream=True))
    assert [*range(40)] == [size for size, _ in found]


@needs_cores
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("most", [0, 1])
def test_fewer_processes_do_where_the_system_has_no_more(
    most: int, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One does all the work; where there is none, an error says so."""
    forks = [os.fork] * most
    monkeypatch.setattr(os, "fork", lambda: forks.pop()() if forks else os.open("/dev/null/x", 0))
    found = many.each(many.Job(weigh, failed), paths, label="weighing", stream=True)
    if most:
        assert [*range(40)] == [size for size, _ in found]
    else:
        with pytest.raises(many.NoWorker, match="no process can be started"):
            list(found)
    assert [] == children()


@pytest.mark.parametrize("here_seconds", [-1, 1_000], ids=["processes", "one process"])
def test_an_error_of_a_log_is_its_result(
    here_seconds: float, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was met."""
    monkeypatch.setattr(many, "HERE_SECONDS", here_seconds)
    found = list(many.each(many.Job(refuse, failed), paths, label="refusing"))
    assert [(-2, 0)] * 40 == found


@needs_cores
@pytest.mark.usefixtures("at_once")
def test_a_bug_comes_back_with_its_place(paths: list[str]) -> None:
    """What no log is to blame for ends the work, and the traceback is the other process's."""
    with pytest.raises(many.WorkerFailed, match=r"in fail\n(.|\n)*LookupError: "):
        list(many.each(many.Job(fail, failed), paths, label="failing"))
    assert [] == children()


@needs_cores
@pytest.mark.usefixtures("at_once")
def test_whoever_leaves_early_leaves_no_process(paths: list[str]) -> None:
    """The reader of our output may be gone after a line."""
    with closing(many.each(many.Job(sleep, failed), paths, label="sleeping")) as results:
        next(results)
        assert children()
    assert [] == children()
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)
    assert signal.SIG_DFL is signal.getsignal(signal.SIGTERM)


def children() -> list[int]:
    """The processes below this one that live."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(word) for task in tasks for word in task.read_text().split()]


FORKING = """
import signal, sys, time
from dsh_compact import cores
from dsh_compact.cli import many
def nap(path): time.sleep(0.02); return path
many.HERE_SECONDS = -1
names = ["x" for _ in range(2_000)]
print(sum(1 for _ in many.each(many.Job(nap, None), names, label="napping")))
"""


@needs_cores
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("to_all", [True, False], ids=["to the group", "to the parent alone"])
def test_a_signal_ends_all_processes(number: int, to_all: bool) -> None:
    """As it would end one: by the signal, within moments, nobody left, not a word but Python's."""
    work = subprocess.Popen(
        [sys.executable, "-c", FORKING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while len(group_of(work.pid)) < 1 + cores.count() and time.monotonic() < deadline:
        time.sleep(0.01)
    (os.killpg if to_all else os.kill)(work.pid, number)
    out, err = work.communicate(timeout=20)
    assert (-number, b"") == (work.returncode, out)
    assert (number == signal.SIGINT) == bool(err)
    assert err.count(b"Traceback") == (number == signal.SIGINT)
    while group_of(work.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [] == group_of(work.pid)


IGNORING = FORKING.replace("names =", "signal.signal(signal.SIGHUP, signal.SIG_IGN); names =")


@needs_cores
def test_an_ignored_signal_stays_ignored() -> None:
    """`nohup dshc verify FOLDER` goes on when the terminal is closed."""
    work = subprocess.Popen(
        [sys.executable, "-c", IGNORING.replace("2_000", "100")],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while len(group_of(work.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(work.pid, signal.SIGHUP)
    assert b"100\n" == work.communicate(timeout=20)[0]


@pytest.mark.parametrize("here_seconds", [-1, 1_000], ids=["processes", "one process"])
def test_want_of_memory_is_a_result(
    here_seconds: float, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that takes more memory than there is costs no other log its result."""
    monkeypatch.setattr(many, "HERE_SECONDS", here_seconds)
    found = sorted(many.each(many.Job(starve, failed), paths, label="starving"))
    assert [-4] * 4 == [size for size, _ in found if size < 0]
    assert [n for n in range(40) if n % 10 != 7] == [size for size, _ in found if size >= 0]
