"""The pressure path: before each step, measure, and at the threshold make room.

It packs early and keeps a raw tail; it is cheap and frequent, so a failure is told and the step
goes on: the overflow path stands behind it. No attempt without news: a backend is asked only where
something may go that no failed attempt was about. Whether it acted is read from the file, not from
what the backend claims.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from dsh_compact.backends import Backend, Claim
from dsh_compact.backends.running import Ran, Runner, run_here, stays_here
from dsh_compact.errors import BackendFailed, DamagedLog, DshcError, LogError, RuleBroken
from dsh_compact.ledger import Glance, Reading, Standing
from dsh_compact.measurement import window_of
from dsh_compact.meter import Pressure
from dsh_compact.planning import Item
from dsh_compact.policy import Budgets, Policy, budgets
from dsh_compact.session import Session, WritableSession
from dsh_compact.trial import TrialSession
from dsh_compact.workbench import Advice, Replaced, Workbench

DEFAULT_TIMEOUT_SECONDS: Final = 600.0
"""How long a backend may take: a model's summary takes minutes, a hung one for ever."""

NO_WINDOW: Final = "the model's window is not known: there is no threshold to hold"
UNMOVED: Final = "the backend changed nothing"
BELOW: Final = "the conversation is below the threshold"


class Size(Struct, frozen=True, kw_only=True):
    """A conversation at one moment: `tokens` is its pressure (a provider's count as far as there is
    one), `surface_tokens` the estimate of its messages alone.
    """

    generation: int
    tokens: int
    surface_tokens: int
    items: tuple[Item, ...]


class Outcome(Struct, frozen=True, kw_only=True):
    """What one run of the path did, by the ledger.

    `acted` says whether the generation moved on disk, `reason` why nothing (more) was done, `error`
    what failed; `advice` is what may help where nothing went, or too little. `claim` is what the
    backend said of itself. `before` and `after` are None only where the log could not be measured,
    which is then the error.
    """

    acted: bool
    reason: str
    before: Size | None
    after: Size | None
    budgets: Budgets | None
    replaced: tuple[Replaced, ...] = ()
    pruned: tuple[Replaced, ...] = ()
    claim: Claim | None = None
    error: BaseException | None = None
    advice: Advice | None = None
    notices: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the conversation is still at the threshold or above."""
        if self.budgets is None or self.after is None:
            return False
        return self.after.tokens >= self.budgets.threshold_tokens

    @property
    def shadowed_seqs(self) -> tuple[int, ...]:
        """What stood on the surface before and no longer does, in the surface's order."""
        if self.before is None or self.after is None:
            return ()
        left = {one.seq for one in self.after.items}
        return tuple(one.seq for one in self.before.items if one.seq not in left)


class Wishes(Struct, frozen=True, kw_only=True):
    """What somebody may ask of the path beside its policy.

    `force` acts below the threshold and repeats a failed attempt, `keep_last` keeps that many
    messages raw in place of the policy's tail, `keeps_tail` never gives the tail up, even where the
    conversation stays over its threshold. `progress` is told the summary's tokens as they come.
    `run` decides where a backend runs, and for how long it may.
    """

    force: bool = False
    keep_last: int | None = None
    keeps_tail: bool = False
    instructions: str = ""
    progress: Callable[[int], None] | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    run: Runner = run_here


NO_WISHES: Final = Wishes()


def before_step(
    session: WritableSession, policy: Policy, backend: Backend, wishes: Wishes = NO_WISHES
) -> Outcome:
    """Call it before every model request. Never raises for what a log, a disk or a backend does.

    The outcome tells what happened; whatever it is, the step may go on.
    """
    try:
        return run(session, policy, backend, wishes)
    except DshcError as fault:
        return Outcome(
            acted=False,
            reason="the log cannot be measured",
            before=None,
            after=None,
            budgets=None,
            error=fault,
        )


def run(
    session: WritableSession, policy: Policy, backend: Backend, wishes: Wishes = NO_WISHES
) -> Outcome:
    """The path, once; what it says it did was read back from the file.

    Raises `LogError` and its kin where the log cannot be measured; a backend's failure is in the
    outcome.
    """
    return _run(session, policy, backend, wishes, is_real=True)


def plan(
    session: TrialSession, policy: Policy, backend: Backend, wishes: Wishes = NO_WISHES
) -> Outcome:
    """What `run` would do: nothing is written, and nothing is proven."""
    return _run(session, policy, backend, wishes, is_real=False)


def budgets_of(session: Session, policy: Policy) -> Budgets | None:
    """Window, threshold and kept tail for the next request; None where no window is known."""
    return _budgets(session.pressure(), policy)


