"""A log's story: what was replaced, refused, tried and answered, priced by us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import plain_reader
import pytest
from builders import Conversation, call, line
from footprints import footprints
from hypothesis import given, settings
from hypothesis import strategies as st
from running import DSHC, LOGS, dshc
from strategies import conversations

from dsh_compact.history import WANTED, History, Recorder, Row, read_history
from dsh_compact.report import history as report
from dsh_compact.session import Session

EXPECTED: dict[str, Any] = json.loads((LOGS / "expected.json").read_text("utf-8"))
HOSTILE = "\x1b]0;owned\x07\x1b[31m[red]x[/red]\u202e\u2028\x00"


def story(log: Conversation, folder: Path) -> list[tuple[str, int]]:
    """The rows of a built log: what happened, and at which seq."""
    history = read_history(log.write(folder / "session.jsonl"))
    return [row_of(row) for row in history.rows]


def row_of(row: Row) -> tuple[str, int]:
    """What a row tells, in short."""
    return type(row).__name__, row.end_seq if hasattr(row, "end_seq") else row.seq


def overflowed(version: int = 4) -> Conversation:
    """Refused, a prune, a failed attempt, a summary, answered; then refused for good."""
    return (
        Conversation(format=version)
        .system("p")
        .user("go")
        .assistant(calls=[call("c1")])
        .result("c1", "x" * 9_000)
        .refusal(limit=8_000, requested=10_476)
        .prune("c1", "x" * 99)
        .failed_compaction("boom")
        .compaction("It went.")
        .assistant("Done.", usage=(700, 9))
        .user("again")
        .refusal(limit=8_000, requested=9_000)
        .give_up()
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_log_has_the_story_that_is_known(name: str, logs: Path) -> None:
    """Every replacement with its price before and after, every failed attempt; nothing touched."""
    before = footprints(logs)
    history = read_history(logs / name)
    assert before == footprints(logs)
    wanted = EXPECTED[name]
    keys = ("generation", "seq", "shadowed_seqs", "tokens_before", "tokens_after")
    assert wanted["replacements"] == [
        {key: [*x] if isinstance(x := getattr(row, key), tuple) else x for key in keys}
        for row in history.replacements
    ]
    failed = [one for one in wanted["compactions"] if one["error"]]
    assert failed == [
        {"start_seq": row.start_seq, "end_seq": row.end_seq, "error": row.error}
        for row in history.attempts
    ]


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_story_is_told_in_order(version: int, tmp_path: Path) -> None:
    """Overflow, what was tried, what came of it."""
    rows = story(overflowed(version), tmp_path)
    names = ["Refused", "Replaced", "Attempt", "Replaced", "Answered", "Refused", "GaveUp"]
    assert names == [name for name, _ in rows]
    assert sorted(seq for _, seq in rows) == [seq for _, seq in rows]


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_row_says_what_a_replacement_is(version: int, tmp_path: Path) -> None:
    """A prune, a summary with who wrote it, and anything else; with time and prices."""
    log = overflowed(version)
    log.user("more").replace("edited", over=(log.node_seqs[-1], log.node_seqs[-1]))
    prune, summary, other = read_history(log.write(tmp_path / "log")).replacements
    assert ["prune", "summary", "other"] == [row.kind for row in (prune, summary, other)]
    assert (2_250 + 8 + (4 if version < 4 else 0), 25 + 8 + (4 if version < 4 else 0)) == (
        prune.tokens_before,
        prune.tokens_after,
    )
    assert (None, None, None) == (prune.compaction_id, prune.provider, other.model)
    assert ("deepseek-official", "deepseek-v4-flash") == (summary.provider, summary.model)
    record = log.record(summary.seq)
    assert record["time"] == summary.time_ms
    assert record["data"]["source"]["compactionId"] == summary.compaction_id


def tokens_before(log: Conversation, folder: Path, *, strict: bool = False) -> list[int]:
    """What the messages that left had cost, a number a replacement."""
    history = read_history(log.write(folder / "log"), strict=strict)
    return [row.tokens_before for row in history.replacements]


def announcements(log: Conversation) -> list[int]:
    """The seqs of the records that say what the next one takes the place of."""
    types = ("compaction/prune", "compaction/summary")
    return [record["seq"] for record in log.records if record["type"] in types]


@pytest.mark.parametrize("version", [0, 3, 4])
def test_what_left_had_cost_what_the_log_says(version: int, tmp_path: Path) -> None:
    """The record before a replacement is believed; a strict reading finds the same by pricing."""
    log = overflowed(version)
    priced = tokens_before(log, tmp_path)
    assert priced == tokens_before(log, tmp_path, strict=True)
    for seq in announcements(log):
        log.spoil(seq, lambda record: record["data"].update(shadowedTokenCount=7))
    assert [7, 7] == tokens_before(log, tmp_path)
    assert priced == tokens_before(log, tmp_path, strict=True)


@pytest.mark.parametrize(
    "spoiled",
    [
        {"shadowedTokenCount": 10**15},
        {"shadowedTokenCount": -1},
        {"shadowedTokenCount": 7.5},
        {"shadowedSeqs": [1]},
    ],
    ids=["more than fits into the records", "less than nothing", "no whole number", "of others"],
)
def test_what_cannot_be_is_priced_again(spoiled: dict[str, Any], tmp_path: Path) -> None:
    """A count that the records have no room for, or of other messages, is not believed."""
    log = overflowed()
    priced = tokens_before(log, tmp_path)
    for seq in announcements(log):
        log.spoil(seq, lambda record: record["data"].update(spoiled))
    assert priced == tokens_before(log, tmp_path)


def test_what_is_not_said_is_priced(tmp_path: Path) -> None:
    """A record without a count is none that says zero."""
    log = overflowed()
    priced = tokens_before(log, tmp_path)
    for seq in announcements(log):
        log.spoil(seq, lambda record: record["data"].pop("shadowedTokenCount"))
    assert priced == tokens_before(log, tmp_path)


def test_a_count_is_of_the_very_next_event(tmp_path: Path) -> None:
    """One that something stands behind tells nothing of a later replacement."""
    log = overflowed()
    priced = tokens_before(log, tmp_path)
    prune = announcements(log)[0]
    log.spoil(prune, lambda record: record["data"].update(shadowedTokenCount=7))
    assert 7 == tokens_before(log, tmp_path)[0]
    first, second = log.record(prune), log.record(prune - 1)
    first["seq"], second["seq"] = prune - 1, prune
    lines = log.lines()
    lines[prune], lines[prune + 1] = line(first), line(second)
    path = tmp_path / "moved"
    path.write_bytes(b"".join(lines))
    assert priced == [row.tokens_before for row in read_history(path).replacements]


def test_a_checkpoint_is_its_own_summarys(tmp_path: Path) -> None:
    """One that no summary announced has no author, whatever was summarised before."""
    log = Conversation().user("a").compaction("s").note("b")
    log.replace("x", over=(log.node_seqs[-1], log.node_seqs[-1]))
    source = {"kind": "compact-checkpoint", "compactionId": "another"}
    log.spoil(log.last_seq, lambda record: record["data"].update(source=source))
    first, second = read_history(log.write(tmp_path / "log")).replacements
    assert ("deepseek-official", None) == (first.provider, second.provider)
    assert ("summary", "another") == (second.kind, second.compaction_id)


def test_an_end_of_another_compaction_ends_no_attempt(tmp_path: Path) -> None:
    """Start and end belong together by their id."""
    log = Conversation().user("a").failed_compaction("boom")
    log.spoil(log.last_seq, lambda record: record["data"].update(compactionId="another"))
    assert [] == story(log, tmp_path)


def test_a_turn_that_ended_has_no_late_answer(tmp_path: Path) -> None:
    """What the next turn answers is another request."""
    log = Conversation().user("a").refusal(limit=8_000, requested=9_000).give_up()
    log.user("b").assistant("c").end()
    assert ["Refused", "GaveUp"] == [name for name, _ in story(log, tmp_path)]


def test_a_refusal_tells_the_providers_numbers(tmp_path: Path) -> None:
    """As far as it gives them; other failures are no part of this story."""
    log = Conversation().user("a").failure(code="OVERLOADED", message="later", status=529)
    log.refusal(limit=8_000, requested=9_000)
    log.failure(code="CONTEXT_WINDOW_EXCEEDED", message="too long", status=400)
    full, bare = read_history(log.write(tmp_path / "log")).refusals
    assert (8_000, 9_000) == (full.limit_tokens, full.requested_tokens)
    assert (None, None, "too long") == (bare.limit_tokens, bare.requested_tokens, bare.message)


def test_only_the_first_answer_after_a_refusal_is_told(tmp_path: Path) -> None:
    """Answers by themselves are a conversation and no story of compactions."""
    log = Conversation().user("a").assistant("b").user("c")
    assert [] == story(log, tmp_path)
    log.refusal(limit=8_000, requested=9_000).assistant("d", usage=(70, 9)).assistant("e")
    history = read_history(log.write(tmp_path / "log"))
    assert [79] == [row.counted_tokens for row in history.answers]
    assert ["Refused", "Answered"] == [row_of(row)[0] for row in history.rows]


def test_a_compaction_without_an_end_is_told_apart(tmp_path: Path) -> None:
    """A writer may be at work, or its process is gone; once it has ended it is neither."""
    log = Conversation().user("a").open_bracket()
    history = read_history(log.write(tmp_path / "log"))
    assert history.unfinished is not None
    assert (log.last_seq, False) == (history.unfinished.start_seq, history.unfinished.is_stale)
    history = read_history(log.end_seed().write(tmp_path / "log"))
    assert history.unfinished is not None
    assert history.unfinished.is_stale
    ended = Conversation().user("a").failed_compaction()
    assert None is read_history(ended.write(tmp_path / "log")).unfinished


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_refusal_in_another_spelling_is_one(version: int, tmp_path: Path) -> None:
    """Whoever writes may escape a key's letters."""
    path = overflowed(version).write(tmp_path / "session.jsonl")
    before = [row_of(row) for row in read_history(path).rows]
    path.write_bytes(path.read_bytes().replace(b'"failure":', b'"fail\\u0075re":'))
    assert before == [row_of(row) for row in read_history(path).rows]


