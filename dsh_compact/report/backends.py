"""The backends that have a name, as text: by kind, a line each. What packages say is foreign."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from dsh_compact.backends.lookup import Entry
from dsh_compact.report.table import Column, table
from dsh_compact.report.terminal import styled

_COLUMNS: Final = (
    Column(name="name", importance=2),
    Column(name="what it does", importance=1, shrinks=True),
)

HEADINGS: Final = {
    "honest": "honest: for use",
    "hostile": "hostile: each a real failure, to rehearse with",
    "entry point": "from packages that are installed here",
}


def text(entries: Sequence[Entry], *, width: int | None = None, color: bool = False) -> str:
    """The entries in their order, under the heading of their kind."""
    rows = [(f"  {entry.name}", entry.sentence) for entry in entries]
    lines = iter(table(_COLUMNS, rows, width=width, color=color).split("\n")[1:])
    blocks = []
    for kind, group in groupby(entries, key=lambda entry: entry.kind):
        heading = styled(HEADINGS[kind], "bold", color=color)
        blocks.append("\n".join([heading, *(next(lines) for _ in group)]))
    return "\n\n".join(blocks)
