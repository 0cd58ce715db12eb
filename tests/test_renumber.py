"""Other numbers for a record, and not another byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import json_values

from dsh_compact.codec import splice
from dsh_compact.codec.renumber import LOST, renumber

MAP = {seq: seq + 10 for seq in range(20)}


def moved(record: dict[str, object], seq: int = 99, version: int = 4) -> dict[str, object]:
    """The record under new numbers: ten more, and what is not known is gone."""
    line = json.dumps(record, separators=(",", ":")).encode()
    found: dict[str, object] = json.loads(renumber(line, version, seq, MAP.get))
    return found


def event(kind: str, data: dict[str, object], **envelope: object) -> dict[str, object]:
    """A record."""
    return {"type": kind, "seq": 19, "time": 1, "data": data, **envelope}


DELIVERED = "session-log-deepseek/delivery-accepted"
CITING = [
    (event("compaction/summary", {"shadowedRange": {"start": 3, "end": 5}, "shadowedSeqs": [3, 5]}),
     event("compaction/summary", {"shadowedRange": {"start": 13, "end": 15},
                                  "shadowedSeqs": [13, 15]})),
    (event("compaction/prune", {"shadowedRange": {"start": 3, "end": 3}, "shadowedSeqs": [3]}),
     event("compaction/prune", {"shadowedRange": {"start": 13, "end": 13}, "shadowedSeqs": [13]})),
    (event("session/title", {"messageSeqs": [1, 77, 2]}),
     event("session/title", {"messageSeqs": [11, 12]})),
    (event(DELIVERED, {"sessionFormatVersion": 4, "throughSeq": 8}),
     event(DELIVERED, {"sessionFormatVersion": 4, "throughSeq": 18})),
    (event(DELIVERED, {"sessionFormatVersion": 3, "throughSeq": 8}),
     event(DELIVERED, {"sessionFormatVersion": 3, "throughSeq": 8})),
    (event("command/done", {"commandId": "c", "sourceEventSeq": 4}),
     event("command/done", {"commandId": "c", "sourceEventSeq": 14})),
    (event("developer/message", {"headerSeq": 4}), event("developer/message", {"headerSeq": 14})),
    (event("image/offload", {"targets": [{"seq": 4, "imageIndexes": [0]}]}),
     event("image/offload", {"targets": [{"seq": 14, "imageIndexes": [0]}]})),
    (event("tool/result", {}, sourceEventSeqs=[4, 77, 5, 4]),
     event("tool/result", {}, sourceEventSeqs=[14, 15])),
    (event("tool/result", {}, sourceEventSeqs=[77]), event("tool/result", {})),
    (event("assistant/message", {}, sourceEventSeqs=[[2, 5], 7]),
     event("assistant/message", {}, sourceEventSeqs=[[12, 15], 17])),
    (event("user/message", {}, surfaceOp={"op": "replace", "startSeq": 3, "endSeq": 77}),
     event("user/message", {}, surfaceOp={"op": "replace", "startSeq": 13, "endSeq": LOST})),
    (event("user/message", {}, surfaceOp="append"), event("user/message", {}, surfaceOp="append")),
]  # fmt: skip


@pytest.mark.parametrize(("record", "expected"), CITING, ids=lambda x: str(x)[:60])
def test_every_reference_follows(record: dict[str, object], expected: dict[str, object]) -> None:
    """Wherever a type keeps seqs, they are renumbered; what is gone is left out where it may be."""
    assert {**expected, "seq": 99} == moved(record)


def test_format_0_names_the_ends_of_a_range_otherwise() -> None:
    """`start` and `end`, and packed rows count from `seq0`."""
    record = event("user/message", {}, surfaceOp={"op": "replace", "start": 3, "end": 4})
    assert {"op": "replace", "start": 13, "end": 14} == moved(record, version=0)["surfaceOp"]
    row = {"type": "text-chunks", "seq0": 5, "time0": 1, "data": {"dt": [], "texts": ["a"]}}
    assert {**row, "seq0": 99} == moved(row, version=0)


def test_turns_and_steps_are_moved() -> None:
    """Where a move is given, it says where each event of a turn belongs."""
    line = json.dumps(event("tool/call", {"turn": 2, "step": 1, "name": "x"})).encode()
    raw = renumber(line, 4, 19, MAP.get, lambda turn, step: (turn + 1, step and step + 2))
    assert {"turn": 3, "step": 3, "name": "x"} == json.loads(raw)["data"]


def test_where_nothing_changes_the_line_is_itself() -> None:
    """Not even its blanks."""
    line = b'{ "type" : "tests/x", "seq": 7, "time":1, "data": { "a": 1.50 } }'
    assert line is renumber(line, 4, 7, MAP.get)


@settings(max_examples=80)
@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4), st.booleans())
def test_what_is_not_renumbered_is_copied(data: dict[str, object], ascii_only: bool) -> None:
    """The bytes of the data stay as they were, lone surrogates and escapes included."""
    written = json.dumps(data, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        written.decode()
    except UnicodeDecodeError:
        written = json.dumps(data).encode()
    line = b'{"type":"tests/x","seq":7,"time":1,"data":' + written + b',"x":1.50}'
    expected = b'{"type":"tests/x","seq":99,"time":1,"data":' + written + b',"x":1.50}'
    assert expected == renumber(line, 4, 99, MAP.get)


def test_members_can_be_changed_added_and_taken_away() -> None:
    """At the first two levels, each in its place, new ones behind."""
    line = b'{"type":"user/message","seq":1,"data":{"a":1.50,"id":"x"},"odd":1}'
    assert b'{"type":"user/message","seq":1,"data":{"a":1.50,"id":"x"}}' == splice.without(
        line, ["odd"]
    )
    changed = splice.with_message(line, id="y", new=None)
    assert b'"data":{"a":1.50,"id":"y","new":null}' in changed
    assert b'"surfaceOp":"append"}' == splice.with_envelope(line, surfaceOp="append")[-21:]
    assert ["odd"] == splice.unknown_keys(line, ["type", "seq", "data"])
