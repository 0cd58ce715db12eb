"""`dshc compact`: the pressure path, now."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import to_builtins

from dsh_compact import config, pressure
from dsh_compact.backends import Backend, configured, lookup
from dsh_compact.backends.running import words_of
from dsh_compact.cli import backend_options, io, options
from dsh_compact.cli.progress import Progress
from dsh_compact.config import Config, Resolved
from dsh_compact.errors import BackendFailed, LogError, NotAdmitted, UsageError, WriteFailed
from dsh_compact.measurement import window_of
from dsh_compact.policy import Policy
from dsh_compact.pressure import Outcome, Size, Wishes
from dsh_compact.report import compact as report
from dsh_compact.session import Session, WritableSession, open_session
from dsh_compact.surface import Surface
from dsh_compact.trial import AtMost, TrialSession, open_trial

if TYPE_CHECKING:
    from dsh_compact.summarizers.facts import FactsReport

EXAMPLES = """
dshc compact session.v4.jsonl                    fold the head, if the threshold is reached
dshc compact --dry-run --force LOG               the plan: what goes, what stays, tokens
dshc compact --force --keep-last 6 LOG           all but the newest six messages
dshc compact --summarizer openai --instructions 'keep every file name' LOG
"""

PLANNED: Final = ("standard", "prune-only", "drop-oldest")
"""Backends that touch nothing but their workbench, so that a trial shows what they would do."""


def command(
    log: options.Log,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Act below the threshold, and after a failed attempt.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan; write nothing, take no lock.")
    ] = False,
    window: options.Window = None,
    retain_tokens: Annotated[
        int | None,
        typer.Option(min=0, metavar="TOKENS", help="Keep a tail of that many tokens as it is."),
    ] = None,
    keep_last: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep the newest N messages as they are."),
    ] = None,
    backend: backend_options.Backend = None,
    summarizer: backend_options.Summarizer = None,
    instructions: Annotated[
        str, typer.Option(metavar="TEXT", help="What the summary should take care of.")
    ] = "",
    check_facts: Annotated[
        bool, typer.Option("--check-facts", help="Count which facts of what was folded remain.")
    ] = False,
    trust: backend_options.Trust = False,
    json: options.Json = False,
) -> int:
    """Take the pressure path now: fold the conversation's head into a summary, provably.

    At the threshold or above, or with --force, long tool results are pruned and the oldest messages
    folded into one checkpoint; the newest stay as they are. It is appended to the log under the
    harness's own lock, each step flushed before it counts, and what is reported was read back from
    the file. Below the threshold nothing happens, and the exit code is 0; it is
    1 where nothing could go although it was asked for, 5 where the backend failed, 4 where another
    process owns the log.
    """
    if retain_tokens is not None and keep_last is not None:
        raise UsageError("--retain-tokens and --keep-last were both given", "keep one of the two")
    flags = {
        "window_tokens": window,
        "retain_tokens": retain_tokens,
        "backend": backend,
        "summarizer": summarizer,
    }
    settings = config.load(str(log), flags)
    facts = None
    with open_trial(log) if dry_run else open_session(log) as session:
        before = session.surface
        resolved = _resolved(settings, session)
        made, is_bound = _backend(resolved, is_trusted=config.is_trusted(trust), dry_run=dry_run)
        with Progress("writing the summary") as bar:
            wishes = Wishes(
                force=force,
                keep_last=keep_last,
                keeps_tail=retain_tokens is not None,
                instructions=instructions,
                timeout_seconds=_timeout_seconds(resolved.policy),
                progress=bar.advance,
            )
            if isinstance(session, TrialSession):
                outcome = pressure.plan(session, resolved.policy, made, wishes)
            else:
                outcome = pressure.run(session, resolved.policy, made, wishes)
        if check_facts and not is_bound:
            facts = _facts(session, before, outcome)
    if outcome.reason == pressure.NO_WINDOW:
        raise UsageError(f"{log}: {outcome.reason}", 'name it with "--window", or say --force')
    for notice in _notices(session, outcome):
        io.notice(notice)
    if json:
        shown = _json(session, outcome, made.name, is_plan=dry_run, is_bound=is_bound)
        io.emit_json(shown if facts is None else {**shown, "facts": _plain_facts(facts)})
    else:
        io.emit_text(
            report.text(
                session.path,
                session.header,
                outcome,
                facts=facts,
                is_plan=dry_run,
                is_bound=is_bound,
                width=io.console_width(),
                color=io.use_color(),
            )
        )
    return _exit_code(outcome)


def _resolved(settings: Config, session: Session) -> Resolved:
    """What is in force for the session's provider and model."""
    pressure_now = session.pressure()
    resolved = settings.resolve_for(pressure_now.header)
    window = window_of(pressure_now, resolved.policy.window_tokens).tokens
    if window is not None:
        resolved.check_window(window)
    return resolved


