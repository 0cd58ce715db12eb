"""`dshc compact` as a user runs it: real processes, real logs, exit codes, plans, owners."""

import fcntl
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import plain_reader
import pytest
from builders import Conversation
from running import DSHC, LOGS, dshc

from dsh_compact.verify import verify

LONG: Final = "a long story, told at length; " * 100

BACKEND: Final = '''
from dsh_compact.backends import Claim


class Mine:
    """A backend of somebody's own."""

    name = "mine"

    def compact(self, bench):
        {body}
'''


def story(turns: int = 9, *, window: int | None = 8_000, **header: Any) -> Conversation:
    """Turns of about 800 tokens each; nine of them are over the threshold of 6,400."""
    log = Conversation(window=window, **header).system("You help.")
    for number in range(turns):
        log.user(f"{number}: {LONG}").assistant("Well.", stream=False).end()
    return log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A session over its threshold, between turns."""
    return story().write(tmp_path / "session.v4.jsonl")


def mine(folder: Path, body: str) -> Path:
    """A backend's file; `body` is what its only method does."""
    path = folder / "mine.py"
    path.write_text(BACKEND.format(body=body))
    return path


@contextmanager
def holding(lock: Path) -> Iterator[int]:
    """Another process that holds a lock file, or the log itself; its process id."""
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.flock(file, fcntl.LOCK_EX);"
        " print('held', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(lock)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        try:
            yield holder.pid
        finally:
            holder.communicate(timeout=10)


# What it does -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(LOGS.glob("v*")), ids=lambda path: path.name)
def test_every_real_log_is_compacted_or_left_alone(path: Path, logs: Path) -> None:
    """By force: only appended to, right afterwards, smaller; or exit 1 and not a byte changed."""
    copy = logs / path.name
    old = copy.read_bytes()
    before = plain_reader.read(old)
    ran = dshc("compact", copy, "--force", "--json")
    found = ran.json
    whole = copy.read_bytes()
    after = plain_reader.read(whole)
    assert ("compact", "pressure", str(copy)) == (found["command"], found["path"], found["log"])
    assert (before.generation, before.measure.total_tokens) == (
        found["generation_before"],
        found["tokens_before"],
    )
    assert (after.generation, after.measure.total_tokens) == (
        found["generation_after"],
        found["tokens_after"],
    )
    if not found["acted"]:
        assert (1, old, True) == (ran.code, whole, bool(found["reason"]))
        return
    assert 0 == ran.code
    assert whole.startswith(old)
    assert found["tokens_after"] < found["tokens_before"]
    assert found["surface_after"]["tokens"] == sum(node.tokens for node in after.nodes)
    assert set(found["shadowed_seqs"]) == set(before.node_seqs) - set(after.node_seqs)
    assert (None, None) == (after.broken, after.refused)
    assert () == verify(copy).findings


@pytest.mark.parametrize("name", ["v4-stuck.jsonl", "v0-stuck.jsonl"])
def test_a_stuck_session_ends_below_its_threshold(name: str, logs: Path) -> None:
    """One command and no flags: the wall is known from the refusals."""
    found = dshc("compact", logs / name, "--json").json
    assert (True, False, 8000) == (found["acted"], found["over_threshold"], found["window_tokens"])
    assert found["tokens_after"] < found["threshold_tokens"] == 6400
    again = dshc("compact", logs / name, "--json")
    assert (0, False) == (again.code, again.json["acted"])
    assert "below the threshold" in again.json["reason"]


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_session_goes_on_after_it(version: int, framed: bool, tmp_path: Path) -> None:
    """Compacted, appended to, compacted again: every format, plain and framed."""
    log = Conversation(format=version, window=8_000)
    for number in range(9):
        log.user(f"{number}: {LONG}").assistant("Well.").end()
    path = log.write(tmp_path / "log", framed=framed)
    assert 0 == dshc("compact", path).code
    assert 0 == dshc("append", path, "--user", LONG).code
    found = dshc("compact", path, "--force", "--retain-tokens", "0", "--json").json
    assert (1, 2) == (found["generation_before"], found["generation_after"])
    assert () == verify(path).findings


