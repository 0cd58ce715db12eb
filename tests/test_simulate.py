"""The rehearsal: a turn as the harness writes it, requests counted for real, and what it costs."""

import json
from pathlib import Path
from typing import Any, Final

import plain_reader
import pytest
from builders import Conversation
from hypothesis import given, settings
from hypothesis import strategies as st
from wilful import POLICY, Step, Wilful, claim, delete, fold, prune, rounds, stuck, unruly_steps

from dsh_compact import tokenizers
from dsh_compact.backends import Claim
from dsh_compact.errors import UsageError
from dsh_compact.events import Failure
from dsh_compact.session import WritableSession, open_session
from dsh_compact.simulate import (
    ANSWER,
    PROMPT,
    SAYS_SO,
    Decided,
    Rehearsal,
    Rehearsed,
    default_limit,
    discipline,
)
from dsh_compact.tokenizers.cache import CountCache
from dsh_compact.verify import verify
from dsh_compact.wall import Wall, as_told, in_words_of

TOKENIZER: Final = CountCache(tokenizers.load("o200k_base"))
RATE: Final = Failure(message="Too many requests", code="rate_limit_exceeded", status=429)


def play(
    log: Path,
    *steps: Step,
    backend: Any = None,
    name: str = "proof",
    limit: int | None = None,
    refuse: Any = None,
    **options: Any,
) -> Rehearsed:
    """One rehearsal; the wall stands at nine tenths of the request unless `limit` says where."""
    with open_session(log) as session:
        return rehearsal(
            session, *steps, backend=backend, name=name, limit=limit, refuse=refuse, **options
        ).play()


