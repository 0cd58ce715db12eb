"""The smallest log that shows each kind of damage, by its code.

    for case in CASES: case.code, case.data(), case.codes

The rule of this file: a case is a right log with one thing wrong; `codes` are all that `verify`
finds in it, in the log's order, since one wrong record may break several rules. Nothing here is
read from the product but the codes.
"""

# ruff: noqa: D103 - a case's code says what is wrong in the log that its function makes

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from builders import Conversation, call, frame, line
from plain_reader import Record

from dsh_compact.errors import Damage

Make = Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One log; `line` is where the code shows, `path` below a folder where the log must lie."""

    code: Damage
    data: Make
    codes: tuple[str, ...]
    line: int
    path: str = "session.jsonl"


# Logs to spoil


def talk(format: int = 4) -> Conversation:  # noqa: A002 - every part of the product calls it so
    """One turn with a call, its result, and an answer."""
    return (
        Conversation(format=format)
        .system("You help.")
        .user("list the files")
        .assistant("Running it.", calls=[call("c1")])
        .result("c1", "a.txt " * 40)
        .assistant("One file.")
        .end()
    )


def compacted() -> Conversation:
    """The same, folded, and one more turn."""
    return talk().compaction("There is one file.").user("and now?").assistant("Still one.").end()


def pruned() -> Conversation:
    """The same in an open turn, its result pruned."""
    log = talk().user("go on").assistant("Well.")
    return log.prune("c1", "a.txt").end()


def seq_of(log: Conversation, kind: str, nth: int = 0) -> int:
    """The seq of the nth record of a type."""
    found = [record["seq"] for record in log.records if record["type"] == kind]
    seq: int = found[nth]
    return seq


def line_of(log: Conversation, kind: str, nth: int = 0) -> int:
    """Its line, from 1."""
    places = [place for place, record in enumerate(log.records, 1) if record["type"] == kind]
    return places[nth]


def spoiled(
    log: Conversation, kind: str, change: Callable[[Record], object], nth: int = 0
) -> bytes:
    """The log with one record changed."""
    return log.spoil(seq_of(log, kind, nth), change).bytes()


def without(log: Conversation, kind: str, nth: int = 0) -> bytes:
    """The log without a record, and without a gap: every later number is one less."""
    gone = seq_of(log, kind, nth)
    log.drop(gone)
    return b"".join(line(moved(record, gone, -1)) for record in log.records)


def with_record(log: Conversation, after: int, record: Record) -> bytes:
    """The log with one more record behind that seq, and every later number one more."""
    lines = []
    for old in log.records:
        new = moved(old, after, 1)
        lines.append(line(new))
        if old.get("seq") == after:
            new_record = {"type": record["type"], "seq": after + 1, "time": old["time"]}
            lines.append(line({**new_record, **record}))
    return b"".join(lines)


def moved(value: Any, above: int, by: int, key: str = "") -> Any:
    """A record whose numbers above a seq are moved, its references too."""
    match value:
        case dict():
            return {name: moved(inner, above, by, name) for name, inner in value.items()}
        case list():
            return [moved(inner, above, by, key) for inner in value]
        case int() if key in SEQ_KEYS and not isinstance(value, bool) and value > above:
            return value + by
        case _:
            return value


SEQ_KEYS = {
    "seq", "sourceEventSeqs", "startSeq", "endSeq", "start", "end", "shadowedSeqs", "messageSeqs",
    "throughSeq",
}  # fmt: skip


def put(*path: str | int, value: Any) -> Callable[[Record], None]:
    """A change: set what stands at a path."""

    def change(record: Record) -> None:
        holder: Any = record
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value

    return change


def cut(*path: str | int) -> Callable[[Record], None]:
    """A change: remove what stands at a path."""

    def change(record: Record) -> None:
        holder: Any = record
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]

    return change


# The bytes


def framed() -> list[bytes]:
    """The frames of a framed log."""
    return [frame(b"".join(map(line, append))) for append in talk().appends if append]


def bad_checksum() -> bytes:
    frames = framed()
    frames[2] = frames[2][:-1] + bytes([frames[2][-1] ^ 1])
    return b"".join(frames)


def bad_frame() -> bytes:
    frames = framed()
    return b"".join([*frames[:3], b"no frame at all", *frames[3:]])


def not_json() -> bytes:
    lines = talk().lines()
    lines[6] = b'{"type":"user/mess\n'
    return b"".join(lines)


def bomb() -> bytes:
    """A frame of a few bytes that says that it unpacks to 10 GiB."""
    size = 10 << 30
    head = b"\x28\xb5\x2f\xfd" + bytes([0b11100000]) + size.to_bytes(8, "little")
    return head + b"".join([framed_rle(last=False)] * 8 + [framed_rle(last=True)])


def framed_rle(*, last: bool) -> bytes:
    """A block that repeats a zero 128 KiB times."""
    return (int(last) | 1 << 1 | (128 << 10) << 3).to_bytes(3, "little") + b"\0"


def too_deep() -> bytes:
    log = talk()
    nested = b"[" * 100_000 + b"]" * 100_000
    head = b'{"type":"tests/deep","seq":%d,"time":1,"data":{"a":' % log.next_seq
    return log.bytes() + head + nested + b'},"ignorable":true}\n'


# Seqs


def two_writers() -> bytes:
    """Two processes resumed the session; each wrote a note under the same seq."""
    log = talk().end_seed()
    lines = log.lines()
    theirs = Conversation(session_id="other").note("from the other").records[-1]
    ours = log.note("from the one").records[-1]
    theirs = {**theirs, "seq": ours["seq"], "id": "other"}
    theirs.pop("id")
    theirs["data"]["id"] = "other"
    return b"".join([*lines, line(ours), line(theirs)])


def backwards() -> bytes:
    """A process resumed without having read the last four events."""
    log = talk().end_seed()
    known = len(log.records)
    log.user("and now?").assistant("Still one.").end()
    old = log.records[:known]
    new = [{**record, "seq": record["seq"] - 4} for record in log.records[known:]]
    return b"".join(map(line, [*old, *new]))


# Calls and results


def parted_result() -> bytes:
    """A compaction folded a call and left its result."""
    log = talk().user("go on").assistant("Well.").end()
    seqs = log.node_seqs
    place = next(i for i, node in enumerate(log.nodes) if node["type"] == "tool/result")
    return log.compaction("Something ran.", over=(seqs[1], seqs[place - 1])).bytes()


def parted_call() -> bytes:
    """A compaction folded a result and left its call."""
    log = talk().user("go on").assistant("Well.").end()
    seqs = log.node_seqs
    place = next(i for i, node in enumerate(log.nodes) if node["type"] == "tool/result")
    return log.compaction("Something ran.", over=(seqs[place], seqs[place + 1])).bytes()


def unanswered() -> bytes:
    log = talk()
    return without(log, "tool/result")


# Compactions


def crossing() -> bytes:
    log = talk()
    log.open_bracket()
    log.bracket = None
    return log.user("and now?").assistant("Still one.").end().bytes()


def nested() -> bytes:
    log = talk()
    log.open_bracket()
    log.bracket = None
    return log.compaction("There is one file.").bytes()


def second_summary() -> bytes:
    log = compacted()
    summary = log.record(seq_of(log, "compaction/summary"))
    return with_record(log, summary["seq"] - 1, {"type": summary["type"], "data": summary["data"]})


def late_end() -> bytes:
    log = talk()
    log.open_bracket()
    bracket = log.bracket
    log.end_seed()
    return log.event("compaction/end", {"compactionId": bracket, "turn": None}).bytes()


def shadow(record: Record) -> None:
    record["data"]["shadowedSeqs"].pop()


# Others


def delivered() -> Conversation:
    return talk().delivered()


def title(cited: list[int], kind: str = "fallback") -> bytes:
    data = {"title": "files", "messageSeqs": cited, "source": {"kind": kind}}
    return talk().event("session/title", data).bytes()


def inbox() -> bytes:
    data = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}
    return talk().event("agent/inbox/spliced", data).bytes()


def doubled_id() -> bytes:
    """An answer asks for two calls of one id."""
    log = talk()
    second = call("c1", arguments='{"command":"pwd"}')
    return spoiled(
        log, "assistant/message", lambda r: r["data"]["message"]["content"].append(second)
    )


def open_call() -> bytes:
    log = Conversation().user("list the files").assistant(calls=[call("c1")])
    return log.call("c1").bytes()


def misplaced_system() -> bytes:
    log = Conversation().user("list the files").assistant("Well.")
    message = {"role": "system", "id": "late", "source": {"kind": "system-prompt"}, "content": []}
    data = {"turn": 1, "step": 1, "message": message}
    return log.event("system/message", data, surfaceOp="append").end().bytes()


def folded_system() -> bytes:
    """A message took the place of all, the system prompt too."""
    log = talk().replace("All of it.", over=(talk().node_seqs[1], talk().node_seqs[-1]))
    head, *rest = talk().node_seqs

    def change(record: Record) -> None:
        record["surfaceOp"]["startSeq"] = head
        record["sourceEventSeqs"] = [head, *rest]

    return log.spoil(log.last_seq, change).bytes()


def replacing() -> Conversation:
    """A note took the place of the answer."""
    log = talk()
    return log.replace("One.", over=(log.node_seqs[-1], log.node_seqs[-1]))


def extra_step(record: Record) -> None:
    record["data"]["step"] += 1


def prune_of_a_message() -> bytes:
    """A shorter result took the place of what the user said."""
    log = pruned()
    user = seq_of(log, "user/message")
    place = seq_of(log, "tool/result", 1)
    log.spoil(place, put("surfaceOp", value={"op": "replace", "startSeq": user, "endSeq": user}))
    return log.spoil(place, put("sourceEventSeqs", value=[user])).bytes()


def old_source(record: Record) -> None:
    record["data"]["source"]["kind"] = "plugin"
    record["data"]["source"]["plugin"] = "compact"


def packed_row() -> bytes:
    log = talk(0)
    row = next(record for record in log.records if record["type"] == "text-chunks")
    row["data"]["dt"].append(7)
    return log.bytes()


REPLACE = "user/message"
CASES = (
    # The bytes
    Case(
        code=Damage.TORN_LINE,
        data=lambda: talk().bytes() + b'{"type":"user/mess',
        codes=("torn-line",),
        line=18,
    ),
    Case(
        code=Damage.TORN_FRAME,
        data=lambda: b"".join([*framed(), frame(line({"type": "torn"}))[:-9]]),
        codes=("torn-frame",),
        line=18,
    ),
    Case(
        code=Damage.BAD_CHECKSUM,
        data=bad_checksum,
        codes=("bad-checksum", "call-differs", "result-without-call"),
        line=10,
    ),
    Case(code=Damage.NOT_ZSTD, data=bad_frame, codes=("bad-frame",), line=11),
    Case(code=Damage.NOT_JSON, data=not_json, codes=("not-json",), line=7),
    Case(
        code=Damage.NOT_UTF8,
        data=lambda: talk().bytes().replace(b"One file.", b"One \xff file."),
        codes=("not-utf8",),
        line=15,
    ),
    Case(
        code=Damage.TOO_LARGE,
        data=lambda: b"".join([*framed(), bomb()]),
        codes=("too-large",),
        line=18,
    ),
    Case(code=Damage.TOO_DEEP, data=too_deep, codes=("too-deep",), line=18),
    # The header
    Case(
        code=Damage.HEADER_MISSING,
        data=lambda: b"".join(talk().lines()[1:]),
        codes=("header-missing",),
        line=1,
    ),
    Case(
        code=Damage.HEADER_WRONG,
        data=lambda: Conversation(cwd="here").bytes(),
        codes=("header-wrong",),
        line=1,
    ),
    Case(
        code=Damage.HEADER_UNKNOWN_KEY,
        data=lambda: Conversation(colour="blue").bytes(),
        codes=("header-unknown-key",),
        line=1,
    ),
    Case(
        code=Damage.HEADER_ID_DIFFERS,
        data=lambda: talk().bytes(),
        codes=("header-id-differs",),
        line=1,
        path="--srv-app--/another/session.v4.jsonl",
    ),
    Case(
        code=Damage.UNSUPPORTED_FORMAT,
        data=lambda: Conversation().bytes().replace(b'"version":4', b'"version":2'),
        codes=("unsupported-format",),
        line=1,
    ),
    Case(
        code=Damage.SEED_WRONG,
        data=lambda: talk().event("session/end-seed", {"inherited": True}).bytes(),
        codes=("seed-wrong",),
        line=18,
    ),
    # One record
    Case(
        code=Damage.RECORD_WRONG,
        data=lambda: spoiled(talk(), "request/context", put("time", value="noon")),
        codes=("record-wrong",),
        line=9,
    ),
    Case(
        code=Damage.DATA_WRONG,
        data=lambda: spoiled(talk(), "request/context", put("data", "provider", value=3)),
        codes=("data-wrong",),
        line=9,
    ),
    Case(
        code=Damage.RECORD_UNKNOWN_KEY,
        data=lambda: spoiled(talk(), "assistant/message", put("colour", value="blue")),
        codes=("record-unknown-key",),
        line=10,
    ),
    Case(
        code=Damage.PACKED_ROW_UNEQUAL,
        data=packed_row,
        codes=("packed-row-unequal", "seq-gap"),
        line=10,
    ),
    Case(
        code=Damage.UNKNOWN_EVENT,
        data=lambda: talk().event("tests/unknown").bytes(),
        codes=("unknown-event",),
        line=18,
    ),
    # Seqs
    Case(
        code=Damage.SEQ_GAP,
        data=lambda: talk().drop(seq_of(talk(), "request/context")).bytes(),
        codes=("seq-gap",),
        line=9,
    ),
    Case(code=Damage.SEQ_REPEATED, data=two_writers, codes=("seq-repeated",), line=20),
    Case(code=Damage.SEQ_BACKWARDS, data=backwards, codes=("seq-backwards",), line=19),
    # The surface
    Case(
        code=Damage.SURFACE_OP_MISSING,
        data=lambda: spoiled(talk(), "user/message", cut("surfaceOp")),
        codes=("surface-op-missing",),
        line=7,
    ),
    Case(
        code=Damage.SURFACE_OP_FORBIDDEN,
        data=lambda: spoiled(talk(), "turn/end", put("surfaceOp", value="append")),
        codes=("surface-op-forbidden",),
        line=17,
    ),
    Case(
        code=Damage.SURFACE_OP_WRONG,
        data=lambda: spoiled(talk().note("a"), "user/message", put("surfaceOp", value="put"), 1),
        codes=("surface-op-wrong",),
        line=18,
    ),
    Case(
        code=Damage.RANGE_NOT_ON_SURFACE,
        data=lambda: spoiled(
            replacing(),
            REPLACE,
            put("surfaceOp", "startSeq", value=seq_of(talk(), "turn/start")),
            1,
        ),
        codes=("range-not-on-surface",),
        line=18,
    ),
    Case(
        code=Damage.RANGE_BACKWARDS,
        data=lambda: spoiled(
            replacing(),
            REPLACE,
            put("surfaceOp", "endSeq", value=seq_of(talk(), "user/message")),
            1,
        ),
        codes=("range-backwards",),
        line=18,
    ),
    Case(
        code=Damage.SOURCES_INCOMPLETE,
        data=lambda: spoiled(replacing(), REPLACE, put("sourceEventSeqs", value=[0]), 1),
        codes=("sources-incomplete",),
        line=18,
    ),
    Case(
        code=Damage.SOURCES_REPEATED,
        data=lambda: spoiled(
            talk(),
            "tool/result",
            lambda r: r["sourceEventSeqs"].append(0) or r["sourceEventSeqs"].append(0),
        ),
        codes=("sources-repeated",),
        line=12,
    ),
    Case(
        code=Damage.SOURCES_LATER,
        data=lambda: spoiled(talk(), "tool/result", lambda r: r["sourceEventSeqs"].append(9_999)),
        codes=("sources-later",),
        line=12,
    ),
    Case(
        code=Damage.RESULT_REPLACES_OTHER,
        data=prune_of_a_message,
        codes=("prune-without-result", "result-replaces-other"),
        line=25,
    ),
    Case(
        code=Damage.RESULT_CHANGED,
        data=lambda: spoiled(pruned(), "tool/result", put("data", "message", "id", value="x"), 1),
        codes=("result-changed",),
        line=25,
    ),
    Case(code=Damage.SYSTEM_FOLDED, data=folded_system, codes=("system-folded",), line=18),
    Case(code=Damage.SYSTEM_MISPLACED, data=misplaced_system, codes=("system-misplaced",), line=10),
    # Messages
    Case(
        code=Damage.MESSAGE_WITHOUT_ID,
        data=lambda: spoiled(talk(), "assistant/message", cut("data", "message", "id")),
        codes=("message-without-id",),
        line=10,
    ),
    Case(
        code=Damage.MESSAGE_WRONG,
        data=lambda: spoiled(talk().note("a"), "user/message", put("data", "role", value="x"), 1),
        codes=("message-wrong",),
        line=18,
    ),
    Case(
        code=Damage.CHECKPOINT_SOURCE_WRONG,
        data=lambda: spoiled(compacted(), REPLACE, old_source, 1),
        codes=("checkpoint-source-wrong",),
        line=20,
    ),
    Case(
        code=Damage.REQUEST_HEADER_WRONG,
        data=lambda: spoiled(talk(), "request/header", put("data", "reason", value="why not")),
        codes=("request-header-wrong",),
        line=8,
    ),
    # Turns, steps, calls
    Case(
        code=Damage.TURN_UNBALANCED,
        data=lambda: without(compacted(), "turn/end"),
        codes=("bracket-turn-wrong", "bracket-turn-wrong", "turn-unbalanced"),
        line=22,
    ),
    Case(
        code=Damage.TURN_MISCOUNTED,
        data=lambda: talk().user("a").end().bytes().replace(b'"turn":2', b'"turn":3'),
        codes=("turn-miscounted",),
        line=19,
    ),
    Case(
        code=Damage.STEP_UNBALANCED,
        data=lambda: without(talk(), "step/end"),
        codes=("step-unbalanced",),
        line=13,
    ),
    Case(
        code=Damage.STEP_MISCOUNTED,
        data=lambda: talk().bytes().replace(b'"step":2', b'"step":4'),
        codes=("step-miscounted",),
        line=14,
    ),
    Case(
        code=Damage.OUTSIDE_TURN,
        data=lambda: talk().event("request/context", {"provider": "a", "model": "b"}).bytes(),
        codes=("outside-turn",),
        line=18,
    ),
    Case(
        code=Damage.OUTSIDE_STEP,
        data=lambda: spoiled(talk(), "assistant/message", extra_step, 1),
        codes=("outside-step",),
        line=15,
    ),
    Case(
        code=Damage.CALL_DIFFERS,
        data=lambda: spoiled(talk(), "tool/call", put("data", "arguments", value="{}")),
        codes=("call-differs",),
        line=11,
    ),
    Case(
        code=Damage.CALL_ID_REPEATED,
        data=doubled_id,
        codes=("call-id-repeated", "call-differs"),
        line=10,
    ),
    Case(
        code=Damage.RESULT_WITHOUT_CALL,
        data=lambda: without(talk(), "tool/call"),
        codes=("sources-later", "result-without-call"),
        line=11,
    ),
    Case(code=Damage.CALL_WITHOUT_RESULT, data=unanswered, codes=("call-without-result",), line=12),
    Case(code=Damage.RESULT_PARTED, data=parted_result, codes=("result-parted",), line=12),
    Case(code=Damage.CALL_PARTED, data=parted_call, codes=("call-parted",), line=10),
    # Compactions
    Case(code=Damage.BRACKET_NESTED, data=nested, codes=("bracket-nested",), line=19),
    Case(
        code=Damage.BRACKET_TURN_WRONG,
        data=lambda: spoiled(compacted(), "compaction/start", put("data", "turn", value=1)),
        codes=("bracket-turn-wrong",),
        line=18,
    ),
    Case(
        code=Damage.BRACKET_ID_WRONG,
        data=late_end,
        codes=("bracket-stale", "bracket-id-wrong"),
        line=20,
    ),
    Case(
        code=Damage.BRACKET_CROSSES_TURN,
        data=crossing,
        codes=("bracket-open", "bracket-crosses-turn", "bracket-crosses-turn"),
        line=20,
    ),
    Case(
        code=Damage.BRACKET_EMPTY,
        data=lambda: talk().open_bracket().close_bracket().bytes(),
        codes=("bracket-empty",),
        line=19,
    ),
    Case(
        code=Damage.SUMMARY_REPEATED,
        data=second_summary,
        codes=("summary-without-replacement", "summary-repeated"),
        line=20,
    ),
    Case(
        code=Damage.SUMMARY_MISSING,
        data=lambda: without(compacted(), "compaction/summary"),
        codes=("sources-later", "summary-missing", "bracket-empty"),
        line=19,
    ),
    Case(
        code=Damage.SUMMARY_WITHOUT_REPLACEMENT,
        data=lambda: without(compacted(), "user/message", 1),
        codes=("summary-without-replacement",),
        line=19,
    ),
    Case(
        code=Damage.PRUNE_WITHOUT_RESULT,
        data=lambda: without(pruned(), "tool/result", 1),
        codes=("prune-without-result",),
        line=24,
    ),
    Case(
        code=Damage.SHADOW_DIFFERS,
        data=lambda: spoiled(compacted(), "compaction/summary", shadow),
        codes=("shadow-differs",),
        line=19,
    ),
    # Records that cite others
    Case(code=Damage.TITLE_WRONG, data=lambda: title([0]), codes=("title-wrong",), line=18),
    Case(
        code=Damage.DELIVERY_WRONG,
        data=lambda: spoiled(
            delivered(),
            "session-log-deepseek/delivery-accepted",
            put("data", "sessionId", value="another"),
        ),
        codes=("delivery-wrong",),
        line=18,
    ),
    Case(
        code=Damage.PAIR_BROKEN,
        data=lambda: talk().event("command/done", {"commandId": "c", "kind": "success"}).bytes(),
        codes=("pair-broken",),
        line=18,
    ),
    Case(code=Damage.INBOX_WRONG, data=inbox, codes=("inbox-wrong",), line=18),
    # Warnings
    Case(
        code=Damage.TURN_OPEN,
        data=lambda: Conversation().user("a").bytes(),
        codes=("turn-open",),
        line=8,
    ),
    Case(code=Damage.CALL_OPEN, data=open_call, codes=("call-open", "turn-open"), line=9),
    Case(
        code=Damage.BRACKET_OPEN,
        data=lambda: talk().open_bracket().bytes(),
        codes=("bracket-open",),
        line=18,
    ),
    Case(
        code=Damage.BRACKET_STALE,
        data=lambda: talk().open_bracket().end_seed().bytes(),
        codes=("bracket-stale",),
        line=18,
    ),
    Case(
        code=Damage.PRUNE_UNANNOUNCED,
        data=lambda: without(pruned(), "compaction/prune"),
        codes=("prune-unannounced",),
        line=24,
    ),
    Case(
        code=Damage.PRICE_DIFFERS,
        data=lambda: spoiled(
            compacted(), "compaction/summary", put("data", "shadowedTokenCount", value=1)
        ),
        codes=("price-differs",),
        line=19,
    ),
)
