"""Records and events: what the harness wrote comes back to the byte, and no two readers differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import plain_reader
import pytest
from builders import Conversation, line
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_reader import Record
from running import LOGS
from strategies import STYLES, Spoiled, broken_logs, conversations, written_in_ascii

from dsh_compact.codec import (
    Scanner,
    decode,
    decode_header,
    decode_surface_event,
    encode,
    quick,
    wire,
)
from dsh_compact.codec.encode import Draft
from dsh_compact.codec.given import draft_from_json
from dsh_compact.codec.types import SURFACE_KINDS
from dsh_compact.errors import Damage, RuleBroken, UsageError
from dsh_compact.events import (
    Append,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    EndSeed,
    Event,
    Opaque,
    Other,
    Place,
    Replace,
    RequestFailed,
    RequestHeader,
    StepEnd,
    StepStart,
    SurfaceChange,
    SurfaceEvent,
    Text,
    ToolCall,
    ToolCallStarted,
    ToolResult,
    TurnEnd,
    TurnStart,
)

PLAIN_LOGS = sorted(LOGS.glob("*.jsonl"))
SCANNED = sorted(set(get_args(Event)) - {SurfaceChange, Other}, key=lambda kind: kind.__name__)


def lines_of(path: Path) -> list[bytes]:
    """The records of a plain log."""
    return path.read_bytes().split(b"\n")[:-1]


# What the harness wrote ---------------------------------------------------------------------------


def rewritten(raw: bytes, version: int, lines: list[bytes]) -> Draft | None:
    """What we would write for the event in a line; None for the events that we never write."""
    record = json.loads(raw)
    if record["type"] in SURFACE_KINDS[version]:
        return rewritten_message(decode_surface_event(raw, version), record, version, lines)
    match decode(raw, version):
        case TurnStart(turn=turn):
            return encode.turn_start(turn)
        case TurnEnd(turn=turn, reason=reason, failure=failure):
            return encode.turn_end(turn, reason, failure)
        case StepStart(turn=turn, step=step):
            return encode.step_start(turn, step)
        case StepEnd(turn=turn, step=step):
            return encode.step_end(turn, step)
        case EndSeed():
            return encode.end_seed()
        case event:
            return rewritten_bracket(event)


def rewritten_bracket(event: Event) -> Draft | None:
    """The same for what belongs to a compaction or a call."""
    match event:
        case CompactionStart(compaction_id=compaction_id, turn=turn):
            return encode.compaction_start(compaction_id, turn)
        case CompactionEnd(compaction_id=compaction_id, turn=turn, error=error):
            return encode.compaction_end(compaction_id, turn, error)
        case CompactionPrune(start_seq=seq, shadowed_tokens=int(tokens)):
            return encode.compaction_prune(seq, tokens)
        case ToolCallStarted(call_id=call_id, name=name, arguments=arguments):
            made = ToolCall(id=call_id, name=name, arguments=arguments)
            return encode.tool_call(event.turn, event.step, made)
        case _:
            return None


def rewritten_message(
    event: SurfaceEvent, record: Record, version: int, lines: list[bytes]
) -> Draft | None:
    """The same for a surface event."""
    message = event.message
    named = [one for one in event.sources if isinstance(one, int)]
    match event.kind, event.op:
        case "tool", Replace(start_seq=start):
            original = next(x for x in lines if json.loads(x).get("seq") == start)
            return encode.pruned_result(original, message.result)
        case "tool", Append() if "error" not in record["data"]:
            return encode.tool_result(
                event.turn or 0,
                event.step or 0,
                message.call_id or "",
                message.result,
                message.id or "",
                version=version,
                sources=named,
                is_error=message.is_error
                or any(b.is_error for b in message.content if isinstance(b, ToolResult)),
            )
        case "user", Replace():
            bracket, shadowed = named[:2], named[2:]
            return encode.checkpoint(
                message.compaction_id or "",
                message.content,
                message.id or "",
                shadowed,
                bracket,
                version=version,
            )
        case "user", Append() if message.source_kind == "user":
            return encode.user_message(message.content, message.id or "")
        case "system", Append():
            return encode.system_message(
                event.turn or 0, event.step or 0, message.content, message.id or "", version=version
            )
        case _:
            return None


@pytest.mark.parametrize("path", PLAIN_LOGS, ids=lambda path: path.stem)
def test_what_we_write_is_what_the_harness_writes(path: Path) -> None:
    """Decoded and written again, a record of the harness has every byte that it had."""
    lines = lines_of(path)
    version = decode_header(lines[0]).version
    for raw in lines[1:]:
        record = json.loads(raw)
        draft = None if "seq0" in record else rewritten(raw, version, lines)
        if draft is not None:
            assert raw == draft.line(record["seq"], record["time"], version)


def test_the_real_logs_hold_all_that_we_write() -> None:
    """The test above has met every kind of record in every format that can have it."""
    met = set()
    for path in PLAIN_LOGS:
        lines = lines_of(path)
        version = decode_header(lines[0]).version
        for raw in lines[1:]:
            record = json.loads(raw)
            if "seq0" not in record and (draft := rewritten(raw, version, lines)) is not None:
                met.add((version, draft.type, type(draft.op).__name__))
    brackets = {"compaction/start", "compaction/end"}
    assert brackets <= {kind for version, kind, _ in met if version == 0}
    assert brackets <= {kind for version, kind, _ in met if version == 3}
    for version in (0, 4):
        assert {
            (version, "compaction/prune", "NoneType"),
            (version, "tool/result", "Replace"),
        } <= met
    for version in (0, 3, 4):
        assert (version, "user/message", "Replace") in met


@pytest.mark.parametrize("path", PLAIN_LOGS, ids=lambda path: path.stem)
def test_a_summary_differs_in_what_only_its_writer_knows(path: Path) -> None:
    """Without the raw output and the mark of a streamed call, a summary is written alike."""
    lines = lines_of(path)
    version = decode_header(lines[0]).version
    for raw in lines[1:]:
        record = json.loads(raw)
        if record["type"] != "compaction/summary":
            continue
        event = decode(raw, version)
        assert isinstance(event, CompactionSummary)
        assert event.shadowed_tokens is not None
        draft = encode.compaction_summary(
            event.compaction_id,
            tuple(Text(text=block["text"]) for block in record["data"]["summary"]),
            event.shadowed_seqs,
            event.shadowed_tokens,
            provider=event.provider,
            model=event.model,
            max_tokens=event.max_tokens,
            usage=event.usage,
        )
        del record["data"]["rawOutput"], record["data"]["llmStreamCall"]
        assert line(record) == draft.line(record["seq"], record["time"], version) + b"\n"


@pytest.mark.parametrize("path", PLAIN_LOGS, ids=lambda path: path.stem)
def test_a_new_logs_header_is_the_harnesss(path: Path) -> None:
    """The first record, too, is written alike."""
    raw = lines_of(path)[0]
    header = decode_header(raw)
    assert header.created_at_ms is not None
    assert raw == encode.session_header(header.id, header.created_at_ms, header.version, header.cwd)


def test_a_failed_request_is_written_as_each_format_has_it() -> None:
    """What we write for a refusal is read as the refusal."""
    for version in (0, 3, 4):
        log = Conversation(format=version).user("a").refusal(limit=8_000, requested=9_000)
        raw = line(log.record(log.last_seq)).rstrip(b"\n")
        event = decode(raw, version)
        assert isinstance(event, RequestFailed)
        draft = encode.request_failed(event.turn, event.step, event.failure, event.time_ms, version)
        assert event == decode(draft.line(event.seq, event.time_ms, version), version)


# One event, however it is written -----------------------------------------------------------------


@given(conversations(max_verbs=15))
def test_the_style_of_a_line_changes_no_event(log: Conversation) -> None:
    """Spaces, escapes and the order of keys are the writer's business."""
    for record in log.records[1:]:
        events = [decode(style(record).rstrip(b"\n"), log.format) for style in STYLES]
        assert all(event == events[0] for event in events)


