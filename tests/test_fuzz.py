"""A short run of the fuzzer; `just fuzz` makes a long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).with_name("fuzz.py")
MUTANTS = 25  # some seconds; each meets every command


def test_mutated_logs_are_met_with_right_answers_or_none(tmp_path: Path) -> None:
    """No command crashes, hangs, prints raw text or gives an answer that the log doesn't give."""
    words = [sys.executable, str(FUZZER), "--count", str(MUTANTS), "--seconds", "100"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stdout), done.stderr
    assert f"{MUTANTS} mutants, 0 with something wrong\n" == done.stderr
