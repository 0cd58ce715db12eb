"""A bar for long work before a terminal, and nothing otherwise."""

import os
import pty
import subprocess
import sys
from typing import Final

from running import python

LONG_WORK: Final = """
import sys, time
from dsh_compact.cli.progress import PATIENCE_SECONDS, Progress
with Progress("[red]reading \\x1b[2J", 4) as progress:
    progress.advance(3)
    time.sleep({wait} * PATIENCE_SECONDS)
    progress.advance()
    time.sleep(0.15)
print("rich" in sys.modules)
"""
"""Work in two pieces, with a pause between them that tries a person's patience, or doesn't."""


def on_terminal(code: str) -> tuple[str, str]:
    """Run `code` with a terminal as stderr; return what it printed and what the terminal got."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 1 << 16):
            seen += piece
    except OSError:  # Linux's way to say that the other end is closed
        pass
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert 0 == process.returncode
    return out.strip(), seen.decode("utf-8")


def test_long_work_shows_a_bar_that_reads_no_markup() -> None:
    """After half a second before a terminal the bar appears, with its label as it is, made safe."""
    out, seen = on_terminal(LONG_WORK.format(wait=1.1))
    assert "True" == out
    assert "[red]reading \\x1b[2J" in seen
    assert "4/4" in seen


def test_short_work_shows_nothing_and_imports_nothing() -> None:
    """Work that ends in time leaves the terminal alone."""
    assert ("False", "") == on_terminal(LONG_WORK.format(wait=0))


def test_without_a_terminal_nothing_is_shown() -> None:
    """In a pipe, however long the work, stderr stays empty."""
    done = python(LONG_WORK.format(wait=1.1))
    assert ("False\n", "") == (done.out, done.err)
