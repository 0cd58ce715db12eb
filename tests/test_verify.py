"""Verify finds every kind of damage, with its code and place, and goes on behind it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from builders import Conversation, frame, line
from damaged import CASES, Case, talk
from footprints import footprints
from hypothesis import given, settings
from running import LOGS, dshc
from strategies import Spoiled, broken_logs, conversations

from dsh_compact.errors import Damage, LogError
from dsh_compact.events import Place
from dsh_compact.session import read_session
from dsh_compact.verify import Inspector, Report, verify
from dsh_compact.verify import inspector as inspecting
from dsh_compact.verify.damage import ROWS, TABLE, Consequence, Finding, Severity

REAL_LOGS = sorted(path for path in LOGS.iterdir() if path.suffix in (".jsonl", ".zstd"))


def put(folder: Path, content: bytes, name: str = "session.jsonl") -> Path:
    """A log with that content."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def found(report: Report) -> list[Finding]:
    """Findings and warnings in the order of the log."""
    return sorted((*report.findings, *report.warnings), key=lambda x: (x.line or 0, x.byte or 0))


# Sound logs


@pytest.mark.parametrize("log", REAL_LOGS, ids=lambda path: path.name)
def test_a_real_log_is_sound(log: Path) -> None:
    """What the harness wrote breaks no rule, and what it left open is a warning at most."""
    report = verify(log)
    assert () == report.findings
    allowed = {"v4-killed.jsonl": {Damage.CALL_OPEN, Damage.TURN_OPEN}}
    assert allowed.get(log.name, set()) == {finding.code for finding in report.warnings}


@given(conversations())
@settings(max_examples=60)
def test_a_right_log_is_sound(log: Conversation) -> None:
    """Whatever is said and done in a conversation, its log breaks no rule."""
    inspector = Inspector(lambda place: lines[place.start_bytes])
    lines = [written[:-1] for written in log.lines()]
    for number, written in enumerate(lines):
        inspector.feed(written, Place(-1, number, len(written)))
    assert () == inspector.report("session.jsonl").findings


# Every code


