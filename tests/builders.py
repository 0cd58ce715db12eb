"""Session logs that read like conversations.

    log = (
        Conversation(format=4, window=8_000)
        .system("You help.")
        .user("list the files")
        .assistant("Running it.", calls=[call("c1", "bash", '{"command":"ls"}')], usage=(600, 29))
        .result("c1", "a.txt b.txt")
        .refusal(limit=8_000, requested=10_476)
        .prune("c1", "a.txt …")
        .compaction("The user asked for the files.")
        .assistant("Two files.", usage=(700, 9))
        .end()
    )
    log.write(path)

The rule of this file: whatever order the verbs are called in, the log that comes out is one that
the harness would open and that breaks no rule of the format; a verb that would break one asserts
instead. Logs that are wrong are made by spoiling a right one (`record`, `drop`, `spoil`).

Turns and steps are opened as they are needed: `user` begins a turn, `assistant` and `refusal` begin
a step where the open one has its answer, `end` closes both. Every verb is one append, so one frame
of a framed log. It doesn't know the product: prices come from the plain reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from plain_reader import LATER_MESSAGES, MESSAGES, NOT_STARTED, Record, node_tokens

Block = dict[str, Any]
Content = str | Block | Sequence[str | Block]
Usage = tuple[int, int] | Record
Raw = bytes  # `Conversation.bytes` hides the type's name inside the class

STARTED_MS = 1_796_046_500_000
NOT_STARTED_TEXT = (  # by which, to the letter, the harness knows its own answer again
    "The tool call was interrupted before the Harness recorded it as started. "
    "Retry it if it is still needed."
)
FRAMING = "The part of the session before this point was folded into the notes below."
TOOLS: list[Record] = [
    {
        "name": "bash",
        "description": "Runs a command in a shell and returns what it printed.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "the command line"}},
            "required": ["command"],
        },
    }
]


def text(words: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": words}


def call(call_id: str, name: str = "bash", arguments: str = '{"command":"ls"}') -> Block:
    """A tool call inside an assistant message; the arguments are JSON as the model wrote it."""
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": arguments}


def usage(
    given: int, made: int, *, cache_read: int | None = None, cache_write: int | None = None
) -> Record:
    """What a provider counted, in tokens: prompt, answer, and the cached parts of the prompt."""
    counted: Record = {"inputTokens": given, "outputTokens": made}
    if cache_read is not None:
        counted["cacheReadTokens"] = cache_read
    if cache_write is not None:
        counted["cacheWriteTokens"] = cache_write
    return {**counted, "totalTokens": sum(counted.values())}


def refusal_text(limit: int, requested: int, messages: int | None, completion: int) -> str:
    """The provider's wording when a request is too long, all numbers in tokens."""
    parts = (
        "" if messages is None else f" ({messages} in the messages, {completion} in the completion)"
    )
    return (
        f"This model's maximum context length is {limit} tokens. However, you requested {requested}"
        f" tokens{parts}. Please reduce the length of the messages or completion."
    )


def line(record: Record) -> bytes:
    """A record as the harness writes it: compact, lone surrogates escaped, a newline behind."""
    written = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    escaped = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", written)
    return escaped.encode("utf-8") + b"\n"


def frame(data: bytes) -> bytes:
    """One Zstandard frame with a checksum and the content's size, as the harness appends it."""
    import zstandard

    return zstandard.ZstdCompressor(write_checksum=True, write_content_size=True).compress(data)


def blocks(content: Content) -> list[Block]:
    """Content as a list of blocks; a string is one block of text."""
    items = [content] if isinstance(content, (str, dict)) else content
    return [text(item) if isinstance(item, str) else item for item in items]


