"""The overflow path: the table, the law, and what becomes of the session."""

import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final

import plain_reader
import pytest
from builders import Conversation
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from wilful import (
    POLICY,
    Step,
    Wilful,
    Witness,
    claim,
    delete,
    fail,
    flip,
    fold,
    forge,
    forget,
    note,
    open_bracket,
    orderly_steps,
    pipe,
    prune,
    replace_bare,
    rounds,
    sleep,
    stuck,
    swap,
    unruly_steps,
    write,
    write_replacement,
)

from dsh_compact.backends import Claim
from dsh_compact.backends.running import run_isolated
from dsh_compact.errors import LogError
from dsh_compact.events import Failure
from dsh_compact.ledger import Reading
from dsh_compact.overflow import normalise
from dsh_compact.policy import Policy
from dsh_compact.recovery import (
    ADVANCED,
    MOST_ROUNDS,
    TABLE,
    Attempt,
    Facts,
    Forecast,
    OverflowPath,
    Preserve,
    Retry,
    Verdict,
    may_try,
    row_for,
)
from dsh_compact.session import WritableSession, open_session
from dsh_compact.verify import verify
from dsh_compact.workbench import Workbench

OVERFLOW: Final = Failure(
    message="prompt is too long: 1900 tokens > 1500 maximum", code="invalid_request_error",
    status=400, type="error", body='{"kept": "as it came"}',
)  # fmt: skip
WITHOUT_NUMBERS: Final = Failure(message="Input is too long for requested model.", status=400)
RATE: Final = Failure(message="Too many requests", code="rate_limit_exceeded", status=429)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A session that was refused a moment ago."""
    return stuck().write(tmp_path / "session.jsonl")


def decide(
    log: Path,
    *steps: Step,
    failure: Failure = OVERFLOW,
    timeout_seconds: float = 30.0,
    stubborn: bool = False,
    **options: Any,
) -> Retry | Preserve:
    """The path's decision on one failure with a backend of one round."""
    backend = Wilful(steps, stubborn=stubborn)
    with open_session(log) as session:
        path = OverflowPath(backend, POLICY, timeout_seconds=timeout_seconds)
        return path.on_request_error(session, failure, **options)


def attempt_of(decision: Retry | Preserve) -> Attempt:
    """The attempt, which there must be."""
    assert decision.attempt is not None
    return decision.attempt


# The table ----------------------------------------------------------------------------------------

BOTH: Final = (False, True)


def expected(is_overflow: bool, is_cancelled: bool, has_retries_left: bool, grew: bool) -> bool:
    """The rule as the project states it, in one expression."""
    return is_overflow and not is_cancelled and has_retries_left and grew


@pytest.mark.parametrize("columns", list(product(BOTH, repeat=4)))
def test_exactly_one_row_speaks(columns: tuple[bool, bool, bool, bool]) -> None:
    """Whatever the facts are, one row of the table matches them, and it decides by the rule."""
    facts = Facts(**dict(zip(Facts.__struct_fields__, columns, strict=True)))
    rows = [row for row in TABLE if row.matches(facts)]
    assert 1 == len(rows)
    assert rows[0] is row_for(facts)
    assert expected(*columns) == rows[0].retry


def test_each_row_has_its_own_reason() -> None:
    """A user can tell the rows apart, and one of them allows a retry."""
    assert len(TABLE) == len({row.reason for row in TABLE})
    assert [ADVANCED] == [row.reason for row in TABLE if row.retry]


@pytest.mark.parametrize("columns", list(product(BOTH, repeat=4)))
def test_nothing_is_tried_in_vain(columns: tuple[bool, bool, bool, bool]) -> None:
    """A backend is asked only where its success would allow a retry."""
    facts = Facts(**dict(zip(Facts.__struct_fields__, columns, strict=True)))
    assert expected(*columns[:3], True) == may_try(facts)


@pytest.mark.parametrize("columns", list(product(BOTH, repeat=5)))
def test_the_path_decides_by_the_table(columns: tuple[bool, ...], tmp_path: Path) -> None:
    """Every combination of facts, made real on a log: the decision is the table's, and a backend
    that raises changes nothing about it.
    """
    is_overflow, is_cancelled, has_retries_left, grows, raises = columns
    log = stuck().write(tmp_path / "session.jsonl")
    steps = [*([fold("so far")] if grows else []), *([fail(OSError)] if raises else [])]
    policy = structs.replace(POLICY, max_overflow_retries=int(has_retries_left))
    failure = OVERFLOW if is_overflow else RATE
    with open_session(log) as session:
        decision = OverflowPath(Wilful(steps), policy).on_request_error(
            session, failure, is_cancelled=lambda: is_cancelled
        )
    assert expected(*columns[:4]) == isinstance(decision, Retry)
    if isinstance(decision, Preserve):
        tried = is_overflow and not is_cancelled and has_retries_left
        assert tried == (decision.attempt is not None)
        assert decision.failure is failure


