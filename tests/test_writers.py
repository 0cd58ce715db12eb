"""Events are given to the process that wrote them, and their seqs mean what it meant."""

from __future__ import annotations

import json
from typing import Any

from builders import Conversation, call

from dsh_compact.codec.audit import Audited, audit
from dsh_compact.verify import writers as writing
from dsh_compact.verify.writers import Arrival, Arrived, Copies, Runs, Writers


def record(seq: int, kind: str = "tests/x", **data: Any) -> Audited:
    """An event that claims a seq."""
    event = {"type": kind, "seq": seq, "time": 1, "data": data, "ignorable": True}
    return audit(json.dumps(event).encode(), 4, seq + 2)


def arrivals(writers: Writers, *seqs: int) -> list[Arrived | None]:
    """What becomes of events that claim these seqs, in this order."""
    return [writers.arrive(record(seq)) for seq in seqs]


def kinds(found: list[Arrived | None]) -> list[Arrival | None]:
    """How they arrived."""
    return [None if one is None else one.kind for one in found]


def chains(found: list[Arrived | None]) -> list[int | None]:
    """Whose they are."""
    return [None if one is None else one.chain for one in found]


def test_a_whole_log_keeps_its_numbers() -> None:
    """One process, each event's new number its old one."""
    writers = Writers()
    found = arrivals(writers, 0, 1, 2, 3)
    assert [Arrival.NEXT] * 4 == kinds(found)
    assert writers.is_identity
    assert [0, 1, 2, 3, None] == [writers.resolve(seq) for seq in range(5)]


def test_a_gap_is_closed() -> None:
    """What follows a gap moves up, and what was lost means nothing."""
    writers = Writers()
    found = arrivals(writers, 0, 1, 5, 6)
    assert [Arrival.NEXT, Arrival.NEXT, Arrival.GAP, Arrival.NEXT] == kinds(found)
    assert [0, 1, None, None, None, 2, 3] == [writers.resolve(seq) for seq in range(7)]
    assert not writers.is_identity


def test_a_fork_is_another_process() -> None:
    """580, 580, 581: the second process's events come behind, and mean their own."""
    writers = Writers()
    found = arrivals(writers, 0, 1, 2, 2, 3)
    assert [0, 0, 0, 1, 1] == chains(found)
    assert [0, 1, 3, 4] == [writers.resolve(seq) for seq in range(4)]
    assert [2, 3] == writers.all_of(2)


def test_a_process_that_goes_on_is_known_again() -> None:
    """The first process's next event is its own, though another wrote in between."""
    writers = Writers()
    found = arrivals(writers, 0, 1, 2, 3, 2, 4, 3)
    assert [0, 0, 0, 0, 1, 0, 1] == chains(found)
    assert 6 == writers.resolve(3)


def test_calls_tell_whose_event_it_is() -> None:
    """Two are due at one seq: the result goes to the process whose call waits for it."""
    writers = Writers()
    log = Conversation().user("go").assistant(calls=[call("mine")]).call("mine")
    events = [audit(raw[:-1], 4, number) for number, raw in enumerate(log.lines()[1:], 2)]
    for event in events:
        writers.arrive(event)
    asked = events[-2].seq
    assert asked is not None
    message = {
        "id": "a", "role": "assistant", "content": [call("theirs")],
        "source": {"kind": "model", "provider": "p", "model": "m"},
    }  # fmt: skip
    theirs = record(asked, "assistant/message", turn=1, step=1, message=message, stream=[])
    other = record(asked + 1, "tests/x")
    assert [1, 1] == chains([writers.arrive(theirs), writers.arrive(other)])
    mine = {"id": "r", "role": "tool", "toolCallId": "mine", "content": []}
    result = record(asked + 2, "tool/result", turn=1, step=1, message=mine)
    assert [0] == chains([writers.arrive(result)])


def test_packed_rows_stand_for_many() -> None:
    """A row of three events takes three numbers."""
    writers = Writers()
    row = b'{"type":"text-chunks","seq0":0,"time0":1,"data":{"dt":[0,0],"texts":["a","b","c"]}}'
    writers.arrive(audit(row, 0, 2))
    assert 3 == writers.next_seq
    assert [0, 1, 2, None] == [writers.resolve(seq) for seq in range(4)]


def test_forks_beyond_the_limit_are_given_up(monkeypatch: Any) -> None:
    """Noise is not sorted out for ever."""
    monkeypatch.setattr(writing, "MAX_CHAINS", 3)
    writers = Writers()
    found = arrivals(writers, 0, 1, 1, 1, 1)
    assert [Arrival.NEXT, Arrival.NEXT, Arrival.FORK, Arrival.FORK, None] == kinds(found)


def test_copies_are_known_by_their_bytes() -> None:
    """The same bytes under the same seq, wherever they stood before."""
    writers, copies = Writers(), Copies()
    for seq in range(4):
        writers.arrive(record(seq))
        copies.add(record(seq), b"line %d" % seq)
    assert copies.has(record(2), b"line 2", writers)
    assert not copies.has(record(2), b"another", writers)
    assert not copies.has(record(4), b"line 2", writers)


def test_runs_can_be_told_anew() -> None:
    """What was said of the newest events can be taken back."""
    runs = Runs()
    runs.add(5, 0, 3)
    runs.add(8, 3, 2)
    runs.add(9, -1, 1)
    assert [None, 0, 3, -1, None] == [runs.look_up(seq) for seq in (4, 5, 8, 9, 10)]