def test_the_totals_are_sums(tmp_path: Path) -> None:
    """Counts by kind, and what the conversation shrank by."""
    history = read_history(overflowed().write(tmp_path / "log"))
    totals = history.totals
    assert (1, 1, 0, 1, 2, 1) == (
        totals.summaries,
        totals.prunes,
        totals.others,
        totals.failed_attempts,
        totals.refusals,
        totals.recovered,
    )
    assert sum(row.tokens_before for row in history.replacements) == totals.tokens_before
    assert totals.tokens_before - totals.tokens_after == totals.tokens_saved
    assert 1 == len(history.turns_lost)


@settings(max_examples=50)
@given(conversations())
def test_the_story_is_the_plain_readers(
    tmp_path_factory: pytest.TempPathFactory, log: Conversation
) -> None:
    """Generation, kind, seqs and prices of any drawn log are what a naive reader finds."""
    path = log.write(tmp_path_factory.mktemp("drawn") / "log")
    history, reading = read_history(path), plain_reader.read(path.read_bytes())
    assert [asdict(item) for item in reading.replacements] == [
        {
            "generation": row.generation,
            "seq": row.seq,
            "kind": row.kind,
            "shadowed_seqs": [*row.shadowed_seqs],
            "tokens_before": row.tokens_before,
            "tokens_after": row.tokens_after,
        }
        for row in history.replacements
    ]
    failed = [item for item in reading.compactions if item.error is not None]
    assert [(item.start_seq, item.end_seq, item.error) for item in failed] == [
        (row.start_seq, row.end_seq, row.error) for row in history.attempts
    ]


