"""A log's story as text: one row an event of the story, totals below."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, assert_never

from dsh_compact.history import (
    Answered,
    Attempt,
    GaveUp,
    History,
    Refused,
    Replaced,
    Row,
    Totals,
    Unfinished,
)
from dsh_compact.report.table import Cell, Column, Styled, table
from dsh_compact.report.terminal import clip, safe, styled
from dsh_compact.words import counted

LONGEST_TEXT: Final = 300
"""Characters of an error or a refusal that are looked at: the log has the rest."""

TIMED_COLUMNS: Final = 70
"""So wide a line has room for the time, beside what happened and the tokens."""

_COLUMNS: Final = (
    Column(name="gen", align="right", importance=8),
    Column(name="time (UTC)", importance=2),
    Column(name="seq", align="right", importance=6),
    Column(name="what", importance=9),
    Column(name="nodes", align="right", importance=3),
    Column(name="tokens", align="right", importance=7),
    Column(name="", importance=5, shrinks=True),
)


def text(history: History, *, width: int | None = None, color: bool = False) -> str:
    """The whole story: title, rows, what is unfinished, totals."""
    lines = [safe(history.log), f"format {history.format} · generation {history.generation}", ""]
    if history.rows:
        lines += [rows_text(history.rows, width=width, color=color), ""]
    if history.unfinished is not None:
        lines.append(styled(_unfinished(history.unfinished), "yellow", color=color))
    lines.append(_totals(history.totals))
    return "\n".join(lines)


def rows_text(rows: Sequence[Row], *, width: int | None = None, color: bool = False) -> str:
    """A table of `rows`, in their order."""
    return table(_COLUMNS, [_cells(row) for row in rows], width=width, color=color)


def line(row: Row, *, width: int | None = None, color: bool = False) -> str:
    """One row by itself, in columns of fixed width: nobody knows what a followed log will bring."""
    generation, when, seq, what, nodes, count, note = (
        Styled(cell, None) if isinstance(cell, str) else cell for cell in _cells(row)
    )
    folded = f"{nodes.text} folded" if nodes.text else ""
    then = when.text if width is None or width >= TIMED_COLUMNS else ""
    words = (f"{generation.text:>5}", then, f"{seq.text:>8}", f"{what.text:<9}", count.text)
    shown = "  ".join(filter(None, (*words, folded, safe(note.text)))).rstrip()
    if width is not None:
        shown = clip(shown, width)
    return shown if what.style is None else styled(shown, what.style, color=color)


def _cells(row: Row) -> list[Cell]:
    when = moment(row.time_ms)
    match row:
        case Replaced():
            return [
                str(row.generation),
                when,
                str(row.seq),
                Styled(row.kind, "green"),
                f"{len(row.shadowed_seqs):,}",
                f"{row.tokens_before:,} → {row.tokens_after:,}",
                "/".join(filter(None, (row.provider, row.model))),
            ]
        case Attempt():
            blame = f"{row.backend}: " if row.backend else ""
            reason = safe(f"{blame}{row.error}", LONGEST_TEXT)
            return ["", when, str(row.end_seq), Styled("failed", "red"), "", "", reason]
        case Refused():
            counts = _counts(row) or safe(row.message, LONGEST_TEXT)
            return ["", when, str(row.seq), Styled("refused", "red"), "", "", counts]
        case Answered():
            counted = "" if row.counted_tokens is None else f"{row.counted_tokens:,}"
            note = "counted by the provider" if counted else ""
            return ["", when, str(row.seq), Styled("answered", "cyan"), "", counted, note]
        case GaveUp():
            reason = safe(f"turn {row.turn} ended: {row.reason}", LONGEST_TEXT)
            return ["", when, str(row.seq), Styled("gave up", "red"), "", "", reason]
        case _:
            assert_never(row)


def _counts(row: Refused) -> str:
    if row.limit_tokens is None:
        return ""
    if row.requested_tokens is None:
        return f"{row.limit_tokens:,} allowed"
    return f"{row.requested_tokens:,} requested, {row.limit_tokens:,} allowed"


def _unfinished(bracket: Unfinished) -> str:
    why = "its process is gone" if bracket.is_stale else "a writer may be at work"
    return f"a compaction began at seq {bracket.start_seq} and never ended: {why}"


def _totals(totals: Totals) -> str:
    counts = (
        (totals.summaries, "summary", "summaries"),
        (totals.prunes, "prune", ""),
        (totals.others, "other replacement", ""),
        (totals.failed_attempts, "failed attempt", ""),
        (totals.refusals, "refusal", ""),
    )
    parts = [counted(count, one, some) for count, one, some in counts if count]
    if totals.refusals:
        parts[-1] += f", {totals.recovered:,} answered"
    if not parts:
        return "nothing was ever replaced, and no request was refused as too long"
    if totals.nodes_shadowed:
        parts.append(
            f"{totals.tokens_before:,} → {totals.tokens_after:,} tokens, estimated"
            f" ({counted(totals.nodes_shadowed, 'message')} folded)"
        )
    return " · ".join(parts)


def moment(time_ms: int) -> str:
    """A time of the log in UTC, to the second; as it stands where it is no time."""
    try:
        whole = datetime.fromtimestamp(time_ms // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(time_ms)
    return whole.isoformat(" ").removesuffix("+00:00")
