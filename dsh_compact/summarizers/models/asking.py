"""How any model is asked for a summary: whole if it fits, otherwise in parts that are merged.

Rule: first comes the conversation as its own requests had it (system prompt, tools, messages), last
the instruction, so that the provider finds the beginning in its cache. A request that is too long,
by a window we know or by the provider's refusal, is never sent again as it was: the refusal teaches
the window and how many tokens the provider counts for one of ours, and the span goes in parts.

What speaks to a provider is a `Model`; this module knows no HTTP. Every loop ends: requests are
counted, parts shrink, and time runs out.
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from dsh_compact.events import Header, Message, Text, Usage
from dsh_compact.overflow import Refusal
from dsh_compact.summarizers.errors import SummarizerFailed
from dsh_compact.summarizers.extract.checkpoints import outline_of
from dsh_compact.summarizers.extract.language import phrases_for
from dsh_compact.summarizers.extract.layout import layout
from dsh_compact.summarizers.models import instruction
from dsh_compact.summarizers.models.parts import Place, cut, is_end, units
from dsh_compact.summarizers.protocol import Options, Progress, Request, Summary
from dsh_compact.tokens import price_header, price_message, price_text

MOST_REQUESTS: Final = 64
"""For one summary; a span of sixty windows is better folded by parts of its own."""

LEAST_PART_TOKENS: Final = 256
"""In a smaller part there is no conversation left to summarise."""

LEAST_SLACK_TOKENS: Final = 2_048
"""What a model may write beyond the summary's bound: its reasoning, and scripts that take more
tokens than we estimate. The instruction keeps the summary short, this only ends a runaway."""

MOST_OUTPUT_SHARE: Final = 4
"""Of a known window at most the fourth part is reserved for what the model writes."""

MARGIN: Final = 0.95
"""Of the room that a refusal leaves: its numbers and ours are counted differently."""

SHRINK: Final = 0.5
"""How much smaller a request becomes that was refused without numbers."""


class Prompt(Struct, frozen=True, kw_only=True):
    """One request to a model; `max_tokens` bounds what it writes, in its own tokens."""

    model: str
    messages: tuple[Message, ...]
    header: Header | None
    instruction: str
    max_tokens: int


class Answer(Struct, frozen=True, kw_only=True):
    """What a model wrote, whole, and what the provider counted and charged."""

    text: str
    usage: Usage | None = None
    cost_usd: float | None = None


class TooLong(Exception):
    """The provider refused a request for its length; never leaves this package."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class Model(Protocol):
    """One provider's way of being asked."""

    @property
    def name(self) -> str:
        """The summarizer's name, for errors and for the record."""
        ...

    def ask(self, prompt: Prompt, heard: Callable[[str], None]) -> Answer:
        """Sends one request; `heard` is told the text as it comes.

        Raises `TooLong`, and `SummarizerFailed` for whatever else gave no whole text.
        """
        ...


def summarise(
    model: Model,
    request: Request,
    options: Options,
    window_of: Callable[[str], int | None],
    progress: Progress | None,
) -> Summary:
    """The summary of a span by a model; `window_of` knows the windows of well-known ones.

    Raises `SummarizerFailed`.
    """
    name = options.model or (request.header.model if request.header is not None else "")
    if not name:
        raise SummarizerFailed(
            model.name, "the log names no model to ask", "name one (summarizer_model)"
        )
    if request.max_tokens < 1:
        raise SummarizerFailed(model.name, f"{request.max_tokens} tokens hold no summary")
    window = options.window_tokens or window_of(name)
    asking = _Asking(model, name, request, window, _Counter(progress))
    text = bounded(asking.summary(), request.max_tokens)
    return Summary(
        text=text,
        provider=model.name,
        model=name,
        usage=asking.usage,
        cost_usd=asking.cost_usd,
        requests=asking.requests,
    )


def bounded(text: str, max_tokens: int) -> str:
    """The text, or where the model overdid it, as much of its sections as the bound holds."""
    if price_text(text) <= max_tokens:
        return text
    return layout(outline_of(text), phrases_for([text]), max_tokens)


