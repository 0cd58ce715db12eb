"""Counting facts: what is one, what counts as kept."""

import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talks import ALL, Talk, edit, run

from dsh_compact.summarizers.facts import MOST_EXAMPLES, FactKind, check, facts_of

SECONDS: Final = 20

TALK: Final = (
    Talk()
    .note("Directory: /srv/app")
    .user("Fix parse_header in src/http/head.py, it takes 350ms.")
    .answer("Running it.", run("pytest -q tests/test_head.py"))
    .result("see /etc/passwd 987654\nValueError: unterminated header line\nexit code: 1")
    .answer("", edit("src/http/head.py", "a", "b"))
    .result("ok")
    .user("go on")
)


def test_the_facts_of_a_span() -> None:
    """Facts come from people, answers, arguments and errors; a mere output is none."""
    assert {
        FactKind.PATH: ["src/http/head.py", "tests/test_head.py"],
        FactKind.COMMAND: ["pytest -q tests/test_head.py"],
        FactKind.ERROR: ["ValueError: unterminated header line"],
        FactKind.NUMBER: ["350ms"],
        FactKind.IDENTIFIER: ["parse_header"],
        FactKind.INSTRUCTION: ["Fix parse_header in src/http/head.py, it takes 350ms."],
    } == facts_of(TALK.messages)


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        (set(), "The user asked for something and it was done."),
        ({"paths"}, "changed src/http/head.py and tests/test_head.py"),
        ({"paths"}, "changed head.py, tests/test_head.py"),
        ({"commands"}, "ran pytest   -q\ntests/test_head.py"),
        ({"errors"}, "the header line was unterminated: ValueError"),
        ({"numbers"}, "slow: 350ms"),
        (set(), "slow: 1350ms, 350 m"),
        ({"identifiers"}, "see `parse_header()`"),
        (set(), "see parse_header_line"),
        ({"instructions"}, "- Fix header parse: src http head takes 350"),
        (set(), "Fix\nparse\nheader\nsrc\nhttp\nhead\ntakes"),
    ],
)
def test_what_counts_as_kept(kept: set[str], text: str) -> None:
    """Names as they are, a path by its end, a command by its head, sentences by a line's words."""
    report = check(TALK.messages, text)
    assert kept == {str(kind.kind) for kind in report.kinds if kind.kept == kind.total}


def test_a_span_keeps_itself() -> None:
    """Every fact of a conversation is in the conversation."""
    for name, talk in ALL.items():
        messages = talk().messages
        whole = "\n".join(
            "\n".join([m.text, *(f"{c.name} {c.arguments}" for c in m.calls)]) for m in messages
        ).replace("\\n", " ")
        assert check(messages, whole).ratio >= 0.95, name


def test_an_empty_text_keeps_nothing() -> None:
    """No text, no fact; and examples of what was lost, a few of each kind."""
    for talk in ALL.values():
        report = check(talk().messages, "")
        assert 0 == report.kept
        assert report.total > 0
        assert all(len(kind.lost) == min(kind.total, MOST_EXAMPLES) for kind in report.kinds)


def test_nothing_to_keep_is_kept() -> None:
    """A span without facts has a ratio of 1, not a division by zero."""
    report = check(Talk().answer("Well.").messages, "")
    assert (0, 1.0) == (report.total, report.ratio)


def test_an_earlier_checkpoint_holds_facts() -> None:
    """What a checkpoint in the span says may be lost as well."""
    messages = Talk().checkpoint("- set MAX_RETRIES to 250 in conf/app.toml").messages
    report = check(messages, "nothing")
    assert ("conf/app.toml",) == report.of(FactKind.PATH).lost
    assert ("MAX_RETRIES",) == report.of(FactKind.IDENTIFIER).lost
    assert ("250",) == report.of(FactKind.NUMBER).lost


def test_chinese_sentences_are_compared_by_pairs() -> None:
    """Where words aren't spaced, neighbouring characters stand for them."""
    messages = Talk().user("不要修改对外的接口").messages
    assert 1 == check(messages, "对外的接口不要修改").of(FactKind.INSTRUCTION).kept
    assert 0 == check(messages, "接口改好了").of(FactKind.INSTRUCTION).kept


@given(st.lists(st.text(max_size=80), max_size=6), st.text(max_size=200))
def test_counts_are_sound(texts: list[str], text: str) -> None:
    """Whatever was said, no kind keeps more than there is, and nothing raises."""
    talk = Talk()
    for words in texts:
        talk.user(words).answer(words, run(words or "x")).result(words, error=True)
    report = check(talk.messages, text)
    assert all(0 <= kind.kept <= kind.total for kind in report.kinds)
    assert 0 <= report.ratio <= 1


@pytest.mark.parametrize("piece", ["a1_b ", "Error: x\n", "a/b.py ", "12 ", "中", "word ", "x. "])
def test_millions_of_facts_take_seconds(piece: str) -> None:
    """Time is linear in the span and in the text."""
    text = piece * (800_000 // len(piece))
    talk = Talk()
    for start in range(0, len(text), 50_000):
        talk.user(text[start : start + 50_000])
    began = time.monotonic()
    check(talk.messages, text)
    assert time.monotonic() - began < SECONDS
