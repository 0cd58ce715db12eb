"""The pressure path: before each step, measure, and at the threshold make room.

It packs early and keeps a raw tail; it is cheap and frequent, so a failure is told and the step
goes on: the overflow path stands behind it. A span whose attempt failed is not tried again without
news.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from dsh_compact import policy as policies
from dsh_compact.backends import Backend, Claim
from dsh_compact.measurement import window_of
from dsh_compact.meter import Pressure
from dsh_compact.policy import Budgets, Policy
from dsh_compact.session import Session, WritableSession
from dsh_compact.workbench import Replaced, Workbench

NO_WINDOW: Final = "the model's window is not known: there is no threshold to hold"
BELOW: Final = "the conversation is below the threshold"


class Outcome(Struct, frozen=True, kw_only=True):
    """What one run of the path did, by the ledger; all counts in estimated tokens.

    `acted` says whether the generation moved, `reason` why nothing (more) was done, `error` what
    failed. `claim` is what the backend said of itself.
    """

    acted: bool
    reason: str
    generation_before: int
    generation_after: int
    tokens_before: int
    tokens_after: int
    budgets: Budgets | None
    replaced: tuple[Replaced, ...] = ()
    pruned: tuple[Replaced, ...] = ()
    claim: Claim | None = None
    error: BaseException | None = None
    notices: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the conversation is still at the threshold or above."""
        return self.budgets is not None and self.tokens_after >= self.budgets.threshold_tokens


def before_step(
    session: WritableSession, policy: Policy, backend: Backend, *, window_tokens: int | None = None
) -> Outcome:
    """Call it before every model request. Never raises for what a log, a disk or a backend does.

    `window_tokens` overrides what log and catalogue know. The outcome says what happened; whatever
    it is, the step may go on.
    """
    return run(session, policy, backend, window_tokens=window_tokens)


def run(
    session: WritableSession,
    policy: Policy,
    backend: Backend,
    *,
    window_tokens: int | None = None,
    force: bool = False,
    keep_last: int | None = None,
    instructions: str = "",
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """The path with the wishes of somebody who calls it by hand.

    `force` acts below the threshold and repeats a failed attempt, `keep_last` keeps that many
    messages raw in place of `retain_tokens`.
    """
    budgets = budgets_of(session, policy, window_tokens)
    before = session.pressure().total_tokens
    generation = session.replace_generation
    reason = _reason_not_to(before, budgets, force)
    if reason:
        return Outcome(
            acted=False,
            reason=reason,
            generation_before=generation,
            generation_after=generation,
            tokens_before=before,
            tokens_after=before,
            budgets=budgets,
        )
    is_over = budgets is not None and before >= budgets.threshold_tokens
    bench = Workbench(
        session,
        policy=policy,
        retain_tokens=0 if budgets is None else budgets.retain_tokens,
        goal=_below(budgets) if budgets is not None and is_over else None,
        window_tokens=None if budgets is None else budgets.window_tokens,
        keep_last=keep_last,
        instructions=instructions,
        backend=backend.name,
        insist=force,
        progress=progress,
    )
    claim, error = _attempt(backend, bench)
    after = session.replace_generation
    return Outcome(
        acted=after > generation,
        reason="" if claim is None else claim.note,
        generation_before=generation,
        generation_after=after,
        tokens_before=before,
        tokens_after=session.pressure().total_tokens,
        budgets=budgets,
        replaced=tuple(bench.replaced),
        pruned=tuple(bench.pruned),
        claim=claim,
        error=error,
        notices=tuple(bench.notices),
    )


def budgets_of(
    session: Session, policy: Policy, window_tokens: int | None = None
) -> Budgets | None:
    """Window, threshold and kept tail for the next request; None where no window is known."""
    pressure = session.pressure()
    window = window_of(pressure, window_tokens or policy.window_tokens).tokens
    if window is None:
        return None
    reserved = None if pressure.header is None else pressure.header.max_tokens
    return policies.budgets(policy, window, reserved)


def _below(budgets: Budgets) -> Callable[[Pressure], bool]:
    return lambda pressure: pressure.total_tokens < budgets.threshold_tokens


def _reason_not_to(total_tokens: int, budgets: Budgets | None, force: bool) -> str:
    if force:
        return ""
    if budgets is None:
        return NO_WINDOW
    return BELOW if total_tokens < budgets.threshold_tokens else ""


def _attempt(backend: Backend, bench: Workbench) -> tuple[Claim | None, BaseException | None]:
    """A backend is foreign code: whatever it raises is a failed attempt, not our caller's trouble."""
    try:
        return backend.compact(bench), None
    except Exception as fault:  # noqa: BLE001
        return None, fault
