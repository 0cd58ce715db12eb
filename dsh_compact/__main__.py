"""`dshc` and `python -m dsh_compact`: one door, and the shortest way to the version.

A program that asks for the version waits for the interpreter and nothing else; everything else is
the business of `dsh_compact.cli`.
"""

import sys

from dsh_compact.version import __version__

GARBAGE_OBJECTS = 100_000
"""New objects before Python looks for garbage, in place of 700: nearly all that a command makes
stays to its end or goes at once. Measured: a twentieth of a command's start-up, and no memory."""


def main(words: list[str] | None = None) -> int:
    """Run the command that `words` (or the process's own arguments) name; return its exit code."""
    words = sys.argv[1:] if words is None else words
    if words in (["--version"], ["-V"]):
        sys.stdout.write(f"dshc {__version__}\n")
        return 0
    import gc

    gc.set_threshold(GARBAGE_OBJECTS)
    from dsh_compact.cli.app import run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
