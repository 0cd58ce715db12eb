"""Repair keeps all that can be kept, invents nothing, and ends in a log that is sound."""

from __future__ import annotations

import json
import os
import random
import stat
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plain_reader
import pytest
from builders import Conversation, call, frame, line
from damaged import CASES, Case, moved, talk
from footprints import footprints
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_reader import Record
from running import LOGS, dshc
from strategies import conversations

from dsh_compact import frames
from dsh_compact.errors import Damage, LogError, OwnedLog, UnreadableLog
from dsh_compact.journal import Journal
from dsh_compact.repair import Repair, repair, repaired_path
from dsh_compact.verify import verify
from dsh_compact.verify.damage import TABLE

REAL_LOGS = sorted(path for path in LOGS.iterdir() if path.suffix in (".jsonl", ".zstd"))


def put(folder: Path, content: bytes, name: str = "session.v4.jsonl") -> Path:
    """A log with that content."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def mended(folder: Path, content: bytes) -> tuple[Repair, list[Record]]:
    """What repairing such a log does, and the records that come out."""
    done = repair(put(folder, content))
    assert done.target is not None
    reading = plain_reader.read(Path(done.target).read_bytes())
    assert (None, None) == (reading.broken, reading.refused)
    assert done.ok, done.after.findings
    return done, reading.records


def texts(records: Sequence[Record]) -> list[str]:
    """What is said in a log, in its order."""
    said = []
    for record in records:
        message = record["data"] if record["type"] == "user/message" else None
        message = record.get("data", {}).get("message", message)
        said += [block["text"] for block in (message or {}).get("content", ()) if "text" in block]
    return said


def kinds(records: Sequence[Record]) -> list[str]:
    """The types of the events."""
    return [record["type"] for record in records[1:]]


def set_aside(done: Repair) -> list[Record]:
    """What is in the file beside the log."""
    if done.aside is None:
        return []
    return [json.loads(entry) for entry in Path(done.aside).read_bytes().splitlines()]


# Nothing to mend


@pytest.mark.parametrize("log", REAL_LOGS, ids=lambda path: path.name)
def test_a_sound_log_is_left_alone(log: Path, logs: Path) -> None:
    """Nothing is written beside a log with nothing to mend; what is open at its end is closed."""
    before = footprints(logs)
    done = repair(logs / log.name)
    if log.name == "v4-killed.jsonl":
        assert (True, 3, 0, 0) == (done.ok, done.inserted, done.renumbered, done.set_aside)
        return
    assert (True, False, None) == (done.ok, done.is_needed, done.target)
    assert before == footprints(logs)


@settings(max_examples=40)
@given(conversations())
def test_what_is_kept_is_kept_byte_for_byte(log: Conversation) -> None:
    """A right log comes out as it went in, with at most its open turn closed behind it."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        done = repair(put(Path(folder), log.bytes()))
        assert done.ok
        if done.target is not None:
            assert Path(done.target).read_bytes().startswith(log.bytes())
            assert (0, 0) == (done.renumbered, done.set_aside)


# Every code


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_kind_of_damage_is_mended_or_told(case: Case, tmp_path: Path) -> None:
    """What the table calls repairable comes out sound; what it doesn't is left and told."""
    content = case.data()
    path = put(tmp_path, content, case.path)
    done = repair(path, output=tmp_path / "repaired.jsonl")
    assert content == path.read_bytes()
    if TABLE[case.code].mend is None:
        left = {finding.code for finding in (*done.after.findings, *done.after.warnings)}
        assert case.code in left
        return
    assert done.target is not None
    reading = plain_reader.read(Path(done.target).read_bytes())
    assert (None, None) == (reading.broken, reading.refused)
    report = verify(done.target)
    assert () == report.findings
    assert {Damage.BRACKET_STALE} >= {warning.code for warning in report.warnings}
    again = repair(done.target)
    assert (False, True) == (again.is_needed, again.ok)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_what_is_left_out_is_kept_beside(case: Case, tmp_path: Path) -> None:
    """Each line of the damaged log is in the repaired one, at least by its words, or beside it."""
    path = put(tmp_path, case.data(), case.path)
    done = repair(path, output=tmp_path / "repaired.jsonl")
    if done.target is None:
        return
    kept = Path(done.target).read_bytes()
    content = plain_reader.read(kept).records if kept[:4] == frames.MAGIC else None
    text = kept if content is None else b"".join(map(line, content))
    beside = b"".join(
        entry["text"].encode() if "text" in entry else b64decode(entry["base64"])
        for entry in set_aside(done)
    )
    raw = case.data()
    if raw[:4] == frames.MAGIC or case.code in (Damage.TURN_MISCOUNTED, Damage.STEP_MISCOUNTED):
        return  # lost frames are beside as they are; other numbers stand in the data
    for damaged in raw.split(b"\n"):
        message = damaged[damaged.find(b'"data"') : damaged.rfind(b'},"s')]
        assert message in text or damaged in beside or beside.startswith(damaged), damaged


