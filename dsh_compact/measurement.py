"""How full a session's window is, in the words that users see: window, threshold, parts, counts.

`meter` computes what the conversation has; this module adds what the window allows, and where each
figure comes from. Every token count is the harness's estimate unless its name says otherwise.
Values in, values out: it reads nodes through the session, and knows no terminal and no
configuration.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from dsh_compact import catalog, planning, tokens
from dsh_compact.meter import BaselineKind, Pressure
from dsh_compact.policy import DEFAULT, Budgets, Policy, budgets
from dsh_compact.session import Session
from dsh_compact.surface import Node
from dsh_compact.tokenizers import Progress, Tokenizer

WindowSource: TypeAlias = Literal["flag", "provider", "log", "catalog"]

SLICE_TOKENS = 1_000_000
"""By the estimate, what is in memory at once while it is counted exactly: 4 MB of text, and enough
to keep every thread busy."""


class Window(Struct, frozen=True, kw_only=True):
    """How many tokens a request may have, and who says so; both None where nobody does."""

    tokens: int | None = None
    source: WindowSource | None = None


class Baseline(Struct, frozen=True, kw_only=True):
    """The newest total that is known: `usage` and `rejected` are a provider's counts."""

    kind: BaselineKind
    tokens: int


class SurfaceSize(Struct, frozen=True, kw_only=True):
    """The conversation as the model sees it, estimated."""

    nodes: int
    tokens: int


class ExactCount(Struct, frozen=True, kw_only=True):
    """What a real tokenizer counts, in tokens.

    `estimate_error` is how far the estimate of the surface is off, as a part of the exact count:
    0.25 is a quarter too much; None where there is nothing to count.
    """

    name: str
    surface_tokens: int
    header_tokens: int
    estimate_error: float | None


class Measurement(Struct, frozen=True, kw_only=True):
    """One log's pressure. `total_tokens` = `baseline.tokens` + `delta_tokens`.

    `system_tokens`, `tools_tokens`, `conversation_tokens` are what a request is made of, by the
    estimate, and `tail_tokens` the part of the conversation that a compaction would leave as it is.
    Where the window is unknown, everything that depends on it is None. `reserved_tokens` is what
    the newest request header reserves for the answer; `ignored_reservation_tokens` is that number
    where it would leave nothing of the window and is not believed.
    """

    log: str
    format: int
    session_id: str
    events: int
    generation: int
    provider: str | None
    model: str | None
    window_tokens: int | None
    window_source: WindowSource | None
    baseline: Baseline
    delta_tokens: int
    total_tokens: int
    surface: SurfaceSize
    header_tokens: int
    system_tokens: int
    tools_tokens: int
    conversation_tokens: int
    tail_tokens: int | None
    threshold_tokens: int | None
    retain_tokens: int | None
    reserved_tokens: int | None
    ignored_reservation_tokens: int | None
    pressure: float | None
    over_threshold: bool | None
    tokenizer: ExactCount | None = None


def window_of(pressure: Pressure, configured_tokens: int | None = None) -> Window:
    """The window of the current model: configured, else by refusal, log, or catalogue.

    A refusal's limit caps what the log says: the smaller of both is the window.
    """
    if configured_tokens is not None:
        return Window(tokens=configured_tokens, source="flag")
    limit = pressure.limit_tokens
    told = pressure.context.window_tokens if pressure.context is not None else None
    if limit is not None and (told is None or limit <= told):
        return Window(tokens=limit, source="provider")
    if told is not None:
        return Window(tokens=told, source="log")
    known = pressure.header and catalog.window_tokens(pressure.header.model)
    return Window(tokens=known, source="catalog") if known else Window()


