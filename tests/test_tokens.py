"""Prices: the harness's own estimate, to the token."""

from __future__ import annotations

import json
from typing import Any

import plain_reader
import pytest
from builders import call, line
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values, opaque_blocks, said, texts

from dsh_compact.codec import decode_request_header, decode_surface_event
from dsh_compact.events import Header, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from dsh_compact.tokens import (
    price_block,
    price_header,
    price_message,
    price_text,
    system_tokens,
    tools_tokens,
)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (0, ""),
        (1, "a"),
        (1, "abcd"),
        (2, "abcde"),
        (1, "你好"),
        (1, "🚀🚀"),
        (2, "🚀🚀🚀"),
        (1, "\ud83d"),
    ],
)
def test_a_text_costs_a_quarter_of_its_utf16_units(tokens: int, text: str) -> None:
    """Rounded up; a character beyond the basic plane counts twice, half of one counts once."""
    assert tokens == price_text(text)


@pytest.mark.parametrize(
    ("tokens", "block"),
    [
        (4 + 4, Text(text="x" * 13)),
        (4 + 4, Reasoning(text="x" * 16)),
        (1 + 2 + 4, ToolCall(id="ignored" * 9, name="bash", arguments='{"a":1}')),
        (1 + 4, Opaque(kind="image", json=b"{}", length=2)),
        (4, ToolResult(call_id="c", content=(), is_error=False)),
        ((1 + 4) + (2 + 4) + 4, ToolResult(
            call_id="c", content=(Text(text="a"), Text(text="abcde")), is_error=True)),
    ],
)  # fmt: skip
def test_a_block_costs_its_content_and_four(tokens: int, block: Any) -> None:
    """A call is priced by name and arguments apart, a result by what it holds."""
    assert tokens == price_block(block)


@pytest.mark.parametrize(
    ("tokens", "role"),
    [(0, "assistant"), (0, "system"), (0, "developer"), (4, "user"), (4, "tool")],
)
def test_an_empty_message_costs_nothing_where_it_is_never_sent(tokens: int, role: str) -> None:
    """An empty answer or prompt yields no message; an empty user's message is framed like any."""
    assert tokens == price_message(Message(role=role, content=()))


def test_a_header_costs_its_prompt_and_its_tools() -> None:
    """Each part that is there costs a quarter of its length and 4."""
    header = Header(
        provider="p",
        model="m",
        max_tokens=None,
        system="x" * 8,
        tools_json=b"[{}]",
        tools_length=4,
        identity=b"",
    )
    assert (2 + 4, 1 + 4) == (system_tokens(header), tools_tokens(header))
    assert 11 == price_header(header)
    assert 0 == price_header(None)


# Laws ---------------------------------------------------------------------------------------------

calls = st.builds(call, st.text(max_size=5), st.text(max_size=5), texts)
blocks = st.lists(said | st.lists(calls | opaque_blocks, max_size=2), max_size=2)


@given(blocks, st.sampled_from([0, 3, 4]), st.sampled_from(["user", "assistant", "tool"]))
def test_prices_are_those_of_the_plain_reader(parts: list[Any], version: int, kind: str) -> None:
    """Blocks of every kind, with every awkward text, cost what the naive count says."""
    content = [
        {"type": "text", "text": block} if isinstance(block, str) else block
        for part in parts
        for block in part
    ]
    record = event(kind, content, version)
    assert plain_reader.node_tokens(record) == price_message(
        decode_surface_event(line(record).rstrip(b"\n"), version).message
    )


def event(kind: str, content: list[Any], version: int) -> dict[str, Any]:
    """A surface event with that content."""
    names = {"user": "user/message", "assistant": "assistant/message", "tool": "tool/result"}
    message: dict[str, Any] = {"role": kind, "content": content, "id": "m"}
    if kind == "tool" and version < 4:
        wrapped = {"type": "tool-result", "toolCallId": "c", "content": content, "isError": False}
        message = {"role": "user", "content": [wrapped], "id": "m"}
    data = message if kind == "user" else {"turn": 1, "step": 1, "message": message}
    return {"type": names[kind], "seq": 0, "time": 1, "data": data, "surfaceOp": "append"}


@given(st.none() | texts, st.lists(json_values, max_size=3))
def test_header_prices_are_those_of_the_plain_reader(system: str | None, tools: list[Any]) -> None:
    """Tools cost the length of their compact JSON, as JavaScript writes it."""
    header: dict[str, Any] = {"config": {"provider": "p", "model": "m"}}
    if system is not None:
        header["system"] = system
    if tools:
        header["tools"] = tools
    record = {"type": "request/header", "seq": 0, "time": 1, "data": {"header": header}}
    decoded = decode_request_header(line(record).rstrip(b"\n"))
    assert plain_reader.header_tokens(json.loads(json.dumps(header))) == price_header(decoded)
