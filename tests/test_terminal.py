"""Foreign text is shown, never obeyed, and takes no more room than it may."""

import re
import sys
import unicodedata
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size

from dsh_compact.report.terminal import (
    Style,
    cells,
    clip,
    clip_start,
    fit,
    fold,
    safe,
    safe_block,
    styled,
)

ANY_TEXT: Final = st.text(st.characters(codec=None, categories=None), max_size=60)
"""All of Unicode, lone surrogates too."""

SGR: Final = re.compile(r"\x1b\[[0-9;]*m")
"""The beginning or the end of a style."""


# Safe text ----------------------------------------------------------------------------------------


def test_no_control_character_reaches_the_terminal() -> None:
    """Of all code points, none that a terminal may obey or an encoding refuses is left as it is."""
    shown = safe("".join(map(chr, range(sys.maxunicode + 1))))
    left = {unicodedata.category(character) for character in shown}
    assert not {"Cc", "Cs", "Zl", "Zp"} & left
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not turning & {unicodedata.bidirectional(character) for character in shown}
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (r"\x1b[31mred", "\x1b[31mred"),
        (r"\x9b2J", "\x9b2J"),
        (r"\x00\x7f", "\x00\x7f"),
        (r"a\nb\tc\rd", "a\nb\tc\rd"),
        (r"\u202egpj.exe", "\u202egpj.exe"),
        (r"\u2028\ud83d", "\u2028\ud83d"),
        (r"\U000e0041", "\U000e0041"),
        ("[red]not markup[/red]", "[red]not markup[/red]"),
        ("größer 日本語 👩\u200d👩\u200d👧 a\u00a0b", "größer 日本語 👩\u200d👩\u200d👧 a\u00a0b"),
    ],
)
def test_an_escape_is_shown_and_what_is_harmless_stays(shown: str, text: str) -> None:
    """Each dangerous character becomes its escape; everything else is left alone."""
    assert shown == safe(text)


def test_a_limit_cuts_before_it_looks() -> None:
    """With a limit, a text of any size costs what the limit costs, and the cut is shown."""
    assert "xxx…" == safe("x" * 50_000_000, limit=3)
    assert r"x\n…" == safe("x\n\n", limit=2)
    assert "xxx" == safe("xxx", limit=3)


def test_a_block_keeps_its_lines_and_tabs() -> None:
    """Line feeds and tabs of a block stay; all else is shown as in a line."""
    assert "a\n\tb\\x1b\\r" == safe_block("a\n\tb\x1b\r")


@given(ANY_TEXT)
def test_safe_text_is_safe_already(text: str) -> None:
    """Making a safe text safe again changes nothing."""
    assert safe(text) == safe(safe(text))
    assert safe_block(text) == safe_block(safe_block(text))


def test_a_style_is_there_only_with_colour() -> None:
    """Without colour a styled text is the text."""
    assert "x" == styled("x", "red", color=False)
    assert "\x1b[31mx\x1b[0m" == styled("x", "red", color=True)


# Widths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "text", "width"),
    [
        ("abc", "abc", 3),
        ("ab…", "abcd", 3),
        ("…", "abcd", 1),
        ("", "abcd", 0),
        ("日本", "日本", 4),
        ("日…", "日本", 3),
        ("…", "日本", 2),
        ("e\u0301e\u0301", "e\u0301e\u0301", 2),
        ("e\u0301…", "e\u0301e\u0301e\u0301", 2),
        ("👩\u200d👩", "👩\u200d👩", 4),
        ("❤\ufe0f…", "❤\ufe0f❤\ufe0f", 3),
        ("…", "e" + "\u0301" * 9, 1),
    ],
)
def test_a_clipped_text_fits(shown: str, text: str, width: int) -> None:
    """What doesn't fit is cut at a cell's edge, and an ellipsis stands there."""
    assert shown == clip(text, width)


