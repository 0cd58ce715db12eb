"""The wall: who fits, in whose words the rest is refused, and what real clients make of it."""

import http.client
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import anthropic
import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import DSHC, dshc

from dsh_compact import tokenizers
from dsh_compact.errors import UsageError
from dsh_compact.events import Failure
from dsh_compact.overflow import Code, Refusal, normalise, parse_failure
from dsh_compact.wall import WORDINGS, Wall, as_told, in_words_of, like_provider
from dsh_compact.wall.apis import Api, ChatCompletions, Messages
from dsh_compact.wall.asked import IMAGE_TOKENS, Malformed, texts
from dsh_compact.wall.server import ALLOWED, MOST_BODY_BYTES, WallServer

LIMIT: Final = 200
SHORT: Final = [{"role": "user", "content": "Are you there?"}]
LONG: Final = [{"role": "user", "content": "one word more " * 100}]
TOKENIZER: Final = tokenizers.load("o200k_base")


@pytest.fixture
def wall() -> Iterator[WallServer]:
    """A server whose every API refuses in its own provider's words."""
    with WallServer(LIMIT, TOKENIZER) as server:
        yield server


def of_openai(server: WallServer) -> openai.OpenAI:
    """OpenAI's own client."""
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)


def of_anthropic(server: WallServer) -> anthropic.Anthropic:
    """Anthropic's own client."""
    return anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)


def ask_openai(server: WallServer, messages: Any, **options: Any) -> Any:
    """One request with OpenAI's client."""
    with of_openai(server) as client:
        answer = client.chat.completions.create(model="m", messages=messages, **options)
        return list(answer) if isinstance(answer, openai.Stream) else answer


def ask_anthropic(server: WallServer, messages: Any, **options: Any) -> Any:
    """One request with Anthropic's client."""
    with of_anthropic(server) as client:
        return client.messages.create(model="m", max_tokens=99, messages=messages, **options)


def overflow_in(fault: Exception) -> Refusal:
    """What an overflow means, told as a harness would: by status, code and the client's words."""
    assert isinstance(fault, openai.APIStatusError | anthropic.APIStatusError)
    refusal = normalise(Failure(message=str(fault), status=fault.status_code))
    assert Code.CONTEXT_WINDOW_EXCEEDED is refusal.code
    assert refusal.code is normalise(parse_failure(repr(fault))).code
    assert refusal.code is normalise(parse_failure(fault.response.text)).code
    return refusal


# Counting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "is_refused"), [(LIMIT, False), (LIMIT + 1, True)])
def test_the_wall_stands_at_its_limit(tokens: int, is_refused: bool) -> None:
    """As many tokens as the limit fit, one more is refused."""
    wall = Wall(limit_tokens=LIMIT, refuse=in_words_of("openai"))
    assert is_refused == (wall.request(tokens).failure is not None)


def test_a_silent_wall_drops() -> None:
    """It refuses nothing, and tells (to us alone) how much it threw away."""
    wall = Wall(limit_tokens=LIMIT, refuse=in_words_of("openai"), is_silent=True)
    answer = wall.request(LIMIT + 7)
    assert (None, 7) == (answer.failure, answer.dropped_tokens)


# Wordings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("like", WORDINGS)
def test_every_wording_is_an_overflow(like: str) -> None:
    """What we say in a provider's words is read as that provider's overflow, numbers and all."""
    refusal = normalise(in_words_of(like)(9_690, 8_000))
    assert Code.CONTEXT_WINDOW_EXCEEDED is refusal.code
    if "{limit}" in WORDINGS[like].message:
        assert (8_000, 9_690) == (refusal.limit_tokens, refusal.requested_tokens)


def test_an_unknown_provider_has_no_words() -> None:
    """The error names those that have."""
    with pytest.raises(UsageError, match=r"choose one of openai, anthropic, deepseek"):
        in_words_of("nobody")


@pytest.mark.parametrize(
    ("provider", "like"),
    [
        ("deepseek-official", "deepseek"), ("anthropic", "anthropic"), ("my-vLLM", "vllm"),
        ("elsewhere", "openai"), (None, "openai"),
    ],
)  # fmt: skip
def test_a_log_is_refused_by_its_own_provider(provider: str | None, like: str) -> None:
    """Nobody asked for a wording: the log's provider decides, and most others borrow OpenAI's."""
    assert like == like_provider(provider)


REPORTS: Final = Path(__file__).parent / "data" / "overflow-errors.jsonl"


