"""The drawn logs are what they are said to be, by the plain reader's word."""

from __future__ import annotations

import json

import plain_reader
import pytest
from builders import Conversation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import (
    BROKEN_RULES,
    Spoiled,
    Torn,
    broken_logs,
    conversations,
    places_to_split,
    torn_logs,
    written_logs,
)

drawing = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@drawing
@given(conversations())
def test_a_drawn_conversation_breaks_no_rule(log: Conversation) -> None:
    """Whatever is drawn, the harness would open it, and the builder knows its surface."""
    reading = plain_reader.read(log.bytes())
    assert (None, None, False) == (reading.broken, reading.refused, reading.torn)
    assert (log.next_seq, log.node_seqs) == (reading.events, reading.node_seqs)


@drawing
@given(conversations(max_verbs=15), st.data())
def test_the_style_of_writing_changes_nothing(log: Conversation, data: st.DataObject) -> None:
    """Spaces, escapes, the order of keys and the framing are all the same to a reader."""
    plain = plain_reader.read(log.bytes())
    other = plain_reader.read(data.draw(written_logs(st.just(log))))
    assert plain == other


@drawing
@given(torn_logs())
def test_a_torn_log_reads_as_if_the_tail_had_never_been_written(torn: Torn) -> None:
    """The last line or frame does not count, however much of it is there."""
    reading, whole = plain_reader.read(torn.data), plain_reader.read(torn.whole)
    assert (True, whole.records) == (reading.torn, reading.records)


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_a_spoiled_log_breaks_the_rule_that_it_names(rule: str) -> None:
    """The plain reader finds that rule broken first, at that line."""

    @settings(drawing, max_examples=10)
    @given(broken_logs([rule]))
    def check(spoiled: Spoiled) -> None:
        reading = plain_reader.read(spoiled.data)
        assert reading.refused is not None
        assert (spoiled.rule, spoiled.line) == (reading.refused.rule, reading.refused.line)
        damaged = reading.broken is not None and reading.broken.line == spoiled.line
        assert (rule in plain_reader.FOLD_RULES) == damaged

    check()


def test_every_rule_can_be_broken() -> None:
    """No rule of the plain reader lacks a log that breaks it."""
    assert sorted({*plain_reader.FOLD_RULES, *plain_reader.LEDGER_RULES}) == BROKEN_RULES


@drawing
@given(conversations(), st.data())
def test_a_place_to_split_leaves_the_header_in_front(
    log: Conversation, data: st.DataObject
) -> None:
    """Both parts together are the log, and the first is a log of its own."""
    lines = log.lines()
    count = data.draw(places_to_split(lines))
    first = plain_reader.read(b"".join(lines[:count]))
    assert None is first.broken
    assert [json.loads(raw) for raw in lines[:count]] == first.records
