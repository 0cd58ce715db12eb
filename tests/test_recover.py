"""`dshc recover` as a user runs it: exit codes, streams, files, and the log that is left alone."""

import json
import os
import signal
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import plain_reader
import pytest
from demo import WINDOW_TOKENS
from running import DSHC, Ran, dshc

from dsh_compact.verify import verify

REFUSAL: Final = {
    "status": 400,
    "message": "prompt is too long: 202,095 tokens > 200,000 maximum",
}


def recover(*words: str | Path, **options: Any) -> Ran:
    """The command with those words."""
    return dshc("recover", *words, **options)


@cache
def told(*words: str) -> Ran:
    """The command with those words, run once for all tests that only look at what it said."""
    return recover(*words)


def summary(done: Ran) -> tuple[Any, ...]:
    """What a program looks at first."""
    told = done.json
    return done.code, told["decision"], told["recovered"], told["invalid_retries"]


# The built-in session -----------------------------------------------------------------------------


def test_a_liar_is_not_believed() -> None:
    """One request, no retry, the original error, exit code 3."""
    done = told("--backend", "lying", "--json")
    said = done.json
    assert (3, "preserve", False, 0) == summary(done)
    assert "" == done.err
    assert said["generation_before"] == said["generation_after"]
    assert [(1, "refused")] == [(one["number"], one["outcome"]) for one in said["requests"]]
    assert said["estimated_tokens"] < said["threshold_tokens"] < said["limit_tokens"]
    assert (WINDOW_TOKENS, "CONTEXT_WINDOW_EXCEEDED", 400) == (
        said["limit_tokens"],
        said["error"]["code"],
        said["error"]["status"],
    )
    claim = said["decisions"][0]["rounds"][0]["claim"]
    assert {"acted": True, "note": "compacted"} == claim


def test_the_standard_backend_recovers() -> None:
    """Found in the file, retried, answered: exit code 0, and no error is left to report."""
    done = told("--json")
    said = done.json
    assert (0, "retry", True, 0) == summary(done)
    assert (None, "standard", "proof", "reduced") == tuple(
        said[key] for key in ("error", "backend", "discipline", "verdict")
    )
    assert said["generation_after"] > said["generation_before"]


def test_the_story_is_told() -> None:
    """A person reads request, refusal, both readings, the claim, the decision, the verdict."""
    done = told("--backend", "lying")
    lines = done.out.splitlines()
    story = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert ["request", "ledger", "backend", "ledger", "decision"] == story
    assert lines[0].startswith("the built-in session, on a copy")
    assert "  decision   preserve: the conversation on disk was not replaced" in lines
    assert "no-op: nothing on disk has changed" in lines


@pytest.mark.parametrize("name", ["killer", "scribbler", "prune-then-crash"])
def test_every_backend_has_an_ending(name: str) -> None:
    """Exit code 3, one JSON object, no invalid retry, nothing of ours raised."""
    done = told("--backend", name, "--json")
    assert (3, 0) == (done.code, done.json["invalid_retries"])
    assert "Traceback" not in done.err


def test_a_backend_that_hangs_has_its_time() -> None:
    """It is left alone, and so is the process: it ends at once."""
    begun = time.monotonic()
    done = recover("--backend", "hang", "--timeout", "0.2", "--json")
    assert (3, "timed-out") == (done.code, done.json["verdict"])
    assert 20 > time.monotonic() - begun


def test_isolation_changes_no_result() -> None:
    """In a process of its own the same comes of a backend that prunes and fails."""
    words = ("--backend", "prune-then-crash", "--json")
    here, alone = told(*words).json, recover(*words, "--isolate").json
    for key in ("decision", "verdict", "generation_after", "requests"):
        assert here[key] == alone[key]


# Logs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v0-stuck.jsonl", "v4-framed.jsonl.zstd"])
def test_a_real_session_recovers_on_a_copy(name: str, logs: Path) -> None:
    """The log and its folder are as they were."""
    before = {path: path.read_bytes() for path in logs.iterdir()}
    done = recover(logs / name, "--json")
    assert (0, "retry", True, 0) == summary(done)
    assert str(logs / name) == done.json["log"]
    assert before == {path: path.read_bytes() for path in logs.iterdir()}


