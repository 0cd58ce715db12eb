"""Real processes: killed at any moment, or appending to one log all at once.

`DSHC_KILLS` says how many processes are killed, 40 by default; `just crash` kills 400.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from builders import Conversation, frame
from running import DSHC, LOGS

from dsh_compact.session import read_session
from dsh_compact.verify import verify

KILLS: Final = int(os.environ.get("DSHC_KILLS", "40"))  # read before the tests clear it
APPENDER: Final = Path(__file__).with_name("appender.py")
LONGEST_SECONDS: Final = 60
APPENDED: Final = 400
"""Messages that a killed process was to append: more than it ever can."""

Words: TypeAlias = list[str | Path]

LOG_NAMES: Final = ("session.jsonl", "session.v4.jsonl", "session.v4.jsonl.zstd")


def log_of(folder: Path, name: str) -> Path:
    """A small log of the format and framing that the name says."""
    conversation = Conversation(format=0 if name == "session.jsonl" else 4).user("begin").end()
    return conversation.write(folder / name, framed=name.endswith(".zstd"))


def started(words: Words) -> subprocess.Popen[bytes]:
    """A process whose words can be read."""
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def killed(words: Words, moment_seconds: float) -> tuple[bytes, bool]:
    """What a process said before it was killed at that moment, and whether it was."""
    process = started(words)
    time.sleep(moment_seconds)
    process.send_signal(signal.SIGKILL)
    said, _ = process.communicate(timeout=LONGEST_SECONDS)
    return said, process.returncode == -signal.SIGKILL


def user_ids(log: Path) -> list[str]:
    """The ids of the messages on the surface, in order."""
    with read_session(log) as session:
        messages = [session.event(node).message for node in session.surface]
    return [message.id or "" for message in messages]


def assert_whole(log: Path, acknowledged: Sequence[str], moment: str) -> None:
    """Every acknowledged record is there once, in order, and the log is sound."""
    done = subprocess.run(
        [DSHC, "append", log, "--user", "and on it goes", "--json"],
        capture_output=True,
        check=False,
        timeout=LONGEST_SECONDS,
    )
    assert 0 == done.returncode, (moment, done.stderr)
    report = verify(log)
    assert report.ok, (moment, report.findings)
    ids = user_ids(log)
    assert len(set(ids)) == len(ids), moment
    places = [ids.index(message_id) for message_id in acknowledged]
    assert sorted(places) == places, moment


@pytest.mark.timeout(60 + 3 * KILLS)
def test_a_killed_append_loses_nothing(tmp_path: Path) -> None:
    """A process that appends is killed again and again, and what it acknowledged is there."""
    side_by_side(lambda folder, name: kill_appends(log_of(folder, name)), tmp_path, LOG_NAMES)


def side_by_side(check: Callable[[Path, str], None], folder: Path, names: Sequence[str]) -> None:
    """Checks each log in a thread and a folder of its own (a folder has one lock): most of the time
    is spent waiting for processes.
    """
    folders = [folder / name for name in names]
    for one in folders:
        one.mkdir()
    with ThreadPoolExecutor(len(names)) as pool:
        [*pool.map(check, folders, names)]


def kill_appends(log: Path) -> None:
    """At moments that are the same in every run, as far as a busy machine allows."""
    chance = random.Random(5)
    acknowledged: list[str] = []
    kills = 0
    for number in range(max(1, KILLS // 4)):
        moment = chance.uniform(0.05, 0.3)
        words: Words = [sys.executable, APPENDER, "--hold", log, f"run{number}", str(APPENDED)]
        said, was_killed = killed(words, moment)
        acknowledged += said.decode().split("\n")[:-1]
        kills += was_killed
        assert_whole(log, acknowledged, f"{log.name}: {number}, after {moment:.3f} s")
    print(f"{log.name}: {kills} killed, {len(acknowledged)} acknowledged records, none lost")
    assert kills > 0, log.name
    assert acknowledged, f"{log.name}: every process was killed before it did anything"


MOST_TRIES: Final = max(30, KILLS)
"""Compactions that are begun until one of them is killed in time: how fast they are is chance."""


STUCK: Final = ("v0-stuck.jsonl", "v4-stuck.jsonl", "v4-stuck.jsonl.zstd")


@pytest.mark.timeout(60 + 3 * KILLS)
def test_a_killed_compact_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    """Killed anywhere, `compact` has folded or it has not, and then the next one folds."""
    usual = duration(lambda: compact(put(tmp_path, "usual.jsonl", stuck(STUCK[0]))))
    side_by_side(lambda folder, name: kill_compactions(folder, name, usual), tmp_path, STUCK)


def kill_compactions(folder: Path, name: str, usual_seconds: float) -> None:
    """Until one of them was killed in time, and some more."""
    chance = random.Random(5)
    original = stuck(name)
    kills = folds = 0
    for number in range(MOST_TRIES):
        if kills and number >= max(2, KILLS // 12):
            break
        log = put(folder, name, original)
        moment = chance.uniform(0.2, 1.05) * usual_seconds
        words: Words = [DSHC, "compact", log, "--force", "--json"]
        _, was_killed = killed(words, moment)
        kills += was_killed
        report = verify(log)
        assert log.read_bytes().startswith(original)
        assert report.ok, (name, number, moment, report.findings)
        folds += report.generation > 0
        if not report.generation:
            assert 0 == compact(log), (name, number, moment)
            assert verify(log).generation > 0
        assert_whole(log, [], f"{name}: {number}, after {moment:.3f} s")
    print(f"{name}: {kills} compactions killed, {folds} of them had folded")
    assert kills > 0, f"{name}: all {folds} folds were faster"


def stuck(name: str) -> bytes:
    """A log that a compaction helps, framed if the name says so."""
    content = (LOGS / name.removesuffix(".zstd")).read_bytes()
    if not name.endswith(".zstd"):
        return content
    return b"".join(frame(line) for line in content.splitlines(keepends=True))


def put(folder: Path, name: str, content: bytes) -> Path:
    """A fresh copy of a log."""
    log = folder / name
    log.write_bytes(content)
    return log


def compact(log: Path) -> int:
    """One compaction that nobody disturbs."""
    words: Words = [DSHC, "compact", log, "--force", "--json"]
    return subprocess.run(words, capture_output=True, check=False, timeout=60).returncode


def duration(work: Callable[[], object]) -> float:
    """How long it takes, in seconds; warm."""
    work()
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


@pytest.mark.parametrize(("processes", "each"), [(2, 12), (8, 5)])
@pytest.mark.parametrize("name", LOG_NAMES)
def test_processes_that_append_at_once_lose_nothing(
    tmp_path: Path, name: str, processes: int, each: int
) -> None:
    """However many append at the same time, each record stands there once and seqs are whole."""
    log = log_of(tmp_path, name)
    before = user_ids(log)
    running = [
        started([sys.executable, APPENDER, log, f"process{number}", str(each)])
        for number in range(processes)
    ]
    acknowledged = [
        message_id
        for process in running
        for message_id in process.communicate(timeout=LONGEST_SECONDS)[0].decode().split()
    ]
    assert [0] * processes == [process.returncode for process in running]
    assert processes * each == len(acknowledged)
    report = verify(log)
    assert (True, ()) == (report.ok, report.findings)
    assert sorted([*before, *acknowledged]) == sorted(user_ids(log))


def test_a_held_log_is_owned(tmp_path: Path) -> None:
    """While one process holds a log, every other is told who, exits 4, and changes nothing."""
    log = log_of(tmp_path, "session.v4.jsonl")
    words: Words = [sys.executable, APPENDER, "--hold", log, "holder", str(10**6)]
    with started(words) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        before = log.read_bytes()
        try:
            done = subprocess.run(
                [DSHC, "append", log, "--user", "me too"], capture_output=True, check=False
            )
            repaired = subprocess.run(
                [DSHC, "repair", "--in-place", log], capture_output=True, check=False
            )
            assert (4, 4) == (done.returncode, repaired.returncode)
            assert str(holder.pid) in done.stderr.decode()
            assert before == log.read_bytes()
        finally:
            holder.send_signal(signal.SIGKILL)


def test_the_appender_s_acknowledgement_comes_after_the_append(tmp_path: Path) -> None:
    """What is acknowledged is on the surface of the log, each under its own id."""
    log = log_of(tmp_path, "session.v4.jsonl")
    done = subprocess.run(
        [sys.executable, APPENDER, log, "one", "2"], capture_output=True, check=True, timeout=60
    )
    assert ["one-0", "one-1"] == done.stdout.decode().split()
    assert ["one-0", "one-1"] == user_ids(log)[-2:]
    assert json.loads(log.read_bytes().split(b"\n")[-2])["data"]["id"] == "one-1"
