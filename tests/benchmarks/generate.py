"""Session logs for benchmarks: realistic ones of any size, and shapes that are hard on a reader.

    python -m tests.benchmarks.generate realistic out.jsonl --mb 100 --format 4
    python -m tests.benchmarks.generate many-nodes out.jsonl --count 200000

The rule of this file: a log is streamed to the disk and never held in memory, the same seed gives
the same bytes (with the same Python, whose source is quoted), and every log is one that the harness
would open, except for `deep` and `bomb`, which are attacks. It knows neither the product nor the
builders of the other tests, so that a generator of hundreds of megabytes stays a plain loop.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

Data = dict[str, Any]

STARTED_MS = 1_796_046_500_000
PROVIDER, MODEL = "deepseek-official", "deepseek-v4-flash"
WINDOW_TOKENS = 128_000
FOLD_AT_TOKENS = 60_000  # the estimate at which a realistic session is folded
KEPT_NODES = 12  # what a fold leaves raw at the tail
PRUNE_TOKENS = 2_000  # results above it are pruned by every other fold
RESULT_BYTES = (200, 20_000)
THOUGHT_PIECES = (20, 1_200)
SPEECH_PIECES = (5, 200)
COMMAND_PIECES = (4, 500)  # from a shell command to an edit of a file
MAX_BLOCK_BYTES = 128 * 1024  # of a Zstandard block
FRAMING = "The part of the session before this point was folded into the notes below."


def dumps(value: object) -> str:
    """Compact JSON, with all but ASCII as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text_tokens(text: str) -> int:
    """The harness's price of a block of text: a quarter of its UTF-16 code units, and 4."""
    units = len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
    return -(-units // 4) + 4


class Writer:
    """Appends events to a log, and keeps its surface as places, seqs and prices.

    With a compressor, what is appended between two calls of `flush` becomes one frame.
    """

    def __init__(self, out: IO[bytes], version: int, *, framed: bool) -> None:
        self.version = version
        self.seq = 0
        self.size_bytes = 0
        self.turn = self.step = self.ids = 0
        self.node_seqs: list[int] = []
        self.node_tokens: list[int] = []
        self.results: dict[int, Data] = {}  # the data of the tool results that may be pruned
        self._out = out
        self._waiting: list[bytes] = []
        self._compress: Callable[[bytes], bytes] | None = None
        if framed:
            import zstandard

            self._compress = zstandard.ZstdCompressor(write_checksum=True).compress
        seeded = {} if version == 0 else {"isSeeded": False}
        head = {"type": "session", "version": version, "id": "benchmark", "createdAt": STARTED_MS}
        self._line(dumps({**head, "cwd": "/srv/app", **seeded, "delegationDepth": 0}))
        self.flush()

    def flush(self) -> None:
        """What was written since the last time is one append."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        if data:
            self._out.write(data if self._compress is None else self._compress(data))

    def _line(self, written: str) -> None:
        raw = written.encode() + b"\n"
        self.size_bytes += len(raw)
        self._waiting.append(raw)
        if self._compress is None and len(self._waiting) > 1_000:
            self.flush()

    def event(self, kind: str, data: object, tail: str = "") -> int:
        """Write one event; `tail` is what stands behind its data. Returns its seq."""
        seq = self.seq
        head = f'{{"type":"{kind}","seq":{seq},"time":{STARTED_MS + seq}'
        self._line(f'{head},"data":{dumps(data)}{tail}}}')
        self.seq += 1
        return seq

    def packed(self, kind: str, facts: Data, pieces: int) -> None:
        """Write one packed row of format 0, which holds so many pieces."""
        head = f'{{"type":"{kind}","seq0":{self.seq},"time0":{STARTED_MS + self.seq}'
        self._line(f'{head},"data":{dumps({**self.place, **facts})}}}')
        self.seq += pieces

    def append(self, kind: str, data: object, tokens: int, sources: object = None) -> int:
        """Write a surface event that becomes the last node."""
        named = "" if sources is None else f',"sourceEventSeqs":{dumps(sources)}'
        seq = self.event(kind, data, f'{named},"surfaceOp":"append"')
        self.node_seqs.append(seq)
        self.node_tokens.append(tokens)
        return seq

    def replace(
        self, kind: str, data: object, tokens: int, start: int, end: int, *sources: int
    ) -> int:
        """Write a surface event that takes the place of the nodes at `start` up to before `end`."""
        leaving = self.node_seqs[start:end]
        names = ("start", "end") if self.version == 0 else ("startSeq", "endSeq")
        operation = {"op": "replace", names[0]: leaving[0], names[1]: leaving[-1]}
        named = dumps([*sources, *leaving])
        seq = self.event(kind, data, f',"sourceEventSeqs":{named},"surfaceOp":{dumps(operation)}')
        self.node_seqs[start:end] = [seq]
        self.node_tokens[start:end] = [tokens]
        for gone in leaving if len(self.results) else ():
            self.results.pop(gone, None)
        return seq

    def new_id(self) -> str:
        """A message's or a compaction's id."""
        self.ids += 1
        return f"{self.ids:08x}-0000-4000-8000-{self.ids:012x}"

    @property
    def place(self) -> Data:
        """The open turn and step."""
        return {"turn": self.turn, "step": self.step}

    # What the harness writes

    def start_turn(self, taking: Data | None = None) -> None:
        """Open the next turn and its first step; `taking` is what leaves the inbox for it."""
        self.turn, self.step = self.turn + 1, 0
        self.event("turn/start", {"turn": self.turn})
        if taking is not None:
            self.event("agent/inbox/spliced", taking)
        self.start_step()

    def start_step(self) -> None:
        """Open the next step."""
        self.step += 1
        self.event("step/start", self.place)

    def end_step(self) -> None:
        """Close the open step."""
        self.event("step/end", self.place)

    def end_turn(self) -> None:
        """Close the open step and turn."""
        self.end_step()
        self.event("turn/end", {"turn": self.turn, "reason": {"kind": "completed"}})

    def user(self, text: str, **source: Any) -> int:
        """A user message at the end of the surface."""
        message = self.user_message([text], source or {"kind": "user"})
        return self.append("user/message", message, text_tokens(text) + 4)

    def user_message(self, texts: Sequence[str], source: Data) -> Data:
        """The data of a user message."""
        content = [{"type": "text", "text": text} for text in texts]
        return {"content": content, "source": source, "role": "user", "id": self.new_id()}

    def system(self, text: str) -> None:
        """The system prompt (formats 3 and 4)."""
        if self.version == 0:
            return
        kind: Data = {"kind": "plugin", "plugin": "system-prompt"}
        source = {"kind": "system-prompt"} if self.version == 4 else kind
        content = [{"type": "text", "text": text}]
        message = {"role": "system", "content": content, "source": source, "id": self.new_id()}
        self.append("system/message", {**self.place, "message": message}, text_tokens(text) + 4)

    def header(self, reason: str) -> None:
        """The request header and the model's window."""
        header: Data = {"config": {"provider": PROVIDER, "model": MODEL, "maxTokens": 8_000}}
        if self.version == 0:
            header["system"] = "You help with a small project."
        header["tools"] = TOOLS
        self.event("request/header", {"header": header, "reason": reason})
        facts = {"provider": PROVIDER, "model": MODEL, "contextWindow": WINDOW_TOKENS}
        self.event("request/context", facts)

    def assistant(
        self, blocks: list[Data], tokens: int, *, usage: Data | None = None, **data: Any
    ) -> None:
        """An assistant message; its stream is the caller's."""
        source: Data = {"kind": "model", "provider": PROVIDER, "model": MODEL}
        if replay := data.pop("replay", None):
            source["replayState"] = replay
        message = {"role": "assistant", "content": blocks, "source": source, "id": self.new_id()}
        sources = data.pop("sources", None)
        counted = {} if usage is None else {"usage": usage}
        if self.version != 0:
            data.setdefault("stream", [])
        event = {**self.place, "message": message, **counted, **data}
        self.append("assistant/message", event, tokens + 4, sources)

    def result(self, call: Data, text: str, *, keep: bool = True) -> int:
        """Start a call and answer it. With `keep`, the result can be pruned."""
        facts = {"callId": call["id"], "name": call["name"], "arguments": call["arguments"]}
        started = self.event("tool/call", {**self.place, **facts})
        data = {**self.place, "message": self.result_message(call["id"], text)}
        seq = self.append("tool/result", data, self.result_tokens(text), [started])
        if keep:
            self.results[seq] = data
        return seq

    def result_message(self, call_id: str, text: str) -> Data:
        """The message of a tool's answer, as the format has it."""
        content = [{"type": "text", "text": text}]
        source = {"kind": "tool", "callId": call_id}
        if self.version == 4:
            head = {"role": "tool", "source": source, "toolCallId": call_id, "content": content}
            return {**head, "isError": False, "id": self.new_id()}
        block = {"type": "tool-result", "toolCallId": call_id, "content": content, "isError": False}
        return {"source": source, "content": [block], "role": "user", "id": self.new_id()}

    def result_tokens(self, text: str) -> int:
        """The price of a tool's answer of one text."""
        return text_tokens(text) + (4 if self.version == 4 else 8)

    def prune(self, place: int, text: str) -> None:
        """Cut the tool result at a place of the surface down to a text."""
        seq, data = self.node_seqs[place], self.results[self.node_seqs[place]]
        self.event("compaction/prune", self.shadow(place, place + 1))
        message = data["message"]
        holder = message if self.version == 4 else message["content"][0]
        holder["content"] = [{"type": "text", "text": text}]
        new = self.replace("tool/result", data, self.result_tokens(text), place, place + 1)
        assert seq not in self.results
        self.results[new] = data

    def shadow(self, start: int, end: int) -> Data:
        """What a summary or a prune says about the nodes that leave."""
        seqs = self.node_seqs[start:end]
        price = sum(self.node_tokens[start:end])
        ends = {"start": seqs[0], "end": seqs[-1]}
        return {"shadowedRange": ends, "shadowedSeqs": seqs, "shadowedTokenCount": price}

    def compaction(self, start: int, end: int, summary: str, *, in_turn: bool) -> None:
        """Fold the nodes at `start` up to before `end` into a summary."""
        compaction_id = self.new_id()
        bracket = {"compactionId": compaction_id, "turn": self.turn if in_turn else None}
        started = self.event("compaction/start", bracket)
        noted = [{"type": "text", "text": summary}]
        facts = {"compactionId": compaction_id, "summary": noted, "rawOutput": noted}
        routed = {"provider": PROVIDER, "model": MODEL, "maxTokens": 8_192}
        shadow = self.shadow(start, end)
        noted_seq = self.event("compaction/summary", {**facts, **shadow, **routed})
        kind = {"kind": "compact-checkpoint"}
        if self.version != 4:
            kind = {"kind": "plugin", "plugin": "compact"}
        source = {**kind, "compactionId": compaction_id}
        texts = [f"{FRAMING}\n\n<compacted-summary>", summary, "</compacted-summary>"]
        message = self.user_message(texts, source)
        tokens = sum(map(text_tokens, texts)) + 4
        self.replace("user/message", message, tokens, start, end, started, noted_seq)
        self.event("compaction/end", bracket)

    def delivered(self) -> None:
        """The provider's side took the log so far (format 4)."""
        if self.version == 4:
            facts = {"sessionId": "benchmark", "sessionFormatVersion": 4}
            kind = "session-log-deepseek/delivery-accepted"
            self.event(kind, {**facts, "throughSeq": self.seq - 1})


TOOLS = [
    {
        "name": name,
        "description": f"Uses {name} on the project and returns what it printed. " * 8,
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "what to do " * 5}},
            "required": ["command"],
        },
    }
    for name in ("bash", "read", "edit", "search", "fetch", "plan")
]