class _Counter:
    """Tells how many estimated tokens have come, as text comes in pieces."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._quarters = 0

    def hear(self, text: str) -> None:
        if self._progress is None:
            return
        before = self._quarters // 4
        self._quarters += len(text)
        if self._quarters // 4 > before:
            self._progress(self._quarters // 4 - before)


class _Asking:
    """One summary in the making: what it has cost, and what refusals have taught."""

    def __init__(
        self, model: Model, name: str, request: Request, window: int | None, counter: _Counter
    ) -> None:
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.requests = 0
        self._model, self._name, self._request = model, name, request
        self._window = window
        self._counter = counter
        self._scale = 1.0  # the provider's tokens for one of ours
        self._ceiling: float | None = None  # ours: a request of more was refused
        self._output: int | None = None  # the provider's: more was refused

    def summary(self) -> str:
        """The whole span at once, or in parts."""
        request = self._request
        messages = (*request.system, *request.messages)
        told = instruction.for_span(request.max_tokens, request.instructions)
        tokens = self._price(messages, request.header, told)
        while self._fits(tokens):
            try:
                return self._ask(messages, request.header, told)
            except TooLong as fault:
                self._learn(fault.refusal, tokens)
        return self._merged(self._parts())

    # Parts --------------------------------------------------------------------------------------

    def _parts(self) -> list[str]:
        """A checkpoint of every part, in order; a part that is refused is cut again, smaller."""
        span, at = units(self._request.messages), Place(0)
        texts: list[str] = []
        while not is_end(span, at):
            told = instruction.for_part(
                len(texts) + 1, self._request.max_tokens, self._request.instructions
            )
            part, after = cut(span, at, self._room(told))
            if self._told(part, told, texts):
                at = after
        return texts

    def _merged(self, texts: list[str]) -> str:
        """One checkpoint of several: as many at a time as fit, until one is left."""
        told = instruction.for_merge(self._request.max_tokens, self._request.instructions)
        while len(texts) > 1:
            merged: list[str] = []
            rest = texts
            while rest:
                count = self._how_many(rest, self._room(told))
                if count == 1 and len(rest) == len(texts) > 1:
                    raise self._failed("two checkpoints of parts don't fit into one request")
                if count == 1 or self._told(_numbered(rest[:count]), told, merged):
                    merged += rest[:count] if count == 1 else []
                    rest = rest[count:]
            texts = merged
        return texts[0]

    def _how_many(self, texts: list[str], room: int) -> int:
        for count in range(len(texts), 1, -1):
            if price_text(_numbered(texts[:count])) <= room:
                return count
        return 1

    def _told(self, words: str, told: str, texts: list[str]) -> bool:
        """Whether the answer was added to `texts`; if not, the refusal taught us a smaller room."""
        messages = (Message(role="user", content=(Text(text=f"{words}\n\n{told}"),)),)
        try:
            texts.append(self._ask(messages, None, ""))
        except TooLong as fault:
            self._learn(fault.refusal, self._price(messages, None, ""))
            return False
        return True

    # One request --------------------------------------------------------------------------------

    def _ask(self, messages: tuple[Message, ...], header: Header | None, told: str) -> str:
        if self.requests >= MOST_REQUESTS:
            raise self._failed(f"{MOST_REQUESTS} requests gave no summary")
        self.requests += 1
        answer = self._model.ask(
            Prompt(
                model=self._name,
                messages=messages,
                header=header,
                instruction=told,
                max_tokens=self._output_tokens(),
            ),
            self._counter.hear,
        )
        self.usage = _sum_usage(self.usage, answer.usage)
        if answer.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + answer.cost_usd
        text = answer.text.strip()
        if not text:
            raise self._failed("the model's summary is empty")
        return text

    def _output_tokens(self) -> int:
        bound = self._request.max_tokens
        wanted = max(2 * bound, bound + LEAST_SLACK_TOKENS)
        if self._window is not None:
            share = max(self._window // MOST_OUTPUT_SHARE, min(bound, self._window // 2))
            wanted = min(wanted, share)
        return wanted if self._output is None else min(wanted, self._output)

    # What fits ----------------------------------------------------------------------------------

    def _price(self, messages: tuple[Message, ...], header: Header | None, told: str) -> int:
        return sum(map(price_message, messages)) + price_header(header) + price_text(told)

    def _fits(self, tokens: int) -> bool:
        most = self._most()
        return most is None or tokens <= most

    def _most(self) -> float | None:
        """How many of our tokens a request may have; None where nobody knows."""
        known = [] if self._ceiling is None else [self._ceiling]
        if self._window is not None:
            known.append((self._window - self._output_tokens()) / self._scale)
        return min(known, default=None)

    def _room(self, told: str) -> int:
        """How many of our tokens a part's words may have."""
        most = self._most()
        assert most is not None, "nothing goes in parts before a window is known"
        room = int(most * MARGIN) - price_text(told) - price_message(_EMPTY)
        if room < LEAST_PART_TOKENS:
            raise self._failed("its window has no room for any part of the conversation")
        return room

    def _learn(self, refusal: Refusal, tokens: int) -> None:
        """A refused request of `tokens`, by our count: next time it is smaller in any case."""
        reserved = self._output_tokens()
        if refusal.limit_tokens is not None:
            self._window = min(self._window or refusal.limit_tokens, refusal.limit_tokens)
        if self._may_write_less(refusal, reserved):
            return
        counted = refusal.input_tokens or refusal.requested_tokens
        if counted is not None and refusal.limit_tokens is not None:
            self._scale = max(self._scale, counted / max(1, tokens))
            self._ceiling = min(self._ceiling or tokens, tokens * MARGIN)
        else:
            self._ceiling = min(self._ceiling or tokens, tokens * SHRINK)

    def _may_write_less(self, refusal: Refusal, reserved: int) -> bool:
        """Whether the request fits as it is, once less room is reserved for the answer."""
        if refusal.limit_tokens is None or refusal.input_tokens is None:
            return False
        left = int((refusal.limit_tokens - refusal.input_tokens) * MARGIN)
        if not self._request.max_tokens <= left < reserved:
            return False
        self._output = left
        return True

    def _failed(self, problem: str) -> SummarizerFailed:
        return SummarizerFailed(self._model.name, problem)


_EMPTY: Final = Message(role="user", content=(Text(text=""),))


def _numbered(texts: list[str]) -> str:
    return "\n\n".join(
        f"<checkpoint part={index}>\n{text}\n</checkpoint>" for index, text in enumerate(texts, 1)
    )


def _sum_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
    )
