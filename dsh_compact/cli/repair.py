"""`dshc repair`: a damaged log written anew, with all in it that can be kept."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dsh_compact.cli import io, options
from dsh_compact.cli.findings import finding_json
from dsh_compact.errors import UsageError
from dsh_compact.journal import refuse_special_file
from dsh_compact.reader import find_log
from dsh_compact.repair import Repair, repair
from dsh_compact.repair.mender import Action
from dsh_compact.report import repair as report

EXAMPLES = """
dshc repair --dry-run session.v4.jsonl    what would be done, and whether it suffices
dshc repair session.v4.jsonl              a repaired copy beside it
dshc repair --in-place session.v4.jsonl   the copy takes its place, the damaged log is kept
dshc repair -o mended.jsonl LOG
"""


def command(
    log: options.Log,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where the repaired log goes."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Put the repaired log in the damaged one's place.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it, and write nothing.")] = False,
    json: options.Json = False,
) -> int:
    """Mend what can be mended, never inventing content.

    Torn tails are cut off; events that two processes numbered alike are told apart and renumbered,
    with every reference to them; what a crash left open is closed the way the harness closes it.
    What can't be kept, and what was changed beyond its numbers, is written to a file beside the
    log, with the reasons. The damaged log stays as it is; with --in-place it keeps another name,
    which is printed. The exit code is 0 where the log is sound in the end, and 1 where something
    is left that can't be mended; in place nothing is changed then.
    """
    if output is not None and in_place:
        raise UsageError("--output and --in-place name two places", "leave one out")
    if in_place and str(log) != "-":
        refuse_special_file(find_log(str(log))[0])
    done = repair(str(log), output=output, in_place=in_place, dry_run=dry_run)
    if json:
        io.emit_json(_json(done, dry_run=dry_run))
    else:
        io.emit_text(report.text(done, dry_run=dry_run, color=io.use_color()))
    return 0 if done.ok else 1


def _json(done: Repair, *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": "repair",
        "log": done.log,
        "ok": done.ok,
        "needed": done.is_needed,
        "dry_run": dry_run,
        "target": done.target,
        "backup": done.backup,
        "set_aside_file": done.aside,
        "kept": done.kept,
        "renumbered": done.renumbered,
        "inserted": done.inserted,
        "set_aside": done.set_aside,
        "actions": [_action(action) for action in done.actions],
        "untold": done.untold,
        "findings_before": [finding_json(finding) for finding in done.before.findings],
        "findings": [finding_json(finding) for finding in done.after.findings],
    }


def _action(action: Action) -> dict[str, Any]:
    return {
        "code": action.code,
        "line": action.line,
        "seq": action.seq,
        "what": action.what,
        "set_aside": action.is_aside,
    }
