"""Ways to break one rule of the format in a log that breaks none.

The rule of this file: a spoiler edits a right log's records in place so that exactly one rule is
broken, the one whose name it stands under in `SPOILERS`, and returns the place of the record that
breaks it (an index into the records, the header's being 0). Records behind that place may be gone
or mean nothing. Where a log has no place for a spoiler, the draw is given up (`assume`).
"""

# ruff: noqa: D103 - a spoiler promises what the rule under which it stands in the table forbids

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from plain_reader import Record, node_tokens

Draw = st.DrawFn
Spoiler = Callable[[Draw, list[Record]], int]


def version(records: list[Record]) -> int:
    """The log's format."""
    found: int = records[0]["version"]
    return found


def pick(draw: Draw, records: list[Record], *kinds: str, appended: bool | None = None) -> int:
    """The place of any record of these types, appended or replacing as is wanted."""
    places = [
        place
        for place, record in enumerate(records)
        if record["type"] in kinds and appended in (None, record.get("surfaceOp") == "append")
    ]
    assume(places)
    return draw(st.sampled_from(places))


def pick_op(draw: Draw, records: list[Record]) -> tuple[int, Record, str, str]:
    """Any replacing record: its index, its operation, and the names of the operation's ends."""
    places = [i for i, record in enumerate(records) if isinstance(record.get("surfaceOp"), dict)]
    assume(places)
    place = draw(st.sampled_from(places))
    names = ("start", "end") if version(records) == 0 else ("startSeq", "endSeq")
    return place, records[place]["surfaceOp"], *names


def cut(records: list[Record], place: int, *added: Record) -> int:
    """End the log before a place and add events there; returns the last one's place."""
    seq = next_seq(records[:place])
    del records[place:]
    for number, record in enumerate(added):
        head = {"type": record.pop("type"), "seq": seq + number, "time": 1}
        records.append({**head, "data": record.pop("data"), **record})
    return len(records) - 1


def next_seq(records: list[Record]) -> int:
    """The seq that is due after these records."""
    if len(records) == 1:
        return 0
    last = records[-1]
    due: int = last["seq0"] + len(last["data"]["dt"]) + 1 if "seq0" in last else last["seq"] + 1
    return due


def silence(records: list[Record], place: int) -> None:
    """Put an event that nobody needs to know in a record's place."""
    record = records[place]
    head = {"type": "tests/marker", "seq": record["seq"], "time": record["time"]}
    records[place] = {**head, "data": {}, "ignorable": True}


def put(records: list[Record], place: int, *path: str | int, value: Any) -> int:
    """Set what stands at a path inside a record; returns the place."""
    holder: Any = records[place]
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return place


def message_path(record: Record) -> tuple[str, ...]:
    """Where a surface event keeps its message."""
    return ("data",) if record["type"] == "user/message" else ("data", "message")


def event_place(draw: Draw, records: list[Record]) -> int:
    """Any record but the header."""
    return draw(st.integers(1, len(records) - 1))


def surface_place(draw: Draw, records: list[Record]) -> int:
    """Any surface event."""
    return draw(st.sampled_from([i for i, record in enumerate(records) if "surfaceOp" in record]))


def spoil_shape(draw: Draw, records: list[Record]) -> int:
    place = event_place(draw, records)
    packed = "seq0" in records[place]
    keys = ["type", "data", "seq0" if packed else "seq", "time0" if packed else "time"]
    key = draw(st.sampled_from(keys))
    wrong: Any = draw(st.sampled_from([None, True, -1, 1.5, "0", []]))
    assume((key, wrong) != ("type", "0") and not (key[:4] == "time" and wrong in (-1, 1.5)))
    return put(records, place, key, value=wrong)


def spoil_header(draw: Draw, records: list[Record]) -> int:
    if draw(st.booleans()):
        del records[0]
        return 0
    return put(records, 0, "type", value=draw(st.sampled_from(["sessions", None, 4, ""])))


def spoil_format(draw: Draw, records: list[Record]) -> int:
    return put(records, 0, "version", value=draw(st.sampled_from([1, 2, 5, -1, "4", None, True])))


def spoil_packed_row(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "text-chunks", "tool-call-chunks")
    waits = records[place]["data"]["dt"]
    return put(records, place, "data", "dt", value=draw(st.sampled_from([[*waits, 0], None, 3])))


