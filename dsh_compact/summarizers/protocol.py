"""What is asked of a summarizer, how it is set up, and what it gives back.

Values, and one protocol; nothing here knows who summarises.
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from dsh_compact.events import Header, Message, Usage

DEFAULT_TIMEOUT_SECONDS: Final = 300.0
"""For one summary with all its requests: a slow model takes minutes, a hung one for ever."""

DEFAULT_TRIES: Final = 4
"""How often one request is sent at most, where rate limits and server errors refuse it."""

Progress = Callable[[int], None]
"""Told how many estimated tokens of summary came since its last call; in the caller's thread."""


class Request(Struct, frozen=True, kw_only=True):
    """What a summarizer is asked.

    `messages` is the span that will be replaced, in order; `system` what stands before it (the
    system and developer messages at the head of the surface), and `header` the session's newest
    request header: with both a provider's prefix cache is hit. `max_tokens` bounds the summary by
    the estimate of `tokens.price_text`. `instructions` are the user's own wishes.
    `timeout_seconds` bounds the whole of it, None leaves that to the summarizer's options.
    """

    messages: tuple[Message, ...]
    system: tuple[Message, ...] = ()
    header: Header | None = None
    max_tokens: int
    instructions: str = ""
    timeout_seconds: float | None = None


class Summary(Struct, frozen=True, kw_only=True):
    """A summary and who wrote it, as `compaction/summary` records it.

    `usage` is what the provider counted, over all requests that the summary took; `cost_usd` what
    it says that they cost, None where it doesn't say. `requests` is their number. `notices` is what
    a user should see beside it: what a program said on its standard error.
    """

    text: str
    provider: str
    model: str
    usage: Usage | None = None
    cost_usd: float | None = None
    requests: int = 0
    notices: tuple[str, ...] = ()


class Summarizer(Protocol):
    """Writes summaries."""

    @property
    def name(self) -> str:
        """The name by which `load` finds it."""
        ...

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """The summary of a span: plain text, never blank; raises `SummarizerFailed`."""
        ...


class Secret:
    """A key that shows itself to nobody who merely prints it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself, for the request that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


class Options(Struct, frozen=True, kw_only=True):
    """How a summarizer is set up; each takes what it needs and leaves the rest.

    `model` None means the session's own, `base_url` None the provider's own. `key` None means: from
    the environment (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`). `window_tokens` is the window of the
    model that summarises, None where unknown. `command` is a program with its words; a string is
    split as a shell would, but no shell runs. `send_reasoning` gives an OpenAI-compatible endpoint
    the session's reasoning back as `reasoning_content`: some models demand it, others refuse it.
    """

    model: str | None = None
    base_url: str | None = None
    key: Secret | None = None
    window_tokens: int | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    tries: int = DEFAULT_TRIES
    command: str | tuple[str, ...] = ()
    send_reasoning: bool = False
