"""`dshc measure`: one log as a bar, many as a table, and nothing touched."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from builders import Conversation, line
from footprints import footprints
from running import DSHC, LOGS, dshc, group_of

EXPECTED: dict[str, Any] = json.loads((LOGS / "expected.json").read_text("utf-8"))
HOSTILE = "\x1b]0;owned\x07\x1b[31m[red]x[/red]\u202e\u2028\x00\ud83d"


def test_a_log_is_a_bar_with_its_figures(logs: Path) -> None:
    """Whose it is, how full, the threshold, the parts, and what kind each figure is."""
    done = dshc("measure", logs / "v4-pressure.jsonl")
    assert (0, "") == (done.code, done.err)
    assert "8,423 of 8,000 tokens, 105.3%: over the threshold of 6,400" in done.out
    assert re.search(r"conversation +169  estimated", done.out)
    assert "baseline   8,414, counted by the provider" in done.out
    assert "window     8,000, as the log says" in done.out
    assert 1 == done.out.count("┃")


@pytest.mark.parametrize("name", EXPECTED)
def test_json_holds_the_known_figures(name: str, logs: Path) -> None:
    """One object on one line, and the folder is left as it was."""
    before = footprints(logs)
    done = dshc("measure", logs / name, "--json")
    assert (0, 1) == (done.code, done.out.count("\n"))
    found, wanted = done.json, EXPECTED[name]["measure_at_end"]
    assert {"schema": 1, "command": "measure", "log": str(logs / name)}.items() <= found.items()
    assert wanted["total_tokens"] == found["total_tokens"]
    assert {"kind": wanted["baseline"], "tokens": wanted["baseline_tokens"]} == found["baseline"]
    assert "tokenizer" not in found
    assert before == footprints(logs)


def test_standard_input_is_a_log_too(logs: Path) -> None:
    """Plain or framed, from a pipe."""
    for name in ("v4-pressure.jsonl", "v4-framed.jsonl.zstd"):
        done = dshc("measure", "-", "--json", stdin=(logs / name).read_bytes())
        assert (0, "-") == (done.code, done.json["log"])
        assert EXPECTED[name]["events"] == done.json["events"]


def test_the_built_in_session_stands_in_for_a_log() -> None:
    """`--demo` needs nothing, and a LOG beside it is a mistake."""
    assert dshc("measure", "--demo", "--json").json["total_tokens"] > 1_000
    assert 2 == dshc("measure", "--demo", "some.jsonl").code
    assert 2 == dshc("measure").code


def test_check_is_for_scripts(logs: Path) -> None:
    """0 below the threshold, 1 over it, 2 where there is none to check against."""
    log = logs / "v4-overflow.jsonl"  # 2,505 tokens
    assert 0 == dshc("measure", log, "--check").code
    assert 1 == dshc("measure", log, "--check", "--window", "3000").code
    assert 1 == dshc("measure", log, logs / "v4-pressure.jsonl", "--check").code
    unknown = Conversation(window=None, model="x").user("a").write(logs / "unknown.jsonl")
    done = dshc("measure", unknown, "--check")
    assert (2, True) == (done.code, "unknown" in done.err)
    assert 0 == dshc("measure", unknown).code


def test_a_reservation_that_leaves_nothing_is_named(tmp_path: Path) -> None:
    """It is ignored, and a notice says so."""
    log = Conversation(window=900, max_tokens=900).user("a").write(tmp_path / "log")
    done = dshc("measure", log, "--json")
    assert 720 == done.json["threshold_tokens"]
    assert "reserves 900 tokens" in done.err


def test_the_configuration_beside_a_log_holds(tmp_path: Path) -> None:
    """A configured window is believed like a flag, and a flag more."""
    log = Conversation().user("a").write(tmp_path / "log")
    (tmp_path / "dshc.toml").write_text("window_tokens = 5000\nthreshold_ratio = 0.5\n")
    found = dshc("measure", log, "--json").json
    assert (5_000, "flag", 2_500) == (
        found["window_tokens"],
        found["window_source"],
        found["threshold_tokens"],
    )
    assert 4_000 == dshc("measure", log, "--window", "4000", "--json").json["window_tokens"]


def test_exact_counts_are_told_apart(logs: Path) -> None:
    """`--tokenizer` adds its count and the estimate's error, in text and in JSON."""
    log = logs / "v4-pressure.jsonl"
    found = dshc("measure", log, "--tokenizer", "o200k_base", "--json").json["tokenizer"]
    assert {"name", "surface_tokens", "header_tokens", "estimate_error"} == set(found)
    text = dshc("measure", log, "--tokenizer", "o200k_base").out
    assert f"exact      {found['surface_tokens']:,} on the surface by o200k_base" in text
    done = dshc("measure", log, "--tokenizer", "nonsense")
    assert (2, "") == (done.code, done.out)