@pytest.mark.parametrize(
    ("shown", "text", "width"),
    [
        ("abc", "abc", 3),
        ("…cd", "abcd", 3),
        ("…", "abcd", 1),
        ("", "abcd", 0),
        ("…本", "日本", 3),
        ("…", "日本", 2),
        ("…b", "日\u0301b", 2),
        ("…", "e" + "\u0301" * 9, 1),
    ],
)
def test_a_text_is_cut_at_its_start(shown: str, text: str, width: int) -> None:
    """The end of a path tells more than its beginning; an accent without its letter goes, too."""
    assert shown == clip_start(text, width)


def test_no_character_is_taken_for_narrower_than_it_is() -> None:
    """What is known without asking rich's table is what the table says, or more."""
    every = map(chr, range(0x20, 0x10000))
    assert [] == [sign for sign in every if cells(sign) < get_character_cell_size(sign)]


@given(ANY_TEXT.map(safe), st.integers(0, 30))
def test_no_text_is_wider_than_it_may_be(text: str, width: int) -> None:
    """Whatever the script, a clipped text takes at most its width, and a short one is untouched."""
    for cut in (clip, clip_start):
        clipped = cut(text, width)
        assert cell_len(clipped) <= cells(clipped) <= width
        assert (clipped == text) == (cells(text) <= width)


@pytest.mark.parametrize(
    ("shown", "text", "width"),
    [
        ("it all fits", "it all fits", 11),
        ("a sentence of\n  ours", "a sentence of ours", 13),
        ("  label  words\n  that go on", "  label  words that go on", 14),
        ("加工\n  完成", "加工 完成", 6),
        ('run\n"dshc verify a.jsonl"\n  at once', 'run "dshc verify a.jsonl" at once', 12),
        ("a word that\noverlooooooong", "a word that overlooooooong", 11),
        ("/a/path\n  wraps", "  /a/path wraps", 7),
        ("  \x1b[31mred\x1b[0m\n\x1b[31m  words\x1b[0m", "\x1b[31m  red words\x1b[0m", 8),
        ("\x1b[1mbold\x1b[0m and\n  so on", "\x1b[1mbold\x1b[0m and so on", 9),
    ],
)
def test_a_sentence_is_folded_at_its_spaces(shown: str, text: str, width: int) -> None:
    """Further lines are indented and keep their style; an endless word stands alone and whole."""
    assert shown == fold(text, width)


@pytest.mark.parametrize(
    ("shown", "text", "width"),
    [
        ("fits\n  as it is", "fits\n  as it is", 10),
        ("  label    words that\n           hang", "  label    words that hang", 22),
        ("  label    words\n  that hang", "  label    words that hang", 17),
        ("1,234 of\n  5,678\n  tokens", "1,234 of 5,678 tokens", 10),
        ("    indented\n      words", "    indented words", 13),
        ("  \x1b[2ma  b\x1b[0m\n\x1b[2m  c\x1b[0m", "\x1b[2m  a  b c\x1b[0m", 6),
    ],
)
def test_a_line_is_folded_under_its_label(shown: str, text: str, width: int) -> None:
    """Words behind a label hang under each other where there is room, else near the line's own
    indent.
    """
    assert shown == fit(text, width)


STYLES: Final = st.sampled_from(("red", "bold", "dim"))


@given(st.lists(st.tuples(STYLES, ANY_TEXT.map(safe)), max_size=6), st.integers(1, 40))
def test_a_folded_text_fits_and_loses_nothing(parts: list[tuple[Style, str]], width: int) -> None:
    """A line is no wider than it may be or is a single word, and all words are there, in order; in
    colour it is the same, and no line leaves its colour to the next.
    """
    plain = " ".join(text for _, text in parts)
    folded = fit(plain, width)
    for line in folded.split("\n"):
        assert cells(line) <= width or " " not in line.strip(" ") or '"dshc ' in line
    assert plain.replace(" ", "") == folded.replace(" ", "").replace("\n", "")
    coloured = fit(" ".join(styled(text, style, color=True) for style, text in parts), width)
    lines = SGR.sub("", coloured).split("\n")
    assert [line.rstrip(" ") for line in folded.split("\n")] == [line.rstrip(" ") for line in lines]
    for line in coloured.split("\n"):
        assert not (codes := SGR.findall(line)) or "\x1b[0m" == codes[-1]