@settings(max_examples=30)
@given(conversations(), st.data())
def test_a_story_read_in_pieces_is_the_whole_story(
    tmp_path_factory: pytest.TempPathFactory, log: Conversation, data: st.DataObject
) -> None:
    """Rows that are taken while a log grows are those of the grown log."""
    path, lines = tmp_path_factory.mktemp("drawn") / "log", log.lines()
    path.write_bytes(lines[0])
    recorder = Recorder()
    rows: list[Row] = []
    with Session(str(path), wanted=WANTED, watch=recorder) as session:
        for cut in sorted(data.draw(st.lists(st.integers(1, len(lines)), max_size=4))):
            path.write_bytes(b"".join(lines[:cut]))
            session.catch_up()
            rows += recorder.take(session)
        path.write_bytes(b"".join(lines))
        session.catch_up()
        rows += recorder.take(session)
    whole: History = read_history(path)
    assert (whole.rows, whole.unfinished) == (tuple(rows), recorder.unfinished)


# The command --------------------------------------------------------------------------------------


def test_the_story_is_a_table(logs: Path) -> None:
    """One row each, and totals below."""
    done = dshc("history", logs / "v4-prune-then-failed-summary.jsonl")
    rows = [row.split() for row in done.out.splitlines()[4:13]]
    kinds = ["refused", "prune", "prune", "failed", "answered", "refused", "prune", "failed"]
    assert (0, "") == (done.code, done.err)
    assert [*kinds, "answered"] == [next(word for word in row if word.isalpha()) for row in rows]
    assert "11,188 requested, 9,000 allowed" in done.out
    assert "2,240 → 1,298" in done.out
    assert "3 prunes · 2 failed attempts · 2 refusals, 2 answered" in done.out