@given(conversations(max_verbs=15))
def test_the_quick_way_to_a_message_is_no_other_way(log: Conversation) -> None:
    """The message alone is the message of the whole event, in whatever style it is written."""
    for node in log.nodes:
        for style in STYLES:
            raw = style(node).rstrip(b"\n")
            event = decode_surface_event(raw, log.format)
            assert event.message == quick.decode_message(raw, event.kind, log.format)


@given(conversations(max_verbs=8), st.data())
def test_a_head_holds_the_whole_message_or_says_so(log: Conversation, data: st.DataObject) -> None:
    """However much of a line is read, what is found in it is never half a message."""
    for record in log.records[1:]:
        if record["type"] == "assistant/message":
            raw = line(record).rstrip(b"\n")
            found = quick.message_in(raw[: data.draw(st.integers(0, len(raw)))])
            assert found in (None, decode_surface_event(raw, log.format).message)


@pytest.mark.parametrize("version", [3, 4])
def test_an_answers_stream_is_not_needed(version: int) -> None:
    """Of a usual line the part before the stream is enough."""
    log = Conversation(format=version).user("a").assistant("b", reasoning="c")
    raw = line(log.nodes[-1]).rstrip(b"\n")
    head = raw[: raw.index(b'"stream":[') + len(b'"stream":[')]
    assert decode_surface_event(raw, version).message == quick.message_in(head)


