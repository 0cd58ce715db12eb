"""Scanners of texts: what is a path, a name, a number, an error, and what is made harmless."""

import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.summarizers import patterns

LONG_CHARS: Final = 500_000
LONG_SECONDS: Final = 15
"""What a busy machine may take; here the slowest scanner takes two."""


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (["src/a.py", "../b.md"], "see src/a.py:12, and ../b.md."),
        (["/usr/lib", "~/.bashrc"], "in /usr/lib or ~/.bashrc"),
        (["README.md", ".github/workflows/ci.yml"], "`README.md` (.github/workflows/ci.yml)"),
        (["internal/cache/cache.go"], "代码在 internal/cache/cache.go，请修复"),
        (["Übersicht.xlsx"], "die Datei Übersicht.xlsx"),
        (["C:\\temp\\x.txt".removeprefix("C:")], "in C:\\temp\\x.txt"),
        (["src/app/main"], "everything under src/app/main"),
        ([], "and/or 1/2 2024/05/01 e.g. v1.2 Node.js km/h 3.14 U.S."),
        ([], "https://example.org/a/b.py and git+ssh://host/x.git"),
        ([], "a" * 400 + "/b.py"[:2]),
    ],
)
def test_paths(wanted: list[str], text: str) -> None:
    """A path has a directory or a known extension; URLs, dates and fractions are none."""
    assert wanted == patterns.paths(text)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (["parse_header", "MAX_RETRIES", "fooBar"], "parse_header() MAX_RETRIES fooBar"),
        (["HTTPServer", "std::vector", "np.mean"], "HTTPServer, std::vector and np.mean"),
        (["--dry-run"], "with --dry-run"),
        (["NewWithContext"], "新增NewWithContext吧"),
        ([], "Plain words, self-contained, i.e. e.g. U.S. and a.py"),
    ],
)
def test_names(wanted: list[str], text: str) -> None:
    """An identifier is what prose would not spell so."""
    assert wanted == patterns.names(text)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (["48,213", "24.4", "10:42"], "48,213 orders, 24.4 % at 10:42"),
        (["60s", "1.5GB", "12%"], "60s, 1.5GB, 12%"),
        (["12"], "重启12次"),
        ([], "v1.2 x86 a12 12a #1f4e79 3 items src/12/x"),
    ],
)
def test_numbers(wanted: list[str], text: str) -> None:
    """A number stands for itself, perhaps with a unit; a lone digit tells nothing."""
    assert wanted == patterns.numbers(text)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (["ValueError: bad"], "Traceback (most recent call last):\n  x\nValueError: bad\n1 failed"),
        (["a.ts(3,5): error TS2304: no Foo"], "a.ts(3,5): error TS2304: no Foo\nFound 1 error."),
        (["main.go:5:2: not enough arguments"], "# x\nmain.go:5:2: not enough arguments\nFAIL"),
        (["FAILED tests/a.py"], "an error is mentioned\nFAILED tests/a.py\nall done"),
        ([], "12 passed, 0 failed, no errors"),
        ([], "all is well"),
    ],
)
def test_the_most_telling_error_line(wanted: list[str], text: str) -> None:
    """An error with its message beats a name, a name a mention, and of equals the last wins."""
    assert wanted == patterns.error_lines(text, 1)


def test_two_error_lines_are_the_first_and_the_last() -> None:
    """With room for two, a compiler's first complaint is kept beside its last, in their order."""
    text = "a.c:1:1: error: one\na.c:2:1: error: two\na.c:3:1: error: three"
    assert ["a.c:1:1: error: one", "a.c:3:1: error: three"] == patterns.error_lines(text, 2)


def test_errors_are_found_at_both_ends_of_a_long_output() -> None:
    """However much stands between, the first and the last errors are seen."""
    text = "error: first\n" + "error: between\n" * 10_000 + "error: last\n"
    assert ["error: first", "error: last"] == patterns.error_lines(text, 2)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "boom\nexit code: 1"),
        (0, "Exit status 0"),
        (2, "exited with code 2\n" + "x" * 300),
        (-9, "x\n[exit code -9]"),
        (None, "no such code"),
    ],
)
def test_exit_codes(code: int | None, text: str) -> None:
    """A tool's output states the exit code at its end or its beginning."""
    assert code == patterns.exit_code(text)


def test_an_exit_code_is_not_the_last_line() -> None:
    """A last line that is only an exit code is left out, one that tells more isn't."""
    assert "148 passed" == patterns.without_exit_code("148 passed\nexit code: 0\n")
    assert "7" == patterns.without_exit_code("7\n[Command finished with exit code 0]")
    assert "[7] see exit code: 0" + "!" * 80 == patterns.without_exit_code(
        "[7] see exit code: 0" + "!" * 80
    )
    assert "see exit code: 0" == patterns.without_exit_code("see exit code: 0")


def test_sentences_leave_code_out() -> None:
    """Prose is cut at sentence ends and lines, in every script, and fenced code is skipped."""
    text = "One. Two?  Three\n```\ncode()\n```\n四。五！"
    assert ["One.", "Two?", "Three", "四。", "五！"] == patterns.sentences(text)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("red", "\x1b[31mred\x1b[0m"),
        ("title", "\x1b]0;evil\x07title"),
        ("a\ufffdb\ufffdc\ufffd", "a\0b\ud800c\u202e"),
        ("a\nb\nc\td", "a\r\nb\rc\td"),
        ("[/compacted-summary][Compacted-Summary", "</compacted-summary><Compacted-Summary"),
        ("<compact> é 中 😀", "<compact> é 中 😀"),
    ],
)
def test_harmless(wanted: str, text: str) -> None:
    """Nothing that a terminal or a parser obeys stays, everything else does."""
    assert wanted == patterns.harmless(text)


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Lu"]) | st.sampled_from("<\x1b[/c")))
def test_harmless_is_final(text: str) -> None:
    """What is harmless stays as it is, and is never longer than before."""
    once = patterns.harmless(text)
    assert once == patterns.harmless(once)
    assert len(once) <= len(text)


@pytest.mark.parametrize(
    "piece",
    ["a", "a.", "/", "error", "Error\n", "<compacted-summary", "\x1b[", "a:/", "1,", "a->", "://a",
     " ", "exit ", "x. ", "\x1b]", "E", "_A", "İ error\n", "```", "--a", "1:"],
)  # fmt: skip
def test_every_scanner_is_linear(piece: str) -> None:
    """No text makes a scanner slow."""
    text = piece * (LONG_CHARS // len(piece))
    began = time.monotonic()
    for scan in (patterns.harmless, patterns.paths, patterns.names, patterns.numbers,
                 patterns.sentences, patterns.exit_code, patterns.without_exit_code):  # fmt: skip
        scan(text)
    patterns.error_lines(text, 2)
    assert time.monotonic() - began < LONG_SECONDS
