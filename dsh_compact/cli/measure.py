"""`dshc measure`: how full the window is."""

from functools import partial
from typing import Annotated, Any

import typer
from msgspec import Struct, to_builtins

from dsh_compact import config, tokenizers
from dsh_compact.cli import io, options
from dsh_compact.errors import DshcError, LogError, UsageError
from dsh_compact.measurement import Measurement, measure
from dsh_compact.policy import Policy
from dsh_compact.reader import find_logs
from dsh_compact.report import measure as report
from dsh_compact.session import Session, read_session

EXAMPLES = """
dshc measure session.v4.jsonl                    the bar, its parts, where the total comes from
dshc measure --window 128000 --check LOG         for CI: exit 1 when over the threshold
dshc measure ~/.dsh/sessions                     every session below, worst first
dshc measure --tokenizer o200k_base LOG          exact counts beside the estimate
zstdcat session.jsonl.zstd | dshc measure --json -
"""


class Wishes(Struct, frozen=True, kw_only=True):
    """What the options ask of every log."""

    window_tokens: int | None
    strict: bool
    tokenizer: str | None


class Measured(Struct, frozen=True, kw_only=True):
    """What came of one log, and what its user should know."""

    outcome: report.Outcome
    notices: tuple[str, ...] = ()
    exit_code: int = 0


def command(
    logs: options.Logs = None,
    *,
    window: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="The model's window; else the log tells."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 when a log is over its threshold.")
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Count exactly, too: {', '.join(tokenizers.NAMES)}."),
    ] = None,
    strict: options.Strict = False,
    demo: options.Demo = False,
    json: options.Json = False,
) -> int:
    """Tell how full the window is: baseline, surface, threshold, pressure.

    The window is what --window or the configuration says, else what a provider's refusal said, else
    what the log says, else what is known of a well-known model. Several logs, or a folder of them,
    make a table, worst first; a log that can't be read is a row with its error, and the exit code
    is 4. With --check the exit code is 1 when a log is over its threshold, and 2 when a window is
    unknown. Nothing is written.
    """
    paths = _paths([str(log) for log in options.logs_or_demo(logs, demo=demo)])
    if tokenizer is not None:
        tokenizers.load(tokenizer)  # what is missing is told once, and processes inherit it
    wishes = Wishes(window_tokens=window, strict=strict, tokenizer=tokenizer)
    done = [_one(paths[0], wishes)] if len(paths) == 1 else _many(paths, wishes)
    for notice in (notice for one in done for notice in one.notices):
        io.notice(notice)
    outcomes = [one.outcome for one in done]
    if json:
        io.emit_json(_json(outcomes, alone=len(paths) == 1))
    else:
        io.emit_text(_text(outcomes, alone=len(paths) == 1))
    return max(one.exit_code for one in done) or (_checked(outcomes) if check else 0)


def _paths(named: list[str]) -> list[str]:
    """The logs that are meant; of several, one that is none becomes a row of its own."""
    if len(named) == 1:
        return [*find_logs(named[0])]
    paths: list[str] = []
    for name in named:
        try:
            paths += find_logs(name)
        except LogError:
            paths.append(name)
    return paths


def _one(path: str, wishes: Wishes) -> Measured:
    if wishes.tokenizer is None:
        return _measured(path, wishes)
    from dsh_compact.cli.progress import Progress

    with Progress(f"counting with {wishes.tokenizer}") as bar:
        return _measured(path, wishes, bar.advance)


def _measured(path: str, wishes: Wishes, progress: tokenizers.Progress | None = None) -> Measured:
    tokenizer = None if wishes.tokenizer is None else tokenizers.load(wishes.tokenizer)
    with read_session(path, strict=wishes.strict) as session:
        policy = _policy(session, wishes.window_tokens)
        found = measure(session, policy, tokenizer=tokenizer, progress=progress)
        return Measured(outcome=found, notices=(*session.notices, *_notices(found)))


def _policy(session: Session, window_tokens: int | None) -> Policy:
    """What is in force for the log's provider and model; a configured window counts as a flag."""
    header = session.newest_header
    provider, model = (None, None) if header is None else (header.provider, header.model)
    return config.resolve(session.path, provider, model, {"window_tokens": window_tokens}).policy


def _many(paths: list[str], wishes: Wishes) -> list[Measured]:
    from dsh_compact.cli.many import each

    return [done for _, done in each(partial(_or_error, wishes), paths, label="measuring")]


def _or_error(wishes: Wishes, path: str) -> Measured:
    """A row in any case: an error is told, and does not cross a process's border."""
    try:
        return _measured(path, wishes)
    except DshcError as fault:
        failed = report.Failed(log=path, error=str(fault))
        return Measured(outcome=failed, exit_code=fault.exit_code)


def _notices(measured: Measurement) -> list[str]:
    ignored = measured.ignored_reservation_tokens
    if ignored is None:
        return []
    reserves = f"the request header reserves {ignored:,} tokens for the answer"
    nothing = f"which leaves nothing of the window of {measured.window_tokens:,}"
    return [f"{measured.log}: {reserves}, {nothing}: the reservation is ignored"]


def _checked(outcomes: list[report.Outcome]) -> int:
    """1 where a log is over its threshold, 2 where none is but a window is unknown, else 0."""
    measured = [one for one in outcomes if isinstance(one, Measurement)]
    if any(one.over_threshold for one in measured):
        return 1
    if unknown := [one.log for one in measured if one.over_threshold is None]:
        raise UsageError(
            f"{unknown[0]}: nothing to check against: its window is unknown",
            'name it with "--window"',
        )
    return 0


def _text(outcomes: list[report.Outcome], *, alone: bool) -> str:
    width, color = io.console_width(), io.use_color()
    if alone:
        assert isinstance(outcomes[0], Measurement)
        return report.text(outcomes[0], width=width, color=color)
    return report.many(outcomes, width=width, color=color)


def _json(outcomes: list[report.Outcome], *, alone: bool) -> dict[str, Any]:
    head = {"schema": 1, "command": "measure"}
    if alone:
        return {**head, **_plain(outcomes[0])}
    return {**head, "logs": [_plain(one) for one in report.in_order(outcomes)]}


def _plain(outcome: report.Outcome) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(outcome)
    if plain.get("tokenizer", ...) is None:
        del plain["tokenizer"]
    return plain