def test_a_stream_inside_a_message_is_no_stream() -> None:
    """A block of an unknown kind may hold what looks like the end of the message."""
    picture = {"type": "image", "x": 1, "stream": [1, 2], "y": {"z": 1, "stream": []}}
    log = Conversation().user("a").assistant([picture, "text"])
    raw = line(log.nodes[-1]).rstrip(b"\n")
    whole = decode_surface_event(raw, 4).message
    assert whole == quick.decode_message(raw, "assistant", 4)
    assert [Opaque, Text] == [type(block) for block in whole.content]


# The fast way and the strict way ------------------------------------------------------------------

wanted = st.frozensets(st.sampled_from(SCANNED))


def scanned(data: bytes, version: int, kinds: frozenset[Any], *, strict: bool) -> list[Event]:
    """All events behind the header, as one mode finds them."""
    rest = data.split(b"\n", 1)[1]
    return Scanner(version, kinds, strict=strict).scan(rest, len(rest), -1, 0)


@settings(max_examples=50)
@given(conversations(), wanted, st.data())
def test_both_modes_find_the_same_events(
    log: Conversation, kinds: frozenset[Any], data: st.DataObject
) -> None:
    """What is not decoded is not lost: a glance tells no less than the whole line."""
    styles = data.draw(st.lists(st.sampled_from(STYLES), min_size=len(log.records)))
    raw = b"".join(style(record) for style, record in zip(styles, log.records, strict=False))
    strictly = scanned(raw, log.format, kinds, strict=True)
    assert strictly == scanned(raw, log.format, kinds, strict=False)
    expected = [r["seq"] for r in log.records[1:] if r["type"] in SURFACE_KINDS[log.format]]
    assert expected == [event.seq for event in strictly if isinstance(event, SurfaceChange)]


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["", ",", '"', '",', ',"', '","', "\\", '\\"', '\\",', '"]}}', "]", "a,b", "é"]
        ),
        st.text(max_size=4),
    ),
    min_size=1,
    max_size=8,
)


