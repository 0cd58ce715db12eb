"""A model's answer out of each provider's shape, as the official clients give it and as JSON."""

import contextlib
from typing import Any, Final

import pytest
from anthropic.types import Message as AnthropicMessage
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from dsh_compact.events import Reasoning, Text, ToolCall, Usage
from dsh_compact.replies import NoReply, Reply

CALL: Final = ToolCall(id="c1", name="bash", arguments='{"command":"ls"}')

COMPLETION: Final[dict[str, Any]] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "bash", "arguments": '{"command":"ls"}'},
                    }
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 900,
        "completion_tokens": 20,
        "total_tokens": 920,
        "prompt_tokens_details": {"cached_tokens": 600},
    },
}

MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "A listing.", "signature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
    ],
    "usage": {
        "input_tokens": 300,
        "output_tokens": 20,
        "cache_read_input_tokens": 500,
        "cache_creation_input_tokens": 100,
    },
}


def completion(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A chat completion with that message."""
    return {"choices": [{"message": message, "finish_reason": "stop", **more}]}


@pytest.mark.parametrize("body", [COMPLETION, ChatCompletion.model_validate(COMPLETION)])
def test_a_chat_completion_is_read(body: Any) -> None:
    """As JSON and as the client's object alike; what was cached is counted by itself."""
    usage = Usage(input_tokens=300, output_tokens=20, cache_read_tokens=600)
    assert Reply(text="Looking.", calls=(CALL,), usage=usage) == Reply.from_openai(body)


@pytest.mark.parametrize("body", [MESSAGE, AnthropicMessage.model_validate(MESSAGE)])
def test_an_anthropic_message_is_read(body: Any) -> None:
    """As JSON and as the client's object alike; the input becomes JSON again."""
    usage = Usage(input_tokens=300, output_tokens=20, cache_read_tokens=500, cache_write_tokens=100)
    wanted = Reply(text="Looking.", calls=(CALL,), reasoning="A listing.", usage=usage)
    assert wanted == Reply.from_anthropic(body)


def test_deepseeks_own_fields_are_read() -> None:
    """Reasoning and the cache have names of their own there."""
    body = completion({"content": "Yes.", "reasoning_content": "Hm."}) | {
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 8}
    }
    usage = Usage(input_tokens=2, output_tokens=2, cache_read_tokens=8)
    assert Reply(text="Yes.", reasoning="Hm.", usage=usage) == Reply.from_openai(body)


def test_the_blocks_stand_in_the_harness_order() -> None:
    """Reasoning, text, calls; what is empty is left out."""
    reply = Reply(text="Looking.", calls=(CALL,), reasoning="Hm.")
    assert (Reasoning(text="Hm."), Text(text="Looking."), CALL) == reply.blocks
    assert () == Reply().blocks


def test_a_cut_answer_says_so() -> None:
    """It ended at its token limit."""
    assert Reply.from_openai(completion({"content": "an"}, finish_reason="length")).is_cut
    assert not Reply.from_openai(completion({"content": "an"})).is_cut
    assert Reply.from_anthropic(MESSAGE | {"stop_reason": "max_tokens"}).is_cut
    assert not Reply.from_anthropic(MESSAGE).is_cut


def test_arguments_are_kept_as_the_model_wrote_them() -> None:
    """Wrong JSON too; a server that parsed them gets them written again."""
    for written, kept in [('{"a": ', '{"a": '), ({"a": 1}, '{"a":1}'), (None, "{}")]:
        calls = [{"id": "c1", "function": {"name": "bash", "arguments": written}}]
        reply = Reply.from_openai(completion({"content": None, "tool_calls": calls}))
        assert (kept,) == tuple(call.arguments for call in reply.calls)


def test_content_in_parts_is_joined() -> None:
    """Some servers send texts as a list; other parts are left out."""
    parts = [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}]
    assert "one\ntwo" == Reply.from_openai(completion({"content": parts})).text


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [None]}, {"error": "busy"}, []])
def test_what_is_no_completion_is_an_error_that_says_so(body: Any) -> None:
    """An endpoint may answer 200 with an error in it."""
    with pytest.raises(NoReply, match="no chat completion"):
        Reply.from_openai(body)


@pytest.mark.parametrize("body", [{}, {"content": "text"}, {"type": "error"}, "busy"])
def test_what_is_no_message_is_an_error_that_says_so(body: Any) -> None:
    """The same for the other shape."""
    with pytest.raises(NoReply, match="no message"):
        Reply.from_anthropic(body)


SHAPED: Final = {*COMPLETION, *MESSAGE, "message", "content", "tool_calls", "function", "text"}
KEYS: Final = sorted({*SHAPED, "name", "arguments", "input", "thinking", "prompt_tokens"})

JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=30,
)


@given(inner=JSON)
def test_no_json_whatever_crashes_it(inner: Any) -> None:
    """Endpoints send anything: it is read as far as it can be, or refused as no reply."""
    bodies = [inner, {"choices": [{"message": inner}], "usage": inner}, {"content": [inner]}]
    for body in bodies:
        for read in (Reply.from_openai, Reply.from_anthropic):
            with contextlib.suppress(NoReply):
                assert isinstance(read(body), Reply)
