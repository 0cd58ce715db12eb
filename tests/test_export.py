"""A conversation for other clients: accepted by their own types, every call with its result."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter
from running import LOGS, dshc
from talks import ALL, Talk, run

from dsh_compact.events import Block, Header, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from dsh_compact.export import NO_RESULT, to_anthropic, to_markdown, to_openai
from dsh_compact.session import read_session

HEADER: Final = Header(
    provider="p",
    model="m-1",
    max_tokens=500,
    system=None,
    tools_json=b'[{"name":"bash","description":"Runs.","parameters":{"type":"object"}}]',
    tools_length=70,
    identity=b"",
)

OPENAI: Final = TypeAdapter[Any](CompletionCreateParamsNonStreaming)
ANTHROPIC: Final = TypeAdapter[Any](MessageCreateParamsNonStreaming)


def opened(value: Any) -> Any:
    """The value with all that pydantic validates only when it is walked through."""
    if isinstance(value, dict):
        return {key: opened(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [opened(inner) for inner in value]
    return value


def check_openai(body: dict[str, Any]) -> None:
    """The official client's types take the body, and every call is answered directly behind it."""
    json.dumps(body, ensure_ascii=False).encode("utf-8")
    body = {"model": "m", **body}
    assert body == opened(OPENAI.validate_python(body)), "a key that the client doesn't know"
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert [] == waiting
        waiting += [call["id"] for call in message.get("tool_calls", ())]
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert [] == waiting


def check_anthropic(body: dict[str, Any]) -> None:
    """The official client's types take the body; roles alternate; all results come first."""
    json.dumps(body, ensure_ascii=False).encode("utf-8")
    body = {"model": "m", **body}
    assert body == opened(ANTHROPIC.validate_python(body)), "a key that the client doesn't know"
    waiting: list[str] = []
    known: set[str] = set()
    for index, message in enumerate(body["messages"]):
        assert ("user", "assistant")[index % 2] == message["role"]
        assert message["content"]
        kinds = [block["type"] for block in message["content"]]
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        assert waiting == results
        assert ["tool_result"] * len(results) == kinds[: len(results)]
        waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert known.isdisjoint(waiting)
        known |= {*waiting}
        assert all(b["text"].strip() for b in message["content"] if b["type"] == "text")
    assert [] == waiting


# Whole conversations ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_official_types_take_every_conversation(name: str) -> None:
    """Both clients' own types accept what comes out, pairs whole."""
    messages = ALL[name]().messages
    check_openai(to_openai(messages, HEADER))
    check_anthropic(to_anthropic(messages, HEADER))


@pytest.mark.parametrize("name", ALL)
def test_nothing_that_was_said_is_lost(name: str) -> None:
    """Every text, call and result of the conversation is in each of the three."""
    messages = ALL[name]().messages
    said = [message.text.strip() for message in messages if message.text.strip()]
    wrote = [call.arguments for message in messages for call in message.calls]
    openai = to_openai(messages)["messages"]
    anthropic = to_anthropic(messages)["messages"]
    in_openai = "\n".join(str(m["content"]) for m in openai)
    blocks = [block for message in anthropic for block in message["content"]]
    in_anthropic = "\n".join(
        part["text"] for b in blocks for part in ([b] if "text" in b else b.get("content", []))
    )
    for text in said:
        assert text in in_openai
        assert text in in_anthropic
        assert text in to_markdown(messages)
    calls = [call for message in openai for call in message.get("tool_calls", ())]
    assert wrote == [call["function"]["arguments"] for call in calls]
    assert [*map(json.loads, wrote)] == [b["input"] for b in blocks if b["type"] == "tool_use"]


@pytest.mark.parametrize("name", ALL)
def test_a_longer_conversation_begins_with_the_shorter(name: str) -> None:
    """What comes out for the first messages is the beginning of what comes out for all."""
    messages = ALL[name]().messages
    whole = to_openai(messages)["messages"]
    for end in range(len(messages)):
        if not messages[end - 1].calls and messages[end].role != "tool":
            part = to_openai(messages[:end])["messages"]
            assert part == whole[: len(part)]


# One by one ---------------------------------------------------------------------------------------


