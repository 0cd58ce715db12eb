"""`dshc measure`: how full the window is."""

from collections.abc import Generator, Sequence
from contextlib import closing
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from msgspec import Struct, to_builtins

from dsh_compact import config, tokenizers
from dsh_compact.cli import io, options
from dsh_compact.errors import DshcError, UsageError
from dsh_compact.measurement import Measurement, measure
from dsh_compact.policy import Policy
from dsh_compact.report import measure as report
from dsh_compact.session import Session, read_session
from dsh_compact.tokens import UNITS_PER_TOKEN

if TYPE_CHECKING:
    from dsh_compact.cli.progress import Progress

EXAMPLES = """
dshc measure session.v4.jsonl                    the bar, its parts, where the total comes from
dshc measure --window 128000 --check LOG         for CI: exit 1 when over the threshold
dshc measure ~/.dsh/sessions                     every session below, worst first
dshc measure --jsonl ~/.dsh/sessions | head      each as soon as it is known
dshc measure --tokenizer o200k_base LOG          exact counts beside the estimate
zstdcat session.jsonl.zstd | dshc measure --json -
"""


class Wishes(Struct, frozen=True, kw_only=True):
    """What the options ask of every log."""

    window_tokens: int | None
    strict: bool
    tokenizer: str | None
    alone: bool


class Measured(Struct, frozen=True, kw_only=True):
    """What came of one log, and what its user should know."""

    outcome: report.Outcome
    notices: tuple[str, ...] = ()
    exit_code: int = 0


class Judgement(NamedTuple):
    """What the exit code needs to know of one log; `over_threshold` is None without a window."""

    log: str
    exit_code: int
    over_threshold: bool | None


def command(
    logs: options.Logs = None,
    *,
    window: options.Window = None,
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
    jsonl: options.JsonLines = False,
) -> int:
    """Tell how full the window is: baseline, surface, threshold, pressure.

    The window is what --window or the configuration says, else what a provider's refusal said, else
    what the log says, else what is known of a well-known model. Several logs, or a folder of them,
    make a table, worst first; a log that can't be read is a row with its error, and the exit code
    is 4. With --check the exit code is 1 when a log is over its threshold, else 2 when a window
    is unknown. With --jsonl each log is a line of JSON that doesn't wait for the others. Nothing is
    written.
    """
    paths = options.found_logs(logs, demo=demo, jsonl=jsonl)
    alone = len(paths) == 1 and not jsonl
    wishes = Wishes(window_tokens=window, strict=strict, tokenizer=tokenizer, alone=alone)
    if tokenizer is not None:
        _tokenizer(tokenizer, alone=alone)  # what is missing is told once, and processes inherit it
    if jsonl:
        judgements = _stream(paths, wishes)
    else:
        done = [_one(paths[0], wishes)] if alone else [*_each(paths, wishes)]
        for one in done:
            _tell(one)
        outcomes = [one.outcome for one in done]
        if json:
            io.emit_json(_json(outcomes, alone=alone))
        else:
            io.emit_text(_text(outcomes, alone=alone))
        judgements = [_judgement(one) for one in done]
    return max(one.exit_code for one in judgements) or (_checked(judgements) if check else 0)


def _stream(paths: list[str], wishes: Wishes) -> list[Judgement]:
    """Print each log's line when it is there; nothing is kept but what the exit code needs."""
    judgements = []
    with closing(_each(paths, wishes, stream=True)) as results:
        for one in results:
            _tell(one)
            io.emit_json({"schema": 1, "command": "measure", **_plain(one.outcome)})
            io.flush()
            judgements.append(_judgement(one))
    return judgements


def _tell(one: Measured) -> None:
    for notice in one.notices:
        io.notice(notice)


def _one(path: str, wishes: Wishes) -> Measured:
    if wishes.tokenizer is None:
        return _measured(path, wishes)
    from dsh_compact.cli.progress import Progress

    with Progress(f"counting with {wishes.tokenizer}") as bar:
        return _measured(path, wishes, bar)


def _measured(path: str, wishes: Wishes, bar: "Progress | None" = None) -> Measured:
    name = wishes.tokenizer
    tokenizer = None if name is None else _tokenizer(name, alone=wishes.alone)
    with read_session(path, strict=wishes.strict) as session:
        policy = _policy(session, wishes.window_tokens)
        if bar is not None:
            bar.expect(session.pressure().surface_tokens * UNITS_PER_TOKEN)
        progress = None if bar is None else bar.advance
        found = measure(session, policy, tokenizer=tokenizer, progress=progress)
        return Measured(outcome=found, notices=(*session.notices, *_notices(found)))


@cache
def _tokenizer(name: str, *, alone: bool) -> tokenizers.Tokenizer:
    """For one log in as many threads as help; for many in one, since each core has its process.

    Many logs have texts in common: the system prompt, the tools, a session's fork.
    """
    if alone:
        return tokenizers.load(name)
    from dsh_compact.tokenizers.cache import CountCache

    return CountCache(tokenizers.load(name, threads=1))


def _policy(session: Session, window_tokens: int | None) -> Policy:
    """What is in force for the log's provider and model; a configured window counts as a flag."""
    header = session.newest_header
    provider, model = (None, None) if header is None else (header.provider, header.model)
    return config.resolve(session.path, provider, model, {"window_tokens": window_tokens}).policy


def _each(paths: list[str], wishes: Wishes, *, stream: bool = False) -> Generator[Measured]:
    from dsh_compact.cli import many

    job = many.Job(partial(_measured, wishes=wishes), _failed)
    return many.each(job, paths, label="measuring", stream=stream)


def _failed(path: str, fault: DshcError) -> Measured:
    """A row in any case: an error is told."""
    return Measured(outcome=report.Failed(log=path, error=str(fault)), exit_code=fault.exit_code)


def _notices(measured: Measurement) -> list[str]:
    ignored = measured.ignored_reservation_tokens
    if ignored is None:
        return []
    reserves = f"the request header reserves {ignored:,} tokens for the answer"
    nothing = f"which leaves nothing of the window of {measured.window_tokens:,}"
    return [f"{measured.log}: {reserves}, {nothing}: the reservation is ignored"]


def _judgement(one: Measured) -> Judgement:
    over = one.outcome.over_threshold if isinstance(one.outcome, Measurement) else False
    return Judgement(one.outcome.log, one.exit_code, over)


def _checked(judgements: Sequence[Judgement]) -> int:
    """1 where a log is over its threshold, 2 where none is but a window is unknown, else 0."""
    if any(one.over_threshold for one in judgements):
        return 1
    if unknown := [one.log for one in judgements if one.over_threshold is None]:
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
