"""The README keeps its word: blocks run, help is the real help, nothing stays undocumented."""

from pathlib import Path
from typing import Final

import pytest
import readme
from running import DSHC

from dsh_compact.cli import names

TEXT: Final = readme.README.read_text("utf-8")
EXAMPLES: Final = [
    path
    for path in sorted((readme.ROOT / "examples").rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
]


@pytest.mark.parametrize(
    "console", readme.consoles(TEXT), ids=lambda console: f"line {console.line}"
)
def test_a_console_block_shows_what_really_happens(console: readme.Console, logs: Path) -> None:
    """Every command in the README prints what the README shows, on copies of the real logs."""
    printed = readme.play(console, logs, DSHC.parent)
    assert len(console.steps) == len(printed)
    for (command, shown), real in zip(console.steps, printed, strict=True):
        assert readme.agrees(shown, real), f"$ {command}\n{real}"


def test_the_help_section_is_the_real_help() -> None:
    """The README's section of help texts is what the program prints; the docstring says how."""
    assert readme.with_help(TEXT, readme.help_section()) == TEXT, "run: python tests/readme.py"


def test_the_set_up_is_two_commands() -> None:
    """One command installs and shows something, one installs the test extras and tests."""
    first, second = readme.set_up(TEXT)
    assert "pip install . && .venv/bin/dshc " in first
    assert "pip install '.[test]' && .venv/bin/pytest" in second


@pytest.mark.parametrize("name", names())
def test_a_command_is_documented(name: str) -> None:
    """Every command is shown outside the generated help, too."""
    before, _, rest = TEXT.partition(readme.HELP_BEGINS)
    prose = before + rest.partition(readme.HELP_ENDS)[2]
    assert f"dshc {name}" in prose


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_run_by_a_test(path: Path) -> None:
    """Every file in examples/ is named by a test, which runs it."""
    tests = Path(__file__).parent.rglob("test_*.py")
    assert any(path.name in test.read_text("utf-8") for test in tests)


def test_three_dots_stand_for_any_text() -> None:
    """The comparison is strict but for `...`."""
    shown = "log ...\n3 events\n"
    assert readme.agrees(shown, "log a\nlog b\n3 events")
    assert not readme.agrees(shown, "log a\n13 event")
    assert not readme.agrees(shown, "log a\n3 events and more")
    assert not readme.agrees("1.5 (a)", "1x5 (a)")
