"""`dshc recover`: an overflow rehearsed, and what the ledger says of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import Struct, to_builtins

from dsh_compact import config, copies, simulate, tokenizers
from dsh_compact.backends import configured
from dsh_compact.backends.lookup import is_foreign
from dsh_compact.backends.running import run_here, run_isolated, words_of
from dsh_compact.cli import backend_options, io, options, wall_options
from dsh_compact.config import Config, Resolved
from dsh_compact.errors import LogError, UsageError
from dsh_compact.events import Failure
from dsh_compact.floor import Floor
from dsh_compact.measurement import window_of
from dsh_compact.policy import budgets
from dsh_compact.recovery import DEFAULT_TIMEOUT_SECONDS
from dsh_compact.report import recover as report
from dsh_compact.report.junit import Case, junit
from dsh_compact.session import Session, open_session
from dsh_compact.simulate import Rehearsal, Rehearsed
from dsh_compact.tokenizers import Tokenizer
from dsh_compact.tokenizers.cache import CountCache
from dsh_compact.wall import Refuse, Wall, as_told, in_words_of, like_provider

EXAMPLES = """
dshc recover --backend lying                     on the built-in session: nothing moved, no retry
dshc recover                                     the same with the standard backend
dshc recover LOG --backend ./mine.py:Mine --expect retry          for CI
dshc recover --backend one-token --compare       what three disciplines make of it
dshc recover LOG --error refusal.json --limit 32000
"""

COMPARED: Final = ("proof", "breaker:3", "trust")
"""What `--compare` sets side by side, the one that decides first."""

NOT_RECOVERED: Final = 3


class Expectation(StrEnum):
    """What `--expect` may ask for."""

    RETRY = "retry"
    PRESERVE = "preserve"
    RECOVERED = "recovered"


class Wishes(Struct, frozen=True, kw_only=True):
    """What the options ask of every rehearsal of one call."""

    source: Path | bytes
    label: str
    settings: Config
    is_trusted: bool
    in_place: bool
    keep: Path | None
    tokenizer: Tokenizer
    limit_tokens: int | None
    told: Failure | None
    like: str | None
    is_silent: bool
    is_isolated: bool | None
    timeout_seconds: float
    max_requests: int


def command(
    log: options.OptionalLog = None,
    *,
    backend: backend_options.Backend = None,
    summarizer: backend_options.Summarizer = None,
    discipline: Annotated[
        str,
        typer.Option(metavar="NAME", help="Who decides on a retry: proof, breaker:N or trust."),
    ] = "proof",
    compare: Annotated[
        bool, typer.Option("--compare", help="The same backend under all three disciplines.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="Where the wall stands; else the log tells."),
    ] = None,
    tokenizer: Annotated[
        str,
        typer.Option(
            metavar="NAME", help=f"How the provider counts: {', '.join(tokenizers.NAMES)}."
        ),
    ] = tokenizers.NAMES[0],
    error: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Refuse in the words of this error, as it came."),
    ] = None,
    error_like: wall_options.ErrorLike = None,
    silent: wall_options.Silent = False,
    max_requests: Annotated[
        int, typer.Option(min=1, metavar="N", help="Where trust is stopped; in life it is not.")
    ] = simulate.DEFAULT_MAX_REQUESTS,
    timeout: Annotated[
        float, options.seconds("How long the backend may take.")
    ] = DEFAULT_TIMEOUT_SECONDS,
    isolate: Annotated[
        bool | None,
        typer.Option(
            "--isolate/--no-isolate",
            help="Run the backend in a process of its own; foreign code does unless told not to.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(
            min=0, callback=options.finite, metavar="USD", help="What a million input tokens cost."
        ),
    ] = None,
    expect: Annotated[
        Expectation | None,
        typer.Option(
            metavar="OUTCOME",
            help="Exit 0 if it comes out like that, else 1: retry, preserve or recovered.",
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Work on the log itself, not on a copy.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="COPY", help="Leave the copy there: a new file."),
    ] = None,
    junit_file: options.Junit = None,
    trust: backend_options.Trust = False,
    json: options.Json = False,
) -> int:
    """Rehearse an overflow: one turn against a provider with a wall, and a backend to the rescue.

    The provider counts with a real tokenizer while the session estimates, as in life. Its refusal
    is followed by the decision: the generation is read from the file, the backend works, the file
    is read again; only where it has grown is the request sent once more. What the backend says is
    shown and not believed. Without LOG it plays on the built-in session, whose estimate is below
    the threshold while the provider counts more than its window; the log is copied first, and the
    copy thrown away, unless --keep or --in-place ask for something else. Exit code 0 where the
    request was answered in the end, 3 where the original error was reported; with --expect, 0 where
    it came out as expected and 1 where it did not.
    """
    _check(
        log,
        in_place=in_place,
        keep=keep,
        compare=compare,
        error=error,
        like=error_like,
        junit_file=junit_file,
    )
    wishes = Wishes(
        source=_source(log),
        label=report.BUILT_IN if log is None else str(log),
        settings=config.load(
            "-" if log is None else str(log), {"backend": backend, "summarizer": summarizer}
        ),
        is_trusted=config.is_trusted(trust),
        in_place=in_place,
        keep=keep,
        tokenizer=CountCache(tokenizers.load(tokenizer)),
        limit_tokens=limit,
        told=None if error is None else _failure_in(error),
        like=error_like,
        is_silent=silent,
        is_isolated=isolate,
        timeout_seconds=timeout,
        max_requests=max_requests,
    )
    names = COMPARED if compare else (discipline,)
    played = [_play(name, wishes) for name in names]
    _notices(played)
    code, complaint = _judged(played[0].rehearsed, expect)
    if junit_file is not None:
        _write_junit(junit_file, played[0], complaint)
    if json:
        io.emit_json(_json(log, played, price=price, wishes=wishes))
    else:
        io.emit_text(
            report.text(played, price_usd=price, width=io.console_width(), color=io.use_color())
        )
    if expect is not None and complaint:
        io.notice(complaint)
    return code


def _check(
    log: Path | None,
    *,
    in_place: bool,
    keep: Path | None,
    compare: bool,
    error: Path | None,
    like: str | None,
    junit_file: Path | None,
) -> None:
    """Raises `UsageError` for options that contradict each other, before anything is touched."""
    if error is not None and like is not None:
        raise UsageError("--error and --error-like were both given", "keep one of the two")
    if like is not None:
        in_words_of(like)  # says which there are
    if in_place and log in (None, Path("-")):
        raise UsageError("--in-place needs a LOG that can be written to", "name its file")
    if in_place and keep is not None:
        raise UsageError("--in-place makes no copy that --keep could leave", "keep one of the two")
    if compare and (in_place or keep is not None):
        raise UsageError("--compare works on three copies and leaves none", "leave one out")
    if keep is not None:
        copies.check_free(str(keep))
    if junit_file is not None and not os.path.isdir(junit_file.parent):  # noqa: PTH112
        raise UsageError(f"{junit_file}: its folder is not there, or is closed", "make it first")


def _source(log: Path | None) -> Path | bytes:
    if log is None:
        return copies.BUILT_IN
    return io.read_input() or b"" if str(log) == "-" else log


def _refuse(wishes: Wishes, session: Session) -> Refuse:
    """How the provider words its refusal: as it was asked for, else as the session's own does."""
    if wishes.told is not None:
        return as_told(wishes.told)
    header = session.newest_header
    provider = None if header is None else header.provider
    return in_words_of(wishes.like or like_provider(provider))