def told_failures() -> list[Failure]:
    """Real reports of overflows."""
    rows = map(json.loads, REPORTS.read_text("utf-8").splitlines())
    return [
        Failure(message=row["message"], code=row.get("code"), status=row.get("status"))
        for row in rows
        if row["expected"] != "OTHER" and row.get("message")
    ]


def test_a_told_refusal_names_our_numbers() -> None:
    """In a real refusal's words our numbers stand where its own stood, or it is sent as it came;
    most can be told anew.
    """
    failures = told_failures()
    anew = 0
    for failure in failures:
        told, said = normalise(failure), as_told(failure)(9_690, 8_000)
        again = normalise(said)
        assert told.code is again.code
        if said != failure:
            anew += 1
            assert again.limit_tokens in (None, 8_000)
            assert again.requested_tokens in (None, 9_690)
    with_numbers = sum(normalise(one).limit_tokens is not None for one in failures)
    assert anew > 0.8 * with_numbers > 20


def test_what_is_no_overflow_is_told_as_it_is() -> None:
    """A rate limit keeps its own numbers: they are no tokens of a window."""
    rate = Failure(message="Rate limit reached: Limit 30000, Used 29000", status=429)
    assert rate is as_told(rate)(9_690, 8_000)


# Texts --------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_no_content_is_too_odd_to_be_counted(content: object) -> None:
    """Any JSON has texts, and both APIs take it for a message or say what is wrong."""
    assert all(isinstance(text, str) for text in texts(content))
    body = json.dumps({"model": "m", "messages": [content], "tools": content}).encode()
    for api in (ChatCompletions(), Messages()):
        assert api.asked(body).count(TOKENIZER) >= 0


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"messages": [1]}', b'{"model": "m"}']
)
def test_what_is_no_request_is_malformed(body: bytes) -> None:
    """Each is refused with a reason, and none gets further."""
    with pytest.raises(Malformed):
        Messages().asked(body)


def test_both_apis_count_the_same_conversation_alike() -> None:
    """The same words, said to either API, have the same tokens: calls, results and tools too."""
    arguments = {"command": "ls -l", "depth": 3}
    chat = [
        {"role": "user", "content": "list"},
        {
            "role": "assistant",
            "content": "so be it",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {
                        "name": "bash",
                        "arguments": json.dumps(arguments, separators=(",", ":")),
                    },
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    ]
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "list"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "so be it"},
                {"type": "tool_use", "id": "c1", "name": "bash", "input": arguments},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}],
        },
    ]
    bodies = [{"model": "m", "messages": said, "tools": [{}]} for said in (chat, messages)]
    apis: tuple[Api, ...] = (ChatCompletions(), Messages())
    asked = [api.asked(json.dumps(body).encode()) for api, body in zip(apis, bodies, strict=True)]
    assert asked[0].messages == asked[1].messages
    assert asked[0].header == asked[1].header


