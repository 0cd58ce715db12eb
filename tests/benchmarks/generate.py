"""Session logs for benchmarks: realistic ones of any size, and shapes that are hard on a reader.

    python -m tests.benchmarks.generate realistic out.jsonl --mb 100 --format 4
    python -m tests.benchmarks.generate many-nodes out.jsonl --count 200000

The rule of this file: a log is streamed to the disk and never held in memory, the same seed gives
the same bytes, and every log is one that the harness would open, except for `deep` and `bomb`,
which are attacks. It knows neither the product nor the builders of the other tests, so that a
generator of hundreds of megabytes stays a plain loop.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
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
THOUGHT_PIECES = (20, 1_200)  # a piece is what a model streams at once, a few letters
SPEECH_PIECES = (5, 200)
COMMAND_PIECES = (4, 500)  # from a shell command to an edit of a file
APPENDED_EVENTS = 8  # about as many as one frame of a real log holds
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

    def packed(self, kind: str, index: int, facts: Data, pieces: Sequence[str]) -> None:
        """Write one packed row of format 0."""
        waits = [i % 3 for i in range(len(pieces) - 1)]
        data = {**self.place, "index": index, "dt": waits, **facts}
        data["args" if kind == "tool-call-chunks" else "texts"] = pieces
        head = f'{{"type":"{kind}","seq0":{self.seq},"time0":{STARTED_MS + self.seq}'
        self._line(f'{head},"data":{dumps(data)}}}')
        self.seq += len(pieces)

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

    def start_turn(self) -> None:
        """Open the next turn and its first step."""
        self.turn, self.step = self.turn + 1, 0
        self.event("turn/start", {"turn": self.turn})
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
        source = {"kind": "model", "provider": PROVIDER, "model": MODEL}
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

WORDS = [
    "self",
    "return",
    "def",
    "class",
    "import",
    "from",
    "if",
    "else",
    "for",
    "in",
    "not",
    "None",
    "True",
    "value",
    "result",
    "error",
    "index",
    "path",
    "data",
    "name",
    "items",
    "key",
    "config",
    "session",
    "request",
    "response",
    "handler",
    "token",
    "buffer",
    "offset",
    "length",
    "async",
    "await",
    "yield",
    "lambda",
    "raise",
    "except",
    "try",
    "with",
    "open",
    "read",
    "write",
    "close",
    "assert",
    "print",
    "str",
    "int",
    "list",
    "dict",
]


class Prose:
    """Text of the kinds that a coding session is made of, from one source of chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines = [self._code_line() for _ in range(4_000)]
        self.words = [self._word() for _ in range(4_000)]

    def _code_line(self) -> str:
        indent = "    " * self.chance.randrange(5)
        words = self.chance.choices(WORDS, k=self.chance.randint(2, 9))
        joined = self.chance.choice([" ", ".", "(", ", ", " = "]).join(words)
        end = self.chance.choice(
            ["", ":", ")", '"quoted"', "\t# ünïcode – 你好", f"  # {joined}", ";"]
        )
        return f"{indent}{joined}{self.chance.randrange(10_000)}{end}\n"

    def _word(self) -> str:
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        size = self.chance.randint(1, 7)
        word = "".join(self.chance.choices(letters, weights=range(26, 0, -1), k=size))
        return word + self.chance.choice([" ", " ", "", ", ", "\n", "("])

    def code(self, size_bytes: int) -> str:
        """About so many bytes of what a tool prints about code."""
        count = max(1, size_bytes // 45)
        start = self.chance.randrange(len(self.lines))
        stride = self.chance.choice([1, 7, 11, 13])
        return "".join(self.lines[(start + i * stride) % len(self.lines)] for i in range(count))

    def pieces(self, count: int) -> list[str]:
        """So many words, as a model streams them."""
        start = self.chance.randrange(len(self.words))
        return [self.words[(start + i * 17) % len(self.words)] for i in range(count)]

    def spread(self, low: int, high: int) -> int:
        """A size between two others: small ones are common, large ones are most of the sum."""
        return int(low * (high / low) ** self.chance.random())


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
    log.start_turn()
    if log.turn == 1:
        log.system("".join(prose.pieces(800)))
    log.user("".join(prose.pieces(prose.chance.randint(3, 120))))
    if log.turn == 1 or prose.chance.random() < 0.05:
        log.header("initial" if log.turn == 1 else "series")
    steps = prose.chance.randint(1, 12)
    for number in range(1, steps + 1):
        count = prose.chance.choice([1, 1, 1, 2, 3]) if number < steps else 0
        calls = realistic_answer(log, prose, count)
        for call in calls:
            log.result(call, prose.code(prose.spread(*RESULT_BYTES)))
            if prose.chance.randrange(APPENDED_EVENTS) == 0:
                log.delivered()
                log.flush()
        if sum(log.node_tokens) > FOLD_AT_TOKENS:
            realistic_fold(log, prose)
        if number < steps:
            log.end_step()
            log.start_step()
    log.end_turn()
    log.flush()


def realistic_answer(log: Writer, prose: Prose, call_count: int) -> list[Data]:
    """One answer with its stream; returns its calls."""
    thought = prose.pieces(prose.spread(*THOUGHT_PIECES))
    speech = prose.pieces(prose.spread(*SPEECH_PIECES))
    commands = [
        dumps({"command": "".join(prose.pieces(prose.spread(*COMMAND_PIECES)))})
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
    streamed = [("reasoning", thought), ("text", speech)]
    if log.version == 0:
        first = log.seq
        stream_lines(log, streamed, blocks, usage)
        # Both forms occur in real logs: the range, and every number spelt out.
        spelt = prose.chance.random() < 0.5
        sources = list(range(first, log.seq)) if spelt else [[first, log.seq - 1]]
        log.assistant(blocks, tokens, usage=usage, sources=sources)
    else:
        stream = embedded_stream(log, streamed, blocks, usage)
        log.assistant(blocks, tokens, usage=usage, stream=stream)
    return blocks[2:]


def argument_pieces(block: Data) -> list[str]:
    """A call's arguments as they are streamed."""
    written = block["arguments"]
    return ["", *(written[i : i + 8] for i in range(0, len(written), 8))]


def stream_lines(
    log: Writer, streamed: list[tuple[str, list[str]]], blocks: list[Data], usage: Data
) -> None:
    """An answer's stream as format 0 has it: chunk events and packed rows."""
    for index, block in enumerate(blocks):
        start = {"type": "block-start", "index": index, "blockType": block["type"]}
        log.event("assistant/chunk", {**log.place, "chunk": start})
        if index < len(streamed):
            log.packed(f"{streamed[index][0]}-chunks", index, {}, streamed[index][1])
        else:
            named = {"id": block["id"], "name": block["name"]}
            log.packed("tool-call-chunks", index, named, argument_pieces(block))
    for index, block in enumerate(blocks):
        end = {"type": "block-end", "index": index, "block": block}
        log.event("assistant/chunk", {**log.place, "chunk": end})
    log.event("assistant/chunk", {**log.place, "chunk": {"type": "usage", "usage": usage}})
    reason = {"kind": "tool-calls" if len(blocks) > len(streamed) else "stop"}
    log.event("assistant/chunk", {**log.place, "chunk": {"type": "finish", "reason": reason}})


def embedded_stream(
    log: Writer, streamed: list[tuple[str, list[str]]], blocks: list[Data], usage: Data
) -> list[Data]:
    """An answer's stream as formats 3 and 4 have it, inside the message's event."""
    time = STARTED_MS + log.seq

    def chunk(**facts: Any) -> Data:
        return {"type": "chunk", "time": time, "chunk": facts}

    stream: list[Data] = []
    for index, block in enumerate(blocks):
        stream.append(chunk(type="block-start", index=index, blockType=block["type"]))
        row: Data = {"time0": time, "index": index}
        if index < len(streamed):
            kind, pieces = streamed[index]
            row |= {"dt": [0] * (len(pieces) - 1), "texts": pieces}
            stream.append({"type": f"{kind}-chunks", **row})
        else:
            pieces = argument_pieces(block)
            named = {"id": block["id"], "name": block["name"]}
            row |= {"dt": [0] * (len(pieces) - 1), **named, "args": pieces}
            stream.append({"type": "tool-call-chunks", **row})
        stream.append(chunk(type="block-end", index=index, block=block))
    reason = {"kind": "tool-calls" if len(blocks) > len(streamed) else "stop"}
    return [*stream, chunk(type="usage", usage=usage), chunk(type="finish", reason=reason)]


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
