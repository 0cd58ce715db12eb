"""Summaries: what is asked of a summarizer, what it gives back, and how one is found by its name.

Rule: a summarizer reads a span and returns text; it never touches a log, and nobody believes that
it helped because it says so (the workbench prices its text against what it is to replace). Only
the `extractive` one works offline and is always there; the others are imported when they are asked
for, and their keys appear in no error, no log and no representation.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from dsh_compact.events import Header, Message, Usage
from dsh_compact.summarizers.errors import (
    SummarizerFailed,
    SummarizerNotReady,
    UnknownSummarizer,
)

__all__ = [
    "NAMES",
    "Options",
    "Progress",
    "Request",
    "Secret",
    "Summarizer",
    "SummarizerFailed",
    "SummarizerNotReady",
    "Summary",
    "UnknownSummarizer",
    "load",
]

NAMES: Final = ("extractive", "openai", "anthropic", "command")
"""Every name that `load` knows; the first works on any machine, without a network."""

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


def load(
    name: str, options: Options | None = None, environment: Mapping[str, str] | None = None
) -> Summarizer:
    """The summarizer called `name`, one of `NAMES`, set up with `options`.

    `environment` stands in for the process's own. Raises `UnknownSummarizer`, and
    `SummarizerNotReady` where a key, a program or a package is missing.
    """
    options = options or Options()
    environment = os.environ if environment is None else environment
    match name:
        case "extractive":
            from dsh_compact.summarizers.extract import Extractive

            return Extractive()
        case "openai":
            from dsh_compact.summarizers import openai

            return openai.load(options, environment)
        case "anthropic":
            from dsh_compact.summarizers import anthropic

            return anthropic.load(options, environment)
        case "command":
            from dsh_compact.summarizers import command

            return command.load(options)
        case _:
            raise UnknownSummarizer(name, NAMES)
