"""Undo: a copy in which a compaction never happened, every reference moved along, or no copy."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import plain_reader
import pytest
from builders import Conversation, call
from hypothesis import given, settings
from hypothesis import strategies as st
from running import LOGS, dshc
from strategies import conversations

from dsh_compact.errors import LogError, UsageError
from dsh_compact.session import open_session
from dsh_compact.summarizers import Summary
from dsh_compact.undo import NothingToUndo, undo
from dsh_compact.verify import verify
from dsh_compact.workbench import Workbench

COMPACTED = [
    path
    for path in sorted(LOGS.glob("v*"))
    if plain_reader.read(path.read_bytes()).generation and path.name != "v4-resumed.jsonl"
]
"""The real logs that hold a compaction."""


def records(path: Path) -> list[dict[str, Any]]:
    """A log's records, the header first."""
    found: list[dict[str, Any]] = plain_reader.read(path.read_bytes()).records
    return found


def without_numbers(record: dict[str, Any]) -> dict[str, Any]:
    """A record less all that undo may change."""
    data = dict(record["data"])
    for key in ("shadowedRange", "shadowedSeqs", "messageSeqs", "throughSeq", "sourceEventSeq"):
        data.pop(key, None)
    return {"type": record["type"], "time": record.get("time", record.get("time0")), "data": data}


# What the copy holds ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", COMPACTED, ids=lambda path: path.name)
def test_all_but_the_compaction_is_there(path: Path, tmp_path: Path) -> None:
    """The other records in their order; what was folded is on the surface; the copy verifies."""
    old = path.read_bytes()
    done = undo(path, tmp_path / "copy")
    assert old == path.read_bytes()
    before, after = plain_reader.read(old), plain_reader.read((tmp_path / "copy").read_bytes())
    assert () == verify(tmp_path / "copy").findings
    assert (None, None) == (after.broken, after.refused)
    gone = {seq for one in done.undone for seq in one.seqs}
    kept = [r for r in before.records[1:] if r.get("seq", r.get("seq0")) not in gone]
    assert [without_numbers(r) for r in kept] == [without_numbers(r) for r in after.records[1:]]
    assert before.generation - len(done.undone) == after.generation == done.generation_after
    assert before.events - len(gone) == after.events
    assert (before.header, before.torn) == (after.header, after.torn)
    assert done.tokens_after == after.measure.surface_tokens > before.measure.surface_tokens


@pytest.mark.parametrize("path", COMPACTED, ids=lambda path: path.name)
def test_to_generation_0_everything_that_was_ever_said_is_back(path: Path, tmp_path: Path) -> None:
    """No checkpoint and no pruned result is left, and no record of the conversation is missing."""
    undo(path, tmp_path / "copy", generation=0)
    after = plain_reader.read((tmp_path / "copy").read_bytes())
    assert {"other"} >= {one.kind for one in after.replacements}
    assert () == verify(tmp_path / "copy").findings
    assert not [r for r in after.records if r["type"] in ("compaction/prune", "compaction/summary")]


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_undo_takes_back_what_compact_did(version: int, framed: bool, tmp_path: Path) -> None:
    """Compacted in two rounds and undone in one: the log, byte for byte, as it was."""
    log = Conversation(format=version, window=2_000).system("You help.")
    for number in range(6):
        log.user(f"{number} " * 600).assistant("Well.", calls=[call(f"c{number}")])
        log.result(f"c{number}", "x" * 900).assistant("Done.").end()
    path = log.write(tmp_path / "log", framed=framed)
    old = path.read_bytes()
    found = dshc("compact", path, "--json", env={"DSHC_RETAIN_TOKENS": "1500"}).json
    assert 2 == found["generation_after"]
    ran = dshc("undo", path, "-o", tmp_path / "copy", "--json")
    assert (0, 0, found["generation_after"]) == (
        ran.code,
        ran.json["generation_after"],
        ran.json["generation_before"],
    )
    if not framed:
        assert old == (tmp_path / "copy").read_bytes()
    assert records(tmp_path / "copy") == plain_reader.read(old).records


