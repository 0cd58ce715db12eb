"""A provider for the real harness to talk to: streamed messages over HTTP on 127.0.0.1, and a wall.

The rule: a request longer than `wall_tokens` is refused in a real provider's words, any other is
answered from the script. A user who says `RUN: a && b` gets the model's calls of `bash` with `a`
and with `b`, one who says `CUT` a reply that its budget cut short, one who says `BREAK` a stream
that breaks off, one who says `STALL` nothing for a minute; everything else gets one sentence. A
request with another completion budget than `TURN_MAX_TOKENS` is the harness's own summary request:
it is answered with `summary`, or fails.

It speaks the part of Anthropic's messages API that the harness uses (`POST /v1/messages`,
server-sent events), and keeps every request that arrived. It knows nothing of logs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, assert_never

Block = dict[str, Any]
Outcome = Literal["answered", "refused", "summarised", "summary-failed"]

TURN_MAX_TOKENS = (
    500  # what the tests ask for in a turn; the harness summarises with its own 65,536
)
CHARACTERS_PER_TOKEN = 4
STALL_SECONDS = 60  # longer than a harness that is to be killed lives
RUNTIME_CONTEXT = "Current runtime context"  # the harness puts it behind the user's words
OUTPUT_TOKENS = 50  # no script needs the true number


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """One request as it arrived: what the model would have seen, its size, what became of it."""

    system: str
    messages: list[Block]
    tools: list[Block]
    tokens: int
    outcome: Outcome

    @property
    def text(self) -> str:
        """All that the messages say, as one string: every text, thought, call and result."""
        return "\n".join(text for message in self.messages for text in texts(message["content"]))

    @property
    def unanswered_calls(self) -> set[str]:
        """Ids of calls without a result, and of results without a call. Providers refuse both."""
        blocks = [block for message in self.messages for block in message["content"]]
        calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
        answers = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        return calls ^ answers


class ScriptedProvider:
    """The script, and what arrived so far. `wall_tokens` and `summary` may change between turns."""

    def __init__(self, *, wall_tokens: int | None = None, summary: str | None = None) -> None:
        self.wall_tokens = wall_tokens
        self.summary = summary
        self.arrived: list[Arrived] = []
        self.base_url = ""
        self._lock = threading.Lock()

    @property
    def last(self) -> Arrived:
        """The newest request."""
        return self.arrived[-1]

    def take(self, body: Block) -> tuple[int, list[Block]]:
        """Keep the request; the reply's status and its events (or the one error body)."""
        with self._lock:
            tokens, number = count_tokens(body), len(self.arrived)
            outcome = self._outcome(body, tokens)
            self.arrived.append(
                Arrived(
                    system=system_text(body.get("system", "")),
                    messages=body["messages"],
                    tools=body.get("tools", []),
                    tokens=tokens,
                    outcome=outcome,
                )
            )
        match outcome:
            case "refused":
                return 400, [refusal(tokens, self.wall_tokens or 0)]
            case "summary-failed":
                return 400, [error("this provider does not summarise")]
            case "summarised":
                blocks: list[Block] = [{"type": "text", "text": self.summary}]
            case "answered":
                blocks = script(last_word(body["messages"]), number)
            case _:
                assert_never(outcome)
        events = list(stream(blocks, model=body["model"], input_tokens=tokens))
        return 200, disturbed(events, last_word(body["messages"]))

    def _outcome(self, body: Block, tokens: int) -> Outcome:
        if self.wall_tokens is not None and tokens > self.wall_tokens:
            return "refused"
        if body["max_tokens"] == TURN_MAX_TOKENS:
            return "answered"
        return "summary-failed" if self.summary is None else "summarised"


