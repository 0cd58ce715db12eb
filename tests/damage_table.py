"""Writes the table of damage into the README, from the table that `verify` and `repair` work by.

python tests/damage_table.py
"""

from typing import Final

import readme

from dsh_compact.verify.damage import ROWS, Severity

BEGINS: Final = "<!-- damage: written by `python tests/damage_table.py`, checked by a test -->\n"
ENDS: Final = "<!-- damage ends -->\n"


def table() -> str:
    """Every code, where it shows, what it means and brings, and what `repair` does."""
    rows = ["| code | shows at | means | consequence | `repair` |", "|---|---|---|---|---|"]
    for row in ROWS:
        code = f"`{row.code}`" + (" (warning)" if row.severity is Severity.WARNING else "")
        mend = row.mend or ("nothing to do" if row.severity is Severity.WARNING else "can't")
        rows.append(f"| {code} | {row.place} | {row.meaning} | {row.consequence} | {mend} |")
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """The README's text with the table between its marks."""
    before, _, rest = text.partition(BEGINS)
    after = rest.partition(ENDS)[2]
    return f"{before}{BEGINS}\n{table()}\n{ENDS}{after}"


if __name__ == "__main__":
    readme.README.write_text(with_table(readme.README.read_text("utf-8")), "utf-8")
