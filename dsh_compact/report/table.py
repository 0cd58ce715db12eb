"""Tables of foreign text that fit the terminal.

Laid out here and not by rich: `import rich.table` costs four times `python -c pass`, and a plain
`measure` may cost nine in all. Every cell is made safe here; nothing reads markup.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from dsh_compact.report.terminal import Style, cells, clip, clip_start, safe, styled

GAP: Final = "  "
"""What stands between two columns."""

SHORTEST_CELLS: Final = 8
"""A column that may shrink keeps at least so many cells, if it doesn't say another number."""


class Column(Struct, frozen=True, kw_only=True):
    """One column of a table.

    On a narrow terminal the columns that may shrink give way first, and then whole columns leave,
    those of the smallest `importance` first; the most important one always stays. `keeps` is what
    is left of a cell that is cut.
    """

    name: str
    align: Literal["left", "right"] = "left"
    importance: int = 1
    shrinks: bool = False
    least_cells: int = SHORTEST_CELLS
    keeps: Literal["start", "end"] = "start"


class Styled(NamedTuple):
    """A cell with a style, where colours are welcome."""

    text: str
    style: Style | None


Cell: TypeAlias = str | Styled


class _Safe(NamedTuple):
    """A cell's text as it may be shown, and how wide that is: measured once."""

    text: str
    style: Style | None
    cells: int


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    width: int | None = None,
    color: bool = False,
    totals: Sequence[Cell] | None = None,
) -> str:
    """Lay out `rows` under `columns`, `totals` below a rule; no line is wider than `width` cells.

    Cells are foreign text: they are made safe here. Without `width` nothing is cut. Lines end
    without spaces and without a final line feed.
    """
    head = [_made_safe(Styled(column.name, "bold")) for column in columns]
    body = [[_made_safe(cell) for cell in row] for row in rows]
    foot = [[_made_safe(cell) for cell in totals]] if totals else []
    natural = [max(row[i].cells for row in (head, *body, *foot)) for i in range(len(columns))]
    widths = _fit(columns, natural, width)
    rule = ["-" * (sum(widths.values()) + len(GAP) * (len(widths) - 1))] if foot else []
    above, below = (
        [_line(columns, row, widths, color=color) for row in part] for part in ([head, *body], foot)
    )
    return "\n".join([*above, *rule, *below])


def _made_safe(cell: Cell) -> _Safe:
    text, style = (cell, None) if isinstance(cell, str) else cell
    text = safe(text)
    return _Safe(text, style, cells(text))


def _line(
    columns: Sequence[Column], row: Sequence[_Safe], widths: dict[int, int], *, color: bool
) -> str:
    shown = []
    for i, width in widths.items():
        text, style, taken = row[i]
        if taken > width:
            text = (clip if columns[i].keeps == "start" else clip_start)(text, width)
            taken = cells(text)
        blanks = " " * (width - taken)
        text = styled(text, style, color=color) if style else text
        shown.append(blanks + text if columns[i].align == "right" else text + blanks)
    return GAP.join(shown).rstrip(" ")


def _fit(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> dict[int, int]:
    """Return index → cells of the columns that are shown, in their order."""
    widths = dict(enumerate(natural))
    if width is None:
        return widths
    by_worth = sorted(widths, key=lambda i: (columns[i].importance, -i))
    while True:
        spare = width - sum(widths.values()) - len(GAP) * (len(widths) - 1)
        for i in reversed([*widths]):
            if spare < 0 and columns[i].shrinks:
                give = min(
                    -spare, max(0, widths[i] - max(columns[i].least_cells, cells(columns[i].name)))
                )
                widths[i] -= give
                spare += give
        if spare >= 0:
            return widths
        if len(widths) == 1:
            return {i: max(1, width) for i in widths}
        gone = next(i for i in by_worth if i in widths)
        widths = {i: natural[i] for i in widths if i != gone}
