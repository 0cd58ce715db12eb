"""The benchmarks run, on logs so small that what they show means nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

from benchmarks.__main__ import Figures, report
from benchmarks.cases import CASES, SCRIPTS, Case, Promise

TOP = Path(__file__).parent.parent
TINY = ("--scale", "0.001", "--rounds", "1", "--cold")
"""Once each, and on next to nothing."""


def benchmarks(*words: str) -> tuple[int, list[str]]:
    """Run the benchmarks as a developer does; the exit code and the lines of the table."""
    command = [sys.executable, "-m", "tests.benchmarks", *words]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert "" == done.stderr
    return done.returncode, done.stdout.splitlines()


def test_every_case_has_a_row_for_each_command() -> None:
    """On tiny logs every command comes to its promised end, whatever the ratios."""
    cases = {name: case for name, case in CASES.items() if name != "attacks"}  # small ones are none
    _, (_, _, *rows) = benchmarks(*cases, *TINY, "--all")
    named = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert [f"{case.title}: {label}" for case in cases.values() for label in case.commands] == named
    assert {3} == {row.count("|") - 1 for row in rows}
    assert not any("exit" in row for row in rows)


def test_the_scripts_print_rows_of_the_same_table() -> None:
    """Whatever they time."""
    _, (_, _, *rows) = benchmarks(*SCRIPTS, *TINY)
    assert {"append", "tokens:"} == {row.split(" ")[1] for row in rows}
    assert {3} == {row.count("|") - 1 for row in rows}


def test_a_promise_is_kept_or_broken_by_the_time_that_judges() -> None:
    """By CPU, or by the clock where all cores are the matter; the peak by its MB."""
    slow = Figures(clock_seconds=3, cpu_seconds=2, peak_mb=50, codes=frozenset({0}))
    fast = Figures(clock_seconds=1, cpu_seconds=1, peak_mb=20, codes=frozenset({0}))
    promises = [
        Promise(command="slow", at_most=2.5, times="fast"),
        Promise(command="slow", at_most=49),
    ]
    rows: tuple[tuple[Literal["CPU", "clock"], str], ...] = (
        ("CPU", "2.00 × fast (3.00 by the clock); 2.00 s; 50 MB | ≤ 2.5 ×; ≤ 49 MB **(missed)** |"),
        (
            "clock",
            "3.00 × fast (2.00 CPU); 3.00 s; 50 MB | ≤ 2.5 × **(missed)**; ≤ 49 MB **(missed)** |",
        ),
    )
    for judged, words in rows:
        case = Case(title="t", logs={}, commands={}, promises=promises, judged=judged)
        found = report(case, {"fast": fast, "slow": slow}, whole=False)
        assert ([f"| t: slow | {words}"], False) == found


def test_what_ends_with_another_code_breaks_its_promise() -> None:
    """A command that fails is fast."""
    failed = Figures(clock_seconds=1, cpu_seconds=1, peak_mb=1, codes=frozenset({0, 4}))
    case = Case(title="t", logs={}, commands={})
    rows, kept = report(case, {"a": failed}, whole=False)
    assert (["| t: a | 1.00 s; 1 MB | **exit 0, 4** |"], False) == (rows, kept)


def test_attacks_are_refused_within_bounds() -> None:
    """A frame of 1 GB and nesting beyond any stack end with the promised codes and peak."""
    code, rows = benchmarks("attacks", "--scale", "0.1", "--rounds", "1", "--cold")
    assert (0, 3) == (code, len(rows)), rows


def test_the_readme_shows_the_table() -> None:
    """Every promise has its row there, with figures."""
    text = (TOP / "README.md").read_text("utf-8")
    for case in CASES.values():
        for label in {promise.command: None for promise in case.promises}:
            assert f"| {case.title}: {label} | " in text


def test_a_case_that_does_not_exist_is_wrong_usage() -> None:
    """The names that there are can be listed; another one is refused."""
    _, names = benchmarks("--list")
    assert [*CASES, *SCRIPTS] == names
    command = [sys.executable, "-m", "tests.benchmarks", "no-such-case"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert (2, "") == (done.returncode, done.stdout)
