"""What a measure needs to remember while a log is folded: anchors, refusals, headers, windows.

Pressure = baseline + (surface now − surface at the anchor), FORMAT "Prices". A fold beside the
surface's: `extend` takes every event in order and returns the meter after it. No price is computed
here before `measure` asks for one, so that a message nobody asks about is never decoded. It knows
no file: what is dear (a price, a header) is fetched through the `Book` that is handed in.
"""

from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from msgspec import Struct, structs

from dsh_compact import tokens
from dsh_compact.events import (
    Event,
    Header,
    RequestContext,
    RequestFailed,
    RequestHeader,
    StepStart,
    SurfaceChange,
    Usage,
)
from dsh_compact.surface import Node, Surface

if TYPE_CHECKING:  # a log without refusals never asks for the table of their wordings
    from dsh_compact import overflow

BaselineKind: TypeAlias = Literal["none", "estimated", "usage", "rejected"]

WANTED = frozenset({StepStart, RequestHeader, RequestContext, RequestFailed})
"""The events beside the surface's that a meter looks at."""


MODELS_COMPARED: Final = 8
"""A window takes the place of the same model's, if that is among so many newest: a session speaks
to a few models by turns, and one that speaks to many pays for no more than these at each.
"""

Windows: TypeAlias = "tuple[RequestContext, Windows] | None"
Limits: TypeAlias = "tuple[tuple[RequestHeader | None, int], Limits] | None"
"""What was learnt, the newest first: a longer chain shares all of a shorter one."""


class Book(Protocol):
    """Fetches what a log holds about a node or a header."""

    def price(self, node: Node | SurfaceChange) -> int:
        """Estimated tokens of the node's message."""

    def usage(self, node: Node | SurfaceChange) -> Usage | None:
        """What the provider counted for the answer."""

    def header(self, at: RequestHeader) -> Header:
        """The request header in full."""


class Answer(Struct, frozen=True, kw_only=True):
    """The newest assistant message, and the surface as it stood when its step began."""

    change: SurfaceChange
    surface: Surface
    header: RequestHeader | None


class Refusal(Struct, frozen=True, kw_only=True):
    """The newest failed request, and the surface that it carried."""

    event: RequestFailed
    surface: Surface
    header: RequestHeader | None
    verdict: "overflow.Refusal"

    @property
    def counted_tokens(self) -> int | None:
        """The provider's own count of the refused input; None unless it was an overflow with
        numbers.
        """
        from dsh_compact import overflow

        verdict = self.verdict
        if (
            verdict.code is not overflow.Code.CONTEXT_WINDOW_EXCEEDED
            or verdict.limit_tokens is None
        ):
            return None
        return verdict.requested_tokens if verdict.input_tokens is None else verdict.input_tokens


class Meter(Struct, frozen=True, kw_only=True):
    """The fold's state.

    `contexts` holds the known windows, `limits` what refusals taught: (header at the time, limit in
    tokens). In both the newest counts, of a model and of a header.
    """

    step_surface: Surface | None = None
    header: RequestHeader | None = None
    contexts: Windows = None
    answer: Answer | None = None
    refusal: Refusal | None = None
    limits: Limits = None

    def window_tokens(self, provider: str, model: str) -> int | None:
        """The newest known window of a model."""
        known = _window_of(self.contexts, (provider, model))
        return None if known is None else known.window_tokens

    def extend(self, event: Event, surface: Surface) -> "Meter":
        """The meter after `event`; `surface` is the one that the event found."""
        match event:
            case SurfaceChange(kind=kind):
                if kind != "assistant":
                    return self
                stood = surface if self.step_surface is None else self.step_surface
                answer = Answer(change=event, surface=stood, header=self.header)
                return structs.replace(self, answer=answer, refusal=None)
            case StepStart():
                return structs.replace(self, step_surface=surface)
            case RequestHeader():
                return structs.replace(self, header=event)
            case RequestContext():
                return self._routed(event)
            case RequestFailed():
                return self._refused(event, surface)
            case _:
                return self

    def _routed(self, event: RequestContext) -> "Meter":
        if event.window_tokens is None:  # it takes nothing back
            return self
        return structs.replace(self, contexts=(event, _without(self.contexts, _model(event))))

    def _refused(self, event: RequestFailed, surface: Surface) -> "Meter":
        from dsh_compact import overflow

        verdict = overflow.normalise(event.failure)
        refusal = Refusal(event=event, surface=surface, header=self.header, verdict=verdict)
        limits = self.limits
        if verdict.code is overflow.Code.CONTEXT_WINDOW_EXCEEDED and verdict.limit_tokens:
            if limits is not None and limits[0][0] == self.header:
                limits = limits[1]
            limits = ((self.header, verdict.limit_tokens), limits)
        return structs.replace(self, refusal=refusal, limits=limits)