def _failure_in(path: Path) -> Failure:
    from dsh_compact.overflow import parse_failure

    return parse_failure(io.read_file(str(path)).decode("utf-8", "backslashreplace"))


# One rehearsal ------------------------------------------------------------------------------------


def _play(discipline: str, wishes: Wishes) -> report.Scene:
    with _stage(wishes) as path, open_session(path) as session:
        resolved = wishes.settings.resolve_for(session.newest_header)
        made = configured.load(resolved, is_trusted=wishes.is_trusted)
        isolate = wishes.is_isolated
        if isolate is None:
            isolate = is_foreign(resolved.policy.backend)
        run = run_isolated if isolate else run_here
        decide = simulate.discipline(
            discipline, made, resolved.policy, timeout_seconds=wishes.timeout_seconds, run=run
        )
        wall = _wall(session, resolved, wishes)
        nodes, threshold = len(session.surface), _threshold(session, resolved)
        rehearsal = Rehearsal(
            session,
            wishes.tokenizer,
            wall,
            decide,
            backend=made.name,
            max_requests=wishes.max_requests,
        )
        with io.guests():
            rehearsed = rehearsal.play()
        notices = session.notices
    _check_refused(rehearsed)
    return report.Scene(
        label=wishes.label,
        is_copy=not wishes.in_place,
        tokenizer=wishes.tokenizer.name,
        nodes=nodes,
        threshold_tokens=threshold,
        rehearsed=rehearsed,
        notices=(*notices, *rehearsed.notices),
    )


@contextmanager
def _stage(wishes: Wishes) -> Iterator[str]:
    """The log that a rehearsal plays on: the user's own, or a copy that is gone (or kept) after."""
    if wishes.in_place:
        assert isinstance(wishes.source, Path)
        yield str(wishes.source)
        return
    with copies.private_copy(wishes.source) as path:
        try:
            yield path
        except LogError as fault:  # the user knows the log, not its copy
            fault.path = fault.path.replace(path, wishes.label)
            fault.problem = fault.problem.replace(path, wishes.label)
            fault.remedy = fault.remedy.replace(path, wishes.label)
            raise
        if wishes.keep is not None:
            copies.keep(path, str(wishes.keep))


