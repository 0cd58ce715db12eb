"""Summaries by a model, over real HTTP, for both protocols: what goes out, what may come back."""

import json
import logging
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from endpoints import (
    JSON,
    Endpoint,
    Refused,
    Script,
    Streamed,
    Whole,
    anthropic_answer,
    frame,
    openai_answer,
)
from running import Ran, dshc
from talks import ALL, Talk, long_session, run

from dsh_compact import pressure
from dsh_compact.cli.compact import command
from dsh_compact.events import Header, Message, Reasoning, Text, Usage
from dsh_compact.export import to_anthropic, to_openai
from dsh_compact.summarizers import (
    Options,
    Request,
    Secret,
    SummarizerFailed,
    SummarizerNotReady,
    Summary,
    load,
)
from dsh_compact.tokens import price_message, price_text

KEY: Final = "sk-test-0123456789abcdefghijklmnop"
SUMMARY: Final = "## Request\n- rename Foo\n\n## Next step\n- run the tests"
HEADER: Final = Header(
    provider="p",
    model="m-1",
    max_tokens=500,
    system=None,
    tools_json=b'[{"name":"bash","description":"Runs.","parameters":{"type":"object"}}]',
    tools_length=70,
    identity=b"",
)
SYSTEM: Final = (Message(role="system", content=(Text(text="You help."),)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One of the two summarizers, and its provider's way to answer."""

    name: str
    answer: Callable[..., list[bytes]]
    cut: str
    export: Callable[..., JSON]
    tool_call: list[bytes]
    overloaded: bytes
    usage: JSON


PROTOCOLS: Final = [
    Protocol(
        name="openai",
        answer=openai_answer,
        cut="length",
        export=to_openai,
        tool_call=[
            frame({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c"}]}}]}),
            frame({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        ],
        overloaded=frame({"error": {"message": "The server is overloaded", "code": 503}}),
        usage={"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}},
    ),
    Protocol(
        name="anthropic",
        answer=anthropic_answer,
        cut="max_tokens",
        export=to_anthropic,
        tool_call=[
            frame({"type": "message_start", "message": {}}),
            frame(
                {
                    "type": "content_block_start",
                    "content_block": {"type": "tool_use", "id": "c", "name": "bash"},
                }
            ),
        ],
        overloaded=frame(
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "error",
        ),
        usage={"input_tokens": 40, "cache_read_input_tokens": 60},
    ),
]


@pytest.fixture(params=PROTOCOLS, ids=lambda protocol: protocol.name)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    """Each of the two in turn."""
    found: Protocol = request.param
    return found


@pytest.fixture(autouse=True)
def _nothing_leaks(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After every test: the key is in no log record, at any level."""
    caplog.set_level(logging.DEBUG)
    yield
    assert KEY not in caplog.text


def ask(
    protocol: Protocol,
    server: Endpoint,
    *,
    messages: tuple[Message, ...] | None = None,
    max_tokens: int = 500,
    wishes: str = "",
    timeout_seconds: float | None = None,
    heard: Callable[[int], None] | None = None,
    **options: Any,
) -> Summary:
    """A summary of a conversation, from that server."""
    summarizer = load(protocol.name, Options(base_url=server.url, key=Secret(KEY), **options), {})
    return summarizer.summarise(
        Request(
            messages=ALL["debugging"]().messages if messages is None else messages,
            system=SYSTEM,
            header=HEADER,
            max_tokens=max_tokens,
            instructions=wishes,
            timeout_seconds=timeout_seconds,
        ),
        heard,
    )


def fails(protocol: Protocol, *script: Script, **how: Any) -> tuple[str, Endpoint]:
    """What the error says where no summary comes, and the server; the key is nowhere in it."""
    with Endpoint(*script) as server, pytest.raises(SummarizerFailed) as caught:
        ask(protocol, server, **how)
    told = "".join(traceback.format_exception(caught.value))
    assert KEY not in told + repr(caught.value) + repr(caught.value.__dict__)
    assert 5 == caught.value.exit_code
    return str(caught.value), server


def told(body: JSON) -> str:
    """The last words of a request."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content[-1]["text"])


def unmarked(value: Any) -> Any:
    """The value without marks for the cache."""
    if isinstance(value, dict):
        return {k: unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [unmarked(one) for one in value] if isinstance(value, list) else value


# What goes out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_request_begins_as_the_conversation(protocol: Protocol, name: str) -> None:
    """System prompt, tools and messages are the conversation's own, the instruction follows."""
    messages = ALL[name]().messages
    with Endpoint(Streamed(protocol.answer(SUMMARY))) as server:
        ask(protocol, server, messages=messages)
    (body,) = server.bodies
    wanted = protocol.export((*SYSTEM, *messages), HEADER)
    assert wanted["tools"] == body["tools"]
    assert wanted.get("system") == unmarked(body).get("system")
    sent = unmarked(body["messages"])
    if sent[-1]["role"] == "user" and isinstance(sent[-1]["content"], list):
        assert sent[-1]["content"].pop()["text"].startswith("Write a checkpoint")
        sent = sent if sent[-1]["content"] else sent[:-1]
    else:
        assert sent.pop()["content"].startswith("Write a checkpoint")
    assert wanted["messages"] == sent


@pytest.mark.parametrize("name", ALL)
def test_anthropics_roles_alternate(name: str) -> None:
    """Where the conversation ends with the user's turn, the instruction is part of it."""
    with Endpoint(Streamed(anthropic_answer(SUMMARY))) as server:
        ask(PROTOCOLS[1], server, messages=ALL[name]().messages)
    roles = [message["role"] for message in server.bodies[0]["messages"]]
    assert ["user", "assistant"] * (len(roles) // 2) + ["user"] == roles


def test_anthropic_is_told_where_the_cache_ends() -> None:
    """The conversation's last block is marked, the instruction isn't."""
    with Endpoint(Streamed(anthropic_answer(SUMMARY))) as server:
        ask(PROTOCOLS[1], server)
    blocks = [block for message in server.bodies[0]["messages"] for block in message["content"]]
    assert [-2] == [i - len(blocks) for i, block in enumerate(blocks) if "cache_control" in block]


def test_the_instruction_asks_for_what_we_need(protocol: Protocol) -> None:
    """It names the sections, the room and the user's wishes."""
    with Endpoint(Streamed(protocol.answer(SUMMARY))) as server:
        ask(protocol, server, max_tokens=500, wishes="Keep the SQL.")
    words = told(server.bodies[0])
    for part in ("## Request", "## Decisions", "## Files", "## Errors", "## Open work",
                 "## Next step", "at most 300 words", "Keep the SQL."):  # fmt: skip
        assert part in words


def test_key_and_model_go_where_they_belong(protocol: Protocol) -> None:
    """The key is in its header alone, the model is the session's unless another is named."""
    with Endpoint(Streamed(protocol.answer(SUMMARY))) as server:
        ask(protocol, server)
        ask(protocol, server, model="other")
    came = server.requests[0]
    headers = {"openai": ("authorization", f"Bearer {KEY}"), "anthropic": ("x-api-key", KEY)}
    name, value = headers[protocol.name]
    assert value == came.headers.pop(name)
    assert KEY not in json.dumps(came.headers) + json.dumps(came.body)
    assert ["m-1", "other"] == [body["model"] for body in server.bodies]
    paths = {"openai": "/chat/completions", "anthropic": "/v1/messages"}
    assert paths[protocol.name] == came.path


def test_keys_come_from_the_environment(protocol: Protocol) -> None:
    """Without one in the options the provider's own variable is read, and its base URL's too."""
    name = protocol.name.upper()
    with Endpoint(Streamed(protocol.answer(SUMMARY))) as server:
        environment = {f"{name}_API_KEY": f" {KEY}\n", f"{name}_BASE_URL": server.url}
        request = Request(messages=Talk().user("x").messages, header=HEADER, max_tokens=500)
        load(protocol.name, Options(), environment).summarise(request)
    assert any(KEY in value for value in server.requests[0].headers.values())


def test_without_a_key_it_is_not_ready(protocol: Protocol) -> None:
    """Asking the provider itself without a key is wrong usage, and the error names the variable."""
    with pytest.raises(SummarizerNotReady, match=f"{protocol.name.upper()}_API_KEY") as caught:
        load(protocol.name, Options(), {})
    assert 2 == caught.value.exit_code


@pytest.mark.parametrize("key", ["sk-abc\x00def", "sk-schlüssel", "sk-two words"])
def test_a_key_that_is_none_is_not_shown(protocol: Protocol, key: str) -> None:
    """A key that no header takes is refused before anything is sent, without being quoted."""
    with pytest.raises(SummarizerNotReady) as caught:
        load(protocol.name, Options(key=Secret(key)), {})
    assert key not in "".join(traceback.format_exception(caught.value))


def test_another_endpoint_may_want_no_key(protocol: Protocol) -> None:
    """A server of one's own is asked without a key where none is set."""
    with Endpoint(Streamed(protocol.answer(SUMMARY))) as server:
        request = Request(messages=Talk().user("x").messages, header=HEADER, max_tokens=500)
        load(protocol.name, Options(base_url=server.url), {}).summarise(request)
    assert not {"authorization", "x-api-key"} & server.requests[0].headers.keys()


# Success ------------------------------------------------------------------------------------------


def test_success(protocol: Protocol) -> None:
    """The text as it came, who wrote it, what the provider counted, and a live count of tokens."""
    heard: list[int] = []
    with Endpoint(Streamed(protocol.answer(SUMMARY, **protocol.usage))) as server:
        made = ask(protocol, server, heard=heard.append)
    assert SUMMARY == made.text
    assert (protocol.name, "m-1", 1) == (made.provider, made.model, made.requests)
    assert Usage(input_tokens=40, output_tokens=9, cache_read_tokens=60) == made.usage
    assert len(SUMMARY) // 4 == sum(heard)
    assert len(heard) > 5


def test_an_answer_without_a_stream(protocol: Protocol) -> None:
    """A server that doesn't stream is understood, too."""
    bodies = {
        "openai": {
            "choices": [{"message": {"content": SUMMARY}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 9, "cost": 0.25},
        },
        "anthropic": {
            "type": "message",
            "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": SUMMARY}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 100, "output_tokens": 9},
        },
    }
    with Endpoint(Whole(bodies[protocol.name])) as server:
        made = ask(protocol, server)
    assert SUMMARY == made.text
    assert Usage(input_tokens=100, output_tokens=9) == made.usage
    assert (0.25 if protocol.name == "openai" else None) == made.cost_usd


def test_text_survives_odd_line_ends_and_pieces(protocol: Protocol) -> None:
    """Characters that Unicode calls line ends don't end a frame, wherever the bytes are cut."""
    text = "one\u2028two\x85three\x0bfour 你好 😀"
    stream = b"".join(
        piece.replace(b"\\u2028", "\u2028".encode()) for piece in protocol.answer(text)
    ).replace(b"\n", b"\r\n")
    with Endpoint(Streamed([stream[i : i + 5] for i in range(0, len(stream), 5)])) as server:
        assert text == ask(protocol, server).text


def test_a_summary_that_overdoes_it_is_set_into_its_bound(protocol: Protocol) -> None:
    """A whole but too long summary loses entries, not its end, and says how many."""
    long = "## Request\n- port it\n\n## Files\n" + "".join(
        f"- `src/module_{i}.py`: read\n" for i in range(90)
    )
    with Endpoint(Streamed(protocol.answer(long))) as server:
        text = ask(protocol, server, max_tokens=200).text
    assert price_text(text) <= 200
    assert "port it" in text
    assert " more" in text.splitlines()[-1]


# Trying again -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "refused",
    [
        Refused(429, {"error": {"message": "Rate limit reached", "code": "rate_limit"}}),
        Refused(500, "Internal Server Error"),
        Refused(503, {"error": {"message": "overloaded"}}),
        Refused(529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        Refused(504, "<html>Gateway Time-out</html>"),
    ],
    ids=lambda refused: str(refused.status),
)
def test_rate_limits_and_server_errors_are_tried_again(
    protocol: Protocol, refused: Refused
) -> None:
    """The same request is sent again after the time that the server names."""
    again = Refused(refused.status, refused.says, {"retry-after": "0.05"})
    with Endpoint(again, again, Streamed(protocol.answer(SUMMARY))) as server:
        began = time.monotonic()
        assert SUMMARY == ask(protocol, server).text
    assert time.monotonic() - began >= 0.1
    assert 3 == len(server.requests)
    assert server.bodies[0] == server.bodies[2]


def test_an_error_inside_the_stream_is_tried_again(protocol: Protocol) -> None:
    """Overload that shows after the answer began is the server's failure as well."""
    pieces = protocol.answer(SUMMARY)[:3]
    with Endpoint(
        Streamed([*pieces, protocol.overloaded]), Streamed(protocol.answer(SUMMARY))
    ) as server:
        assert SUMMARY == ask(protocol, server).text
    assert 2 == len(server.requests)


def test_tries_end(protocol: Protocol) -> None:
    """After the last try the server's own words are the error."""
    busy = Refused(503, {"error": {"message": "too busy"}}, {"retry-after": "0"})
    words, server = fails(protocol, busy, tries=3)
    assert "answered 503 3 times: too busy" in words
    assert 3 == len(server.requests)


def test_patience_has_an_end(protocol: Protocol) -> None:
    """A server that wants to be left alone for longer than there is time is believed at once."""
    began = time.monotonic()
    busy = Refused(429, {"error": {"message": "slow down"}}, {"retry-after": "3600"})
    words, server = fails(protocol, busy, timeout_seconds=5.0)
    assert "wants 3600 s of patience" in words
    assert 1 == len(server.requests)
    assert time.monotonic() - began < 4


@pytest.mark.parametrize(
    ("status", "says", "wanted"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}."}}, "check the key"),
        (403, f"token sk-test-0123********mnop ({KEY}) is not allowed", "check the key"),
        (429, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}},
         "the account has nothing left"),
        (400, {"error": {"message": "messages.3: bad role"}}, "messages.3: bad role"),
        (404, "<html><b>Not\x1b[31m here</b></html>", "answered 404"),
        (302, "", "answered 302: no reason given"),
    ],
)  # fmt: skip
def test_other_refusals_are_final(
    protocol: Protocol, status: int, says: JSON | str, wanted: str
) -> None:
    """What wouldn't change is told at once, in the provider's words and without the key."""
    words, server = fails(protocol, Refused(status, says, {"location": "http://127.0.0.1:1/"}))
    assert wanted in words
    assert "sk-test" not in words
    assert "\x1b" not in words
    assert 1 == len(server.requests)


# What is no summary -------------------------------------------------------------------------------


def test_a_summary_cut_at_its_limit_is_refused(protocol: Protocol) -> None:
    """A summary without its end is worse than none."""
    words, server = fails(
        protocol, Streamed(protocol.answer(SUMMARY, **stop(protocol, protocol.cut)))
    )
    assert "cut at its token limit" in words
    assert 1 == len(server.requests)


def stop(protocol: Protocol, reason: str | None) -> JSON:
    """The keyword by which an answer stops for a reason."""
    return {"finish" if protocol.name == "openai" else "stop": reason}


@pytest.mark.parametrize("torn", [True, False])
def test_a_cut_stream_is_refused(protocol: Protocol, torn: bool) -> None:
    """A stream that ends before its answer does is refused, however cleanly it ends."""
    frames = protocol.answer(SUMMARY)[:6]
    words, server = fails(protocol, Streamed(frames, torn=torn))
    assert ("broke off" if torn else "ended without an end") in words
    assert 1 == len(server.requests)


def test_an_empty_summary_is_refused(protocol: Protocol) -> None:
    """White space is no summary."""
    assert "empty" in fails(protocol, Streamed(protocol.answer(" \n ")))[0]


def test_a_tool_call_is_refused(protocol: Protocol) -> None:
    """A model that goes on with the work has not summarised it."""
    words, server = fails(protocol, Streamed(protocol.tool_call))
    assert "called a tool" in words
    assert 1 == len(server.requests)


@pytest.mark.parametrize("reason", ["content_filter", "refusal", "\x1b[31mwhatever"])
def test_other_ends_are_refused(protocol: Protocol, reason: str) -> None:
    """Only a model that was done has summarised."""
    words, _ = fails(protocol, Streamed(protocol.answer(SUMMARY, **stop(protocol, reason))))
    assert "the model stopped for" in words
    assert "\x1b" not in words


def test_the_last_word_on_the_end_counts(protocol: Protocol) -> None:
    """A model that went on after an end, and was cut off then, has not summarised."""
    begun = [one for one in protocol.answer("A first part.") if one != b"data: [DONE]\n\n"]
    cut = protocol.answer("A second one.", **stop(protocol, protocol.cut))
    assert "cut at its token limit" in fails(protocol, Streamed([*begun, *cut]))[0]


def test_an_end_that_is_none_gives_way(protocol: Protocol) -> None:
    """A server may say of every piece that there is no end yet, in a word of its own."""
    begun = protocol.answer("A first part.", **stop(protocol, "null"))
    begun = [one for one in begun if one != b"data: [DONE]\n\n"]
    with Endpoint(Streamed([*begun, *protocol.answer(" And its end.")])) as server:
        assert "A first part. And its end." == ask(protocol, server).text


def test_images_are_refused(protocol: Protocol) -> None:
    """Text is wanted, and nothing else."""
    frames = {
        "openai": [
            frame({"choices": [{"delta": {"content": [{"type": "image_url"}]}}]}),
            frame({"choices": [{"delta": {"content": "x", "images": [{}]}}]}),
        ],
        "anthropic": [
            frame({"type": "content_block_start", "content_block": {"type": "image"}}),
            frame({"type": "message", "content": [{"type": "image"}], "stop_reason": "end_turn"}),
        ],
    }
    for one in frames[protocol.name]:
        assert "no text" in fails(protocol, Streamed([one, *protocol.answer(SUMMARY)]))[0]


ODD: Final[list[Any]] = [7, "x", [7], {"text": 7}]
"""Values in places where a provider has others."""

PLACES: Final[list[Callable[[Any], JSON]]] = [
    lambda odd: {"choices": odd},
    lambda odd: {"choices": [odd]},
    lambda odd: {"choices": [{"delta": odd, "finish_reason": "stop"}]},
    lambda odd: {"choices": [{"delta": {"content": odd}}], "usage": odd},
    lambda odd: {"choices": [{"delta": {"content": "x"}, "finish_reason": odd}]},
    lambda odd: {"choices": [], "usage": {"prompt_tokens": odd, "prompt_tokens_details": odd}},
    lambda odd: {"type": odd, "message": odd, "delta": odd, "usage": odd},
    lambda odd: {"type": "message", "content": odd, "stop_reason": odd},
    lambda odd: {"type": "content_block_start", "content_block": odd},
    lambda odd: {"type": "content_block_start", "content_block": {"type": "text", "text": odd}},
    lambda odd: {"type": "content_block_delta", "delta": odd},
    lambda odd: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": odd}},
    lambda odd: {"type": "message_delta", "delta": {"stop_reason": odd}},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_an_answer_of_an_odd_shape_is_refused_or_read(protocol: Protocol, odd: Any) -> None:
    """Whatever stands where something else must, no other error than the summarizer's is raised."""
    replies = [Streamed([frame(place(odd)), *protocol.answer("A.")]) for place in PLACES]
    with Endpoint(*replies) as server:
        for _ in replies:
            with suppress(SummarizerFailed):
                assert ask(protocol, server).text
    assert len(replies) == len(server.requests)


def test_a_server_of_another_kind(protocol: Protocol) -> None:
    """What doesn't speak the protocol is told so."""
    assert "protocol" in fails(protocol, Streamed([b"data: <html>\n\n"]))[0]


def test_nobody_there(protocol: Protocol) -> None:
    """A closed port is told as such, at once."""
    with Endpoint(Refused(500, "")) as server:
        pass
    with pytest.raises(SummarizerFailed, match=r"can't be reached: .*; check the base URL"):
        ask(protocol, server)


@pytest.mark.parametrize("pause_seconds", [5.0, 0.15])
def test_time_runs_out(protocol: Protocol, pause_seconds: float) -> None:
    """A stream that hangs, and one that trickles, are both ended in time."""
    began = time.monotonic()
    frames = [*protocol.answer(SUMMARY)[:3], *[b": wait\n\n"] * 100]
    words, _ = fails(protocol, Streamed(frames, pause_seconds=pause_seconds), timeout_seconds=0.5)
    assert "no whole summary within 0.5 seconds; give it more time" in words
    assert time.monotonic() - began < 4


def test_the_key_is_taken_out_of_a_summary(protocol: Protocol) -> None:
    """Even a server that echoes the key into its text doesn't get it into the log."""
    with Endpoint(Streamed(protocol.answer(f"Used {KEY} here."))) as server:
        assert "Used [key] here." == ask(protocol, server).text


def test_a_log_that_names_no_model(protocol: Protocol) -> None:
    """Without a header and an option nobody knows whom to ask."""
    with Endpoint(Refused(500, "")) as server:
        summarizer = load(protocol.name, Options(base_url=server.url), {})
        with pytest.raises(SummarizerFailed, match="the log names no model"):
            summarizer.summarise(Request(messages=(), max_tokens=9))
    assert [] == server.requests


# Too long -----------------------------------------------------------------------------------------


def tokens_of(body: JSON) -> int:
    """What the scripted provider counts for a request: a token is three characters of its JSON."""
    return len(json.dumps({**body, "tools": body.get("tools")}, ensure_ascii=False)) // 3


def wall(protocol: Protocol, limit: int, *, numbers: bool = True) -> Callable[[JSON], Any]:
    """A provider with a window of `limit` tokens of its own counting, who numbers its summaries."""
    count = 0

    def reply(body: JSON) -> Refused | Streamed:
        nonlocal count
        tokens = tokens_of(body)
        if tokens + body["max_tokens"] > limit:
            wanted = (
                f"This model's maximum context length is {limit} tokens. However, you requested "
                f"{tokens + body['max_tokens']} tokens ({tokens} in the messages, "
                f"{body['max_tokens']} in the completion)."
            )
            says = wanted if numbers else "prompt is too long"
            return Refused(400, {"error": {"message": says, "type": "invalid_request_error"}})
        count += 1
        return Streamed(protocol.answer(f"## Findings\n- summary {count} of {tokens} tokens"))

    return reply


@pytest.mark.parametrize("numbers", [True, False])
def test_too_long_a_request_goes_in_parts(protocol: Protocol, numbers: bool) -> None:
    """Refused for its length, the span goes in parts that fit, and these are merged."""
    messages = long_session(12).messages
    with Endpoint(wall(protocol, 16_000, numbers=numbers)) as server:
        made = ask(protocol, server, messages=messages, max_tokens=600)
    bodies = server.bodies
    accepted = [b for b in bodies if tokens_of(b) + b["max_tokens"] <= 16_000]
    assert made.text.startswith("## Findings\n- summary ")
    assert f"summary {len(accepted)} of" in made.text
    assert "Merge them into one" in told(accepted[-1])
    for number in range(1, len(accepted)):
        assert f"is part {number} of a longer conversation" in told(accepted[number - 1])
        assert f"- summary {number} of" in told(accepted[-1])
    assert len(bodies) - len(accepted) <= (3 if numbers else 8)
    assert len(bodies) == made.requests
    assert made.usage is not None
    assert 9 * len(accepted) == made.usage.output_tokens
    everything = "\n".join(map(told, accepted[:-1]))
    for message in messages:
        if message.source_kind == "user":
            assert message.text in everything


def test_many_parts_are_merged_in_rounds(protocol: Protocol) -> None:
    """Where the parts' checkpoints don't fit into one request, they are merged some at a time."""
    count = 0

    def reply(body: JSON) -> Streamed:
        nonlocal count
        count += 1
        return Streamed(protocol.answer(f"- checkpoint {count}: " + "many words of it " * 90))

    with Endpoint(reply) as server:
        made = ask(
            protocol,
            server,
            messages=long_session(12).messages,
            max_tokens=600,
            window_tokens=3_600,
        )
    requests = [*map(told, server.bodies)]
    merges = [words for words in requests if "Merge them into one" in words]
    assert len(merges) > 3
    assert f"- checkpoint {count}:" in made.text
    for number in range(1, count):
        assert 1 == sum(f"- checkpoint {number}:" in words for words in merges)


def test_a_known_window_saves_the_refusal(protocol: Protocol) -> None:
    """Where the window is known nothing that doesn't fit is sent."""
    messages = long_session(8).messages
    with Endpoint(wall(protocol, 30_000)) as server:
        ask(protocol, server, messages=messages, max_tokens=600, window_tokens=16_000)
    assert all(tokens_of(body) + body["max_tokens"] <= 30_000 for body in server.bodies)
    assert len(server.bodies) > 2


def test_a_giant_result_is_shortened(protocol: Protocol) -> None:
    """One result larger than any window keeps its beginning and its end."""
    giant = "first line\n" + "x" * 2_000_000 + "\nlast line"
    talk = (
        Talk().user("Look.").answer("", run("cat big")).result(giant).answer("Too big, isn't it?")
    )
    with Endpoint(wall(protocol, 8_000)) as server:
        ask(protocol, server, messages=talk.messages, max_tokens=200)
    sent = "".join(map(told, server.bodies[1:]))
    assert "first line" in sent
    assert "last line" in sent
    assert "characters left out" in sent
    assert len(server.bodies) < 12


def test_chinese_takes_more_tokens_than_we_think(protocol: Protocol) -> None:
    """A refusal teaches how the provider counts, so that the next parts fit."""
    talk = Talk()
    for turn in range(30):
        talk.user(f"第{turn}个任务：" + "请检查订单服务的缓存逻辑。" * 40).answer(
            "好的，" + "已经完成。" * 60
        )

    def counts(body: JSON) -> Refused | Streamed:
        tokens = len(json.dumps(body, ensure_ascii=False))  # a token a character
        if tokens + body["max_tokens"] > 12_000:
            return Refused(400, {"error": {"message": (
                f"This model's maximum context length is 12000 tokens, however you requested "
                f"{tokens + body['max_tokens']} tokens ({tokens} in your prompt; "
                f"{body['max_tokens']} for the completion)."
            )}})  # fmt: skip
        return Streamed(protocol.answer("- 总结"))

    with Endpoint(counts) as server:
        ask(protocol, server, messages=talk.messages, max_tokens=300)
    refused = [
        b for b in server.bodies
        if len(json.dumps(b, ensure_ascii=False)) + b["max_tokens"] > 12_000
    ]  # fmt: skip
    assert 1 == len(refused)


def test_less_room_for_the_answer_may_be_enough(protocol: Protocol) -> None:
    """Where only the reserved output is too much, the whole is asked again with less of it."""
    with Endpoint(wall(protocol, 100_000)) as server:
        ask(protocol, server, max_tokens=600)
    limit = tokens_of(server.bodies[0]) + 1_500
    with Endpoint(wall(protocol, limit)) as server:
        made = ask(protocol, server, max_tokens=600)
    first, second = server.bodies
    assert "summary 1 of" in made.text
    assert first["messages"] == second["messages"]
    assert 600 <= second["max_tokens"] < first["max_tokens"]


def test_no_room_at_all_is_an_error(protocol: Protocol) -> None:
    """A window without room for any part is told, after a few tries."""
    words, server = fails(protocol, wall(protocol, 600), max_tokens=200)
    assert "no room for any part" in words
    assert len(server.bodies) < 5


def test_a_wall_that_never_gives_in_ends(protocol: Protocol) -> None:
    """A provider that calls everything too long is given up."""
    stubborn = Refused(400, {"error": {"message": "prompt is too long"}})
    words, server = fails(protocol, stubborn, messages=long_session(8).messages)
    assert "no room for any part" in words
    assert len(server.bodies) < 20


# Dialects -----------------------------------------------------------------------------------------


def test_newer_models_want_another_name_for_the_bound() -> None:
    """An endpoint that asks for `max_completion_tokens` gets it, now and later."""
    complaint = Refused(400, {"error": {"message": (
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead."), "param": "max_tokens"}})  # fmt: skip
    with Endpoint(complaint, Streamed(openai_answer(SUMMARY))) as server:
        ask(PROTOCOLS[0], server)
    first, second = server.bodies
    assert first.pop("max_tokens") == second.pop("max_completion_tokens")
    assert first == second


def test_servers_without_stream_options() -> None:
    """An endpoint that knows no `stream_options` is asked without."""
    complaint = Refused(422, {"detail": [{"loc": ["body", "stream_options"], "msg": "extra"}]})
    with Endpoint(complaint, Streamed(openai_answer(SUMMARY))) as server:
        ask(PROTOCOLS[0], server)
    assert ["stream_options" in body for body in server.bodies] == [True, False]


def test_an_endpoint_may_complain_twice() -> None:
    """Both changes are kept for the requests that follow."""
    complaints = [
        Refused(400, {"error": {"message": "unknown field stream_options"}}),
        Refused(400, {"error": {"message": "use max_completion_tokens"}}),
    ]
    with Endpoint(*complaints, Streamed(openai_answer(SUMMARY))) as server:
        ask(PROTOCOLS[0], server)
    last = server.bodies[-1]
    assert (False, False, True) == (
        "stream_options" in last, "max_tokens" in last, "max_completion_tokens" in last,
    )  # fmt: skip


def test_a_complaint_that_never_ends_is_told() -> None:
    """An endpoint that complains of what it isn't sent is not asked for ever."""
    complaint = Refused(400, {"error": {"message": "unknown field stream_options"}})
    words, server = fails(PROTOCOLS[0], complaint)
    assert "unknown field stream_options" in words
    assert 2 == len(server.bodies)


def test_reasoning_is_sent_where_it_is_wanted() -> None:
    """DeepSeek's reasoning models want their reasoning back: an option gives it."""
    messages = (Message(role="assistant", content=(Reasoning(text="Hm."), Text(text="Yes."))),)
    with Endpoint(Streamed(openai_answer(SUMMARY))) as server:
        ask(PROTOCOLS[0], server, messages=messages, send_reasoning=True)
        ask(PROTOCOLS[0], server, messages=messages)
    sent = [body["messages"][1] for body in server.bodies]
    assert ["Hm.", None] == [message.get("reasoning_content") for message in sent]


def test_what_a_span_costs_in_all() -> None:
    """Costs that the provider names are added up over all requests."""
    replies: list[Script] = [
        Refused(400, {"error": {"message": "prompt is too long: 90000 tokens > 16000 maximum"}}),
        Streamed(openai_answer("- part", cost=0.5)),
    ]
    with Endpoint(*replies) as server:
        made = ask(PROTOCOLS[0], server, messages=long_session(2).messages)
    assert made.cost_usd == 0.5 * (len(server.bodies) - 1)
    assert made.requests == len(server.bodies)


def test_the_span_is_longer_than_we_tell() -> None:
    """The estimate of the long fixture is what the tests above rely on."""
    assert sum(map(price_message, long_session(12).messages)) > 40_000


# On a log -----------------------------------------------------------------------------------------


def test_a_log_compacted_by_a_model(protocol: Protocol, logs: Path) -> None:
    """The checkpoint is the model's, the log tells who wrote it and what it took, never the key."""
    log = logs / "v4-stuck.jsonl"
    name = protocol.name.upper()
    with Endpoint(Streamed(protocol.answer(SUMMARY, **protocol.usage))) as server:
        done = dshc(
            "compact", log, "--summarizer", protocol.name, "--json",
            env={f"{name}_API_KEY": KEY, f"{name}_BASE_URL": server.url},
        )  # fmt: skip
    assert (0, True) == (done.code, done.json["acted"])
    records = [json.loads(line) for line in log.read_text().splitlines()]
    record = [one["data"] for one in records if one["type"] == "compaction/summary"][-1]
    assert [{"type": "text", "text": SUMMARY}] == record["summary"]
    assert (protocol.name, "deepseek-v4-flash") == (record["provider"], record["model"])
    counted = record["usage"]
    assert (40, 9, 60) == (
        counted["inputTokens"], counted["outputTokens"], counted["cacheReadTokens"],
    )  # fmt: skip
    assert KEY not in log.read_text() + done.out + done.err


def test_a_log_stays_as_it_is_where_the_model_fails(protocol: Protocol, logs: Path) -> None:
    """A refused key is told with exit code 5, the failed attempt is on record without the key."""
    log = logs / "v4-stuck.jsonl"
    name = protocol.name.upper()
    refused = Refused(401, {"error": {"message": f"invalid key {KEY}"}})
    with Endpoint(refused) as server:
        done = dshc(
            "compact", log, "--summarizer", protocol.name,
            env={f"{name}_API_KEY": KEY, f"{name}_BASE_URL": server.url},
        )  # fmt: skip
    assert 5 == done.code
    assert f"check the key in {name}_API_KEY" in done.err
    written = log.read_text()
    assert "invalid key [key]" in written.splitlines()[-1]
    assert KEY not in written + done.out + done.err


# As configured ------------------------------------------------------------------------------------


def compact_by_file(log: Path, server: Endpoint, protocol: Protocol, settings: str) -> Ran:
    """The log compacted by the summarizer that a file beside it names and sets up."""
    log.with_name("dshc.toml").write_text(
        f'summarizer = "{protocol.name}"\nsummarizer_base_url = "{server.url}"\n{settings}\n'
    )
    key = {f"{protocol.name.upper()}_API_KEY": KEY}
    return dshc("compact", log, "--force", "--trust", env=key)


def test_a_file_says_how_large_the_summarizers_window_is(protocol: Protocol, logs: Path) -> None:
    """No request is larger than it: a span that would be goes in parts."""
    largest: list[int] = []
    for settings in ("", "summarizer_window_tokens = 3000"):
        log = Path(shutil.copy(logs / "v4-stuck.jsonl", logs / f"{len(largest)}.jsonl"))
        with Endpoint(Streamed(protocol.answer(SUMMARY))) as server:
            done = compact_by_file(log, server, protocol, settings)
        assert 0 == done.code, done.err
        largest.append(max(len(json.dumps(body["messages"])) for body in server.bodies))
    assert largest[0] > 4 * 3000 > largest[1]


def test_a_file_says_how_long_the_summarizer_may_take(protocol: Protocol, logs: Path) -> None:
    """An answer that trickles is given up then, and the error names the time."""
    log = logs / "v4-stuck.jsonl"
    slow = Streamed(protocol.answer(SUMMARY * 9), pause_seconds=0.1)
    with Endpoint(slow) as server:
        done = compact_by_file(log, server, protocol, "summarizer_timeout_seconds = 0.3")
    assert 5 == done.code
    assert "gave no whole summary within 0.3 seconds" in done.err


def test_the_summarizers_time_is_not_the_backends(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file allows the summarizer comes on top of what a backend may take by itself."""
    log = logs / "v4-stuck.jsonl"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(pressure, "DEFAULT_TIMEOUT_SECONDS", 0.1)
    with Endpoint(Streamed(openai_answer(SUMMARY), pause_seconds=0.05)) as server:
        settings = [
            'summarizer = "openai"',
            f'summarizer_base_url = "{server.url}"',
            "summarizer_timeout_seconds = 60",
        ]
        log.with_name("dshc.toml").write_text("\n".join(settings))
        assert 0 == command(log, force=True, trust=True)


def test_a_file_says_whether_reasoning_is_sent(logs: Path) -> None:
    """Only an OpenAI-compatible endpoint has a place for it, and only some want it."""
    thought = []
    for word in ("true", "false"):
        log = Path(shutil.copy(logs / "v4-stuck.jsonl", logs / f"{word}.jsonl"))
        with Endpoint(Streamed(openai_answer(SUMMARY))) as server:
            settings = f"summarizer_sends_reasoning = {word}"
            done = compact_by_file(log, server, PROTOCOLS[0], settings)
        assert 0 == done.code, done.err
        thought.append(any("reasoning_content" in one for one in server.bodies[0]["messages"]))
    assert [True, False] == thought