@contextmanager
def writing(path: Path, version: int, *, framed: bool = False) -> Iterator[Writer]:
    """A writer of a new log at `path`, flushed when the block is left."""
    with path.open("wb") as out:
        writer = Writer(out, version, framed=framed)
        yield writer
        writer.flush()


# Realistic sessions

STDLIB_FILES = 240
LONGEST_FILE_BYTES = 120_000
"""Of the standard library's source as much as a middling project has."""

PIECE = re.compile(r" ?[A-Za-z]{1,8}|\d{1,3}|\s+|[^\sA-Za-z\d]{1,3}")
"""What a model streams at once: a word's piece with its space, a few digits, some signs."""

SPOKEN = re.compile(r'"""(.+?)"""', re.DOTALL)
"""Docstrings: the prose in a source file."""

NOTES = (
    "  # 读取下一条记录，跳过空行",
    "  # größere Blöcke zuerst",
    "  # 🚧 später",
    "  # naïve — “for now”",
)
"""Not all that is written about code is ASCII."""


class Prose:
    """Text of the kinds that a coding session is made of, from one source of chance.

    Code is the standard library's own, so that quotes, escapes, indentation and long lines are as
    common as they are; what a model says is cut from its docstrings.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        root = Path(sysconfig.get_path("stdlib"))
        paths = [*sorted(root.glob("*.py")), *sorted(root.glob("[a-h]*/*.py"))][:STDLIB_FILES]
        texts = [
            path.read_bytes()[:LONGEST_FILE_BYTES].decode("utf-8", "replace") for path in paths
        ]
        self.files = [
            (path.relative_to(root).as_posix(), text.splitlines())
            for path, text in zip(paths, texts, strict=True)
            if len(text) > 1_000
        ]
        self.said = [piece for text in texts for piece in PIECE.findall(_docstrings(text))]
        self.written = [piece for text in texts for piece in PIECE.findall(text[:8_000])]
        self.waits_ms = [self.chance.choice([0, 0, 1, 8, 12, 17, 23, 31]) for _ in range(8_000)]

    def code(self, size_bytes: int) -> str:
        """About so many bytes of what a tool prints about code."""
        shown = self.chance.choice(
            [self._read, self._read, self._read, self._found, self._found, self._facts, self._notes]
        )
        lines: list[str] = []
        room = size_bytes
        while room > 0:
            lines += shown()
            room = size_bytes - sum(map(len, lines)) - len(lines)
        return "\n".join(lines)[: size_bytes + 500]

    def _passage(self) -> tuple[str, int, list[str]]:
        name, lines = self.chance.choice(self.files)
        start = self.chance.randrange(len(lines))
        return name, start, lines[start : start + 120]

    def _read(self) -> list[str]:
        """A file's lines, numbered."""
        _, start, lines = self._passage()
        return [f"{number:6}\t{line}" for number, line in enumerate(lines, start + 1)]

    def _found(self) -> list[str]:
        """What a search prints."""
        name, start, lines = self._passage()
        return [f"{name}:{number}:{line}" for number, line in enumerate(lines[::9], start + 1)]

    def _facts(self) -> list[str]:
        """What a program prints for another one."""
        name, start, lines = self._passage()
        facts = [
            {"file": name, "line": start + i, "text": text} for i, text in enumerate(lines[:30])
        ]
        return json.dumps(facts, indent=2, ensure_ascii=False).split("\n")

    def _notes(self) -> list[str]:
        """A file whose writer has other letters, too."""
        _, _, lines = self._passage()
        return [line + self.chance.choice(NOTES) if line else line for line in lines]

    def pieces(self, count: int) -> list[str]:
        """So many pieces of prose, as a model streams them."""
        return self._slice(self.said, count)

    def typed(self, count: int) -> list[str]:
        """So many pieces of code, as a model streams them."""
        return self._slice(self.written, count)

    def _slice(self, pieces: list[str], count: int) -> list[str]:
        start = self.chance.randrange(len(pieces) - count)
        return pieces[start : start + count]

    def waits(self, count: int) -> list[int]:
        """The milliseconds between so many pieces."""
        start = self.chance.randrange(len(self.waits_ms) - count)
        return self.waits_ms[start : start + count - 1]

    def spread(self, low: int, high: int) -> int:
        """A size between two others: small ones are common, large ones are most of the sum."""
        return int(low * (high / low) ** self.chance.random())