def spoil_seq_up(draw: Draw, records: list[Record]) -> int:
    place = event_place(draw, records)
    if draw(st.booleans()) and place + 1 < len(records):
        del records[place]
        return place
    key = "seq0" if "seq0" in records[place] else "seq"
    return put(records, place, key, value=records[place][key] + draw(st.integers(1, 2**60)))


def spoil_seq_down(draw: Draw, records: list[Record]) -> int:
    place = event_place(draw, records)
    if draw(st.booleans()):
        records.insert(place, deepcopy(records[place]))
        return place + 1
    key = "seq0" if "seq0" in records[place] else "seq"
    assume(records[place][key] > 0)
    return put(records, place, key, value=draw(st.integers(0, records[place][key] - 1)))


def spoil_op_missing(draw: Draw, records: list[Record]) -> int:
    place = surface_place(draw, records)
    if draw(st.booleans()):
        del records[place]["surfaceOp"]
        return place
    return put(records, place, "surfaceOp", value=None)


def spoil_op_forbidden(draw: Draw, records: list[Record]) -> int:
    place = event_place(draw, records)
    assume("surfaceOp" not in records[place])
    return put(records, place, "surfaceOp", value=draw(st.sampled_from(["append", None, {}])))


def spoil_op_shape(draw: Draw, records: list[Record]) -> int:
    place = surface_place(draw, records)
    other = ("startSeq", "endSeq") if version(records) == 0 else ("start", "end")
    seq = records[place]["seq"] - 1
    wrong: list[Any] = [
        "Append",
        "prepend",
        7,
        [],
        {},
        {"op": "replace"},
        {"op": "delete", "start": seq, "end": seq, "startSeq": seq, "endSeq": seq},
        {"op": "replace", other[0]: seq, other[1]: seq},
        {"op": "replace", "start": "0", "end": "0", "startSeq": "0", "endSeq": "0"},
        {"op": "replace", "start": -1, "end": -1, "startSeq": -1, "endSeq": -1},
    ]
    return put(records, place, "surfaceOp", value=draw(st.sampled_from(wrong)))


def spoil_message(draw: Draw, records: list[Record]) -> int:
    place = surface_place(draw, records)
    path = message_path(records[place])
    wrong_content: list[Any] = [
        None,
        "text",
        {},
        [None],
        ["text"],
        [{}],
        [{"type": 3}],
        [{"type": "text"}],
    ]
    wrong_content += [[{"type": "tool-call", "name": "x"}], [{"type": "reasoning", "text": 3}]]
    wrong_content += [[{"type": "tool-result"}]]
    return put(records, place, *path, "content", value=draw(st.sampled_from(wrong_content)))


def spoil_range(draw: Draw, records: list[Record]) -> int:
    place, operation, start, end = pick_op(draw, records)
    name = draw(st.sampled_from([start, end]))
    gone = [*records[place]["sourceEventSeqs"][:-1], 10**9, records[place]["seq"]]
    on_surface = surface_before(records, place)
    operation[name] = draw(st.sampled_from([seq for seq in gone if seq not in on_surface]))
    return place


def surface_before(records: list[Record], place: int) -> list[int]:
    """The seqs on the surface before a record."""
    start, end = ("start", "end") if version(records) == 0 else ("startSeq", "endSeq")
    seqs: list[int] = []
    for record in records[1:place]:
        operation = record.get("surfaceOp")
        if operation == "append":
            seqs.append(record["seq"])
        elif operation is not None:
            ends = seqs.index(operation[start]), seqs.index(operation[end]) + 1
            seqs[slice(*ends)] = [record["seq"]]
    return seqs


def spoil_range_order(draw: Draw, records: list[Record]) -> int:
    place, operation, start, end = pick_op(draw, records)
    seqs = surface_before(records, place)
    assume(len(seqs) > 1)
    first = draw(st.integers(0, len(seqs) - 2))
    operation[start] = seqs[draw(st.integers(first + 1, len(seqs) - 1))]
    operation[end] = seqs[first]
    return place


def spoil_sources_shape(draw: Draw, records: list[Record]) -> int:
    place, *_ = pick_op(draw, records)
    wrong: list[Any] = [
        3,
        {},
        "0",
        [-1],
        ["0"],
        [None],
        [1.5],
        [[0]],
        [[1, 0]],
        [[0, 1, 2]],
        [[0, "1"]],
    ]
    if version(records) != 0:
        wrong.append([[0, 0]])
    return put(records, place, "sourceEventSeqs", value=draw(st.sampled_from(wrong)))