def packed_row(seq: int, key: str, pieces: list[str], waits: int) -> bytes:
    """A row of format 0 as the harness writes it, with so many times between its pieces."""
    named = {"id": "c1", "name": "bash"} if key == "args" else {}
    data = {"turn": 1, "step": 1, "index": 0, "dt": [7] * waits, **named, key: pieces}
    kind = "tool-call-chunks" if key == "args" else "text-chunks"
    return line({"type": kind, "seq0": seq, "time0": 1, "data": data})


@given(PIECES, st.sampled_from(["texts", "args"]), st.integers(-1, 1))
def test_a_packed_row_is_counted_as_if_it_were_read(pieces: list[str], key: str, off: int) -> None:
    """Whatever signs the pieces are made of; and a row whose lists differ in length is damage."""
    data = packed_row(5, key, pieces, max(0, len(pieces) - 1 + off))
    scanner = Scanner(0)
    scanner.next_seq = 5
    if data == packed_row(5, key, pieces, len(pieces) - 1):
        assert Other(5, json.loads(data)["type"], len(pieces), True, False) == decode(data, 0)
        assert [] == scanner.scan(data, len(data), -1, 0)
        assert 5 + len(pieces) == scanner.next_seq
        return
    with pytest.raises(RuleBroken) as raised:
        scanner.scan(data, len(data), -1, 0)
    assert Damage.PACKED_ROW_UNEQUAL == raised.value.damage


def test_a_usual_row_is_not_decoded() -> None:
    """Rows are the most of an old log: what only a full reading finds in one is not found."""
    data = packed_row(0, "texts", ["a", ",", '",', "b"], 3) + packed_row(4, "args", ['",'], 0)
    data = data.replace(b'"a"', b'"\\q"')
    scanner = Scanner(0)
    assert [] == scanner.scan(data, len(data), -1, 0)
    assert 5 == scanner.next_seq
    with pytest.raises(RuleBroken):
        Scanner(0, strict=True).scan(data, len(data), -1, 0)


def test_a_packed_row_is_no_surface_event() -> None:
    """An operation on a row is damage like one on any event that is no message."""
    data = packed_row(0, "texts", ["a"], 0).replace(b"]}}", b"]}" + APPENDED)
    with pytest.raises(RuleBroken) as raised:
        Scanner(0).scan(data, len(data), -1, 0)
    assert Damage.SURFACE_OP_FORBIDDEN == raised.value.damage


@given(broken_logs(), wanted)
def test_the_fast_mode_never_finds_more_than_the_strict_one(
    spoiled: Spoiled, kinds: frozenset[Any]
) -> None:
    """Where the strict mode is content, the fast one agrees; where the fast one stops, both do."""
    if spoiled.data.startswith(plain_reader.ZSTD_MAGIC) or b"\n" not in spoiled.data:
        return
    version = plain_reader.read(spoiled.data).format
    if version not in (0, 3, 4):
        return
    found: dict[bool, tuple[list[Any], RuleBroken | None]] = {}
    for strict in (True, False):
        try:
            found[strict] = scanned(spoiled.data, version, kinds, strict=strict), None
        except RuleBroken as fault:
            found[strict] = list(fault.events), fault
    if found[True][1] is None:
        assert found[True] == found[False]
    elif found[False][1] is not None:
        assert found[True][0] == found[False][0][: len(found[True][0])]


@given(conversations(max_verbs=10), st.sampled_from([0, 3, 4]))
def test_places_lead_back_to_the_lines(log: Conversation, cut: int) -> None:
    """Each event that has a place lies there, whatever the run of lines began with."""
    lines = log.lines()
    rest = b"".join(lines[1:])
    for event in Scanner(log.format, [RequestHeader]).scan(rest, len(rest), -1, cut):
        if isinstance(event, (SurfaceChange, RequestHeader)):
            place: Place = event.place
            raw = rest[place.start_bytes - cut :][: place.size_bytes]
            assert event.seq == json.loads(raw)["seq"]


# What is wrong with one record --------------------------------------------------------------------