def test_every_code_has_a_row_and_a_case() -> None:
    """The table knows each code once, and there is a log that shows it."""
    assert sorted(Damage) == sorted(row.code for row in ROWS) == sorted(TABLE)
    assert [row.code for row in ROWS] == [case.code for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_kind_of_damage_is_found(case: Case, tmp_path: Path) -> None:
    """The code stands at its line, with all that follows from it and nothing else."""
    path = put(tmp_path, case.data(), case.path)
    report = verify(path)
    assert list(case.codes) == [str(finding.code) for finding in found(report)]
    shown = next(finding for finding in found(report) if finding.code is case.code)
    assert (case.line, TABLE[case.code].severity) == (shown.line, shown.severity)
    assert (TABLE[case.code].mend is not None) == shown.repairable
    assert shown.consequence
    is_damage = TABLE[case.code].severity is Severity.DAMAGE
    assert report.ok is not is_damage


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_inspecting_changes_nothing(case: Case, tmp_path: Path) -> None:
    """Not the log, not its folder, not a time."""
    path = put(tmp_path, case.data(), case.path)
    before = footprints(path.parent)
    verify(path)
    assert before == footprints(path.parent)


@settings(max_examples=60)
@given(broken_logs())
def test_what_cannot_be_read_is_found(spoiled: Spoiled) -> None:
    """Where reading stops, verify has a finding at that line or before."""
    with TemporaryDirectory() as folder:
        path = put(Path(folder), spoiled.data)
        fault = refusal(path)
        if fault is not None:
            report = verify(path)
            first = min((finding.line or 0 for finding in report.findings), default=None)
            assert first is not None, (spoiled.rule, fault)
            assert first <= (fault.line or first), (spoiled.rule, fault, report.findings)


def refusal(path: Path) -> LogError | None:
    """Why the log cannot be read."""
    try:
        read_session(path, strict=True).close()
    except LogError as fault:
        return fault
    return None


# Going on


def test_it_goes_on_behind_a_broken_line(tmp_path: Path) -> None:
    """Two broken lines far apart are two findings, and nothing between is blamed for them."""
    lines = talk().lines()
    lines[3], lines[8] = b"{\n", b"nonsense\n"
    report = verify(put(tmp_path, b"".join(lines)))
    assert [("not-json", 4), ("not-json", 9)] == [(x.code, x.line) for x in report.findings]


def test_it_goes_on_behind_a_broken_frame(tmp_path: Path) -> None:
    """After garbage between two frames the next frame is found, and read."""
    frames = [frame(b"".join(map(line, append))) for append in talk().appends if append]
    garbage = random.Random(1).randbytes(70_000)
    whole = [*frames[:2], garbage, *frames[2:-1], garbage, frames[-1]]
    report = verify(put(tmp_path, b"".join(whole)))
    assert ["bad-frame", "bad-frame"] == [finding.code for finding in report.findings]
    assert talk().next_seq == report.events
    bytes_before = len(frames[0]) + len(frames[1])
    assert bytes_before == report.findings[0].byte


def test_a_gap_is_one_finding(tmp_path: Path) -> None:
    """What follows a gap is judged by the numbers that it has, not by those that it should have."""
    log = talk()
    notes = [log.note(f"note {number}").last_seq for number in range(9)]
    report = verify(put(tmp_path, log.drop(notes[2]).drop(notes[3]).drop(notes[6]).bytes()))
    gaps = [f"seq {notes[2]}–{notes[3]} missing: {notes[4]} comes next"]
    gaps += [f"seq {notes[6]} missing: {notes[7]} comes next"]
    assert gaps == [finding.message for finding in report.findings]


def test_references_are_followed_behind_a_fork(tmp_path: Path) -> None:
    """A compaction behind a repeated seq means the events that its own process meant."""
    log = talk().end_seed()
    known = len(log.records)
    log.user("and now?").assistant("Still one.").end().compaction("There is one file.")
    shifted = [line(fallen_back(record, log, known)) for record in log.records[known:]]
    report = verify(put(tmp_path, b"".join([*log.lines()[:known], *shifted])))
    assert ["seq-repeated"] == [finding.code for finding in report.findings]
    assert 1 == report.generation


def fallen_back(record: dict[str, object], log: Conversation, known: int) -> dict[str, object]:
    """The record as a process wrote it that had not read the end-seed."""
    from damaged import moved

    seed = log.records[known - 1]["seq"]
    new: dict[str, object] = moved(record, seed, -1)
    return new


def test_times_tell_the_two_writers_apart(tmp_path: Path) -> None:
    """The finding says how far apart the two events of one number were written."""
    case = next(case for case in CASES if case.code is Damage.SEQ_REPEATED)
    (finding,) = verify(put(tmp_path, case.data())).findings
    assert "two processes wrote" in finding.message
    assert "s from the first's" in finding.message


def test_a_copy_is_told_from_another_event(tmp_path: Path) -> None:
    """Lines that stand there twice are named so, each once, and change nothing else."""
    lines = talk().lines()
    report = verify(put(tmp_path, b"".join([*lines[:10], *lines[8:]])))
    assert [11, 12] == [finding.line for finding in report.findings]
    assert {inspecting.COPY} == {x.message.partition(": ")[2] for x in report.findings}


# Consequences


def test_damage_in_front_of_a_turn_end_refuses_the_session(tmp_path: Path) -> None:
    """A broken line is fatal once a turn ends behind it, and drops the rest where none does."""
    lines = talk().lines()
    at_end = [*lines, b"{}\n", *Conversation().note("a").lines()[1:]]
    inside = [*lines[:5], b"{}\n", *lines[5:]]
    refused = verify(put(tmp_path, b"".join(inside))).findings[0].consequence
    dropped = verify(put(tmp_path, b"".join(at_end))).findings[0].consequence
    assert "the harness refuses to open the session" == refused
    assert "the harness opens the session and drops the last 2 records without a word" == dropped


# Limits


def test_without_a_header_nothing_is_promised(tmp_path: Path) -> None:
    """The harness opens nothing of such a log, and repair leaves it as it is."""
    path = put(tmp_path, b"".join([*talk().lines()[1:], b"no JSON\n"]))
    found = verify(path).findings
    assert ["header-missing", "not-json"] == [one.code for one in found]
    assert {Consequence.REFUSED} == {one.consequence for one in found}
    assert "\n\nwithout its header nothing of it can be mended\n" in dshc("verify", path).out
    assert 1 == dshc("repair", path).code
    assert [path] == [*tmp_path.iterdir()]


def test_findings_beyond_the_limit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of nothing but rubbish doesn't fill the memory with findings."""
    monkeypatch.setattr(inspecting, "MAX_FINDINGS", 5)
    report = verify(put(tmp_path, talk().bytes() + b"rubbish\n" * 12))
    assert (5, 7) == (len(report.findings), report.untold)


def test_a_bomb_is_refused_by_name(tmp_path: Path) -> None:
    """A few bytes that would unpack to 10 GiB are never unpacked, and the limit is named."""
    case = next(case for case in CASES if case.code is Damage.TOO_LARGE)
    assert len(case.data()) < 4_000
    (finding,) = verify(put(tmp_path, case.data())).findings
    assert "MAX_UNPACKED_BYTES" in finding.message


def test_many_forks_take_no_time(tmp_path: Path) -> None:
    """A log in which every event repeats a seq is judged about as fast as a right one."""
    note = Conversation().note("a").records[1]
    lines = [
        line({**note, "seq": seq % 2, "data": {**note["data"], "id": f"m{seq}"}})
        for seq in range(6_000)
    ]
    report = verify(put(tmp_path, b"".join([Conversation().lines()[0], *lines])))
    assert not report.ok


# The command


def test_exit_codes(tmp_path: Path) -> None:
    """0 where nothing was found, 1 where something was, with --strict for a warning too."""
    sound = put(tmp_path, talk().bytes(), "sound.jsonl")
    warned = put(tmp_path, talk().open_bracket().bytes(), "warned.jsonl")
    broken = put(tmp_path, talk().bytes() + b"x", "broken.jsonl")
    assert [0, 0, 1] == [dshc("verify", path).code for path in (sound, warned, broken)]
    strict = [dshc("verify", "--strict", path).code for path in (sound, warned, broken)]
    assert [0, 1, 1] == strict
    assert 4 == dshc("verify", tmp_path / "absent.jsonl").code


def test_json_has_the_fixed_names(tmp_path: Path) -> None:
    """One object: ok, findings with code, line, seq, message and repairable; warnings apart."""
    case = next(case for case in CASES if case.code is Damage.SEQ_GAP)
    ran = dshc("verify", "--json", put(tmp_path, case.data()))
    assert (1, "verify", False, []) == (
        ran.code, ran.json["command"], ran.json["ok"], ran.json["warnings"],
    )  # fmt: skip
    (finding,) = ran.json["findings"]
    assert ("seq-gap", case.line, 8, True) == tuple(
        finding[key] for key in ("code", "line", "seq", "repairable")
    )
    assert {"byte", "message", "consequence", "severity"} <= finding.keys()


def test_strict_json_holds_warnings_among_the_findings(tmp_path: Path) -> None:
    """With --strict a warning is a finding: ok is false and says why."""
    path = put(tmp_path, talk().open_bracket().bytes())
    lax, strict = (
        dshc("verify", "--json", path).json,
        dshc("verify", "--strict", "--json", path).json,
    )
    assert (True, 0, 1) == (lax["ok"], len(lax["findings"]), len(lax["warnings"]))
    assert (False, 1, 0) == (strict["ok"], len(strict["findings"]), len(strict["warnings"]))


def test_many_logs_make_a_table_worst_first(tmp_path: Path) -> None:
    """A folder is a row a log; the damaged one comes first, an unreadable one is told."""
    put(tmp_path, talk().bytes(), "a/session.v4.jsonl")
    put(tmp_path, talk().bytes() + b"x", "b/session.v4.jsonl")
    ran = dshc("verify", tmp_path)
    rows = ran.out.splitlines()
    assert 1 == ran.code
    assert "torn-line" in rows[1]
    assert "damaged" in rows[1]
    assert "sound" in rows[2]
    assert "2 logs" in rows[-1]
    logs = dshc("verify", "--json", tmp_path).json["logs"]
    assert [False, True] == [log["ok"] for log in logs]


def test_a_stream_is_a_line_a_log_in_the_given_order(tmp_path: Path) -> None:
    """The same objects as of one log alone; what can't be read is a line, too."""
    good = put(tmp_path, talk().bytes(), "good.jsonl")
    warned = put(tmp_path, talk().open_bracket().bytes(), "warned.jsonl")
    bad = put(tmp_path, talk().bytes() + b"x", "bad.jsonl")
    ran = dshc("verify", "--jsonl", bad, warned, good)
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert (1, [str(bad), str(warned), str(good)]) == (ran.code, [line["log"] for line in lines])
    assert [dshc("verify", "--json", path).json for path in (bad, warned, good)] == lines
    for words, code in (
        ((warned, good), 0),
        (("--strict", warned, good), 1),
        ((tmp_path / "no",), 4),
    ):
        assert code == dshc("verify", "--jsonl", *words).code


def test_hostile_text_never_reaches_the_terminal(tmp_path: Path) -> None:
    """What a log says in a finding is shown with its escapes spelt out."""
    log = talk().event("\x1b[31mtests/\x07unknown\u202e")
    ran = dshc("verify", put(tmp_path, log.bytes()))
    assert 1 == ran.code
    assert not set(ran.out) & set("\x1b\x07\u202e")
    assert "unknown-event" in ran.out


def test_standard_input_is_verified() -> None:
    """A log can be piped in."""
    assert 0 == dshc("verify", "-", stdin=talk().bytes()).code
    assert 1 == dshc("verify", "-", stdin=talk().bytes()[:-3]).code


@pytest.mark.parametrize("command", ["measure", "verify"])
@pytest.mark.parametrize("way", ["--json", "--jsonl"])
def test_what_holds_no_log_is_a_row_among_others(way: str, command: str, tmp_path: Path) -> None:
    """The commands that take many logs agree: an empty folder costs no other log its row."""
    empty = tmp_path / "empty"
    empty.mkdir()
    good = put(tmp_path, talk().bytes())
    ran = dshc(command, way, empty, good)
    lines = [json.loads(one) for one in ran.out.splitlines()]
    rows = {row["log"]: row for row in (lines if way == "--jsonl" else ran.json["logs"])}
    assert (4, "", {str(empty), str(good)}) == (ran.code, ran.err, {*rows})
    assert rows[str(empty)]["error"].startswith(f"{empty}: no session log in this folder")
    assert "error" not in rows[str(good)]


@pytest.mark.parametrize("command", ["measure", "verify"])
def test_what_holds_no_log_is_told_alone_and_a_line_of_a_stream(
    command: str, tmp_path: Path
) -> None:
    """Alone it is an error, and where each log is to be a line, a line."""
    alone, stream = dshc(command, tmp_path), dshc(command, "--jsonl", tmp_path)
    assert (4, "", True) == (alone.code, alone.out, "no session log" in alone.err)
    assert (4, "", str(tmp_path)) == (stream.code, stream.err, stream.json["log"])