# The law ------------------------------------------------------------------------------------------


def check_the_law(folder: Path, backend: Wilful, version: int, run: Any = None) -> Witness:
    """A retry if and only if the file grew, by a witness who shares no code with the path."""
    log = stuck(version).write(folder / "session.jsonl")
    before = Witness.of(log)
    options = {} if run is None else {"run": run}
    with open_session(log) as session:
        path = OverflowPath(backend, POLICY, timeout_seconds=30.0, **options)
        decision = path.on_request_error(session, OVERFLOW)
        assert before.saw_it_grow(log) == isinstance(decision, Retry)
        assert 1 >= path.retries
        if isinstance(decision, Preserve):
            assert decision.failure is OVERFLOW
        else:
            assert session.replace_generation == plain_reader.read(log.read_bytes()).generation
    return before


@given(rounds(orderly_steps), st.booleans(), st.sampled_from([0, 3, 4]))
@settings(max_examples=250)
def test_a_retry_if_and_only_if_the_file_grew(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Step]], stubborn: bool, version: int
) -> None:
    """Whatever a backend does through our doors or in memory: the law holds, nothing that was
    written before has changed, and the log folds.
    """
    folder = tmp_path_factory.mktemp("law")
    before = check_the_law(folder, Wilful(*steps, stubborn=stubborn), version)
    data = (folder / "session.jsonl").read_bytes()
    assert data.startswith(before.data)
    assert None is plain_reader.read(data).broken


@given(rounds(st.one_of(orderly_steps, unruly_steps)), st.booleans(), st.sampled_from([0, 3, 4]))
@settings(max_examples=250)
def test_the_law_holds_for_scribblers(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Step]], stubborn: bool, version: int
) -> None:
    """Whatever it does to the file itself, or to what bears the file's name, too."""
    folder = tmp_path_factory.mktemp("law")
    check_the_law(folder, Wilful(*steps, stubborn=stubborn), version)


@given(rounds(st.one_of(orderly_steps, unruly_steps)))
@settings(max_examples=40)
def test_the_law_holds_in_a_process_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Step]]
) -> None:
    """An isolated backend's work is judged by the same file."""
    folder = tmp_path_factory.mktemp("law")
    check_the_law(folder, Wilful(*steps), 4, run_isolated)


TORN: Final = write(b"torn")

GROWS: Final = {
    "a summary": [fold("so far")],
    "a summary, then an error": [fold("so far"), fail(ValueError)],
    "a summary, then sys.exit": [fold("so far"), fail(SystemExit)],
    "prunes": [prune()],
    "prunes, then an error": [prune(), fail(ConnectionError)],
    "prunes, and the claim that nothing was done": [prune(), claim(False)],
    "a replacement without a bracket": [replace_bare()],
    "a replacement written past our lock": [write_replacement()],
    "a torn line behind a summary": [fold("so far"), TORN],
}
STAYS: Final = {
    "a claim": [claim(True)],
    "nothing": [],
    "an error": [fail(RuntimeError)],
    "an empty summary": [fold(" \n")],
    "a longer summary": [fold("longer than it all. " * 900)],
    "a generation set in memory": [forge()],
    "a conversation shortened in memory": [forget()],
    "a message appended": [note("hello")],
    "a bracket left open": [open_bracket()],
    "garbage behind a summary": [fold("so far"), write(b"\x00\xff garbage\n")],
    "garbage behind prunes": [prune(), write(b"\x00\xff garbage\n")],
    "a summary, and earlier bytes changed": [fold("so far"), flip(40)],
    "a copy in the log's place": [swap()],
    "the log removed": [fold("so far"), delete()],
    "a pipe in the log's place": [fold("so far"), pipe()],
}


@pytest.mark.parametrize("steps", GROWS.values(), ids=GROWS.keys())
def test_what_earns_a_retry(steps: list[Step], log: Path) -> None:
    """The file grew: a retry, whatever was raised or said, and the readings prove it."""
    before = Witness.of(log)
    decision = decide(log, *steps)
    assert isinstance(decision, Retry)
    assert before.generation == decision.before.generation
    assert before.saw_it_grow(log)


@pytest.mark.parametrize("steps", STAYS.values(), ids=STAYS.keys())
def test_what_earns_none(steps: list[Step], log: Path) -> None:
    """The file proves nothing: the original failure comes back, the very same object."""
    decision = decide(log, *steps)
    assert isinstance(decision, Preserve)
    assert decision.failure is OVERFLOW
    assert decision.attempt is not None