def _docstrings(text: str) -> str:
    return " ".join(SPOKEN.findall(text))


def realistic(
    path: Path, size_bytes: int, *, version: int = 4, framed: bool = False, seed: int = 0
) -> None:
    """A coding session of about so many bytes, unpacked.

    Turns of one to twelve steps, most of them with a tool call whose result is 0.2 to 20 KB of
    code; streamed pieces in rows of their own (format 0) or inside the messages (3, 4); the surface
    is folded, every other time after prunes, so that it stays near the model's window.
    """
    prose = Prose(seed)
    with writing(path, version, framed=framed) as log:
        while log.size_bytes < size_bytes:
            realistic_turn(log, prose)


def realistic_turn(log: Writer, prose: Prose) -> None:
    """One turn, from what the user asks to the last answer."""
    question = log.user_message(["".join(prose.pieces(prose.chance.randint(3, 120)))], ASKED)
    log.event("agent/inbox/spliced", {**INBOX, "inserted": [question]})
    log.start_turn(taking={**INBOX, "removedCount": 1, "inserted": []})
    if log.turn == 1:
        log.system("".join(prose.pieces(800)))
    log.append("user/message", question, text_tokens(question["content"][0]["text"]) + 4)
    if log.turn == 1 or prose.chance.random() < 0.05:
        surroundings(log)
        log.header("initial" if log.turn == 1 else "series")
    steps = prose.chance.randint(1, 12)
    for number in range(1, steps + 1):
        log.delivered()
        log.flush()
        count = prose.chance.choice([1, 1, 1, 2, 3]) if number < steps else 0
        for call in realistic_answer(log, prose, count):
            log.result(call, prose.code(prose.spread(*RESULT_BYTES)))
        log.end_step()
        if sum(log.node_tokens) > FOLD_AT_TOKENS:
            realistic_fold(log, prose)
        if number < steps:
            log.start_step()
    log.event("turn/end", {"turn": log.turn, "reason": {"kind": "completed"}})
    log.flush()