def test_strict_checks_what_nobody_needs(tmp_path: Path) -> None:
    """Damage inside a record that the answer doesn't touch is found only when asked for."""
    log = Conversation().user("a").event("todo/write", {"x": "y"}, ignorable=True).note("b")
    path = log.write(tmp_path / "log")
    path.write_bytes(path.read_bytes().replace(b'{"x":"y"}', b'{"x" "y"}'))
    assert 0 == dshc("measure", path).code
    done = dshc("measure", path, "--strict")
    assert (4, "") == (done.code, done.out)
    assert "not JSON" in done.err


# Many logs ----------------------------------------------------------------------------------------


def test_many_logs_are_a_table_worst_first(logs: Path) -> None:
    """Fullest first, and a line of totals."""
    done = dshc("measure", *sorted(logs.glob("v4-*")))
    rows = done.out.splitlines()
    percents = [int(match) for match in re.findall(r" (\d+)%", done.out)]
    assert sorted(percents, reverse=True) == percents
    assert 0 == done.code
    assert rows[-1].startswith(f"{len(rows) - 3} logs")
    found = dshc("measure", *sorted(logs.glob("v4-*")), "--json").json
    assert {"schema", "command", "logs"} == set(found)
    order = [log["pressure"] for log in found["logs"]]
    assert sorted(order, reverse=True) == order


def test_a_log_that_cannot_be_read_is_a_row(logs: Path) -> None:
    """At the end, its error below; the others are measured, and the exit code is 4."""
    broken = logs / "v4-broken.jsonl"
    broken.write_bytes((logs / "v4-stuck.jsonl").read_bytes() + b"nonsense\n")
    paths = [logs / "v4-overflow.jsonl", broken, logs / "nowhere"]
    done = dshc("measure", *paths)
    assert 4 == done.code
    rows = done.out.splitlines()
    assert [False, True, True] == [row.endswith("unreadable") for row in rows[1:4]]
    assert rows[5].endswith("0 over, 2 unreadable")
    assert [True, True] == [
        row.startswith(f"{path}: ") for row, path in zip(rows[7:], paths[:0:-1], strict=True)
    ]
    found = dshc("measure", *paths, "--json").json["logs"]
    assert [None, str, str] == [type(log["error"]) if "error" in log else None for log in found]
    assert {"log", "error"} == set(found[1])


def test_a_folder_means_all_that_lies_in_it(logs: Path, tmp_path: Path) -> None:
    """Sessions at any depth, the newest format of each; other files are nobody's logs."""
    home = tmp_path / "home"
    for number, names in enumerate([["session.v4.jsonl"], ["session.jsonl", "session.v3.jsonl"]]):
        folder = home / "sessions" / "--srv--" / f"s{number}"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes((logs / "v3-overflow.jsonl").read_bytes())
        (folder / "session.lock").touch()
    found = dshc("measure", home, "--json").json["logs"]
    assert ["s0/session.v4.jsonl", "s1/session.v3.jsonl"] == sorted(
        "/".join(Path(log["log"]).parts[-2:]) for log in found
    )
    one = dshc("measure", home / "sessions" / "--srv--" / "s1", "--json")
    assert "session.v3.jsonl" in one.json["log"]
    assert "older formats" in one.err
    (tmp_path / "empty").mkdir()
    assert 4 == dshc("measure", tmp_path / "empty").code


