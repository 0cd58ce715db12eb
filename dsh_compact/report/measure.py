"""Measurements as text: one log as a bar of its window, many as a table.

Rule: a figure never stands without its kind. What the harness's arithmetic gives is `estimated`,
what a provider counted is `counted`, what a tokenizer counts is `exact`.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from dsh_compact.measurement import Measurement, WindowSource
from dsh_compact.meter import BaselineKind
from dsh_compact.report.table import Cell, Column, Styled, table
from dsh_compact.report.terminal import Style, clip, end_of, fold, safe, styled
from dsh_compact.words import counted

PLAIN_WIDTH: Final = 80
LABEL_CELLS: Final = 11
LONGEST_BAR: Final = 100
SHORTEST_BAR: Final = 20
"""Cells of the bar: beyond the longest nothing gets clearer, below the shortest nothing is seen."""

NUMBER_CELLS: Final = 12
BESIDE_NUMBER_CELLS: Final = 31
"""On a part's line: where there is room the numbers stand as far as that from the names."""

MARK: Final = "┃"
"""Where the threshold lies on the bar."""

FREE: Final[tuple[str, Style]] = ("·", "dim")
"""What nothing fills."""

LONGEST_NAME: Final = 120
"""Characters of a model's name that are looked at: it is foreign text."""

_BASELINES: Final[dict[BaselineKind, str]] = {
    "none": "nothing to send yet",
    "estimated": "estimated",
    "usage": "counted by the provider for the last answer",
    "rejected": "counted by the provider for the request that it refused",
}

_SOURCES: Final[dict[WindowSource, str]] = {
    "flag": "as you say",
    "provider": "as the provider's refusal says",
    "log": "as the log says",
    "catalog": "as the catalogue of well-known models says",
}


class Failed(Struct, frozen=True, kw_only=True):
    """A log that could not be measured, and the sentence that says why."""

    log: str
    error: str


Outcome: TypeAlias = Measurement | Failed


class Part(NamedTuple):
    """A stretch of the bar."""

    name: str
    tokens: int
    glyph: str
    style: Style


# One log ------------------------------------------------------------------------------------------


def text(measured: Measurement, *, width: int | None = None, color: bool = False) -> str:
    """One measurement as paragraphs: whose it is, the bar, its parts, how the total came about."""
    lines = _title(measured, width)
    if measured.window_tokens:
        bar = _bar(measured, width or PLAIN_WIDTH, color=color)
        verdict = f"  {_verdict(measured)}"
        style: Style = "red" if measured.over_threshold else "bold"
        lines += ["", f"  {bar}", styled(verdict, style, color=color)]
    lines += ["", *_parts(measured, width, color=color), ""]
    facts = _facts(measured)
    return "\n".join([*lines, *(fold(one, width, LABEL_CELLS) if width else one for one in facts)])


def _title(measured: Measurement, width: int | None) -> list[str]:
    words = [f"format {measured.format}", counted(measured.events, "event")]
    words.append(f"generation {measured.generation}")
    if measured.model is not None:
        words.append(_cut(safe(model_of(measured), LONGEST_NAME), width and width - 2))
    return [safe(measured.log), " · ".join(words)]


def _cut(line: str, width: int | None) -> str:
    return line if width is None else clip(line, width)


def model_of(measured: Measurement) -> str:
    """`provider/model` as the log names them: foreign text."""
    return "/".join(filter(None, (measured.provider, measured.model)))


def _stretches(measured: Measurement) -> list[Part]:
    """What fills the window, in the order of the request."""
    tail = min(measured.tail_tokens or 0, measured.conversation_tokens)
    return [
        Part("system", measured.system_tokens, "█", "cyan"),
        Part("tools", measured.tools_tokens, "▓", "cyan"),
        Part("conversation", measured.conversation_tokens - tail, "▒", "yellow"),
        Part("tail to be kept", tail, "░", "green"),
    ]


def _bar(measured: Measurement, width: int, *, color: bool) -> str:
    """The window from left to right; the parts are drawn to the scale of the total."""
    window = measured.window_tokens
    assert window
    length = max(SHORTEST_BAR, min(LONGEST_BAR, width - 2))
    most = max(window, measured.total_tokens)
    stretches = _stretches(measured)
    estimated = sum(part.tokens for part in stretches) or 1
    drawn: list[tuple[str, Style]] = []
    reached = 0
    for part in stretches:
        reached += part.tokens
        end = round(reached / estimated * measured.total_tokens / most * length)
        drawn += [(part.glyph, part.style)] * (end - len(drawn))
    drawn += [FREE] * (length - len(drawn))
    if measured.threshold_tokens is not None:
        at = min(length - 1, round(measured.threshold_tokens / most * length))
        drawn[at] = (MARK, "red" if measured.over_threshold else "bold")
    runs = ((cell, len([*run])) for cell, run in groupby(drawn))
    return "".join(styled(glyph * count, style, color=color) for (glyph, style), count in runs)


def _verdict(measured: Measurement) -> str:
    window, threshold = measured.window_tokens, measured.threshold_tokens
    assert window
    assert threshold is not None
    assert measured.pressure is not None
    total = f"{measured.total_tokens:,} of {window:,} tokens, {measured.pressure:.1%}"
    if measured.over_threshold:
        return f"{total}: over the threshold of {threshold:,}"
    left = threshold - measured.total_tokens
    return f"{total}: {left:,} below the threshold of {threshold:,}"