def _wall(session: Session, resolved: Resolved, wishes: Wishes) -> simulate.MakeWall:
    known = window_of(session.pressure(), resolved.policy.window_tokens).tokens
    refuse = _refuse(wishes, session)

    def make(requested_tokens: int) -> Wall:
        limit = wishes.limit_tokens or simulate.default_limit(requested_tokens, known)
        return Wall(limit_tokens=limit, refuse=refuse, is_silent=wishes.is_silent)

    return make


def _threshold(session: Session, resolved: Resolved) -> int | None:
    pressure = session.pressure()
    window = window_of(pressure, resolved.policy.window_tokens).tokens
    if window is None:
        return None
    reserved = None if pressure.header is None else pressure.header.max_tokens
    return budgets(resolved.policy, window, reserved).threshold_tokens


def _check_refused(rehearsed: Rehearsed) -> None:
    first = rehearsed.requests[0]
    if first.outcome == "answered":
        raise UsageError(
            f"the request has {first.tokens:,} tokens and the wall stands at"
            f" {rehearsed.limit_tokens:,}: nothing is refused, so nothing can be rehearsed",
            "choose a lower --limit",
        )


# What came of it ----------------------------------------------------------------------------------


def _judged(rehearsed: Rehearsed, expect: Expectation | None) -> tuple[int, str]:
    """The exit code, and why it is none of success; empty where it is."""
    found = f"the decision was {rehearsed.decision}, " + (
        "the request was answered" if rehearsed.recovered else "the overflow was not recovered"
    )
    if expect is None:
        return (0, "") if rehearsed.recovered else (NOT_RECOVERED, found)
    is_met = rehearsed.recovered if expect == "recovered" else rehearsed.decision == expect
    return (0, "") if is_met else (1, f"expected {expect}: {found}")


def _notices(played: list[report.Scene]) -> None:
    told: list[str] = []
    for notice in (notice for scene in played for notice in scene.notices):
        if notice not in told:
            told.append(notice)
            io.notice(notice)


def _write_junit(path: Path, scene: report.Scene, complaint: str) -> None:
    case = Case(
        name=f"{scene.rehearsed.backend} on {scene.label}",
        group="dshc recover",
        failure=complaint,
        details=report.text([scene]),
    )
    io.write_file(str(path), junit("dshc recover", [case]))


def _json(
    log: Path | None, played: list[report.Scene], *, price: float | None, wishes: Wishes
) -> dict[str, Any]:
    plain = _plain(played[0], price)
    if len(played) > 1:
        plain["compared"] = [_plain(scene, price) for scene in played]
    return {
        "schema": 1,
        "command": "recover",
        "log": None if log is None else str(log),
        "in_place": wishes.in_place,
        "copy": None if wishes.keep is None else str(wishes.keep),
        **plain,
    }


def _plain(scene: report.Scene, price: float | None) -> dict[str, Any]:
    done = scene.rehearsed
    failure, attempt = done.failure, done.attempt
    money = {
        "sent_usd": None if price is None else report.usd(done.sent_tokens, price),
        "wasted_usd": None if price is None else report.usd(done.wasted_tokens, price),
    }
    return {
        "backend": done.backend,
        "discipline": done.discipline,
        "tokenizer": scene.tokenizer,
        "limit_tokens": done.limit_tokens,
        "estimated_tokens": done.estimated_tokens,
        "threshold_tokens": scene.threshold_tokens,
        "generation_before": done.generation_before,
        "generation_after": done.generation_after,
        "decision": done.decision,
        "verdict": done.verdict,
        "recovered": done.recovered,
        "requests": [
            {
                "number": one.number,
                "tokens": one.tokens,
                "outcome": one.outcome,
                "generation": one.generation,
                "dropped_tokens": one.dropped_tokens,
            }
            for one in done.requests
        ],
        "decisions": [_plain_decision(one) for one in done.decisions],
        "invalid_retries": done.invalid_retries,
        "sent_tokens": done.sent_tokens,
        "wasted_tokens": done.wasted_tokens,
        **money,
        "stopped_at": done.stopped_at,
        "forecast_tokens": None if attempt is None else attempt.forecast_tokens,
        "floor": None if attempt is None or attempt.floor is None else _plain_floor(attempt.floor),
        "error": None
        if failure is None
        else {"code": failure.code, "message": failure.message, "status": failure.status},
    }


def _plain_decision(one: simulate.Decided) -> dict[str, Any]:
    return {
        "decision": "retry" if one.retry else "preserve",
        "reason": one.reason,
        "generation_before": one.generation_before,
        "generation_after": one.generation_after,
        "rounds": [
            {
                "claim": None if it.claim is None else to_builtins(it.claim),
                "error": None if it.error is None else words_of(it.error),
                "timed_out": it.timed_out,
                "generation": it.generation,
            }
            for it in one.rounds
        ],
    }


def _plain_floor(floor: Floor) -> dict[str, Any]:
    return {
        "system_tokens": floor.system_tokens,
        "tools_tokens": floor.tools_tokens,
        "messages_tokens": floor.messages_tokens,
        "largest": [
            {"seq": one.seq, "kind": one.kind, "tokens": one.tokens} for one in floor.largest
        ],
    }
