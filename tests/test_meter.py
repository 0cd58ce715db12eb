"""Pressure: baseline and what came since, to the token that the harness counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plain_reader
import pytest
from builders import Conversation, call
from hypothesis import given, settings
from hypothesis import strategies as st
from running import LOGS
from strategies import conversations

from dsh_compact.events import NOWHERE, Failure, RequestContext, RequestFailed, RequestHeader
from dsh_compact.meter import Meter, Pressure
from dsh_compact.session import read_session
from dsh_compact.surface import Surface

EXPECTED: dict[str, Any] = json.loads((LOGS / "expected.json").read_text("utf-8"))


def pressure_of(log: Conversation, folder: Path) -> Pressure:
    """The pressure at the end of a built log."""
    with read_session(log.write(folder / "session.jsonl")) as session:
        return session.pressure()


def figures(found: Pressure) -> dict[str, Any]:
    """A pressure in the words of expected.json."""
    return {
        "baseline": found.kind,
        "baseline_tokens": found.baseline_tokens,
        "delta_tokens": found.delta_tokens,
        "total_tokens": found.total_tokens,
        "surface_tokens": found.surface_tokens,
        "nodes": found.nodes,
        "provider_limit": found.limit_tokens,
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_log_has_the_pressure_that_is_known(name: str) -> None:
    """Every figure of every real log, formats 0, 3 and 4, plain and framed."""
    with read_session(LOGS / name) as session:
        found = session.pressure()
    assert EXPECTED[name]["measure_at_end"] == figures(found)
    assert found.context is not None
    assert EXPECTED[name]["window"] == found.context.window_tokens


def test_each_step_is_measured_as_the_harness_measured_it(tmp_path: Path) -> None:
    """Before every step of a real session under pressure the total is the harness's own."""
    lines = (LOGS / "v4-pressure.jsonl").read_bytes().splitlines(keepends=True)
    for step in EXPECTED["v4-pressure.jsonl"]["pressure_decisions"]["steps"]:
        path = tmp_path / "prefix.jsonl"
        path.write_bytes(
            b"".join(x for x in lines if json.loads(x).get("seq", -1) < step["before_seq"])
        )
        with read_session(path) as session:
            assert step["total_tokens"] == session.pressure().total_tokens


def test_nothing_to_send_has_no_pressure(tmp_path: Path) -> None:
    """A log of a header alone."""
    found = pressure_of(Conversation(), tmp_path)
    assert ("none", 0, 0) == (found.kind, found.total_tokens, found.nodes)


def test_without_an_answer_the_total_is_estimated(tmp_path: Path) -> None:
    """Header and surface, as they are priced."""
    found = pressure_of(Conversation().user("x" * 400), tmp_path)
    assert ("estimated", 0) == (found.kind, found.delta_tokens)
    assert found.header_tokens + 100 + 4 + 4 == found.total_tokens


def test_a_providers_count_is_the_baseline_of_what_follows(tmp_path: Path) -> None:
    """Input, cached parts and output together; what comes later is added as an estimate."""
    counted = {
        "inputTokens": 500, "outputTokens": 30, "cacheReadTokens": 200, "cacheWriteTokens": 70,
        "reasoningTokens": 9, "totalTokens": 800,
    }  # fmt: skip
    log = Conversation(tools=[]).user("a").assistant("b", usage=counted).note("x" * 40)
    found = pressure_of(log, tmp_path)
    # The prompt stands behind step/start, so it is counted and comes as news as well.
    assert ("usage", 800, 10 + 8 + 9) == (
        found.kind,
        found.baseline_tokens,
        found.delta_tokens,
    )


def test_a_count_below_the_estimate_is_not_believed(tmp_path: Path) -> None:
    """A provider that counts less than header and surface must have left something out."""
    found = pressure_of(Conversation().user("x" * 4_000).assistant("b", usage=(1, 1)), tmp_path)
    assert "estimated" == found.kind


def test_another_header_takes_the_baseline_away(tmp_path: Path) -> None:
    """With other tools the counted request is no measure of the next one."""
    log = Conversation().user("a").assistant("b", usage=(900, 10))
    assert "usage" == pressure_of(log, tmp_path).kind
    assert "usage" == pressure_of(log.header(), tmp_path).kind
    found = pressure_of(log.header(tools=[{"name": "other"}]), tmp_path)
    assert ("estimated", 0) == (found.kind, found.delta_tokens)


def test_a_refusal_is_a_measurement(tmp_path: Path) -> None:
    """The refused input's own count is the baseline, and the limit that it states is known."""
    log = Conversation(tools=[]).user("a").assistant("b", usage=(700, 10)).user("c")
    log.refusal(limit=8_000, requested=9_000, messages=8_500, completion=500)
    found = pressure_of(log, tmp_path)
    assert ("rejected", 8_500, 0, 8_000) == (
        found.kind,
        found.baseline_tokens,
        found.delta_tokens,
        found.limit_tokens,
    )
    shorter = pressure_of(log.compaction("s"), tmp_path)
    assert "rejected" == shorter.kind
    assert shorter.surface_tokens - found.surface_tokens == shorter.delta_tokens