def _parts(measured: Measurement, width: int | None, *, color: bool) -> list[str]:
    lines = [
        _part(part, "estimated", width, color=color)
        for part in _stretches(measured)
        if part.tokens or part.name == "conversation"
    ]
    if measured.window_tokens:
        free = measured.window_tokens - measured.total_tokens
        rest = Part("free" if free >= 0 else "too much", abs(free), *FREE)
        lines.append(_part(rest, _kind(measured), width, color=color))
    return lines


def _part(part: Part, kind: str, width: int | None, *, color: bool) -> str:
    glyph = styled(part.glyph, part.style, color=color)
    room = NUMBER_CELLS if width is None else min(NUMBER_CELLS, width - BESIDE_NUMBER_CELLS)
    facts = f"{part.name:<16}{f'{part.tokens:,}'.rjust(room)}  {kind}"
    return f"  {glyph} {_cut(facts, width and width - 4)}"


def _kind(measured: Measurement) -> str:
    return "counted" if measured.baseline.kind in ("usage", "rejected") else "estimated"


def _facts(measured: Measurement) -> list[str]:
    baseline = measured.baseline
    lines = [f"baseline   {baseline.tokens:,}, {_BASELINES[baseline.kind]}"]
    if measured.delta_tokens:
        change = "added" if measured.delta_tokens > 0 else "gone"
        lines.append(f"since then {measured.delta_tokens:+,}, estimated: {change} on the surface")
    messages = counted(measured.surface.nodes, "message")
    lines.append(
        f"surface    {measured.surface.tokens:,} in {messages},"
        f" estimated; header {measured.header_tokens:,}, estimated"
    )
    if exact := measured.tokenizer:
        lines.append(
            f"exact      {exact.surface_tokens:,} on the surface by {exact.name}"
            f"{_error(exact.estimate_error)}; header {exact.header_tokens:,}"
        )
    if measured.window_source is None:
        lines.append('window     unknown: no threshold; name it with "--window"')
    else:
        lines.append(f"window     {measured.window_tokens:,}, {_SOURCES[measured.window_source]}")
    return lines


def _error(estimate_error: float | None) -> str:
    if estimate_error is None:
        return ""
    way = "above" if estimate_error >= 0 else "below"
    return f", the estimate is {abs(estimate_error):.1%} {way} it"


# Many logs ----------------------------------------------------------------------------------------

LEAST_LOG_CELLS: Final = 16
"""Of a log's path, from its end: less than that doesn't tell it from others."""

_COLUMNS: Final = (
    Column(name="log", importance=9, shrinks=True, least_cells=LEAST_LOG_CELLS, keeps="end"),
    Column(name="model", importance=2, shrinks=True),
    Column(name="events", align="right", importance=1),
    Column(name="gen", align="right", importance=3),
    Column(name="tokens", align="right", importance=7),
    Column(name="kind", importance=4),
    Column(name="window", align="right", importance=5),
    Column(name="full", align="right", importance=8),
    Column(name="", importance=6),
)

Judgement: TypeAlias = Literal["over", "ok", "no window"]

_STYLES: Final[dict[Judgement, Style]] = {"over": "red", "ok": "green", "no window": "dim"}


def in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Worst first: the fullest window, then those without one by size, then what is unreadable."""
    return sorted(outcomes, key=_rank)


def _rank(outcome: Outcome) -> tuple[int, float, str]:
    if isinstance(outcome, Failed):
        return 2, 0, outcome.log
    if outcome.pressure is None:
        return 1, -outcome.total_tokens, outcome.log
    return 0, -outcome.pressure, outcome.log


def many(outcomes: Sequence[Outcome], *, width: int | None = None, color: bool = False) -> str:
    """A table, worst first, with a line of totals; below it why a log could not be read."""
    shown = in_order(outcomes)
    rows = [_row(outcome, width) for outcome in shown]
    found = table(_COLUMNS, rows, width=width, color=color, totals=_totals(shown))
    reasons = [safe(one.error) for one in shown if isinstance(one, Failed)]
    return "\n".join([found, "", *reasons] if reasons else [found])


def judge(measured: Measurement) -> Judgement:
    """Over the threshold, below it, or neither for want of a window."""
    if measured.over_threshold is None:
        return "no window"
    return "over" if measured.over_threshold else "ok"


def _row(outcome: Outcome, width: int | None) -> list[Cell]:
    name = end_of(outcome.log, width)
    if isinstance(outcome, Failed):
        return [name, "", "", "", "", "", "", "", Styled("unreadable", "red")]
    judgement = judge(outcome)
    return [
        name,
        model_of(outcome),
        f"{outcome.events:,}",
        f"{outcome.generation:,}",
        f"{outcome.total_tokens:,}",
        _kind(outcome),
        "unknown" if outcome.window_tokens is None else f"{outcome.window_tokens:,}",
        "" if outcome.pressure is None else f"{outcome.pressure:.0%}",
        Styled(judgement, _STYLES[judgement]),
    ]


def _totals(outcomes: Sequence[Outcome]) -> list[Cell]:
    measured = [one for one in outcomes if isinstance(one, Measurement)]
    over = sum(one.over_threshold is True for one in measured)
    unreadable = len(outcomes) - len(measured)
    verdicts = [f"{over:,} over"] + ([f"{unreadable:,} unreadable"] if unreadable else [])
    return [
        f"{len(outcomes):,} logs",
        "",
        f"{sum(one.events for one in measured):,}",
        f"{sum(one.generation for one in measured):,}",
        f"{sum(one.total_tokens for one in measured):,}",
        "",
        "",
        "",
        ", ".join(verdicts),
    ]
