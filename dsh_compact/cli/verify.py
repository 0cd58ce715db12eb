"""`dshc verify`: what is wrong with a log, where, and what it means for the session."""

from collections.abc import Generator
from contextlib import closing
from typing import Annotated, Any

import typer
from msgspec import Struct

from dsh_compact.cli import io, options
from dsh_compact.cli.findings import finding_json
from dsh_compact.errors import DshcError
from dsh_compact.report import verify as report
from dsh_compact.verify import Report, verify

EXAMPLES = """
dshc verify session.v4.jsonl            every finding: place, code, consequence
dshc verify --strict LOG                for CI: warnings fail, too
dshc verify ~/.dsh/sessions             every session below, worst first
dshc verify --jsonl ~/.dsh/sessions     each as soon as it is known
dshc verify --json LOG | jq '.findings[].code'
"""


class Verified(Struct, frozen=True, kw_only=True):
    """What came of one log."""

    outcome: report.Outcome
    exit_code: int = 0


def command(
    logs: options.Logs = None,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail, too.")] = False,
    demo: options.Demo = False,
    json: options.Json = False,
    jsonl: options.JsonLines = False,
) -> int:
    """Find damage: every byte is read, every rule judged, and on it goes behind the first finding.

    Each finding has a stable code, its line, seq and byte, what it means for the session, and
    whether "dshc repair" can mend it. What the harness puts in order by itself is a warning.
    Several logs, or a folder of them, make a table, worst first; with --jsonl each log is a line of
    JSON that doesn't wait for the others. Nothing is written. The exit code is 0 where nothing was
    found, 1 where something was (with --strict a warning is enough), and 4 where a log can't be
    read; of several that one is a row with its error.
    """
    paths = options.found_logs(logs, demo=demo, jsonl=jsonl)
    if jsonl:
        return _stream(paths, strict=strict)
    alone = len(paths) == 1
    done = [Verified(outcome=verify(paths[0]))] if alone else [*_each(paths)]
    outcomes = [one.outcome for one in done]
    if json:
        io.emit_json(_json(outcomes, alone=alone, strict=strict))
    else:
        io.emit_text(_text(outcomes, alone=alone))
    return max(one.exit_code for one in done) or int(any(_fails(x, strict) for x in outcomes))


def _stream(paths: list[str], *, strict: bool) -> int:
    """Print each log's line when it is there; nothing is kept but what the exit code needs."""
    exit_code, found = 0, False
    with closing(_each(paths, stream=True)) as results:
        for one in results:
            io.emit_json({"schema": 1, "command": "verify", **_plain(one.outcome, strict)})
            io.flush()
            exit_code = max(exit_code, one.exit_code)
            found = found or _fails(one.outcome, strict)
    return exit_code or int(found)


def _fails(outcome: report.Outcome, strict: bool) -> bool:
    return isinstance(outcome, Report) and bool(outcome.findings or (strict and outcome.warnings))


def _each(paths: list[str], *, stream: bool = False) -> Generator[Verified]:
    from dsh_compact.cli import many

    return many.each(many.Job(_verified, _failed), paths, label="verifying", stream=stream)


def _verified(path: str) -> Verified:
    return Verified(outcome=verify(path))


def _failed(path: str, fault: DshcError) -> Verified:
    """A row in any case: an error is told."""
    return Verified(outcome=report.Failed(path=path, error=str(fault)), exit_code=fault.exit_code)


def _text(outcomes: list[report.Outcome], *, alone: bool) -> str:
    color = io.use_color()
    if alone:
        assert isinstance(outcomes[0], Report)
        return report.text(outcomes[0], color=color)
    return report.many(outcomes, width=io.console_width(), color=color)


def _json(outcomes: list[report.Outcome], *, alone: bool, strict: bool) -> dict[str, Any]:
    head = {"schema": 1, "command": "verify"}
    if alone:
        return {**head, **_plain(outcomes[0], strict)}
    return {**head, "logs": [_plain(one, strict) for one in report.in_order(outcomes)]}


def _plain(outcome: report.Outcome, strict: bool) -> dict[str, Any]:
    if isinstance(outcome, report.Failed):
        return {"log": outcome.path, "ok": False, "error": outcome.error}
    findings = (*outcome.findings, *outcome.warnings) if strict else outcome.findings
    return {
        "log": outcome.path,
        "ok": not findings,
        "format": outcome.format,
        "session_id": outcome.session_id,
        "lines": outcome.lines,
        "events": outcome.events,
        "generation": outcome.generation,
        "findings": [finding_json(finding) for finding in findings],
        "warnings": [] if strict else [finding_json(finding) for finding in outcome.warnings],
        "untold": outcome.untold,
    }
