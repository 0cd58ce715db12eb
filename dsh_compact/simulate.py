"""The rehearsal: one turn against a provider with a wall, written as the harness writes it.

The provider counts with a real tokenizer while the session estimates, so the two differ as in life.
The turn goes turn, step, message, request; a refusal is followed by the discipline's decision
inside the open step, a retry by another request, and whatever comes of it by the end of step and
turn: the copy that a rehearsal leaves is a log that the harness opens.

A discipline is what decides after a refusal: `proof` asks the ledger, `breaker:N` gives up after N
refusals, `trust` believes the backend. The last two are here to be compared with, not to be used.
"""

from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from dsh_compact.backends import Backend, Claim
from dsh_compact.backends.running import Ran, Runner, run_here
from dsh_compact.codec import encode
from dsh_compact.errors import DshcError, UsageError
from dsh_compact.events import Failure, Text, Usage
from dsh_compact.interruption import closers
from dsh_compact.ledger import Reading, read_again
from dsh_compact.overflow import Code, normalise
from dsh_compact.policy import DEFAULT, Policy
from dsh_compact.recovery import ADVANCED, Attempt, OverflowPath, Retry, Verdict, bring_into_step
from dsh_compact.session import WritableSession
from dsh_compact.tokenizers import Tokenizer
from dsh_compact.tokenizers.conversation import header_pieces, pieces
from dsh_compact.tokenizers.framing import count_request
from dsh_compact.wall import Wall
from dsh_compact.workbench import Workbench

PROMPT: Final = "Please go on."
"""What the rehearsed user says."""

ANSWER: Final = "Understood. Carrying on from where we were."
"""What the rehearsed provider answers once a request fits."""

DEFAULT_MAX_REQUESTS: Final = 50
"""Where `trust` is stopped; in life nothing would stop it."""

PROVIDER: Final = "rehearsal"
MODEL: Final = "wall"
"""Whom a request goes to where the log does not say."""


class Sent(Struct, frozen=True, kw_only=True):
    """One request, in the provider's own counting.

    `generation` is the file's at the time; `outcome` is `dropped` where a silent provider answered
    without what did not fit.
    """

    number: int
    tokens: int
    outcome: Literal["answered", "refused", "dropped"]
    generation: int


class Decided(Struct, frozen=True, kw_only=True):
    """What a discipline made of one refusal; `attempt` is set where the ledger was asked."""

    retry: bool
    reason: str
    generation_before: int
    generation_after: int
    claims: tuple[Claim, ...] = ()
    error: BaseException | None = None
    attempt: Attempt | None = None


class Discipline(Protocol):
    """Decides after a refusal whether the request is sent again."""

    name: str

    def on_request_error(self, session: WritableSession, failure: Failure) -> Decided:
        """One refusal."""

    def on_reply(self, session: WritableSession) -> None:
        """The request was answered."""


class Proof:
    """The ledger decides: see `recovery`."""

    name = "proof"

    def __init__(
        self, backend: Backend, policy: Policy, timeout_seconds: float, run: Runner
    ) -> None:
        self._path = OverflowPath(backend, policy, timeout_seconds=timeout_seconds, run=run)

    def on_request_error(self, session: WritableSession, failure: Failure) -> Decided:
        """Retries on two readings of the ledger, and on nothing else."""
        decision = self._path.on_request_error(session, failure)
        attempt = decision.attempt
        if attempt is None:
            generation = Reading(session.path).generation
            before = after = generation
        else:
            before, after = attempt.generation_before, attempt.generation_after
        is_retry = isinstance(decision, Retry)
        reason = ADVANCED if isinstance(decision, Retry) else decision.reason
        return Decided(
            retry=is_retry,
            reason=reason,
            generation_before=before,
            generation_after=after,
            claims=() if attempt is None else attempt.claims,
            error=None if attempt is None else attempt.error,
            attempt=attempt,
        )

    def on_reply(self, session: WritableSession) -> None:
        """The retries start anew."""
        self._path.on_reply(session)