# Two writers


def resumed(log: Conversation) -> int:
    """A process resumes; returns how many records were there."""
    log.end_seed()
    return len(log.records)


def test_a_seq_that_a_resume_used_is_told_apart(tmp_path: Path) -> None:
    """580 (end-seed), 580, 581 …: the next process had not read the end-seed; all is kept."""
    log = talk()
    known = resumed(log)
    log.user("and now?").assistant("Still one.").end().compaction("One file.").user("and?").end()
    seed = log.records[known - 1]["seq"]
    shifted = [moved(record, seed, -1) for record in log.records[known:]]
    done, records = mended(tmp_path, b"".join(map(line, [*log.records[:known], *shifted])))
    assert log.records == records
    assert (0, 0) == (done.set_aside, done.inserted)


def test_a_seq_that_falls_back_by_four_is_told_apart(tmp_path: Path) -> None:
    """The resuming process had not read the last four events: its own are put behind them."""
    log = talk()
    known = resumed(log)
    log.user("and now?").assistant("Running.", calls=[call("c2")]).result("c2", "b.txt")
    log.prune("c2", "b").assistant("Still one.").end().compaction("One file.")
    seed = log.records[known - 1]["seq"]
    shifted = [moved(record, seed, -4) for record in log.records[known:]]
    done, records = mended(tmp_path, b"".join(map(line, [*log.records[:known], *shifted])))
    assert log.records == records
    assert 0 == done.set_aside


def placeholders() -> tuple[list[Record], list[Record], list[Record]]:
    """Four calls wait; one process closes them as interrupted, the other has the real result."""
    calls = [call(f"c{number}") for number in range(4)]
    common = Conversation().system("You help.").user("go").assistant("Running.", calls=calls)
    for number in range(4):
        common.call(f"c{number}")
    known = len(common.records)
    supposed = interrupted(common, range(4))
    common.result("c0", "the real result")
    return common.records[:known], supposed, common.records[known:]