def test_json_has_the_names_that_scripts_rely_on(logs: Path) -> None:
    """Replacements and attempts under their fixed names, and more beside."""
    found = dshc("history", logs / "v4-overflow.jsonl", "--json").json
    head = "schema command log format session_id generation replacements attempts"
    assert set(head.split()) <= set(found)
    names = (
        "generation seq kind shadowed_seqs tokens_before tokens_after time compaction_id provider"
        " model"
    )
    assert set(names.split()) <= set(found["replacements"][0])
    stuck = dshc("history", logs / "v4-stuck.jsonl", "--json").json
    assert {"start_seq", "end_seq", "error"} <= set(stuck["attempts"][0])
    assert [8_000] * 3 == [row["limit_tokens"] for row in stuck["refusals"]]


def test_a_log_without_a_story_says_so(tmp_path: Path) -> None:
    """Nothing was replaced, and nothing was refused."""
    done = dshc("history", Conversation().user("a").write(tmp_path / "log"))
    assert (0, True) == (done.code, "nothing was ever replaced" in done.out)


def test_damage_leaves_stdout_empty(tmp_path: Path) -> None:
    """Nothing partial: the error names line and seq, and the exit code is 4."""
    path = overflowed().write(tmp_path / "log")
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    done = dshc("history", path)
    assert (4, "") == (done.code, done.out)
    assert "dshc verify" in done.err


def test_hostile_words_never_reach_the_terminal(tmp_path: Path) -> None:
    """Errors, refusals and names are foreign text."""
    log = Conversation(provider=HOSTILE, model=HOSTILE).user(HOSTILE).failed_compaction(HOSTILE)
    log.failure(code="CONTEXT_WINDOW_EXCEEDED", message=HOSTILE * 999).end(HOSTILE)
    log.compaction(HOSTILE)
    path = log.write(tmp_path / "log")
    for words in ([], ["--json"]):
        done = dshc("history", path, *words)
        assert 0 == done.code
        assert not set("\x1b\x07\u202e\u2028\x00") & set(done.out)
    assert HOSTILE == dshc("history", path, "--json").json["attempts"][0]["error"]


def test_a_time_that_is_none_is_shown_as_it_stands(tmp_path: Path) -> None:
    """A log may say anything."""
    log = Conversation().user("a").compaction("s")
    for record in log.records[1:]:
        record["time"] = 10**15 * 9
    done = dshc("history", log.write(tmp_path / "log"))
    assert (0, True) == (done.code, str(10**15 * 9) in done.out)


# Following ----------------------------------------------------------------------------------------