def test_what_it_says_is_a_table_and_how_to_go_on(log: Path) -> None:
    """Who went and who stayed, before, after, saved, and the harness's own call."""
    ran = dshc("compact", log)
    assert (0, "") == (ran.code, ran.err)
    assert "14 of 19 messages folded, below the threshold of 6,400 tokens." in ran.out
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["before", "after", "saved"] in rows
    assert ["messages", "19", "6", "13", "68%"] in rows
    assert ["generation", "0", "1"] in rows
    assert 'harness.resume_session("session-1")' in ran.out


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--retain-tokens", "0"], 1),
        (["--retain-tokens", "2500"], 8),
        (["--keep-last", "5"], 5),
        (["--keep-last", "1"], 1),
    ],
)
def test_the_tail_is_what_the_flags_say(words: list[str], kept: int, log: Path) -> None:
    """So many of the newest messages stay as they are."""
    before = plain_reader.read(log.read_bytes()).node_seqs
    assert dshc("compact", log, "--force", *words, "--json").json["acted"]
    after = plain_reader.read(log.read_bytes()).node_seqs
    assert before[-kept:] == after[2:]


def test_a_tail_that_was_asked_for_is_kept(tmp_path: Path) -> None:
    """Even where the conversation stays over its threshold: that is then a finding."""
    path = Conversation(window=8_000).user(LONG * 5).assistant(LONG * 4).end().write(tmp_path / "l")
    ran = dshc("compact", path, "--retain-tokens", "6000", "--json")
    assert (1, False, True) == (ran.code, ran.json["acted"], ran.json["over_threshold"])
    assert dshc("compact", path, "--json").json["acted"]


def test_the_window_may_be_said(tmp_path: Path) -> None:
    """Without one there is no threshold: that is wrong usage, and the message says what helps."""
    log = story(window=None, model="nobody-knows-it").write(tmp_path / "log")
    ran = dshc("compact", log)
    assert 2 == ran.code
    assert "--window" in ran.err
    assert "--force" in ran.err
    assert dshc("compact", log, "--window", "5000", "--json").json["acted"]


def test_a_configuration_beside_the_log_is_in_force(log: Path) -> None:
    """The same values as `dshc config` tells, the tail among them."""
    log.with_name("dshc.toml").write_text("retain_tokens = 0")
    assert dshc("compact", log, "--json").json["acted"]
    assert 3 == len(plain_reader.read(log.read_bytes()).nodes)


def test_the_facts_that_are_still_told_are_counted(log: Path) -> None:
    """With --check-facts, in numbers and as a table; on a plan too."""
    found = dshc("compact", log, "--dry-run", "--check-facts", "--json").json
    assert found["facts"]["total"] >= found["facts"]["kept"] > 0
    assert "facts" in dshc("compact", log, "--check-facts").out


# What it does not ---------------------------------------------------------------------------------


def test_below_the_threshold_nothing_is_done(tmp_path: Path) -> None:
    """Exit 0, the reason, and not a byte more."""
    log = story(3).write(tmp_path / "log")
    old = log.read_bytes()
    ran = dshc("compact", log, "--json")
    assert (0, False, old) == (ran.code, ran.json["acted"], log.read_bytes())
    assert ran.json["tokens_before"] == ran.json["tokens_after"]
    told = dshc("compact", log).out
    assert 'the conversation is below the threshold; "--force" tries all the same\n' in told


@pytest.mark.parametrize("force", [["--force"], []], ids=["forced", "over the threshold"])
def test_where_nothing_can_go_that_is_a_finding(force: list[str], tmp_path: Path) -> None:
    """One giant message is all there is: exit 1, the reason, and not a byte more."""
    log = Conversation(window=8_000).system("You help.").user(LONG * 12).write(tmp_path / "log")
    old = log.read_bytes()
    ran = dshc("compact", log, *force, "--json")
    assert (1, False, old) == (ran.code, ran.json["acted"], log.read_bytes())
    assert "belongs to the tail" in ran.json["reason"]
    assert f'"dshc measure {log}" shows what fills the window' == ran.json["remedy"]


def test_a_tail_that_leaves_nothing_can_be_kept_shorter(log: Path) -> None:
    """Where something could go if less were kept, the option that says so is named, and helps."""
    told = dshc("compact", log, "--force", "--retain-tokens", "7000", "--window", "20000")
    reason = "everything behind the head belongs to the tail that is kept raw"
    assert (1, True) == (told.code, f'{reason}; more can go with "--keep-last 1"\n' in told.out)
    assert 0 == dshc("compact", log, "--force", "--keep-last", "1", "--window", "20000").code


