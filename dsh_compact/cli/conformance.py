"""`dshc conformance`: a backend's scorecard."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dsh_compact import config, conformance
from dsh_compact.backends import Backend, configured
from dsh_compact.backends.running import run_here, run_isolated
from dsh_compact.cli import backend_options, io, options
from dsh_compact.cli.progress import Progress
from dsh_compact.conformance import Case, Scorecard
from dsh_compact.errors import UsageError
from dsh_compact.reader import is_pipe
from dsh_compact.report import conformance as report

EXAMPLES = """
dshc conformance --backend ./mine.py:Mine        all built-in sessions, all faults
dshc conformance --backend lying                 what a scorecard of a liar looks like
dshc conformance --backend mine:Mine --junit report.xml SESSION.jsonl
"""


def command(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[LOG]...",
            parser=options.named,
            show_default=False,
            help="Logs to try beside those.",
        ),
    ] = None,
    *,
    backend: backend_options.Backend = None,
    summarizer: backend_options.Summarizer = None,
    timeout: Annotated[
        float, options.seconds("How long each of its runs may take.")
    ] = conformance.DEFAULT_TIMEOUT_SECONDS,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Run the backend in a process of its own.")
    ] = False,
    junit_file: options.Junit = None,
    trust: backend_options.Trust = False,
    json: options.Json = False,
) -> int:
    """Run a backend through sessions and faults, and print its scorecard.

    The sessions have open turns, stale brackets, parallel calls, hostile text, nothing to fold, and
    so on; the faults are a disk that fails at its first operation, at its second, and so on until
    the backend is done, a time that is over before it begins, and a request that is cancelled once
    the backend has written. Each case is a rehearsal on a copy, with a fresh backend. Judged is
    what stands on disk afterwards, what the backend said of it, and when. The exit code is 1 where
    a rule was broken.
    """
    for log in logs or []:
        if is_pipe(str(log)):
            raise UsageError(
                f"{log}: each case begins with the log anew, and a pipe can be read only once",
                "save it, and name the file",
            )
    settings = config.load("-", {"backend": backend, "summarizer": summarizer})
    resolved = settings.resolve(None, None)
    is_trusted = config.is_trusted(trust)

    def make() -> Backend:
        return configured.load(resolved, is_trusted=is_trusted)

    wishes = conformance.Wishes(
        policy=resolved.policy,
        timeout_seconds=timeout,
        run=run_isolated if isolate else run_here,
    )
    make()  # wrong usage is told before anything is played
    with Progress(f"trying {resolved.policy.backend}") as bar, io.guests():
        card = conformance.run(make, logs or [], wishes=wishes, progress=bar.advance)
    if junit_file is not None:
        io.write_file(str(junit_file), report.xml(card))
    if json:
        io.emit_json(_json(card))
    else:
        io.emit_text(report.text(card, width=io.console_width(), color=io.use_color()))
    return 0 if card.ok else 1


def _json(card: Scorecard) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": "conformance",
        "log": None,
        "backend": card.backend,
        "ok": card.ok,
        "cases": [_plain(case) for case in card.cases],
    }


def _plain(case: Case) -> dict[str, Any]:
    return {
        "session": case.session,
        "fault": case.fault.kind,
        "operation": case.fault.operation or None,
        "ok": not case.violations,
        "violations": [{"rule": one.rule, "detail": one.detail} for one in case.violations],
        "made_room": case.made_room,
        "seconds": round(case.seconds, 3),
    }
