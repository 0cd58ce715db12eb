"""Two processes' lines are put one behind the other, what happened before what was supposed."""

from __future__ import annotations

import json
from typing import Any

from dsh_compact.codec.audit import audit
from dsh_compact.events import Place
from dsh_compact.repair.unweave import NOBODY, Item, Survey


def surveyed(*events: tuple[int, str, dict[str, Any]]) -> list[Item]:
    """The lines in the order in which they are to be mended."""
    survey = Survey()
    for number, (seq, kind, data) in enumerate(events, 2):
        record = {"type": kind, "seq": seq, "time": 1, "data": data, "ignorable": True}
        place = Place(-1, number * 100, 50)
        survey.note(audit(json.dumps(record).encode(), 4, number, place), is_copy=False)
    return list(survey.items())


def plain(*seqs: int) -> list[tuple[int, str, dict[str, Any]]]:
    """Events that tell nothing."""
    return [(seq, "tests/x", {}) for seq in seqs]


def numbers(items: list[Item]) -> list[int]:
    """The lines' numbers, the first event's being 0."""
    return [item.number - 2 for item in items]


def test_one_process_s_lines_stay_in_order() -> None:
    """Nothing is moved where nobody interfered."""
    items = surveyed(*plain(0, 1, 2))
    assert [0, 1, 2] == numbers(items)
    assert [(0, 0), (1, 0), (2, 0)] == [(item.seq, item.chain) for item in items]
    assert Place(-1, 300, 50) == items[1].place


def test_a_resume_that_counts_wrong_keeps_its_place() -> None:
    """580, 580, 581: the order of writing is the order of mending."""
    assert [0, 1, 2, 3, 4] == numbers(surveyed(*plain(0, 1, 2, 2, 3)))


def test_interleaved_lines_are_taken_apart() -> None:
    """All of the first process, then all of the second."""
    items = surveyed(*plain(0, 1, 2, 3, 2, 4, 3, 5))
    assert [0, 1, 2, 3, 5, 7, 4, 6] == numbers(items)
    assert [0] * 6 + [1] * 2 == [item.chain for item in items]


def test_what_only_closes_a_turn_comes_second() -> None:
    """One process ends the turn as interrupted, the other goes on in it."""
    turn: dict[str, Any] = {"turn": 1}
    step: dict[str, Any] = {"turn": 1, "step": 1}
    interrupted = {**turn, "reason": {"kind": "interrupted"}}
    begun = [(0, "turn/start", turn), (1, "step/start", step)]
    closing = [(2, "step/end", step), (3, "turn/end", interrupted)]
    work = [(2, "tests/work", step), (3, "step/end", step), (4, "turn/end", turn)]
    assert [0, 1, 4, 5, 6, 2, 3] == numbers(surveyed(*begun, *closing, *work))
    assert [0, 1, 2, 3, 4, 5, 6] == numbers(surveyed(*begun, *work, *closing))


def test_a_stray_line_stays_behind_the_line_before_it() -> None:
    """A line that is no record belongs to nobody, and its place is kept."""
    survey = Survey()
    for number, raw in enumerate([b'{"type":"a","seq":0}', b"{", b'{"type":"a","seq":1}'], 2):
        survey.note(audit(raw, 4, number), is_copy=False)
    assert [0, NOBODY, 0] == [item.chain for item in survey.items()]


def test_the_start_of_a_compaction_that_died_is_known() -> None:
    """An end-seed before its end makes it stale."""
    start = ("compaction/start", {"compactionId": "c", "turn": None})
    end = ("compaction/end", {"compactionId": "c", "turn": None})
    seed: tuple[str, dict[str, Any]] = ("session/end-seed", {})
    events = [(seq, *what) for seq, what in enumerate([start, end, start, seed, start])]
    assert [False, False, True, False, False] == [item.is_orphan for item in surveyed(*events)]


def test_chains_may_hang_on_each_other_by_the_hundred() -> None:
    """Every resume counted wrong, five hundred times: the order is found all the same."""
    seqs = [0]
    for _ in range(500):
        seqs += range(seqs[-1], seqs[-1] + 5)
    assert list(range(len(seqs))) == numbers(surveyed(*plain(*seqs)))
