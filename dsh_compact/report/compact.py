"""What a compaction did, or would do, as text: what went, what stayed, and what it saved.

Rule: a plan speaks of what would happen, a result of what was found on disk; the two never sound
alike.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never

from msgspec import Struct

from dsh_compact.events import SessionHeader
from dsh_compact.planning import Item
from dsh_compact.pressure import Outcome, Size
from dsh_compact.report.table import Cell, Column, Styled, table
from dsh_compact.report.terminal import Style, safe, styled
from dsh_compact.words import counted
from dsh_compact.workbench import Advice

if TYPE_CHECKING:
    from dsh_compact.summarizers.facts import FactsReport

LONGEST_ID: Final = 120
"""Characters of a session's id that are looked at: it is foreign text."""

LONGEST_REASON: Final = 500
"""Characters of a backend's own words that are looked at."""

Fate: TypeAlias = Literal["folded", "pruned", "kept"]

_STYLES: Final[dict[Fate, Style]] = {"folded": "yellow", "pruned": "cyan", "kept": "green"}

_STRETCHES: Final = (
    Column(name="", importance=9),
    Column(name="seqs", importance=8),
    Column(name="messages", align="right", importance=6),
    Column(name="tokens", align="right", importance=7),
)

_SIZES: Final = (
    Column(name="", importance=6),
    Column(name="before", align="right", importance=8),
    Column(name="after", align="right", importance=9),
    Column(name="saved", align="right", importance=7),
    Column(name="", align="right", importance=5),
)


_FACTS: Final = (
    Column(name="facts", importance=9),
    Column(name="kept", align="right", importance=8),
    Column(name="", align="right", importance=7),
    Column(name="lost", importance=6, shrinks=True),
)


class Stretch(Struct, frozen=True, kw_only=True):
    """Neighbouring messages of one fate, as they stood before; tokens are estimated."""

    fate: Fate
    items: tuple[Item, ...]

    @property
    def seqs(self) -> str:
        """`5–24`: the first and the last, by their places."""
        first, last = self.items[0].seq, self.items[-1].seq
        return f"{first}" if first == last else f"{first}–{last}"

    @property
    def tokens(self) -> int:
        """What they cost together."""
        return sum(one.tokens for one in self.items)


def text(
    log: str,
    header: SessionHeader,
    outcome: Outcome,
    *,
    facts: "FactsReport | None" = None,
    is_plan: bool = False,
    is_bound: bool = False,
    width: int | None = None,
    color: bool = False,
) -> str:
    """An outcome, or with `is_plan` what would be one; with `is_bound` its summary is at most that.

    `outcome.before` and `outcome.after` must be known.
    """
    before, after = outcome.before, outcome.after
    assert before is not None
    assert after is not None
    lines = [styled(_verdict(log, outcome, is_plan=is_plan), "bold", color=color)]
    if outcome.reason and not outcome.acted:
        lines.append(_and(safe(outcome.reason, LONGEST_REASON), remedy(log, outcome)))
    blocks = ["\n".join([safe(log), *lines])]
    if after.generation > before.generation:
        blocks += [
            _stretches(outcome, width=width, color=color),
            _sizes(before, after, is_bound=is_bound, width=width, color=color),
        ]
        blocks += [] if facts is None else [_facts(facts, width=width, color=color)]
        blocks += [] if is_plan else [_resume(header)]
    return "\n\n".join(blocks)


def remedy(log: str, outcome: Outcome) -> str:
    """What to do where nothing went, or too little, by the command's own options; else empty."""
    match outcome.advice:
        case None:
            return ""
        case Advice.FORCE:
            return '"--force" tries all the same'
        case Advice.SHORTER_TAIL:
            return 'more can go with "--keep-last 1"'
        case Advice.AGAIN:
            other = 'another "--backend"'
            return (
                f"more can go: run it again, or with {other}" if outcome.acted else f"try {other}"
            )
        case Advice.LOOK:
            return f'"dshc measure {safe(log)}" shows what fills the window'
        case _:
            assert_never(outcome.advice)


