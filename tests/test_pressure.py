"""The pressure path: acts at the threshold and not below, is never in the way, spends no attempt
twice.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any, Final

import plain_reader
import pytest
from builders import Conversation, call
from running import LOGS

from dsh_compact.backends import Backend, Claim
from dsh_compact.backends.lookup import BUILT_IN, load
from dsh_compact.backends.running import Runner, run_here, run_isolated
from dsh_compact.backends.standard import Standard
from dsh_compact.codec import encode
from dsh_compact.codec.renumber import renumber
from dsh_compact.errors import BackendFailed, DamagedLog, WriteFailed
from dsh_compact.events import Text
from dsh_compact.journal import Disk
from dsh_compact.planning import Span
from dsh_compact.policy import DEFAULT, Policy
from dsh_compact.pressure import (
    BELOW,
    NO_WINDOW,
    Outcome,
    Wishes,
    before_step,
    budgets_of,
    plan,
    run,
)
from dsh_compact.session import WritableSession, open_session
from dsh_compact.summarizers import Progress, Request, Summary
from dsh_compact.summarizers.extract import Extractive
from dsh_compact.trial import AtMost, open_trial
from dsh_compact.verify import verify
from dsh_compact.workbench import Workbench

LONG: Final = "a long story, told at length; " * 100
WINDOW: Final = 8_000


def story(turns: int = 9, *, version: int = 4, window: int | None = WINDOW) -> Conversation:
    """Turns of about 800 tokens each."""
    log = Conversation(format=version, window=window).system("You help.")
    for number in range(turns):
        log.user(f"{number}: {LONG}").assistant("Well.", stream=False).end()
    return log


@pytest.fixture
def full(tmp_path: Path) -> Iterator[WritableSession]:
    """A session over its threshold of 6,400 tokens, at the beginning of a step."""
    log = story().user("and now?")
    with open_session(log.write(tmp_path / "log.jsonl")) as session:
        yield session


def standard() -> Standard:
    """The backend that ships, with the summarizer that works offline."""
    return Standard(Extractive())


class Raising:
    """A backend that fails in a way of its own, after what `first` does."""

    name = "raising"

    def __init__(self, fault: BaseException, first: Callable[[Workbench], object] = bool) -> None:
        self.fault = fault
        self.first = first

    def compact(self, bench: Workbench) -> Claim:
        """Raises."""
        self.first(bench)
        raise self.fault


class Unreachable:
    """A summarizer whose every request costs something and gives nothing; it counts them."""

    name = "unreachable"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """Raises."""
        self.requests.append(request)
        raise ConnectionError("no route to host")


def generation_on_disk(session: WritableSession) -> int:
    """As another reader counts it."""
    return plain_reader.read(Path(session.path).read_bytes()).generation


# Whether it acts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_at_the_threshold_it_makes_room(version: int, framed: bool, tmp_path: Path) -> None:
    """The head is folded, the tail stays raw, the pressure falls below the threshold."""
    path = story(version=version).user("and now?").write(tmp_path / "log", framed=framed)
    with open_session(path) as session:
        outcome = before_step(session, DEFAULT, standard())
        generation = session.replace_generation
    assert outcome.acted
    assert (False, None) == (outcome.is_over, outcome.error)
    assert outcome.before is not None
    assert outcome.after is not None
    assert outcome.after.tokens < outcome.before.tokens
    folded = next(i for i, one in enumerate(outcome.after.items) if one.is_checkpoint)
    tail_tokens = sum(one.tokens for one in outcome.after.items[folded + 1 :])
    assert tail_tokens >= WINDOW * 0.16
    reading = plain_reader.read(path.read_bytes())
    assert (generation, None, None) == (reading.generation, reading.broken, reading.refused)
    assert () == verify(path).findings


def test_below_the_threshold_it_does_nothing(tmp_path: Path) -> None:
    """Not a byte is written, and the backend is not asked."""
    path = story(3).user("and now?").write(tmp_path / "log")
    old = path.read_bytes()
    with open_session(path) as session:
        outcome = before_step(session, DEFAULT, Raising(AssertionError("asked")))
    assert (False, BELOW, None) == (outcome.acted, outcome.reason, outcome.error)
    assert outcome.before == outcome.after
    assert old == path.read_bytes()


@pytest.mark.parametrize(("tokens", "acts"), [(-1, False), (0, True), (1, True)])
def test_the_threshold_itself_is_over(tokens: int, acts: bool, full: WritableSession) -> None:
    """At exactly the threshold it acts, one token below it does not."""
    total = full.pressure().total_tokens
    policy = Policy(window_tokens=total - tokens, threshold_ratio=1.0, retain_ratio=0.1)
    assert acts == before_step(full, policy, standard()).acted


def test_without_a_window_there_is_no_threshold(tmp_path: Path) -> None:
    """Nobody says how much the model takes: nothing is done, and that is said."""
    log = Conversation(window=None, model="nobody-knows-it").user(LONG * 20).assistant("Well.")
    with open_session(log.write(tmp_path / "log")) as session:
        outcome = before_step(session, DEFAULT, standard())
        assert (False, NO_WINDOW) == (outcome.acted, outcome.reason)
        assert None is budgets_of(session, DEFAULT)
        assert before_step(session, Policy(window_tokens=WINDOW), standard()).after is not None


def test_force_acts_below_the_threshold_once(tmp_path: Path) -> None:
    """One replacement that leaves the tail, even without a window."""
    for window in (128_000, None):
        path = story(6, window=window).user("now?").write(tmp_path / f"{window}")
        with open_session(path) as session:
            policy = Policy(retain_tokens=1500)
            outcome = run(session, policy, standard(), Wishes(force=True))
            assert (True, 1, "") == (outcome.acted, len(outcome.replaced), outcome.reason)
            assert outcome.after is not None
            assert sum(one.tokens for one in outcome.after.items[2:]) >= 1500


def test_keep_last_counts_the_newest_messages(full: WritableSession) -> None:
    """All that was said before them goes."""
    outcome = run(full, DEFAULT, standard(), Wishes(force=True, keep_last=4))
    assert outcome.before is not None
    assert outcome.after is not None
    newest = [one.seq for one in outcome.before.items[-4:]]
    assert newest == [one.seq for one in outcome.after.items[-4:]]
    assert 6 == len(outcome.after.items)


def test_pruning_alone_may_be_enough(tmp_path: Path) -> None:
    """One huge result is cut, and nobody is asked for a summary."""
    log = story(2).user("look").assistant(calls=[call("p")]).result("p", "x" * 30_000)
    log.assistant("Seen.").assistant(LONG).assistant(LONG)
    with open_session(log.write(tmp_path / "log")) as session:
        outcome = before_step(session, DEFAULT, Standard(Unreachable()))
    assert (1, 0, None) == (len(outcome.pruned), len(outcome.replaced), outcome.error)
    assert (True, False) == (outcome.acted, outcome.is_over)


def test_a_prune_is_tried_where_no_span_can_go(tmp_path: Path) -> None:
    """A call that still runs holds its message together, but a result beside it can be cut."""
    log = Conversation(window=WINDOW).user("look").assistant(calls=[call("p"), call("q")])
    path = log.result("p", "x" * 30_000).call("q").write(tmp_path / "log")
    with open_session(path) as session:
        outcome = before_step(session, Policy(retain_tokens=0), Standard(Unreachable()))
    assert (1, 0, None) == (len(outcome.pruned), len(outcome.replaced), outcome.error)
    assert outcome.acted


def test_a_tail_that_is_too_much_by_itself_is_given_up(tmp_path: Path) -> None:
    """Better folded down to the newest unit than over the threshold at every step."""
    log = Conversation(window=WINDOW).user(LONG * 5).assistant(LONG * 4).user("now?")
    policy = Policy(retain_ratio=0.5)
    with open_session(log.write(tmp_path / "log")) as session:
        outcome = before_step(session, policy, standard())
    assert (True, False) == (outcome.acted, outcome.is_over)


def test_a_tail_that_somebody_insists_on_is_kept(tmp_path: Path) -> None:
    """Then the conversation stays over its threshold, and the backend is not asked in vain."""
    log = Conversation(window=WINDOW).user(LONG * 5).assistant(LONG * 4).user("now?")
    with open_session(log.write(tmp_path / "log")) as session:
        asked = Raising(AssertionError("asked"))
        outcome = run(session, Policy(retain_ratio=0.5), asked, Wishes(keeps_tail=True))
    assert (False, True, None) == (outcome.acted, outcome.is_over, outcome.error)
    assert "belongs to the tail that is kept raw" in outcome.reason


def test_the_summarizer_is_told_what_it_needs(full: WritableSession) -> None:
    """The span's messages, the system prompt, the request's header, a bound, the user's wishes."""
    asked = Unreachable()
    told: list[int] = []
    wishes = Wishes(instructions="keep the names", progress=told.append)
    outcome = run(full, DEFAULT, Standard(asked), wishes)
    (request,) = asked.requests
    assert isinstance(outcome.error, ConnectionError)
    assert ("keep the names", 800) == (request.instructions, request.max_tokens)
    assert ["You help."] == [message.text for message in request.system]
    assert request.header is not None
    assert request.messages[0].text.startswith("0: a long story")


