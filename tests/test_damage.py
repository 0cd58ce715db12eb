"""The table of damage is one table, and the README shows it."""

import damage_table
import pytest
import readme

from dsh_compact.repair.remedies import QUIET, REMEDIES
from dsh_compact.verify.damage import ROWS, Consequence, Row, Severity


def test_the_readme_shows_the_table() -> None:
    """What users read is what the program works by; the docstring says how to write it."""
    text = readme.README.read_text("utf-8")
    assert damage_table.with_table(text) == text, "run: python tests/damage_table.py"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.code)
def test_a_row_is_a_sentence_s_parts(row: Row) -> None:
    """Meaning and remedy begin small and end without a stop, so that they fit into any sentence."""
    for words in (row.meaning, row.mend or "set aside"):
        assert words
        assert words[0].islower() or words.split()[0] in (
            "JSON",
            "shadowedTokenCount",
            "sourceEventSeqs",
        )
        assert not words.endswith(".")


def test_a_remedy_is_promised() -> None:
    """Whatever has a remedy is repairable by the table, and only what nobody refuses has none."""
    mendable = {row.code for row in ROWS if row.mend is not None}
    assert set(REMEDIES) <= mendable
    assert set(QUIET) <= set(REMEDIES)


def test_a_warning_keeps_no_session_from_opening() -> None:
    """What the harness refuses, or cuts off, is no mere warning."""
    grave = {Consequence.REFUSED, Consequence.CUT, Consequence.REQUESTS_REFUSED}
    warnings = [row for row in ROWS if row.severity is Severity.WARNING]
    assert [] == [row.code for row in warnings if row.consequence in grave]