ORDERLY: Final = {
    name: steps
    for name, steps in {**GROWS, **STAYS}.items()
    if not any(step.scribbles or step.name == "replace" for step in steps)
}


@pytest.mark.parametrize("steps", ORDERLY.values(), ids=ORDERLY.keys())
def test_no_bracket_of_ours_stays_open(steps: list[Step], log: Path) -> None:
    """Whatever an attempt did by the rules, the harness could go on: none is broken."""
    decide(log, *steps)
    assert () == verify(log).findings


# Time and cancellation ----------------------------------------------------------------------------


def wait_until(done: Callable[[], bool]) -> None:
    """Waits for a thread that was left behind; fails after ten seconds."""
    end = time.monotonic() + 10
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("late", [fold("too late"), note("too late"), prune(), replace_bare()])
def test_a_late_backend_writes_nothing(late: Step, log: Path) -> None:
    """Once its time is over, neither its bench nor the session behind it takes anything from it."""
    backend = Wilful([open_bracket(), sleep(0.3), late], stubborn=True)
    with open_session(log) as session:
        path = OverflowPath(backend, POLICY, timeout_seconds=0.05)
        decision = path.on_request_error(session, OVERFLOW)
        assert isinstance(decision, Preserve)
        assert Verdict.TIMED_OUT is attempt_of(decision).verdict
        left = log.read_bytes()
        wait_until(lambda: backend.is_done)
        assert left == log.read_bytes()
    assert () == verify(log).findings


def test_prunes_that_landed_in_time_count(log: Path) -> None:
    """A backend that hangs after its prunes has earned the retry all the same."""
    backend = Wilful([prune(), sleep(0.3)])
    with open_session(log) as session:
        path = OverflowPath(backend, POLICY, timeout_seconds=0.1)
        assert isinstance(path.on_request_error(session, OVERFLOW), Retry)
        wait_until(lambda: backend.is_done)


def test_a_cancelled_request_does_not_wait(log: Path) -> None:
    """Cancelled while the backend works: it is left alone at once, and nothing is retried."""
    begun = time.monotonic()
    backend = Wilful([fold("so far"), sleep(5)])
    with open_session(log) as session:
        path = OverflowPath(backend, POLICY, timeout_seconds=60)
        decision = path.on_request_error(
            session, OVERFLOW, is_cancelled=lambda: session.replace_generation > 0
        )
    assert isinstance(decision, Preserve)
    assert "the request was cancelled" == decision.reason
    assert 3 > time.monotonic() - begun
    assert () == verify(log).findings


def test_an_interrupt_is_passed_on_with_the_bracket_closed(log: Path) -> None:
    """Ctrl-C while a backend works belongs to the caller; the log is left in order."""

    def interrupts() -> bool:
        if session.turns.bracket is not None:
            raise KeyboardInterrupt
        return False

    backend = Wilful([open_bracket(), sleep(0.3)])
    with open_session(log) as session:
        path = OverflowPath(backend, POLICY)
        with pytest.raises(KeyboardInterrupt):
            path.on_request_error(session, OVERFLOW, is_cancelled=interrupts)
        assert None is session.turns.bracket
        wait_until(lambda: backend.is_done)
    assert () == verify(log).findings


# Rounds and forecast ------------------------------------------------------------------------------


def test_it_goes_on_while_the_forecast_is_too_much(log: Path) -> None:
    """A first round that moved too little is followed by another before a request is spent."""
    with open_session(log) as session:
        path = OverflowPath(Wilful([prune()], [fold("so far")]), POLICY)
        decision = path.on_request_error(session, over_by_far())
    assert isinstance(decision, Retry)
    attempt = attempt_of(decision)
    generations = [one.generation for one in attempt.rounds]
    assert 2 == len(generations)
    assert Verdict.REDUCED is attempt.verdict
    assert attempt.forecast_tokens is not None
    assert attempt.room_tokens is not None
    assert attempt.forecast_tokens <= attempt.room_tokens


def over_by_far() -> Failure:
    """A refusal whose limit no prune of that log reaches."""
    return Failure(message="prompt is too long: 1900 tokens > 700 maximum", status=400)


def test_it_stops_where_nothing_moves_any_more(log: Path) -> None:
    """The second round moved nothing: that is the end of it, and the floor is told."""
    decision = decide(log, prune(), failure=over_by_far())
    assert isinstance(decision, Retry)
    attempt = attempt_of(decision)
    assert 2 == len(attempt.rounds)
    assert Verdict.STILL_OVER is attempt.verdict


