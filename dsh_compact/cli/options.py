"""Arguments and options that several commands share, spelt and explained once."""

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from dsh_compact.cli import io
from dsh_compact.errors import LogError, UsageError
from dsh_compact.reader import STANDARD_INPUT, find_logs

DEMO_LOG: Final = Path(__file__).parent.parent / "data" / "session.jsonl"
"""The session that ships inside the package."""

Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text.")
]

JsonLines: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--jsonl", help="Print a line of JSON a log, as soon as it is known, in the given order."
    ),
]

Demo: TypeAlias = Annotated[
    bool, typer.Option("--demo", help="Use the session that ships with dshc instead of a LOG.")
]

Strict: TypeAlias = Annotated[
    bool,
    typer.Option("--strict", help="Check every byte, also of what the answer doesn't need."),
]

Junit: TypeAlias = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the result for CI, too.")
]

Window: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, metavar="TOKENS", help="The model's window; else the log tells."),
]


def named(path: str) -> Path:
    """Return the path that is meant by a LOG.

    An empty name is a shell's unset variable: for a Path it would mean the folder one is in. And a
    Path forgets the `./` by which a file called `-` is told from standard input.
    """
    if not path:
        raise UsageError("the LOG has an empty name", "name a file, or . for this folder")
    found = Path(path)
    is_file = str(found) == STANDARD_INPUT and path != STANDARD_INPUT
    return found.absolute() if is_file else found


Log: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="LOG",
        parser=named,
        show_default=False,
        help="A session log, its directory, or - for stdin.",
    ),
]

OptionalLog: TypeAlias = Annotated[
    Path | None,
    typer.Argument(
        metavar="[LOG]",
        parser=named,
        show_default=False,
        help="A session log, its directory, or - for stdin.",
    ),
]

LARGEST: Final = 1e12
"""No option is about more seconds or dollars than that; infinity and not-a-number are refused."""

Logs: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="LOG...",
        parser=named,
        show_default=False,
        help="Session logs, directories, or - for stdin.",
    ),
]


def finite(value: float | None) -> float | None:
    """Return the number that an option was given; raise `UsageError` where it is none."""
    if value is not None and not -LARGEST < value < LARGEST:
        raise UsageError(f"{value} is no number that could be meant", "give a finite one")
    return value


def seconds(help_: str) -> Any:
    """An option that is a time: at least a hundredth of a second, and finite."""
    return typer.Option(min=0.01, callback=finite, metavar="SECONDS", help=help_)


def log_or_demo(log: Path | None, *, demo: bool) -> Path:
    """Return the one log that is meant; raise `UsageError` when that is not exactly one."""
    return logs_or_demo([log] if log else [], demo=demo)[0]


def logs_or_demo(logs: list[Path] | None, *, demo: bool) -> list[Path]:
    """Return the logs that are meant: those named, or the built-in session; raise `UsageError`."""
    if demo and logs:
        raise UsageError("--demo stands in place of a LOG, and both were given", "leave one out")
    if not demo and not logs:
        raise UsageError("no LOG was given", "name a session log, or try --demo")
    if sum(str(log) == STANDARD_INPUT for log in logs or []) > 1:
        raise UsageError(
            "standard input was named twice, and can be read only once", "name it once"
        )
    return [DEMO_LOG] if demo else list(logs or [])


def found_logs(logs: list[Path] | None, *, demo: bool, jsonl: bool) -> list[str]:
    """Return all that the named logs and folders mean; raise `UsageError` and `LogError`.

    What a folder holds under a log's name and is no file is told in a notice. Of several, and where
    each log is to be a line, one that is none stays, to be a row with its error.
    """
    named_logs = [str(log) for log in logs_or_demo(logs, demo=demo)]
    if len(named_logs) == 1 and not jsonl:
        return [*_found(named_logs[0])]
    paths: list[str] = []
    for name in named_logs:
        try:
            paths += _found(name)
        except LogError:
            paths.append(name)
    return paths


def _found(path: str) -> tuple[str, ...]:
    logs, special = find_logs(path)
    for one in special:
        io.notice(f"{one}: is no file and was left out; a pipe is read where it is named itself")
    return logs