def measure(
    session: Session,
    policy: Policy = DEFAULT,
    *,
    tokenizer: Tokenizer | None = None,
    progress: Progress | None = None,
) -> Measurement:
    """The pressure on `session` under `policy`, whose `window_tokens`, if any, is the window.

    With `tokenizer` everything that the model sees is counted exactly too; `progress` is told the
    characters done. Raises `DamagedLog` where a message cannot be read.
    """
    pressure = session.pressure()
    header = pressure.header
    window = window_of(pressure, policy.window_tokens)
    reserved = None if header is None else header.max_tokens
    allowed = None if window.tokens is None else budgets(policy, window.tokens, reserved)
    prompts = _prompt_tokens(session)
    return Measurement(
        log=session.path,
        format=session.format,
        session_id=session.header.id,
        events=session.events,
        generation=session.replace_generation,
        provider=None if header is None else header.provider,
        model=None if header is None else header.model,
        window_tokens=window.tokens,
        window_source=window.source,
        baseline=Baseline(kind=pressure.kind, tokens=pressure.baseline_tokens),
        delta_tokens=pressure.delta_tokens,
        total_tokens=pressure.total_tokens,
        surface=SurfaceSize(nodes=pressure.nodes, tokens=pressure.surface_tokens),
        header_tokens=pressure.header_tokens,
        system_tokens=prompts + (0 if header is None else tokens.system_tokens(header)),
        tools_tokens=0 if header is None else tokens.tools_tokens(header),
        conversation_tokens=pressure.surface_tokens - prompts,
        tail_tokens=None if allowed is None else _tail_tokens(session, allowed),
        threshold_tokens=None if allowed is None else allowed.threshold_tokens,
        retain_tokens=None if allowed is None else allowed.retain_tokens,
        reserved_tokens=reserved,
        ignored_reservation_tokens=None if allowed is None else allowed.ignored_reservation_tokens,
        pressure=pressure.total_tokens / window.tokens if window.tokens else None,
        over_threshold=None if allowed is None else _is_over(pressure, allowed),
        tokenizer=None
        if tokenizer is None
        else count_exactly(session, pressure, tokenizer, progress),
    )


def count_exactly(
    session: Session,
    pressure: Pressure,
    tokenizer: Tokenizer,
    progress: Progress | None = None,
) -> ExactCount:
    """What the model sees, counted by `tokenizer`; a few messages are in memory at a time."""
    from dsh_compact.tokenizers.conversation import header_pieces, pieces
    from dsh_compact.tokenizers.framing import count_request, estimate_error

    counted = 0
    for nodes in _slices(session):
        messages = [pieces(session.message(node)) for node in nodes]
        counted += count_request(messages, (), tokenizer, progress).surface_tokens
    header = count_request((), header_pieces(pressure.header), tokenizer, progress)
    return ExactCount(
        name=tokenizer.name,
        surface_tokens=counted,
        header_tokens=header.header_tokens,
        estimate_error=estimate_error(pressure.surface_tokens, counted),
    )


def _slices(session: Session) -> Iterator[list[Node]]:
    """The surface's nodes in order, some at a time."""
    taken, size_tokens = list[Node](), 0
    for node in session.surface:
        taken.append(node)
        size_tokens += session.price(node)
        if size_tokens >= SLICE_TOKENS:
            yield taken
            taken, size_tokens = [], 0
    if taken:
        yield taken


def _is_over(pressure: Pressure, allowed: Budgets) -> bool:
    """At the threshold or above it, as the pressure path decides."""
    return pressure.total_tokens >= allowed.threshold_tokens


def _prompt_tokens(session: Session) -> int:
    """The system prompt as formats 3 and 4 keep it: messages of the surface."""
    return sum(session.price(node) for node in session.surface if _is_prompt(node))


def _is_prompt(node: Node) -> bool:
    return node.kind in ("system", "developer")


def _tail_tokens(session: Session, allowed: Budgets) -> int:
    items = [one for one in session.items() if one.kind not in ("system", "developer")]
    kept = planning.tail_seqs(items, allowed.retain_tokens)
    return sum(one.tokens for one in items if one.seq in kept)