def test_even_progress_comes_to_an_end(log: Path) -> None:
    """A backend that moves the generation for ever without getting there is stopped."""
    backend = Wilful(*[[replace_bare()]] * (MOST_ROUNDS + 4))
    with open_session(log) as session:
        decision = OverflowPath(backend, POLICY).on_request_error(session, over_by_far())
    assert MOST_ROUNDS == len(attempt_of(decision).rounds)


def test_without_numbers_there_is_one_round_and_no_forecast(log: Path) -> None:
    """A refusal without numbers says nothing about how much is enough."""
    decision = decide(log, prune(), failure=WITHOUT_NUMBERS)
    attempt = attempt_of(decision)
    assert 1 == len(attempt.rounds)
    assert None is attempt.forecast_tokens


def forecast_of(log: Path, message: str) -> tuple[Forecast, int]:
    """The forecast that a refusal allows, and the surface's estimate when it came."""
    refusal = normalise(Failure(message=message, status=400))
    with open_session(log) as session:
        pressure = session.pressure()
        return Forecast(pressure, refusal), pressure.surface_tokens


def test_the_forecast_is_calibrated_by_the_refusal(log: Path) -> None:
    """For the refused request itself it gives the provider's count; half of it is half as much,
    but for the header, which stays.
    """
    forecast, surface = forecast_of(log, "prompt is too long: 3800 tokens > 1500 maximum")
    assert 3800 == forecast.tokens(surface)
    header = forecast.tokens(0)
    assert header is not None
    assert header > 0
    assert header + (3800 - header) // 2 == pytest.approx(forecast.tokens(surface // 2), abs=2)
    assert (False, True) == (forecast.fits(surface), forecast.fits(0))


def test_a_reservation_is_no_input(log: Path) -> None:
    """Where the refusal tells both, the input is what was counted, and the output takes room."""
    words = "input length and `max_tokens` exceed context limit: 1700 + 300 > 1900, decrease it"
    forecast, surface = forecast_of(log, words)
    assert (1700, 1600, 1900) == (
        forecast.tokens(surface),
        forecast.room_tokens,
        forecast.limit_tokens,
    )


def test_an_earlier_limit_is_remembered(log: Path) -> None:
    """A refusal without numbers doesn't take away what another one taught; alone it forecasts
    nothing.
    """
    forecast, surface = forecast_of(log, "Input is too long for requested model.")
    assert (1500, None, None) == (
        forecast.limit_tokens,
        forecast.tokens(surface),
        forecast.fits(surface),
    )


def test_a_conversation_of_one_message_is_irreducible(tmp_path: Path) -> None:
    """Where nothing can be folded, the verdict says so and the floor what is left."""
    log = stuck_on_one_message().write(tmp_path / "session.jsonl")
    attempt = attempt_of(decide(log, claim(False)))
    assert Verdict.IRREDUCIBLE is attempt.verdict
    assert attempt.floor is not None
    assert ["user"] == [one.kind for one in attempt.floor.largest]
    assert attempt.floor.total_tokens >= attempt.floor.largest[0].tokens > 1000


def stuck_on_one_message() -> Conversation:
    """A session that nothing can be taken out of."""
    return (
        Conversation(window=3_000)
        .system("You help.")
        .user("one giant message " * 300)
        .refusal(limit=1_000, requested=1_400)
    )