class Conversation:
    """A session's log in the making. Every verb returns the conversation itself."""

    def __init__(
        self,
        *,
        format: int = 4,  # noqa: A002 - every part of the product calls it so
        session_id: str = "session-1",
        provider: str = "deepseek-official",
        model: str = "deepseek-v4-flash",
        window: int | None = 128_000,
        max_tokens: int | None = None,
        tools: Sequence[Record] = TOOLS,
        cwd: str = "/srv/app",
        **header: Any,
    ) -> None:
        """`window` and `max_tokens` are what the harness notes; other words join the header."""
        self.format = format
        self.provider = provider
        self.model = model
        self.window = window
        self.max_tokens = max_tokens
        self.tools = list(tools)
        self.appends: list[list[Record]] = []
        self.nodes: list[Record] = []
        self.next_seq = 0
        self.turn: int | None = None
        self.step: int | None = None
        self.calls: dict[str, Record] = {}
        self.bracket: str | None = None
        self._turns = self._steps = self._ids = 0
        self._answered = False
        self._system: str | None = None
        self._announced = False
        self._failure: Record = {}
        start = {"type": "session", "version": format, "id": session_id, "createdAt": STARTED_MS}
        seeded = {} if format == 0 else {"isSeeded": False}
        self.appends.append([{**start, "cwd": cwd, **seeded, "delegationDepth": 0, **header}])

    # What came out

    @property
    def records(self) -> list[Record]:
        """The header and all events so far, as they will be written."""
        return [record for append in self.appends for record in append]

    @property
    def last_seq(self) -> int:
        """The seq of the newest event."""
        return self.next_seq - 1

    @property
    def node_seqs(self) -> list[int]:
        """The seqs of the surface, in the order in which the model sees them."""
        return [node["seq"] for node in self.nodes]

    @property
    def prompt_waits(self) -> bool:
        """Whether the next turn is the one that brings the system prompt to the surface."""
        return self._system is not None and self.format != 0 and not self._announced

    def lines(self) -> list[Raw]:
        """The log, record by record, each with its newline."""
        return [line(record) for record in self.records]

    def bytes(self) -> Raw:
        """The plain log."""
        return b"".join(self.lines())

    def framed(self) -> Raw:
        """The framed log: a frame for the header, and one an append."""
        return b"".join(frame(b"".join(map(line, append))) for append in self.appends if append)

    def write(self, path: Path, *, framed: bool = False) -> Path:
        """Write the log to `path`, which is returned."""
        path.write_bytes(self.framed() if framed else self.bytes())
        return path

    # Spoiling

    def record(self, seq: int) -> Record:
        """The record of one event, to be changed in place."""
        return next(r for r in self.records if r.get("seq", r.get("seq0")) == seq)

    def drop(self, seq: int) -> Self:
        """Leave an event out, without closing the gap."""
        for append in self.appends:
            append[:] = [r for r in append if r.get("seq", r.get("seq0")) != seq]
        return self

    def spoil(self, seq: int, change: Callable[[Record], object]) -> Self:
        """Change the record of one event by a function that edits it in place."""
        change(self.record(seq))
        return self

    # Verbs

    def system(self, words: str) -> Self:
        """Say what the system prompt is; before the first turn it is only noted for it."""
        self._system = words
        if self.turn is None and not self._turns:
            return self
        self._append()
        if self.format == 0:
            return self.header(reason="system")
        self._need_step()
        head = self.nodes[0] if self.nodes and self.nodes[0]["type"] == "system/message" else None
        assert head is not None, "the first turn had no system prompt to replace"
        self._put("system/message", self._in_step(self._system_message()), over=[head])
        return self

    def user(self, content: Content, **source: Any) -> Self:
        """The user speaks: the open turn ends, and a new one begins with this message."""
        if self.turn is not None:
            self.end()
        self._append()
        message = self._message("user", blocks(content), source={"kind": "user", **source})
        self._inbox(inserted=[message])
        self._begin_turn()
        self._inbox(removed=1)
        self._begin_step()
        if self.prompt_waits:
            assert not self.nodes, "a system prompt stands at the head or nowhere"
            self._put("system/message", self._in_step(self._system_message()))
        self._put("user/message", message)
        if not self._announced:
            self._announce("initial")
        return self

    def note(self, content: Content, *, kind: str = "runtime-context", **source: Any) -> Self:
        """A user message that begins no turn, wherever the log stands."""
        self._append()
        message = self._message("user", blocks(content), source={"kind": kind, **source})
        self._put("user/message", message)
        return self

    def developer(self, content: Content) -> Self:
        """A developer message in the open step (formats 3 and 4)."""
        assert self.format != 0, "format 0 has no developer messages"
        self._append()
        self._need_step()
        message = self._message("developer", blocks(content), source={"kind": "developer"})
        self._put("developer/message", self._in_step(message))
        return self

    def assistant(
        self,
        content: Content = (),
        *,
        calls: Sequence[Block] = (),
        reasoning: str | None = None,
        usage: Usage | None = None,
        stream: bool = True,
        **data: Any,
    ) -> Self:
        """The model answers, perhaps with tool calls, which `result` starts and answers.

        `usage` is (prompt, answer) in tokens, or the object as it stands in the log. `stream=False`
        leaves out the streamed pieces. Further words join the event's data.
        """
        self._append()
        self._need_request()
        thoughts = [{"type": "reasoning", "text": reasoning}] if reasoning is not None else []
        said = [*thoughts, *blocks(content), *calls]
        counted = self._usage(usage)
        source = {"kind": "model", "provider": self.provider, "model": self.model}
        first_seq = self.next_seq
        if self.format == 0 and stream:
            self._stream_lines(said, counted)
        event = self._in_step(self._message("assistant", said, source=source))
        if counted is not None:
            event["usage"] = counted
        if self.format != 0:
            event["stream"] = self._stream(said, counted) if stream else []
        streamed = [[first_seq, self.last_seq]] if self.next_seq > first_seq else None
        self._put("assistant/message", {**event, **data}, sources=streamed)
        for block in said:
            if block["type"] == "tool-call":
                self._promise(block)
        self._answered = True
        return self

    def call(self, call_id: str) -> Self:
        """Start a call of the open step; `result` does it where it was not done."""
        self._append()
        self._start(call_id)
        return self

    def result(
        self, call_id: str, content: Content, *, is_error: bool = False, **data: Any
    ) -> Self:
        """The tool's answer to a call of the open step. Further words join the event's data."""
        self._append()
        promised = self.calls[call_id]
        assert not promised["answered"], f"call {call_id} has its answer"
        if promised["started"] is None:
            self._start(call_id)
        promised["answered"] = True
        event = self._in_step(self._result_message(call_id, blocks(content), is_error))
        self._put("tool/result", {**event, **data}, sources=[promised["started"]])
        return self

    def refusal(
        self,
        *,
        limit: int,
        requested: int,
        messages: int | None = None,
        completion: int = 0,
        code: str = "CONTEXT_WINDOW_EXCEEDED",
        status: int | None = 400,
        message: str | None = None,
    ) -> Self:
        """The provider refuses the request, naming its limit and the request's size in tokens."""
        words = refusal_text(limit, requested, messages, completion)
        return self.failure(code=code, message=message or words, status=status)

    def failure(self, *, code: str, message: str, status: int | None = None) -> Self:
        """The request fails with an error; the step stays open for recovery, or for `give_up`."""
        self._append()
        self._need_request()
        self._failure = {"message": message, "code": code}
        if status is not None:
            self._failure["status"] = status
        reason = {"kind": "error", "failure": self._failure}
        finish = {"type": "finish", "reason": reason}
        if self.format == 0:
            self._event("assistant/chunk", self._in_step(chunk=finish))
        else:
            chunk = {"type": "chunk", "time": self._time(), "chunk": finish}
            self._event("assistant/attempt", self._in_step(stream=[chunk]))
        return self

    def give_up(self) -> Self:
        """The turn ends with the newest failure."""
        return self.end("error", error=dict(self._failure))

    def end(self, kind: str = "completed", **reason: Any) -> Self:
        """The open step and turn end. Every call of the step must have its answer."""
        self._append()
        if self.step is not None:
            self._end_step()
        assert self.turn is not None, "no turn is open"
        assert self.bracket is None, "a turn may not end inside a compaction"
        self._event("turn/end", {"turn": self.turn, "reason": {"kind": kind, **reason}})
        self.turn = None
        return self

    def next_step(self) -> Self:
        """The open step ends and the next begins, before there is an answer in it."""
        self._append()
        self._end_step()
        self._begin_step()
        return self

    def interrupt(self, words: str = "The outcome of this call is unknown.") -> Self:
        """What the harness does on resume to a session killed in mid-turn: answer and close."""
        self._append()
        for call_id, promised in self.calls.items():
            if not promised["answered"]:
                promised["answered"] = True
                self._interrupted_result(call_id, promised["started"], words)
        return self.end("interrupted")

    def end_seed(self) -> Self:
        """Everything so far came from an earlier process; its open bracket becomes stale."""
        self._append()
        self._event("session/end-seed", {})
        self.bracket = None
        return self

    def header(self, reason: str = "series", **config: Any) -> Self:
        """A new request header; words change it (`provider=`, `model=`, `maxTokens=`, `tools=`)."""
        assert self.turn is not None, "a request header stands in a turn"
        self._append()
        self.tools = config.pop("tools", self.tools)
        self.provider = config.pop("provider", self.provider)
        self.model = config.pop("model", self.model)
        self.max_tokens = config.pop("maxTokens", self.max_tokens)
        self._header(reason, config)
        return self

    def context(self, window: int | None) -> Self:
        """The routed model's window in tokens."""
        assert self.turn is not None, "a request context stands in a turn"
        self._append()
        self.window = window
        self._context()
        return self

    def prune(self, result: int | str, content: Content) -> Self:
        """Cut a tool result on the surface, named by its seq or by its call, down to `content`."""
        assert self.turn is not None, "between turns nothing can be pruned"
        self._append()
        old = self._result_node(result)
        self._event("compaction/prune", self._shadow([old]))
        data = json.loads(json.dumps(old["data"]))
        message = data["message"]
        holder = message if self.format == 4 else message["content"][0]
        holder["content"] = blocks(content)
        self._put("tool/result", data, over=[old])
        return self

    def compaction(
        self, summary: Content, *, over: tuple[int, int] | None = None, **data: Any
    ) -> Self:
        """Fold the nodes from one seq to another, or all that may go, into a summary."""
        self.open_bracket()
        self.checkpoint(summary, over=over, **data)
        return self.close_bracket()

    def failed_compaction(self, error: str = "boom") -> Self:
        """An attempt that ended with an error and changed nothing."""
        return self.open_bracket().close_bracket(error=error)

    def open_bracket(self) -> Self:
        """A compaction starts; left alone, it is a lock that a writer holds."""
        assert self.bracket is None, "a compaction is open"
        self._append()
        self.bracket = self._id()
        self._event("compaction/start", {"compactionId": self.bracket, "turn": self.turn})
        return self

    def checkpoint(
        self, summary: Content, *, over: tuple[int, int] | None = None, **data: Any
    ) -> Self:
        """Inside the open bracket: the summary, and the message that takes its nodes' place."""
        assert self.bracket is not None, "a summary stands in a compaction"
        self._append()
        start_seq = next(
            r["seq"]
            for r in reversed(self.records)
            if r["type"] == "compaction/start" and r["data"]["compactionId"] == self.bracket
        )
        leaving = self._between(over)
        noted = blocks(summary)
        facts = {
            "compactionId": self.bracket,
            "summary": noted,
            "rawOutput": noted,
            "llmStreamCall": True,
            **self._shadow(leaving),
            "provider": self.provider,
            "model": self.model,
            **data,
        }
        self._event("compaction/summary", facts)
        content = [text(f"{FRAMING}\n\n<compacted-summary>"), *noted, text("</compacted-summary>")]
        if self.format == 4:
            source = {"kind": "compact-checkpoint", "compactionId": self.bracket}
        else:
            source = {"kind": "plugin", "plugin": "compact", "compactionId": self.bracket}
        message = self._message("user", content, source=source)
        self._put("user/message", message, over=leaving, sources=[start_seq, self.last_seq])
        return self

    def close_bracket(self, *, error: str | None = None) -> Self:
        """The open compaction ends."""
        assert self.bracket is not None, "no compaction is open"
        self._append()
        data: Record = {"compactionId": self.bracket, "turn": self.turn}
        self._event("compaction/end", data if error is None else {**data, "error": error})
        self.bracket = None
        return self

    def replace(self, content: Content, *, over: tuple[int, int]) -> Self:
        """A user message of no compaction takes the place of the nodes between two seqs."""
        self._append()
        message = self._message("user", blocks(content), source={"kind": "edit"})
        self._put("user/message", message, over=self._between(over))
        return self

    def event(self, kind: str, data: Record | None = None, **envelope: Any) -> Self:
        """Any other type of event; `ignorable=True` marks one that readers may skip."""
        self._append()
        self._event(kind, data or {}, **envelope)
        return self

    def delivered(self) -> Self:
        """The provider's side has accepted the log so far (format 4)."""
        assert self.next_seq, "there is nothing to deliver yet"
        self._append()
        facts = {"sessionId": self.records[0]["id"], "sessionFormatVersion": self.format}
        accepted = {**facts, "throughSeq": self.last_seq}
        self._event("session-log-deepseek/delivery-accepted", accepted)
        return self

    # Turns, steps, requests

    def _begin_turn(self) -> None:
        assert self.bracket is None, "a turn may not start inside a compaction"
        self._turns += 1
        self.turn, self._steps = self._turns, 0
        self._event("turn/start", {"turn": self.turn})

    def _begin_step(self) -> None:
        assert self.turn is not None, "a step stands in a turn"
        self._steps += 1
        self.step, self._answered, self.calls = self._steps, False, {}
        self._event("step/start", self._in_step())

    def _end_step(self) -> None:
        waiting = [name for name, promised in self.calls.items() if not promised["answered"]]
        assert not waiting, f"calls {waiting} wait for their results"
        self._event("step/end", self._in_step())
        self.step, self.calls = None, {}

    def _need_step(self) -> None:
        if self.step is None:
            self._begin_step()

    def _need_request(self) -> None:
        assert self.turn is not None, "a request is made in a turn; let the user speak first"
        if self.step is not None and self._answered:
            self._end_step()
        self._need_step()

    def _announce(self, reason: str) -> None:
        self._announced = True
        self._header(reason, {})
        self._context()

    def _header(self, reason: str, config: Record) -> None:
        settings: Record = {"provider": self.provider, "model": self.model}
        if self.max_tokens is not None:
            settings["maxTokens"] = self.max_tokens
        header: Record = {"config": {**settings, **config}}
        if self.format == 0 and self._system is not None:
            header["system"] = self._system
        if self.tools:
            header["tools"] = self.tools
        self._event("request/header", {"header": header, "reason": reason})

    def _context(self) -> None:
        data: Record = {"provider": self.provider, "model": self.model}
        if self.window is not None:
            data["contextWindow"] = self.window
        self._event("request/context", data)

    def _in_step(self, message: Record | None = None, **data: Any) -> Record:
        place: Record = {"turn": self.turn, "step": self.step}
        return {**place, **({} if message is None else {"message": message}), **data}

    def _inbox(self, *, inserted: Iterable[Record] = (), removed: int = 0) -> None:
        data: Record = {"target": "next-turn", "start": 0}
        if removed:
            data["removedCount"] = removed
        self._event("agent/inbox/spliced", {**data, "inserted": list(inserted)})

    # Messages

    def _id(self) -> str:
        self._ids += 1
        return f"{self._ids:08x}-0000-4000-8000-{self._ids:012x}"

    def _message(self, role: str, content: list[Block], *, source: Record) -> Record:
        message: Record = {"content": content, "source": source, "role": role, "id": self._id()}
        if role == "user":
            return message
        return {"role": role, "content": content, "source": source, "id": message["id"]}

    def _system_message(self) -> Record:
        words = self._system
        kind: Record = {"kind": "plugin", "plugin": "system-prompt"}
        source = {"kind": "system-prompt"} if self.format == 4 else kind
        return self._message("system", [text(words)] if words else [], source=source)

    def _result_message(self, call_id: str, content: list[Block], is_error: bool) -> Record:
        source = {"kind": "tool", "callId": call_id}
        if self.format == 4:
            head: Record = {"role": "tool", "source": source, "toolCallId": call_id}
            return {**head, "content": content, "isError": is_error, "id": self._id()}
        block = {"type": "tool-result", "toolCallId": call_id, "content": content}
        wrapped = [{**block, "isError": is_error}]
        return {"source": source, "content": wrapped, "role": "user", "id": self._id()}

    def _interrupted_result(self, call_id: str, started: int | None, words: str) -> None:
        """An answer as the harness gives it on resume, with its keys in another order."""
        said = words if started is not None else NOT_STARTED_TEXT
        message = self._result_message(call_id, [text(said)], is_error=True)
        order = ("id", "role", "toolCallId", "isError", "source", "content")
        message = {key: message[key] for key in order if key in message}
        message["id"] = f"interrupted-tool-result-{call_id}-{self.next_seq}"
        known = ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN")
        name, code = known if started is not None else ("ToolNotStartedError", NOT_STARTED)
        data = self._in_step(message, error={"name": name, "code": code})
        sources: Record = {} if started is None else {"sourceEventSeqs": [started]}
        self._event("tool/result", data, surfaceOp="append", **sources)
        self.nodes.append(self.appends[-1][-1])

    def _usage(self, counted: Usage | None) -> Record | None:
        return usage(*counted) if isinstance(counted, tuple) else counted

    def _promise(self, block: Block) -> None:
        assert block["id"] not in self.calls, f"call {block['id']} is promised twice"
        self.calls[block["id"]] = {"block": block, "started": None, "answered": False}

    def _start(self, call_id: str) -> None:
        promised = self.calls[call_id]
        assert promised["started"] is None, f"call {call_id} was started"
        promised["started"] = self.next_seq
        block = promised["block"]
        facts = {"callId": call_id, "name": block["name"], "arguments": block["arguments"]}
        self._event("tool/call", self._in_step(**facts))

    # Streams

    def _stream(self, said: list[Block], counted: Record | None) -> list[Record]:
        stream: list[Record] = []
        for index, block in enumerate(said):
            start = {"type": "block-start", "index": index, "blockType": block["type"]}
            stream.append({"type": "chunk", "time": self._time(), "chunk": start})
            packed = pieces(block)
            if packed is not None:
                kind, facts, waits = packed
                place = {"time0": self._time(), "index": index, "dt": waits}
                stream.append({"type": kind, **place, **facts})
            done = {"type": "block-end", "index": index, "block": block}
            stream.append({"type": "chunk", "time": self._time(), "chunk": done})
        ending = closing(said, counted)
        stream.extend({"type": "chunk", "time": self._time(), "chunk": chunk} for chunk in ending)
        return stream

    def _stream_lines(self, said: list[Block], counted: Record | None) -> None:
        for index, block in enumerate(said):
            start = {"type": "block-start", "index": index, "blockType": block["type"]}
            self._event("assistant/chunk", self._in_step(chunk=start))
            packed = pieces(block)
            if packed is not None:
                kind, facts, waits = packed
                place = self._in_step(index=index, dt=waits)
                row = {"type": kind, "seq0": self.next_seq, "time0": self._time()}
                self.appends[-1].append({**row, "data": {**place, **facts}})
                self.next_seq += len(waits) + 1
        for index, block in enumerate(said):
            done = {"type": "block-end", "index": index, "block": block}
            self._event("assistant/chunk", self._in_step(chunk=done))
        for chunk in closing(said, counted):
            self._event("assistant/chunk", self._in_step(chunk=chunk))

    # The surface

    def _append(self) -> None:
        self.appends.append([])

    def _time(self) -> int:
        return STARTED_MS + 7 * self.next_seq

    def _event(self, kind: str, data: Record, **envelope: Any) -> None:
        place = {"type": kind, "seq": self.next_seq, "time": self._time()}
        self.appends[-1].append({**place, "data": data, **envelope})
        self.next_seq += 1

    def _put(
        self,
        kind: str,
        data: Record,
        *,
        over: Sequence[Record] = (),
        sources: Sequence[int | list[int]] | None = None,
    ) -> None:
        """Write a surface event and do to our own surface what it does."""
        assert kind in (MESSAGES if self.format == 0 else LATER_MESSAGES), kind
        named = [*(sources or ()), *(node["seq"] for node in over)]
        envelope: Record = {"sourceEventSeqs": named} if named else {}
        if not over:
            self._event(kind, data, **envelope, surfaceOp="append")
            self.nodes.append(self.appends[-1][-1])
            return
        ends = ("start", "end") if self.format == 0 else ("startSeq", "endSeq")
        operation: Record = {"op": "replace", ends[0]: over[0]["seq"], ends[1]: over[-1]["seq"]}
        self._event(kind, data, **envelope, surfaceOp=operation)
        place = self.node_seqs.index(over[0]["seq"])
        self.nodes[place : place + len(over)] = [self.appends[-1][-1]]

    def _between(self, over: tuple[int, int] | None) -> list[Record]:
        seqs = self.node_seqs
        prompted = bool(self.nodes) and self.nodes[0]["type"] == "system/message"
        start, end = int(prompted), len(seqs) - 1
        if over is not None:
            start, end = seqs.index(over[0]), seqs.index(over[1])
        assert start <= end, "there is nothing to replace between these seqs"
        assert start >= int(prompted), "the system prompt is not folded"
        return self.nodes[start : end + 1]

    def _shadow(self, leaving: Sequence[Record]) -> Record:
        return {
            "shadowedRange": {"start": leaving[0]["seq"], "end": leaving[-1]["seq"]},
            "shadowedSeqs": [node["seq"] for node in leaving],
            "shadowedTokenCount": sum(map(node_tokens, leaving)),
        }

    def _result_node(self, result: int | str) -> Record:
        for node in self.nodes:
            if node["type"] == "tool/result" and result in (
                node["seq"],
                node["data"]["message"]["source"]["callId"],
            ):
                return node
        raise AssertionError(f"no tool result {result!r} on the surface")


def pieces(block: Block) -> tuple[str, Record, list[int]] | None:
    """A block as it was streamed: the packed row's type, its lists, the waits in milliseconds."""
    match block["type"]:
        case "text" | "reasoning" as kind:
            parts = re.findall(r"\S*\s*", block["text"])[:-1] or [""]
            return f"{kind}-chunks", {"texts": parts}, [0] * (len(parts) - 1)
        case "tool-call":
            written = block["arguments"]
            parts = ["", *(written[i : i + 8] for i in range(0, len(written), 8))]
            named = {"id": block["id"], "name": block["name"], "args": parts}
            return "tool-call-chunks", named, [0] * (len(parts) - 1)
    return None


def closing(said: Iterable[Block], counted: Record | None) -> list[Record]:
    """The chunks that end a stream: what the provider counted, and why it stopped."""
    calls = any(block["type"] == "tool-call" for block in said)
    finish = {"type": "finish", "reason": {"kind": "tool-calls" if calls else "stop"}}
    return [finish] if counted is None else [{"type": "usage", "usage": counted}, finish]
