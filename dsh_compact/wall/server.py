"""The wall as a real server on 127.0.0.1, for real clients to run into.

Rule: it counts what arrives with a real tokenizer, answers what fits with one sentence, and refuses
the rest as the asked-for provider does. It believes no client: bodies are bounded, slow ones are
cut off, and nothing that arrives is kept but its size.
"""

import json
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Final, Literal, Self

from msgspec import Struct, to_builtins

from dsh_compact.events import Failure
from dsh_compact.tokenizers import Tokenizer
from dsh_compact.wall.apis import Api, ChatCompletions, Json, Messages
from dsh_compact.wall.asked import Malformed
from dsh_compact.wall.counting import Wall
from dsh_compact.wall.wordings import in_words_of

HOST: Final = "127.0.0.1"
"""Nobody else's requests are our business."""

MODEL: Final = "wall"
"""The model that is listed; any name is taken."""

MOST_BODY_BYTES: Final = 64 * 1024 * 1024
"""Above what the real APIs take (32 MB, Anthropic): beyond it lies a mistake, or mischief."""

MOST_LINE_BYTES: Final = 65_536
MOST_TRAILERS: Final = 64
"""What may stand behind a body in chunks: HTTP allows headers there, and hardly anybody sends one.
"""

SLOW_SECONDS: Final = 30.0
"""A client that sends nothing for so long has gone."""

MOST_REMEMBERED: Final = 1_000
"""Requests that `GET /` lists, the newest."""

CHAT, MESSAGES = ChatCompletions(), Messages()

ROUTES: Final[dict[str, Api]] = {
    "/v1/chat/completions": CHAT,
    "/chat/completions": CHAT,  # some clients are given the address without /v1
    "/v1/messages": MESSAGES,
}
COUNTING: Final = "/v1/messages/count_tokens"
LISTS: Final = ("/v1/models", "/models")

ALLOWED: Final = {
    "/": "GET",
    **dict.fromkeys(LISTS, "GET"),
    **dict.fromkeys((*ROUTES, COUNTING), "POST"),
}
"""Path → the one method that it takes."""


class Arrived(Struct, frozen=True, kw_only=True):
    """One request, and what became of it; `tokens` is None where it could not be read."""

    number: int
    path: str
    tokens: int | None
    outcome: Literal["answered", "refused", "dropped", "malformed"]