def _run(
    session: WritableSession, policy: Policy, backend: Backend, wishes: Wishes, *, is_real: bool
) -> Outcome:
    pressure = session.pressure()
    allowed = _budgets(pressure, policy)
    before = _size(session, pressure)
    reason = _reason_not_to(before.tokens, allowed, wishes)
    if reason:
        advice = Advice.FORCE if reason == BELOW else None
        return _idle(reason, before, allowed, advice)
    bench = Workbench(
        session,
        policy=policy,
        retain_tokens=(policy.retain_tokens if allowed is None else allowed.retain_tokens) or 0,
        goal=_goal(before, allowed),
        window_tokens=None if allowed is None else allowed.window_tokens,
        keep_last=wishes.keep_last,
        instructions=wishes.instructions,
        backend=backend.name,
        insist=wishes.force,
        keeps_tail=wishes.keeps_tail,
        progress=wishes.progress,
    )
    idle = bench.why_idle()
    if idle:
        return _idle(idle, before, allowed, bench.advice())
    here = stays_here(wishes.run, backend)
    evidence = _Evidence(session, writes_here=here) if is_real else None
    ran = wishes.run(backend, bench, wishes.timeout_seconds)
    error = _error_of(backend, ran, wishes.timeout_seconds)
    try:
        if evidence is not None:
            evidence.settle()
        after = _size(session, session.pressure())
    except DshcError as fault:
        error, after = fault, before
    done = Outcome(
        acted=after.generation > before.generation,
        reason=_reason_of(ran, has_moved=after.generation > before.generation),
        before=before,
        after=after,
        budgets=allowed,
        replaced=tuple(bench.replaced),
        pruned=tuple(bench.pruned),
        claim=ran.claim,
        error=error,
        notices=tuple(bench.notices),
    )
    is_enough = error is not None or (done.acted and not done.is_over)
    return done if is_enough else structs.replace(done, advice=bench.advice())


def _idle(reason: str, before: Size, allowed: Budgets | None, advice: Advice | None) -> Outcome:
    """Nothing is tried, for that reason."""
    return Outcome(
        acted=False, reason=reason, before=before, after=before, budgets=allowed, advice=advice
    )


def _budgets(pressure: Pressure, policy: Policy) -> Budgets | None:
    window = window_of(pressure, policy.window_tokens).tokens
    if window is None:
        return None
    reserved = None if pressure.header is None else pressure.header.max_tokens
    return budgets(policy, window, reserved)


def _size(session: Session, pressure: Pressure) -> Size:
    return Size(
        generation=session.replace_generation,
        tokens=pressure.total_tokens,
        surface_tokens=pressure.surface_tokens,
        items=session.items(),
    )


def _reason_not_to(total_tokens: int, allowed: Budgets | None, wishes: Wishes) -> str:
    if wishes.force:
        return ""
    if allowed is None:
        return NO_WINDOW
    return BELOW if total_tokens < allowed.threshold_tokens else ""


def _reason_of(ran: Ran, *, has_moved: bool) -> str:
    """Why nothing (more) was done, in the backend's own words where it has any."""
    note = "" if ran.claim is None else ran.claim.note
    if note and ran.claim is not None and ran.claim.acted and not has_moved:
        return f"the backend says {note!r}, and nothing on disk has changed"
    return note if note or has_moved or ran.error is not None else UNMOVED


def _error_of(backend: Backend, ran: Ran, timeout_seconds: float) -> BaseException | None:
    if ran.timed_out:
        return BackendFailed(
            backend.name,
            f"it did not return within {timeout_seconds:g} seconds: it was left alone",
            "if it was at work, give it more time",
        )
    return ran.error


def _goal(before: Size, allowed: Budgets | None) -> Callable[[Pressure], bool] | None:
    """When the backend has done enough; None where it was called below the threshold."""
    if allowed is None or before.tokens < allowed.threshold_tokens:
        return None
    return lambda pressure: pressure.total_tokens < allowed.threshold_tokens


# The file's word --------------------------------------------------------------------------------


class _Evidence:
    """The file as it is before an attempt, and what it says afterwards.

    Where all writing goes through our session, the log is marked: as long as the mark holds, what
    was folded stands, and only what came behind is folded once more. Where another process writes
    under our lock or wrote since the fold, or a file system keeps no mark, the whole file is read
    before and after.
    """

    def __init__(self, session: WritableSession, *, writes_here: bool) -> None:
        self._session = session
        self._standing = Standing(session) if writes_here and session.mark() else None
        self._generation_before = session.replace_generation
        if self._standing is None:
            self._glance = Glance(session.path, session.size_bytes)
            self._stamp = _stamp(session.path)

    def settle(self) -> None:
        """Brings the session into step with the file, which is right.

        Raises `LogError` and its kin where the file cannot be folded any more, or where what it
        said before may have been changed.
        """
        if self._standing is None:
            self._compare_files()
        else:
            self._follow(self._standing)

    def _follow(self, standing: Standing) -> None:
        session = self._session
        if not session.is_as_marked:
            session.resync()
            raise self._changed("somebody else wrote to the log during the attempt")
        try:
            standing.follow()
        except RuleBroken as fault:
            session.resync()
            raise DamagedLog(session.path, fault.damage, fault.problem, seq=fault.seq) from None
        remembered = (session.events, session.replace_generation, session.size_bytes)
        if remembered != (standing.events, standing.generation, standing.end_bytes):
            session.resync()

    def _compare_files(self) -> None:
        session, now = self._session, _stamp(self._session.path)
        if now == self._stamp and session.replace_generation == self._generation_before:
            return
        reading = Reading(session.path, self._glance)
        remembered = (session.events, session.replace_generation, session.size_bytes)
        ends = (reading.events, reading.generation, reading.end_bytes)
        if remembered != ends or now is None or now[1] != reading.end_bytes:
            session.resync()
        if not reading.continues(self._glance):
            raise self._changed("what the log said before the attempt was changed")

    def _changed(self, what: str) -> LogError:
        return LogError(
            self._session.path,
            f"{what}: what it says now proves nothing",
            remedy="see who rewrites it",
        )


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What changes when somebody writes to the file; None where there is none to be seen."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