def test_a_killed_session_is_gone_on_with(logs: Path) -> None:
    """Its dangling call is closed as the harness does it, on the copy that is kept."""
    kept = logs / "kept.jsonl"
    done = recover(logs / "v4-killed.jsonl", "--keep", kept, "--json")
    assert (0, "retry", True, 0) == summary(done)
    assert kept.read_bytes().startswith((logs / "v4-killed.jsonl").read_bytes())
    assert () == verify(kept).findings
    assert b"TOOL_OUTCOME_UNKNOWN" in kept.read_bytes()
    assert done.json["generation_after"] == plain_reader.read(kept.read_bytes()).generation


def test_a_folder_or_stdin_is_a_log(logs: Path, tmp_path: Path) -> None:
    """As everywhere."""
    (tmp_path / "s").mkdir()
    data = (logs / "v4-stuck.jsonl").read_bytes()
    (tmp_path / "s" / "session.v4.jsonl").write_bytes(data)
    by_folder, by_stdin = recover(tmp_path / "s", "--json"), recover("-", "--json", stdin=data)
    assert (0, "retry", True, 0) == summary(by_folder) == summary(by_stdin)
    assert by_folder.json["requests"] == by_stdin.json["requests"]


def test_in_place_works_on_the_log(logs: Path) -> None:
    """The log has grown by a turn that nobody objects to."""
    log = logs / "v4-stuck.jsonl"
    before = log.read_bytes()
    done = recover(log, "--in-place", "--json")
    assert (0, "retry", True, 0) == summary(done)
    assert log.read_bytes().startswith(before)
    assert len(log.read_bytes()) > len(before)
    assert () == verify(log).findings
    assert (True, None) == (done.json["in_place"], done.json["copy"])


