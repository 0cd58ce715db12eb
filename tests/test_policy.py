"""Policy: budgets by their formula, and no policy that could not work."""

from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.policy import DEFAULT, Policy, PolicyWrong, budgets, check_tail


def test_the_defaults_are_the_harnesses_own() -> None:
    """Without a word from anybody: 0.8, 0.16, one retry each, 8192 code points cut to 5120."""
    wanted = (0.8, 0.16, None, 0, 1, 1, 8192, 4096, 1024)
    keys = (
        "threshold_ratio", "retain_ratio", "retain_tokens", "headroom_tokens", "compaction_retries",
        "max_overflow_retries", "prune_threshold_characters", "prune_head_characters",
        "prune_tail_characters",
    )  # fmt: skip
    assert wanted == tuple(getattr(DEFAULT, key) for key in keys)


@given(st.integers(1, 2_000_000), st.integers(0, 100_000), st.integers(0, 100_000))
def test_budgets_follow_their_formula(window: int, reserved: int, headroom: int) -> None:
    """Threshold floor(min(share, what is left)), retain floor(share); no more than the window."""
    found = budgets(Policy(headroom_tokens=headroom), window, reserved)
    left = window - reserved - headroom
    if left > 0:
        assert floor(min(window * 0.8, left)) == found.threshold_tokens
        assert found.ignored_reservation_tokens is None
    assert floor(window * 0.16) == found.retain_tokens
    assert 0 <= found.threshold_tokens <= window


@pytest.mark.parametrize(
    ("reserved", "threshold", "ignored"),
    [(None, 6400, None), (0, 6400, None), (2000, 6000, None), (7999, 1, None), (8000, 6400, 8000)],
)
def test_a_reservation_counts_unless_it_takes_all(
    reserved: int | None, threshold: int, ignored: int | None
) -> None:
    """The reserved output makes the threshold smaller; one that leaves nothing is not believed."""
    found = budgets(DEFAULT, 8000, reserved)
    assert (threshold, ignored) == (found.threshold_tokens, found.ignored_reservation_tokens)


def test_retain_tokens_stand_in_place_of_the_ratio() -> None:
    """An absolute tail is the tail, whatever the ratio says."""
    assert 500 == budgets(Policy(retain_tokens=500), 8000, None).retain_tokens


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("threshold_ratio", {"threshold_ratio": 0}),
        ("threshold_ratio", {"threshold_ratio": 1.01}),
        ("threshold_ratio", {"threshold_ratio": float("nan")}),
        ("threshold_ratio", {"threshold_ratio": True}),
        ("retain_ratio", {"retain_ratio": -0.1}),
        ("retain_ratio", {"retain_ratio": 0.8}),
        ("retain_ratio", {"threshold_ratio": 0.1}),
        ("retain_tokens", {"retain_tokens": -1}),
        ("retain_tokens", {"retain_tokens": 1.5}),
        ("retain_tokens", {"retain_tokens": 800, "window_tokens": 1000}),
        ("headroom_tokens", {"headroom_tokens": -1}),
        ("window_tokens", {"window_tokens": 0}),
        ("window_tokens", {"window_tokens": 2**53 + 1}),
        ("summarizer_window_tokens", {"summarizer_window_tokens": 0}),
        ("summarizer_timeout_seconds", {"summarizer_timeout_seconds": 0.0}),
        ("summarizer_timeout_seconds", {"summarizer_timeout_seconds": float("nan")}),
        ("summarizer_timeout_seconds", {"summarizer_timeout_seconds": True}),
        ("summarizer_sends_reasoning", {"summarizer_sends_reasoning": 1}),
        ("compaction_retries", {"compaction_retries": 101}),
        ("max_overflow_retries", {"max_overflow_retries": True}),
        ("prune_threshold_characters", {"prune_threshold_characters": 5000}),
        ("prune_threshold_characters", {"prune_head_characters": 8000}),
        ("prune_tail_characters", {"prune_tail_characters": -1}),
    ],
)
def test_a_policy_that_could_not_work_cannot_be_made(key: str, values: dict[str, Any]) -> None:
    """The error is one of usage and names the key."""
    with pytest.raises(PolicyWrong) as caught:
        Policy(**values)
    assert (key, 2) == (caught.value.key, caught.value.exit_code)
    assert key in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"threshold_ratio": 1, "retain_ratio": 0},
        {"retain_ratio": 0.9, "retain_tokens": 10},
        {"retain_tokens": 799, "window_tokens": 1000},
        {"prune_threshold_characters": 128, "prune_head_characters": 0, "prune_tail_characters": 0},
    ],
)
def test_the_last_value_that_works_is_taken(values: dict[str, Any]) -> None:
    """The bounds are where the rules say, and an overruled ratio harms nobody."""
    policy = Policy(**values)
    assert values == {key: getattr(policy, key) for key in values}


def test_a_tail_is_checked_against_the_windows_threshold() -> None:
    """With the window known, a tail that reaches the threshold is an error that tells both."""
    check_tail(Policy(retain_tokens=6399), 8000)
    with pytest.raises(PolicyWrong, match="6400 is not below the threshold of 6400 tokens"):
        check_tail(Policy(retain_tokens=6400), 8000)