class Word:
    """The backend's word decides: `trust` for ever, `breaker:N` until N requests were refused."""

    def __init__(
        self, name: str, backend: Backend, policy: Policy, timeout_seconds: float, run: Runner
    ) -> None:
        self.name = name
        self._most_failures = _breaker_limit(name)
        self._failures = 0
        self._backend = backend
        self._policy = policy
        self._timeout_seconds = timeout_seconds
        self._run = run

    def on_request_error(self, session: WritableSession, failure: Failure) -> Decided:
        """Retries where the backend says that it compacted (a breaker: also where it failed)."""
        before = Reading(session.path)
        self._failures += 1
        if normalise(failure).code is not Code.CONTEXT_WINDOW_EXCEEDED:
            return self._decided(False, "the failure is no overflow", before, before, Ran())
        if self._most_failures is not None and self._failures >= self._most_failures:
            reason = f"the breaker opened after {self._failures} refusals"
            return self._decided(False, reason, before, before, Ran())
        bench = Workbench(
            session,
            policy=self._policy,
            retain_tokens=0,
            goal=None,
            backend=self._backend.name,
            insist=True,
        )
        ran = self._run(self._backend, bench, self._timeout_seconds)
        says_so = ran.claim is not None and ran.claim.acted
        retry = says_so or self._most_failures is not None
        reason = "the backend says that it compacted" if says_so else "the backend failed"
        after = read_again(session.path, before)
        bring_into_step(session, after)
        return self._decided(retry, reason, before, after, ran)

    def _decided(
        self, retry: bool, reason: str, before: Reading, after: Reading | None, ran: Ran
    ) -> Decided:
        return Decided(
            retry=retry,
            reason=reason,
            generation_before=before.generation,
            generation_after=before.generation if after is None else after.generation,
            claims=() if ran.claim is None else (ran.claim,),
            error=ran.error,
        )

    def on_reply(self, session: WritableSession) -> None:
        """A breaker closes again."""
        self._failures = 0


def discipline(
    name: str,
    backend: Backend,
    policy: Policy = DEFAULT,
    *,
    timeout_seconds: float = 600.0,
    run: Runner = run_here,
) -> Discipline:
    """The discipline of that name (`proof`, `breaker:N`, `trust`); raises `UsageError`."""
    if name == "proof":
        return Proof(backend, policy, timeout_seconds, run)
    if name == "trust" or _breaker_limit(name) is not None:
        return Word(name, backend, policy, timeout_seconds, run)
    raise UsageError(f"there is no discipline {name!r}", "choose proof, breaker:N or trust")


def _breaker_limit(name: str) -> int | None:
    kind, _, number = name.partition(":")
    return int(number) if kind == "breaker" and number.isdecimal() and int(number) > 0 else None


class Rehearsed(Struct, frozen=True, kw_only=True):
    """How a rehearsal went; all counts in tokens of the provider's own counting.

    `invalid_retries` are requests sent again although the generation on disk had not grown since
    the last one; `wasted_tokens` what refused repetitions cost. `failure` is the original error
    where it was reported in the end. `stopped_at` is set where `max_requests` ended what would have
    gone on.
    """

    backend: str
    discipline: str
    limit_tokens: int
    generation_before: int
    generation_after: int
    decision: Literal["retry", "preserve"]
    verdict: Verdict | None
    recovered: bool
    requests: tuple[Sent, ...]
    decisions: tuple[Decided, ...]
    invalid_retries: int
    wasted_tokens: int
    dropped_tokens: int
    failure: Failure | None
    stopped_at: int | None = None
    notices: tuple[str, ...] = ()


MakeWall: TypeAlias = Callable[[int], Wall]
"""Makes the provider from what the first request has, in its own counting."""


