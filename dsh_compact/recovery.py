"""The overflow path: after a refused request, a real shrink and a decision.

Only for the normalised code `CONTEXT_WINDOW_EXCEEDED`; no threshold, no kept tail. Snapshot, pack,
compare: the generation is read from the file before and after, and only where it is strictly
greater may the request be sent again; otherwise the original error is reported as it came, whatever
the backend says. A moved generation is necessary, not sufficient: while the forecast exceeds the
known limit and another round still moves it, the path goes on before it spends a request.

`Retry` is made here and nowhere else, from two readings of the ledger.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct, structs

from dsh_compact import overflow
from dsh_compact.backends import Backend, Claim
from dsh_compact.backends.running import Ran, Runner, never, run_here
from dsh_compact.errors import DshcError
from dsh_compact.events import Failure
from dsh_compact.floor import Floor, floor_of
from dsh_compact.ledger import Reading
from dsh_compact.meter import Pressure
from dsh_compact.overflow import Code, Refusal
from dsh_compact.planning import NoSpan
from dsh_compact.policy import DEFAULT, Policy
from dsh_compact.session import WritableSession
from dsh_compact.workbench import Bloated, Workbench

MOST_ROUNDS: Final = 8
"""Rounds before one decision: each must move the generation, and this ends even those that do."""

DEFAULT_TIMEOUT_SECONDS: Final = 600.0
"""How long one round of a backend may take: a model's summary takes minutes, a hung one never
ends."""


class Verdict(StrEnum):
    """What the ledger says about a recovery."""

    REDUCED = "reduced"
    STILL_OVER = "reduced-still-over"
    PRUNED_ONLY = "pruned-only"
    NO_OP = "no-op"
    BLOATED = "bloated"
    NOT_PERSISTED = "not-persisted"
    BACKEND_ERROR = "backend-error"
    TIMED_OUT = "timed-out"
    IRREDUCIBLE = "irreducible"


# The decision ------------------------------------------------------------------------------------


ADVANCED: Final = "the conversation on disk was replaced"
"""Why a retry is allowed, in the words of the table."""


class Facts(Struct, frozen=True, kw_only=True):
    """All that the decision depends on."""

    is_overflow: bool
    is_cancelled: bool
    has_retries_left: bool
    has_advanced: bool


class Row(Struct, frozen=True, kw_only=True):
    """One row of the decision table; None in a column stands for either."""

    reason: str
    is_overflow: bool | None = None
    is_cancelled: bool | None = None
    has_retries_left: bool | None = None
    has_advanced: bool | None = None
    retry: bool = False

    def matches(self, facts: Facts) -> bool:
        """Whether the row speaks about these facts."""
        columns = ("is_overflow", "is_cancelled", "has_retries_left", "has_advanced")
        wanted = ((getattr(self, name), getattr(facts, name)) for name in columns)
        return all(want is None or want == have for want, have in wanted)


TABLE: Final = (
    Row(reason="the failure is no overflow of the context window", is_overflow=False),
    Row(reason="the request was cancelled", is_overflow=True, is_cancelled=True),
    Row(
        reason="the retries are used up",
        is_overflow=True,
        is_cancelled=False,
        has_retries_left=False,
    ),
    Row(
        reason="the conversation on disk was not replaced",
        is_overflow=True,
        is_cancelled=False,
        has_retries_left=True,
        has_advanced=False,
    ),
    Row(
        reason=ADVANCED,
        is_overflow=True,
        is_cancelled=False,
        has_retries_left=True,
        has_advanced=True,
        retry=True,
    ),
)
"""Exactly one row matches whatever the facts are (a test walks every combination)."""


def may_try(facts: Facts) -> bool:
    """Whether a retry would be allowed if the conversation on disk were replaced."""
    return row_for(structs.replace(facts, has_advanced=True)).retry


def row_for(facts: Facts) -> Row:
    """The one row of the table that speaks about these facts."""
    (row,) = (row for row in TABLE if row.matches(facts))
    return row


class Round(Struct, frozen=True, kw_only=True):
    """One run of the backend, and what the file said behind it.

    `claim` is the backend's own word, printed and never believed; `error` what it raised.
    `generation` and `tokens` (the surface's estimate) are the file's, None where it proves nothing:
    it cannot be folded any more, or what it said before was changed.
    """

    claim: Claim | None = None
    error: BaseException | None = None
    timed_out: bool = False
    generation: int | None = None
    tokens: int | None = None


def round_of(ran: Ran, reading: Reading | None) -> Round:
    """A run of the backend beside what the file said then."""
    return Round(
        claim=ran.claim,
        error=ran.error,
        timed_out=ran.timed_out,
        generation=None if reading is None else reading.generation,
        tokens=None if reading is None else reading.tokens,
    )


class Attempt(Struct, frozen=True, kw_only=True):
    """What was tried before a decision, and what the ledger says of it.

    `tokens_before` and `tokens_after` are estimates of the surface, `forecast_tokens` is what the
    next request is expected to have in the provider's own counting, `room_tokens` what it may have;
    None where the refusal names no numbers. `floor` is set where nothing more can move.
    """

    verdict: Verdict
    rounds: tuple[Round, ...]
    generation_before: int
    generation_after: int
    tokens_before: int
    tokens_after: int
    forecast_tokens: int | None = None
    room_tokens: int | None = None
    floor: Floor | None = None
    notices: tuple[str, ...] = ()


class Retry(Struct, frozen=True, kw_only=True):
    """Leave to send the request again: the ledger was read twice and says that it is shorter.

    Cannot be made unless `after` is a later reading of the same log with a strictly greater
    generation: raises `ValueError`.
    """

    before: Reading
    after: Reading
    attempt: Attempt
    refusal: Refusal

    def __post_init__(self) -> None:
        """Takes nobody's word: readings are made by folding the file, and by nothing else."""
        if not all(type(one) is Reading for one in (self.before, self.after)):
            raise ValueError("a retry needs two readings of the ledger")
        if not self.after.advanced_since(self.before):
            raise ValueError("a retry needs a generation that has grown on disk")


class Preserve(Struct, frozen=True, kw_only=True):
    """Report `failure`, the original one, unchanged; `reason` says why nothing else is allowed.

    `attempt` is None where nothing was tried.
    """

    failure: Failure
    reason: str
    refusal: Refusal
    attempt: Attempt | None = None


Decision: TypeAlias = Retry | Preserve


# The path ----------------------------------------------------------------------------------------


class OverflowPath:
    """The path for one session: it counts the retries since the last reply.

    `run` decides where a backend runs and for how long (here, within `timeout_seconds`, by
    default).
    """

    def __init__(
        self,
        backend: Backend,
        policy: Policy = DEFAULT,
        *,
        instructions: str = "",
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        run: Runner = run_here,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._backend = backend
        self._policy = policy
        self._instructions = instructions
        self._timeout_seconds = timeout_seconds
        self._run = run
        self._progress = progress
        self.retries = 0

    def on_reply(self, session: WritableSession) -> None:
        """Call it when a request was answered: the retries start anew."""
        self.retries = 0

    def on_idle(self, session: WritableSession) -> None:
        """Call it when the turn is over: the next one has its own retries."""
        self.retries = 0

    def on_request_error(
        self,
        session: WritableSession,
        failure: Failure,
        *,
        is_cancelled: Callable[[], bool] = never,
    ) -> Decision:
        """What to do about a failed request: `Retry`, or `Preserve` with the failure as it came.

        Compacts only for an overflow that may still be retried. Whatever backend, log or disk do, a
        decision is made; only a first reading of the log that fails raises (`LogError` and its
        kin). `is_cancelled` is asked while a backend runs, too: it is then left alone at once.
        """
        refusal = overflow.normalise(failure)
        facts = Facts(
            is_overflow=refusal.code is Code.CONTEXT_WINDOW_EXCEEDED,
            is_cancelled=is_cancelled(),
            has_retries_left=self.retries < self._policy.max_overflow_retries,
            has_advanced=False,
        )
        if not may_try(facts):
            return Preserve(failure=failure, reason=row_for(facts).reason, refusal=refusal)
        before = Reading(session.path)
        forecast = Forecast(session.pressure(), refusal)
        rounds = self._shrink(session, before, forecast, is_cancelled)
        after = rounds[-1].reading
        attempt = _attempt(before, forecast, rounds)
        row = row_for(
            structs.replace(
                facts,
                is_cancelled=is_cancelled(),
                has_advanced=after is not None and after.advanced_since(before),
            )
        )
        if row.retry and after is not None:
            self.retries += 1
            return Retry(before=before, after=after, attempt=attempt, refusal=refusal)
        return Preserve(failure=failure, reason=row.reason, refusal=refusal, attempt=attempt)

    def _shrink(
        self,
        session: WritableSession,
        before: Reading,
        forecast: "Forecast",
        is_cancelled: Callable[[], bool],
    ) -> list["_Round"]:
        """Rounds of the backend until the forecast fits, or nothing moves any more."""
        rounds: list[_Round] = []
        generation = before.generation
        while len(rounds) < MOST_ROUNDS:
            done = self._round(session, before, forecast, is_cancelled)
            rounds.append(done)
            reading = done.reading
            if reading is None or reading.generation <= generation or is_cancelled():
                break
            if forecast.fits(reading.tokens) is not False:
                break
            generation = reading.generation
        return rounds

    def _round(
        self,
        session: WritableSession,
        before: Reading,
        forecast: "Forecast",
        is_cancelled: Callable[[], bool],
    ) -> "_Round":
        bench = self._bench(session, forecast)
        ran = self._run(self._backend, bench, self._timeout_seconds, is_cancelled=is_cancelled)
        remembered = session.replace_generation
        reading, notice = proof_of(session, before)
        return _Round(
            ran=ran,
            reading=reading,
            remembered_generation=remembered,
            floor=None if reading is None else _floor_if_stuck(bench, forecast, reading),
            notices=(*bench.notices, *([notice] if notice else [])),
        )

    def _bench(self, session: WritableSession, forecast: "Forecast") -> Workbench:
        return Workbench(
            session,
            policy=self._policy,
            retain_tokens=0,
            goal=forecast.goal(),
            window_tokens=forecast.limit_tokens,
            instructions=self._instructions,
            backend=self._backend.name,
            insist=True,
            progress=self._progress,
        )


class Forecast:
    """What a request will have in the provider's own counting, calibrated by the refusal's numbers.

    The refusal counted a request whose estimate we know; the ratio of the two carries over to what
    is left of it. All counts in tokens; without numbers nothing is forecast.
    """

    def __init__(self, pressure: Pressure, refusal: Refusal) -> None:
        counted = refusal.requested_tokens if refusal.input_tokens is None else refusal.input_tokens
        estimated = pressure.header_tokens + pressure.surface_tokens
        self._fixed_tokens = pressure.header_tokens
        self._ratio = counted / estimated if counted and estimated else None
        self.limit_tokens = refusal.limit_tokens or pressure.limit_tokens
        reserved = 0 if refusal.input_tokens is None else refusal.output_tokens or 0
        self.room_tokens = (
            None if self.limit_tokens is None else max(0, self.limit_tokens - reserved)
        )

    def tokens(self, surface_tokens: int) -> int | None:
        """The forecast for a surface with that estimate."""
        if self._ratio is None:
            return None
        return round((self._fixed_tokens + surface_tokens) * self._ratio)

    def fits(self, surface_tokens: int) -> bool | None:
        """Whether the forecast fits; None where it cannot be said."""
        forecast = self.tokens(surface_tokens)
        if forecast is None or self.room_tokens is None:
            return None
        return forecast <= self.room_tokens

    def goal(self) -> Callable[[Pressure], bool] | None:
        """When a backend has done enough; None where only the provider can say."""
        if self._ratio is None or self.room_tokens is None:
            return None
        return lambda pressure: self.fits(pressure.surface_tokens) is True


class _Round(Struct, frozen=True, kw_only=True):
    """One run of the backend, and what file and memory said behind it.

    `reading` is None where the file proves nothing. `remembered_generation` is what the session in
    memory believed: a lie that only shows beside the file's count. `floor` is set where nothing
    more can move.
    """

    ran: Ran
    reading: Reading | None
    remembered_generation: int
    floor: Floor | None
    notices: tuple[str, ...]


def proof_of(session: WritableSession, before: Reading) -> tuple[Reading | None, str]:
    """What the file says now, and brings the session into step with it: the file is right.

    None, with the reason as a notice, where it proves nothing: it cannot be folded any more, or
    does not go on from what `before` saw.
    """
    try:
        reading = Reading(session.path, before)
    except DshcError as fault:
        return None, f"the log cannot be read any more: {fault}"
    remembered = (session.events, session.replace_generation, session.size_bytes)
    try:
        if remembered != (reading.events, reading.generation, reading.end_bytes):
            session.resync()
    except DshcError as fault:
        return None, f"the log cannot be folded any more: {fault}"
    if not reading.continues(before):
        return None, "what the log said before was changed: what it says now proves nothing"
    return reading, ""


def _floor_if_stuck(bench: Workbench, forecast: Forecast, reading: Reading) -> Floor | None:
    """What the floor is made of, where the request still does not fit and nothing more can move."""
    if forecast.fits(reading.tokens) is True or bench.can_prune():
        return None
    if not isinstance(bench.choose(), NoSpan):
        return None
    return floor_of(bench.session.items(), bench.header())


def _attempt(before: Reading, forecast: Forecast, rounds: list[_Round]) -> Attempt:
    """What was tried, and the verdict on it."""
    last = rounds[-1].reading or before
    return Attempt(
        verdict=_verdict(before, forecast, rounds[-1]),
        rounds=tuple(round_of(one.ran, one.reading) for one in rounds),
        generation_before=before.generation,
        generation_after=last.generation,
        tokens_before=before.tokens,
        tokens_after=last.tokens,
        forecast_tokens=forecast.tokens(last.tokens),
        room_tokens=forecast.room_tokens,
        floor=rounds[-1].floor,
        notices=tuple(notice for one in rounds for notice in one.notices),
    )


def _verdict(before: Reading, forecast: Forecast, last: _Round) -> Verdict:
    """The ledger's word first; what the backend raised only explains why nothing moved."""
    if last.reading is None:
        return Verdict.NOT_PERSISTED
    if last.reading.advanced_since(before):
        return _verdict_on_progress(before, last.reading, forecast)
    if last.ran.timed_out:
        return Verdict.TIMED_OUT
    if isinstance(last.ran.error, Bloated):
        return Verdict.BLOATED
    if last.ran.error is not None:
        return Verdict.BACKEND_ERROR
    if last.remembered_generation > last.reading.generation:
        return Verdict.NOT_PERSISTED
    return Verdict.NO_OP if last.floor is None else Verdict.IRREDUCIBLE


def _verdict_on_progress(before: Reading, after: Reading, forecast: Forecast) -> Verdict:
    if after.tokens >= before.tokens:
        return Verdict.BLOATED
    if forecast.fits(after.tokens) is False:
        return Verdict.STILL_OVER
    if after.prunes - before.prunes == after.generation - before.generation:
        return Verdict.PRUNED_ONLY
    return Verdict.REDUCED
