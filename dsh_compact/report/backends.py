"""The backends that have a name, as text: by kind, a line each. What packages say is foreign."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from dsh_compact.backends.lookup import Entry
from dsh_compact.report.table import Column, table
from dsh_compact.report.terminal import safe, styled

_COLUMNS: Final = (
    Column(name="name"),
    Column(name="what it does"),
)

HEADINGS: Final = {
    "honest": "honest: for use",
    "hostile": "hostile: each a real failure, to rehearse with",
    "entry point": "from packages that are installed here",
}


LONGEST_SENTENCE: Final = 200
"""Characters of what a package says about its backend."""


def text(entries: Sequence[Entry], *, color: bool = False) -> str:
    """The entries in their order, under the heading of their kind; a sentence is never cut off."""
    rows = [(f"  {entry.name}", safe(entry.sentence, LONGEST_SENTENCE)) for entry in entries]
    lines = iter(table(_COLUMNS, rows, color=color).split("\n")[1:])
    blocks = []
    for kind, group in groupby(entries, key=lambda entry: entry.kind):
        heading = styled(HEADINGS[kind], "bold", color=color)
        blocks.append("\n".join([heading, *(next(lines) for _ in group)]))
    return "\n\n".join(blocks)