ASKED = {"kind": "user"}
INBOX = {"target": "next-turn", "start": 0}


def surroundings(log: Writer) -> None:
    """Where the session runs, as the harness tells the model at first and after each fold."""
    text = "This session runs in /srv/app on a machine with Python and git. " * 4
    source = {
        "kind": "runtime-context",
        "form": "snapshot",
        "sections": [{"name": "working-directory:current", "text": text[:64]}],
    }
    log.append("user/message", log.user_message([text], source), text_tokens(text) + 4)


def realistic_answer(log: Writer, prose: Prose, call_count: int) -> list[Data]:
    """One answer with its stream; returns its calls."""
    thought = prose.pieces(prose.spread(*THOUGHT_PIECES))
    speech = prose.pieces(prose.spread(*SPEECH_PIECES))
    commands = [
        dumps({"command": "".join(prose.typed(prose.spread(*COMMAND_PIECES)))})
        for _ in range(call_count)
    ]
    blocks: list[Data] = [
        {"type": "reasoning", "text": "".join(thought)},
        {"type": "text", "text": "".join(speech)},
    ]
    blocks += [
        {"type": "tool-call", "id": f"call_{log.seq}_{i}", "name": "bash", "arguments": command}
        for i, command in enumerate(commands)
    ]
    tokens = sum(text_tokens(block["text"]) for block in blocks[:2])
    tokens += sum(text_tokens(command) + 1 for command in commands)  # the name "bash" costs 1
    prompt = sum(log.node_tokens) + 2_000
    usage = {"inputTokens": prompt, "outputTokens": tokens, "totalTokens": prompt + tokens}
    streamed = [thought, speech, *(["", *PIECE.findall(command)] for command in commands)]
    rows = [
        streamed_row(prose, index, block, pieces)
        for index, (block, pieces) in enumerate(zip(blocks, streamed, strict=True))
    ]
    if log.version == 0:
        first = log.seq
        stream_lines(log, rows, blocks, usage)
        # Both forms occur in real logs: the range, and every number spelt out.
        spelt = prose.chance.random() < 0.5
        sources = list(range(first, log.seq)) if spelt else [[first, log.seq - 1]]
        log.assistant(blocks, tokens, usage=usage, sources=sources)
    else:
        replay = {
            "response": {"kind": "deepseek-messages", "version": 1, "model": MODEL},
            "blocks": [{"type": block["type"]} for block in blocks],
        }
        stream = embedded_stream(log, rows, blocks, usage, replay)
        log.assistant(blocks, tokens, usage=usage, stream=stream, replay=replay)
    return blocks[2:]


