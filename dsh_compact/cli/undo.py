"""`dshc undo`: a copy of a log in which its newest compaction never happened."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from dsh_compact.cli import io, options
from dsh_compact.report import undo as report
from dsh_compact.undo import undo

EXAMPLES = """
dshc undo session.v4.jsonl -o before.jsonl       without the newest compaction
dshc undo LOG -o whole.jsonl --generation 0      without any: everything that was ever said
"""


def command(
    log: options.Log,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="COPY", help="Where the copy goes: a new file."),
    ],
    *,
    generation: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Undo all that came after generation N."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Write a copy of the log in which the newest compaction never happened.

    The newest compaction is all that was pruned and folded at one go. Its own records are left out;
    all others stay, those behind it under the seqs that they would have had, with every reference
    to them, and what it had folded is back on the surface. The original is only read. The copy is
    checked as verify does, and is not there if anything would be wrong with it that was right.
    Exit code 1 where there is nothing to undo.
    """
    done = undo(log, output, generation=generation)
    for notice in done.notices:
        io.notice(notice)
    if json:
        plain = to_builtins(done)
        del plain["notices"]
        io.emit_json({"schema": 1, "command": "undo", **plain})
    else:
        io.emit_text(report.text(done, width=io.console_width(), color=io.use_color()))
    return 0