def test_what_stays_over_its_threshold_is_told_what_helps(logs: Path) -> None:
    """Something went, and not enough: what more can go, and how."""
    log = logs / "v4-stuck.jsonl"
    done = dshc("compact", log, "--retain-tokens", "3000", "--window", "5000")
    assert 0 == done.code
    told = 'still over the threshold of 4,000 tokens; more can go with "--keep-last 1".'
    assert told in done.out
    assert dshc("compact", log, "--keep-last", "1", "--window", "5000", "--json").json["acted"]


def test_a_backend_that_does_nothing_can_be_changed(log: Path) -> None:
    """What it left could go: another one may take it."""
    done = dshc("compact", log, "--backend", "lying", "--json")
    assert (1, 'try another "--backend"') == (done.code, done.json["remedy"])


def test_what_a_backend_left_is_for_it_or_for_another(logs: Path) -> None:
    """It pruned all that it can, which is not enough: the same again does nothing, another does."""
    log = logs / "v4-killed.jsonl"
    pruned = dshc("compact", log, "--backend", "prune-only", "--window", "300", "--json").json
    remedy = 'more can go: run it again, or with another "--backend"'
    assert (True, True, remedy) == (pruned["acted"], pruned["over_threshold"], pruned["remedy"])
    assert 1 == dshc("compact", log, "--backend", "prune-only", "--window", "300").code
    assert 0 == dshc("compact", log, "--backend", "drop-oldest", "--window", "300").code


def test_a_failed_attempt_is_repeated_only_by_force(log: Path) -> None:
    """The second run says why it spends nothing; --force tries again."""
    backend = f"{mine(log.parent, BROKEN)}:Mine"
    assert 5 == dshc("compact", log, "--backend", backend).code
    size = log.stat().st_size
    ran = dshc("compact", log, "--backend", backend, "--json")
    assert (1, size) == (ran.code, log.stat().st_size)
    assert "has failed" in ran.json["reason"]
    assert '"--force" tries all the same' == ran.json["remedy"]
    assert 5 == dshc("compact", log, "--force", "--backend", backend).code


BROKEN: Final = "bench.replace(bench.choose(), lambda: 1 / 0)"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('no key [red]\\x1b[31m')", r"RuntimeError: no key [red]\x1b[31m"),
        (BROKEN, "ZeroDivisionError: division by zero"),
        ("bench.no_such_tool()", "AttributeError"),
    ],
)
def test_a_backend_that_fails_is_exit_5(body: str, words: str, log: Path) -> None:
    """What it raised is told, made harmless; the log is right, and nothing was replaced."""
    ran = dshc("compact", log, "--backend", f"{mine(log.parent, body)}:Mine", "--json")
    assert (5, False, 0) == (ran.code, ran.json["acted"], ran.json["generation_after"])
    assert words in ran.err
    assert ran.json["error"]
    assert () == verify(log).findings


def test_what_landed_before_a_failure_counts(log: Path) -> None:
    """The generation moved on disk: it acted, whatever the backend raised afterwards."""
    body = (
        "from dsh_compact.summarizers import Summary\n"
        "        short = Summary(text='x', provider='p', model='m')\n"
        "        bench.replace(bench.choose(), lambda: short)\n"
        "        raise RuntimeError('late')"
    )
    ran = dshc("compact", log, "--backend", f"{mine(log.parent, body)}:Mine", "--json")
    assert (0, True, 1) == (ran.code, ran.json["acted"], ran.json["generation_after"])
    assert "late" in ran.err


@pytest.mark.parametrize("body", ["return 'done'", "pass"])
def test_a_backend_that_says_nothing_is_a_finding(body: str, log: Path) -> None:
    """It neither failed nor did anything: exit 1, and a reason all the same."""
    ran = dshc("compact", log, "--backend", f"{mine(log.parent, body)}:Mine", "--json")
    assert (1, "the backend changed nothing") == (ran.code, ran.json["reason"])


@pytest.mark.parametrize("backend", ["lying", "memory-only", "forger"])
def test_what_a_backend_says_is_not_believed(backend: str, log: Path) -> None:
    """It claims to have compacted; the file does not say so."""
    old = log.read_bytes()
    ran = dshc("compact", log, "--backend", backend, "--json")
    assert (False, 0, old) == (ran.json["acted"], ran.json["generation_after"], log.read_bytes())
    assert ran.code in (1, 5)