Row = tuple[str, Data, int]
"""A run of streamed pieces: its type, what it holds, how many they are."""


def streamed_row(prose: Prose, index: int, block: Data, pieces: list[str]) -> Row:
    """A block as it was streamed."""
    facts: Data = {"index": index, "dt": prose.waits(len(pieces))}
    if block["type"] == "tool-call":
        facts |= {"id": block["id"], "name": block["name"], "args": pieces}
    else:
        facts["texts"] = pieces
    return f"{block['type']}-chunks", facts, len(pieces)


def stream_lines(log: Writer, rows: list[Row], blocks: list[Data], usage: Data) -> None:
    """An answer's stream as format 0 has it: chunk events and packed rows."""
    for index, (block, row) in enumerate(zip(blocks, rows, strict=True)):
        start = {"type": "block-start", "index": index, "blockType": block["type"]}
        log.event("assistant/chunk", {**log.place, "chunk": start})
        log.packed(*row)
    for index, block in enumerate(blocks):
        end = {"type": "block-end", "index": index, "block": block}
        log.event("assistant/chunk", {**log.place, "chunk": end})
    log.event("assistant/chunk", {**log.place, "chunk": {"type": "usage", "usage": usage}})
    log.event("assistant/chunk", {**log.place, "chunk": finish(blocks)})