APPENDED = b',"surfaceOp":"append"}'
WRONG: dict[str, tuple[bytes, Damage]] = {
    "nothing": (b"", Damage.NOT_JSON),
    "words": (b"hello", Damage.NOT_JSON),
    "half": (b'{"type":"turn/start","seq":0', Damage.NOT_JSON),
    "two values": (b'{"type":"x","seq":0} {}', Damage.NOT_JSON),
    "NaN": (b'{"type":"turn/start","seq":0,"time":NaN,"data":{}}', Damage.NOT_JSON),
    "NUL": (b"\x00\x00\x00", Damage.NOT_JSON),
    "a list": (b"[]", Damage.RECORD_WRONG),
    "no type": (b'{"seq":0,"data":{}}', Damage.RECORD_WRONG),
    "no seq": (b'{"type":"turn/start","data":{"turn":1}}', Damage.RECORD_WRONG),
    "a fraction of a seq": (
        b'{"type":"turn/start","seq":0.5,"data":{"turn":1}}',
        Damage.RECORD_WRONG,
    ),
    "a seq in quotes": (b'{"type":"turn/start","seq":"0","data":{"turn":1}}', Damage.RECORD_WRONG),
    "a true seq": (b'{"type":"turn/start","seq":true,"data":{"turn":1}}', Damage.RECORD_WRONG),
    "no data": (b'{"type":"turn/start","seq":0}', Damage.RECORD_WRONG),
    "no turn": (b'{"type":"turn/start","seq":0,"data":{}}', Damage.RECORD_WRONG),
    "no shadow": (b'{"type":"compaction/prune","seq":0,"data":{}}', Damage.RECORD_WRONG),
    "no operation": (b'{"type":"user/message","seq":0,"data":{}}', Damage.SURFACE_OP_MISSING),
    "an operation on no message": (
        b'{"type":"turn/start","seq":0,"data":{"turn":1}' + APPENDED,
        Damage.SURFACE_OP_FORBIDDEN,
    ),
    "an unknown operation": (
        b'{"type":"user/message","seq":0,"data":{},"surfaceOp":"prepend"}',
        Damage.SURFACE_OP_WRONG,
    ),
    "a replace of another format": (
        b'{"type":"user/message","seq":9,"data":{},"surfaceOp":{"op":"replace","start":1,"end":1}}',
        Damage.SURFACE_OP_WRONG,
    ),
    "a replace without an end": (
        b'{"type":"user/message","seq":9,"data":{},"surfaceOp":{"op":"replace","startSeq":1}}',
        Damage.SURFACE_OP_WRONG,
    ),
    "sources that are no list": (
        b'{"type":"user/message","seq":9,"data":{},"sourceEventSeqs":1' + APPENDED,
        Damage.RECORD_WRONG,
    ),
    "a packed row in format 4": (
        b'{"type":"text-chunks","seq0":0,"time0":1,"data":{"dt":[],"texts":["a"]}}',
        Damage.RECORD_WRONG,
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_record_is_told_by_its_code(case: str) -> None:
    """Each way to be wrong has its damage."""
    raw, damage = WRONG[case]
    with pytest.raises(RuleBroken) as raised:
        decode(raw, 4)
    assert damage == raised.value.damage


@pytest.mark.parametrize(
    ("sources", "damage"),
    [
        ("[[3,1]]", Damage.RECORD_WRONG),
        ("[[1]]", Damage.RECORD_WRONG),
        ("[[1,2,3]]", Damage.RECORD_WRONG),
    ],
)
def test_a_range_among_the_sources_is_checked(sources: str, damage: Damage) -> None:
    """A range that is none is damage."""
    operation = '{"op":"replace","startSeq":1,"endSeq":1}'
    raw = (
        f'{{"type":"user/message","seq":9,"data":{{}},"sourceEventSeqs":{sources},'
        f'"surfaceOp":{operation}}}'
    )
    with pytest.raises(RuleBroken) as raised:
        decode(raw.encode(), 4)
    assert damage == raised.value.damage


HEADERS: dict[str, tuple[bytes, Damage]] = {
    "an event": (b'{"type":"turn/start","seq":0,"data":{"turn":1}}', Damage.HEADER_MISSING),
    "no JSON": (b"hello", Damage.HEADER_MISSING),
    "format 1": (b'{"type":"session","version":1,"id":"a"}', Damage.UNSUPPORTED_FORMAT),
    "format 5": (b'{"type":"session","version":5,"id":"a"}', Damage.UNSUPPORTED_FORMAT),
    "no version": (b'{"type":"session","id":"a"}', Damage.HEADER_WRONG),
    "a list": (b'["session"]', Damage.HEADER_MISSING),
    "a list that is no JSON": (b'["session", x', Damage.HEADER_MISSING),
    "a version in quotes": (b'{"type":"session","version":"4","id":"a"}', Damage.HEADER_WRONG),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_wrong_header_is_told_by_its_code(case: str) -> None:
    """A log that is none, or of a format that was never released, is named as such."""
    raw, damage = HEADERS[case]
    with pytest.raises(RuleBroken) as raised:
        decode_header(raw)
    assert damage == raised.value.damage


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ('"seq":"1"', "seq is a string, where a whole number belongs"),
        ('"seq":1.5', "seq is a decimal number, where a whole number belongs"),
        ('"seq":1,"time":null', "time is null, where a number belongs"),
        (
            '"seq":1,"time":"\\ud800"',
            "half a character (a lone surrogate) stands where none belongs",
        ),
        ('"seq":1,"ignorable":[]', "ignorable is a list, where true or false belongs"),
        ('"seq":1,"sourceEventSeqs":{}', "sourceEventSeqs is an object, where a list belongs"),
        (
            '"seq":1,"sourceEventSeqs":[true]',
            "sourceEventSeqs[0] is true or false, where a whole number or a list belongs",
        ),
        (
            '"seq":1,"sourceEventSeqs":[3,["a"]]',
            "sourceEventSeqs[1][0] is a string, where a whole number belongs",
        ),
        ('"seq":1e999', "seq is beyond every number that can be meant"),
        (f'"seq":{"9" * 5_000}', "seq is beyond every number that can be meant"),
        ('"time":1', "there is no seq"),
    ],
)
def test_what_does_not_fit_is_told_in_words(fields: str, told: str) -> None:
    """Which field, what stands there and what belongs there, and nothing of the parser's own."""
    with pytest.raises(RuleBroken) as raised:
        decode(f'{{"type":"turn/start",{fields},"data":{{"turn":1}}}}'.encode(), 4)
    assert (Damage.RECORD_WRONG, told) == (raised.value.damage, raised.value.problem)


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("turn/start", '{"turn":"1"}', "turn is a string, where a whole number or null belongs"),
        ("compaction/prune", '{"shadowedRange":{"start":1}}', "shadowedRange has no end"),
        ("step/start", "[]", "the data of step/start is no object"),
    ],
)
def test_what_does_not_fit_in_the_data_is_told_in_words(kind: str, data: str, told: str) -> None:
    """The same for what an event holds."""
    with pytest.raises(RuleBroken) as raised:
        decode(f'{{"type":"{kind}","seq":0,"time":1,"data":{data}}}'.encode(), 4)
    assert told == raised.value.problem.removeprefix(f"{kind}: ")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b'{"a":1', "not JSON: unexpected end of data, at character 7"),
        (b"", "not JSON: Input is a zero-length, empty document, at character 1"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(raw: bytes, told: str) -> None:
    """The place in the record: which line that is, the caller knows."""
    with pytest.raises(RuleBroken) as raised:
        wire.load(raw)
    assert (Damage.NOT_JSON, told) == (raised.value.damage, raised.value.problem)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_depth_ends_in_an_error_and_not_in_a_crash(opening: bytes) -> None:
    """A hundred thousand levels are too deep, wherever in the record they stand."""
    closing = {b"[": b"]", b'{"a":': b"}"}[opening]
    nest = opening * 100_000 + b"0" + closing * 100_000
    user = b'{"type":"user/message","seq":0,"time":1,"data":{"role":"user","content":'
    raws = [
        b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1,"x":' + nest + b"}}",
        user + nest + b"}" + APPENDED,
    ]
    for raw in raws:
        with pytest.raises(RuleBroken) as raised:
            decode_surface_event(raw, 4) if b"user" in raw else decode(raw, 4)
        assert raised.value.damage in {Damage.TOO_DEEP, Damage.RECORD_WRONG}


# What somebody gives us ---------------------------------------------------------------------------


def numbered() -> Callable[[], str]:
    """A maker of ids that can be told in advance."""
    count = iter(range(100))
    return lambda: f"id-{next(count)}"


def given_line(**record: Any) -> bytes:
    """A line as somebody writes it."""
    return json.dumps(record).encode()


def test_what_is_left_out_is_made_up() -> None:
    """Seq, time, operation and id are ours; a given id stays."""
    message = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    draft = draft_from_json(given_line(type="user/message", data=message), 4, numbered())
    assert ({**message, "id": "id-0"}, Append()) == (draft.data, draft.op)
    named = draft_from_json(
        given_line(type="user/message", data={**message, "id": "x"}, seq=9, time=9), 4, numbered()
    )
    assert "x" == named.data["id"]
    inner = {"turn": 1, "step": 1, "message": {"role": "assistant", "content": []}}
    answer = draft_from_json(given_line(type="assistant/message", data=inner), 4, numbered())
    assert "id-0" == answer.data["message"]["id"]


def test_a_given_event_keeps_what_it_says() -> None:
    """Operation, sources and the mark of an ignorable event are carried over."""
    raw = given_line(
        type="user/message",
        data={"role": "user", "content": []},
        surfaceOp={"op": "replace", "startSeq": 3, "endSeq": 5},
        sourceEventSeqs=[[3, 5], 9],
    )
    draft = draft_from_json(raw, 4, numbered())
    assert (Replace(3, 5), ((3, 5), 9)) == (draft.op, draft.sources)
    assert b'"sourceEventSeqs":[[3,5],9]' in draft.line(10, 0, 4)
    marked = draft_from_json(
        given_line(type="my/own", data={"x": 1}, ignorable=True), 4, numbered()
    )
    assert (None, True, {"x": 1}) == (marked.op, marked.ignorable, marked.data)


GIVEN_WRONG: dict[str, bytes] = {
    "no JSON": b"hello",
    "a number": b"3",
    "no type": b"{}",
    "an unknown type": given_line(type="my/own", data={}),
    "data that is a list": given_line(type="turn/start", data=[]),
    "an answer without a message": given_line(type="assistant/message", data={"turn": 1}),
    "an unknown operation": given_line(type="user/message", data={}, surfaceOp="prepend"),
    "a replace of another format": given_line(
        type="user/message", data={}, surfaceOp={"op": "replace", "start": 1, "end": 1}
    ),
    "a replace with true ends": given_line(
        type="user/message", data={}, surfaceOp={"op": "replace", "startSeq": True, "endSeq": 1}
    ),
    "an operation on no message": given_line(type="turn/start", data={}, surfaceOp="append"),
    "sources that are no list": given_line(type="user/message", data={}, sourceEventSeqs=1),
    "sources that are words": given_line(type="user/message", data={}, sourceEventSeqs=["a"]),
    "a range that is none": given_line(type="user/message", data={}, sourceEventSeqs=[[3]]),
}


@pytest.mark.parametrize("case", GIVEN_WRONG)
def test_what_cannot_be_an_event_is_the_givers_fault(case: str) -> None:
    """A line that is no event of the format is a usage error, and never anything else."""
    with pytest.raises(UsageError):
        draft_from_json(GIVEN_WRONG[case], 4, numbered())


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    """As the harness writes it; what can be said in UTF-8 stays as it is."""
    draft = encode.user_message([Text(text="\ud83d é")], "id")
    raw = draft.line(0, 1, 4)
    assert '"\\ud83d é"'.encode() in raw
    assert "\ud83d é" == decode_surface_event(raw, 4).message.text


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e+22", 1e22),
        ("0.1", 0.1),
        ('["1e22",1.5e-7]', ["1e22", 1.5e-7]),
        ("1180591620717411303424", 2**70),
        ('["1e22",1180591620717411303424]', ["1e22", 2**70]),
    ],
)
def test_numbers_are_written_as_javascript_writes_them(written: str, value: Any) -> None:
    """An exponent has its sign, and a text that looks like one is left alone."""
    assert written.encode() == wire.dump(value)