@pytest.mark.parametrize(
    "words",
    [
        ["--retain-tokens", "1", "--keep-last", "1"],
        ["--keep-last", "0"],
        ["--retain-tokens", "-1"],
        ["--window", "0"],
        ["--retain-tokens", "6400"],
        ["--backend", "no-such-backend"],
        ["--summarizer", "no-such-summarizer"],
        ["--dry-run", "--backend", "lying"],
    ],
)
def test_wrong_usage_is_exit_2_and_changes_nothing(words: list[str], log: Path) -> None:
    """The message is one line that says what is wrong."""
    old = log.read_bytes()
    ran = dshc("compact", log, *words)
    assert (2, "", old) == (ran.code, ran.out, log.read_bytes())
    assert 1 == ran.err.count("\n")


# Plans --------------------------------------------------------------------------------------------


def test_a_plan_writes_nothing_and_says_what_would_be(log: Path) -> None:
    """The sizes are those that come; no file appears beside the log, no time changes."""
    before = {path.name: path.stat().st_mtime_ns for path in log.parent.iterdir()}
    planned = dshc("compact", log, "--dry-run", "--json").json
    assert before == {path.name: path.stat().st_mtime_ns for path in log.parent.iterdir()}
    assert (False, 0, 0) == (
        planned["acted"],
        planned["generation_before"],
        planned["generation_after"],
    )
    done = dshc("compact", log, "--json").json
    plan = planned["plan"]
    keys = ("generation_after", "tokens_after", "shadowed_seqs", "replacements")
    assert (True, False) == (plan["would_act"], plan["tokens_after_is_bound"])
    assert [done[key] for key in keys] == [plan[key] for key in keys]


def test_a_plan_needs_no_lock(log: Path) -> None:
    """Another process owns the log: looking is allowed."""
    with holding(log.with_name("session.lock")):
        ran = dshc("compact", log, "--dry-run")
        assert 0 == ran.code
        assert "would be folded" in ran.out


def test_a_plan_may_come_through_a_pipe(log: Path) -> None:
    """Looking needs no file that could be written to."""
    ran = dshc("compact", "-", "--dry-run", stdin=log.read_bytes())
    assert (0, "") == (ran.code, ran.err)
    assert "would be folded" in ran.out


def test_a_plan_for_a_model_is_a_bound(log: Path) -> None:
    """Nobody is asked: no key, no network, and the sizes say that they are at most that."""
    ran = dshc("compact", log, "--dry-run", "--summarizer", "openai")
    assert (0, True) == (ran.code, "≤" in ran.out)


def test_a_plan_where_nothing_can_go(tmp_path: Path) -> None:
    """The exit codes are those of the real run."""
    small = story(3).write(tmp_path / "small")
    assert 0 == dshc("compact", small, "--dry-run").code
    lone = Conversation(window=8_000).user(LONG * 12).write(tmp_path / "lone")
    ran = dshc("compact", lone, "--force", "--dry-run")
    assert 1 == ran.code
    assert "Nothing would be done." in ran.out


# Owners -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_an_owned_log_is_left_alone(version: int, framed: bool, tmp_path: Path) -> None:
    """Another process holds the lock: exit 4, its name where the system tells, no byte changed."""
    log = Conversation(format=version, window=8_000).user(LONG * 3).assistant("Well.").end()
    path = log.write(tmp_path / "session.jsonl", framed=framed)
    old = path.read_bytes()
    with holding(path if version == 0 else path.with_name("session.lock")) as pid:
        ran = dshc("compact", path, "--force")
        assert (4, "", old) == (ran.code, ran.out, path.read_bytes())
        if Path("/proc/locks").exists():
            assert f"process {pid} (" in ran.err
        assert "may write at any moment" in ran.err
    assert 0 == dshc("compact", path, "--force", "--retain-tokens", "0").code


