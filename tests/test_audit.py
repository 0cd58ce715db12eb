"""An audit reads every byte of one record, and misses nothing that decoding refuses."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from builders import line
from damaged import compacted, pruned, talk
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import conversations, json_values

from dsh_compact.codec import decode, decode_surface_event
from dsh_compact.codec.audit import audit, audit_header
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import SurfaceChange

LOGS = {0: talk(0), 3: talk(3), 4: talk()}


def codes(raw: bytes, version: int = 4) -> list[Damage]:
    """What is wrong with a line."""
    return [damage for damage, _ in audit(raw, version, 2).faults]


def event(kind: str, data: Any, **envelope: Any) -> bytes:
    """A line of format 4."""
    return json.dumps({"type": kind, "seq": 7, "time": 1, "data": data, **envelope}).encode()


@settings(max_examples=60)
@given(conversations())
def test_right_records_audit_clean(log: Any) -> None:
    """What a harness would write has no fault, and the event that decoding gives."""
    for number, raw in enumerate(log.lines()[1:], 2):
        record = audit(raw[:-1], log.format, number)
        assert () == record.faults, raw
        assert decode(raw[:-1], log.format) == record.event
        if isinstance(record.event, SurfaceChange):
            assert decode_surface_event(raw[:-1], log.format) == record.message


@settings(max_examples=150)
@given(st.binary(max_size=60))
def test_any_bytes_are_audited(raw: bytes) -> None:
    """Whatever stands in a line, the audit tells and never raises."""
    record = audit(raw, 4, 2)
    assert record.faults


@settings(max_examples=200)
@given(st.integers(0, 2**32), json_values)
def test_what_decoding_refuses_is_among_the_faults(seed: int, value: Any) -> None:
    """One field of one record changed to anything: an audit without faults decodes."""
    chance = random.Random(seed)
    log = chance.choice([LOGS[0], LOGS[3], compacted(), pruned()])
    record = json.loads(line(chance.choice(log.records[1:])))
    holder: Any = record
    while True:
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        inner = holder[key]
        if not inner or not isinstance(inner, dict | list) or chance.random() < 0.3:
            holder[key] = value
            break
        holder = inner
    raw = line(record)[:-1]
    audited = audit(raw, log.format, 2)
    try:
        found = decode(raw, log.format)
        if isinstance(found, SurfaceChange):
            decode_surface_event(raw, log.format)
    except RuleBroken:
        assert audited.faults, raw


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", Damage.NOT_JSON),
        (b"{", Damage.NOT_JSON),
        (b'{"a":NaN}', Damage.NOT_JSON),
        (b'{"a":"\xff"}', Damage.NOT_UTF8),
        (b"[" * 100_000 + b"]" * 100_000, Damage.TOO_DEEP),
        (b"[]", Damage.RECORD_WRONG),
        (b"{}", Damage.RECORD_WRONG),
        (b'{"type":"a"}', Damage.RECORD_WRONG),
        (b'{"type":"a","seq":-1}', Damage.RECORD_WRONG),
        (b'{"type":"a","seq":true}', Damage.RECORD_WRONG),
        (b'{"type":"a","seq":9007199254740993}', Damage.RECORD_WRONG),
        (event("turn/start", []), Damage.DATA_WRONG),
        (event("turn/start", {"turn": "1"}), Damage.DATA_WRONG),
        (event("turn/start", {"turn": 1}, sourceEventSeqs=[1]), Damage.SURFACE_OP_FORBIDDEN),
        (event("compaction/start", {"compactionId": "", "turn": 1}), Damage.DATA_WRONG),
        (event("llm/retry", {"retryId": "r"}), Damage.PAIR_BROKEN),
        (event("session/title", {"messageSeqs": 3, "source": {}}), Damage.TITLE_WRONG),
        (event("agent/inbox/spliced", {"target": "x", "start": 0, "inserted": []}),
         Damage.INBOX_WRONG),
        (event("agent/inbox/spliced", {"target": "next-turn", "start": -1, "inserted": []}),
         Damage.INBOX_WRONG),
        (event("tests/x", {}, ignorable=1), Damage.RECORD_WRONG),
        (event("tests/x", {}), Damage.UNKNOWN_EVENT),
    ],
    ids=str,
)  # fmt: skip
def test_a_fault_has_its_code(raw: bytes, code: Damage) -> None:
    """Each kind of wrong record is told by its own code, and by that alone."""
    found = codes(raw)
    assert code in found
    assert Damage.DATA_WRONG not in found or code is Damage.DATA_WRONG


def test_a_message_says_all_that_is_wrong_with_it() -> None:
    """The audit goes on behind the first fault."""
    data = {"role": "assistant", "content": [{"type": "text"}], "source": {}}
    found = codes(event("user/message", data, surfaceOp="append", sourceEventSeqs=[9, 9], odd=1))
    assert {
        Damage.RECORD_UNKNOWN_KEY,
        Damage.MESSAGE_WITHOUT_ID,
        Damage.MESSAGE_WRONG,
        Damage.SOURCES_LATER,
    } == set(found)


def test_calls_are_told_even_where_the_message_cannot_be_read() -> None:
    """What is broken in a message does not hide what it asks for, or answers."""
    message = talk().records[9]["data"]["message"]
    message = {**message, "content": [{"type": 3}, *message["content"]]}
    raw = event("assistant/message", {"turn": 1, "step": 1, "message": message, "stream": []})
    assert ["c1"] == [call.id for call in audit(raw, 4, 2).calls]
    result = {"toolCallId": "c1", "content": 7}
    assert "c1" == audit(event("tool/result", {"message": result}), 4, 2).answered


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({}, []),
        ({"createdAt": None}, [Damage.HEADER_WRONG]),
        ({"delegationDepth": -1}, [Damage.HEADER_WRONG]),
        ({"cwd": "relative"}, [Damage.HEADER_WRONG]),
        ({"origin": "elsewhere"}, [Damage.HEADER_WRONG]),
        ({"seedLength": 3}, [Damage.HEADER_UNKNOWN_KEY]),
        ({"version": 3}, [Damage.UNSUPPORTED_FORMAT][:0]),
        ({"version": 2}, [Damage.UNSUPPORTED_FORMAT]),
        ({"type": "event"}, [Damage.HEADER_MISSING]),
    ],
    ids=str,
)
def test_a_header_is_judged_by_its_format(header: dict[str, Any], expected: list[Damage]) -> None:
    """Format 4 demands its keys and allows no other; the formats before are not held to that."""
    raw = line({**talk().records[0], **header})[:-1]
    assert expected == [damage for damage, _ in audit_header(raw)[2]]