def spoil_sources_twice(draw: Draw, records: list[Record]) -> int:
    place, *_ = pick_op(draw, records)
    assume(records[place]["seq"] > 0)
    seq = draw(st.integers(0, records[place]["seq"] - 1))
    named = records[place].get("sourceEventSeqs", [])
    return put(records, place, "sourceEventSeqs", value=[seq, seq, *named])


def spoil_sources_later(draw: Draw, records: list[Record]) -> int:
    place, *_ = pick_op(draw, records)
    later = records[place]["seq"] + draw(st.integers(0, 9))
    return put(records, place, "sourceEventSeqs", value=[later])


def spoil_sources_short(draw: Draw, records: list[Record]) -> int:
    place, *_ = pick_op(draw, records)
    named = records[place]["sourceEventSeqs"]
    if draw(st.booleans()):
        del records[place]["sourceEventSeqs"]
        return place
    return put(records, place, "sourceEventSeqs", value=named[:-1])


def spoil_result_over_other(draw: Draw, records: list[Record]) -> int:
    place, operation, start, end = pick_op(draw, records)
    assume(records[place]["type"] == "tool/result")
    others = [
        record["seq"]
        for record in records[1:place]
        if record["type"] not in ("tool/result", "system/message")
        and record.get("seq") in surface_before(records, place)
    ]
    assume(others)
    seq = draw(st.sampled_from(others))
    operation[start] = operation[end] = seq
    return put(records, place, "sourceEventSeqs", value=[seq])


def spoil_result_beyond_content(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "tool/result", appended=False)
    data = records[place]["data"]
    holder = draw(st.sampled_from([data, data["message"], data["message"]["source"]]))
    holder[draw(st.sampled_from(["turn", "id", "callId", "new"]))] = -7
    return place


def spoil_prompt(draw: Draw, records: list[Record]) -> int:
    place, operation, start, _ = pick_op(draw, records)
    seqs = surface_before(records, place)
    assume(seqs and records[place]["type"] == "user/message" and version(records) != 0)
    assume(any(r.get("seq") == seqs[0] and r["type"] == "system/message" for r in records))
    operation[start] = seqs[0]
    return put(records, place, "sourceEventSeqs", value=list(range(records[place]["seq"])))


def spoil_header_key(draw: Draw, records: list[Record]) -> int:
    return put(records, 0, draw(st.sampled_from(["extra", "Version", "isseeded"])), value=1)


def spoil_unknown_event(draw: Draw, records: list[Record]) -> int:
    event: Record = {"type": "tests/unknown", "data": {}}
    event.update(draw(st.sampled_from([{}, {"ignorable": False}, {"ignorable": "true"}])))
    return cut(records, draw(st.integers(1, len(records))), event)


def spoil_turn_start(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "turn/start")
    turn = records[place]["data"]["turn"]
    wrong = draw(st.sampled_from([turn + 1, turn - 1, 0, -1, True, None]))
    return put(records, place, "data", "turn", value=wrong if wrong != 1 else turn + 2)


def spoil_turn_end(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "turn/end")
    if draw(st.booleans()):
        turn = records[place]["data"]["turn"]
        return cut(records, place + 1, {"type": "turn/end", "data": {"turn": turn, "reason": {}}})
    return put(records, place, "data", "turn", value=draw(st.sampled_from([0, 99, None])))


def spoil_step_start(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "step/start")
    data = deepcopy(records[place]["data"])
    if draw(st.booleans()):
        return cut(records, place + 1, {"type": "step/start", "data": data})
    key = draw(st.sampled_from(["turn", "step"]))
    return put(records, place, "data", key, value=draw(st.sampled_from([0, 99, None])))


def spoil_step_end(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "step/end")
    data = deepcopy(records[place]["data"])
    if draw(st.booleans()):
        return cut(records, place + 1, {"type": "step/end", "data": data})
    key = draw(st.sampled_from(["turn", "step"]))
    return put(records, place, "data", key, value=draw(st.sampled_from([0, 99, None])))


def spoil_open_step(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "step/end")
    end = {"turn": records[place]["data"]["turn"], "reason": {"kind": "completed"}}
    return cut(records, place, {"type": "turn/end", "data": end})


