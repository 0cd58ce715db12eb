"""A conversation for other clients: as OpenAI's chat messages, Anthropic's messages, or Markdown.

Rule: what comes out is whole. Every call stands directly before its result, whatever stood between
them; a call without a result gets one that says so, and a result without its call is told as text.
So any client can go on with it. What another provider would refuse is made fit for it: ids and
names of other letters, arguments that are no JSON object, empty texts, lone surrogates. What cannot
be carried over (images, files) is named in its place; the model's reasoning is left out, since no
provider takes another one's.

Pure, for every format alike. Equal messages give an equal beginning: a longer conversation's
request begins with the shorter one's, as a provider's prefix cache wants it. The values are the
clients' own wire shapes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from dsh_compact.codec import wire
from dsh_compact.errors import RuleBroken
from dsh_compact.events import (
    Block,
    Header,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

LONGEST_NAME: Final = 64
"""Characters of a tool's name and of a call's id that every provider takes."""

DEEPEST_ARGUMENTS: Final = 64
"""Levels of nesting that a client's own encoder walks without a stack overflow."""

DEFAULT_MAX_TOKENS: Final = 4096
"""Anthropic wants a bound for the answer; where the session has none, a usual one."""

NO_RESULT: Final = "(no result: the conversation ended before this call was answered)"
LOST_CALL: Final = "(the result of an earlier call, {})"
NOT_CARRIED: Final = "[{}: not carried over]"
BEGINS_INSIDE: Final = "(the conversation begins before this point)"


def to_openai(
    messages: Sequence[Message], header: Header | None = None, *, reasoning: bool = False
) -> dict[str, Any]:
    """The body of a chat completion that goes on with `messages`: `model`, `messages`, `tools`.

    Developer messages have the role `system`, which every compatible endpoint knows. With
    `reasoning` an answer carries its reasoning as `reasoning_content`, a field that DeepSeek and
    others read and OpenAI does not have.
    """
    parts = [*_system_of(header), *_parts(messages)]
    written = [line for part in parts for line in _openai_part(part, reasoning=reasoning)]
    tools = [_openai_tool(tool) for tool in _tools(header)]
    model = {} if header is None else {"model": header.model}
    return {**model, "messages": written, **({"tools": tools} if tools else {})}


def to_anthropic(messages: Sequence[Message], header: Header | None = None) -> dict[str, Any]:
    """The body of a message request: `model`, `max_tokens`, `system`, `messages`, `tools`.

    Roles alternate and begin with the user's; system messages further down are the user's text.
    """
    parts = [*_system_of(header), *_parts(messages)]
    head = next((i for i, part in enumerate(parts) if not isinstance(part, _Prompt)), len(parts))
    system = [_text_block(part.text) for part in parts[:head] if isinstance(part, _Prompt)]
    tools = [_anthropic_tool(tool) for tool in _tools(header)]
    return {
        **({} if header is None else {"model": header.model}),
        "max_tokens": (header and header.max_tokens) or DEFAULT_MAX_TOKENS,
        **({"system": system} if system else {}),
        "messages": _alternating(turn for part in parts[head:] for turn in _anthropic_part(part)),
        **({"tools": tools} if tools else {}),
    }


def to_markdown(messages: Sequence[Message], header: Header | None = None) -> str:
    """The conversation to be read: a heading for each message, calls and results as code."""
    parts = [*_system_of(header), *_parts(messages)]
    return "\n\n".join(line for part in parts for line in _markdown_part(part)) + "\n"


# What was said, in pairs --------------------------------------------------------------------------


class _Prompt(Struct, frozen=True):
    """A system or developer message."""

    text: str


class _Heard(Struct, frozen=True):
    """What the user said; `texts` are its blocks."""

    texts: tuple[str, ...]