def test_openai() -> None:
    """System, user, a call with its result, an answer: in OpenAI's shape."""
    talk = Talk().user("List.").answer("Yes.", run("ls")).result("a.txt").answer("One file.")
    system = Message(role="system", content=(Text(text="You help."),))
    assert {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": "List."},
            {
                "role": "assistant",
                "content": "Yes.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "bash", "arguments": '{"command": "ls"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
            {"role": "assistant", "content": "One file."},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "bash",
                    "description": "Runs.",
                    "parameters": {"type": "object"},
                },
            }
        ],
    } == to_openai((system, *talk.messages), HEADER)


def test_anthropic() -> None:
    """System, user, a call with its result, an answer: in Anthropic's shape."""
    talk = Talk().user("List.").answer("Yes.", run("ls")).result("no", error=True).answer("None.")
    system = Message(role="system", content=(Text(text="You help."),))
    assert {
        "model": "m-1",
        "max_tokens": 500,
        "system": [{"type": "text", "text": "You help."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "List."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Yes."},
                    {
                        "type": "tool_use",
                        "id": "call_1",
                        "name": "bash",
                        "input": {"command": "ls"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_1",
                        "content": [{"type": "text", "text": "no"}],
                        "is_error": True,
                    }
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "None."}]},
        ],
        "tools": [
            {"name": "bash", "description": "Runs.", "input_schema": {"type": "object"}},
        ],
    } == to_anthropic((system, *talk.messages), HEADER)


def test_markdown() -> None:
    """A heading for each message, calls and results as code, in fences that nothing closes."""
    talk = Talk().user("List.").answer("Yes.", run("ls")).result("```\na\n```", error=True)
    assert (
        "## User\n\nList.\n\n## Assistant\n\nYes.\n\n"
        '### bash\n\n```json\n{"command": "ls"}\n```\n\n'
        "Result (failed):\n\n````\n```\na\n```\n````\n"
    ) == to_markdown(talk.messages)


def test_a_format_0_header_has_the_system_prompt() -> None:
    """Where the prompt stands in the request header it comes first, as anywhere else."""
    header = Header(
        provider="p", model="m", max_tokens=None, system="You help.", tools_json=None,
        tools_length=0, identity=b"",
    )  # fmt: skip
    messages = Talk().user("Hi.").messages
    assert {"role": "system", "content": "You help."} == to_openai(messages, header)["messages"][0]
    assert [{"type": "text", "text": "You help."}] == to_anthropic(messages, header)["system"]
    assert to_markdown(messages, header).startswith("## System\n\nYou help.")


def test_a_call_without_a_result_gets_one() -> None:
    """A dangling call is answered by words that say so, as an error."""
    talk = Talk().user("Go.").answer("", run("sleep 9"))
    assert NO_RESULT == to_openai(talk.messages)["messages"][-1]["content"]
    block = to_anthropic(talk.messages)["messages"][-1]["content"][0]
    assert (True, NO_RESULT) == (block["is_error"], block["content"][0]["text"])


def test_a_result_without_its_call_is_told() -> None:
    """A result whose call is gone becomes the user's text, and loses nothing."""
    lost = Message(role="tool", content=(Text(text="42"),), call_id="c9")
    assert [{"role": "user", "content": "(the result of an earlier call, c9)\n42"}] == to_openai(
        [lost]
    )["messages"]


def test_a_result_stands_behind_its_call() -> None:
    """What came between a call and its result comes behind both."""
    talk = Talk().user("Go.").answer("", run("a"), run("b")).note("By the way.")
    body = to_openai(talk.result("A").result("B").messages)
    assert ["user", "assistant", "tool", "tool", "user"] == [m["role"] for m in body["messages"]]


def test_results_in_any_order_find_their_calls() -> None:
    """Several calls in one message are answered in the calls' order."""
    calls = tuple(ToolCall(id=name, name="t", arguments="{}") for name in "ab")
    results = (Message(role="tool", content=(Text(text=n.upper()),), call_id=n) for n in "ba")
    body = to_openai([Message(role="assistant", content=calls), *results])
    assert [("a", "A"), ("b", "B")] == [
        (m["tool_call_id"], m["content"]) for m in body["messages"][1:]
    ]