class Pressure(Struct, frozen=True, kw_only=True):
    """How full the window is, in tokens: `total` = `baseline` + `delta`.

    `context` is what the log says of the current model's window, `limit_tokens` what the provider's
    newest refusal taught about the current model's window.
    """

    kind: BaselineKind
    baseline_tokens: int
    delta_tokens: int
    surface_tokens: int
    nodes: int
    header: Header | None
    header_tokens: int
    context: RequestContext | None
    limit_tokens: int | None

    @property
    def total_tokens(self) -> int:
        """What the next request will have, as well as we know."""
        return self.baseline_tokens + self.delta_tokens


def measure(meter: Meter, surface: Surface, book: Book) -> Pressure:
    """The pressure on `surface`, which `meter` has followed."""
    header = None if meter.header is None else book.header(meter.header)
    header_tokens = tokens.price_header(header)
    now = surface_tokens(surface, book)
    kind, baseline, anchored = _baseline(meter, header, header_tokens, now, book)
    return Pressure(
        kind=kind,
        baseline_tokens=baseline,
        delta_tokens=now - anchored,
        surface_tokens=now,
        nodes=len(surface),
        header=header,
        header_tokens=header_tokens,
        context=_context(meter, header),
        limit_tokens=_limit(meter, header, book),
    )


def surface_tokens(surface: Surface, book: Book) -> int:
    """Estimated tokens of everything on the surface, without the request header."""
    return sum(map(book.price, surface))


def _baseline(
    meter: Meter, header: Header | None, header_tokens: int, now: int, book: Book
) -> tuple[BaselineKind, int, int]:
    """The baseline's kind, its tokens, and the surface's tokens at the anchor."""
    refusal, answer = meter.refusal, meter.answer
    if refusal is not None and _same(refusal.header, header, book):
        counted = refusal.counted_tokens
        if counted is not None:
            return "rejected", counted, surface_tokens(refusal.surface, book)
    if answer is None or not _same(answer.header, header, book):
        total = header_tokens + now
        return ("estimated" if total else "none"), total, now
    anchored = surface_tokens(answer.surface, book) + book.price(answer.change)
    usage = book.usage(answer.change)
    if usage is not None and usage.total_tokens >= header_tokens + anchored:
        return "usage", usage.total_tokens, anchored
    return "estimated", header_tokens + anchored, anchored


def _same(then: RequestHeader | None, header: Header | None, book: Book) -> bool:
    if then is None or header is None:
        return then is None and header is None
    return book.header(then).identity == header.identity


def _context(meter: Meter, header: Header | None) -> RequestContext | None:
    """The window of the header's provider and model; a router may have sent it elsewhere."""
    if meter.contexts is None:
        return None
    newest, _ = meter.contexts
    if meter.header is None or header is None:
        return newest
    known = _window_of(meter.contexts, _model(header))
    if known is not None:
        return known
    return newest if newest.seq > meter.header.seq else None


def _window_of(chain: Windows, model: tuple[str, str]) -> RequestContext | None:
    while chain is not None:
        context, chain = chain
        if _model(context) == model:
            return context
    return None


def _without(chain: Windows, model: tuple[str, str]) -> Windows:
    """The chain without that model's window, if it is near its beginning."""
    newer: list[RequestContext] = []
    rest = chain
    while rest is not None and len(newer) < MODELS_COMPARED:
        context, rest = rest
        if _model(context) == model:
            for one in reversed(newer):
                rest = (one, rest)
            return rest
        newer.append(context)
    return chain


def _model(named: Header | RequestContext) -> tuple[str, str]:
    return named.provider, named.model


def _limit(meter: Meter, header: Header | None, book: Book) -> int | None:
    """The newest limit that a refusal named for this provider and model."""
    limits = meter.limits
    while limits is not None:
        (at, limit), limits = limits
        taught = None if at is None else book.header(at)
        if taught is None or header is None:
            if taught is header:
                return limit
        elif _model(taught) == _model(header):
            return limit
    return None