def test_a_fragment_keeps_its_bytes_beside_an_exponent() -> None:
    """Whichever way a value is written, what nobody interprets stands in it as it is."""
    assert b'[1e+22,{ "a": 1e5 }]' == wire.dump([1e22, wire.Fragment(b'{ "a": 1e5 }')])


@pytest.mark.parametrize("words", ["plain", "half a \ud83d character"])
def test_an_opaque_block_keeps_its_bytes_beside_any_text(words: str) -> None:
    """Spaces, escapes and the form of numbers are its writer's, also beside a lone surrogate."""
    raw = b'{ "type":"image", "x": 1.50e1, "name":"\\u00e9" }'
    draft = encode.user_message([Opaque(kind="image", json=raw, length=9), Text(text=words)], "id")
    assert raw in draft.line(0, 1, 4)
    assert words == decode_surface_event(draft.line(0, 1, 4), 4).message.text


@given(conversations(max_verbs=12))
def test_blocks_nobody_knows_are_carried_to_the_byte(log: Conversation) -> None:
    """A message's blocks, written again, are the very blocks, opaque ones in their own bytes."""
    for node in log.nodes:
        if node["type"] == "user/message":
            event = decode_surface_event(line(node).rstrip(b"\n"), log.format)
            draft = encode.user_message(event.message.content, "x")
            again = decode_surface_event(draft.line(event.seq, 1, log.format), log.format)
            assert event.message.content == again.message.content