# Never in the way ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [RuntimeError("boom"), SystemExit(3), MemoryError(), BackendFailed("raising", "no key")],
    ids=lambda fault: type(fault).__name__,
)
def test_a_backend_that_fails_is_a_fact_of_the_outcome(
    fault: BaseException, full: WritableSession
) -> None:
    """Whatever it raises, the step goes on; what it was is told."""
    outcome = before_step(full, DEFAULT, Raising(fault))
    assert (False, fault, True) == (outcome.acted, outcome.error, outcome.is_over)


def test_what_landed_before_a_failure_counts(full: WritableSession) -> None:
    """The generation moved: it acted, whatever was raised afterwards."""

    def fold(bench: Workbench) -> object:
        return standard().compact(bench)

    outcome = before_step(full, DEFAULT, Raising(RuntimeError("late"), fold))
    assert outcome.acted
    assert "late" == str(outcome.error)
    assert generation_on_disk(full) == full.replace_generation == 1


@pytest.mark.parametrize("name", sorted(e.name for e in BUILT_IN.values() if e.kind == "hostile"))
def test_no_hostile_backend_gets_in_the_way(name: str, full: WritableSession) -> None:
    """Each is run; what the outcome says is what another reader finds on disk."""
    backend = load(name, Extractive)
    seconds = 0.3 if name == "hang" else 20.0
    outcome = before_step(full, DEFAULT, backend, Wishes(timeout_seconds=seconds))
    moved = generation_on_disk(full) > 0
    assert outcome.acted == (moved and name != "rewriter")
    assert outcome.acted or outcome.error is not None or outcome.claim is not None
    reading = plain_reader.read(Path(full.path).read_bytes())
    if reading.broken is None and outcome.error is None:
        assert reading.generation == full.replace_generation