VERDICTS: Final = {
    Verdict.REDUCED: [fold("so far")],
    Verdict.PRUNED_ONLY: [prune()],
    Verdict.NO_OP: [claim(True)],
    Verdict.BLOATED: [fold("longer than it all. " * 900)],
    Verdict.NOT_PERSISTED: [forge()],
    Verdict.BACKEND_ERROR: [fail(ValueError)],
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_verdicts(verdict: Verdict, log: Path) -> None:
    """Each kind of ending has its name (the others have tests of their own)."""
    assert verdict is attempt_of(decide(log, *VERDICTS[verdict])).verdict


def test_a_log_that_proves_nothing_is_told_as_not_persisted(log: Path) -> None:
    """What was changed behind our back has a verdict and a notice, and counts for nothing."""
    attempt = attempt_of(decide(log, fold("so far"), flip(40)))
    assert Verdict.NOT_PERSISTED is attempt.verdict
    assert attempt.generation_before == attempt.generation_after
    assert 1 == len(attempt.notices)


# Retries ------------------------------------------------------------------------------------------


def test_one_retry_by_default(log: Path) -> None:
    """The second refusal of a request is reported, however much more could be folded."""
    with open_session(log) as session:
        path = OverflowPath(Wilful([fold("first")], [replace_bare()]), POLICY)
        assert isinstance(path.on_request_error(session, OVERFLOW), Retry)
        second = path.on_request_error(session, OVERFLOW)
        assert isinstance(second, Preserve)
        assert (None, "the retries are used up") == (second.attempt, second.reason)


@pytest.mark.parametrize("call", ["on_reply", "on_idle"])
def test_a_reply_gives_the_retries_back(call: str, log: Path) -> None:
    """A request that was answered, or a turn that is over, resets the count."""
    with open_session(log) as session:
        path = OverflowPath(Wilful([fold("first")], [replace_bare()]), POLICY)
        assert isinstance(path.on_request_error(session, OVERFLOW), Retry)
        getattr(path, call)(session)
        assert isinstance(path.on_request_error(session, OVERFLOW), Retry)


def test_a_backend_that_was_refused_once_is_asked_again(log: Path) -> None:
    """The retries count what was sent again, not what was tried."""
    with open_session(log) as session:
        path = OverflowPath(Wilful([fail(OSError)], [fold("now")]), POLICY)
        assert isinstance(path.on_request_error(session, OVERFLOW), Preserve)
        assert isinstance(path.on_request_error(session, OVERFLOW), Retry)


# No other way to a retry --------------------------------------------------------------------------


def test_a_retry_takes_nobodys_word(log: Path) -> None:
    """Equal readings, readings in the wrong order, and objects that only look like readings make
    no retry.
    """

    class Looks:
        generation = 7

        def advanced_since(self, _: object) -> bool:
            return True

    decision = decide(log, fold("so far"))
    assert isinstance(decision, Retry)
    for before, after in (
        (decision.before, decision.before),
        (decision.after, decision.before),
        (Looks(), Looks()),
        (decision.before, Looks()),
    ):
        with pytest.raises(ValueError, match="a retry needs"):
            structs.replace(decision, before=before, after=after)


def test_a_log_that_cannot_be_read_at_first_is_the_callers(log: Path) -> None:
    """Before anything was tried there is no decision to make: the error says what is wrong."""
    with open_session(log) as session:
        log.unlink()
        with pytest.raises(LogError, match="cannot be opened"):
            OverflowPath(Wilful([]), POLICY).on_request_error(session, OVERFLOW)


def test_the_claim_may_be_anything(log: Path) -> None:
    """A backend that returns no claim, or something else altogether, decides as little by it."""

    class Odd:
        name = "odd"

        def __init__(self, returned: object) -> None:
            self.returned = returned

        def compact(self, bench: Workbench) -> Any:
            return self.returned

    for returned, said in (
        (None, None),
        (True, Claim(acted=False)),
        ({"acted": True}, Claim(acted=False)),
        (Claim(acted=True, note="\ud83d" * 9000), Claim(acted=True, note="\\ud83d" * 2000)),
    ):
        with open_session(log) as session:
            decision = OverflowPath(Odd(returned), POLICY).on_request_error(session, OVERFLOW)
        assert isinstance(decision, Preserve)
        assert said == attempt_of(decision).rounds[0].claim


def test_the_bench_is_the_overflow_paths(log: Path) -> None:
    """No tail is kept, failed attempts are repeated, and the goal is the refusal's limit."""
    seen: list[Workbench] = []

    class Looks:
        name = "looks"

        def compact(self, bench: Workbench) -> Claim:
            seen.append(bench)
            assert bench.has_goal
            assert not bench.is_enough()
            return Claim(acted=False)

    with open_session(log) as session:
        OverflowPath(Looks(), POLICY).on_request_error(session, OVERFLOW)
    assert (0, 1500) == (seen[0].retain_tokens, seen[0].window_tokens)


def test_a_policy_may_allow_more_retries(log: Path) -> None:
    """Two retries, where the policy says two."""
    policy = structs.replace(POLICY, max_overflow_retries=2)
    with open_session(log) as session:
        path = OverflowPath(Wilful([fold("1")], [replace_bare()], [replace_bare()]), policy)
        kinds = [type(path.on_request_error(session, OVERFLOW)) for _ in range(3)]
    assert [Retry, Retry, Preserve] == kinds


def reading(session: WritableSession) -> Reading:
    """What the file says."""
    return Reading(session.path)


def test_nothing_is_retried_for_a_policy_of_none(log: Path) -> None:
    """With no retries allowed the backend is not even asked."""
    with open_session(log) as session:
        path = OverflowPath(Wilful([fold("1")]), Policy(max_overflow_retries=0))
        assert isinstance(path.on_request_error(session, OVERFLOW), Preserve)
        assert 0 == reading(session).generation