class _Call(Struct):
    """A call and what it gave; `result` None where nothing is known of it.

    `written` is the JSON of `arguments`, as the model wrote it where that is an object.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    written: str
    result: str | None = None
    is_error: bool = False


class _Answer(Struct, frozen=True):
    """What the model said and asked for."""

    texts: tuple[str, ...]
    reasoning: str
    calls: tuple[_Call, ...]


_Part = _Prompt | _Heard | _Answer


def _parts(messages: Sequence[Message]) -> list[_Part]:
    """The messages that say something, results filled into their calls."""
    parts: list[_Part] = []
    waiting: dict[str, _Call] = {}
    ids = _Ids()
    for message in messages:
        for call_id, content, is_error in _results(message):
            call = waiting.pop(call_id, None)
            if call is None:
                texts = (LOST_CALL.format(call_id or "unnamed"), *_texts(content))
                parts.append(_Heard(tuple(map(_whole, texts))))
            else:
                call.result, call.is_error = "\n".join(_texts(content)), is_error
        part = None if message.role == "tool" else _part(message, ids)
        if part is not None:
            parts.append(part)
        if isinstance(part, _Answer):
            waiting.update(zip((call.id for call in message.calls), part.calls, strict=True))
    return parts


def _part(message: Message, ids: "_Ids") -> _Part | None:
    texts = tuple(_texts(message.content))
    if message.role == "assistant":
        thought = [block.text for block in message.content if isinstance(block, Reasoning)]
        calls = tuple(_call(call, ids) for call in message.calls)
        reasoning = _whole("\n".join(thought))
        return _Answer(texts, reasoning, calls) if texts or calls else None
    if not texts:
        return None
    return _Prompt("\n".join(texts)) if message.role in {"system", "developer"} else _Heard(texts)


def _results(message: Message) -> Iterator[tuple[str, Sequence[Block], bool]]:
    """Call id, content and whether it is an error, of every result in the message."""
    if message.role == "tool":
        yield message.call_id or "", message.result, message.is_error
        return
    for block in message.content:
        if isinstance(block, ToolResult):
            yield block.call_id, block.content, block.is_error or message.is_error


def _texts(content: Iterable[Block]) -> Iterator[str]:
    """The blocks that can be carried over, as texts, and the others' names; blank ones left out."""
    for block in content:
        if isinstance(block, Text) and block.text.strip():
            yield _whole(block.text)
        elif isinstance(block, Opaque):
            yield NOT_CARRIED.format(_whole(block.kind))


def _system_of(header: Header | None) -> list[_Part]:
    """A format-0 header's system prompt, which is no message there."""
    return [_Prompt(_whole(header.system))] if header is not None and header.system else []


# Made fit -----------------------------------------------------------------------------------------

_LONE: Final = re.compile("[\ud800-\udfff]")
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_ESCAPES: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: kept
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # one half alone
    r"|\\."
)


def _whole(text: str) -> str:
    """The text without lone surrogates, which no encoding of the wire takes."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)


def _call(call: ToolCall, ids: "_Ids") -> _Call:
    text = _ESCAPES.sub(_kept_escape, _whole(call.arguments))
    value = _read(text)
    if isinstance(value, dict):
        return _Call(ids.unique(call.id), tool_name(call.name), value, text)
    wrapped = {} if value is None else {"arguments": value}
    return _Call(ids.unique(call.id), tool_name(call.name), wrapped, wire.dump(wrapped).decode())


def tool_name(name: str) -> str:
    """A tool's name in the letters that every provider takes."""
    return _ODD.sub("_", name)[:LONGEST_NAME] or "tool"