class WallServer:
    """A server that listens once it is made; `serve` works until `stop`.

    `like` words the refusals, None means each API in its own provider's words. `told` hears of each
    request, from the thread that served it.
    """

    def __init__(
        self,
        limit_tokens: int,
        tokenizer: Tokenizer,
        *,
        like: str | None = None,
        is_silent: bool = False,
        port: int = 0,
        told: Callable[[Arrived], None] | None = None,
    ) -> None:
        """Listens on `port` of 127.0.0.1, on any free one where it is 0; raises `OSError`."""
        self.limit_tokens = limit_tokens
        self.is_silent = is_silent
        self._tokenizer = tokenizer
        self._like = like
        self._told = told
        self._lock = Lock()
        self._arrived: deque[Arrived] = deque(maxlen=MOST_REMEMBERED)
        self._count = 0
        self._http = _Http((HOST, port), self)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self._http.server_address[1]}"

    def serve(self) -> None:
        """Serves until `stop` is called, or an exception (Ctrl-C) comes."""
        self._http.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """Ends `serve`, wherever it runs, and gives the port back."""
        self._http.shutdown()
        self._http.server_close()

    def close(self) -> None:
        """Gives the port back of a server that does not serve (any more)."""
        self._http.server_close()

    def __enter__(self) -> Self:
        Thread(target=self.serve, name="wall", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def arrived(self) -> tuple[Arrived, ...]:
        """The newest requests, oldest first."""
        with self._lock:
            return tuple(self._arrived)

    @property
    def served(self) -> int:
        """How many requests there were."""
        return self._count

    def wall(self, api: Api) -> Wall:
        """The wall as a client of that API meets it."""
        refuse = in_words_of(self._like or api.like)
        return Wall(limit_tokens=self.limit_tokens, refuse=refuse, is_silent=self.is_silent)

    def words(self, api: Api) -> str:
        """Whose words a client of that API hears."""
        return self._like or api.like

    def count(self, counted: Callable[[Tokenizer], int]) -> int:
        """What `counted` gives; one thread at a time."""
        with self._lock:
            return counted(self._tokenizer)

    def note(
        self,
        path: str,
        tokens: int | None,
        outcome: Literal["answered", "refused", "dropped", "malformed"],
    ) -> None:
        """Remembers a request, and tells of it."""
        with self._lock:
            self._count += 1
            one = Arrived(number=self._count, path=path, tokens=tokens, outcome=outcome)
            self._arrived.append(one)
        if self._told is not None:
            self._told(one)


class _Http(ThreadingHTTPServer):
    """Python's server, which hands each connection to a thread of its own."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], wall: WallServer) -> None:
        self.wall = wall
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _TooLong(Exception):
    """A body that nobody wants to read."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # what is no request is answered with a status, too
    server_version = "dshc-wall"
    sys_version = ""
    timeout = SLOW_SECONDS
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, the base class's name
        """What is worth telling is told by the wall."""

    def do_GET(self) -> None:
        """The models, and what has arrived so far."""
        path = self._path()
        if path == "/":
            wall = self.server.wall
            arrived = [to_builtins(one) for one in wall.arrived]
            self._send(200, {"limit_tokens": wall.limit_tokens, "requests": arrived})
        elif path in LISTS:
            self._send(200, self._api_of_client().models(MODEL))
        else:
            self._refuse_method(path)

    def do_POST(self) -> None:
        """A request to a model, or for a count."""
        path = self._path()
        try:
            body = self._body()
        except _TooLong as fault:
            self.close_connection = True
            self._refuse(413, str(fault))
            return
        if path == COUNTING:
            self._count(body)
        elif path in ROUTES:
            self._ask(ROUTES[path], path, body)
        else:
            self._refuse_method(path)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What Python's server refuses by itself, as JSON: other methods, and what is no HTTP.

        What else the client has sent is not read, so the connection ends.
        """
        self.close_connection = True
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._refuse_method(self._path())
        else:
            self._refuse(code, message or HTTPStatus(code).phrase)

    # Requests -------------------------------------------------------------------------------------

    def _ask(self, api: Api, path: str, body: bytes) -> None:
        wall = self.server.wall
        try:
            asked = api.asked(body)
        except Malformed as fault:
            wall.note(path, None, "malformed")
            self._refuse(400, str(fault), api)
            return
        answer = wall.wall(api).request(wall.count(asked.count))
        if answer.failure is not None:
            wall.note(path, answer.tokens, "refused")
            requested, limit = answer.tokens, wall.limit_tokens
            body_out = api.error(answer.failure, wall.words(api), requested, limit)
            self._send(answer.failure.status or 400, body_out)
            return
        wall.note(path, answer.tokens, "dropped" if answer.dropped_tokens else "answered")
        given = answer.tokens - answer.dropped_tokens
        text = f"Your request of {given} tokens is within the wall of {wall.limit_tokens}."
        made = wall.count(lambda tokenizer: tokenizer.count(text))
        if asked.is_stream:
            self._send_events(api.stream(asked, text, given, made), ends=api is CHAT)
        else:
            self._send(200, api.answer(asked, text, given, made))

    def _count(self, body: bytes) -> None:
        try:
            asked = MESSAGES.asked(body)
        except Malformed as fault:
            self._refuse(400, str(fault), MESSAGES)
            return
        self._send(200, {"input_tokens": self.server.wall.count(asked.count)})

    # HTTP -----------------------------------------------------------------------------------------

    def _path(self) -> str:
        return self.path.partition("?")[0].rstrip("/") or "/"

    def _api_of_client(self) -> Api:
        headers = getattr(self, "headers", ())  # none yet where the first line is no request
        path = getattr(self, "path", "")
        is_anthropic = "anthropic-version" in headers or path.startswith("/v1/messages")
        return MESSAGES if is_anthropic else CHAT

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunked_body()
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            raise _TooLong(f"a body of at most {MOST_BODY_BYTES} bytes is wanted, with its length")
        return self.rfile.read(int(length))

    def _chunked_body(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while length := self._chunk_length():
            size += length
            if size > MOST_BODY_BYTES:
                raise _TooLong(f"a body of at most {MOST_BODY_BYTES} bytes is wanted")
            pieces.append(self.rfile.read(length))
            self.rfile.readline(MOST_LINE_BYTES)
        for _ in range(MOST_TRAILERS):
            if not self.rfile.readline(MOST_LINE_BYTES).strip():
                return b"".join(pieces)
        raise _TooLong("the body has no end")

    def _chunk_length(self) -> int:
        line = self.rfile.readline(MOST_LINE_BYTES).partition(b";")[0].strip()
        try:
            length = int(line, 16)
        except ValueError:
            raise _TooLong("the chunks of the body don't say how long they are") from None
        if length < 0:
            raise _TooLong("a chunk of the body claims to be shorter than nothing")
        return length

    def _refuse_method(self, path: str) -> None:
        allowed = ALLOWED.get(path)
        if allowed is None:
            self._refuse(404, f"there is nothing at {path}")
        else:
            self._refuse(405, f"{path} takes {allowed} only", allowed=allowed)

    def _refuse(
        self, status: int, message: str, api: Api | None = None, *, allowed: str | None = None
    ) -> None:
        failure = Failure(message=message, code="invalid_request_error", status=status)
        api = api or self._api_of_client()
        self._send(status, api.error(failure, api.like, 0, 0), allowed=allowed)

    def _send(self, status: int, value: Json, *, allowed: str | None = None) -> None:
        data = json.dumps(value).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if allowed is not None:
            self.send_header("Allow", allowed)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_events(self, events: Any, *, ends: bool) -> None:
        """Server-sent events, as chunks, so that the connection can go on."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, value in events:
            head = f"event: {name}\n" if name else ""
            self._send_chunk(f"{head}data: {json.dumps(value)}\n\n".encode("ascii"))
        if ends:
            self._send_chunk(b"data: [DONE]\n\n")
        self._send_chunk(b"")

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()