def _and(problem: str, remedy: str) -> str:
    return f"{problem}; {remedy}" if remedy else problem


def resume_call(header: SessionHeader) -> str:
    """How a program goes on with the session: the harness's own call."""
    import json

    return f"harness.resume_session({json.dumps(header.id)})"


def _verdict(log: str, outcome: Outcome, *, is_plan: bool) -> str:
    if not outcome.acted:
        return "Nothing would be done." if is_plan else "Nothing was done."
    fates = [fate for fate, _ in _fated(outcome)]
    done = [
        f"{fates.count(fate):,} of {counted(len(fates), 'message')}"
        f" {'would be ' if is_plan else ''}{fate}"
        for fate in ("pruned", "folded")
        if fate in fates
    ]
    return _and(" and ".join(done) + _standing(outcome), remedy(log, outcome)) + "."


def _standing(outcome: Outcome) -> str:
    if outcome.budgets is None:
        return ""
    where = "still over" if outcome.is_over else "below"
    return f", {where} the threshold of {outcome.budgets.threshold_tokens:,} tokens"


def _fated(outcome: Outcome) -> Iterator[tuple[Fate, Item]]:
    """Each message that stood there before, and what became of it."""
    assert outcome.before is not None
    assert outcome.after is not None
    left = {one.seq for one in outcome.after.items}
    pruned = {old for one in outcome.pruned if one.seq in left for old in one.shadowed_seqs}
    for one in outcome.before.items:
        yield "kept" if one.seq in left else "pruned" if one.seq in pruned else "folded", one


def stretches(outcome: Outcome) -> list[Stretch]:
    """The conversation as it stood before, by what became of its parts."""
    return [
        Stretch(fate=fate, items=tuple(one for _, one in run))
        for fate, run in groupby(_fated(outcome), key=lambda pair: pair[0])
    ]


def _stretches(outcome: Outcome, *, width: int | None, color: bool) -> str:
    rows: list[Sequence[Cell]] = [
        (
            Styled(one.fate, _STYLES[one.fate]),
            one.seqs,
            f"{len(one.items):,}",
            f"{one.tokens:,}",
        )
        for one in stretches(outcome)
    ]
    return table(_STRETCHES, rows, width=width, color=color)


def _sizes(before: Size, after: Size, *, is_bound: bool, width: int | None, color: bool) -> str:
    about = "≤ " if is_bound else ""
    rows = [
        ("pressure", before.tokens, after.tokens),
        ("messages' tokens", before.surface_tokens, after.surface_tokens),
        ("messages", len(before.items), len(after.items)),
    ]
    cells: list[Sequence[Cell]] = [
        (
            name,
            f"{old:,}",
            f"{about if name != 'messages' else ''}{new:,}",
            f"{old - new:,}",
            f"{(old - new) / old:.0%}" if old else "",
        )
        for name, old, new in rows
    ]
    cells.append(("generation", f"{before.generation:,}", f"{after.generation:,}", "", ""))
    return table(_SIZES, cells, width=width, color=color)


def _facts(facts: "FactsReport", *, width: int | None, color: bool) -> str:
    rows: list[Sequence[Cell]] = [
        (kind.kind, f"{kind.kept:,} of {kind.total:,}", f"{kind.ratio:.0%}", ", ".join(kind.lost))
        for kind in facts.kinds
        if kind.total
    ]
    totals = ("all", f"{facts.kept:,} of {facts.total:,}", f"{facts.ratio:.0%}", "")
    return table(_FACTS, rows, width=width, color=color, totals=totals)


def _resume(header: SessionHeader) -> str:
    return (
        "The harness goes on with it: pick the session in its web interface, or call\n"
        f"  {safe(resume_call(header), LONGEST_ID)}"
    )
