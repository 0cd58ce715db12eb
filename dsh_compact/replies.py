"""What a model answered, out of OpenAI's or Anthropic's shape: text, calls, and what it counted.

The other direction is `export`'s. Rule: nothing that the model said is guessed at. Arguments stay
the JSON that it wrote, right or wrong; a block that we have no word for is left out; counts that
are not told stay unknown. Pure: it takes a client's own object or the JSON that came over the wire.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from msgspec import Struct

from dsh_compact.codec import wire
from dsh_compact.errors import DshcError
from dsh_compact.events import Block, Reasoning, Text, ToolCall, Usage


class Reply(Struct, frozen=True, kw_only=True):
    """One answer of a model.

    `calls` are in the model's order. `usage` is None where the provider did not count. `is_cut` is
    true where the answer ended at its token limit and not of itself.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    usage: Usage | None = None
    is_cut: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The answer as a message's content, in the order of the harness."""
        thought = (Reasoning(text=self.reasoning),) if self.reasoning else ()
        said = (Text(text=self.text),) if self.text else ()
        return (*thought, *said, *self.calls)

    @classmethod
    def from_openai(cls, completion: "Body") -> Self:
        """A chat completion, of OpenAI or whoever speaks like it; raises `NoReply`."""
        body = _plain(completion, "chat completion")
        choices = _listed(body.get("choices"))
        if not choices:
            raise NoReply("chat completion", "there are no choices")
        message = _mapping(choices[0].get("message"))
        return cls(
            text=_text(message.get("content")),
            calls=tuple(_openai_call(call) for call in _listed(message.get("tool_calls"))),
            reasoning=_text(message.get("reasoning_content")),
            usage=_openai_usage(_mapping(body.get("usage"))),
            is_cut=choices[0].get("finish_reason") == "length",
        )

    @classmethod
    def from_anthropic(cls, message: "Body") -> Self:
        """A message as Anthropic's API answers with it; raises `NoReply`."""
        body = _plain(message, "message")
        if not isinstance(body.get("content"), list):
            raise NoReply("message", "there is no content")
        blocks = _listed(body["content"])
        thoughts = (one.get("thinking") for one in blocks if one.get("type") == "thinking")
        return cls(
            text=_text(blocks),
            calls=tuple(_anthropic_call(one) for one in blocks if one.get("type") == "tool_use"),
            reasoning=_joined(thoughts),
            usage=_anthropic_usage(_mapping(body.get("usage"))),
            is_cut=body.get("stop_reason") == "max_tokens",
        )


class NoReply(DshcError):
    """What the endpoint sent is no answer of a model."""

    exit_code = 5

    def __init__(self, shape: str, problem: str) -> None:
        super().__init__(shape, problem)
        self.shape = shape
        self.problem = problem

    def __str__(self) -> str:
        """`the endpoint's answer is no chat completion: there are no choices`."""
        return f"the endpoint's answer is no {self.shape}: {self.problem}"


@runtime_checkable
class Dumps(Protocol):
    """An object of an official client (they are pydantic's)."""

    def model_dump(self) -> dict[str, Any]:
        """The object as plain values."""
        ...


Body: TypeAlias = Mapping[str, Any] | Dumps
"""A response's JSON, or the client's object for it."""


# Calls and counts ---------------------------------------------------------------------------------


def _openai_call(call: Mapping[str, Any]) -> ToolCall:
    function = _mapping(call.get("function"))
    return ToolCall(
        id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        arguments=_arguments(function.get("arguments")),
    )


def _anthropic_call(block: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        id=str(block.get("id") or ""),
        name=str(block.get("name") or ""),
        arguments=_arguments(block.get("input")),
    )


def _arguments(value: Any) -> str:
    """The arguments as JSON; a server that parsed them already gets them written again."""
    if value is None:
        return "{}"
    return value if isinstance(value, str) else wire.dump(value).decode()


def _openai_usage(usage: Mapping[str, Any]) -> Usage | None:
    """Their count of the prompt includes what was cached; DeepSeek has a name of its own for it."""
    prompt, made = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(made, int):
        return None
    cached = _mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    read = _count(usage.get("prompt_cache_hit_tokens") if cached is None else cached)
    return Usage(
        input_tokens=max(0, prompt - read), output_tokens=made, cache_read_tokens=min(prompt, read)
    )


def _anthropic_usage(usage: Mapping[str, Any]) -> Usage | None:
    """Here what was cached is counted beside the input."""
    given, made = usage.get("input_tokens"), usage.get("output_tokens")
    if not isinstance(given, int) or not isinstance(made, int):
        return None
    return Usage(
        input_tokens=given,
        output_tokens=made,
        cache_read_tokens=_count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=_count(usage.get("cache_creation_input_tokens")),
    )


# Any JSON -----------------------------------------------------------------------------------------


def _plain(body: Body, shape: str) -> Mapping[str, Any]:
    plain = body.model_dump() if isinstance(body, Dumps) else body
    if not isinstance(plain, Mapping):
        raise NoReply(shape, "it is no JSON object")
    return plain


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Mapping[str, Any]]:
    listed = value if isinstance(value, list) else []
    return [one for one in listed if isinstance(one, Mapping)]


def _text(content: Any) -> str:
    """Plain text, whether it came as a string or in parts."""
    if isinstance(content, str):
        return content
    return _joined(one.get("text") for one in _listed(content) if one.get("type") == "text")


def _joined(texts: Iterable[Any]) -> str:
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