@contextmanager
def following(*words: str | Path) -> Iterator[tuple[Callable[[], str], Callable[[str], str]]]:
    """`dshc history --follow`: the next line of stdout, and what stderr says up to a word."""
    work = subprocess.Popen(
        [DSHC, "history", "--follow", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert work.stdout is not None
    assert work.stderr is not None
    out, err = work.stdout, work.stderr

    def said(word: str) -> str:
        while word not in (line := err.readline()):
            assert line
        return line

    try:
        yield out.readline, said
    finally:
        work.kill()
        work.communicate()


def add(path: Path, log: Conversation, data: bytes | None = None) -> None:
    """Append what the log holds beyond the file, as another process does."""
    whole = log.bytes() if data is None else data
    with path.open("ab") as file:
        file.write(whole[path.stat().st_size :])


@pytest.mark.timeout(60)
def test_new_rows_are_printed_as_they_are_written(tmp_path: Path) -> None:
    """Half a line is no row; the whole one is, and an end is not waited for."""
    log = Conversation().user("a").refusal(limit=8_000, requested=9_000)
    path = log.write(tmp_path / "log")
    with following(path) as (row, _):
        assert "refused" in row()
        log.compaction("s")
        add(path, log, log.bytes()[:-9])
        assert "summary" in row()
        add(path, log.assistant("b"))
        assert "answered" in row()


@pytest.mark.timeout(60)
def test_followed_json_is_a_line_a_row(tmp_path: Path) -> None:
    """Each a whole object, that says which kind of row it is."""
    log = Conversation().user("a").failed_compaction("boom")
    path = log.write(tmp_path / "log")
    with following(path, "--json") as (row, _):
        first = json.loads(row())
        assert {"schema": 1, "command": "history", "row": "attempt"}.items() <= first.items()
        add(path, log.compaction("s"))
        assert ("replacement", 1) == ((second := json.loads(row()))["row"], second["generation"])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", ["replaced", "cut", "removed", "pipe"])
def test_a_log_that_is_lost_is_read_anew(way: str, tmp_path: Path) -> None:
    """With a word on what happened; a file that is not there yet is waited for, also where a pipe
    has its name, which nobody may ever write to.
    """
    path = Conversation().user("a").compaction("one").write(tmp_path / "log")
    other = Conversation().user("b").failed_compaction("boom")
    with following(path) as (row, said):
        assert "summary" in row()
        if way == "replaced":
            other.write(tmp_path / "new").rename(path)
        elif way == "cut":
            os.truncate(path, 0)
            said("cut short")
            path.write_bytes(other.bytes())
        elif way == "pipe":
            os.mkfifo(tmp_path / "new")
            (tmp_path / "new").rename(path)
            said("what has its name is no file")
            time.sleep(0.3)
            other.write(tmp_path / "new").rename(path)
        else:
            path.unlink()
            said("gone")
            time.sleep(0.3)
            path.write_bytes(other.bytes()[:40])
            time.sleep(0.3)
            add(path, other)
        if way == "replaced":
            assert "another file" in said("reading it anew")
        assert "boom" in row()
        add(path, other.compaction("two"))
        assert "summary" in row()


@pytest.mark.parametrize("columns", [40, 60, 80, None])
def test_a_followed_row_keeps_what_matters(columns: int | None) -> None:
    """On a narrow terminal the time gives way to what happened, and to how many tokens."""
    for row in read_history(LOGS / "v4-much-compacted.jsonl").replacements:
        told = report.line(row, width=columns)
        assert columns is None or len(told) <= columns
        assert row.kind in told
        assert f"{row.tokens_before:,} → {row.tokens_after:,}" in told
        assert (columns in (80, None)) == (report.moment(row.time_ms) in told)


def test_what_cannot_grow_is_not_followed(tmp_path: Path) -> None:
    """Standard input and a pipe are wrong usage; a path that leads nowhere is told as ever."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("-", tmp_path / "pipe"):
        done = dshc("history", "--follow", path)
        assert (2, "") == (done.code, done.out)
    nowhere = tmp_path / "nowhere"
    assert dshc("history", nowhere) == dshc("history", "--follow", nowhere)


@pytest.mark.timeout(60)
def test_damage_that_is_written_ends_the_following(tmp_path: Path) -> None:
    """What was told stays told, and the error is that of any reading."""
    log = Conversation().user("a").compaction("s")
    path = log.write(tmp_path / "log")
    with following(path) as (row, said):
        assert "summary" in row()
        with path.open("ab") as file:
            file.write(line({"type": "turn/end", "seq": 99, "time": 1, "data": {"turn": 1}}))
        assert "seq 99" in said("verify")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("code", "told", "how"),
    [
        (130, b"dshc: interrupted\n", signal.SIGINT),
        (-signal.SIGTERM, b"", signal.SIGTERM),
        (141, b"", None),
    ],
)
def test_following_ends_without_a_fuss(
    code: int, told: bytes, how: signal.Signals | None, tmp_path: Path
) -> None:
    """Ctrl-C, a script's kill, and a reader who leaves (`| head -1`) though nothing new comes."""
    path = Conversation().user("a").compaction("s").write(tmp_path / "log")
    work = subprocess.Popen(
        [DSHC, "history", "--follow", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert work.stdout is not None
    assert work.stderr is not None
    with work:
        assert b"summary" in work.stdout.readline()
        if how is None:
            work.stdout.close()
        else:
            work.send_signal(how)
        assert (code, told) == (work.wait(timeout=20), work.stderr.read())
