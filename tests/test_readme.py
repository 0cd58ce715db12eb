"""The README keeps its word: blocks run, help is the real help, nothing stays undocumented."""

import re
from pathlib import Path
from typing import Final

import pytest
import readme
from running import DSHC, dshc

from dsh_compact.cli import names

TEXT: Final = readme.README.read_text("utf-8")
PROSE: Final = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
"""The text without its blocks."""

EXAMPLES: Final = [
    path
    for path in sorted((readme.ROOT / "examples").rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
]


@pytest.mark.parametrize(
    "console", readme.consoles(TEXT), ids=lambda console: f"line {console.line}"
)
def test_a_console_block_shows_what_really_happens(console: readme.Console, logs: Path) -> None:
    """Every command prints what the README shows, and leaves the logs as the next block needs
    them: whoever follows the README from its top works in one folder and one shell.
    """
    given = contents(logs)
    printed = readme.play(console, logs, DSHC.parent)
    assert len(console.steps) == len(printed)
    for (command, shown), real in zip(console.steps, printed, strict=True):
        assert readme.agrees(shown, real), f"$ {command}\n{real}"
    left = contents(logs)
    assert given == {name: left.get(name) for name in given}
    assert "dshc.toml" not in left
    assert not any(command.startswith(("export ", "cd ")) for command, _ in console.steps)


def test_what_is_left_of_the_stuck_session_is_what_the_prose_says(logs: Path) -> None:
    """The pressure behind a compaction is no count: the text tells both, and why they differ."""
    log = logs / "v4-stuck.jsonl"
    assert 0 == dshc("compact", log).code
    left = dshc("measure", log, "--tokenizer", "o200k_base", "--json").json
    estimated = left["surface"]["tokens"] + left["header_tokens"]
    counted = left["tokenizer"]["surface_tokens"] + left["tokenizer"]["header_tokens"]
    assert f"it is {estimated} tokens by the estimate, {counted} by\n" in PROSE
    assert left["total_tokens"] > counted


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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


def test_every_link_leads_somewhere() -> None:
    """Links inside the README name a heading, all others a page of the web."""
    headings = re.findall(r"^#+ (.+)$", PROSE, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings}
    links = re.findall(r"\]\(([^)]+)\)", PROSE)
    assert links
    assert [] == [link for link in links if link.lstrip("#") not in anchors]


def test_every_path_is_there() -> None:
    """What the README names of the repository exists."""
    told = re.findall(r"(?<![\w/.~-])(?:examples|tests|dsh_compact|\.ci)/[\w./-]*\w", TEXT)
    assert {"examples/agent.py", ".ci/run"} <= set(told)
    assert [] == [path for path in told if not (readme.ROOT / path).exists()]


def fields() -> dict[str, list[str]]:
    """The fields that the README promises, by command: `a`, `b` (`c`, `d`) is a, b, b.c, b.d."""
    section = TEXT.partition("\n## JSON\n")[2].partition("\n## ")[0]
    found = {}
    for name, cell in re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", section, re.MULTILINE):
        promised = []
        for field, inner in re.findall(r"`(\w+)`(?: \(([^)]*)\))?", cell):
            promised += [field, *(f"{field}.{one}" for one in re.findall(r"`(\w+)`", inner))]
        found[name] = promised
    return found


CALLS: Final = {
    "measure": ["measure", "v4-stuck.jsonl", "--tokenizer", "o200k_base"],
    "history": ["history", "v4-prune-then-failed-summary.jsonl"],
    "show": ["show", "v4-stuck.jsonl"],
    "export": ["export", "v4-stuck.jsonl", "--to", "openai"],
    "config": ["config", "v4-stuck.jsonl"],
    "compact": ["compact", "v4-stuck.jsonl"],
    "append": ["append", "v4-stuck.jsonl", "--user", "hello"],
    "undo": ["undo", "v4-overflow.jsonl", "-o", "undone.jsonl"],
    "verify": ["verify", "broken.jsonl"],
    "repair": ["repair", "broken.jsonl"],
    "recover": ["recover", "--backend", "lying", "--expect", "preserve"],
    "conformance": ["conformance", "--backend", "drop-oldest"],
    "backends": ["backends"],
    "classify": ["classify", "prompt is too long: 9000 tokens > 8000 maximum"],
}
"""One call of each command whose answer has all its fields; serve-wall's is its own test's."""


def test_every_command_promises_fields() -> None:
    """The table has a row for each command."""
    assert {*names()} == {*fields()} == {*CALLS, "serve-wall"}


@pytest.mark.parametrize("name", [*CALLS])
def test_the_promised_fields_are_there(name: str, logs: Path) -> None:
    """What the README says of a command's JSON is in it."""
    lines = (logs / "v4-resumed.jsonl").read_bytes().splitlines(keepends=True)
    (logs / "broken.jsonl").write_bytes(b"".join([*lines[:8], *lines[9:]]))
    told = dshc(*CALLS[name], "--json", cwd=logs).json
    assert {"schema", "command", "log"} <= {*told}
    assert (1, name) == (told["schema"], told["command"])
    for field in fields()[name]:
        outer, _, inner = field.partition(".")
        assert outer in told, field
        within = told[outer][0] if isinstance(told[outer], list) and inner else told[outer]
        assert not inner or inner in within, field


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_shown(path: Path) -> None:
    """Whoever reads the README learns of each example."""
    assert f"examples/{path.name}" in PROSE


def test_three_dots_stand_for_any_text() -> None:
    """The comparison is strict but for `...`."""
    shown = "log ...\n3 events\n"
    assert readme.agrees(shown, "log a\nlog b\n3 events")
    assert not readme.agrees(shown, "log a\n13 event")
    assert not readme.agrees(shown, "log a\n3 events and more")
    assert not readme.agrees("1.5 (a)", "1x5 (a)")
