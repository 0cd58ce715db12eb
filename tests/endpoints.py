"""Providers on 127.0.0.1 that answer as a script says, for whoever asks a model over HTTP.

    with Endpoint(Refused(429, "slow down", {"retry-after": "0"}), Streamed(chunks)) as server: …

A real server on a real socket: each request takes the next reply of the script, the last one for
ever; `requests` keeps what came. The shapes at the end are OpenAI's and Anthropic's streams.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """One request: path, headers (names in lower case) and body."""

    path: str
    headers: dict[str, str]
    body: JSON


@dataclass(frozen=True, slots=True)
class Streamed:
    """An event stream: each frame is its bytes, sent on their own; cut before the end if `torn`."""

    frames: Sequence[bytes]
    torn: bool = False
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Refused:
    """An error: status, what it says (JSON, or text), further headers."""

    status: int
    says: JSON | str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer without a stream: one JSON object."""

    body: JSON


Reply = Streamed | Refused | Whole
Script = Reply | Callable[[JSON], Reply]
"""A reply, or what makes one of the request's body."""


class Endpoint:
    """A server that follows a script, as a context; `url` is where it listens."""

    def __init__(self, *script: Script) -> None:
        self.requests: list[Came] = []
        self._script = [*script]
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def bodies(self) -> list[JSON]:
        """The bodies of all requests."""
        return [came.body for came in self.requests]

    def answer(self, came: Came) -> Reply:
        """Notes a request and gives the reply that is due."""
        self.requests.append(came)
        step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return step(came.body) if callable(step) else step


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = endpoint


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.endpoint.answer(Came(path=self.path, headers=headers, body=body))
        match reply:
            case Streamed():
                self._stream(reply)
            case Refused(status, says, more):
                told = says if isinstance(says, str) else json.dumps(says)
                self._send(status, told, more)
            case Whole(answer):
                self._send(200, json.dumps(answer), {})

    def _send(self, status: int, text: str, headers: dict[str, str]) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        with suppress(OSError):  # the client may leave before the end
            self.wfile.write(data)

    def _stream(self, reply: Streamed) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            for one in reply.frames:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(one), one))
                self.wfile.flush()
                time.sleep(reply.pause_seconds)
            if not reply.torn:
                self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Stays silent."""


def frame(data: JSON, event: str | None = None) -> bytes:
    """One frame of an event stream."""
    name = b"" if event is None else f"event: {event}\n".encode()
    return name + b"data: " + json.dumps(data).encode() + b"\n\n"


def in_pieces(text: str) -> list[str]:
    """A text as it is streamed: some characters at a time, forty pieces at most."""
    size = max(7, len(text) // 40 + 1)
    return [text[i : i + size] for i in range(0, len(text), size)]


def openai_answer(text: str, *, finish: str | None = "stop", **usage: Any) -> list[bytes]:
    """An answer as OpenAI streams it."""
    pieces = in_pieces(text)
    frames = [frame({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in pieces]
    if finish is not None:
        frames.append(frame({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    counted = {"prompt_tokens": 100, "completion_tokens": 9, **usage}
    return [*frames, frame({"choices": [], "usage": counted}), b"data: [DONE]\n\n"]


def anthropic_answer(text: str, *, stop: str | None = "end_turn", **usage: Any) -> list[bytes]:
    """An answer as Anthropic streams it."""
    counted = {"input_tokens": 100, "output_tokens": 1, **usage}
    started: JSON = {"type": "message_start", "message": {"role": "assistant", "usage": counted}}
    block: JSON = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    pieces: list[JSON] = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": piece},
        }
        for piece in in_pieces(text)
    ]
    ended: JSON = {
        "type": "message_delta",
        "delta": {"stop_reason": stop},
        "usage": {"output_tokens": 9},
    }
    events = [started, {"type": "ping"}, block, *pieces, ended, {"type": "message_stop"}]
    return [frame(event, str(event["type"])) for event in events]