def spoil_unanswered(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "tool/result", appended=True)
    data = records[place]["data"]
    kind = draw(st.sampled_from(["step/end", "turn/end"]))
    facts = {"turn": data["turn"], **({"step": data["step"]} if kind == "step/end" else {})}
    return cut(records, place, {"type": kind, "data": facts})


def spoil_place_in_step(draw: Draw, records: list[Record]) -> int:
    said = ["assistant/message", "tool/result", "system/message"]
    silent = ["assistant/attempt", "tool/call"]
    kinds = draw(st.sampled_from([said, silent[version(records) == 0 :]]))
    place = pick(draw, records, *kinds, appended=kinds == said)
    if draw(st.booleans()):
        event = records[place]
        kept: Record = {key: event[key] for key in ("type", "data", "surfaceOp") if key in event}
        return cut(records, pick(draw, records, "turn/end") + 1, kept)
    key = draw(st.sampled_from(["turn", "step"]))
    return put(records, place, "data", key, value=draw(st.sampled_from([0, 99, None])))


def spoil_place_in_turn(draw: Draw, records: list[Record]) -> int:
    event = records[pick(draw, records, "request/header", "request/context")]
    kept = {"type": event["type"], "data": deepcopy(event["data"])}
    return cut(records, pick(draw, records, "session", "turn/end") + 1, kept)


def spoil_call(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "tool/call")
    key = draw(st.sampled_from(["callId", "name", "arguments"]))
    return put(records, place, "data", key, value=draw(st.sampled_from(["nobody's", 3, None])))


def spoil_call_twice(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "tool/call")
    data = deepcopy(records[place]["data"])
    return cut(records, place + 1, {"type": "tool/call", "data": data})


def spoil_result_call(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "tool/result", appended=True)
    if draw(st.booleans()):
        data = deepcopy(records[place]["data"])
        event = {"type": "tool/result", "data": data, "surfaceOp": "append"}
        return cut(records, place + 1, event)
    message = records[place]["data"]["message"]
    holder = message if version(records) == 4 else message["content"][0]
    message["source"]["callId"] = holder["toolCallId"] = "nobody's"
    return place


def spoil_message_id(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "user/message", "assistant/message")
    message: Any = records[place]
    for key in message_path(records[place]):
        message = message[key]
    del message["id"]
    return place