def finish(blocks: list[Data]) -> Data:
    """The last chunk of a stream."""
    called = blocks[-1]["type"] == "tool-call"
    return {"type": "finish", "reason": {"kind": "tool-calls" if called else "stop"}}


def embedded_stream(
    log: Writer, rows: list[Row], blocks: list[Data], usage: Data, replay: Data
) -> list[Data]:
    """An answer's stream as formats 3 and 4 have it, inside the message's event."""
    time = STARTED_MS + log.seq

    def chunk(**facts: Any) -> Data:
        return {"type": "chunk", "time": time, "chunk": facts}

    stream: list[Data] = []
    for index, (block, (kind, facts, _)) in enumerate(zip(blocks, rows, strict=True)):
        stream.append(chunk(type="block-start", index=index, blockType=block["type"]))
        stream.append({"type": kind, "time0": time, **facts})
        stream.append(chunk(type="block-end", index=index, block=block))
    ended = chunk(**finish(blocks), replayState=replay)
    return [*stream, chunk(type="usage", usage=usage), ended]


def realistic_fold(log: Writer, prose: Prose) -> None:
    """The harness makes room between two requests, in the open turn."""
    if prose.chance.random() < 0.5:
        for place, seq in enumerate(log.node_seqs):
            if log.node_tokens[place] > PRUNE_TOKENS and seq in log.results:
                log.prune(place, prose.code(1_000))
    if sum(log.node_tokens) > FOLD_AT_TOKENS // 2:
        first = 0 if log.version == 0 else 1
        last = len(log.node_seqs) - KEPT_NODES
        # A call and its results leave together: the kept tail starts with an answer or a question.
        while log.node_seqs[last] in log.results:
            last -= 1
        summary = "".join(prose.pieces(prose.chance.randint(300, 900)))
        log.compaction(first, last, summary, in_turn=True)
        surroundings(log)
        log.header("series")


# Hard shapes


def many_nodes(path: Path, count: int = 200_000, *, version: int = 4, framed: bool = False) -> None:
    """A surface of so many nodes, none of which was ever replaced."""
    with writing(path, version, framed=framed) as log:
        fill(log, count)


def fill(log: Writer, count: int) -> None:
    """Turns of a question and an answer, up to so many nodes."""
    while len(log.node_seqs) < count:
        log.start_turn()
        log.user(f"question {log.turn}")
        if log.turn == 1:
            log.header("initial")
        text = f"The answer to question {log.turn} is {log.turn * 7}."
        log.assistant([{"type": "text", "text": text}], text_tokens(text))
        log.end_turn()