@settings(max_examples=80)
@given(log=conversations(), framed=st.booleans(), generation=st.none() | st.integers(0, 3))
def test_a_log_of_any_shape(log: Conversation, framed: bool, generation: int | None) -> None:
    """A copy that another reader finds right, with as many moves less; or an error, and no copy."""
    with TemporaryDirectory() as folder:
        path = log.write(Path(folder, "log"), framed=framed)
        copy = Path(folder, "copy")
        before = plain_reader.read(path.read_bytes())
        since = [one for one in before.replacements if one.generation > (generation or 0)]
        if {"other"} >= {one.kind for one in since}:
            with pytest.raises(NothingToUndo):
                undo(path, copy, generation=generation)
            assert not copy.exists()
            return
        try:
            done = undo(path, copy, generation=generation)
        except LogError:  # an edit took a checkpoint's place, say
            assert not copy.exists()
            return
        after = plain_reader.read(copy.read_bytes())
        assert (None, None) == (after.broken, after.refused)
        assert before.generation - len(done.undone) == after.generation


# References ---------------------------------------------------------------------------------------


def compacted(log: Conversation) -> Conversation:
    """The conversation after a compaction of all that may go."""
    return log.compaction("Something was said.")


def test_references_move_along(tmp_path: Path) -> None:
    """Titles, deliveries, sources, later brackets: each names what it named before."""
    log = compacted(Conversation().user("one").assistant("yes").end())
    log.user("two").assistant("Running.", calls=[call("c")]).result("c", "r" * 900)
    asked = next(r["seq"] for r in log.records if r["type"] == "user/message" and "two" in str(r))
    log.event("session/title", {"title": "t", "messageSeqs": [asked], "source": {"kind": "model"}})
    log.failed_compaction().delivered().end()
    path = log.write(tmp_path / "log")
    undo(path, tmp_path / "copy")
    before, after = records(path), records(tmp_path / "copy")

    def named(found: list[dict[str, Any]]) -> list[str]:
        by_seq = {record["seq"]: record for record in found[1:]}
        title = next(r for r in found if r["type"] == "session/title")
        result = next(r for r in found if r["type"] == "tool/result")
        delivery = next(r for r in found if r["type"].endswith("delivery-accepted"))
        seqs = [*title["data"]["messageSeqs"], *result["sourceEventSeqs"]]
        return [by_seq[seq]["type"] for seq in [*seqs, delivery["data"]["throughSeq"]]]

    assert ["user/message", "tool/call", "compaction/end"] == named(before) == named(after)
    assert () == verify(tmp_path / "copy").findings


def test_a_delivery_up_to_the_compaction_reaches_up_to_what_was_before(tmp_path: Path) -> None:
    """The event that it named is gone: it named all before it too."""
    log = compacted(Conversation().user("one").assistant("yes").end()).delivered()
    undo(log.write(tmp_path / "log"), tmp_path / "copy")
    delivery = records(tmp_path / "copy")[-1]["data"]
    assert "turn/end" == records(tmp_path / "copy")[1 + delivery["throughSeq"]]["type"]
    assert () == verify(tmp_path / "copy").findings


def test_a_seeds_length_shrinks_with_it(tmp_path: Path) -> None:
    """In the older formats the header says how many events came from a seed."""
    log = compacted(Conversation(format=3, seedLength=0).user("one").assistant("yes").end())
    log.records[0]["seedLength"] = log.next_seq
    log.records[0]["isSeeded"] = True
    path = log.user("two").end().write(tmp_path / "log")
    undo(path, tmp_path / "copy")
    before, after = records(path)[0]["seedLength"], records(tmp_path / "copy")[0]["seedLength"]
    assert before - 4 == after