def test_an_image_is_not_read_as_text() -> None:
    """Its data don't count, a constant does."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9_000}}
    body = {"model": "m", "messages": [{"role": "user", "content": [image]}]}
    assert IMAGE_TOKENS == ChatCompletions().asked(json.dumps(body).encode()).count(TOKENIZER)


# Real clients -------------------------------------------------------------------------------------


def test_openais_client_is_answered(wall: WallServer) -> None:
    """What fits is answered, with what was counted."""
    answer = ask_openai(wall, SHORT)
    assert f"within the wall of {LIMIT}" in answer.choices[0].message.content
    assert wall.arrived[0].tokens == answer.usage.prompt_tokens


def test_openais_client_reads_the_stream(wall: WallServer) -> None:
    """Piece by piece the same words come, and the counts where they are asked for."""
    whole = ask_openai(wall, SHORT)
    chunks = ask_openai(wall, SHORT, stream=True, stream_options={"include_usage": True})
    said = [one.choices[0].delta.content or "" for one in chunks if one.choices]
    assert whole.choices[0].message.content == "".join(said)
    assert 2 < len([piece for piece in said if piece])
    assert whole.usage == chunks[-1].usage


@pytest.mark.parametrize("stream", [False, True])
def test_openais_client_is_refused(wall: WallServer, stream: bool) -> None:
    """What it raises is an overflow, by its words alone, with our numbers."""
    with pytest.raises(openai.BadRequestError) as raised:
        ask_openai(wall, LONG, stream=stream)
    assert "context_length_exceeded" == raised.value.code
    refusal = overflow_in(raised.value)
    assert (LIMIT, wall.arrived[0].tokens) == (refusal.limit_tokens, refusal.requested_tokens)


def test_anthropics_client_is_answered(wall: WallServer) -> None:
    """What fits is answered, and counted alike by the endpoint for counts."""
    answer = ask_anthropic(wall, SHORT)
    assert f"within the wall of {LIMIT}" in answer.content[0].text
    with of_anthropic(wall) as client:
        counted = client.messages.count_tokens(model="m", messages=SHORT)  # type: ignore[arg-type]
    assert answer.usage.input_tokens == counted.input_tokens == wall.arrived[0].tokens


def test_anthropics_client_reads_the_stream(wall: WallServer) -> None:
    """Its own assembly of the events is the whole answer."""
    whole = ask_anthropic(wall, SHORT)
    with (
        of_anthropic(wall) as client,
        client.messages.stream(model="m", max_tokens=99, messages=SHORT) as stream,  # type: ignore[arg-type]
    ):
        streamed = stream.get_final_message()
    assert whole.content[0].text == streamed.content[0].text  # type: ignore[union-attr]
    assert whole.usage.input_tokens == streamed.usage.input_tokens
    assert "end_turn" == streamed.stop_reason


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_client_is_refused(wall: WallServer, stream: bool) -> None:
    """What it raises is an overflow, by its words alone, with our numbers."""
    with pytest.raises(anthropic.BadRequestError) as raised:
        ask_anthropic(wall, LONG, stream=stream)
    refusal = overflow_in(raised.value)
    assert (LIMIT, wall.arrived[0].tokens) == (refusal.limit_tokens, refusal.requested_tokens)


@pytest.mark.parametrize("like", WORDINGS)
def test_every_provider_refuses_both_clients(like: str) -> None:
    """In anybody's words, either client's exception means an overflow."""
    with WallServer(LIMIT, TOKENIZER, like=like) as server:
        for ask in (ask_openai, ask_anthropic):
            with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as raised:
                ask(server, LONG)
            overflow_in(raised.value)
    assert ["refused"] * 2 == [one.outcome for one in server.arrived]


def test_a_silent_server_answers_everything() -> None:
    """No refusal; its own count says how little of the request it looked at."""
    with WallServer(LIMIT, TOKENIZER, is_silent=True) as server:
        assert LIMIT == ask_openai(server, LONG).usage.prompt_tokens
        assert LIMIT == ask_anthropic(server, LONG).usage.input_tokens
    assert ["dropped"] * 2 == [one.outcome for one in server.arrived]


def test_the_models_are_listed(wall: WallServer) -> None:
    """For each client in its own form."""
    with of_openai(wall) as one, of_anthropic(wall) as other:
        assert ["wall"] == [model.id for model in one.models.list()]
        assert ["wall"] == [model.id for model in other.models.list()]


def test_what_arrived_is_told(wall: WallServer) -> None:
    """A harness's test can ask what its agent sent, and count the retries."""
    ask_openai(wall, SHORT)
    with pytest.raises(openai.BadRequestError):
        ask_openai(wall, LONG)
    told = httpx.get(wall.url).json()
    assert LIMIT == told["limit_tokens"]
    assert [(1, "answered"), (2, "refused")] == [
        (one["number"], one["outcome"]) for one in told["requests"]
    ]


# Hostile clients ----------------------------------------------------------------------------------


def test_a_malformed_request_is_refused_with_a_reason(wall: WallServer) -> None:
    """Status 400, in the API's own form, and the server goes on."""
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"):
        answer = httpx.post(wall.url + path, content=b"{nonsense")
        assert (400, True) == (answer.status_code, "no JSON" in answer.json()["error"]["message"])
    assert 404 == httpx.post(f"{wall.url}/v1/nothing", content=b"{}").status_code
    assert 404 == httpx.get(f"{wall.url}/v1/nothing").status_code


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"])
@pytest.mark.parametrize("path", [*ALLOWED])
def test_another_method_is_not_allowed(wall: WallServer, path: str, method: str) -> None:
    """405 in the API's own form, with the method that is; a body behind it is no next request."""
    body = b"GET / HTTP/1.1\r\n\r\n"
    with closing(
        http.client.HTTPConnection(wall.url.removeprefix("http://"), timeout=10)
    ) as client:
        client.request(method, path, body)
        answer = client.getresponse()
        told = answer.read()
        wanted = (405, ALLOWED[path], "application/json", "close")
        names = ("Allow", "Content-Type", "Connection")
        assert wanted == (answer.status, *(answer.getheader(name) for name in names))
        if method == "HEAD":
            assert b"" == told
            return
        found = json.loads(told)
        assert f"{path} takes {ALLOWED[path]} only" == found["error"]["message"]
        assert path.startswith("/v1/messages") == ("request_id" in found)


