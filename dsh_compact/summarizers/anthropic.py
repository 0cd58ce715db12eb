"""Anthropic's messages API as a summarizer, or any endpoint that speaks it.

Anthropic caches only what a request marks. So the end of the conversation is marked: what the
session's own requests left in the cache is found there, and read at a tenth of the price.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from dsh_compact import catalog
from dsh_compact.events import Usage
from dsh_compact.export import to_anthropic
from dsh_compact.summarizers import Options, Progress, Request, Summary
from dsh_compact.summarizers.asking import Answer, Prompt, summarise
from dsh_compact.summarizers.http import (
    CALLED_TOOL,
    NOT_TEXT,
    Endpoint,
    Patience,
    Read,
    Refused,
    check_end,
    endpoint,
    failed,
    patience,
    send,
    told_inside,
)

NAME: Final = "anthropic"
BASE_URL: Final = "https://api.anthropic.com"
KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
BASE_URL_VARIABLE: Final = "ANTHROPIC_BASE_URL"
VERSION: Final = "2023-06-01"

Body = dict[str, Any]


def load(options: Options, environment: Mapping[str, str]) -> "Anthropic":
    """The summarizer; raises `SummarizerNotReady` where Anthropic itself is asked without a key."""
    base_url = options.base_url or environment.get(BASE_URL_VARIABLE) or BASE_URL
    return Anthropic(
        options,
        endpoint(
            NAME,
            f"{base_url.rstrip('/').removesuffix('/v1')}/v1/messages",
            headers={"anthropic-version": VERSION},
            key_header=("x-api-key", "{}"),
            key=options.key,
            variable=KEY_VARIABLE,
            environment=environment,
            needs_key=base_url == BASE_URL,
        ),
    )


class Anthropic:
    """Summarises with a message."""

    name = NAME

    def __init__(self, options: Options, endpoint: Endpoint) -> None:
        self._options = options
        self._endpoint = endpoint

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """The model's summary of a span; raises `SummarizerFailed`."""
        model = _Model(self._endpoint, patience(self._options, request.timeout_seconds))
        return summarise(model, request, self._options, catalog.window_tokens, progress)


class _Model:
    """The endpoint for the time of one summary."""

    name = NAME

    def __init__(self, endpoint: Endpoint, time_: Patience) -> None:
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