def _backend(resolved: Resolved, *, is_trusted: bool, dry_run: bool) -> tuple[Backend, bool]:
    """The backend in force, and whether its summary will only be a bound for the real one."""
    if not dry_run:
        return configured.load(resolved, is_trusted=is_trusted), False
    policy = resolved.policy
    if policy.backend not in PLANNED:
        raise UsageError(
            f"no plan can be made for the backend {policy.backend!r}: only it knows what it does",
            f"leave out --dry-run, or plan for {' or '.join(PLANNED)}",
        )
    if policy.backend != lookup.DEFAULT or policy.summarizer == configured.OFFLINE:
        return configured.load(resolved, is_trusted=is_trusted), False
    return configured.load(resolved, is_trusted=is_trusted, make_summarizer=AtMost), True


def _timeout_seconds(policy: Policy) -> float:
    """A summarizer that was given more time has it on top of the backend's own."""
    return pressure.DEFAULT_TIMEOUT_SECONDS + (policy.summarizer_timeout_seconds or 0)


def _facts(session: Session, before: Surface, outcome: Outcome) -> "FactsReport | None":
    """Which facts of what was folded away are still told; None where nothing was folded."""
    from dsh_compact.summarizers.facts import check

    gone = {seq for one in outcome.replaced for seq in one.shadowed_seqs}
    new = [node for node in session.surface if before.find(node.seq) is None]
    if not gone:
        return None
    messages = [session.event(node).message for node in before if node.seq in gone]
    told = (session.event(node).message.text for node in new if node.kind == "user")
    return check(messages, "\n".join(told))


def _plain_facts(facts: "FactsReport") -> dict[str, Any]:
    kinds = [{**to_builtins(one), "ratio": one.ratio} for one in facts.kinds]
    return {"total": facts.total, "kept": facts.kept, "ratio": facts.ratio, "kinds": kinds}


def _notices(session: WritableSession, outcome: Outcome) -> list[str]:
    notices = [*session.notices, *outcome.notices]
    if session.kept_aside is not None:
        notices.append(
            f"{session.path}: the torn tail was cut off; it is kept as {session.kept_aside}"
        )
    ignored = None if outcome.budgets is None else outcome.budgets.ignored_reservation_tokens
    if ignored is not None:
        notices.append(
            f"{session.path}: the request header reserves {ignored:,} tokens for the answer, which"
            " leaves nothing of the window: the reservation is ignored"
        )
    if outcome.error is not None:
        notices.append(words_of(outcome.error))
    return notices


def _exit_code(outcome: Outcome) -> int:
    """A failure that changed nothing is told by its kind, one of the disk always; a change that was
    asked for and did not come is a finding.
    """
    if outcome.acted and not isinstance(outcome.error, WriteFailed):
        return 0
    match outcome.error:
        case None:
            return 0 if outcome.reason == pressure.BELOW else 1
        case LogError() | UsageError() as error if not isinstance(error, NotAdmitted):
            return error.exit_code
        case _:
            return BackendFailed.exit_code


def _json(
    session: Session, outcome: Outcome, backend: str, *, is_plan: bool, is_bound: bool
) -> dict[str, Any]:
    before, after, allowed = outcome.before, outcome.after, outcome.budgets
    assert before is not None
    assert after is not None
    then = before if is_plan else after
    plan = {
        "would_act": outcome.acted,
        "generation_after": after.generation,
        "tokens_after": after.tokens,
        "tokens_after_is_bound": is_bound,
        "shadowed_seqs": outcome.shadowed_seqs,
        "replacements": _replacements(outcome),
    }
    return {
        "schema": 1,
        "command": "compact",
        "log": session.path,
        "path": "pressure",
        "format": session.format,
        "session_id": session.header.id,
        "backend": backend,
        "acted": outcome.acted and not is_plan,
        "reason": outcome.reason,
        "remedy": report.remedy(session.path, outcome) or None,
        "error": None if outcome.error is None else words_of(outcome.error),
        "generation_before": before.generation,
        "generation_after": then.generation,
        "tokens_before": before.tokens,
        "tokens_after": then.tokens,
        "surface_before": _surface(before),
        "surface_after": _surface(then),
        "window_tokens": None if allowed is None else allowed.window_tokens,
        "threshold_tokens": None if allowed is None else allowed.threshold_tokens,
        "retain_tokens": None if allowed is None else allowed.retain_tokens,
        "over_threshold": None if allowed is None else then.tokens >= allowed.threshold_tokens,
        "shadowed_seqs": () if is_plan else outcome.shadowed_seqs,
        "replacements": [] if is_plan else _replacements(outcome),
        "resume": report.resume_call(session.header),
        **({"plan": plan} if is_plan else {}),
    }


def _surface(size: Size) -> dict[str, int]:
    return {"nodes": len(size.items), "tokens": size.surface_tokens}


def _replacements(outcome: Outcome) -> list[dict[str, Any]]:
    rows = [("prune", one) for one in outcome.pruned] + [
        ("summary", one) for one in outcome.replaced
    ]
    return [
        {"kind": kind, **to_builtins(one)}
        for kind, one in sorted(rows, key=lambda row: row[1].generation)
    ]