def test_an_interrupt_ends_the_turn(logs: Path) -> None:
    """Ctrl-C while a backend hangs, in place: exit code 130, and the harness could go on."""
    log = logs / "v4-stuck.jsonl"
    before = log.read_bytes()
    words = [str(DSHC), "recover", str(log), "--in-place", "--backend", "hang"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        while not log.read_bytes()[len(before) :].count(b"assistant/attempt"):
            time.sleep(0.02)
        time.sleep(0.1)
        os.kill(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert (130, b"", b"dshc: interrupted\n") == (running.returncode, out, err)
    ending = json.loads(log.read_bytes().splitlines()[-1])
    assert ("turn/end", "aborted") == (ending["type"], ending["data"]["reason"]["kind"])
    assert () == verify(log).findings


def test_a_torn_or_owned_log_can_be_rehearsed(logs: Path) -> None:
    """On a copy neither the lock of a live process nor a torn tail is in the way."""
    import fcntl

    log = logs / "v4-stuck.jsonl"
    log.write_bytes(log.read_bytes() + b'{"type":"user/mess')
    with (logs / "session.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert 0 == recover(log, "--json").code
        assert 4 == recover(log, "--in-place").code
    assert not list(logs.glob("*.torn*"))


# Walls --------------------------------------------------------------------------------------------


def test_the_wall_stands_where_it_is_put(logs: Path) -> None:
    """At --limit, counted by --tokenizer."""
    log = logs / "v4-stuck.jsonl"
    done = recover(log, "--limit", "9000", "--tokenizer", "cl100k_base", "--json").json
    assert (9000, "cl100k_base") == (done["limit_tokens"], done["tokenizer"])
    assert done["requests"][0]["tokens"] > 9000


def test_a_request_that_fits_rehearses_nothing() -> None:
    """That is wrong usage, and says how large the request is."""
    done = recover("--limit", "99999")
    assert (2, "") == (done.code, done.out)
    assert "nothing is refused, so nothing can be rehearsed; choose a lower --limit" in done.err


def test_a_refusal_without_numbers_is_an_overflow() -> None:
    """Compacted, retried, answered; only a forecast there is none."""
    done = told("--error-like", "bedrock", "--json")
    assert (0, "retry", True, 0) == summary(done)
    assert None is done.json["forecast_tokens"]


def test_a_refusal_can_be_ones_own(tmp_path: Path) -> None:
    """In its words, with the rehearsal's numbers in the place of its own."""
    file = tmp_path / "error.json"
    file.write_text(json.dumps(REFUSAL))
    done = recover("--error", file, "--backend", "lying", "--json").json
    tokens = done["requests"][0]["tokens"]
    assert f"prompt is too long: {tokens} tokens > 8000 maximum" == done["error"]["message"]


def test_a_rate_limit_is_passed_through(tmp_path: Path) -> None:
    """Whatever the backend could do: the error comes back as it came."""
    file = tmp_path / "error.txt"
    file.write_text("429 Too Many Requests: Rate limit reached")
    done = recover("--error", file, "--json")
    assert (3, "preserve", False, 0) == summary(done)
    assert "RATE_LIMIT" == done.json["error"]["code"]
    assert [] == done.json["decisions"][0]["rounds"]


def test_a_silent_provider_is_told_as_one() -> None:
    """Answered, and still not recovered: exit code 3."""
    done = told("--silent", "--json")
    assert (3, "preserve", False, 0) == summary(done)
    assert ("dropped", None) == (done.json["requests"][0]["outcome"], done.json["error"])
    assert "were dropped without a word" in told("--silent").out


# Expectations and reports -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "expect", "code"),
    [
        ("standard", "retry", 0), ("standard", "preserve", 1), ("lying", "preserve", 0),
        ("lying", "recovered", 1), ("one-token", "retry", 1),
    ],
)  # fmt: skip
def test_an_expectation_is_met_or_not(backend: str, expect: str, code: int) -> None:
    """Exit code 0 or 1; on 1 stderr says what was expected and what came."""
    done = recover("--backend", backend, "--expect", expect, "--json")
    assert code == done.code
    assert bool(code) == (f"dshc: expected {expect}: " in done.err)


COMPARE: Final = ("--backend", "lying", "--compare", "--price", "2", "--max-requests", "9")


def test_disciplines_are_compared() -> None:
    """Three on equal copies: what each sends, wastes and costs; the first one decides."""
    done = told(*COMPARE, "--json")
    assert (3, "preserve", False, 0) == summary(done)
    compared = done.json["compared"]
    assert [("proof", 1, 0, None), ("breaker:3", 3, 2, None), ("trust", 9, 8, 9)] == [
        (one["discipline"], len(one["requests"]), one["invalid_retries"], one["stopped_at"])
        for one in compared
    ]
    for one in compared:
        assert one["wasted_usd"] == pytest.approx(one["wasted_tokens"] * 2 / 1_000_000)
        assert one["sent_usd"] == pytest.approx(one["sent_tokens"] * 2 / 1_000_000)


def test_the_comparison_is_a_table() -> None:
    """A row a discipline, and what would not have ended in life."""
    lines = told(*COMPARE).out.splitlines()
    rows = [line.split()[:3] for line in lines[-4:-1]]
    assert [["proof", "1", "0"], ["breaker:3", "3", "2"], ["trust", "9", "8"]] == rows
    assert "trust was stopped at 9 requests; in life nothing would have stopped it" == lines[-1]


def test_the_comparison_tells_the_outcome_on_a_narrow_terminal() -> None:
    """What came of it is the answer: the tokens that were sent, and their price, give way first."""
    lines = dshc("recover", *COMPARE, env={"COLUMNS": "60"}).out.splitlines()
    (head,) = (line for line in lines if line.startswith("discipline"))
    assert ["discipline", "requests", "invalid", "retries", "wasted", "outcome"] == head.split()


def test_ci_gets_its_file(tmp_path: Path) -> None:
    """A test that passed or failed, with the story; an older file is replaced."""
    file = tmp_path / "report.xml"
    for backend, failures in (("standard", "0"), ("lying", "1")):
        recover("--backend", backend, "--expect", "recovered", "--junit", file)
        suite = ET.parse(file).getroot()[0]
        assert (failures, "1") == (suite.get("failures"), suite.get("tests"))
        assert f"{backend} says that" in suite[0].findtext("system-out", default="")
    assert [file] == list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Nothing half is left."""
    done = recover("--junit", tmp_path / "nowhere" / "report.xml")
    assert 2 == done.code
    assert [] == list(tmp_path.iterdir())


# Foreign code -------------------------------------------------------------------------------------

TALKS: Final = """
import os, subprocess, sys
from dsh_compact import Claim

class Talks:
    name = "talks \\x1b[31m[bold]"
    def compact(self, bench):
        print("from print")
        os.system("echo from a program")
        sys.stderr.write("from stderr\\n")
        return Claim(acted=True, note="\\x1b[31mnote\\ud83d" * 200)
"""


def test_what_a_backend_prints_is_not_our_result(tmp_path: Path) -> None:
    """Its prints and its programs' go to stderr; its words are shown, not obeyed."""
    (tmp_path / "talks.py").write_text(TALKS)
    spec = f"{tmp_path}/talks.py:Talks"
    done = recover("--backend", spec, "--json")
    assert done.json["decision"] == "preserve"
    for words in ("from print", "from a program", "from stderr"):
        assert words in done.err
    text = recover("--backend", spec).out
    assert "\x1b" not in text
    assert r"\x1b[31mnote" in text


def test_a_backend_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    """Wrong usage where it isn't there, exit code 5 where its own code fails."""
    (tmp_path / "broken.py").write_text("1 / 0\n")
    assert 2 == recover("--backend", f"{tmp_path}/nowhere.py:X").code
    done = recover("--backend", f"{tmp_path}/broken.py:X")
    assert (5, "") == (done.code, done.out)
    assert "ZeroDivisionError" in done.err


def test_a_file_names_foreign_code_in_vain(tmp_path: Path, logs: Path) -> None:
    """Unless it is trusted: a configuration may be anybody's."""
    (tmp_path / "talks.py").write_text(TALKS)
    (logs / "dshc.toml").write_text(f'backend = "{tmp_path}/talks.py:Talks"\n')
    log = logs / "v4-stuck.jsonl"
    assert 2 == recover(log, "--json").code
    assert 3 == recover(log, "--trust", "--json").code


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--in-place"], "--in-place needs a LOG"),
        (["-", "--in-place"], "--in-place needs a LOG"),
        (["LOG", "--in-place", "--keep", "x"], "--in-place makes no copy"),
        (["LOG", "--compare", "--keep", "x"], "--compare works on three copies"),
        (["LOG", "--compare", "--in-place"], "--compare works on three copies"),
        (["--error", "x", "--error-like", "openai"], "were both given"),
        (["--error", "nowhere.json"], "cannot be read"),
        (["--error-like", "nobody"], "choose one of openai"),
        (["--discipline", "hope"], "choose proof, breaker:N or trust"),
        (["--tokenizer", "abacus"], "abacus"),
        (["--backend", "nobody"], "there is no backend"),
        (["--expect", "magic"], "--expect"),
    ],
)
def test_wrong_usage_touches_nothing(words: list[str], complaint: str, logs: Path) -> None:
    """Exit code 2, a sentence, and no log was opened for it."""
    log = logs / "v4-stuck.jsonl"
    before = log.read_bytes()
    done = recover(*(log if word == "LOG" else word for word in words), cwd=logs)
    assert (2, "") == (done.code, done.out)
    assert complaint in done.err
    assert before == log.read_bytes()


