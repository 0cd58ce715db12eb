"""What a right reader finds in a format-4 log: computed once more, in the plainest way there is.

The rule: plain loops over lists and dicts, nothing remembered between them, nothing shared with any
other reader. It trusts the log (the harness wrote it) and checks one thing only: that the price
which the harness itself noted beside every compaction is the price computed here.
"""

from __future__ import annotations

import json
import re
from typing import Any

Record = dict[str, Any]

SILENT = {"system/message", "developer/message", "assistant/message"}
TOO_LONG = re.compile(r"maximum context length is (\d+) tokens.*requested (\d+) tokens")


def explain(records: list[Record]) -> Record:
    """The facts that `expected.json` lists for each log, under its names."""
    events = records[1:]
    nodes, replacements, totals = fold(events)
    return {
        "format": records[0]["version"],
        "events": len(events),
        "generation": len(replacements),
        "node_seqs": nodes,
        "window": newest(events, "request/context", {}).get("contextWindow"),
        "replacements": replacements,
        "compactions": compactions_in(events),
        "measure_at_end": {**measure_at_end(events, totals), "nodes": len(nodes)},
    }


def fold(events: list[Record]) -> tuple[list[int], list[Record], list[int]]:
    """The surface's seqs, every replacement, and the surface's price behind each event."""
    nodes: list[int] = []
    prices: dict[int, int] = {}
    replacements: list[Record] = []
    totals: list[int] = []
    for event in events:
        op, seq = event.get("surfaceOp"), event["seq"]
        if op is not None:
            prices[seq] = price_of_message(event["type"], event["data"])
        if op == "append":
            nodes.append(seq)
        elif op is not None:
            first, last = nodes.index(op["startSeq"]), nodes.index(op["endSeq"])
            gone = nodes[first : last + 1]
            nodes[first : last + 1] = [seq]
            before = sum(prices[n] for n in gone)
            assert noted_price(events, event) in (None, before), f"seq {seq}"
            replacements.append(
                {
                    "generation": len(replacements) + 1,
                    "seq": seq,
                    "shadowed_seqs": gone,
                    "tokens_before": before,
                    "tokens_after": prices[seq],
                }
            )
        totals.append(sum(prices[n] for n in nodes))
    return nodes, replacements, totals


def noted_price(events: list[Record], event: Record) -> int | None:
    """What the harness itself noted, directly before a replacement, about the nodes that leave."""
    noted: int | None = events[event["seq"] - 1]["data"].get("shadowedTokenCount")
    return noted


def compactions_in(events: list[Record]) -> list[Record]:
    """Every bracket that was closed."""
    starts = {
        event["data"]["compactionId"]: event["seq"]
        for event in events
        if event["type"] == "compaction/start"
    }
    return [
        {
            "start_seq": starts[event["data"]["compactionId"]],
            "end_seq": event["seq"],
            "error": event["data"].get("error"),
        }
        for event in events
        if event["type"] == "compaction/end"
    ]


def measure_at_end(events: list[Record], totals: list[int]) -> Record:
    """The pressure, from the newest request that was answered, or refused with its size."""
    header = newest(events, "request/header", {"header": {}})["header"]
    surface = totals[-1]
    anchor = price_of_header(header) + surface
    facts: Record = {
        "baseline": "estimated" if anchor else "none",
        "baseline_tokens": anchor,
        "delta_tokens": 0,
    }
    for place in reversed(range(len(events))):
        found = anchored(events[: place + 1], totals)
        if found is not None:
            kind, tokens, at_anchor, under = found
            if under == header:  # an anchor under another header is none
                facts = {
                    "baseline": kind,
                    "baseline_tokens": tokens,
                    "delta_tokens": surface - at_anchor,
                }
            break
    limits = [int(numbers[1]) for numbers in map(refusal, events) if numbers is not None]
    return {
        **facts,
        "total_tokens": facts["baseline_tokens"] + facts["delta_tokens"],
        "surface_tokens": surface,
        "provider_limit": limits[-1] if limits else None,
    }


def anchored(events: list[Record], totals: list[int]) -> tuple[str, int, int, Record] | None:
    """Where the last event is an anchor: its kind and tokens, the surface's price, the header."""
    event, seq = events[-1], events[-1]["seq"]
    header = newest(events, "request/header", {"header": {}})["header"]
    numbers = refusal(event)
    if numbers is not None:
        return "rejected", int(numbers[2]), totals[seq], header
    if event["type"] != "assistant/message":
        return None
    step = newest_seq(events, "step/start")
    at_anchor = totals[step] + price_of_message(event["type"], event["data"])
    estimate = price_of_header(header) + at_anchor
    used = tokens_used(event["data"].get("usage"))
    if used is not None and used >= estimate:
        return "usage", used, at_anchor, header
    return "estimated", estimate, at_anchor, header


def newest_seq(events: list[Record], kind: str) -> int:
    """The seq of the newest event of a type."""
    return next(int(event["seq"]) for event in reversed(events) if event["type"] == kind)


def newest(events: list[Record], kind: str, otherwise: Record) -> Record:
    """The data of the newest event of a type."""
    return next((event["data"] for event in reversed(events) if event["type"] == kind), otherwise)


def quarter(text: str) -> int:
    """A fourth of the text's UTF-16 code units, rounded up."""
    return -(-len(text.encode("utf-16-le", "surrogatepass")) // 8)


def compact_json(value: Any) -> str:
    """JSON as JavaScript writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def price_of_message(kind: str, data: Record) -> int:
    """A message's price in tokens."""
    content = (data if kind == "user/message" else data["message"])["content"]
    if kind in SILENT and not content:
        return 0
    return sum(map(price_of_block, content)) + 4


def price_of_block(block: Record) -> int:
    """A content block's price in tokens."""
    match block["type"]:
        case "text" | "reasoning":
            return quarter(block["text"]) + 4
        case "tool-call":
            return quarter(block["name"]) + quarter(block["arguments"]) + 4
        case _:
            return quarter(compact_json(block)) + 4


def price_of_header(header: Record) -> int:
    """The price of what every request carries besides its messages."""
    return quarter(compact_json(header["tools"])) + 4 if header.get("tools") else 0


def tokens_used(usage: Record | None) -> int | None:
    """What the provider counted for a request and its answer."""
    if usage is None:
        return None
    names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")
    return sum(int(usage.get(name, 0)) for name in names)


def refusal(event: Record) -> re.Match[str] | None:
    """Limit and size, where the event is a request that was refused as too long."""
    if event["type"] != "assistant/attempt" or not event["data"]["stream"]:
        return None
    chunk = event["data"]["stream"][-1].get("chunk", {})
    return TOO_LONG.search(chunk.get("reason", {}).get("failure", {}).get("message", ""))
