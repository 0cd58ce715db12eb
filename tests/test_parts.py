"""Cutting a span into parts: whole, in order, and never between a call and its result."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talks import ALL, Talk, long_session, run

from dsh_compact.events import Message
from dsh_compact.export import to_markdown
from dsh_compact.summarizers.models.parts import Place, cut, is_end, units
from dsh_compact.tokens import price_text

LONG: Final = long_session(6).messages


def parts(messages: tuple[Message, ...], max_tokens: int) -> list[str]:
    """All parts of a span."""
    span, at, found = units(messages), Place(0), []
    while not is_end(span, at):
        text, at = cut(span, at, max_tokens)
        found.append(text)
    return found


def test_an_answer_and_its_results_are_one_unit() -> None:
    """Results belong to the calls before them, every other message stands alone."""
    talk = Talk().user("a").answer("b", run("x"), run("y")).result("X").result("Y").answer("c")
    assert [1, 3, 1] == [len(unit) for unit in units(talk.messages)]


@pytest.mark.parametrize("max_tokens", [2_000, 5_000, 40_000])
def test_parts_fit_and_tell_everything_in_order(max_tokens: int) -> None:
    """No part costs more than allowed; together they are the whole conversation's transcript."""
    found = parts(LONG, max_tokens)
    assert all(0 < price_text(part) <= max_tokens for part in found)
    if "characters left out" not in "".join(found):
        assert to_markdown(LONG).split() == "\n".join(found).split()
    places = [found_at(found, m.text) for m in LONG if m.source_kind == "user"]
    assert places == sorted(places)


def found_at(found: list[str], words: str) -> int:
    """The part in which the words stand."""
    (place,) = (index for index, part in enumerate(found) if words in part)
    return place


@pytest.mark.parametrize("name", ALL)
def test_a_part_ends_between_units(name: str) -> None:
    """Every part begins with a message's heading: no call is cut from its result."""
    found = parts(ALL[name]().messages, 900)
    assert len(found) > 1 or name == "chinese"
    assert all(part.startswith("## ") for part in found)


def test_a_long_text_is_shortened_in_its_middle() -> None:
    """A text that would fill half a part keeps its beginning and end, and says what is missing."""
    talk = Talk().answer("", run("cat")).result("start " + "x" * 50_000 + " end")
    (part,) = parts(talk.messages, 1_000)
    assert "start xxx" in part
    assert "xxx end" in part
    assert "[… 48,010 characters left out …]" in part


def test_a_unit_larger_than_a_part_is_cut_at_lines() -> None:
    """Many results of one answer may need several parts; lines stay whole."""
    talk = Talk().answer("", *(run(f"c{i}") for i in range(30)))
    for number in range(30):
        talk.result(f"line of result {number}\n" * 20)
    found = parts(talk.messages, 500)
    assert len(found) > 5
    assert all(price_text(part) <= 500 for part in found)
    assert 600 == "".join(found).count("line of result ")
    assert all(part.endswith("\n") for part in found)


@given(st.lists(st.text(max_size=400), max_size=8), st.integers(40, 400))
def test_any_span_is_cut_into_parts_that_fit(texts: list[str], max_tokens: int) -> None:
    """Whatever the texts, cutting ends, and each part fits."""
    talk = Talk()
    for words in texts:
        talk.user(words).answer(words, run(words)).result(words)
    assert all(price_text(part) <= max_tokens for part in parts(talk.messages, max_tokens))