def test_ids_become_unique_and_plain() -> None:
    """Repeated or odd ids are renamed together with their results."""
    messages: list[Message] = []
    for call_id in ("call.0", "call.0", "x" * 90, ""):
        call = ToolCall(id=call_id, name="bash", arguments="{}")
        messages += (
            Message(role="assistant", content=(call,)),
            Message(role="tool", content=(Text(text="ok"),), call_id=call_id),
        )
    body = to_openai(messages)
    check_openai(body)
    check_anthropic(to_anthropic(messages))
    assert ["call_0", "call_0_2", "x" * 64, "call"] == [
        m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"
    ]


@pytest.mark.parametrize(
    ("wanted", "arguments"),
    [
        ({"a": 1}, '{"a": 1}'),
        ({}, ""),
        ({"arguments": "{not json"}, "{not json"),
        ({"arguments": ["ls"]}, '["ls"]'),
        ({"arguments": "NaN"}, "NaN"),
        ({"a": "\ufffd, 😀, \\ud83d"}, '{"a": "\\ud83d, \\ud83d\\ude00, \\\\ud83d"}'),
        ({"a": "\ufffd"}, '{"a": "\ud83d"}'),
        ({"arguments": '{"a":' * 200 + "1" + "}" * 200}, '{"a":' * 200 + "1" + "}" * 200),
        ({"arguments": "[" * 100_000}, "[" * 100_000),
    ],
)
def test_arguments_are_always_an_object(wanted: dict[str, Any], arguments: str) -> None:
    """Whatever the model wrote, each client gets an object that its encoder can take."""
    call = ToolCall(id="c", name="bash", arguments=arguments)
    messages = [
        Message(role="user", content=(Text(text="x"),)),
        Message(role="assistant", content=(call,)),
    ]
    (openai,) = to_openai(messages)["messages"][1]["tool_calls"]
    assert wanted == json.loads(openai["function"]["arguments"])
    assert wanted == to_anthropic(messages)["messages"][1]["content"][0]["input"]
    check_openai(to_openai(messages))
    check_anthropic(to_anthropic(messages))


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "a.b c", "parameters": {"type": "object"}},
        {"name": "x", "inputSchema": {"properties": {}}},
        {"type": "function", "function": {"name": "x", "parameters": {}}},
        {"name": "x", "description": None},
        {"description": "\ud83d"},
    ],
)
def test_tools_of_every_shape_are_translated(tool: dict[str, Any]) -> None:
    """A tool described as the harness, OpenAI, Anthropic or MCP does is described for both."""
    header = Header(
        provider="p", model="m", max_tokens=None, system=None,
        tools_json=json.dumps([tool]).encode(), tools_length=1, identity=b"",
    )  # fmt: skip
    openai, anthropic = to_openai([], header), to_anthropic(Talk().user("x").messages, header)
    check_openai(openai)
    check_anthropic(anthropic)
    function = openai["tools"][0]["function"]
    assert (
        "object" == function["parameters"]["type"] == anthropic["tools"][0]["input_schema"]["type"]
    )
    assert function["name"].replace("_", "").isalnum()


def test_what_cannot_be_carried_is_named() -> None:
    """An image becomes a word in its place; reasoning is left out unless it is asked for."""
    image = Opaque(kind="image", json=b'{"type":"image"}', length=16)
    thought = Reasoning(text="Hm.")
    messages = [
        Message(role="user", content=(Text(text="Look:"), image)),
        Message(role="assistant", content=(thought, Text(text="Seen."))),
    ]
    assert [
        {"role": "user", "content": "Look:\n[image: not carried over]"},
        {"role": "assistant", "content": "Seen."},
    ] == to_openai(messages)["messages"]
    asked = to_openai(messages, reasoning=True)["messages"][1]
    assert "Hm." == asked["reasoning_content"]
    assert "Hm." not in str(to_anthropic(messages))


def test_an_answer_may_come_first() -> None:
    """Anthropic wants the user to begin: where the span doesn't, a word says so."""
    body = to_anthropic(Talk().answer("And so on.").messages)
    check_anthropic(body)
    assert "user" == body["messages"][0]["role"]