def many_replacements(
    path: Path,
    nodes: int = 200_000,
    replacements: int = 5_000,
    *,
    version: int = 4,
    framed: bool = False,
    seed: int = 0,
) -> None:
    """A long surface, short ranges of which are then folded all over it."""
    chance = random.Random(seed)
    with writing(path, version, framed=framed) as log:
        fill(log, nodes)
        for number in range(replacements):
            start = chance.randrange(len(log.node_seqs) - 8)
            end = start + chance.randint(1, 8)
            log.compaction(start, end, f"Fold number {number}.", in_turn=False)


def one_result_replaced(
    path: Path, count: int = 50_000, *, version: int = 4, framed: bool = False
) -> None:
    """One tool result, pruned so many times."""
    with writing(path, version, framed=framed) as log:
        call = start_with_a_call(log)
        log.result(call, "x" * 400)
        for number in range(count):
            log.prune(len(log.node_seqs) - 1, f"{number:06} " + "y" * 200)


def one_message_replaced(
    path: Path, count: int = 50_000, *, version: int = 4, framed: bool = False
) -> None:
    """One user message, replaced so many times."""
    with writing(path, version, framed=framed) as log:
        start_with_a_call(log, calls=0)
        log.end_turn()
        log.user("the message")
        place = len(log.node_seqs) - 1
        for number in range(count):
            text = f"{number:06} " + "y" * 200
            message = log.user_message([text], {"kind": "edit"})
            log.replace("user/message", message, text_tokens(text) + 4, place, place + 1)


def one_node_twin(
    path: Path, count: int = 50_000, *, version: int = 4, framed: bool = False
) -> None:
    """As many messages of the same size, each appended: the log without a replacement."""
    with writing(path, version, framed=framed) as log:
        start_with_a_call(log, calls=0)
        log.end_turn()
        for number in range(count):
            log.user(f"{number:06} " + "y" * 260, kind="edit")


def start_with_a_call(log: Writer, calls: int = 1) -> Data:
    """A turn with one answer that makes calls; returns the last of them."""
    log.start_turn()
    log.user("go")
    log.header("initial")
    made = [
        {"type": "tool-call", "id": f"call_{i}", "name": "bash", "arguments": "{}"}
        for i in range(calls)
    ]
    tokens = text_tokens("Running.") + calls * 6
    log.assistant([{"type": "text", "text": "Running."}, *made], tokens)
    return made[-1] if made else {}


def many_live_prunes(
    path: Path, count: int = 50_000, *, version: int = 4, framed: bool = False
) -> None:
    """So many tool results on the surface, each of them pruned once, the oldest first."""
    with writing(path, version, framed=framed) as log:
        places = []
        for number in range(count):
            call = start_with_a_call(log) if number == 0 else one_more_call(log, number)
            log.result(call, "x" * 300)
            places.append(len(log.node_seqs) - 1)
        for place in places:
            log.prune(place, "x" * 100)


def one_more_call(log: Writer, number: int) -> Data:
    """The next step of the open turn, whose answer makes one call."""
    log.end_step()
    log.start_step()
    call = {"type": "tool-call", "id": f"call_{number}", "name": "bash", "arguments": "{}"}
    log.assistant([call], 6)
    return call


def short_lines(path: Path, size_bytes: int, *, framed: bool = False, seed: int = 0) -> None:
    """A format-0 log of unpacked pieces: hundreds of short lines to every message."""
    prose = Prose(seed)
    with writing(path, 0, framed=framed) as log:
        while log.size_bytes < size_bytes:
            log.start_turn()
            log.user("".join(prose.pieces(20)))
            if log.turn == 1:
                log.header("initial")
            first, pieces = log.seq, prose.pieces(600)
            for piece in pieces:
                delta = {"type": "text-delta", "index": 0, "text": piece}
                log.event("assistant/chunk", {**log.place, "chunk": delta})
            text = "".join(pieces)
            sources = list(range(first, log.seq))
            log.assistant([{"type": "text", "text": text}], text_tokens(text), sources=sources)
            log.end_turn()
            log.flush()


