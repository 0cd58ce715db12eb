"""The benchmarks run, on logs so small that what they show means nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parent.parent


def benchmarks(*words: str) -> tuple[int, list[str]]:
    """Run the benchmarks as a developer does; the exit code and the lines of the table."""
    command = [sys.executable, "-m", "tests.benchmarks", *words]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert "" == done.stderr
    return done.returncode, done.stdout.splitlines()


def test_a_case_has_a_row_for_each_command() -> None:
    """Every command of the case ran to a good end, and its row has all six columns."""
    _, (_, _, *rows) = benchmarks("nodes", "--scale", "0.001", "--rounds", "1")
    assert ["25,000 nodes", "200,000 nodes", "orjson, 200,000"] == [r.split(" | ")[1] for r in rows]
    assert {6} == {row.count("|") - 1 for row in rows}
    assert not any("exit" in row for row in rows)


def test_attacks_are_refused_within_bounds() -> None:
    """A frame of 1 GB and nesting beyond any stack end with the promised codes and peak."""
    code, rows = benchmarks("attacks", "--scale", "0.1", "--rounds", "1")
    assert (0, 4) == (code, len(rows)), rows


def test_a_case_that_does_not_exist_is_wrong_usage() -> None:
    """The names that there are can be listed; another one is refused."""
    _, names = benchmarks("--list")
    assert {"measure-100mb", "framed", "nodes", "one-node", "compact", "attacks"} <= set(names)
    command = [sys.executable, "-m", "tests.benchmarks", "no-such-case"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert (2, "") == (done.returncode, done.stdout)