def test_a_backend_that_hangs_is_left_behind(full: WritableSession) -> None:
    """After its time the step goes on, and what it writes later reaches nothing."""
    may_go = Event()
    hanging = Raising(RuntimeError("late"), lambda bench: may_go.wait(10) and bench.prune())
    outcome = before_step(full, DEFAULT, hanging, Wishes(timeout_seconds=0.1))
    may_go.set()
    assert not outcome.acted
    assert "did not return within 0.1 seconds" in str(outcome.error)


def test_a_log_that_is_cut_under_its_hands(full: WritableSession) -> None:
    """The file is right, and it says less: nothing has been done, and the fault is told."""
    cut = Raising(RuntimeError("x"), lambda bench: os.truncate(bench.session.path, 100))
    outcome = before_step(full, DEFAULT, cut)
    assert isinstance(outcome.error, DamagedLog)
    assert (False, outcome.before) == (outcome.acted, outcome.after)
    assert outcome.before is not None


@pytest.mark.parametrize(
    ("runner", "words"), [(run_here, "somebody else wrote"), (run_isolated, "was changed")]
)
def test_a_rewritten_log_proves_nothing(runner: Runner, words: str, full: WritableSession) -> None:
    """The generation grew, but what the log said before is not what it said: that is the error."""
    outcome = before_step(full, DEFAULT, load("rewriter", Extractive), Wishes(run=runner))
    assert not outcome.acted
    assert words in str(outcome.error)


def append_behind(bench: Workbench) -> None:
    """A record that folds, but not through the session."""
    draft = encode.user_message([Text(text="me, too")], "0" * 36)
    with open(bench.session.path, "ab") as log:
        log.write(draft.line(bench.session.events, 0, 4) + b"\n")


def touch(bench: Workbench) -> None:
    """What every write does, at the least."""
    os.utime(bench.session.path)


