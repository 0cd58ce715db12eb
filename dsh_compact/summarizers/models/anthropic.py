"""Anthropic's messages API as a summarizer, or any endpoint that speaks it.

Anthropic caches only what a request marks. So the end of the conversation is marked: what the
session's own requests left in the cache is found there, and read at a tenth of the price.
"""

from collections.abc import Callable
from typing import Final

from dsh_compact.events import Usage
from dsh_compact.export import to_anthropic
from dsh_compact.summarizers.models.asking import Answer, Prompt
from dsh_compact.summarizers.models.http import Endpoint, Patience, Refused, failed, send
from dsh_compact.summarizers.models.provider import Provider
from dsh_compact.summarizers.models.reading import (
    CALLED_TOOL,
    NOT_TEXT,
    Body,
    Ends,
    Piece,
    as_count,
    as_list,
    as_object,
    as_word,
    reader,
)
from dsh_compact.summarizers.protocol import Options

VERSION: Final = "2023-06-01"


class _Model:
    """The endpoint for the time of one summary."""

    def __init__(self, endpoint: Endpoint, time_: Patience, _: Options) -> None:
        self.name = endpoint.name
        self._endpoint, self._time = endpoint, time_

    def ask(self, prompt: Prompt, heard: Callable[[str], None]) -> Answer:
        """One message; raises as `Model.ask` says."""
        read = reader(self._endpoint, heard, _piece, _ENDS)
        try:
            done = send(self._endpoint, _body(prompt), self._time, read)
        except Refused as refused:
            raise failed(self._endpoint, refused) from None
        return Answer(text=self._endpoint.without_key(done.text), usage=_usage(done.counted))


def _body(prompt: Prompt) -> Body:
    body = to_anthropic(prompt.messages, prompt.header)
    if prompt.instruction:
        _end_with(body["messages"], prompt.instruction)
    return {**body, "model": prompt.model, "max_tokens": prompt.max_tokens, "stream": True}


def _end_with(messages: list[Body], instruction: str) -> None:
    """Adds the instruction as the user's last words, and marks what is before it for the cache."""
    if messages:
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    told = {"type": "text", "text": instruction}
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"].append(told)
    else:
        messages.append({"role": "user", "content": [told]})


# Answers ------------------------------------------------------------------------------------------

_ENDS: Final = Ends(
    done=frozenset({"end_turn", "stop_sequence"}),
    cut=frozenset({"max_tokens", "model_context_window_exceeded", "pause_turn"}),
)
_SILENT: Final = frozenset({"thinking", "redacted_thinking"})


def _piece(endpoint: Endpoint, event: Body) -> Piece:
    """What an event of a stream says, or the whole message."""
    counted: Body = {}
    stopped = ""
    for part in (event, as_object(event.get("message")), as_object(event.get("delta"))):
        counted |= as_object(part.get("usage"))
        stopped = as_word(part.get("stop_reason")) or stopped
    return Piece(text=_text(endpoint, event), counted=counted, stopped=stopped)


def _text(endpoint: Endpoint, event: Body) -> str:
    """The text in an event, or in all blocks of a message that came at once."""
    match event.get("type"):
        case "content_block_start":
            return _block(endpoint, as_object(event.get("content_block")))
        case "content_block_delta":
            delta = as_object(event.get("delta"))
            is_text = delta.get("type") == "text_delta"
            return as_word(delta.get("text")) if is_text else ""
        case "message":
            blocks = map(as_object, as_list(event.get("content")))
            return "".join(_block(endpoint, block) for block in blocks)
        case _:
            return ""


def _block(endpoint: Endpoint, block: Body) -> str:
    kind = as_word(block.get("type"))
    if kind == "text":
        return as_word(block.get("text"))
    if kind in _SILENT:
        return ""
    raise endpoint.failed(CALLED_TOOL if kind.endswith("tool_use") else NOT_TEXT)


def _usage(counted: Body) -> Usage | None:
    usage = Usage(
        input_tokens=as_count(counted.get("input_tokens")),
        output_tokens=as_count(counted.get("output_tokens")),
        cache_read_tokens=as_count(counted.get("cache_read_input_tokens")),
        cache_write_tokens=as_count(counted.get("cache_creation_input_tokens")),
    )
    return usage if usage.total_tokens else None


def _url_of(base_url: str) -> str:
    """With or without the version: other clients' users are used to either."""
    return f"{base_url.removesuffix('/v1')}/v1/messages"


PROVIDER: Final = Provider(
    name="anthropic",
    base_url="https://api.anthropic.com",
    base_url_variable="ANTHROPIC_BASE_URL",
    url_of=_url_of,
    key_variable="ANTHROPIC_API_KEY",
    key_header=("x-api-key", "{}"),
    headers={"anthropic-version": VERSION},
    make_model=_Model,
)