def interrupted(log: Conversation, calls: Sequence[int]) -> list[Record]:
    """What a resume writes for calls that were running: stand-ins for their results."""
    records = []
    for number in calls:
        seq = log.next_seq + number
        data: Record = {
            "turn": log.turn,
            "step": log.step,
            "message": {
                "id": f"interrupted-tool-result-c{number}-{seq}",
                "role": "tool",
                "toolCallId": f"c{number}",
                "isError": True,
                "source": {"kind": "tool", "callId": f"c{number}"},
                "content": [{"type": "text", "text": "it is not known what came of it"}],
            },
            "error": {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"},
        }
        records.append(
            {"type": "tool/result", "seq": seq, "time": 1, "data": data, "surfaceOp": "append",
             "sourceEventSeqs": [log.calls[f"c{number}"]["started"]]}
        )  # fmt: skip
    return records


@pytest.mark.parametrize("real_first", [False, True])
def test_a_real_result_stands_before_a_supposed_one(tmp_path: Path, real_first: bool) -> None:
    """203408–203411 are stand-ins, 203408 is the real result: it is kept, in any order."""
    common, supposed, real = placeholders()
    written = [*common, *real, *supposed] if real_first else [*common, *supposed, *real]
    done, records = mended(tmp_path, b"".join(map(line, written)))
    results = [r["data"]["message"] for r in records if r["type"] == "tool/result"]
    assert ["c0", "c1", "c2", "c3"] == [message["toolCallId"] for message in results]
    assert "the real result" in texts(records)
    assert 3 == texts(records).count("it is not known what came of it")
    assert 1 == done.set_aside
    assert "interrupted-tool-result-c0" in set_aside(done)[0]["text"]


def test_a_turn_that_went_on_outlives_its_supposed_end(tmp_path: Path) -> None:
    """One process ends the turn as interrupted, the other goes on in it: its work is kept."""
    log = Conversation().user("go").assistant("Running.", calls=[call("c0")]).call("c0")
    known = len(log.records)
    closing = interrupted(log, [0])
    seq = closing[-1]["seq"]
    closing += [
        {"type": "step/end", "seq": seq + 1, "time": 1, "data": {"turn": 1, "step": 1}},
        {"type": "turn/end", "seq": seq + 2, "time": 1,
         "data": {"turn": 1, "reason": {"kind": "interrupted"}}},
        {"type": "session/end-seed", "seq": seq + 3, "time": 1, "data": {}},
    ]  # fmt: skip
    log.result("c0", "the real result").assistant("It took a while.").end().user("more").end()
    written = [*log.records[:known], *closing, *log.records[known:]]
    done, records = mended(tmp_path, b"".join(map(line, written)))
    assert log.records == [r for r in records if r["type"] != "session/end-seed"]
    assert 3 == done.set_aside


def other_turn(log: Conversation, words: str) -> list[Record]:
    """A turn that another process writes behind the same log."""
    import copy

    theirs = copy.deepcopy(log)
    known = len(theirs.records)
    theirs.user(words).assistant(f"{words}, yes.").end()
    for record in theirs.records[known:]:
        record["time"] += 3
        message = record["data"].get("message", record["data"])
        if "id" in message:
            message["id"] = f"theirs-{message['id']}"
        for waiting in record["data"].get("inserted", ()):
            waiting["id"] = f"theirs-{waiting['id']}"
    return theirs.records[known:]


def interleaved(chance: random.Random, *runs: list[Record]) -> list[Record]:
    """The runs' records, each run in its order, mixed by chance."""
    left = [list(run) for run in runs if run]
    mixed = []
    while left:
        run = chance.choice(left)
        mixed.append(run.pop(0))
        left = [run for run in left if run]
    return mixed


@pytest.mark.parametrize("seed", range(20))
def test_two_writers_turns_are_both_kept(tmp_path: Path, seed: int) -> None:
    """However two processes' turns are interleaved, both are in the log, one behind the other."""
    log = talk()
    theirs = other_turn(log, "the other")
    known = len(log.records)
    log.user("the one").assistant("the one, yes.").end()
    mixed = interleaved(random.Random(seed), log.records[known:], theirs)
    _, records = mended(tmp_path, b"".join(map(line, [*log.records[:known], *mixed])))
    said = texts(records)
    assert {"the one", "the one, yes.", "the other", "the other, yes."} <= set(said)
    assert [1, 2, 3] == [r["data"]["turn"] for r in records if r["type"] == "turn/start"]
    users = [said.index(words) for words in ("the one", "the other")]
    answers = [said.index(f"{words}, yes.") for words in ("the one", "the other")]
    assert sorted(place + 1 for place in users) == sorted(answers)


def test_a_process_that_compacted_is_followed(tmp_path: Path) -> None:
    """Both resumed; one folded the log and went on: what it folded is what it had read."""
    log = talk()
    theirs = other_turn(log, "the other")
    known = len(log.records)
    log.compaction("There is one file.").user("the one").assistant("Fine.").end()
    written = [*log.records[:known], *log.records[known:], *theirs]
    _, records = mended(tmp_path, b"".join(map(line, written)))
    reading = plain_reader.read(b"".join(map(line, records)))
    assert 1 == reading.generation
    assert {"the one", "the other"} <= set(texts(records))


def test_copies_go(tmp_path: Path) -> None:
    """Lines that stand there twice, byte for byte, are there once."""
    lines = talk().lines()
    done, records = mended(tmp_path, b"".join([*lines[:12], *lines[5:]]))
    assert talk().records == records
    assert 7 == done.set_aside


# What was lost


@pytest.mark.parametrize("place", range(1, len(talk().records)))
def test_a_lost_line_costs_little(tmp_path: Path, place: int) -> None:
    """Whichever line is lost, the log is sound again, and nearly everything else is kept."""
    lines = talk().lines()
    done, records = mended(tmp_path, b"".join([*lines[:place], *lines[place + 1 :]]))
    assert done.set_aside <= 4
    words = set(texts(talk().records)) - set(texts([json.loads(lines[place])]))
    lost = words - set(texts(records))
    assert not lost or "tool/call" in lines[place].decode() or "assistant" in lines[place].decode()


def test_a_start_that_was_lost_is_written_again(tmp_path: Path) -> None:
    """The step shows its turn, the answer its step, the result its call: nothing is set aside."""
    for kind in ("turn/start", "step/start", "tool/call", "compaction/start"):
        log = talk().compaction("There is one file.")
        lost = next(record["seq"] for record in log.records if record["type"] == kind)
        expected = sorted(kinds(log.records))
        done, records = mended(tmp_path, log.drop(lost).bytes())
        assert expected == sorted(kinds(records)), kind
        assert (0, 1) == (done.set_aside, done.inserted), kind
        Path(done.target or "").unlink()


def test_a_torn_tail_is_cut_and_kept(tmp_path: Path) -> None:
    """What was never finished is beside the log, and a line that only lacks its end is kept."""
    torn = talk().note("never finished").lines()[-1]
    done, records = mended(tmp_path, talk().bytes() + torn[:-9])
    assert talk().records == records
    assert [torn[:-9].decode()] == [entry["text"] for entry in set_aside(done)]
    Path(done.target or "").unlink()
    _, records = mended(tmp_path, talk().bytes() + torn[:-1])
    assert "never finished" in texts(records)


def test_whole_lines_of_a_torn_frame_are_kept(tmp_path: Path) -> None:
    """A frame that was cut off gives the lines that its beginning holds."""
    log = talk().note("kept " + os.urandom(150_000).hex()).note("lost " + os.urandom(90_000).hex())
    torn = frame(b"".join(log.lines()[-2:]))[:-200]
    done, records = mended(tmp_path, talk().framed() + torn)
    said = texts(records)
    assert any(words.startswith("kept") for words in said)
    assert not any(words.startswith("lost") for words in said)
    assert done.target is not None
    assert Path(done.target).read_bytes()[:4] == frames.MAGIC


# What is open


def test_an_interrupted_turn_is_closed_as_the_harness_does(tmp_path: Path) -> None:
    """A started call's outcome is unknown, the other was not started; step and turn end."""
    calls = [call("started"), call("waiting")]
    log = Conversation().system("You help.").user("go").assistant(calls=calls).call("started")
    done, records = mended(tmp_path, log.bytes())
    first, second, step, turn = records[-4:]
    started = next(record["seq"] for record in log.records if record["type"] == "tool/call")
    assert log.records == records[:-4]
    assert ("TOOL_OUTCOME_UNKNOWN", [started]) == (
        first["data"]["error"]["code"], first["sourceEventSeqs"],
    )  # fmt: skip
    assert f"interrupted-tool-result-started-{first['seq']}" == first["data"]["message"]["id"]
    assert "TOOL_NOT_STARTED" == second["data"]["error"]["code"]
    assert "sourceEventSeqs" not in second
    assert ["step/end", "turn/end"] == [step["type"], turn["type"]]
    assert {"kind": "interrupted"} == turn["data"]["reason"]
    assert {log.records[-1]["time"]} == {record["time"] for record in records[-4:]}
    assert 4 == done.inserted


def test_a_dangling_call_inside_the_log_is_answered(tmp_path: Path) -> None:
    """A turn that was left with a waiting call, and another turn behind it."""
    log = Conversation().system("You help.").user("go").assistant(calls=[call("c1")]).call("c1")
    known = len(log.records)
    log.interrupt().user("again").assistant("Done.").end()
    cut_seqs = [record["seq"] for record in log.records[known : known + 3]]
    for seq in cut_seqs:
        log.drop(seq)
    done, records = mended(tmp_path, log.bytes())
    first = kinds(records).index("tool/result")
    assert ["tool/result", "step/end", "turn/end"] == kinds(records)[first : first + 3]
    assert "Done." in texts(records)
    assert (0, 3) == (done.set_aside, done.inserted)


def test_a_dangling_compaction_lets_the_next_one_through(tmp_path: Path) -> None:
    """A start that blocks every later compaction is ended with an error; the later ones stand."""
    log = talk().open_bracket()
    log.bracket = None
    log.compaction("There is one file.").user("more").assistant("Yes.").end()
    done, records = mended(tmp_path, log.bytes())
    ends = [record["data"] for record in records if record["type"] == "compaction/end"]
    assert ["error" in end for end in ends] == [True, False]
    assert (0, 1) == (done.set_aside, done.inserted)


def test_a_stale_bracket_is_left_as_it_is(tmp_path: Path) -> None:
    """A resume has made it stale: an end would be one that no start matches."""
    done = repair(put(tmp_path, talk().open_bracket().end_seed().user("a").end().bytes()))
    assert (True, False) == (done.ok, done.is_needed)


def test_a_result_whose_call_was_folded_keeps_its_content(tmp_path: Path) -> None:
    """It stands on the surface as a user's message, and the generation moves by that one."""
    case = next(case for case in CASES if case.code is Damage.RESULT_PARTED)
    before = plain_reader.read(case.data())
    done, records = mended(tmp_path, case.data())
    after = plain_reader.read(b"".join(map(line, records)))
    assert before.records == records[: len(before.records)]
    assert "tool/result" not in [node.type for node in after.nodes]
    assert before.generation + 1 == after.generation
    assert texts(before.records)[-5:] != texts(records)
    assert 0 == done.set_aside


# Files


def test_the_repaired_log_is_private_and_the_damaged_one_stays(tmp_path: Path) -> None:
    """A new file beside, readable by its owner alone; nothing of the damaged log changes."""
    path = put(tmp_path, talk().bytes() + b"torn")
    path.chmod(0o644)
    before = path.read_bytes()
    done = repair(path)
    assert str(tmp_path / "session.v4.repaired.jsonl") == done.target
    assert before == path.read_bytes()
    for name in (done.target, done.aside):
        assert 0o600 == stat.S_IMODE(Path(name or "").stat().st_mode)


@pytest.mark.parametrize(
    ("log", "repaired"),
    [
        ("a/session.v4.jsonl", "a/session.v4.repaired.jsonl"),
        ("session.jsonl.zstd", "session.repaired.jsonl.zstd"),
        ("notes", "notes.repaired"),
    ],
)
def test_the_repaired_log_s_name(log: str, repaired: str) -> None:
    """It keeps the ending by which logs are known."""
    assert repaired == repaired_path(log)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A second repair refuses to take the first one's name."""
    path = put(tmp_path, talk().bytes() + b"torn")
    repair(path)
    before = footprints(tmp_path)
    with pytest.raises(LogError, match="exists already"):
        repair(path)
    assert before == footprints(tmp_path)


@pytest.mark.parametrize("framed", [False, True])
def test_in_place_the_damaged_log_keeps_another_name(tmp_path: Path, framed: bool) -> None:
    """The repaired log has the name and the rights, a framed one stays framed."""
    log = talk()
    content = log.drop(7).framed() if framed else log.drop(7).bytes()
    path = put(tmp_path, content)
    path.chmod(0o640)
    done = repair(path, in_place=True)
    assert (str(path), True) == (done.target, done.ok)
    assert done.backup is not None
    assert content == Path(done.backup).read_bytes()
    assert 0o640 == stat.S_IMODE(path.stat().st_mode)
    assert framed == (path.read_bytes()[:4] == frames.MAGIC)
    assert verify(path).ok
    assert {path.name, Path(done.backup).name, "session.lock"} == {
        file.name for file in tmp_path.iterdir()
    }


def test_in_place_needs_the_lock(tmp_path: Path) -> None:
    """While a live process owns the log, nothing is changed."""
    path = put(tmp_path, talk().bytes() + b"torn")
    with Journal(str(path), own_lock=False):
        before = footprints(tmp_path)
        with pytest.raises(OwnedLog):
            repair(path, in_place=True)
        assert before == footprints(tmp_path)


def test_in_place_a_link_is_refused(tmp_path: Path) -> None:
    """What a link points to is not replaced."""
    path = put(tmp_path, talk().bytes() + b"torn", "real.jsonl")
    (tmp_path / "link.jsonl").symlink_to(path)
    with pytest.raises(UnreadableLog):
        repair(tmp_path / "link.jsonl", in_place=True)


def test_in_place_a_log_that_cannot_be_mended_stays(tmp_path: Path) -> None:
    """Half a repair does not take the log's place."""
    path = put(tmp_path, talk().event("tests/unknown").bytes() + b"torn")
    before = path.read_bytes()
    done = repair(path, in_place=True)
    assert (False, None, None) == (done.ok, done.target, done.backup)
    assert before == path.read_bytes()


def test_unchanged_lines_are_copied_byte_for_byte(tmp_path: Path) -> None:
    """Odd spacing, escapes and key order of lines that need no mending stay as they are."""
    odd = (
        b'{ "seq": 16, "type": "tests/odd", "data": {"b": 1, "a": "\\u00fc\\ud83d"},'
        b' "ignorable": true, "time": 3 }\n'
    )
    done, _ = mended(tmp_path, talk().bytes() + odd + b"torn")
    assert odd in Path(done.target or "").read_bytes()


def test_renumbering_touches_numbers_only(tmp_path: Path) -> None:
    """A renumbered record keeps what it says byte for byte."""
    odd = (
        b'{"type":"user/message","seq":17,"time":3,"data":{ "content": [{"type":"text","text":'
        b'"\\u00fc\\ud83d"}],"source":{"kind":"user"},"role":"user","id":"odd","x":1.50},'
        b'"surfaceOp":"append"}\n'
    )
    done, _ = mended(tmp_path, talk().bytes() + odd)
    expected = odd.replace(b'"seq":17', b'"seq":16')
    assert expected in Path(done.target or "").read_bytes()


# The command


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    """All is shown, and the folder is as it was."""
    path = put(tmp_path, talk().bytes() + b"torn")
    before = footprints(tmp_path)
    ran = dshc("repair", "--dry-run", path)
    assert before == footprints(tmp_path)
    assert 0 == ran.code
    assert "torn-line" in ran.out
    assert "it would be sound" in ran.out


def test_exit_codes(tmp_path: Path) -> None:
    """0 where the log is sound in the end, 1 where something is left, 4 where it can't be read."""
    mendable = put(tmp_path, talk().bytes() + b"torn", "mendable.jsonl")
    lost = put(tmp_path, talk().event("tests/unknown").bytes(), "lost.jsonl")
    sound = put(tmp_path, talk().bytes(), "sound.jsonl")
    codes = [dshc("repair", path).code for path in (mendable, lost, sound, tmp_path / "absent")]
    assert [0, 1, 0, 4] == codes
    assert 2 == dshc("repair", "--in-place", "-o", tmp_path / "x", sound).code


def test_the_backup_s_name_is_printed(tmp_path: Path) -> None:
    """With --in-place the user is told where the damaged log is now."""
    path = put(tmp_path, talk().bytes() + b"torn")
    ran = dshc("repair", "--in-place", path)
    assert 0 == ran.code
    assert f"{path}.damaged" in ran.out


def test_json_has_the_fixed_names(tmp_path: Path) -> None:
    """Where everything is, what was done, what is left."""
    path = put(tmp_path, talk().bytes() + b"torn")
    told: dict[str, Any] = dshc("repair", "--json", path).json
    assert ("repair", str(path), True, True, False) == tuple(
        told[key] for key in ("command", "log", "ok", "needed", "dry_run")
    )
    assert (16, 0, 0, 1) == tuple(
        told[key] for key in ("kept", "renumbered", "inserted", "set_aside")
    )
    assert ["torn-line"] == [action["code"] for action in told["actions"]]
    assert [] == told["findings"]
    assert Path(told["target"]).exists()
    assert Path(told["set_aside_file"]).exists()
    assert told["backup"] is None


def test_standard_input_needs_an_output(tmp_path: Path) -> None:
    """A pipe has no place beside it."""
    assert 2 == dshc("repair", "-", stdin=talk().bytes() + b"torn").code
    ran = dshc("repair", "-", "-o", tmp_path / "out.jsonl", stdin=talk().bytes() + b"torn")
    assert 0 == ran.code
    assert talk().bytes() == (tmp_path / "out.jsonl").read_bytes()


# By chance


@settings(max_examples=60)
@given(st.data())
def test_whatever_happens_to_the_lines_the_log_comes_out_sound(data: st.DataObject) -> None:
    """Lines lost, doubled, swapped at random: the repaired log folds, and no rule is broken."""
    from tempfile import TemporaryDirectory

    log = data.draw(conversations(max_verbs=15))
    lines = log.lines()
    for _ in range(data.draw(st.integers(1, 4))):
        if len(lines) < 3:
            break
        place = data.draw(st.integers(1, len(lines) - 1))
        match data.draw(st.sampled_from(["lose", "double", "swap", "move"])):
            case "lose":
                del lines[place]
            case "double":
                lines.insert(data.draw(st.integers(1, len(lines))), lines[place])
            case "swap":
                lines[place - 1 or 1], lines[place] = lines[place], lines[place - 1 or 1]
            case _:
                lines.insert(data.draw(st.integers(1, len(lines) - 1)), lines.pop(place))
    with TemporaryDirectory() as folder:
        done = repair(put(Path(folder), b"".join(lines)))
        assert done.ok, done.after.findings
        if done.target is not None:
            reading = plain_reader.read(Path(done.target).read_bytes())
            assert (None, None) == (reading.broken, reading.refused)
