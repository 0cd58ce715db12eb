"""Records of others are judged before they are written: the log would still be opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import Conversation, line
from footprints import footprints

from dsh_compact.errors import NotAdmitted
from dsh_compact.verify.admission import inspect_addition, inspect_new

HEADER = line(Conversation().records[0]).rstrip(b"\n")


def split(log: Conversation, count: int) -> tuple[bytes, list[bytes]]:
    """The log without its last records, and these."""
    lines = log.lines()
    return b"".join(lines[:-count]), [raw.rstrip(b"\n") for raw in lines[-count:]]


@pytest.mark.parametrize("framed", [False, True])
def test_what_a_right_log_goes_on_with_is_admitted(framed: bool, tmp_path: Path) -> None:
    """A whole turn, a prune of a result that is there, and one of a result among them."""
    log = Conversation().system("p").user("a").assistant("b").end()
    path = log.write(tmp_path / "log", framed=framed)
    old = len(log.records)
    log.user("c").assistant(calls=[{"type": "tool-call", "id": "c", "name": "x", "arguments": ""}])
    log.result("c", "x" * 99).prune("c", "x").assistant("d").end()
    before = footprints(tmp_path)
    inspect_addition(str(path), [line(record).rstrip(b"\n") for record in log.records[old:]])
    assert before == footprints(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"type": "turn/start", "data": {"turn": 7}}, "turn 7"),
        ({"type": "turn/end", "data": {"turn": 1, "reason": {"kind": "completed"}}}, "turn"),
        ({"type": "compaction/start", "data": {"compactionId": "x", "turn": 3}}, "turn"),
    ],
)
def test_what_keeps_a_harness_from_opening_is_not(
    wrong: dict[str, object], word: str, tmp_path: Path
) -> None:
    """The error says which of the new records it is."""
    log = Conversation().system("p").user("a").end()
    path = log.write(tmp_path / "log")
    right = {"type": "turn/start", "seq": log.next_seq, "time": 1, "data": {"turn": 2}}
    ended = {
        "type": "turn/end",
        "seq": log.next_seq + 1,
        "time": 1,
        "data": {"turn": 2, "reason": {"kind": "completed"}},
    }
    last = {"type": wrong["type"], "seq": log.next_seq + 2, "time": 1, "data": wrong["data"]}
    lines = [line(record).rstrip(b"\n") for record in (right, ended, last)]
    inspect_addition(str(path), lines[:2])
    with pytest.raises(NotAdmitted, match=word) as raised:
        inspect_addition(str(path), lines)
    assert "record 3" in str(raised.value)


def test_old_damage_is_not_the_new_records_fault(tmp_path: Path) -> None:
    """Only what is added is judged."""
    log = Conversation().system("p").user("a").end().user("b").end()
    log.spoil(
        next(r["seq"] for r in log.records if r["type"] == "turn/end"),
        lambda r: r["data"].update(turn=9),
    )
    path = log.write(tmp_path / "log")
    inspect_addition(str(path), [line(log.note("c").records[-1]).rstrip(b"\n")])


def test_a_new_log_is_judged_whole(tmp_path: Path) -> None:
    """From its first record on."""
    log = Conversation().system("p").user("a").assistant("b").end()
    lines = [raw.rstrip(b"\n") for raw in log.lines()]
    inspect_new("log", lines[0], lines[1:])
    with pytest.raises(NotAdmitted, match="record 1"):
        inspect_new("log", lines[0], lines[2:3])
    assert [] == [*tmp_path.iterdir()]