class Rehearsal:
    """One turn of one session against one provider."""

    def __init__(
        self,
        session: WritableSession,
        tokenizer: Tokenizer,
        make_wall: MakeWall,
        decide: Discipline,
        *,
        backend: str,
        max_requests: int = DEFAULT_MAX_REQUESTS,
    ) -> None:
        """`tokenizer` is the provider's; `backend` names what stands behind the discipline."""
        self._session = session
        self._tokenizer = tokenizer
        self._make_wall = make_wall
        self._discipline = decide
        self._backend = backend
        self._max_requests = max_requests
        self._requests: list[Sent] = []
        self._decisions: list[Decided] = []
        self._notices: list[str] = []
        self._generation = session.replace_generation

    def play(self) -> Rehearsed:
        """Plays the turn to its end and tells how it went.

        Raises only where the turn cannot begin (`LogError` and its kin).
        """
        before = self._generation
        turn = self._begin()
        wall = self._make_wall(self._count())
        failure: Failure | None = None
        dropped = 0
        while True:
            answer = wall.request(self._count())
            failure = None if answer.failure is None else normalised(answer.failure)
            dropped = answer.dropped_tokens
            self._note(answer.tokens, failure, dropped)
            if failure is None or not self._goes_on(turn, failure):
                break
        self._finish(turn, failure)
        return self._told(wall, before, failure, dropped)

    # The turn, as the harness writes it -----------------------------------------------------------

    def _begin(self) -> int:
        session = self._session
        left_open = closers(session)
        if left_open:
            session.append(left_open)
        turn = session.turns.last_turn + 1
        drafts = [encode.turn_start(turn), encode.step_start(turn, 1)]
        if session.newest_header is None:
            drafts.append(encode.request_header(PROVIDER, MODEL))
        message_id = f"rehearsal-{session.events + len(drafts)}"
        session.append([*drafts, encode.user_message((Text(text=PROMPT),), message_id)])
        return turn

    def _goes_on(self, turn: int, failure: Failure) -> bool:
        """Writes the refusal down, lets the discipline decide; whether another request follows."""
        session = self._session
        time_ms = session.now_ms()
        try:
            session.append([encode.request_failed(turn, 1, failure, time_ms, session.format)])
        except DshcError as fault:
            self._notices.append(f"the refusal could not be written down: {fault}")
            return False
        decided = self._discipline.on_request_error(session, failure)
        self._decisions.append(decided)
        self._generation = decided.generation_after
        return decided.retry and len(self._requests) < self._max_requests

    def _finish(self, turn: int, failure: Failure | None) -> None:
        session = self._session
        drafts = [encode.step_end(turn, 1)]
        if failure is None:
            drafts.insert(0, self._answer(turn))
            drafts.append(encode.turn_end(turn, "completed"))
            self._discipline.on_reply(session)
        else:
            drafts.append(encode.turn_end(turn, "error", failure))
        try:
            session.append(drafts)
        except DshcError as fault:
            self._notices.append(f"the turn could not be ended: {fault}")

    def _answer(self, turn: int) -> encode.Draft:
        header = self._session.newest_header
        usage = Usage(
            input_tokens=self._requests[-1].tokens, output_tokens=self._tokenizer.count(ANSWER)
        )
        return encode.assistant_message(
            turn,
            1,
            (Text(text=ANSWER),),
            f"rehearsal-{self._session.events}",
            provider=header.provider if header is not None and header.provider else PROVIDER,
            model=header.model if header is not None and header.model else MODEL,
            version=self._session.format,
            usage=usage,
        )

    # Counting -------------------------------------------------------------------------------------

    def _count(self) -> int:
        session = self._session
        messages = [pieces(session.event(node).message) for node in session.surface]
        header = header_pieces(session.newest_header)
        return count_request(messages, header, self._tokenizer).total_tokens

    def _note(self, tokens: int, failure: Failure | None, dropped: int) -> None:
        outcome: Literal["answered", "refused", "dropped"] = "answered"
        if failure is not None:
            outcome = "refused"
        elif dropped:
            outcome = "dropped"
        sent = Sent(
            number=len(self._requests) + 1,
            tokens=tokens,
            outcome=outcome,
            generation=self._generation,
        )
        self._requests.append(sent)

    def _told(self, wall: Wall, before: int, failure: Failure | None, dropped: int) -> Rehearsed:
        repeated = zip(self._requests, self._requests[1:], strict=False)
        invalid = sum(after.generation <= first.generation for first, after in repeated)
        refused_again = [one for one in self._requests[1:] if one.outcome == "refused"]
        attempts = [one.attempt for one in self._decisions if one.attempt is not None]
        last = self._decisions[-1] if self._decisions else None
        stopped = failure is not None and last is not None and last.retry
        return Rehearsed(
            backend=self._backend,
            discipline=self._discipline.name,
            limit_tokens=wall.limit_tokens,
            generation_before=before,
            generation_after=self._generation,
            decision="retry" if last is not None and last.retry else "preserve",
            verdict=attempts[-1].verdict if attempts else None,
            recovered=failure is None and not dropped,
            requests=tuple(self._requests),
            decisions=tuple(self._decisions),
            invalid_retries=invalid,
            wasted_tokens=sum(one.tokens for one in refused_again),
            dropped_tokens=dropped,
            failure=failure,
            stopped_at=self._max_requests if stopped else None,
            notices=tuple(self._notices),
        )


def normalised(failure: Failure) -> Failure:
    """The failure as a harness logs it: its code is the normalised one."""
    code = str(normalise(failure).code)
    return Failure(message=failure.message, code=code, status=failure.status)
