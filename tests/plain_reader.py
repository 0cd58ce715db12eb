"""A second reader of session logs: slow, short, and written from the format's description alone.

The rule of this file: it imports nothing of the product, decodes every line with the standard
library, keeps the surface in a plain list and looks things up by walking it. What the product
computes cleverly must equal what is computed here naively.

It checks two families of rules. The *fold* rules decide what a log means; a log that breaks one is
damaged at that record (`Reading.broken`). The *ledger* rules are those by which the harness refuses
to open a session whose fold is whole; the first broken rule of either family is `Reading.refused`.

It does not know how to mend a log, or how to go on behind the first broken fold rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

Record = dict[str, Any]

FORMATS = (0, 3, 4)
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MESSAGES = {"user/message", "assistant/message", "tool/result"}
LATER_MESSAGES = MESSAGES | {"system/message", "developer/message"}
PACKED = {"text-chunks": "texts", "reasoning-chunks": "texts", "tool-call-chunks": "args"}
SILENT_WHEN_EMPTY = {"assistant/message", "system/message", "developer/message"}
KNOWN_EVENTS = LATER_MESSAGES | {
    "agent/inbox/spliced",
    "assistant/attempt",
    "assistant/chunk",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "request/context",
    "request/header",
    "session-log-deepseek/delivery-accepted",
    "session/end-seed",
    "session/title",
    "step/end",
    "step/start",
    "tool/call",
    "turn/end",
    "turn/start",
}
HEADER_KEYS = {
    "type",
    "version",
    "id",
    "createdAt",
    "cwd",
    "isSeeded",
    "delegationDepth",
    "parentSession",
    "seedLength",
    "origin",
    "agentPreset",
}
NOT_STARTED = "TOOL_NOT_STARTED"  # the error of a result that the harness wrote on resume
IN_OPEN_STEP = {"assistant/message", "assistant/attempt", "tool/call", "system/message"}

FOLD_RULES = {
    "not-utf8": "every line is UTF-8",
    "not-json": "every line is one JSON value",
    "too-deep": "no line nests deeper than the standard library can follow",
    "record-shape": "a record is an object with a type, a seq, a time and data",
    "header-missing": "the first record is the session's header",
    "unsupported-format": "the header's version is 0, 3 or 4",
    "bad-frame": "every frame but a torn last one unpacks, and its checksum is right",
    "packed-row": "a packed row's lists (format 0) have fitting lengths",
    "seq-gap": "no seq is left out",
    "seq-repeated": "no seq is used twice",
    "surface-op-missing": "a surface event says what it does to the surface",
    "surface-op-forbidden": "no other event touches the surface",
    "surface-op-shape": 'an operation is "append" or a replace as the format writes it',
    "message-shape": "a surface event holds a message that can be priced",
    "range-not-on-surface": "both ends of a replaced range are on the surface",
    "range-backwards": "a range's start does not stand behind its end",
    "sources-shape": "a replacement's sourceEventSeqs is a list of seqs",
    "sources-repeated": "a replacement's sourceEventSeqs names nothing twice",
    "sources-not-earlier": "a replacement's sourceEventSeqs names only earlier events",
    "sources-incomplete": "a replacement's sourceEventSeqs names every node that leaves",
    "result-replaces-other": "a tool result replaces exactly one tool result",
    "result-changes-more": "a replacing tool result changes nothing but the content",
    "system-prompt-folded": "the system prompt at the head is replaced only by another, alone",
}

LEDGER_RULES = {
    "header-key-unknown": "the header has no unknown key",
    "event-unknown": "an event of unknown type is marked ignorable",
    "turn-order": "turns count 1, 2, 3 and do not overlap",
    "turn-end": "a turn ends once, under its own number",
    "step-order": "steps count 1, 2, 3 within an open turn and do not overlap",
    "step-end": "a step ends once, under its own numbers",
    "step-open-at-turn-end": "no turn ends with an open step",
    "call-unanswered": "no step or turn ends with an unanswered call",
    "outside-step": "what a request yields stands in its open turn and step",
    "outside-turn": "request facts stand in an open turn",
    "call-differs": "a started call equals the call in the message",
    "call-repeated": "no call is started or promised twice in a step",
    "result-without-call": "an appended result answers a started call, or says it never was, once",
    "message-without-id": "every surface message has an id",
    "bracket-turn": "a compaction starts under the open turn's number, or null between turns",
    "bracket-nested": "no compaction starts inside another",
    "turn-in-bracket": "no turn starts or ends inside an open compaction",
    "bracket-foreign": "summary, checkpoint and end carry the open compaction's id",
    "summary-repeated": "a compaction has one summary",
    "summary-alone": "a summary stands directly before the checkpoint over the same range",
    "end-without-summary": "a compaction without a summary ends with an error",
    "shadow-wrong": "shadowedSeqs are exactly the nodes from range start to range end",
    "price-wrong": "shadowedTokenCount is the price of the nodes that leave",
    "prune-alone": "a prune stands directly before the tool result that replaces its node",
    "prune-outside-turn": "tool results are pruned only while a turn is open",
    "checkpoint-kind": "a checkpoint's source is of the kind that the format uses",
    "event-shape": "an event holds what its type promises",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first record that breaks a rule: 1-based line, the seq it claims or None, the rule."""

    line: int
    seq: int | None
    rule: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One place on the surface: the record that stands there, and its price."""

    seq: int
    type: str
    tokens: int
    record: Record

    @property
    def message(self) -> Record:
        """The message as the log holds it."""
        return message_of(self.record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One move of the generation."""

    generation: int
    seq: int
    kind: str
    shadowed_seqs: list[int]
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One finished bracket; `error` is None where it succeeded."""

    start_seq: int
    end_seq: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The pressure at the end of the log, in tokens; None where the log does not say."""

    baseline: str
    baseline_tokens: int
    delta_tokens: int
    total_tokens: int
    surface_tokens: int
    header_tokens: int
    provider: str | None
    model: str | None
    context_window: int | None
    provider_limit: int | None

    @property
    def window_tokens(self) -> int | None:
        """The routed model's window, capped by what a refusal taught."""
        known = [x for x in (self.context_window, self.provider_limit) if x is not None]
        return min(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that a log says, up to its end or to the first broken fold rule."""

    header: Record
    events: int
    records: list[Record]
    nodes: list[Node]
    replacements: list[Replacement]
    compactions: list[Compaction]
    measure: Measure
    torn: bool
    broken: Broken | None
    refused: Broken | None

    @property
    def format(self) -> int | None:
        """The header's version; None where there is no header."""
        return self.header.get("version")

    @property
    def generation(self) -> int:
        """How often part of the surface was replaced."""
        return len(self.replacements)

    @property
    def node_seqs(self) -> list[int]:
        """The seqs of the surface, in the order in which the model sees them."""
        return [node.seq for node in self.nodes]


class RuleError(Exception):
    """A rule is broken by the record at hand."""

    def __init__(self, rule: str, detail: str = "") -> None:
        super().__init__(rule)
        self.rule = rule
        self.detail = detail


def read(data: bytes) -> Reading:
    """Everything about a log's bytes, plain or framed. Raises nothing, whatever the bytes."""
    fold, ledger, history = Fold(), Ledger(), History()
    records: list[Record] = []
    broken: Broken | None = None
    refused: Broken | None = None
    lines, torn, bad_frame = whole_lines(data)
    for line, raw in enumerate(lines, start=1):
        record: Record = {}
        try:
            record = decode(raw)
            if refused is None:
                refused = ledger.refusal(line, record, fold)
            fold.extend(record)
        except RuleError as fault:
            undecodable = fault.rule in ("not-json", "not-utf8")
            if undecodable and line == len(lines) > 1 and bad_frame is None:
                torn = True  # the harness opens a log whose last line alone is damaged
            else:
                broken = Broken(line=line, seq=claim(record), rule=fault.rule, detail=fault.detail)
            break
        history.extend(record)
        records.append(record)
    if broken is None and bad_frame is not None:
        broken = Broken(line=len(lines) + 1, seq=None, rule="bad-frame", detail=bad_frame)
    if broken is None and not records:
        broken = Broken(line=1, seq=None, rule="header-missing", detail="there is no whole record")
    if broken is not None and (refused is None or refused.line >= broken.line):
        refused = broken
    return Reading(
        header=fold.header,
        events=fold.next_seq,
        records=records,
        nodes=fold.nodes,
        replacements=fold.replacements,
        compactions=history.compactions,
        measure=fold.measure(),
        torn=torn,
        broken=broken,
        refused=refused,
    )


# From bytes to records


def whole_lines(data: bytes) -> tuple[list[bytes], bool, str | None]:
    """The lines that end in a newline, whether more bytes follow, and what is wrong with a frame.

    A torn last frame counts as never appended, whatever could be read out of it.
    """
    torn, bad_frame = False, None
    if data[:4] == ZSTD_MAGIC:
        data, torn, bad_frame = unpack(data)
    *lines, rest = data.split(b"\n")
    return lines, torn or bool(rest), bad_frame


def unpack(data: bytes) -> tuple[bytes, bool, str | None]:
    """The text of all whole frames, whether the last one is torn, and what stopped the reading."""
    import zstandard

    parts: list[bytes] = []
    while data.strip(b"\0"):
        try:
            length = frame_length(data)
            if length is None:
                return b"".join(parts), True, None
            part = zstandard.ZstdDecompressor().decompressobj().decompress(data[:length])
        except (zstandard.ZstdError, RuleError) as fault:
            return b"".join(parts), False, str(fault)
        if not part.endswith(b"\n"):
            return b"".join(parts), False, "the frame ends inside a record"
        parts.append(part)
        data = data[length:]
    return b"".join(parts), bool(data), None  # a crash may leave zeros behind the last frame


def frame_length(data: bytes) -> int | None:
    """Where the first frame ends, by its blocks' headers (RFC 8878); None where data ends before.

    Whether bytes are torn or damaged can't be told by unpacking them: half a block is both.
    """
    if data[:4] != ZSTD_MAGIC[: len(data)]:
        raise RuleError("bad-frame", "no frame begins here")
    if len(data) < 5:
        return None
    flags = data[4]
    sizes = {"window": 1 - (flags >> 5 & 1), "dictionary": (0, 1, 2, 4)[flags & 3]}
    sizes["content"] = (flags >> 5 & 1, 2, 4, 8)[flags >> 6]
    place, last = 5 + sum(sizes.values()), 0
    while not last:
        if len(data) < place + 3:
            return None
        block = int.from_bytes(data[place : place + 3], "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        if kind == 3:
            raise RuleError("bad-frame", "a block of no kind")
        place += 3 + (1 if kind == 1 else size)
    place += 4 * (flags >> 2 & 1)  # the checksum
    return place if len(data) >= place else None


def decode(raw: bytes) -> Record:
    """One line as a record. Raises RuleError."""
    try:
        record = json.loads(raw.decode("utf-8"), parse_constant=not_a_number)
    except UnicodeDecodeError as fault:
        raise RuleError("not-utf8", str(fault)) from None
    except RecursionError:
        raise RuleError("too-deep") from None
    except ValueError as fault:
        raise RuleError("not-json", str(fault)) from None
    if not isinstance(record, dict) or not record:
        raise RuleError("record-shape", f"not an object: {record!r:.40}")
    return record


def not_a_number(name: str) -> float:
    """JSON has no NaN and no Infinity, though the standard library takes them."""
    raise ValueError(f"{name} is not JSON")


def claim(record: Record) -> int | None:
    """The seq that a record claims, for the report of its fault."""
    seq = record.get("seq", record.get("seq0"))
    return seq if is_seq(seq) else None


def is_seq(value: object) -> TypeGuard[int]:
    """Whether a value can be the number of an event."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# Prices, in the harness's own estimate


def units(text: str) -> int:
    """The length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def quarter(length: int) -> int:
    """A length in tokens: ceil(length / 4)."""
    return -(-length // 4)


def js_number(value: float) -> str:
    """A number as JavaScript writes it, which holds every number as a double."""
    double = float(value)
    if double == int(double) and abs(double) < 1e21:
        return str(int(double))
    digits, _, exponent = repr(double).partition("e")
    if not exponent and abs(double) >= 1e-6:
        return digits
    power = int(exponent or 0)
    if -7 < power < 0:
        return f"{double:.{len(digits.replace('.', '').lstrip('-')) - 1 - power}f}"
    return f"{digits.removesuffix('.0')}e{power:+d}"


def js_json(value: object) -> str:
    """Compact JSON as JavaScript writes it: lone surrogates are escaped, all else stays."""
    match value:
        case dict():
            return "{" + ",".join(f"{js_json(k)}:{js_json(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(js_json(item) for item in value) + "]"
        case bool() | None:
            return json.dumps(value)
        case int() | float():
            return js_number(value)
        case _:
            written = json.dumps(value, ensure_ascii=False)
            return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", written)


def block_tokens(block: Any) -> int:
    """The price of one content block. Raises RuleError where what it is priced by is missing."""
    if not isinstance(block, dict):
        raise RuleError("message-shape", "a block is not an object")
    kind = block.get("type")
    if not isinstance(kind, str):
        raise RuleError("message-shape", "a block without a type")
    if kind in ("text", "reasoning"):
        return quarter(units(text_of(block, "text"))) + 4
    if kind == "tool-call":
        name, arguments = text_of(block, "name"), text_of(block, "arguments")
        return quarter(units(name)) + quarter(units(arguments)) + 4
    if kind == "tool-result":
        return content_tokens(block.get("content")) + 4
    return quarter(units(js_json(block))) + 4


def text_of(block: Record, key: str) -> str:
    """A text that a block must have."""
    value = block.get(key)
    if not isinstance(value, str):
        raise RuleError("message-shape", f"{block['type']} without {key}")
    return value


def content_tokens(content: Any) -> int:
    """The price of a list of blocks."""
    if not isinstance(content, list):
        raise RuleError("message-shape", "content is not a list")
    return sum(block_tokens(block) for block in content)


def message_of(record: Record) -> Record:
    """The message inside a surface event."""
    data: Record = record["data"]
    message = data if record["type"] == "user/message" else data.get("message")
    if not isinstance(message, dict):
        raise RuleError("message-shape", "no message")
    return message


def node_tokens(record: Record) -> int:
    """The price of a surface event."""
    content = message_of(record).get("content")
    if content == [] and record["type"] in SILENT_WHEN_EMPTY:
        return 0
    return content_tokens(content) + 4


def header_tokens(header: Record | None) -> int:
    """The price of a request header: its system prompt (format 0) and its tools."""
    if header is None:
        return 0
    system, tools = header.get("system"), header.get("tools")
    price = quarter(units(system)) + 4 if system else 0
    return price + (quarter(units(js_json(tools))) + 4 if tools else 0)


# The fold


class Fold:
    """The surface and what its price depends on. One record at a time; all rules or no change."""

    def __init__(self) -> None:
        self.header: Record = {}
        self.next_seq = 0
        self.nodes: list[Node] = []
        self.replacements: list[Replacement] = []
        self.request_header: Record | None = None
        self.windows: dict[tuple[Any, Any], int] = {}
        self.limits: dict[tuple[Any, Any], int] = {}
        self.step_surface_tokens: int | None = None
        self.answer: Anchor | None = None
        self.rejection: Anchor | None = None

    @property
    def surface_tokens(self) -> int:
        """The price of the surface as it stands."""
        return sum(node.tokens for node in self.nodes)

    def extend(self, record: Record) -> None:
        """Take one more record. Raises RuleError, and then nothing has changed."""
        if not self.header:
            self.begin(record)
            return
        count = self.counted(record)
        if "surfaceOp" in record or record["type"] in self.surface_types():
            self.move(record)
        self.next_seq += count
        self.remember(record)

    def begin(self, record: Record) -> None:
        """Take the session's header."""
        if record.get("type") != "session":
            raise RuleError("header-missing", f"the first record is {record.get('type')!r:.40}")
        version = record.get("version")
        if isinstance(version, bool) or version not in FORMATS:
            raise RuleError("unsupported-format", f"version {version!r:.40}")
        self.header = record

    def surface_types(self) -> set[str]:
        """The types of event that this format puts on the surface."""
        return MESSAGES if self.header["version"] == 0 else LATER_MESSAGES

    def counted(self, record: Record) -> int:
        """How many events a record stands for, once its seq is the one that is due."""
        if not isinstance(record.get("type"), str) or not isinstance(record.get("data"), dict):
            raise RuleError("record-shape", "an event needs a type and data")
        packed = record["type"] in PACKED and self.header["version"] == 0
        seq, time = (record.get(f"{key}0" if packed else key) for key in ("seq", "time"))
        if not is_seq(seq):
            raise RuleError("record-shape", f"seq {seq!r:.40}")
        if isinstance(time, bool) or not isinstance(time, (int, float)):
            raise RuleError("record-shape", f"time {time!r:.40}")
        if seq > self.next_seq:
            raise RuleError("seq-gap", f"expected {self.next_seq}")
        if seq < self.next_seq:
            raise RuleError("seq-repeated", f"expected {self.next_seq}")
        if not packed:
            return 1
        pieces = record["data"].get(PACKED[record["type"]])
        waits = record["data"].get("dt")
        if not isinstance(pieces, list) or not isinstance(waits, list):
            raise RuleError("packed-row", "a list is missing")
        if not pieces or len(waits) != len(pieces) - 1:
            raise RuleError("packed-row", f"{len(pieces)} pieces, {len(waits)} waits")
        return len(pieces)

    def move(self, record: Record) -> None:
        """Do to the surface what the record says."""
        if record["type"] not in self.surface_types():
            raise RuleError("surface-op-forbidden", record["type"])
        if record.get("surfaceOp") is None:
            raise RuleError("surface-op-missing")
        first, last = self.ends(record["surfaceOp"])
        node = Node(
            seq=record["seq"], type=record["type"], tokens=node_tokens(record), record=record
        )
        if first is None:
            self.nodes.append(node)
            return
        sources = list(self.sources(record))
        start, end = self.place(first), self.place(last)
        if start > end:
            raise RuleError("range-backwards", f"{first} stands behind {last}")
        leaving = self.nodes[start : end + 1]
        missing = [gone.seq for gone in leaving if gone.seq not in sources]
        if missing:
            raise RuleError("sources-incomplete", f"{missing} left out")
        self.check_kinds(node, start, leaving)
        self.nodes[start : end + 1] = [node]
        self.replacements.append(
            Replacement(
                generation=len(self.replacements) + 1,
                seq=node.seq,
                kind=kind_of(node),
                shadowed_seqs=[gone.seq for gone in leaving],
                tokens_before=sum(gone.tokens for gone in leaving),
                tokens_after=node.tokens,
            )
        )

    def ends(self, operation: Any) -> tuple[int | None, int | None]:
        """The seqs between which nodes leave; both None for an append."""
        if operation == "append":
            return None, None
        names = ("start", "end") if self.header["version"] == 0 else ("startSeq", "endSeq")
        if not isinstance(operation, dict) or operation.get("op") != "replace":
            raise RuleError("surface-op-shape", f"{operation!r:.60}")
        first, last = (operation.get(name) for name in names)
        if not is_seq(first) or not is_seq(last):
            raise RuleError("surface-op-shape", f"{operation!r:.60}")
        return first, last

    def place(self, seq: int | None) -> int:
        """Where on the surface a seq stands."""
        for place, node in enumerate(self.nodes):
            if node.seq == seq:
                return place
        raise RuleError("range-not-on-surface", f"{seq}")

    def sources(self, record: Record) -> Iterator[int]:
        """The events that the record was made from, ranges of format 0 spelt out."""
        named = record.get("sourceEventSeqs", [])
        if not isinstance(named, list):
            raise RuleError("sources-shape")
        seen: set[int] = set()
        for item in named:
            ends = item if isinstance(item, list) and self.header["version"] == 0 else [item, item]
            if len(ends) != 2 or not all(is_seq(end) for end in ends) or ends[0] > ends[1]:
                raise RuleError("sources-shape", f"{item!r:.40}")
            if ends[1] >= record["seq"]:
                raise RuleError("sources-not-earlier", f"{ends[1]}")
            for seq in range(ends[0], ends[1] + 1):
                if seq in seen:
                    raise RuleError("sources-repeated", f"{seq}")
                seen.add(seq)
                yield seq

    def check_kinds(self, node: Node, start: int, leaving: list[Node]) -> None:
        """What kind of event may stand in for which others."""
        if node.type == "tool/result":
            if len(leaving) != 1 or leaving[0].type != "tool/result":
                raise RuleError("result-replaces-other")
            if self.but_content(node.record) != self.but_content(leaving[0].record):
                raise RuleError("result-changes-more")
        at_head = start == 0 and leaving[0].type == "system/message"
        if at_head and (node.type != "system/message" or len(leaving) != 1):
            raise RuleError("system-prompt-folded")

    def but_content(self, record: Record) -> str:
        """All that a tool result says beside its content."""
        data = json.loads(json.dumps(record["data"]))
        message = data["message"]
        if self.header["version"] == 4:
            message.pop("content")
        else:
            for block in message["content"]:
                block.pop("content", None)
        return json.dumps(data, sort_keys=True)

    def remember(self, record: Record) -> None:
        """Note what the measure depends on."""
        data = record["data"]
        match record["type"]:
            case "step/start":
                self.step_surface_tokens = self.surface_tokens
            case "request/header":
                header = data.get("header")
                self.request_header = header if isinstance(header, dict) else None
            case "request/context":
                window = data.get("contextWindow")
                if is_seq(window):
                    self.windows[data.get("provider"), data.get("model")] = window
            case "assistant/message":
                self.note_answer(record)
            case "assistant/attempt":
                stream = data.get("stream")
                self.note_failure(stream[-1] if isinstance(stream, list) and stream else None)
            case "assistant/chunk" if self.header["version"] == 0:
                if failure_of(data) is not None:
                    self.note_failure(data)

    def note_answer(self, record: Record) -> None:
        """A request was answered: it is the anchor, and no refusal before it counts."""
        price = node_tokens(record)
        before = self.step_surface_tokens
        surface = self.surface_tokens if before is None else before + price
        self.answer = Anchor(
            surface_tokens=surface,
            baseline_tokens=usage_tokens(record["data"].get("usage")),
            header=self.request_header,
        )
        self.rejection = None

    def note_failure(self, finish: Any) -> None:
        """A request failed; a refusal that says how many tokens it had is a measurement."""
        self.rejection = None
        found = refusal_numbers(failure_of(finish))
        if found is None:
            return
        limit, tokens = found
        self.limits[self.model()] = limit
        self.rejection = Anchor(
            surface_tokens=self.surface_tokens, baseline_tokens=tokens, header=self.request_header
        )

    def model(self) -> tuple[Any, Any]:
        """Provider and model of the newest request header."""
        config = (self.request_header or {}).get("config")
        if not isinstance(config, dict):
            return None, None
        return config.get("provider"), config.get("model")

    def measure(self) -> Measure:
        """The pressure as it stands."""
        now, header = self.surface_tokens, header_tokens(self.request_header)
        baseline, tokens, delta = self.baseline(now, header)
        provider, model = self.model()
        return Measure(
            baseline=baseline,
            baseline_tokens=tokens,
            delta_tokens=delta,
            total_tokens=tokens + delta,
            surface_tokens=now,
            header_tokens=header,
            provider=provider,
            model=model,
            context_window=self.windows.get((provider, model)),
            provider_limit=self.limits.get((provider, model)),
        )

    def baseline(self, now: int, header: int) -> tuple[str, int, int]:
        """Its kind, its tokens, and how far the surface has moved since."""
        anchor = self.rejection or self.answer
        if anchor is None or anchor.header != self.request_header:
            kind = "estimated" if now + header else "none"
            return kind, header + now, 0
        delta = now - anchor.surface_tokens
        floor = header + anchor.surface_tokens
        if anchor is self.rejection:
            assert anchor.baseline_tokens is not None
            return "rejected", anchor.baseline_tokens, delta
        if anchor.baseline_tokens is not None and anchor.baseline_tokens >= floor:
            return "usage", anchor.baseline_tokens, delta
        return "estimated", floor, delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A request whose size is known or estimated, and the surface as it stood at it."""

    surface_tokens: int
    baseline_tokens: int | None
    header: Record | None


def kind_of(node: Node) -> str:
    """Whether a replacement is a prune, a summary's checkpoint, or something else."""
    if node.type == "tool/result":
        return "prune"
    return "summary" if checkpoint_id(node.record) is not None else "other"


def usage_tokens(usage: Any) -> int | None:
    """What a request and its answer took together, as the provider counted."""
    if not isinstance(usage, dict):
        return None
    names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")
    return sum(usage.get(name) or 0 for name in names)


def failure_of(item: Any) -> Any:
    """The failure in a stream's finish, or None."""
    if not isinstance(item, dict) or not isinstance(item.get("chunk"), dict):
        return None
    reason = item["chunk"].get("reason")
    if item["chunk"].get("type") != "finish" or not isinstance(reason, dict):
        return None
    return reason.get("failure") if reason.get("kind") == "error" else None


REFUSAL = re.compile(
    r"maximum context length is (\d+) tokens\. However, you requested (\d+) tokens"
    r"(?: \((\d+) in the messages, (\d+) in the completion\))?"
)


def refusal_numbers(failure: Any) -> tuple[int, int] | None:
    """The limit and the size of the refused input, where a refusal states them."""
    if not isinstance(failure, dict) or failure.get("code") != "CONTEXT_WINDOW_EXCEEDED":
        return None
    message = failure.get("message")
    found = REFUSAL.search(message) if isinstance(message, str) else None
    return (int(found[1]), int(found[3] or found[2])) if found else None


# The ledger


def checkpoint_id(record: Record) -> str | None:
    """The compaction that a message is the checkpoint of, or None."""
    source = record["data"].get("source")
    if record["type"] != "user/message" or not isinstance(source, dict):
        return None
    plugin = source.get("kind") == "plugin" and source.get("plugin") == "compact"
    if plugin or source.get("kind") == "compact-checkpoint":
        return str(source.get("compactionId"))
    return None


class History:
    """The finished brackets."""

    def __init__(self) -> None:
        self.open: Record | None = None
        self.compactions: list[Compaction] = []

    def extend(self, record: Record) -> None:
        """Pair starts with ends by their ids."""
        if record["type"] == "compaction/start":
            self.open = record
        if record["type"] != "compaction/end" or self.open is None:
            return
        data = record["data"]
        if data.get("compactionId") == self.open["data"].get("compactionId"):
            self.compactions.append(
                Compaction(
                    start_seq=self.open["seq"], end_seq=record["seq"], error=data.get("error")
                )
            )
            self.open = None


class Ledger:
    """The rules that the harness opens a session by, beyond the fold's."""

    def __init__(self) -> None:
        self.format: int | None = None
        self.turn: int | None = None
        self.last_turn = 0
        self.step: int | None = None
        self.last_step = 0
        self.calls: dict[str, Record] = {}
        self.bracket: Record | None = None
        self.summarised = False
        self.stale = False
        self.before: Record = {}

    def refusal(self, line: int, record: Record, fold: Fold) -> Broken | None:
        """The rule that the record breaks, given the surface before it; or None."""
        try:
            if self.format is None:
                self.begin(record)
            else:
                self.check(record, fold)
        except RuleError as fault:
            return Broken(line=line, seq=claim(record), rule=fault.rule, detail=fault.detail)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as fault:
            return Broken(line=line, seq=claim(record), rule="event-shape", detail=repr(fault))
        return None

    def begin(self, record: Record) -> None:
        """The header's keys."""
        unknown = set(record) - HEADER_KEYS
        if unknown:
            raise RuleError("header-key-unknown", f"{sorted(unknown)}")
        self.format = record["version"]

    def check(self, record: Record, fold: Fold) -> None:
        """All that one event must keep."""
        kind, data = record["type"], record["data"]
        known = kind in KNOWN_EVENTS or (kind in PACKED and self.format == 0)
        if not known and record.get("ignorable") is not True:
            raise RuleError("event-unknown", kind)
        self.check_pairs(record)
        self.check_place(record)
        if "surfaceOp" in record:
            self.check_message(record, fold)
        match kind:
            case "turn/start" | "turn/end":
                self.take_turn(kind, data)
            case "step/start" | "step/end":
                self.take_step(kind, data)
            case "tool/call":
                self.take_call(data)
            case "session/end-seed":
                self.stale = self.bracket is not None
            case "compaction/start" | "compaction/end":
                self.take_bracket(kind, data)
            case "compaction/summary" | "compaction/prune":
                self.take_shadow(kind, data, fold)
        self.before = record

    def check_pairs(self, record: Record) -> None:
        """A summary or a prune stands directly before the event that it announces."""
        announced, op = self.before.get("type"), record.get("surfaceOp")
        replaces = isinstance(op, dict)
        if announced == "compaction/summary":
            same = self.before["data"]["compactionId"] == checkpoint_id(record)
            if not (replaces and same and self.ends(op) == self.shadow_ends()):
                raise RuleError("summary-alone", "no checkpoint follows")
        elif replaces and checkpoint_id(record) is not None:
            raise RuleError("summary-alone", "no summary stands before the checkpoint")
        pruned = record["type"] == "tool/result" and replaces
        if announced == "compaction/prune":
            if not (pruned and self.ends(op) == self.shadow_ends()):
                raise RuleError("prune-alone", "no replacing result follows")
        elif pruned:
            raise RuleError("prune-alone", "no prune stands before the replacing result")

    def ends(self, op: Any) -> tuple[Any, Any]:
        """The range of a replace operation."""
        names = ("start", "end") if self.format == 0 else ("startSeq", "endSeq")
        return op[names[0]], op[names[1]]

    def shadow_ends(self) -> tuple[Any, Any]:
        """The range that the event before announced."""
        shadow = self.before["data"]["shadowedRange"]
        return shadow["start"], shadow["end"]

    def check_place(self, record: Record) -> None:
        """What belongs into a step or a turn stands in one that is open."""
        kind, data = record["type"], record["data"]
        appended_result = kind == "tool/result" and record.get("surfaceOp") == "append"
        if (kind in IN_OPEN_STEP or appended_result) and (
            self.step is None or (data["turn"], data["step"]) != (self.turn, self.step)
        ):
            raise RuleError("outside-step", kind)
        if kind in ("request/header", "request/context") and self.turn is None:
            raise RuleError("outside-turn", kind)
        if kind == "tool/result" and not appended_result and self.turn is None:
            raise RuleError("prune-outside-turn")

    def check_message(self, record: Record, fold: Fold) -> None:
        """Ids, calls and answers in messages."""
        message = message_of(record)
        if not isinstance(message.get("id"), str):
            raise RuleError("message-without-id")
        kind, appended = record["type"], record["surfaceOp"] == "append"
        if kind == "assistant/message":
            for block in message["content"]:
                if block["type"] == "tool-call":
                    self.promise(block)
        if kind == "tool/result" and appended:
            error = record["data"].get("error") or {}
            self.answer(self.answered_call(message), started=error.get("code") != NOT_STARTED)
        named = checkpoint_id(record)
        if named is not None and not appended:
            self.check_checkpoint(named, message["source"]["kind"])

    def promise(self, block: Record) -> None:
        """A call stands in the message; it is to be started and answered in this step."""
        if block["id"] in self.calls:
            raise RuleError("call-repeated", block["id"])
        self.calls[block["id"]] = {
            "name": block["name"],
            "arguments": block["arguments"],
            "started": False,
            "answered": False,
        }

    def take_call(self, data: Record) -> None:
        """A call is started."""
        call = self.calls.get(data["callId"])
        if call is None:
            raise RuleError("call-differs", f"{data['callId']!r:.40} stands in no message")
        if (call["name"], call["arguments"]) != (data["name"], data["arguments"]):
            raise RuleError("call-differs", data["callId"])
        if call["started"]:
            raise RuleError("call-repeated", data["callId"])
        call["started"] = True

    def answered_call(self, message: Record) -> str:
        """The call that a result says it answers."""
        block: Record = message if self.format == 4 else message["content"][0]
        name: str = block["toolCallId"]
        if message["source"]["callId"] != name:
            raise RuleError("result-without-call", "its source names another call")
        return name

    def answer(self, call_id: str, *, started: bool) -> None:
        """A result arrived; on resume the harness answers even calls that were never started."""
        call = self.calls.get(call_id)
        if call is None or call["started"] != started or call["answered"]:
            raise RuleError("result-without-call", f"{call_id!r:.40}")
        call["answered"] = True

    def check_unanswered(self) -> None:
        """Every promised call has its answer."""
        waiting = [name for name, call in self.calls.items() if not call["answered"]]
        if waiting:
            raise RuleError("call-unanswered", f"{waiting}")

    def take_turn(self, kind: str, data: Record) -> None:
        """A turn starts or ends."""
        if self.bracket is not None and not self.stale:
            raise RuleError("turn-in-bracket", kind)
        if kind == "turn/start":
            if self.turn is not None or not same_int(data["turn"], self.last_turn + 1):
                raise RuleError("turn-order", f"{data['turn']!r:.20} after {self.last_turn}")
            self.turn = self.last_turn = data["turn"]
            self.last_step = 0
            return
        if self.turn is None or not same_int(data["turn"], self.turn):
            raise RuleError("turn-end", f"{data['turn']!r:.20}, open is {self.turn}")
        self.check_unanswered()
        if self.step is not None:
            raise RuleError("step-open-at-turn-end", f"{self.step}")
        self.turn = None

    def take_step(self, kind: str, data: Record) -> None:
        """A step starts or ends."""
        numbers = (data["turn"], data["step"])
        if kind == "step/start":
            if self.turn is None or self.step is not None:
                raise RuleError("step-order", f"{numbers} outside a turn, or inside another step")
            if not same_int(data["turn"], self.turn) or not same_int(
                data["step"], self.last_step + 1
            ):
                raise RuleError("step-order", f"{numbers} after {self.turn}, {self.last_step}")
            self.step = self.last_step = data["step"]
            self.calls = {}
            return
        if self.step is None or numbers != (self.turn, self.step):
            raise RuleError("step-end", f"{numbers}, open is {self.turn}, {self.step}")
        self.check_unanswered()
        self.step = None
        self.calls = {}

    def take_bracket(self, kind: str, data: Record) -> None:
        """A compaction starts or ends."""
        if kind == "compaction/start":
            if self.bracket is not None and not self.stale:
                raise RuleError("bracket-nested")
            if data["turn"] != self.turn:
                raise RuleError("bracket-turn", f"{data['turn']!r:.20}, open is {self.turn}")
            self.bracket, self.summarised, self.stale = data, False, False
            return
        self.check_bracket(data["compactionId"])
        if data.get("error") is None and not self.summarised:
            raise RuleError("end-without-summary")
        self.bracket = None
        self.stale = False

    def check_bracket(self, compaction_id: Any) -> None:
        """The open compaction is the one that is named."""
        if self.bracket is None or self.bracket["compactionId"] != compaction_id:
            raise RuleError("bracket-foreign", f"{compaction_id!r:.60}")

    def check_checkpoint(self, named: str, kind: str) -> None:
        """A checkpoint belongs to the open compaction and says so in the format's way."""
        self.check_bracket(named)
        if kind != ("compact-checkpoint" if self.format == 4 else "plugin"):
            raise RuleError("checkpoint-kind", kind)

    def take_shadow(self, kind: str, data: Record, fold: Fold) -> None:
        """A summary or a prune says which nodes will leave, and their price."""
        if kind == "compaction/summary":
            self.check_bracket(data["compactionId"])
            if self.summarised:
                raise RuleError("summary-repeated")
        ends = data["shadowedRange"]
        try:
            start, end = fold.place(ends["start"]), fold.place(ends["end"])
        except RuleError as fault:
            raise RuleError("shadow-wrong", fault.detail) from None
        leaving = fold.nodes[start : end + 1]
        if not leaving or data["shadowedSeqs"] != [node.seq for node in leaving]:
            raise RuleError("shadow-wrong", f"{data['shadowedSeqs']!r:.60}")
        price = sum(node.tokens for node in leaving)
        if data["shadowedTokenCount"] != price:
            raise RuleError("price-wrong", f"{data['shadowedTokenCount']!r:.40}, is {price}")
        self.summarised = self.summarised or kind == "compaction/summary"


def same_int(found: object, wanted: int) -> bool:
    """Whether a value is that whole number, and not a truth value that equals it."""
    return isinstance(found, int) and not isinstance(found, bool) and found == wanted
