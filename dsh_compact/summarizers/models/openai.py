"""Any OpenAI-compatible chat endpoint as a summarizer.

Where endpoints differ, the one that complains is asked again in its own dialect: newer OpenAI
models want `max_completion_tokens`, some servers know no `stream_options`. Neither costs anything.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from dsh_compact.events import Usage
from dsh_compact.export import to_openai
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

Body = dict[str, Any]


class _Model:
    """The endpoint for the time of one summary, in the dialect that it turned out to speak."""

    def __init__(self, endpoint: Endpoint, time_: Patience, options: Options) -> None:
        self.name = endpoint.name
        self._endpoint, self._time = endpoint, time_
        self._sends_reasoning = options.send_reasoning
        self._dialect: tuple[Callable[[Body], Body], ...] = ()

    def ask(self, prompt: Prompt, heard: Callable[[str], None]) -> Answer:
        """One chat completion; raises as `Model.ask` says."""
        body = self._body(prompt)
        read = _Reader(self._endpoint, heard)
        while True:
            for change in self._dialect:
                body = change(body)
            try:
                return _answer(send(self._endpoint, body, self._time, read), self._endpoint)
            except Refused as refused:
                change_ = _complaint(refused, body)
                if change_ is None:
                    raise failed(self._endpoint, refused) from None
                self._dialect = (*self._dialect, change_)

    def _body(self, prompt: Prompt) -> Body:
        body = to_openai(prompt.messages, prompt.header, reasoning=self._sends_reasoning)
        if prompt.instruction:
            body["messages"].append({"role": "user", "content": prompt.instruction})
        return {
            **body,
            "model": prompt.model,
            "max_tokens": prompt.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


# Dialects -----------------------------------------------------------------------------------------


def _renamed_bound(body: Body) -> Body:
    return {
        ("max_completion_tokens" if key == "max_tokens" else key): value
        for key, value in body.items()
    }


def _without_options(body: Body) -> Body:
    return {key: value for key, value in body.items() if key != "stream_options"}


def _complaint(refused: Refused, body: Body) -> Callable[[Body], Body] | None:
    """How the body must change to suit the endpoint; None where it complains of something else."""
    said = f"{refused.failure.message} {refused.failure.body or ''}"
    if "max_completion_tokens" in said and "max_tokens" in body:
        return _renamed_bound
    if "stream_options" in said and "stream_options" in body:
        return _without_options
    return None


# Answers ------------------------------------------------------------------------------------------

_DONE: Final = frozenset({"stop", "eos", "end_turn"})
_CUT: Final = frozenset({"length", "max_tokens", "model_length"})


class _Reader:
    """Reads one answer, as a stream of chunks or as one object."""

    def __init__(self, endpoint: Endpoint, heard: Callable[[str], None]) -> None:
        self._endpoint = endpoint
        self._heard = heard

    def __call__(self, objects: Iterator[Body]) -> Read:
        texts: list[str] = []
        counted: Body = {}
        finished: str | None = None
        for one in objects:
            if one.get("error"):
                raise told_inside(one)
            counted = one["usage"] if isinstance(one.get("usage"), dict) else counted
            finished = finished or ("stop" if one.get("done") is True else None)
            for choice in one.get("choices") or ():
                text, finish = self._choice(choice)
                finished = finish or finished
                if text:
                    texts.append(text)
                    self._heard(text)
        check_end(self._endpoint, finished, done=_DONE, cut=_CUT)
        return Read(text="".join(texts), counted=counted)

    def _choice(self, choice: Any) -> tuple[str, str | None]:
        if not isinstance(choice, dict):
            return "", None
        part = choice.get("delta") or choice.get("message") or {}
        if part.get("tool_calls") or part.get("function_call"):
            raise self._endpoint.failed(CALLED_TOOL)
        if part.get("images") or part.get("audio"):
            raise self._endpoint.failed(NOT_TEXT)
        if isinstance(part.get("refusal"), str) and part["refusal"]:
            said = self._endpoint.redacted(part["refusal"])
            raise self._endpoint.failed(f"the model refused to summarise: {said}")
        return self._text(part.get("content")), choice.get("finish_reason")

    def _text(self, content: Any) -> str:
        if content is None or isinstance(content, str):
            return content or ""
        parts = content if isinstance(content, list) else [content]
        if not all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in parts):
            raise self._endpoint.failed(NOT_TEXT)
        return "".join(one["text"] for one in parts)


def _answer(read: Read, endpoint: Endpoint) -> Answer:
    return Answer(
        text=endpoint.without_key(read.text),
        usage=_usage(read.counted),
        cost_usd=_number(read.counted.get("cost")),
    )


def _usage(counted: Body) -> Usage | None:
    """Prompt tokens without those from the cache, as the log's format wants it."""
    given, made = _count(counted, "prompt_tokens"), _count(counted, "completion_tokens")
    if not given and not made:
        return None
    details = counted.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else 0
    cached = min(given, cached or _count(counted, "prompt_cache_hit_tokens"))
    return Usage(input_tokens=given - cached, output_tokens=made, cache_read_tokens=cached)


def _count(counted: Body, key: str) -> int:
    value = counted.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value >= 0 else None


PROVIDER: Final = Provider(
    name="openai",
    base_url="https://api.openai.com/v1",
    base_url_variable="OPENAI_BASE_URL",
    url_of="{}/chat/completions".format,
    key_variable="OPENAI_API_KEY",
    key_header=("authorization", "Bearer {}"),
    make_model=_Model,
)