def test_what_a_path_does_not_take_is_not_missing(wall: WallServer) -> None:
    """GET and POST are told apart, and a path that nobody knows is 404 to every method."""
    for path, allowed in ALLOWED.items():
        other = {"GET": "POST", "POST": "GET"}[allowed]
        answer = httpx.request(other, wall.url + path, content=b"{}")
        assert (405, allowed) == (answer.status_code, answer.headers["Allow"])
    for method in ("GET", "POST", "PUT"):
        answer = httpx.request(method, f"{wall.url}/v1/nothing", content=b"{}")
        message = answer.json()["error"]["message"]
        assert (404, "there is nothing at /v1/nothing") == (answer.status_code, message)


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, b"NONSENSE\r\n\r\n"),
        (400, b"\x16\x03\x01 \x02 \x00 \x01\r\n\r\n"),
        (505, b"GET / HTTP/9.9\r\n\r\n"),
        (414, b"GET /" + b"a" * 70_000),
        (431, b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200),
    ],
)
def test_what_is_no_request_is_refused_as_json(wall: WallServer, status: int, sent: bytes) -> None:
    """Whatever arrives, the answer is one that a client of the API can read."""
    with closing(socket.create_connection(http_address(wall), timeout=10)) as client:
        client.sendall(sent)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        found = (answer.status, answer.getheader("Content-Type"), json.loads(answer.read()))
    assert (status, "application/json", True) == (*found[:2], bool(found[2]["error"]["message"]))


def http_address(wall: WallServer) -> tuple[str, int]:
    """Where it listens, for a bare socket."""
    return "127.0.0.1", int(wall.url.rpartition(":")[2])


def test_a_body_in_chunks_is_read(wall: WallServer) -> None:
    """Clients that stream their request are served, too."""
    body = json.dumps({"model": "m", "messages": SHORT}).encode()
    pieces = (body[i : i + 7] for i in range(0, len(body), 7))
    assert 200 == httpx.post(f"{wall.url}/v1/messages", content=pieces).status_code


@pytest.mark.parametrize(
    "head",
    [
        f"Content-Length: {MOST_BODY_BYTES + 1}\r\n\r\n",
        "Content-Length: -1\r\n\r\n",
        "\r\n",
        f"Transfer-Encoding: chunked\r\n\r\n{MOST_BODY_BYTES + 1:x}\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-5\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0\r\n" + "X: 1\r\n" * 100,
    ],
)
def test_a_body_without_bounds_is_not_read(wall: WallServer, head: str) -> None:
    """Too long, or of unknown length: 413 at once, without waiting for the rest."""
    with closing(socket.create_connection(http_address(wall), timeout=10)) as client:
        client.sendall(f"POST /v1/messages HTTP/1.1\r\nHost: wall\r\n{head}".encode())
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert 413 == answer.status
    assert 200 == httpx.get(wall.url).status_code


# The command --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_interrupted(number: signal.Signals) -> None:
    """Its address comes first, a request is told on stderr, Ctrl-C ends it with exit code 0."""
    words = [str(DSHC), "serve-wall", "--limit", str(LIMIT), "--json", "--error-like", "vllm"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as served:
        assert served.stdout is not None
        assert served.stderr is not None
        told = json.loads(served.stdout.readline())
        assert LIMIT == told["limit_tokens"]
        answer = httpx.post(
            f"{told['url']}/v1/chat/completions", json={"model": "m", "messages": LONG}
        )
        assert (400, "BadRequestError") == (answer.status_code, answer.json()["error"]["type"])
        assert b"request 1, /v1/chat/completions: " in served.stderr.readline()
        os.kill(served.pid, number)
        assert 0 == served.wait(timeout=20)
        assert b"dshc: served 1 request\n" == served.stderr.read()
        assert b"" == served.stdout.read()


def test_a_port_that_is_taken_is_wrong_usage(wall: WallServer) -> None:
    """The sentence says what to do, and the exit code is 2."""
    port = wall.url.rpartition(":")[2]
    done = dshc("serve-wall", "--limit", "9", "--port", port)
    assert (2, True) == (done.code, "choose another --port" in done.err)