@contextmanager
def serve(provider: ScriptedProvider) -> Iterator[ScriptedProvider]:
    """Answer on a free port of 127.0.0.1 until the block ends; sets the provider's `base_url`."""
    server = _Server(provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, provider: ScriptedProvider) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider
        provider.base_url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Answer one request; HTTP/1.0 closes the connection behind it, which ends the stream."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/messages":
            self._send(404, "application/json", json.dumps(error("no such path")))
            return
        status, events = self.server.provider.take(body)
        if status != 200:
            self._send(status, "application/json", json.dumps(events[0]))
            return
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._send(status, "text/event-stream", "".join(lines))

    def _send(self, status: int, content_type: str, body: str) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in http.server
        """Say nothing: pytest shows what arrived where it matters."""


# What a request says


def count_tokens(body: Block) -> int:
    """The request's size in tokens: the characters of what the model sees, by four."""
    seen = [body.get("system", ""), body["messages"], body.get("tools", [])]
    characters = len(json.dumps(seen, ensure_ascii=False, separators=(",", ":")))
    return characters // CHARACTERS_PER_TOKEN


def system_text(system: str | list[Block]) -> str:
    """The system prompt, which the API takes as a string or as blocks."""
    return system if isinstance(system, str) else "\n".join(block["text"] for block in system)


def texts(content: str | list[Block]) -> Iterator[str]:
    """Every text in a message's content, results of tools included."""
    if isinstance(content, str):
        yield content
        return
    for block in content:
        match block["type"]:
            case "text":
                yield block["text"]
            case "thinking":
                yield block["thinking"]
            case "tool_use":
                yield json.dumps(block["input"])
            case "tool_result":
                yield from texts(block.get("content", ""))


# What is answered


def last_word(messages: list[Block]) -> str:
    """What the user said last; empty where results of tools stand behind it."""
    for block in reversed(messages[-1]["content"]):
        if block["type"] != "text":
            return ""
        if not block["text"].startswith(RUNTIME_CONTEXT):
            return str(block["text"])
    return ""


def script(word: str, number: int) -> list[Block]:
    """The model's blocks for the user's last word: calls where it says RUN, else one sentence."""
    if not word.startswith("RUN: "):
        return [{"type": "text", "text": f"Done with request {number}: all looks right."}]
    calls: list[Block] = [
        {
            "type": "tool_use",
            "id": f"call_{number}_{place}",
            "name": "bash",
            "input": {"command": command},
        }
        for place, command in enumerate(word.removeprefix("RUN: ").split(" && "))
    ]
    return [
        {"type": "thinking", "thinking": "I should run the requested command now."},
        {"type": "text", "text": "Running it."},
        *calls,
    ]


def disturbed(events: list[Block], word: str) -> list[Block]:
    """The events of a reply, as the user's word wants them spoilt."""
    match word:
        case "CUT":
            return [cut_short(event) for event in events]
        case "BREAK":
            return events[:3]
        case "STALL":
            time.sleep(STALL_SECONDS)
    return events


def cut_short(event: Block) -> Block:
    """The same event, of a reply that reached its budget."""
    if event["type"] != "message_delta":
        return event
    return {**event, "delta": {**event["delta"], "stop_reason": "max_tokens"}}


def refusal(tokens: int, wall_tokens: int) -> Block:
    """The error body of a request that is too long, in the words of a real provider."""
    return error(
        f"This model's maximum context length is {wall_tokens} tokens. However, you requested "
        f"{tokens} tokens ({tokens} in the messages, 0 in the completion). Please reduce the "
        "length of the messages or completion."
    )


def error(message: str) -> Block:
    """An error body."""
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def stream(blocks: list[Block], *, model: str, input_tokens: int) -> Iterator[Block]:
    """The events of one streamed reply."""
    usage = {"input_tokens": input_tokens, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    for index, block in enumerate(blocks):
        start, deltas = opened(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    calls = any(block["type"] == "tool_use" for block in blocks)
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": OUTPUT_TOKENS},
    }
    yield {"type": "message_stop"}


def opened(block: Block) -> tuple[Block, list[Block]]:
    """A block as it starts, empty, and the pieces that fill it."""
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": "signed"},
            ]
        case "tool_use":
            pieces = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            return {**block, "input": {}}, [pieces]
        case _:
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