class _Ids:
    """Gives every call an id of its own: some harnesses count from zero in every turn."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}

    def unique(self, call_id: str) -> str:
        plain = _ODD.sub("_", call_id)[:LONGEST_NAME] or "call"
        while (count := self._uses.get(plain, 0)) > 0:
            self._uses[plain] = count + 1
            suffix = f"_{count + 1}"
            plain = plain[: LONGEST_NAME - len(suffix)] + suffix
        self._uses[plain] = 1
        return plain


def _read(text: str) -> Any:
    """The value that JSON holds; the text where it is none or nested too deep, None if blank."""
    if not text.strip():
        return None
    try:
        value = wire.load(text.encode())
    except RuleBroken:
        return text
    return text if _is_deeper(value, DEEPEST_ARGUMENTS) else value


def _kept_escape(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape[1] else escape[0]


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(one, levels - 1) for one in inner)


def _tools(header: Header | None) -> list[dict[str, Any]]:
    """The header's tools, whatever shape they have: those of the harness, OpenAI's, Anthropic's."""
    if header is None or not header.tools_json:
        return []
    listed = _read(_ESCAPES.sub(_kept_escape, _whole(header.tools_json.decode("utf-8", "replace"))))
    return [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []


def described(tool: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Name, description and parameters of a tool."""
    inner = tool.get("function")
    tool = inner if isinstance(inner, dict) else tool
    keys = ("parameters", "input_schema", "inputSchema", "schema")
    schemas = (tool.get(key) for key in keys)
    parameters = next((schema for schema in schemas if isinstance(schema, dict)), {})
    if parameters.get("type") != "object":
        parameters = {"type": "object", "properties": {}} | parameters | {"type": "object"}
    return tool_name(str(tool.get("name", ""))), str(tool.get("description") or ""), parameters


# OpenAI -------------------------------------------------------------------------------------------


def _openai_part(part: _Part, *, reasoning: bool) -> Iterator[dict[str, Any]]:
    match part:
        case _Prompt(text):
            yield {"role": "system", "content": text}
        case _Heard(texts):
            yield {"role": "user", "content": "\n".join(texts)}
        case _Answer(texts, thought, calls):
            yield {
                "role": "assistant",
                "content": "\n".join(texts) if texts or not calls else None,
                **({"reasoning_content": thought} if reasoning and thought else {}),
                **({"tool_calls": [*map(_openai_call, calls)]} if calls else {}),
            }
            for call in calls:
                yield {"role": "tool", "tool_call_id": call.id, "content": _result_of(call)}


def _openai_call(call: _Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.written}
    return {"id": call.id, "type": "function", "function": function}


def _openai_tool(tool: dict[str, Any]) -> dict[str, Any]:
    name, description, parameters = described(tool)
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _result_of(call: _Call) -> str:
    return NO_RESULT if call.result is None else call.result


# Anthropic ----------------------------------------------------------------------------------------

_Turn = tuple[str, list[dict[str, Any]]]


def _anthropic_part(part: _Part) -> Iterator[_Turn]:
    match part:
        case _Prompt(text):
            yield "user", [_text_block(text)]
        case _Heard(texts):
            yield "user", [*map(_text_block, texts)]
        case _Answer(texts, _, calls):
            yield "assistant", [*map(_text_block, texts), *map(_anthropic_call, calls)]
            if calls:
                yield "user", [*map(_anthropic_result, calls)]


def _alternating(turns: Iterable[_Turn]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for role, blocks in turns:
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    if messages and messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": [_text_block(BEGINS_INSIDE)]})
    return messages


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _anthropic_call(call: _Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def _anthropic_result(call: _Call) -> dict[str, Any]:
    failed = call.is_error or call.result is None
    content = _result_of(call)
    return {
        "type": "tool_result",
        "tool_use_id": call.id,
        **({"content": [_text_block(content)]} if content.strip() else {}),
        **({"is_error": True} if failed else {}),
    }


def _anthropic_tool(tool: dict[str, Any]) -> dict[str, Any]:
    name, description, parameters = described(tool)
    return {"name": name, "description": description, "input_schema": parameters}


# Markdown -----------------------------------------------------------------------------------------

_TICKS: Final = re.compile("`{3,}")


def _markdown_part(part: _Part) -> Iterator[str]:
    match part:
        case _Prompt(text):
            yield f"## System\n\n{text}"
        case _Heard(texts):
            yield "## User\n\n" + "\n\n".join(texts)
        case _Answer(texts, _, calls):
            yield "\n\n".join(["## Assistant", *texts])
            for call in calls:
                failed = " (failed)" if call.is_error else ""
                yield f"### {call.name}\n\n{_fenced(call.written, 'json')}"
                yield f"Result{failed}:\n\n{_fenced(_result_of(call))}"


def _fenced(text: str, language: str = "") -> str:
    """The text as code, in a fence longer than any inside."""
    ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"