def one_line(path: Path, size_bytes: int = 50_000_000, *, version: int = 4) -> None:
    """One user message of so many bytes, of all kinds of characters."""
    unit = 'plain words, "quotes", \\ slashes, ünïcödé, 你好, 🚀, \x1b[31m and \x00\n'
    with writing(path, version) as log:
        start_with_a_call(log, calls=0)
        log.end_turn()
        log.user(unit * (size_bytes // len(dumps(unit).encode())))


def deep(path: Path, depth: int = 100_000, *, version: int = 4) -> None:
    """An event that readers may skip, whose data nests so many lists."""
    with writing(path, version) as log:
        fill(log, 10)
        log.event("tests/deep", {"x": "DEEP"}, ',"ignorable":true')
        raw = log._waiting.pop().replace(b'"DEEP"', b"[" * depth + b"]" * depth)
        log._waiting.append(raw)
        fill(log, 20)


def bomb(path: Path, unpacked_bytes: int = 10_000_000_000) -> None:
    """A framed log, one frame of which unpacks to one event of so many bytes.

    Made by hand of Zstandard's run-length blocks (RFC 8878, 3.1.1.2): four bytes stand for 128 KB.
    """
    with writing(path, 4, framed=True) as log:
        fill(log, 10)
        log.flush()
        seq = log.seq
    head = f'{{"type":"tests/bomb","seq":{seq},"time":{STARTED_MS},"data":{{"x":"'.encode()
    tail = b'"},"ignorable":true}\n'
    count = unpacked_bytes // MAX_BLOCK_BYTES
    raw, run_length = 0, 1
    blocks = [block(raw, head, len(head))]
    blocks += [block(run_length, b"a", MAX_BLOCK_BYTES)] * count
    blocks += [block(raw, tail, len(tail), last=True)]
    # A frame without content size and checksum, with a window of 128 KB.
    frame = b"\x28\xb5\x2f\xfd" + bytes([0, (17 - 10) << 3]) + b"".join(blocks)
    with path.open("ab") as out:
        out.write(frame)


def block(kind: int, content: bytes, size_bytes: int, *, last: bool = False) -> bytes:
    """One Zstandard block."""
    head = int(last) | kind << 1 | size_bytes << 3
    return head.to_bytes(3, "little") + content


SHAPES: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "realistic": lambda path, o: realistic(
        path, o.size_bytes, version=o.format, framed=o.framed, seed=o.seed
    ),
    "many-nodes": lambda path, o: many_nodes(
        path, o.count or 200_000, version=o.format, framed=o.framed
    ),
    "many-replacements": lambda path, o: many_replacements(
        path,
        o.count or 200_000,
        o.replacements,
        version=o.format,
        framed=o.framed,
        seed=o.seed,
    ),
    "one-result-replaced": lambda path, o: one_result_replaced(
        path, o.count or 50_000, version=o.format, framed=o.framed
    ),
    "one-message-replaced": lambda path, o: one_message_replaced(
        path, o.count or 50_000, version=o.format, framed=o.framed
    ),
    "one-node-twin": lambda path, o: one_node_twin(
        path, o.count or 50_000, version=o.format, framed=o.framed
    ),
    "many-live-prunes": lambda path, o: many_live_prunes(
        path, o.count or 50_000, version=o.format, framed=o.framed
    ),
    "short-lines": lambda path, o: short_lines(path, o.size_bytes, framed=o.framed, seed=o.seed),
    "one-line": lambda path, o: one_line(path, o.size_bytes, version=o.format),
    "deep": lambda path, o: deep(path, o.count or 100_000, version=o.format),
    "bomb": lambda path, o: bomb(path, o.count or 10_000_000_000),
}


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's first lines."""
    parser = argparse.ArgumentParser(description="Make a session log for a benchmark.")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mb", type=float, default=100, help="size of sized shapes, in 10^6 bytes")
    parser.add_argument("--count", type=int, default=0, help="nodes, replacements or depth")
    parser.add_argument("--replacements", type=int, default=5_000, help="of many-replacements")
    parser.add_argument("--format", type=int, default=4, choices=(0, 3, 4))
    parser.add_argument("--framed", action="store_true", help="Zstandard frames")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    options.size_bytes = int(options.mb * 1_000_000)
    SHAPES[options.shape](options.out, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