@pytest.mark.parametrize("words", ["measure", "measure --jsonl", "verify", "verify --jsonl"])
def test_a_pipe_in_a_folder_is_not_waited_for(words: str, logs: Path, tmp_path: Path) -> None:
    """It is left out with a word; the log beside it has its row, and the exit code is the log's."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (logs / "v4-stuck.jsonl").rename(folder / "v4-stuck.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    done = dshc(*words.split(), folder)
    assert (0, True) == (done.code, "v4-stuck.jsonl" in done.out)
    assert "pipe.jsonl" not in done.out
    told = "pipe.jsonl: is no file and was left out; a pipe is read where it is named itself"
    assert f"dshc: {folder}/{told}\n" == done.err


def test_a_log_with_a_wrong_configuration_is_a_row_too(logs: Path, tmp_path: Path) -> None:
    """Wherever it is read: the error crosses no process's border."""
    folder = many_copies(tmp_path, 700)
    (folder / "inner").mkdir()
    (folder / "inner" / "log.jsonl").write_bytes((logs / "v4-stuck.jsonl").read_bytes())
    (folder / "inner" / "dshc.toml").write_text("window_tokens = -1\n")
    for words in ([folder], [folder / "inner" / "log.jsonl", logs / "v4-stuck.jsonl"]):
        done = dshc("measure", *words, "--json")
        assert 2 == done.code
        assert ["window_tokens" in log["error"] for log in done.json["logs"] if "error" in log] == [
            True
        ]


def test_what_holds_no_log_is_a_row_among_others(logs: Path, tmp_path: Path) -> None:
    """Alone it is an error."""
    empty = tmp_path / "empty"
    empty.mkdir()
    assert (4, "") == ((done := dshc("measure", empty)).code, done.out)
    done = dshc("measure", empty, logs / "v4-stuck.jsonl", "--json")
    assert (4, 2) == (done.code, len(done.json["logs"]))


def test_a_narrow_terminal_keeps_what_matters(logs: Path) -> None:
    """No line is wider than the terminal, and the pressure stays."""
    for columns in (30, 60, 100):
        done = dshc("measure", logs, env={"COLUMNS": str(columns)})
        assert all(len(row) <= columns for row in done.out.splitlines())
        assert "140%" in done.out
        one = dshc("measure", "v4-stuck.jsonl", cwd=logs, env={"COLUMNS": str(columns)})
        assert all(len(row) <= columns for row in one.out.splitlines())


def many_copies(folder: Path, count: int) -> Path:
    """A folder with that many small logs."""
    data = Conversation(window=1_000).user("hello").assistant("hi").bytes()
    for number in range(count):
        (folder / f"{number:04}.jsonl").write_bytes(data)
    return folder


def test_hundreds_of_logs_are_read_by_processes(tmp_path: Path) -> None:
    """The answer is that of one process after the other, a broken log among them too."""
    folder = many_copies(tmp_path, 700)
    (folder / "0350.jsonl").write_bytes(b"nonsense\n")
    done = dshc("measure", folder, "--json")
    assert (4, "") == (done.code, done.err)
    assert {f"{number:04}.jsonl" for number in range(700)} == {
        Path(log["log"]).name for log in done.json["logs"]
    }
    assert 1 == sum("error" in log for log in done.json["logs"])


def test_a_stream_is_a_line_a_log_in_the_given_order(logs: Path, tmp_path: Path) -> None:
    """The same objects as of one log alone; one that can't be read is a line, too."""
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"nonsense\n")
    paths = [logs / "v4-stuck.jsonl", broken, logs / "v3-overflow.jsonl"]
    done = dshc("measure", "--jsonl", *paths)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert 4 == done.code
    assert [str(path) for path in paths] == [line["log"] for line in lines]
    assert {"schema", "command", "log", "error"} == set(lines[1])
    assert dshc("measure", "--json", paths[0]).json == lines[0]
    assert [1, 2] == [
        dshc("measure", "--jsonl", "--check", *words).code
        for words in ([paths[0], paths[2]], [line_without_window(tmp_path)])
    ]


def line_without_window(folder: Path) -> Path:
    """A log that tells no window."""
    return Conversation(model="nobody-knows", window=None).user("hello").write(folder / "log.jsonl")


