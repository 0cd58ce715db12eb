"""What an undo left out, as text."""

from collections.abc import Sequence
from typing import Final

from dsh_compact.report.table import Cell, Column, table
from dsh_compact.report.terminal import safe, styled
from dsh_compact.undo import Undoing

_COLUMNS: Final = (
    Column(name="gen", align="right", importance=8),
    Column(name="what", importance=9),
    Column(name="seqs left out", importance=7),
    Column(name="messages back", align="right", importance=6),
)


def text(done: Undoing, *, width: int | None = None, color: bool = False) -> str:
    """The copy, what it is without, and how the conversation grew."""
    generations = f"generation {done.generation_before} → {done.generation_after}"
    tokens = f"messages of {done.tokens_before:,} → {done.tokens_after:,} tokens, estimated"
    rows: list[Sequence[Cell]] = [
        (
            str(one.generation),
            one.kind,
            ", ".join(map(str, one.seqs)),
            f"{len(one.shadowed_seqs):,}",
        )
        for one in done.undone
    ]
    head = [styled(safe(done.copy), "bold", color=color), f"{generations}, {tokens}"]
    shown = "\n".join(head)
    return f"{shown}\n\n{table(_COLUMNS, rows, width=width, color=color)}"