def test_what_stands_between_start_and_summary_stays(tmp_path: Path) -> None:
    """Other events of the harness may stand inside a bracket: they are not the compaction's."""
    log = Conversation().user("one").assistant("yes").end().open_bracket()
    log.event("tests/marker", {"x": 1}, ignorable=True).checkpoint("Said.").close_bracket()
    done = undo(log.write(tmp_path / "log"), tmp_path / "copy")
    (one,) = done.undone
    assert (4, 1) == (len(one.seqs), one.seqs[1] - one.seqs[0] - 1)
    assert "tests/marker" == records(tmp_path / "copy")[-1]["type"]


def test_a_bracket_without_an_end_goes_too(tmp_path: Path) -> None:
    """A process died between the checkpoint and the end: what there is of it is left out."""
    log = Conversation().user("one").assistant("yes").end().open_bracket().checkpoint("Said.")
    undo(log.write(tmp_path / "log"), tmp_path / "copy")
    assert "turn/end" == records(tmp_path / "copy")[-1]["type"]


# What is undone -----------------------------------------------------------------------------------


def test_prunes_and_folds_at_one_go_are_one_compaction(tmp_path: Path) -> None:
    """With failed attempts between them; but not what was done before something else was said."""
    log = Conversation().user("go")
    for name in ("a", "b"):
        log.assistant(calls=[call(name)]).result(name, "r" * 900)
    log.prune("a", "r")
    log.assistant("So far.").prune("b", "r").failed_compaction().compaction("Said.")
    path = log.assistant("Yes.").end().write(tmp_path / "log")
    done = undo(path, tmp_path / "copy")
    assert ["summary", "prune"] == [one.kind for one in done.undone]
    assert (3, 1) == (done.generation_before, done.generation_after)
    again = undo(tmp_path / "copy", tmp_path / "copy2")
    assert (["prune"], 0) == ([one.kind for one in again.undone], again.generation_after)


def test_other_replacements_are_not_undone(tmp_path: Path) -> None:
    """A new system prompt or an edit is no compaction; it stays where it is."""
    log = Conversation().system("You help.").user("one").assistant("yes").end()
    log.compaction("Said.").user("two").system("You help more.").assistant("yes").end()
    done = undo(log.write(tmp_path / "log"), tmp_path / "copy")
    assert (2, 1, 1) == (done.generation_before, done.generation_after, len(done.undone))
    assert () == verify(tmp_path / "copy").findings


def test_old_damage_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """The copy has what was wrong with the log before, and nothing else."""
    log = compacted(Conversation().user("one").assistant("yes").end())
    log.user("two").assistant("yes").end().spoil(0, lambda record: record.update(colour="blue"))
    path = log.write(tmp_path / "log")
    undo(path, tmp_path / "copy")
    codes = [[found.code for found in verify(one).findings] for one in (path, tmp_path / "copy")]
    assert [["record-unknown-key"]] * 2 == codes


def test_what_cannot_stand_without_it_is_not_written(tmp_path: Path) -> None:
    """An edit took the checkpoint's place: without the checkpoint there is nothing to edit."""
    log = Conversation().user("one").assistant("yes").end().compaction("Said.")
    log.replace("edited", over=(log.node_seqs[0], log.node_seqs[0]))
    path = log.write(tmp_path / "log")
    old = path.read_bytes()
    with pytest.raises(LogError, match="cannot stand without it"):
        undo(path, tmp_path / "copy")
    assert ([path], old) == ([*tmp_path.iterdir()], path.read_bytes())


