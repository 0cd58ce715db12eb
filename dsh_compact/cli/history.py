"""`dshc history`: what was replaced, when, and to how much."""

from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from time import sleep
from typing import Annotated, Any, Final

import typer
from msgspec import to_builtins

from dsh_compact.cli import io, options
from dsh_compact.errors import Damage, DamagedLog, UnreadableLog, UsageError
from dsh_compact.history import WANTED, History, Recorder, Row, read_history
from dsh_compact.reader import STANDARD_INPUT
from dsh_compact.report import history as report
from dsh_compact.session import Session, read_session

EXAMPLES = """
dshc history session.v4.jsonl                    one row a replacement, refusal, failed attempt
dshc history --follow LOG                        new rows while another process writes
dshc history --json LOG | jq '.replacements[-1].tokens_after'
"""

POLL_SECONDS: Final = 0.25
"""How often a followed log is looked at: soon enough for a person, nothing for the machine."""


def command(
    log: options.OptionalLog = None,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on, with each new row as it is written.")
    ] = False,
    strict: options.Strict = False,
    demo: options.Demo = False,
    json: options.Json = False,
) -> int:
    """Tell what became of the conversation: every replacement, every failed attempt.

    One row a replacement with its generation, the messages folded, and their tokens before and
    after, estimated; between them the requests that were refused as too long, the attempts that
    failed, and the answers that came. With --follow new rows are printed while another process
    writes, until Ctrl-C; with --json each is then a line of its own. Nothing is written.
    """
    path = options.log_or_demo(log, demo=demo)
    if follow:
        return _follow(path, strict=strict, json=json)
    history = read_history(path, strict=strict)
    for notice in history.notices:
        io.notice(notice)
    if json:
        io.emit_json(_json(history))
    else:
        io.emit_text(report.text(history, width=io.console_width(), color=io.use_color()))
    return 0


# Following ----------------------------------------------------------------------------------------


def _follow(path: Path, *, strict: bool, json: bool) -> int:
    """Print rows as they are written, for ever: Ctrl-C is the way out."""
    if str(path) == STANDARD_INPUT or _is_special(path):
        raise UsageError(f"{path}: only a file can be followed", "leave out --follow")
    while True:
        recorder = Recorder(strict=strict)
        with read_session(path, wanted=WANTED, strict=strict, watch=recorder) as session:
            for notice in session.notices:
                io.notice(notice)
            reason = _follow_one(session, recorder, json=json)
        io.notice(f"{path}: {reason}: reading it anew")
        _wait_for(path)


def _is_special(path: Path) -> bool:
    """What cannot be looked at is for the reader to tell."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (S_ISREG(mode) or S_ISDIR(mode))


def _follow_one(session: Session, recorder: Recorder, *, json: bool) -> str:
    """Print the rows of one file until it is lost; return why it was."""
    while True:
        for row in recorder.take(session):
            _print(row, session.path, json=json)
        io.flush()
        io.check_reader()
        sleep(POLL_SECONDS)
        if (reason := session.lost()) is not None:
            return reason
        session.catch_up()


def _print(row: Row, log: str, *, json: bool) -> None:
    if json:
        io.emit_json({"schema": 1, "command": "history", "log": log, **to_builtins(row)})
    else:
        io.emit_text(report.line(row, width=io.console_width(), color=io.use_color()))


def _wait_for(path: Path) -> None:
    """Return once there is a log again; who puts a new one there may need a moment.

    What is no file, such as a pipe, is no log: opening it could take for ever.
    """
    while _is_special(path) or not _begins(path):
        io.check_reader()
        sleep(POLL_SECONDS)


def _begins(path: Path) -> bool:
    """Whether a session's header stands there."""
    try:
        with read_session(path, until=lambda _: True):
            return True
    except UnreadableLog:
        return False
    except DamagedLog as fault:
        if fault.damage is not Damage.HEADER_MISSING:
            raise
        return False


def _json(history: History) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": "history",
        "log": history.log,
        "format": history.format,
        "session_id": history.session_id,
        "generation": history.generation,
        "replacements": _plain(history.replacements),
        "attempts": _plain(history.attempts),
        "refusals": _plain(history.refusals),
        "answers": _plain(history.answers),
        "turns_lost": _plain(history.turns_lost),
        "unfinished": to_builtins(history.unfinished),
        "totals": to_builtins(history.totals),
    }


def _plain(rows: Sequence[Row]) -> Any:
    return to_builtins(rows)