def test_a_copy_never_overwrites(logs: Path) -> None:
    """What bears the name already stays, and nothing is played."""
    kept = logs / "v0-prune.jsonl"
    before = kept.read_bytes()
    done = recover(logs / "v4-stuck.jsonl", "--keep", kept)
    assert (4, before) == (done.code, kept.read_bytes())
    assert "exists already" in done.err


PATCHING = """
from dsh_compact.backends import Claim
from dsh_compact.session import Session


class Patching:
    name = "patching"

    def compact(self, bench):
        Session.replace_generation = property(lambda session: 99)
        return Claim(acted=True)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("not even that")


class Raising:
    name = "raising"

    def compact(self, bench):
        raise Unspeakable
"""


@pytest.mark.parametrize("name", ["Patching", "Raising"])
def test_foreign_code_cannot_reach_the_judge(tmp_path: Path, name: str) -> None:
    """A backend that patches our classes, or whose error breaks when asked, changes no decision."""
    file = tmp_path / "mine.py"
    file.write_text(PATCHING)
    ran = recover("--backend", f"{file}:{name}", "--json")
    said = ran.json
    assert (3, "preserve", 1, 0) == (
        ran.code,
        said["decision"],
        len(said["requests"]),
        said["invalid_retries"],
    )


@pytest.mark.parametrize("words", [("--timeout", "nan"), ("--price", "inf")])
def test_a_number_that_is_none_is_wrong_usage(words: tuple[str, str]) -> None:
    """Infinity and not-a-number are refused before anything is played."""
    ran = recover(*words)
    assert (2, "") == (ran.code, ran.out)


def test_an_error_names_the_log_and_not_its_copy(tmp_path: Path) -> None:
    """A log of an unreleased format is named as the user named it."""
    log = tmp_path / "old.jsonl"
    log.write_text('{"type":"session","version":1,"id":"x"}\n')
    ran = recover(str(log))
    assert ran.err.startswith(f"dshc: {log}: format 1")