def test_system_messages_further_down_are_text() -> None:
    """Anthropic has no system messages inside a conversation: what they say is still said."""
    inside = Message(role="developer", content=(Text(text="Be brief."),))
    body = to_anthropic([*Talk().user("Hi.").messages, inside])
    assert "Be brief." == body["messages"][0]["content"][-1]["text"]
    assert "system" == to_openai([inside])["messages"][0]["role"]


_TEXT: Final = st.text(st.characters() | st.sampled_from('\ud800 \n`{}"\\'), max_size=12)
_BLOCKS: Final[st.SearchStrategy[Block]] = st.one_of(
    st.builds(Text, text=_TEXT),
    st.builds(Reasoning, text=_TEXT),
    st.builds(ToolCall, id=st.sampled_from("ab.") | _TEXT, name=_TEXT, arguments=_TEXT),
    st.builds(
        ToolResult,
        call_id=st.sampled_from("ab."),
        content=st.tuples(st.builds(Text, text=_TEXT)),
        is_error=st.booleans(),
    ),
    st.builds(Opaque, kind=_TEXT, json=st.just(b"{}"), length=st.just(2)),
)
_MESSAGES: Final = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool", "system", "developer", "other"]),
    content=st.lists(_BLOCKS, max_size=4).map(tuple),
    call_id=st.none() | st.sampled_from("ab."),
    is_error=st.booleans(),
)


@given(st.lists(_MESSAGES, max_size=10))
def test_any_conversation_comes_out_whole(messages: Sequence[Message]) -> None:
    """Whatever the surface holds, both clients' types take it and no pair is torn."""
    check_openai(to_openai(messages, HEADER))
    check_anthropic(to_anthropic(messages, HEADER))
    assert to_markdown(messages, HEADER).encode("utf-8")


# The command --------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", sorted(LOGS.glob("v*.jsonl*")), ids=lambda path: path.name)
def test_real_logs_come_out_whole(log: Path) -> None:
    """The surface of every real log is accepted by both clients' types."""
    with read_session(log) as session:
        messages = [session.event(node).message for node in session.surface]
        header = session.newest_header
    check_openai(to_openai(messages, header))
    check_anthropic(to_anthropic(messages, header))


def test_the_command_writes_a_body() -> None:
    """What the command prints is the body, with the session's model, for either client."""
    log = LOGS / "v4-pressure.jsonl"
    openai, anthropic = (dshc("export", log, "--to", name) for name in ("openai", "anthropic"))
    assert (0, 0) == (openai.code, anthropic.code)
    check_openai(openai.json)
    check_anthropic(anthropic.json)
    assert "tiny-model" == openai.json["model"] == anthropic.json["model"]


def test_export_with_json_says_what_it_is() -> None:
    """With --json the result stands in the object that every command prints."""
    log = LOGS / "v4-pressure.jsonl"
    done = dshc("export", log, "--to", "openai", "--json")
    head = {key: done.json[key] for key in ("schema", "command", "log", "to")}
    assert {"schema": 1, "command": "export", "log": str(log), "to": "openai"} == head
    assert done.json["conversation"] == dshc("export", log, "--to", "openai").json
    written = dshc("export", log, "--to", "markdown")
    assert written.out == dshc("export", log, "--to", "markdown", "--json").json["conversation"]


def test_markdown_is_made_safe(tmp_path: Path) -> None:
    """No escape sequence of a log reaches the terminal."""
    log = tmp_path / "log.jsonl"
    record = {
        "type": "user/message", "seq": 0, "time": 1, "surfaceOp": "append",
        "data": {"role": "user", "id": "i", "source": {"kind": "user"},
                 "content": [{"type": "text", "text": "a\x1b[31mb"}]},
    }  # fmt: skip
    header = {"type": "session", "version": 4, "id": "s", "createdAt": 1, "isSeeded": False,
              "delegationDepth": 0}  # fmt: skip
    log.write_text("".join(json.dumps(one) + "\n" for one in (header, record)))
    done = dshc("export", log, "--to", "markdown")
    assert "## User\n\na\\x1b[31mb\n" == done.out


def test_another_target_is_wrong_usage() -> None:
    """Only three clients are spoken to; anything else is told what they are."""
    done = dshc("export", LOGS / "v4-pressure.jsonl", "--to", "html")
    assert 2 == done.code
    assert "anthropic" in done.err
