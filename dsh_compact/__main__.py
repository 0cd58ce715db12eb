"""`dshc` and `python -m dsh_compact`: one door, and the shortest way to the version.

A program that asks for the version waits for the interpreter and nothing else; everything else is
the business of `dsh_compact.cli`.
"""

import os
import sys

from dsh_compact.version import __version__

GARBAGE_OBJECTS = 100_000
"""New objects before Python looks for garbage, in place of 700: nearly all that a command makes
stays to its end or goes at once. At the end it need not look either: all goes with the process.
Measured: a quarter of a short command's time, and no memory."""

AGAIN_SECONDS = 0.001
"""When a lost Ctrl-C comes again: out of the place that dropped it, and before anybody notices."""


def main(words: list[str] | None = None) -> int:
    """Run the command that `words` (or the process's own arguments) name; return its exit code."""
    alone = words is None  # in a process of its own
    words = sys.argv[1:] if words is None else words
    if words in (["--version"], ["-V"]) and _said_version():
        return 0
    import gc

    gc.set_threshold(GARBAGE_OBJECTS)
    if alone:
        from dsh_compact import cores

        cores.claim()
        sys.unraisablehook = _interrupt_again
    try:
        from dsh_compact.cli.app import run
    except KeyboardInterrupt:
        sys.stderr.write("dshc: interrupted\n")
        return 130

    code = run(words)
    if alone:
        gc.freeze()
    return code


def _said_version() -> bool:
    """False where it could not be written: then the long way tries, and says why."""
    try:
        os.write(sys.stdout.fileno(), f"dshc {__version__}\n".encode("ascii"))
    except (OSError, AttributeError):  # a full disk, a reader who left; the shell's `>&-`
        return False
    return True


def _interrupt_again(dropped: "sys.UnraisableHookArgs") -> None:
    """Hear of an exception that Python drops; send a Ctrl-C that was lost there once more.

    It is lost where it meets a finalizer, a callback of a weak reference (each import has one), or
    a hook of a fork, and the command would go on as if nothing had been said.
    """
    if not issubclass(dropped.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    import signal

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
