"""Tables fit the terminal, whatever the cells hold."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dsh_compact.report.table import Column, Styled, table

ANY_TEXT: Final = st.text(st.characters(codec=None, categories=None), max_size=60)
"""All of Unicode, lone surrogates too."""

COLUMNS: Final = (
    Column(name="log", shrinks=True, importance=3),
    Column(name="tokens", align="right", importance=2),
    Column(name="model", importance=1),
)
ROWS: Final = (("a-rather-long-name.jsonl", "1,200", "wide"), ("b.jsonl", "7", "narrow"))


def test_a_table_aligns_its_columns() -> None:
    """Each column is as wide as its widest cell; numbers stand right."""
    assert (
        table(COLUMNS, ROWS)
        == """\
log                       tokens  model
a-rather-long-name.jsonl   1,200  wide
b.jsonl                        7  narrow"""
    )


def test_totals_stand_below_a_rule() -> None:
    """A line of totals is set off, and takes part in the widths."""
    assert (
        table(COLUMNS[1:], [row[1:] for row in ROWS], totals=("1,000,207", "2 models"))
        == """\
   tokens  model
    1,200  wide
        7  narrow
-------------------
1,000,207  2 models"""
    )


def test_a_narrow_table_shrinks_first() -> None:
    """The column that may shrink gives way before any column leaves."""
    assert (
        table(COLUMNS, ROWS, width=25)
        == """\
log        tokens  model
a-rather…   1,200  wide
b.jsonl         7  narrow"""
    )


def test_a_narrower_table_loses_the_least_important_column() -> None:
    """When shrinking is not enough, columns leave, the least important first."""
    assert (
        table(COLUMNS, ROWS, width=20)
        == """\
log           tokens
a-rather-lo…   1,200
b.jsonl            7"""
    )
    assert "log\na-r…\nb.j…" == table(COLUMNS, ROWS, width=4)


def test_a_column_may_keep_more_and_its_end() -> None:
    """A path keeps so much of its end that it tells one log from the other; else columns leave."""
    path = Column(name="log", shrinks=True, importance=3, least_cells=12, keeps="end")
    columns = (path, *COLUMNS[1:])
    assert "…-name.jsonl   1,200  wide" == table(columns, ROWS, width=28).split("\n")[1]
    assert "…er-long-name.jsonl   1,200" == table(columns, ROWS, width=27).split("\n")[1]
    assert "log\n…ame.jsonl\nb.jsonl" == table(columns, ROWS, width=10)


def test_of_equally_important_columns_the_rightmost_leaves() -> None:
    """What stands first is read first, so it stays longest."""
    columns = [Column(name=name) for name in ("aaaa", "bbbb", "cccc")]
    assert table(columns, [("1", "2", "3")], width=12) == "aaaa  bbbb\n1     2"


@given(
    st.lists(st.tuples(ANY_TEXT, ANY_TEXT, ANY_TEXT), max_size=4),
    st.integers(1, 100),
    st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(
    rows: list[tuple[str, str, str]], width: int, totals: bool
) -> None:
    """Whatever the cells hold, every row is one line, and it fits."""
    lines = table(COLUMNS, rows, width=width, totals=ROWS[0] if totals else None).split("\n")
    assert 1 + len(rows) + 2 * totals == len(lines)
    assert all(cell_len(line) <= width for line in lines)


def test_a_cell_has_its_style_around_the_text_only() -> None:
    """Colours change no width, and a hostile cell can't bring its own."""
    columns = (Column(name="log"), Column(name="state"))
    rows = [(Styled("\x1b[5m", "red"), "ok")]
    assert "log      state\n\\x1b[5m  ok" == table(columns, rows)
    assert "\x1b[1mlog\x1b[0m      \x1b[1mstate\x1b[0m\n\x1b[31m\\x1b[5m\x1b[0m  ok" == table(
        columns, rows, color=True
    )
