"""The door of the program: Ctrl-C is heard there, wherever it comes in."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest
from running import python

BEGIN: Final = """
import gc, os, signal, sys, time, weakref
from dsh_compact import __main__
from dsh_compact.cli import app
class Thing: pass
def interrupt(*_): signal.raise_signal(signal.SIGINT)
def work(words):
    {drop}
    time.sleep(20)
    return 0
app.run = work
try:
    sys.exit(__main__.main())
except KeyboardInterrupt:
    print("heard")
"""
"""A command that loses a Ctrl-C, and then has long to do."""

DROPS: Final = {
    "a finalizer": "Thing.__del__ = interrupt; Thing()",
    "a weak reference": "thing = Thing(); note = weakref.ref(thing, interrupt); del thing",
    "a hook of a fork": (
        "os.register_at_fork(after_in_parent=interrupt)\n    if not os.fork(): os._exit(0)"
    ),
    "one after the other": "Thing.__del__ = interrupt; Thing(); Thing()",
}


@pytest.mark.parametrize("drop", DROPS.values(), ids=[*DROPS])
def test_a_lost_interrupt_comes_again(drop: str) -> None:
    """Python drops an exception there; the command is interrupted all the same, and says nothing
    of it.
    """
    ran = python(BEGIN.format(drop=drop))
    assert (0, "heard\n", "") == (ran.code, ran.out, ran.err)


def test_other_errors_in_a_finalizer_are_shown() -> None:
    """As Python shows them."""
    drop = "Thing.__del__ = lambda self: 1 / 0; Thing(); return 0"
    ran = python(BEGIN.format(drop=drop))
    assert (0, "") == (ran.code, ran.out)
    assert "ZeroDivisionError" in ran.err


IMPORTING: Final = """
import signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "typer": signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
from dsh_compact.__main__ import main
sys.exit(main())
"""


def test_an_interrupt_while_the_program_starts_is_one_word() -> None:
    """A second Ctrl-C behind a typing error meets the imports, which take most of a short run."""
    command = [sys.executable, "-c", IMPORTING, "measure", "--demo"]
    ran = subprocess.run(command, capture_output=True, check=False, timeout=20)
    assert (130, b"", b"dshc: interrupted\n") == (ran.returncode, ran.stdout, ran.stderr)