def rehearsal(
    session: WritableSession,
    *steps: Step,
    backend: Any = None,
    name: str = "proof",
    limit: int | None = None,
    refuse: Any = None,
    is_silent: bool = False,
    max_requests: int = 50,
) -> Rehearsal:
    """A rehearsal that has not been played yet."""
    backend = Wilful(steps) if backend is None else backend
    refuse = refuse or in_words_of("deepseek")

    def wall(requested: int) -> Wall:
        stands = limit or default_limit(requested, None)
        return Wall(limit_tokens=stands, refuse=refuse, is_silent=is_silent)

    decide = discipline(name, backend, POLICY, timeout_seconds=30)
    return Rehearsal(
        session, TOKENIZER, wall, decide, backend=backend.name, max_requests=max_requests
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A session between two turns."""
    return stuck().give_up().write(tmp_path / "session.jsonl")


def types_since(log: Path, before: bytes) -> list[str]:
    """The types of the records that were added."""
    data = log.read_bytes()
    assert data.startswith(before)
    return [json.loads(line)["type"] for line in data[len(before) :].splitlines()]


# The turn -----------------------------------------------------------------------------------------


def test_a_recovered_turn_is_written_as_the_harness_writes_it(log: Path) -> None:
    """Attempt, recovery inside the open step, the answer in the same step, the turn's end."""
    before = log.read_bytes()
    done = play(log, fold("so far"))
    assert done.recovered
    wanted = (
        "turn/start step/start user/message assistant/attempt compaction/start compaction/summary"
        " user/message compaction/end assistant/message step/end turn/end"
    )
    assert wanted.split() == types_since(log, before)
    assert () == verify(log).findings


def test_a_turn_that_was_given_up_ends_in_its_error(log: Path) -> None:
    """The original refusal stands in the turn's end, its code the normalised one."""
    before = log.read_bytes()
    done = play(log, claim(True))
    wanted = "turn/start step/start user/message assistant/attempt step/end turn/end"
    assert wanted.split() == types_since(log, before)
    reason = json.loads(log.read_bytes().splitlines()[-1])["data"]["reason"]
    assert ("error", "CONTEXT_WINDOW_EXCEEDED") == (reason["kind"], reason["error"]["code"])
    assert done.failure is not None
    assert done.failure.message == reason["error"]["message"]


def test_the_answer_carries_what_the_provider_counted(log: Path) -> None:
    """In its usage stands the count of the request that was answered, and of the answer."""
    done = play(log, fold("so far"))
    records = [json.loads(line) for line in log.read_bytes().splitlines()]
    answer = next(one for one in reversed(records) if one["type"] == "assistant/message")
    usage = answer["data"]["usage"]
    assert (done.requests[-1].tokens, TOKENIZER.count(ANSWER)) == (
        usage["inputTokens"],
        usage["outputTokens"],
    )


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_new_log_can_be_rehearsed_on(version: int, tmp_path: Path) -> None:
    """Where nobody has said anything yet, what the harness wants first is written first."""
    log = Conversation(format=version).write(tmp_path / "session.jsonl")
    done = play(log, claim(False))
    assert not done.recovered
    assert () == verify(log).findings
    read = plain_reader.read(log.read_bytes())
    assert None is read.refused
    surface = ["user/message"] if version == 0 else ["system/message", "user/message"]
    assert surface == [node.record["type"] for node in read.nodes]


def test_an_interrupted_rehearsal_ends_its_turn(log: Path) -> None:
    """Ctrl-C is passed on; the turn is over, and nothing is open."""

    class Interrupts:
        name = "interrupts"

        def on_request_error(self, session: WritableSession, failure: Failure) -> Decided:
            raise KeyboardInterrupt

        def on_reply(self, session: WritableSession) -> None: ...

    with open_session(log) as session:
        wall = Wall(limit_tokens=10, refuse=in_words_of("openai"))
        playing = Rehearsal(session, TOKENIZER, lambda _: wall, Interrupts(), backend="b")
        with pytest.raises(KeyboardInterrupt):
            playing.play()
    ending = json.loads(log.read_bytes().splitlines()[-1])
    assert ("turn/end", "aborted") == (ending["type"], ending["data"]["reason"]["kind"])
    assert () == verify(log).findings


# Requests -----------------------------------------------------------------------------------------


def test_requests_are_counted_by_the_tokenizer(log: Path) -> None:
    """The provider counts for real while the session estimates: the two differ."""
    done = play(log, fold("so far"))
    first, second = done.requests
    assert (1, "refused", 0) == (first.number, first.outcome, first.generation)
    assert (2, "answered", 1) == (second.number, second.outcome, second.generation)
    assert first.tokens > second.tokens
    assert done.estimated_tokens != first.tokens


def test_the_prompt_is_part_of_the_request(tmp_path: Path) -> None:
    """What the rehearsed user says is counted, too."""
    log = Conversation(format=4, tools=()).system("s").user("u").assistant("a").end()
    done = play(log.write(tmp_path / "session.jsonl"), claim(False), limit=1)
    texts = [TOKENIZER.count(text) for text in ("s", "u", "a", PROMPT)]
    assert sum(texts) + 4 * 4 + 3 == done.requests[0].tokens


def test_a_silent_provider_leaves_nothing_to_decide(log: Path) -> None:
    """It answers, and drops: no refusal, no attempt, no recovery."""
    done = play(log, fold("so far"), is_silent=True)
    assert (["dropped"], (), False) == (
        [one.outcome for one in done.requests],
        done.decisions,
        done.recovered,
    )
    assert done.requests[0].tokens - done.limit_tokens == done.requests[0].dropped_tokens
    assert () == verify(log).findings


def test_what_fits_was_never_refused(log: Path) -> None:
    """An answer without a refusal is no recovery."""
    done = play(log, fold("so far"), limit=1_000_000)
    assert (["answered"], False, False) == (
        [one.outcome for one in done.requests],
        done.was_refused,
        done.recovered,
    )


def test_another_error_is_passed_through(log: Path) -> None:
    """A rate limit compacts nothing, whatever the backend could do."""
    done = play(log, fold("so far"), refuse=as_told(RATE))
    assert ("preserve", None, 1) == (done.decision, done.verdict, len(done.requests))
    assert done.failure is not None
    assert ("RATE_LIMIT", RATE.message) == (done.failure.code, done.failure.message)
    assert 0 == done.generation_after


@pytest.mark.parametrize(
    ("known", "wanted"), [(None, 900), (800, 800), (1_000, 900), (999, 999), (2_000, 900)]
)
def test_where_the_wall_stands_by_itself(known: int | None, wanted: int) -> None:
    """At the known window where the request exceeds it, else a tenth below the request."""
    assert wanted == default_limit(1_000, known)


# Disciplines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "prof", "breaker", "breaker:0", "breaker:-1", "breaker:x"])
def test_an_unknown_discipline_is_wrong_usage(name: str) -> None:
    """The error says which there are."""
    with pytest.raises(UsageError, match="choose proof, breaker:N or trust"):
        discipline(name, Wilful())


class Liar:
    """Says the same for ever."""

    name = "liar"

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def compact(self, bench: Any) -> Claim:
        """Does nothing."""
        return self._claim


@pytest.mark.parametrize(
    ("name", "requests", "stopped"),
    [("proof", 1, None), ("breaker:3", 3, None), ("breaker:1", 1, None), ("trust", 7, 7)],
)
def test_a_liar_costs_what_the_discipline_allows(
    name: str, requests: int, stopped: int | None, log: Path
) -> None:
    """Every repetition is an invalid retry, and its tokens are wasted."""
    done = play(log, backend=Liar(Claim(acted=True)), name=name, max_requests=7)
    assert (requests, requests - 1, stopped) == (
        len(done.requests),
        done.invalid_retries,
        done.stopped_at,
    )
    assert done.wasted_tokens == (requests - 1) * done.requests[0].tokens
    assert done.sent_tokens == requests * done.requests[0].tokens


def test_trust_believes_that_nothing_was_done(log: Path) -> None:
    """A backend that owns up ends it."""
    done = play(log, backend=Liar(Claim(acted=False)), name="trust")
    assert (1, "preserve") == (len(done.requests), done.decision)


def test_a_breaker_closes_after_a_reply(log: Path) -> None:
    """What was answered is not held against the next request."""
    with open_session(log) as session:
        word = discipline("breaker:2", Liar(Claim(acted=True)), POLICY)
        failure = Failure(message="prompt is too long: 9 tokens > 8 maximum", status=400)
        assert SAYS_SO == word.on_request_error(session, failure).reason
        assert not word.on_request_error(session, failure).retry
        word.on_reply(session)
        assert word.on_request_error(session, failure).retry


@pytest.mark.parametrize("name", ["proof", "breaker:3", "trust"])
def test_a_log_that_takes_no_refusal_ends_it(name: str, log: Path) -> None:
    """Under any discipline: not stopped, but given up, with a reason."""
    done = play(log, delete(), claim(True), name=name)
    assert (None, "preserve", False) == (done.stopped_at, done.decision, done.recovered)
    if name != "proof":
        assert "the refusal could not be written down" in done.decisions[-1].reason


@given(rounds(st.one_of(unruly_steps, st.builds(prune), st.builds(fold, st.just("so far")))))
@settings(max_examples=60)
def test_proof_never_retries_in_vain(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Step]]
) -> None:
    """Whole turns with arbitrary backends: invalid retries are always 0."""
    log = stuck().give_up().write(tmp_path_factory.mktemp("law") / "session.jsonl")
    done = play(log, backend=Wilful(*steps))
    assert 0 == done.invalid_retries
    assert len(done.requests) <= 2
