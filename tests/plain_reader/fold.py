"""The fold: what a log means. It keeps the surface in a plain list and walks it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plain_reader.lines import FORMATS, Record, is_seq
from plain_reader.prices import header_tokens, message_of, node_tokens
from plain_reader.rules import RuleError

MESSAGES = {"user/message", "assistant/message", "tool/result"}
LATER_MESSAGES = MESSAGES | {"system/message", "developer/message"}
PACKED = {"text-chunks": "texts", "reasoning-chunks": "texts", "tool-call-chunks": "args"}


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


def checkpoint_id(record: Record) -> str | None:
    """The compaction that a message is the checkpoint of, or None."""
    source = record["data"].get("source")
    if record["type"] != "user/message" or not isinstance(source, dict):
        return None
    plugin = source.get("kind") == "plugin" and source.get("plugin") == "compact"
    if plugin or source.get("kind") == "compact-checkpoint":
        return str(source.get("compactionId"))
    return None