def test_a_stream_does_not_wait_for_the_last_log(logs: Path, tmp_path: Path) -> None:
    """The first line is there while the second log is still being written."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    work = subprocess.Popen(
        [DSHC, "measure", "--jsonl", logs / "v4-stuck.jsonl", pipe], stdout=subprocess.PIPE
    )
    assert work.stdout is not None
    assert str(logs / "v4-stuck.jsonl") == json.loads(work.stdout.readline())["log"]
    pipe.write_bytes((logs / "v4-stuck.jsonl").read_bytes())
    assert str(pipe) == json.loads(work.communicate(timeout=20)[0])["log"]
    assert 0 == work.returncode


@pytest.mark.parametrize("command", ["measure", "verify"])
def test_a_reader_who_leaves_ends_a_stream(command: str, tmp_path: Path) -> None:
    """Long before the last of thousands of logs, without a word, and without a process left."""
    folder = many_copies(tmp_path, 3_000)
    with subprocess.Popen(
        [DSHC, command, "--jsonl", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as work:
        assert work.stdout is not None
        assert work.stderr is not None
        for _ in range(1_000):
            assert work.stdout.readline()
        work.stdout.close()
        assert b"" == work.stderr.read()
        assert 141 == work.wait(timeout=20)
    assert [] == group_of(work.pid)


@pytest.mark.parametrize("to_all", [True, False], ids=["to the group", "to the parent alone"])
def test_an_interrupt_ends_the_work_cleanly(to_all: bool, tmp_path: Path) -> None:
    """Nothing on stdout, one word on stderr, exit 130, and no process is left behind."""
    first = Conversation().user("x" * 2_000_000).write(tmp_path / "first.jsonl")
    for number in range(150):
        (tmp_path / f"{number}.jsonl").hardlink_to(first)
    work = subprocess.Popen(
        [DSHC, "measure", "--strict", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while len(group_of(work.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(group_of(work.pid)) > 1
    (os.killpg if to_all else os.kill)(work.pid, signal.SIGINT)
    out, err = work.communicate(timeout=20)
    assert (130, b"", b"dshc: interrupted\n") == (work.returncode, out, err)
    assert [] == group_of(work.pid)


# Hostile logs -------------------------------------------------------------------------------------


def test_hostile_names_never_reach_the_terminal(tmp_path: Path) -> None:
    """Escapes, markup, direction marks and lone surrogates of a log are shown, not obeyed."""
    log = Conversation(provider=HOSTILE, model=HOSTILE, session_id=HOSTILE).user(HOSTILE)
    path = log.write(tmp_path / "log")
    other = log.write(tmp_path / "other")
    for words in ([path], [path, other], [path, "--json"]):
        done = dshc("measure", *words)
        assert 0 == done.code
        assert not set("\x1b\x07\u202e\u2028\x00") & set(done.out)
    assert HOSTILE == dshc("measure", path, "--json").json["model"]


def test_a_line_of_50_megabytes_is_read(tmp_path: Path) -> None:
    """One message may be as long as it wants to be."""
    log = Conversation(tools=[]).user("x" * 50_000_000)
    found = dshc("measure", log.write(tmp_path / "log"), "--json").json
    assert 12_500_000 + 8 == found["total_tokens"]


def test_a_depth_of_100000_is_damage_and_no_crash(tmp_path: Path) -> None:
    """Where the answer needs the record, and where only --strict looks into it."""
    nest = b"[" * 100_000 + b"]" * 100_000
    log = Conversation().user("a").event("todo/write", {"x": "NEST"}).note("NEST")
    silent = log.lines()[:-1]
    path = tmp_path / "log"
    for lines, words in ((log.lines(), []), (silent, ["--strict"])):
        path.write_bytes(b"".join(lines).replace(b'"NEST"', nest))
        done = dshc("measure", path, *words)
        assert (4, "") == (done.code, done.out)
        assert "Traceback" not in done.err
    assert 0 == dshc("measure", path).code


def test_a_lone_surrogate_is_no_damage(tmp_path: Path) -> None:
    """The harness is written in JavaScript, and may write half a character."""
    log = Conversation(tools=[]).user("\ud83d")
    assert b"\\ud83d" in line(log.nodes[0])
    for words in ([], ["--strict"]):
        found = dshc("measure", log.write(tmp_path / "log"), "--json", *words)
        assert (0, 9) == (found.code, found.json["total_tokens"])