def test_the_lock_is_given_back(log: Path) -> None:
    """The lock file stays, as the harness wants it, and nobody holds it."""
    assert 0 == dshc("compact", log).code
    with log.with_name("session.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("kind", ["missing", "link", "pipe", "stdin", "folder", "damaged"])
def test_what_cannot_be_written_to_is_exit_4(kind: str, log: Path) -> None:
    """No log, a link, a pipe, standard input, a folder without one, damage."""
    path = log.with_name("other.jsonl")
    match kind:
        case "link":
            path.symlink_to(log)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "damaged":
            path.write_bytes(log.read_bytes().replace(b'"seq":9,', b'"seq":8,'))
        case "stdin":
            path = Path("-")
    ran = dshc("compact", path, "--force")
    assert (4, "") == (ran.code, ran.out)


def test_a_sessions_folder_means_its_log(log: Path) -> None:
    """The folder's newest log is compacted."""
    found = dshc("compact", log.parent, "--json").json
    assert (True, str(log)) == (found["acted"], found["log"])


def test_a_torn_tail_is_cut_off_and_kept(log: Path) -> None:
    """What a crash left half written is put beside the log, and that is said."""
    torn = b'{"type":"user/message","se'
    with log.open("ab") as file:
        file.write(torn)
    ran = dshc("compact", log)
    assert 0 == ran.code
    assert "it is kept as" in ran.err
    assert torn == log.with_name(f"{log.name}.torn").read_bytes()
    assert () == verify(log).findings


# Foreign code -------------------------------------------------------------------------------------


def test_a_backend_that_is_typed_is_run(log: Path) -> None:
    """From a file or a module; what somebody types is meant."""
    path = mine(log.parent, "return Claim(acted=False, note='I was here')")
    for spec in (f"{path}:Mine", "mine:Mine"):
        ran = dshc("compact", log, "--backend", spec, "--json", cwd=log.parent)
        assert (1, "mine", "I was here") == (ran.code, ran.json["backend"], ran.json["reason"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('backend = "mine.py:Mine"', "code that does not ship with dshc"),
        ('backend = "mine:Mine"', "code that does not ship with dshc"),
        ('summarizer = "openai"', "who would be shown the conversation"),
        ('summarizer = "command"\nsummarizer_command = "touch ran"', "who would be shown"),
    ],
)
def test_a_file_is_not_believed_in_what_it_names(settings: str, words: str, log: Path) -> None:
    """A file beside a log may be anybody's: without --trust nothing that it names is run."""
    mine(log.parent, "open('ran', 'w')")
    log.with_name("dshc.toml").write_text(settings)
    old = log.read_bytes()
    ran = dshc("compact", log, cwd=log.parent)
    assert (2, old) == (ran.code, log.read_bytes())
    assert words in ran.err
    assert "--trust" in ran.err
    assert not log.with_name("ran").exists()


def test_a_trusted_file_is_believed(log: Path) -> None:
    """With --trust, or DSHC_TRUST=1, the same backend runs."""
    mine(log.parent, "open('ran', 'w').close()")
    log.with_name("dshc.toml").write_text('backend = "mine.py:Mine"')
    for words, env in ((["--trust"], {}), ([], {"DSHC_TRUST": "1"})):
        dshc("compact", log, *words, cwd=log.parent, env=env)
        log.with_name("ran").unlink()


# Interrupted --------------------------------------------------------------------------------------


def test_an_interrupted_summary_closes_its_bracket(log: Path) -> None:
    """Ctrl-C while the summary is written: exit 130, the attempt ends, the log is right."""
    body = (
        "import time, pathlib\n"
        "        def write():\n"
        "            pathlib.Path('begun').touch(); time.sleep(60)\n"
        "        bench.replace(bench.choose(), write)"
    )
    mine(log.parent, body)
    module = [sys.executable, "-m", "dsh_compact", "compact"]
    words = [*module, str(log), "--backend", "mine.py:Mine"]
    with subprocess.Popen(words, cwd=log.parent, stderr=subprocess.PIPE) as running:
        deadline = time.monotonic() + 20
        while not log.with_name("begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(2)
        assert 130 == running.wait(timeout=20)
    last = json.loads(log.read_bytes().splitlines()[-1])
    assert ("compaction/end", True) == (last["type"], bool(last["data"]["error"]))
    assert () == verify(log).findings
    assert dshc("compact", log, "--force", "--json").json["acted"]


@pytest.mark.parametrize(
    ("room_bytes", "generation", "told"),
    [
        (100, 0, "Nothing was done."),
        (2_000, 1, "6 of 12 messages folded, still over the threshold of 6,400 tokens."),
    ],
    ids=["nothing landed", "the first fold landed"],
)
def test_a_disk_that_fills_up_is_told_with_what_landed(
    room_bytes: int, generation: int, told: str, logs: Path
) -> None:
    """The conversation is still over its threshold, so the disk's error decides: exit 4."""
    path = logs / "v4-stuck.jsonl"
    most = path.stat().st_size + room_bytes
    done = subprocess.run(
        [DSHC, "compact", path],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        check=False,
    )
    assert (4, told) == (done.returncode, done.stdout.splitlines()[1])
    (error,) = done.stderr.splitlines()
    assert error.startswith(f"dshc: {path}: the record could not be written: only ")
    assert error.endswith("; nothing of it was added; see to the disk, then try again")
    reading = plain_reader.read(path.read_bytes())
    assert (generation, 0) == (reading.generation, dshc("verify", path).code)
