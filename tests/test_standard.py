"""The standard backend: prune, choose, summarise, replace, and again while it is not enough."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from builders import Conversation, call

from dsh_compact.backends.standard import Standard
from dsh_compact.meter import Pressure
from dsh_compact.policy import DEFAULT, Policy
from dsh_compact.summarizers import Progress, Request, Summary
from dsh_compact.trial import TrialSession, open_trial
from dsh_compact.workbench import Workbench

LONG: Final = "a long story, told at length; " * 100


class Scribe:
    """A summarizer that remembers what it was asked and writes so many tokens."""

    name = "scribe"

    def __init__(self, tokens: int = 20) -> None:
        self.tokens = tokens
        self.requests: list[Request] = []

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """The same letters every time."""
        self.requests.append(request)
        if progress is not None:
            progress(self.tokens)
        return Summary(text="abcd" * self.tokens, provider="tests", model="scribe")


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[TrialSession]:
    """Six turns of about 750 tokens, and a result of as many in the open seventh."""
    log = Conversation(window=8_000).system("You help.")
    for number in range(6):
        log.user(f"{number}: {LONG}").assistant("Well.", stream=False).end()
    log.user("go").assistant(calls=[call("c")]).result("c", "r" * 30_000).assistant("Seen.")
    with open_trial(log.write(tmp_path / "log")) as session:
        yield session


def bench_on(trial: TrialSession, limit_tokens: int | None, **wishes: Any) -> Workbench:
    """A bench whose goal, where there is one, is a surface of fewer than so many tokens."""

    def goal(pressure: Pressure) -> bool:
        assert limit_tokens is not None
        return pressure.surface_tokens < limit_tokens

    wishes = {"policy": DEFAULT, "retain_tokens": 0, "window_tokens": 8_000, **wishes}
    return Workbench(trial, goal=None if limit_tokens is None else goal, **wishes)


def test_it_prunes_first_and_may_stop_there(trial: TrialSession) -> None:
    """Where that is enough, nobody is asked for a summary."""
    scribe = Scribe()
    claim = Standard(scribe).compact(bench_on(trial, 7_000))
    assert (True, "", []) == (claim.acted, claim.note, scribe.requests)
    assert 1 == trial.replace_generation


def test_then_it_folds(trial: TrialSession) -> None:
    """The request holds the span, what stands before it, a bound, and the user's wishes."""
    scribe = Scribe()
    told: list[int] = []
    bench = bench_on(trial, 3_000, instructions="keep names", progress=told.append)
    claim = Standard(scribe).compact(bench)
    (request,) = scribe.requests
    assert (True, "", 2) == (claim.acted, claim.note, trial.replace_generation)
    assert ("keep names", 800, [20]) == (request.instructions, request.max_tokens, told)
    assert "You help." == request.system[0].text
    assert request.messages[0].text.startswith("0: a long")
    assert request.header is not None


@pytest.mark.parametrize(("retries", "folds"), [(0, 1), (1, 2), (5, 2)])
def test_it_folds_again_while_it_is_not_enough(
    retries: int, folds: int, trial: TrialSession
) -> None:
    """As often as the policy allows, and no longer than there is something to fold."""
    policy = Policy(compaction_retries=retries, retain_tokens=1_500)
    scribe = Scribe()
    claim = Standard(scribe).compact(bench_on(trial, 1, policy=policy, retain_tokens=1_500))
    assert (True, folds) == (claim.acted, len(scribe.requests))
    assert claim.note.startswith("only an earlier checkpoint" if retries > 1 else "")


def test_without_a_goal_it_folds_once(trial: TrialSession) -> None:
    """Somebody asked for it by force: one replacement, and the tail stays."""
    scribe = Scribe()
    Standard(scribe).compact(bench_on(trial, None, retain_tokens=1_500))
    assert 1 == len(scribe.requests)


def test_where_nothing_can_go_it_says_why(tmp_path: Path) -> None:
    """It claims nothing, and asks nobody."""
    scribe = Scribe()
    with open_trial(Conversation().user("go").end().write(tmp_path / "log")) as trial:
        claim = Standard(scribe).compact(bench_on(trial, 1))
    assert (False, [], True) == (claim.acted, scribe.requests, bool(claim.note))