def test_an_answer_ends_what_a_refusal_said_but_not_its_limit(tmp_path: Path) -> None:
    """After an answer its count is the newer one; the limit stays for that model."""
    log = Conversation().user("a").refusal(limit=8_000, requested=9_000).assistant("b")
    found = pressure_of(log, tmp_path)
    assert ("estimated", 8_000) == (found.kind, found.limit_tokens)
    other = pressure_of(log.header(model="another"), tmp_path)
    assert None is other.limit_tokens
    back = pressure_of(log.header(model="deepseek-v4-flash"), tmp_path)
    assert 8_000 == back.limit_tokens


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("OVERLOADED", "try later"),
        ("RATE_LIMIT", "8000 tokens per minute allowed, you requested 9000 tokens"),
    ],
)
def test_any_other_failure_measures_nothing(tmp_path: Path, code: str, message: str) -> None:
    """Only a refusal for length tells how long a request was, and it hides an older one."""
    log = Conversation().user("a").refusal(limit=8_000, requested=9_000)
    found = pressure_of(log.failure(code=code, message=message), tmp_path)
    assert ("estimated", 8_000) == (found.kind, found.limit_tokens)


def test_the_window_is_that_of_the_header_in_force(tmp_path: Path) -> None:
    """Each provider and model has its window, which a context without one does not take back."""
    log = Conversation(window=8_000).user("a")
    changes: list[Callable[[], Conversation]] = [
        lambda: log,
        lambda: log.header(model="big"),
        lambda: log.context(64_000),
        lambda: log.context(None),
        lambda: log.header(model="deepseek-v4-flash"),
        lambda: log.header(model="big"),
        lambda: log.header(model="third"),
    ]
    contexts = [pressure_of(change(), tmp_path).context for change in changes]
    windows = [None if context is None else context.window_tokens for context in contexts]
    assert [8_000, None, 64_000, 64_000, 8_000, 64_000, None] == windows


def test_a_routed_model_may_have_another_name(tmp_path: Path) -> None:
    """A context behind the newest header is about it, whatever the router calls the model."""
    log = Conversation(window=None).user("a").header(model="alias")
    log.event("request/context", {"provider": "p", "model": "real", "contextWindow": 32_000})
    context = pressure_of(log, tmp_path).context
    assert context is not None
    assert 32_000 == context.window_tokens


@settings(max_examples=60)
@given(conversations(), st.data())
def test_pressure_is_that_of_the_plain_reader_at_every_point(
    tmp_path_factory: pytest.TempPathFactory, log: Conversation, data: st.DataObject
) -> None:
    """Cut anywhere, a drawn log measures what a naive reader finds."""
    lines = log.lines()
    part = b"".join(lines[: data.draw(st.integers(1, len(lines)))])
    path = tmp_path_factory.mktemp("drawn") / "session.jsonl"
    path.write_bytes(part)
    wanted = plain_reader.read(part).measure
    with read_session(path) as session:
        found = session.pressure()
    window = None if found.context is None else found.context.window_tokens
    header = found.header
    assert (
        wanted.baseline, wanted.baseline_tokens, wanted.delta_tokens, wanted.total_tokens,
        wanted.surface_tokens, wanted.header_tokens, wanted.provider_limit, wanted.context_window,
        wanted.provider, wanted.model,
    ) == (
        found.kind, found.baseline_tokens, found.delta_tokens, found.total_tokens,
        found.surface_tokens, found.header_tokens, found.limit_tokens, window,
        header and header.provider, header and header.model,
    )  # fmt: skip


def test_pruning_and_folding_show_in_the_delta(tmp_path: Path) -> None:
    """What leaves the surface after the anchor is taken off the provider's count."""
    log = Conversation(tools=[]).user("a").assistant(calls=[call("c1")], usage=(5_000, 9))
    log.result("c1", "x" * 8_000)
    before = pressure_of(log, tmp_path)
    after = pressure_of(log.prune("c1", "x" * 400), tmp_path)
    assert (5_009, 1_900) == (
        after.baseline_tokens,
        before.total_tokens - after.total_tokens,
    )


def routed(seq: int, model: str, window_tokens: int) -> RequestContext:
    """What a router says of a model."""
    return RequestContext(seq=seq, provider="p", model=model, window_tokens=window_tokens)


def test_windows_of_many_models_are_known_at_no_price() -> None:
    """One more is put before all others, which are neither copied nor compared."""
    meter = Meter()
    for seq in range(1_000):
        before, meter = meter, meter.extend(routed(seq, f"m{seq}", seq), Surface())
        assert meter.contexts is not None
        assert meter.contexts[1] is before.contexts
    assert 7 == meter.window_tokens("p", "m7")
    assert meter.window_tokens("q", "m7") is None


def test_windows_of_models_by_turns_take_no_room() -> None:
    """A window takes the place of the same model's."""
    meter = Meter()
    for seq in range(100):
        meter = meter.extend(routed(seq, f"m{seq % 2}", seq), Surface())
    assert (routed(99, "m1", 99), (routed(98, "m0", 98), None)) == meter.contexts


def test_limits_of_many_headers_are_known_at_no_price() -> None:
    """A refusal after another header is put before all others; after the same, in its place."""
    meter = Meter()
    for seq in range(0, 300, 3):
        meter = meter.extend(RequestHeader(seq, NOWHERE), Surface())
        before = meter.limits
        for tokens in (9_000, 8_000):
            words = f"maximum context length is {tokens} tokens, you requested 10000 tokens"
            meter = meter.extend(refused(seq + 1, words), Surface())
        assert ((RequestHeader(seq, NOWHERE), 8_000), before) == meter.limits


def refused(seq: int, words: str) -> RequestFailed:
    """A request that was too long."""
    failure = Failure(message=words, code="context_length_exceeded", status=400)
    return RequestFailed(seq=seq, time_ms=0, turn=1, step=1, failure=failure)
