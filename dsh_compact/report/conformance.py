"""A scorecard as text: a row a session, a column a kind of fault, then each broken rule with where.

Rule: what was seen is told in full for the first few cases of a rule; the rest is counted. Names of
logs and words of backends are foreign text.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from dsh_compact.conformance import Case, Scorecard
from dsh_compact.conformance.faults import KINDS, Kind
from dsh_compact.conformance.rules import MEANINGS, Rule
from dsh_compact.report.junit import Case as JunitCase
from dsh_compact.report.junit import junit
from dsh_compact.report.table import Cell, Column, Styled, table
from dsh_compact.report.terminal import Style, safe, styled
from dsh_compact.words import counted

MOST_TOLD: Final = 3
"""Cases of one broken rule that are told; a rule that is broken once is broken everywhere."""

LONGEST_DETAIL: Final = 300

_HEADS: Final[dict[Kind, str]] = {
    "none": "no fault",
    "disk": "disk fails",
    "time over": "time over",
    "cancelled": "cancelled",
}

_COLUMNS: Final = (
    Column(name="session", importance=9, shrinks=True),
    *(Column(name=_HEADS[kind], importance=8) for kind in KINDS),
    Column(name="made room", importance=5),
)


def text(card: Scorecard, *, width: int | None = None, color: bool = False) -> str:
    """The verdict, the table, and what was broken."""
    broken = [rule for rule in Rule if _where(card, rule)]
    style: Style = "red" if broken else "green"
    verdict = f"{counted(len(broken), 'rule')} broken" if broken else "no rule broken"
    cases = counted(len(card.cases), "case")
    title = f"{safe(card.backend)}: {cases}, {styled(verdict, style, color=color)}"
    rows = [_row(session, list(group)) for session, group in groupby(card.cases, _session_of)]
    blocks = [title, table(_COLUMNS, rows, width=width, color=color)]
    for rule in broken:
        lines = list(_told(card, rule))
        head = styled(f"{rule}: {MEANINGS[rule]}", "bold", color=color)
        blocks.append("\n".join([head, *lines]))
    return "\n\n".join(blocks)


def xml(card: Scorecard) -> str:
    """The scorecard as CI systems read it: a test a case."""
    cases = [
        JunitCase(
            name=f"{case.session}: {case.fault}",
            group=f"dshc conformance {card.backend}",
            failure="; ".join(f"{one.rule}: {one.detail}" for one in case.violations),
            seconds=case.seconds,
        )
        for case in card.cases
    ]
    return junit(f"dshc conformance {card.backend}", cases)


def _session_of(case: Case) -> str:
    return case.session


def _row(session: str, cases: Sequence[Case]) -> Sequence[Cell]:
    by_kind = [[case for case in cases if case.fault.kind == kind] for kind in KINDS]
    made_room = any(case.made_room for case in by_kind[0])
    return session, *map(_cell, by_kind), "yes" if made_room else "no"


def _cell(cases: Sequence[Case]) -> Cell:
    broken = sum(bool(case.violations) for case in cases)
    if not cases:
        return Styled("wrote nothing", "dim")
    of = f" of {len(cases)}" if len(cases) > 1 else ""
    if broken:
        return Styled(f"{broken}{of} broken" if of else "broken", "red")
    return Styled(f"ok{f', {len(cases)} times' if of else ''}", "green")


def _where(card: Scorecard, rule: Rule) -> list[tuple[Case, str]]:
    return [
        (case, one.detail) for case in card.cases for one in case.violations if one.rule is rule
    ]


def _told(card: Scorecard, rule: Rule) -> Iterator[str]:
    found = _where(card, rule)
    for case, detail in found[:MOST_TOLD]:
        yield f"  {safe(case.session)}, {case.fault}: {safe(detail, LONGEST_DETAIL)}"
    left = len(found) - MOST_TOLD
    if left > 0:
        yield f"  … and {counted(left, 'more case')}"
