"""Windows, budgets and exact counts, and where each figure comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import Conversation, call
from hypothesis import given, settings
from msgspec import structs, to_builtins
from strategies import conversations

from dsh_compact import measurement
from dsh_compact.measurement import Measurement, measure
from dsh_compact.policy import Policy
from dsh_compact.session import read_session
from dsh_compact.tokenizers import load


def measured(log: Conversation, folder: Path, **policy: Any) -> Measurement:
    """A built log, measured under a policy."""
    with read_session(log.write(folder / "session.jsonl")) as session:
        return measure(session, Policy(**policy))


def window_of(measurement: Measurement) -> tuple[int | None, str | None]:
    """The window and who says so."""
    return measurement.window_tokens, measurement.window_source


def test_the_window_is_told_by_the_first_who_knows_it(tmp_path: Path) -> None:
    """Configured, refusal, log, catalogue, nobody: in this order."""
    known = Conversation(window=None, model="deepseek-v4-flash").user("a")
    unknown = Conversation(window=None, model="nobody-knows").user("a")
    told = Conversation(window=64_000).user("a")
    refused = Conversation(window=64_000).user("a").refusal(limit=8_000, requested=9_000)
    assert (None, None) == window_of(measured(unknown, tmp_path))
    assert (1_000_000, "catalog") == window_of(measured(known, tmp_path))
    assert (64_000, "log") == window_of(measured(told, tmp_path))
    assert (8_000, "provider") == window_of(measured(refused, tmp_path))
    assert (5_000, "flag") == window_of(measured(refused, tmp_path, window_tokens=5_000))


def test_a_refusal_caps_what_the_log_says_and_never_widens_it(tmp_path: Path) -> None:
    """The smaller of both is the window, and who said it is named."""
    log = Conversation(window=4_000).user("a").refusal(limit=8_000, requested=9_000)
    assert (4_000, "log") == window_of(measured(log, tmp_path))
    alone = Conversation(window=None).user("a").refusal(limit=8_000, requested=9_000)
    assert (8_000, "provider") == window_of(measured(alone, tmp_path))


def test_budgets_come_from_window_and_policy(tmp_path: Path) -> None:
    """Threshold and tail are shares of the window, less what is reserved and kept free."""
    log = Conversation(window=10_000, max_tokens=1_000).user("a")
    plain = measured(log, tmp_path)
    assert (8_000, 1_600, 1_000, None) == (
        plain.threshold_tokens,
        plain.retain_tokens,
        plain.reserved_tokens,
        plain.ignored_reservation_tokens,
    )
    assert 6_500 == measured(log, tmp_path, headroom_tokens=2_500).threshold_tokens
    tight = measured(Conversation(window=800, max_tokens=800).user("a"), tmp_path)
    assert (640, 800) == (tight.threshold_tokens, tight.ignored_reservation_tokens)


def test_at_the_threshold_is_over_it(tmp_path: Path) -> None:
    """As the pressure path decides: at 0.8 of the window or more."""
    log = Conversation(tools=[]).user("x" * 3_168)  # 792 and twice 4
    at = measured(log, tmp_path, window_tokens=1_000)
    assert (800, 800, True) == (at.total_tokens, at.threshold_tokens, at.over_threshold)
    below = measured(log, tmp_path, window_tokens=1_002)
    assert (801, False, 800 / 1_002) == (
        below.threshold_tokens,
        below.over_threshold,
        below.pressure,
    )


def test_without_a_window_nothing_is_judged(tmp_path: Path) -> None:
    """Everything that depends on it is unknown, and the rest is there."""
    found = measured(Conversation(window=None, model="x").user("a"), tmp_path)
    assert [None] * 5 == [
        found.threshold_tokens,
        found.retain_tokens,
        found.tail_tokens,
        found.pressure,
        found.over_threshold,
    ]
    assert found.total_tokens > 0


def test_an_empty_log_is_measured(tmp_path: Path) -> None:
    """Of nothing but a header nothing is known, and nothing fails."""
    found = measured(Conversation(), tmp_path)
    assert (0, None, None, "none") == (
        found.total_tokens,
        found.provider,
        found.window_source,
        found.baseline.kind,
    )


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_parts_are_the_request(version: int, tmp_path: Path) -> None:
    """System prompt, tools and conversation add up to header and surface, in every format."""
    log = Conversation(format=version).system("p" * 40).user("a").assistant("b")
    if version > 0:
        log.developer("")
    found = measured(log, tmp_path)
    assert found.header_tokens + found.surface.tokens == (
        found.system_tokens + found.tools_tokens + found.conversation_tokens
    )
    # Formats 3 and 4 frame the prompt as a message, and a developer's message beside it.
    assert (10 + 4 + (0 if version == 0 else 4 + 8), 18) == (
        found.system_tokens,
        found.conversation_tokens,
    )


def test_the_tail_is_what_a_compaction_would_keep(tmp_path: Path) -> None:
    """The newest messages that are worth the share of the window, whole."""
    log = Conversation(window=10_000).user("x" * 8_000).assistant("y" * 4_000).note("z" * 4_000)
    assert 1_008 + 1_008 == measured(log, tmp_path).tail_tokens
    assert 1_008 == measured(log, tmp_path, retain_tokens=9).tail_tokens


def test_the_names_are_those_that_scripts_rely_on(tmp_path: Path) -> None:
    """What `--json` prints; more may follow, these stay."""
    names = (
        "log format session_id events generation provider model window_tokens window_source"
        " baseline delta_tokens total_tokens surface header_tokens threshold_tokens retain_tokens"
        " pressure over_threshold"
    )
    plain = to_builtins(measured(Conversation().user("a"), tmp_path))
    assert set(names.split()) <= set(plain)
    assert {"kind", "tokens"} == set(plain["baseline"])
    assert {"nodes", "tokens"} == set(plain["surface"])


# Exact counts -------------------------------------------------------------------------------------


def test_exact_counts_stand_beside_the_estimate(tmp_path: Path) -> None:
    """Both are told, and how far the estimate is off; progress hears of every character."""
    log = Conversation().system("You help.").user("hello world " * 99)
    log.assistant("Running.", calls=[call("c1")]).result("c1", "a b c " * 50)
    heard: list[int] = []
    with read_session(log.write(tmp_path / "log")) as session:
        found = measure(session, tokenizer=load("o200k_base"), progress=heard.append)
    exact = found.tokenizer
    assert exact is not None
    assert "o200k_base" == exact.name
    assert exact.surface_tokens > 0
    assert (found.surface.tokens - exact.surface_tokens) / exact.surface_tokens == (
        exact.estimate_error
    )
    assert sum(heard) > len("hello world " * 99) + len("a b c " * 50)


def test_a_long_conversation_is_counted_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many messages are in memory at once, the count is the same."""
    log = Conversation().user("a").note("b b b").note("c c c c c")
    counts = []
    with read_session(log.write(tmp_path / "log")) as session:
        for slice_tokens in (1, 12, 1_000):
            monkeypatch.setattr(measurement, "SLICE_TOKENS", slice_tokens)
            exact = measure(session, tokenizer=load("o200k_base")).tokenizer
            assert exact is not None
            counts.append(exact.surface_tokens)
    assert [1 + 3 + 5 + 3 * 4] * 3 == counts


def test_of_nothing_no_estimate_is_off(tmp_path: Path) -> None:
    """An empty surface has no error to tell."""
    with read_session(Conversation().write(tmp_path / "log")) as session:
        exact = measure(session, tokenizer=load("o200k_base")).tokenizer
    assert exact is not None
    assert (0, None) == (exact.surface_tokens, exact.estimate_error)


@settings(max_examples=25)
@given(conversations(max_verbs=15))
def test_counting_exactly_changes_no_other_figure(
    tmp_path_factory: pytest.TempPathFactory, log: Conversation
) -> None:
    """With a tokenizer or without, on any log, the estimates are the same."""
    path = log.write(tmp_path_factory.mktemp("drawn") / "log")
    with read_session(path) as session:
        plain = measure(session)
        exact = measure(session, tokenizer=load("o200k_base"))
    assert exact.tokenizer is not None
    assert plain == structs.replace(exact, tokenizer=None)