def copy_over(bench: Workbench) -> None:
    """The same bytes in another file."""
    path = Path(bench.session.path)
    shutil.copy(path, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


@pytest.mark.parametrize(
    "write",
    [append_behind, touch, copy_over],
)
def test_only_what_went_through_the_session_counts(
    write: Callable[[Workbench], object], full: WritableSession
) -> None:
    """Where somebody else had the log in hand, what it says proves nothing, even what is right."""

    def fold(bench: Workbench) -> object:
        return (standard().compact(bench), write(bench))

    outcome = before_step(full, DEFAULT, Raising(RuntimeError("late"), fold))
    assert not outcome.acted
    assert "somebody else wrote" in str(outcome.error)
    assert generation_on_disk(full) == full.replace_generation == 1


def test_what_was_rewritten_between_two_steps_is_read_anew(full: WritableSession) -> None:
    """A session that stays open believes no more of the log than the log says by then."""
    path = Path(full.path)
    content = path.read_bytes()
    place = content.index(b'"type":"step/end"')
    with path.open("r+b") as log:
        log.seek(place)
        log.write(b"~")
    outcome = before_step(full, DEFAULT, standard())
    assert not outcome.acted
    assert isinstance(outcome.error, DamagedLog)


@pytest.mark.parametrize("name", ["standard", "rewriter", "forger", "lying"])
def test_without_a_mark_the_whole_file_is_compared(
    name: str, full: WritableSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that keeps no time of change to the nanosecond: the outcome is the same."""
    real = os.utime

    def coarse(path: int, ns: tuple[int, int]) -> None:
        real(path, ns=(ns[0], ns[1] // 10**9 * 10**9))

    monkeypatch.setattr(os, "utime", coarse)
    outcome = before_step(full, DEFAULT, load(name, Extractive))
    assert (name == "standard") == outcome.acted
    assert (name == "rewriter") == ("was changed" in str(outcome.error))
    assert generation_on_disk(full) == full.replace_generation


def test_a_log_that_is_gone_when_the_step_begins(full: WritableSession) -> None:
    """Where not even a measure can be had, the outcome has no sizes, and an error."""
    os.truncate(full.path, 100)
    outcome = before_step(full, DEFAULT, standard())
    assert (False, None, None) == (outcome.acted, outcome.before, outcome.after)
    assert isinstance(outcome.error, DamagedLog)
    assert (False, ()) == (outcome.is_over, outcome.shadowed_seqs)


class ReadOnly(Disk):
    """A disk that takes nothing more."""

    def write(self, fd: int, data: bytes) -> int:
        """Refuses."""
        raise OSError(30, "Read-only file system")


def test_a_disk_that_refuses_is_a_fact_of_the_outcome(tmp_path: Path) -> None:
    """Nothing was written; the step goes on with the conversation as it is."""
    path = story().user("and now?").write(tmp_path / "log")
    old = path.read_bytes()
    with open_session(path, disk=ReadOnly()) as session:
        outcome = before_step(session, DEFAULT, standard())
    assert not outcome.acted
    assert isinstance(outcome.error, WriteFailed)
    assert old == path.read_bytes()


def test_a_programming_error_is_not_hidden(full: WritableSession) -> None:
    """Whoever calls it wrongly hears of it."""
    with pytest.raises(AttributeError):
        before_step(full, None, standard())  # type: ignore[arg-type]


def test_memory_is_not_believed(full: WritableSession) -> None:
    """A backend that only patches the session in memory has done nothing, and it is put right."""

    def forge(bench: Workbench) -> object:
        bench.session.surface._generation += 7
        return None

    outcome = before_step(full, DEFAULT, Raising(RuntimeError("done"), forge))
    assert (False, 0) == (outcome.acted, full.replace_generation)


# Plans --------------------------------------------------------------------------------------------


def test_a_plan_is_what_happens(tmp_path: Path) -> None:
    """The same messages go, to the same sizes; and the plan has written nothing."""
    path = story().user("and now?").write(tmp_path / "log")
    old = path.read_bytes()
    with open_trial(path) as trial:
        planned = plan(trial, DEFAULT, standard())
    assert old == path.read_bytes()
    assert [path] == [*tmp_path.iterdir()]
    with open_session(path) as session:
        done = run(session, DEFAULT, standard())
    assert sizes(planned) == sizes(done)
    assert planned.shadowed_seqs == done.shadowed_seqs


def test_a_plan_for_a_summarizer_that_costs_is_a_bound(tmp_path: Path) -> None:
    """Nobody is asked; what really comes is no longer than the plan says."""
    path = story().user("and now?").write(tmp_path / "log")
    with open_trial(path) as trial:
        bound = plan(trial, DEFAULT, Standard(AtMost()))
    with open_trial(path) as trial:
        real = plan(trial, DEFAULT, standard())
    assert bound.after is not None
    assert real.after is not None
    assert real.after.tokens <= bound.after.tokens < 6_400


def sizes(outcome: Outcome) -> list[tuple[int, int, int]]:
    """Generation, pressure and messages, before and after."""
    return [
        (size.generation, size.tokens, len(size.items))
        for size in (outcome.before, outcome.after)
        if size is not None
    ]


# No attempt without news --------------------------------------------------------------------------

PRESSED: Final = LOGS / "v4-pressure.jsonl"
USELESS: Final = (67, 79, 89, 100)
"""Where the original harness paid for a summary of nothing but a checkpoint."""


def records(path: Path) -> list[dict[str, Any]]:
    """A log's records, the header first."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("seq", USELESS)
def test_where_the_original_failed_nothing_is_spent(seq: int, tmp_path: Path) -> None:
    """On the log as it stood before each useless attempt: an attempt succeeds, or none is made."""
    lines = PRESSED.read_bytes().splitlines(keepends=True)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(lines[: 1 + seq]))
    with open_session(path) as session:
        outcome = before_step(session, Policy(window_tokens=WINDOW), standard())
    assert outcome.error is None
    assert [] == failed_since(path, seq)
    assert outcome.acted == (not outcome.is_over)


def test_no_backend_is_asked_without_news(full: WritableSession) -> None:
    """The rule binds the path, not only the backend that ships."""
    failing = Raising(RuntimeError("no"), lambda bench: bench.replace(span_of(bench), no_summary))
    first = before_step(full, DEFAULT, failing)
    assert isinstance(first.error, ConnectionError)
    size = full.size_bytes
    again = before_step(full, DEFAULT, failing)
    assert (None, True) == (again.error, "has failed" in again.reason)
    assert size == full.size_bytes
    forced = run(full, DEFAULT, failing, Wishes(force=True))
    assert isinstance(forced.error, ConnectionError)


def span_of(bench: Workbench) -> Span:
    """What may go."""
    span = bench.choose()
    assert isinstance(span, Span)
    return span


def no_summary() -> Summary:
    """Nobody can be reached."""
    raise ConnectionError("no route to host")


def failed_since(path: Path, seq: int) -> list[dict[str, Any]]:
    """The brackets that ended with an error behind `seq`."""
    return [
        record
        for record in records(path)[1 + seq :]
        if record["type"] == "compaction/end" and "error" in record["data"]
    ]


class Replay:
    """The real session again, record by record, with another pressure path in place of its own.

    The original's brackets and checkpoints are left out, all else gets new seqs.
    """

    def __init__(self, path: Path, backend: Backend) -> None:
        self.path = path
        self.backend = backend
        self.outcomes: list[Outcome] = []
        self._moved: dict[int, int] = {}

    def run(self) -> None:
        """Every record of the original; before each step, the path."""
        header, *lines = PRESSED.read_bytes().splitlines()
        self._write(header)
        self._next_seq = 0
        for line in lines:
            record = json.loads(line)
            if record["type"] == "step/start":
                self._before_step()
            if not record["type"].startswith("compaction/") and not is_checkpoint(record):
                self._moved[record["seq"]] = self._next_seq
                self._write(renumber(line, 4, self._next_seq, self._moved.get))
                self._next_seq += 1

    def _write(self, line: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(line + b"\n")

    def _before_step(self) -> None:
        with open_session(self.path) as session:
            policy = Policy(window_tokens=WINDOW)
            self.outcomes.append(before_step(session, policy, self.backend))
            self._next_seq = session.events


def is_checkpoint(record: dict[str, Any]) -> bool:
    """Whether the record is what a compaction put on the surface."""
    return bool(record["data"].get("source", {}).get("kind") == "compact-checkpoint")


def test_the_replay_spends_no_useless_attempt(tmp_path: Path) -> None:
    """Where the original spent four attempts on nothing, each of ours moves the generation."""
    original = plain_reader.read(PRESSED.read_bytes())
    assert 4 == len([one for one in original.compactions if one.error is not None])
    replay = Replay(tmp_path / "log.jsonl", standard())
    replay.run()
    assert () == verify(replay.path).findings
    reading = plain_reader.read(replay.path.read_bytes())
    assert [] == [one for one in reading.compactions if one.error is not None]
    assert 10 == len(replay.outcomes)
    folds = [one for one in reading.replacements if one.kind == "summary"]
    assert len(folds) == len(reading.compactions) >= 2
    assert [one for one in folds if one.tokens_after * 2 > one.tokens_before + 80] == []


def test_a_dead_summarizer_is_asked_again_only_with_news(tmp_path: Path) -> None:
    """At ten steps, six of them over the threshold, it is asked where enough new has been said."""
    dead = Unreachable()
    replay = Replay(tmp_path / "log.jsonl", Standard(dead))
    replay.run()
    over = [one for one in replay.outcomes if one.is_over]
    told = [outcome for outcome in over if "has failed" in outcome.reason]
    assert len(over) == len(dead.requests) + len(told)
    assert told
    spans = [tuple(message.id for message in request.messages) for request in dead.requests]
    assert len(spans) == len(set(spans))
    assert () == verify(replay.path).findings
