"""A bar for long work before a terminal, and nothing otherwise."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from typing import Final

from running import python

LONG_WORK: Final = """
import sys, threading, time
from dsh_compact.cli.progress import PATIENCE_SECONDS, Progress
with Progress("[red]reading \\x1b[2J", 4) as progress:
    progress.advance(3)
    time.sleep({wait} * PATIENCE_SECONDS)
    progress.advance()
    alone = threading.active_count() == 1
print("rich" in sys.modules, alone)
"""
"""Work in two pieces, with a pause between them that tries a person's patience, or doesn't."""


def on_terminal(code: str, columns: int = 80, **env: str) -> tuple[str, str]:
    """Run `code` with a terminal as stderr; return what it printed and what the terminal got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm-256color", **env},
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
    assert "True True" == out
    assert "[red]reading \\x1b[2J" in seen
    assert "4/4" in seen


def test_the_bar_fits_a_narrow_terminal_and_shows_no_colour_where_none_is_wanted() -> None:
    """At 40 columns it is one line, and with NO_COLOR only the cursor is told anything."""
    code = LONG_WORK.format(wait=1.1).replace("[red]reading \\x1b[2J", "reading")
    _, seen = on_terminal(code, 40, NO_COLOR="1")
    drawn = re.sub("\x1b\\[[?0-9]*[hlAK]", "\n", seen)
    assert "\x1b" not in drawn
    shown = [line for line in re.split("[\r\n]+", drawn) if line]
    assert shown
    assert all(len(line) <= 40 and line.endswith("4/4") for line in shown)


def test_a_terminal_that_cannot_draw_is_left_alone() -> None:
    """Not even an empty line."""
    assert ("False True", "") == on_terminal(LONG_WORK.format(wait=1.1), TERM="dumb")


def test_a_rough_total_is_a_percentage() -> None:
    """Which never says that all is done, since nobody knows."""
    code = LONG_WORK.format(wait=1.1).replace("progress.advance(3)", "progress.expect(100)")
    code = code.replace("advance()", "advance(120)")
    _, seen = on_terminal(code)
    assert " 99%" in seen
    assert "/" not in seen


def test_printed_results_are_the_progress() -> None:
    """Where stdout is that terminal, too, a bar would stand among them; in a file it would not."""
    code = LONG_WORK.format(wait=1.1).replace(", 4)", ", 4, beside_output=True)")
    assert ("True True", True) == ((ran := on_terminal(code))[0], bool(ran[1]))
    _, seen = on_terminal(f"import sys; sys.stdout = sys.stderr{code}")
    assert "False True\r\n" == seen


def test_short_work_shows_nothing_and_imports_nothing() -> None:
    """Work that ends in time leaves the terminal alone."""
    assert ("False True", "") == on_terminal(LONG_WORK.format(wait=0))


def test_without_a_terminal_nothing_is_shown() -> None:
    """In a pipe, however long the work, stderr stays empty."""
    done = python(LONG_WORK.format(wait=1.1))
    assert ("False True\n", "") == (done.out, done.err)
