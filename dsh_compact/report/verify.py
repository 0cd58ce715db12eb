"""What verification found as text: one log finding by finding, many as a table.

Rule: a place first, then the code, then what it means for the session. Problems quote the log, so
they are foreign text.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from dsh_compact.report.table import Cell, Column, Styled, table
from dsh_compact.report.terminal import end_of, safe, styled
from dsh_compact.verify import Report
from dsh_compact.verify.damage import Finding, Severity
from dsh_compact.words import counted

LONGEST_MESSAGE: Final = 400
"""Characters of a problem that are shown: it may quote what stands in the log."""

CODES_SHOWN: Final = 3
"""Codes of a log that the table names; more are counted."""


class Failed(Struct, frozen=True, kw_only=True):
    """A log that could not be read at all, and the sentence that says why."""

    path: str
    error: str


Outcome: TypeAlias = Report | Failed


def text(report: Report, *, color: bool = False) -> str:
    """One log: what it is, every finding and warning with its place, and what to do."""
    lines = [_title(report, color=color)]
    for finding in sorted((*report.findings, *report.warnings), key=_place_of):
        lines += ["", *_finding(finding, color=color)]
    if report.untold:
        lines += ["", f"and {report.untold:,} more, which are not listed"]
    if remedy := _remedy(report):
        lines += ["", remedy]
    return "\n".join(lines)


def _title(report: Report, *, color: bool) -> str:
    kind = "no header" if report.format is None else f"format {report.format}"
    facts = f"{kind}, {counted(report.events, 'event')}, generation {report.generation}"
    return f"{safe(report.path)}: {_verdict(report, color=color)} ({facts})"


def _verdict(report: Report, *, color: bool) -> str:
    count = len(report.findings)
    if count:
        more = "at least " if report.untold else ""
        return styled(f"{more}{counted(count, 'finding')}", "red", color=color)
    if report.warnings:
        words = f"sound, {counted(len(report.warnings), 'warning')}"
        return styled(words, "yellow", color=color)
    return styled("sound", "green", color=color)


def _place_of(finding: Finding) -> tuple[int, int]:
    return finding.line or 0, finding.byte or 0


def _finding(finding: Finding, *, color: bool) -> list[str]:
    parts = [f"line {finding.line}"] if finding.line is not None else []
    parts += [f"seq {finding.seq}"] if finding.seq is not None else []
    parts += [f"byte {finding.byte}"] if finding.byte is not None else []
    warns = finding.severity is Severity.WARNING
    code = styled(finding.code, "yellow" if warns else "red", color=color)
    label = "warning, " if warns else ""
    mend = "repairable" if finding.repairable else "not repairable"
    return [
        f"{', '.join(parts)}: {label}{code}",
        f"  {safe(finding.message, LONGEST_MESSAGE)}",
        f"  {finding.consequence}; {mend}",
    ]


def _remedy(report: Report) -> str:
    repairable = sum(finding.repairable for finding in report.findings)
    if not repairable:
        return ""
    if report.format is None:
        return "without its header nothing of it can be mended"
    which = "all" if repairable == len(report.findings) else f"{repairable:,} of them"
    return f'"dshc repair {safe(report.path)}" mends {which}, on a copy'


# Many logs ----------------------------------------------------------------------------------------

LEAST_LOG_CELLS: Final = 16
"""Of a log's path, from its end: less than that doesn't tell it from others."""

_COLUMNS: Final = (
    Column(name="log", importance=9, shrinks=True, least_cells=LEAST_LOG_CELLS, keeps="end"),
    Column(name="format", align="right", importance=1),
    Column(name="events", align="right", importance=2),
    Column(name="findings", align="right", importance=8),
    Column(name="warnings", align="right", importance=3),
    Column(name="codes", importance=6, shrinks=True),
    Column(name="", importance=7),
)


def in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Worst first: what cannot be read, then the most findings, then the most warnings."""
    return sorted(outcomes, key=_rank)


def _rank(outcome: Outcome) -> tuple[int, int, int, str]:
    if isinstance(outcome, Failed):
        return 0, 0, 0, outcome.path
    return 1, -len(outcome.findings) - outcome.untold, -len(outcome.warnings), outcome.path


def many(outcomes: Sequence[Outcome], *, width: int | None = None, color: bool = False) -> str:
    """A table, worst first, with a line of totals; below it why a log could not be read."""
    shown = in_order(outcomes)
    rows = [_row(outcome, width) for outcome in shown]
    found = table(_COLUMNS, rows, width=width, color=color, totals=_totals(shown))
    reasons = [safe(one.error) for one in shown if isinstance(one, Failed)]
    return "\n".join([found, "", *reasons] if reasons else [found])


def _row(outcome: Outcome, width: int | None) -> list[Cell]:
    name = end_of(outcome.path, width)
    if isinstance(outcome, Failed):
        return [name, "", "", "", "", "", Styled("unreadable", "red")]
    if outcome.findings:
        verdict = Styled("damaged", "red")
    else:
        verdict = Styled("sound", "yellow" if outcome.warnings else "green")
    return [
        name,
        "none" if outcome.format is None else str(outcome.format),
        f"{outcome.events:,}",
        f"{len(outcome.findings) + outcome.untold:,}",
        f"{len(outcome.warnings):,}",
        _codes(outcome),
        verdict,
    ]


def _codes(report: Report) -> str:
    counted = Counter(str(finding.code) for finding in (*report.findings, *report.warnings))
    named = [f"{code} ×{n}" if n > 1 else code for code, n in counted.most_common(CODES_SHOWN)]
    more = len(counted) - len(named)
    return ", ".join([*named, f"{more} more"] if more else named)


def _totals(outcomes: Sequence[Outcome]) -> list[Cell]:
    reports = [one for one in outcomes if isinstance(one, Report)]
    damaged = sum(not one.ok for one in reports)
    unreadable = len(outcomes) - len(reports)
    verdicts = [f"{damaged:,} damaged"] + ([f"{unreadable:,} unreadable"] if unreadable else [])
    return [
        f"{len(outcomes):,} logs",
        "",
        f"{sum(one.events for one in reports):,}",
        f"{sum(len(one.findings) + one.untold for one in reports):,}",
        f"{sum(len(one.warnings) for one in reports):,}",
        "",
        ", ".join(verdicts),
    ]