@given(conversations(max_verbs=10))
def test_a_seq_that_is_missing_or_repeated_stops_both_modes(log: Conversation) -> None:
    """A gap and a repeat are found in any style, whether or not the line is decoded."""
    for style in (line, written_in_ascii):
        records = [r for r in log.records[1:] if "seq0" not in r]
        for first, second in pairwise(records):
            gap = style({**first, "seq": 0}) + style({**second, "seq": 2})
            again = style({**first, "seq": 0}) + style({**second, "seq": 0})
            for strict in (True, False):
                for data, damage in ((gap, Damage.SEQ_GAP), (again, Damage.SEQ_REPEATED)):
                    with pytest.raises(RuleBroken) as raised:
                        Scanner(log.format, strict=strict).scan(data, len(data), -1, 0)
                    assert damage == raised.value.damage


class Words(str):
    """A framework's text, which says something else when it is asked for one."""

    __slots__ = ()

    def __str__(self) -> str:
        """Something else."""
        return "else"


def test_texts_and_numbers_of_subclasses_are_written_as_what_they_are() -> None:
    """And what is no JSON is named."""
    count, share = type("Count", (int,), {})(3), type("Share", (float,), {})(0.5)
    assert b'{"a":["so",3,0.5]}' == wire.dump({"a": [Words("so"), count, share]})
    assert b'{"a":"so"}' == wire.dump_sorted({"a": Words("so")})
    with pytest.raises(TypeError, match="object is no type"):
        wire.dump(object())
