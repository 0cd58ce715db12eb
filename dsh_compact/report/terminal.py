"""What reaches a terminal: foreign text made safe, cut to width, set in tables.

Texts in a log are hostile: escape sequences, direction overrides, NUL, lone surrogates, 50 MB in
one line. Every string that is not ours passes `safe` or `safe_block` exactly once, on its way into
a line; nothing here reads markup. Widths are counted in the terminal's cells. This module knows no
log and no stream.

Tables are laid out here and not by rich: `import rich.table` costs four times `python -c pass`, and
a plain `measure` may cost nine in all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

GAP: Final = "  "
"""What stands between two columns."""

ELLIPSIS: Final = "…"
"""What stands where something was cut."""

SHORTEST_CELLS: Final = 8
"""A column that may shrink keeps at least so many cells; below that it tells nothing."""

_OBEYED: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1 controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of the text round
    "\u2028\u2029"  # line and paragraph separators
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # what nobody sees
    "\ud800-\udfff]"  # lone surrogates, which no encoding takes
)
"""Characters that are shown as an escape. Joiners (U+200C, U+200D) stay: scripts need them."""

_OBEYED_IN_BLOCK: Final = re.compile(_OBEYED.pattern.replace("[\x00-\x1f", "[\x00-\x08\x0b-\x1f"))
"""The same, less tab and line feed."""

LONGEST_CELL: Final = 8
"""Characters that one cell may hold, accents and joiners with it; more are not looked at, whatever
follows. An emoji of a family takes seven in two cells."""

Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_SGR: Final[dict[Style, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}


# Text -------------------------------------------------------------------------------------------


def safe(text: str, limit: int | None = None) -> str:
    r"""Return `text` as one line that no terminal obeys: ESC becomes `\x1b`, a line feed `\n`.

    At most `limit` characters of `text` are looked at; where more follow, an ellipsis says so. A
    backslash stays as it is: this is for eyes, and nothing reads it back.
    """
    if limit is not None and len(text) > limit:
        return safe(text[:limit]) + ELLIPSIS
    if text.isprintable():  # in one pass of C: nearly every text of a log
        return text
    return _OBEYED.sub(_shown, text)


def safe_block(text: str) -> str:
    """Return `text` like `safe`, but with its line feeds and tabs."""
    return _OBEYED_IN_BLOCK.sub(_shown, text)


def styled(text: str, style: Style, *, color: bool) -> str:
    """Return `text` in a style if `color`, else as it is; `text` must be safe already."""
    return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if color else text


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {9: r"\t", 10: r"\n", 13: r"\r"}.get(code)
    if short:
        return short
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Widths -----------------------------------------------------------------------------------------


def cells(text: str) -> int:
    """Return how many cells of a terminal `text` takes; `text` must be safe already."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def clip(text: str, width_cells: int) -> str:
    """Return as much of `text` as fits into `width_cells`, an ellipsis telling of a cut."""
    if width_cells <= 0:
        return ""
    start = text[: width_cells * LONGEST_CELL]
    if len(start) == len(text) and cells(text) <= width_cells:
        return text
    if start.isascii():
        return start[: width_cells - 1] + ELLIPSIS
    from rich.cells import set_cell_size

    return set_cell_size(start, min(cells(start), width_cells - 1)).rstrip(" ") + ELLIPSIS


# Tables -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    On a narrow terminal the columns that may shrink give way first, and then whole columns leave,
    those of the smallest `importance` first; the most important one always stays.
    """

    name: str
    align: Literal["left", "right"] = "left"
    importance: int = 1
    shrinks: bool = False


class Styled(NamedTuple):
    """A cell with a style, where colours are welcome."""

    text: str
    style: Style | None


Cell: TypeAlias = str | Styled


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
    head = [Styled(safe(column.name), "bold") for column in columns]
    body = [[_made_safe(cell) for cell in row] for row in rows]
    foot = [[_made_safe(cell) for cell in totals]] if totals else []
    natural = [max(cells(row[i].text) for row in (head, *body, *foot)) for i in range(len(columns))]
    widths = _fit(columns, natural, width)
    rule = ["-" * (sum(widths.values()) + len(GAP) * (len(widths) - 1))] if foot else []
    above, below = (
        [_line(columns, row, widths, color=color) for row in part] for part in ([head, *body], foot)
    )
    return "\n".join([*above, *rule, *below])


def _made_safe(cell: Cell) -> Styled:
    return (
        Styled(safe(cell), None) if isinstance(cell, str) else Styled(safe(cell.text), cell.style)
    )


def _line(
    columns: Sequence[Column], row: Sequence[Styled], widths: dict[int, int], *, color: bool
) -> str:
    shown = []
    for i, width in widths.items():
        text, style = clip(row[i].text, width), row[i].style
        blanks = " " * (width - cells(text))
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
                give = min(-spare, max(0, widths[i] - max(SHORTEST_CELLS, cells(columns[i].name))))
                widths[i] -= give
                spare += give
        if spare >= 0:
            return widths
        if len(widths) == 1:
            return {i: max(1, width) for i in widths}
        gone = next(i for i in by_worth if i in widths)
        widths = {i: natural[i] for i in widths if i != gone}