@pytest.mark.parametrize(("generation", "exit_code"), [(None, 0), (0, 0), (1, 0), (2, 1), (9, 1)])
def test_a_generation_may_be_named(generation: int | None, exit_code: int, tmp_path: Path) -> None:
    """All that came after it is undone; where nothing did, that is a finding."""
    log = Conversation().user("one").assistant("yes").end().compaction("Said.").user("two")
    path = log.assistant("yes").compaction("More was said.").end().write(tmp_path / "log")
    words = [] if generation is None else ["--generation", str(generation)]
    ran = dshc("undo", path, "-o", tmp_path / "copy", *words)
    assert exit_code == ran.code
    assert (tmp_path / "copy").exists() == (exit_code == 0)
    if exit_code == 0:
        after = plain_reader.read((tmp_path / "copy").read_bytes())
        assert (1 if generation is None else generation) == after.generation


# Files --------------------------------------------------------------------------------------------


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A file of the copy's name is left as it is, the log itself above all."""
    path = compacted(Conversation().user("one").assistant("yes").end()).write(tmp_path / "log")
    other = tmp_path / "other"
    other.write_text("mine")
    for target in (other, path):
        old = target.read_bytes()
        ran = dshc("undo", path, "-o", target)
        assert (4, old) == (ran.code, target.read_bytes())
        assert "exists already" in ran.err


def test_a_copy_is_as_private_as_the_log(tmp_path: Path) -> None:
    """Nobody but its owner reads it."""
    path = compacted(Conversation().user("one").assistant("yes").end()).write(tmp_path / "log")
    undo(path, tmp_path / "copy")
    assert 0o600 == (tmp_path / "copy").stat().st_mode & 0o777


def test_standard_input_cannot_be_read_twice(tmp_path: Path) -> None:
    """That is wrong usage, said before anything is read."""
    with pytest.raises(UsageError, match="only once"):
        undo("-", tmp_path / "copy")


def test_a_torn_tail_is_not_copied(tmp_path: Path) -> None:
    """What was never wholly written is no part of the copy, and a notice says so."""
    path = compacted(Conversation().user("one").assistant("yes").end()).write(tmp_path / "log")
    with path.open("ab") as file:
        file.write(b'{"type":"user')
    done = undo(path, tmp_path / "copy")
    assert "torn" in done.notices[0]
    assert (tmp_path / "copy").read_bytes().endswith(b"}\n")


def test_a_log_in_use_may_be_copied(tmp_path: Path) -> None:
    """Undo only reads: the lock is not its business."""
    path = compacted(Conversation().user("one").assistant("yes").end()).write(tmp_path / "log")
    with open_session(path):
        assert 0 == dshc("undo", path, "-o", tmp_path / "copy").code


def test_a_huge_undo_is_a_table_of_what_is_back(tmp_path: Path) -> None:
    """The copy's name, the generations, and a row a compaction."""
    path = compacted(Conversation().user("one").assistant("yes").end()).write(tmp_path / "log")
    out = dshc("undo", path, "-o", tmp_path / "copy").out
    assert str(tmp_path / "copy") in out
    assert "generation 1 → 0" in out
    assert ["1", "summary"] == out.splitlines()[-1].split()[:2]


def test_our_own_brackets_name_their_spans_under_new_seqs(tmp_path: Path) -> None:
    """A failed attempt behind the compaction still tells what it was about."""
    log = Conversation().user("one " * 300).assistant("yes").end().compaction("Said.")
    log.user("two " * 300).assistant("yes").user("three " * 300).assistant("yes").end()
    path = log.write(tmp_path / "log")
    from dsh_compact.planning import Span
    from dsh_compact.policy import DEFAULT

    with open_session(path) as session:
        seqs = session.surface.seqs[1:3]
        bench = Workbench(session, policy=DEFAULT, retain_tokens=0, goal=None)
        with pytest.raises(ZeroDivisionError):
            bench.replace(Span(seqs=seqs, tokens=1), fails)
    undo(path, tmp_path / "copy")
    start = records(tmp_path / "copy")[-2]
    named = start["data"]["shadowedRange"]
    assert [seq - 4 for seq in seqs] == [named["start"], named["end"]]
    assert json.dumps(start).count("compaction/start") == 1


def fails() -> Summary:
    """Nobody can write this summary."""
    raise ZeroDivisionError