def spoil_bracket_turn(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/start")
    turn = records[place]["data"]["turn"]
    wrong = draw(st.sampled_from([0, 99, None if turn is not None else 1]))
    return put(records, place, "data", "turn", value=wrong)


def spoil_bracket_nested(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/start")
    data = {"compactionId": "another", "turn": records[place]["data"]["turn"]}
    return cut(records, place + 1, {"type": "compaction/start", "data": data})


def spoil_turn_in_bracket(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/start")
    kind = draw(st.sampled_from(["turn/start", "turn/end"]))
    return cut(records, place + 1, {"type": kind, "data": {"turn": 1, "reason": {}}})


def spoil_bracket_id(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/summary", "compaction/end")
    return put(records, place, "data", "compactionId", value="another")


def spoil_second_summary(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/summary") + 1
    data = deepcopy(records[place - 1]["data"])
    seq = records[place]["seq"]
    data |= {"shadowedSeqs": [seq], "shadowedRange": {"start": seq, "end": seq}}
    return cut(records, place + 1, {"type": "compaction/summary", "data": data})


def spoil_summary_alone(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/summary") + 1
    if draw(st.booleans()):
        silence(records, place - 1)
        return place
    marker = {"type": "tests/marker", "data": {}, "ignorable": True}
    return cut(records, place, marker)


def spoil_empty_bracket(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/start")
    data = deepcopy(records[place]["data"])
    return cut(records, place + 1, {"type": "compaction/end", "data": data})


def spoil_shadow(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/summary", "compaction/prune")
    data = records[place]["data"]
    seqs = data["shadowedSeqs"]
    wrong = draw(st.sampled_from([[], seqs[:-1], [*seqs, 10**9], [*seqs, seqs[0]], None, {}]))
    if draw(st.booleans()):
        end = draw(st.sampled_from(["start", "end"]))
        return put(records, place, "data", "shadowedRange", end, value=10**9)
    return put(records, place, "data", "shadowedSeqs", value=wrong)


def spoil_price(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/summary", "compaction/prune")
    price = records[place]["data"]["shadowedTokenCount"]
    wrong = draw(st.sampled_from([price + 1, price - 1, -1, None, str(price)]))
    return put(records, place, "data", "shadowedTokenCount", value=wrong)


def spoil_prune_alone(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/prune")
    if draw(st.booleans()):
        silence(records, place)
        return place + 1
    marker = {"type": "tests/marker", "data": {}, "ignorable": True}
    return cut(records, place + 1, marker)


def spoil_prune_place(draw: Draw, records: list[Record]) -> int:
    end = pick(draw, records, "turn/end")
    on_surface = surface_before(records, end)
    results = [r for r in records if r["type"] == "tool/result" and r["seq"] in on_surface]
    assume(results)
    old = draw(st.sampled_from(results))
    seq = old["seq"]
    shadow = {"shadowedRange": {"start": seq, "end": seq}, "shadowedSeqs": [seq]}
    names = ("start", "end") if version(records) == 0 else ("startSeq", "endSeq")
    pruned = {
        "type": "tool/result",
        "data": deepcopy(old["data"]),
        "sourceEventSeqs": [seq],
        "surfaceOp": {"op": "replace", names[0]: seq, names[1]: seq},
    }
    prune = {**shadow, "shadowedTokenCount": node_tokens(old)}
    return cut(records, end + 1, {"type": "compaction/prune", "data": prune}, pruned)


def spoil_checkpoint_kind(draw: Draw, records: list[Record]) -> int:
    place = pick(draw, records, "compaction/summary") + 1
    source = records[place]["data"]["source"]
    if version(records) == 4:
        source["kind"], source["plugin"] = "plugin", "compact"
    else:
        source["kind"] = "compact-checkpoint"
    return place


def spoil_event_shape(draw: Draw, records: list[Record]) -> int:
    kinds = ["turn/start", "step/start", "tool/call", "compaction/start", "compaction/summary"]
    return put(records, pick(draw, records, *kinds), "data", value={})


SPOILERS: dict[str, Spoiler] = {
    "record-shape": spoil_shape,
    "header-missing": spoil_header,
    "unsupported-format": spoil_format,
    "packed-row": spoil_packed_row,
    "seq-gap": spoil_seq_up,
    "seq-repeated": spoil_seq_down,
    "surface-op-missing": spoil_op_missing,
    "surface-op-forbidden": spoil_op_forbidden,
    "surface-op-shape": spoil_op_shape,
    "message-shape": spoil_message,
    "range-not-on-surface": spoil_range,
    "range-backwards": spoil_range_order,
    "sources-shape": spoil_sources_shape,
    "sources-repeated": spoil_sources_twice,
    "sources-not-earlier": spoil_sources_later,
    "sources-incomplete": spoil_sources_short,
    "result-replaces-other": spoil_result_over_other,
    "result-changes-more": spoil_result_beyond_content,
    "system-prompt-folded": spoil_prompt,
    "header-key-unknown": spoil_header_key,
    "event-unknown": spoil_unknown_event,
    "turn-order": spoil_turn_start,
    "turn-end": spoil_turn_end,
    "step-order": spoil_step_start,
    "step-end": spoil_step_end,
    "step-open-at-turn-end": spoil_open_step,
    "call-unanswered": spoil_unanswered,
    "outside-step": spoil_place_in_step,
    "outside-turn": spoil_place_in_turn,
    "call-differs": spoil_call,
    "call-repeated": spoil_call_twice,
    "result-without-call": spoil_result_call,
    "message-without-id": spoil_message_id,
    "bracket-turn": spoil_bracket_turn,
    "bracket-nested": spoil_bracket_nested,
    "turn-in-bracket": spoil_turn_in_bracket,
    "bracket-foreign": spoil_bracket_id,
    "summary-repeated": spoil_second_summary,
    "summary-alone": spoil_summary_alone,
    "end-without-summary": spoil_empty_bracket,
    "shadow-wrong": spoil_shadow,
    "price-wrong": spoil_price,
    "prune-alone": spoil_prune_alone,
    "prune-outside-turn": spoil_prune_place,
    "checkpoint-kind": spoil_checkpoint_kind,
    "event-shape": spoil_event_shape,
}
