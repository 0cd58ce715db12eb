"""The rehearsal: one turn against a provider with a wall, written as the harness writes it.

The provider counts with a real tokenizer while the session estimates, so the two differ as in life.
The turn goes turn, step, message, request; a refusal is followed by the discipline's decision
inside the open step, a retry by another request, and whatever comes of it by the end of step and
turn: the copy that a rehearsal leaves is a log that the harness opens.

A discipline is what decides after a refusal: `proof` asks the ledger, `breaker:N` gives up after N
refusals, `trust` believes the backend. The last two are here to be compared with, not to be used.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from dsh_compact.backends import Backend
from dsh_compact.backends.running import Runner, run_here
from dsh_compact.codec import encode
from dsh_compact.errors import DshcError, UsageError
from dsh_compact.events import Failure, Text, Usage
from dsh_compact.interruption import closers
from dsh_compact.ledger import Reading
from dsh_compact.overflow import Code, normalise
from dsh_compact.policy import DEFAULT, Policy
from dsh_compact.recovery import (
    ADVANCED,
    Attempt,
    OverflowPath,
    Retry,
    Round,
    Verdict,
    proof_of,
    round_of,
)
from dsh_compact.session import WritableSession
from dsh_compact.tokenizers import Tokenizer
from dsh_compact.tokenizers.conversation import header_pieces, pieces
from dsh_compact.tokenizers.framing import count_request
from dsh_compact.wall import Answer, Wall
from dsh_compact.words import counted
from dsh_compact.workbench import Workbench

PROMPT: Final = "Please go on."
"""What the rehearsed user says."""

ANSWER: Final = "Understood. Carrying on from where we were."
"""What the rehearsed provider answers once a request fits."""

DEFAULT_MAX_REQUESTS: Final = 50
"""Where `trust` is stopped; in life nothing would stop it."""

SAYS_SO: Final = "the backend says that it compacted"
SAYS_NOTHING: Final = "the backend does not say that it compacted"
"""Why a discipline that asks the backend decides as it does."""

DEFAULT_LIMIT_SHARE: Final = 0.9
"""A wall that a request of any size runs into, and that a little packing gets over."""

PROVIDER: Final = "rehearsal"
MODEL: Final = "wall"
"""Whom a request goes to where the log does not say."""


class Sent(Struct, frozen=True, kw_only=True):
    """One request, in the provider's own counting.

    `generation` is the file's at the time; `outcome` is `dropped` where a silent provider answered
    without what did not fit, which was `dropped_tokens`. `failure` is how it was refused.
    """

    number: int
    tokens: int
    outcome: Literal["answered", "refused", "dropped"]
    generation: int
    dropped_tokens: int = 0
    failure: Failure | None = None


class Decided(Struct, frozen=True, kw_only=True):
    """What a discipline made of one refusal.

    The generations are the file's; `rounds` are the backend's runs, none where it was not asked.
    `attempt` is set where the ledger decided.
    """

    retry: bool
    reason: str
    generation_before: int
    generation_after: int
    rounds: tuple[Round, ...] = ()
    attempt: Attempt | None = None
    notices: tuple[str, ...] = ()


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
        generation = session.replace_generation  # in step with the file: a path leaves it so
        return Decided(
            retry=isinstance(decision, Retry),
            reason=ADVANCED if isinstance(decision, Retry) else decision.reason,
            generation_before=generation if attempt is None else attempt.generation_before,
            generation_after=generation if attempt is None else attempt.generation_after,
            rounds=() if attempt is None else attempt.rounds,
            attempt=attempt,
            notices=() if attempt is None else attempt.notices,
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
        self._failures += 1
        reason = self._reason_not_to(failure)
        if reason:
            generation = session.replace_generation
            return Decided(
                retry=False,
                reason=reason,
                generation_before=generation,
                generation_after=generation,
            )
        before = Reading(session.path)
        bench = Workbench(
            session,
            policy=self._policy,
            retain_tokens=0,
            goal=None,
            backend=self._backend.name,
            insist=True,
        )
        ran = self._run(self._backend, bench, self._timeout_seconds)
        reading, notice = proof_of(session, before)
        says_so = ran.claim is not None and ran.claim.acted
        return Decided(
            retry=says_so or self._most_failures is not None,
            reason=SAYS_SO if says_so else SAYS_NOTHING,
            generation_before=before.generation,
            generation_after=before.generation if reading is None else reading.generation,
            rounds=(round_of(ran, reading),),
            notices=(*bench.notices, *([notice] if notice else [])),
        )

    def _reason_not_to(self, failure: Failure) -> str:
        if normalise(failure).code is not Code.CONTEXT_WINDOW_EXCEEDED:
            return "the failure is no overflow of the context window"
        if self._most_failures is not None and self._failures >= self._most_failures:
            return f"the breaker opened after {counted(self._failures, 'refused request')}"
        return ""

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
    """How a rehearsal went; all counts in tokens of the provider's own counting, but for
    `estimated_tokens`, the session's own estimate of the first request.

    `requests` are in order, and each refused one is followed by its place in `decisions`. `failure`
    is the original error where it was reported in the end. `stopped_at` is set where `max_requests`
    ended what would have gone on.
    """

    backend: str
    discipline: str
    limit_tokens: int
    estimated_tokens: int
    generation_before: int
    generation_after: int
    requests: tuple[Sent, ...]
    decisions: tuple[Decided, ...]
    failure: Failure | None
    stopped_at: int | None = None
    notices: tuple[str, ...] = ()

    @property
    def decision(self) -> Literal["retry", "preserve"]:
        """What was decided last; a provider that never refuses leaves nothing to decide."""
        return "retry" if self.decisions and self.decisions[-1].retry else "preserve"

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt that the ledger judged."""
        attempts = [one.attempt for one in self.decisions if one.attempt is not None]
        return attempts[-1] if attempts else None

    @property
    def verdict(self) -> Verdict | None:
        """What the ledger says about the newest attempt."""
        return None if self.attempt is None else self.attempt.verdict

    @property
    def was_refused(self) -> bool:
        """Whether there was anything to recover from."""
        return any(one.outcome == "refused" for one in self.requests)

    @property
    def recovered(self) -> bool:
        """Whether a refused request was answered in the end, with nothing dropped."""
        return self.was_refused and self.requests[-1].outcome == "answered"

    @property
    def invalid_retries(self) -> int:
        """Requests sent again although the generation on disk had not grown since the last one."""
        pairs = pairwise(self.requests)
        return sum(after.generation <= first.generation for first, after in pairs)

    @property
    def wasted_tokens(self) -> int:
        """What refused repetitions cost."""
        return sum(one.tokens for one in self.requests[1:] if one.outcome == "refused")

    @property
    def sent_tokens(self) -> int:
        """What all requests have together."""
        return sum(one.tokens for one in self.requests)


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
        self._found = session.replace_generation

    def play(self) -> Rehearsed:
        """Plays the turn to its end and tells how it went.

        Raises only where the turn cannot begin (`LogError` and its kin).
        """
        before = self._found
        turn = self._begin()
        try:
            wall, estimated, failure = self._requested(turn)
        except KeyboardInterrupt:
            self._end([encode.step_end(turn, 1), encode.turn_end(turn, "aborted")])
            raise
        stopped = failure is not None and self._decisions[-1].retry
        return Rehearsed(
            backend=self._backend,
            discipline=self._discipline.name,
            limit_tokens=wall.limit_tokens,
            estimated_tokens=estimated,
            generation_before=before,
            generation_after=self._found,
            requests=tuple(self._requests),
            decisions=tuple(self._decisions),
            failure=failure,
            stopped_at=self._max_requests if stopped else None,
            notices=tuple(self._notices),
        )

    def _requested(self, turn: int) -> tuple[Wall, int, Failure | None]:
        """Sends requests until one is answered, or given up; the last failure, if it was."""
        estimated = self._session.pressure().total_tokens
        wall = self._make_wall(self._count())
        while True:
            answer = wall.request(self._count())
            self._note(answer)
            if answer.failure is None or not self._goes_on(turn, answer.failure):
                break
        failure = None if answer.failure is None else normalised(answer.failure)
        self._finish(turn, failure)
        return wall, estimated, failure

    # The turn, as the harness writes it -----------------------------------------------------------

    def _begin(self) -> int:
        session = self._session
        left_open = closers(session)
        if left_open:
            session.append(left_open)
        turn = session.turns.last_turn + 1
        drafts = [encode.turn_start(turn), encode.step_start(turn, 1)]
        if session.format > 0 and not session.surface:  # the harness wants its place taken
            drafts.append(encode.system_message(turn, 1, (), self._id(), version=session.format))
        if session.newest_header is None:
            drafts.append(encode.request_header(PROVIDER, MODEL))
        session.append([*drafts, encode.user_message((Text(text=PROMPT),), self._id("prompt"))])
        return turn

    def _id(self, what: str = "message") -> str:
        return f"rehearsal-{what}-{self._session.events}"

    def _goes_on(self, turn: int, failure: Failure) -> bool:
        """Writes the refusal down, lets the discipline decide; whether another request follows."""
        session = self._session
        time_ms = session.now_ms()
        try:
            refused = normalised(failure)
            session.append([encode.request_failed(turn, 1, refused, time_ms, session.format)])
        except DshcError as fault:
            decided = self._given_up(f"the refusal could not be written down: {fault}")
        else:
            decided = self._discipline.on_request_error(session, failure)
        self._decisions.append(decided)
        self._found = decided.generation_after
        return decided.retry and len(self._requests) < self._max_requests

    def _given_up(self, reason: str) -> Decided:
        """A log that takes no refusal takes no proof either."""
        return Decided(
            retry=False,
            reason=reason,
            generation_before=self._found,
            generation_after=self._found,
        )

    def _finish(self, turn: int, failure: Failure | None) -> None:
        drafts = [encode.step_end(turn, 1)]
        if failure is None:
            drafts.insert(0, self._answer(turn))
            drafts.append(encode.turn_end(turn, "completed"))
            self._discipline.on_reply(self._session)
        else:
            drafts.append(encode.turn_end(turn, "error", failure))
        self._end(drafts)

    def _end(self, drafts: list[encode.Draft]) -> None:
        try:
            self._session.append(drafts)
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
            self._id("answer"),
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

    def _note(self, answer: Answer) -> None:
        outcome: Literal["answered", "refused", "dropped"] = "answered"
        if answer.failure is not None:
            outcome = "refused"
        elif answer.dropped_tokens:
            outcome = "dropped"
        sent = Sent(
            number=len(self._requests) + 1,
            tokens=answer.tokens,
            outcome=outcome,
            generation=self._found,
            dropped_tokens=answer.dropped_tokens,
            failure=None if answer.failure is None else normalised(answer.failure),
        )
        self._requests.append(sent)


def normalised(failure: Failure) -> Failure:
    """The failure as a harness logs it: its code is the normalised one."""
    code = str(normalise(failure).code)
    return Failure(message=failure.message, code=code, status=failure.status)


def default_limit(requested_tokens: int, known_tokens: int | None) -> int:
    """Where the wall stands when nobody says: at the known window where the request exceeds it,
    else at `DEFAULT_LIMIT_SHARE` of the request.
    """
    if known_tokens is not None and requested_tokens > known_tokens:
        return known_tokens
    return int(requested_tokens * DEFAULT_LIMIT_SHARE)
