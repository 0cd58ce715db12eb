"""Any OpenAI-compatible chat endpoint as a summarizer.

Where endpoints differ, the one that complains is asked again in its own dialect: newer OpenAI
models want `max_completion_tokens`, some servers know no `stream_options`. Neither costs anything.
"""

from collections.abc import Callable
from typing import Any, Final

from dsh_compact.events import Usage
from dsh_compact.export import to_openai
from dsh_compact.summarizers.models.asking import Answer, Prompt
from dsh_compact.summarizers.models.http import Endpoint, Patience, Read, Refused, failed, send
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
        read = reader(self._endpoint, heard, _piece, _ENDS)
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

_ENDS: Final = Ends(
    done=frozenset({"stop", "eos", "end_turn"}),
    cut=frozenset({"length", "max_tokens", "model_length"}),
)


def _piece(endpoint: Endpoint, one: Body) -> Piece:
    """What a chunk of a stream says, or the whole completion."""
    choices = [as_object(choice) for choice in as_list(one.get("choices"))]
    reasons = [as_word(choice.get("finish_reason")) for choice in choices]
    return Piece(
        text="".join(_text(endpoint, choice) for choice in choices),
        counted=as_object(one.get("usage")),
        stopped=next(filter(None, reversed(reasons)), ""),
        is_over=one.get("done") is True,
    )


def _text(endpoint: Endpoint, choice: Body) -> str:
    part = as_object(choice.get("delta") or choice.get("message"))
    if part.get("tool_calls") or part.get("function_call"):
        raise endpoint.failed(CALLED_TOOL)
    if part.get("images") or part.get("audio"):
        raise endpoint.failed(NOT_TEXT)
    if refusal := as_word(part.get("refusal")):
        raise endpoint.failed(f"the model refused to summarise: {endpoint.redacted(refusal)}")
    content = part.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    if not all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in parts):
        raise endpoint.failed(NOT_TEXT)
    return "".join(one["text"] for one in parts)


def _answer(read: Read, endpoint: Endpoint) -> Answer:
    return Answer(
        text=endpoint.without_key(read.text),
        usage=_usage(read.counted),
        cost_usd=_number(read.counted.get("cost")),
    )


def _usage(counted: Body) -> Usage | None:
    """Prompt tokens without those from the cache, as the log's format wants it."""
    given = as_count(counted.get("prompt_tokens"))
    made = as_count(counted.get("completion_tokens"))
    if not given and not made:
        return None
    details = as_object(counted.get("prompt_tokens_details"))
    hits = details.get("cached_tokens") or counted.get("prompt_cache_hit_tokens")
    cached = min(given, as_count(hits))
    return Usage(input_tokens=given - cached, output_tokens=made, cache_read_tokens=cached)


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
