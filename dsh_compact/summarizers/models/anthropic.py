"""Anthropic's messages API as a summarizer, or any endpoint that speaks it.

Anthropic caches only what a request marks. So the end of the conversation is marked: what the
session's own requests left in the cache is found there, and read at a tenth of the price.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from dsh_compact.events import Usage
from dsh_compact.export import to_anthropic
from dsh_compact.summarizers.models.asking import Answer, Prompt
from dsh_compact.summarizers.models.http import (
    CALLED_TOOL,
    NOT_TEXT,
    Endpoint,
    Patience,
    Read,
    Refused,
    check_end,
    failed,
    send,
    told_inside,
)
from dsh_compact.summarizers.models.provider import Provider
from dsh_compact.summarizers.protocol import Options

VERSION: Final = "2023-06-01"

Body = dict[str, Any]


class _Model:
    """The endpoint for the time of one summary."""

    def __init__(self, endpoint: Endpoint, time_: Patience, _: Options) -> None:
        self.name = endpoint.name
        self._endpoint, self._time = endpoint, time_

    def ask(self, prompt: Prompt, heard: Callable[[str], None]) -> Answer:
        """One message; raises as `Model.ask` says."""
        read = _Reader(self._endpoint, heard)
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

_DONE: Final = frozenset({"end_turn", "stop_sequence"})
_CUT: Final = frozenset({"max_tokens", "model_context_window_exceeded", "pause_turn"})
_SILENT: Final = frozenset({"thinking", "redacted_thinking"})


class _Reader:
    """Reads one answer, as a stream of events or as one message."""

    def __init__(self, endpoint: Endpoint, heard: Callable[[str], None]) -> None:
        self._endpoint = endpoint
        self._heard = heard

    def __call__(self, objects: Iterator[Body]) -> Read:
        texts: list[str] = []
        counted: Body = {}
        finished: str | None = None
        for event in objects:
            if event.get("type") == "error" or event.get("error"):
                raise told_inside(event)
            inner = event.get("message")
            for part in (event, inner if isinstance(inner, dict) else {}, event.get("delta") or {}):
                usage = part.get("usage")
                counted |= usage if isinstance(usage, dict) else {}
                finished = part.get("stop_reason") or finished
            if text := self._text(event):
                texts.append(text)
                self._heard(text)
        check_end(self._endpoint, finished, done=_DONE, cut=_CUT)
        return Read(text="".join(texts), counted=counted)

    def _text(self, event: Body) -> str:
        """The text in an event, or in all blocks of a message that came at once."""
        match event.get("type"):
            case "content_block_start":
                return self._block(event.get("content_block"))
            case "content_block_delta":
                delta = event.get("delta") or {}
                return str(delta.get("text", "")) if delta.get("type") == "text_delta" else ""
            case "message":
                return "".join(self._block(block) for block in event.get("content") or ())
            case _:
                return ""

    def _block(self, block: Any) -> str:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            return str(block.get("text", ""))
        if kind in _SILENT:
            return ""
        if isinstance(kind, str) and kind.endswith("tool_use"):
            raise self._endpoint.failed(CALLED_TOOL)
        raise self._endpoint.failed(NOT_TEXT)


def _usage(counted: Body) -> Usage | None:
    names = (
        "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
    )  # fmt: skip
    counts = [counted.get(name) for name in names]
    given, made, read, written = (
        count if isinstance(count, int) and count >= 0 else 0 for count in counts
    )
    if not (given or made or read or written):
        return None
    return Usage(
        input_tokens=given, output_tokens=made, cache_read_tokens=read, cache_write_tokens=written
    )


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
