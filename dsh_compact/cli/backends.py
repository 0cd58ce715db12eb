"""`dshc backends`: what can stand behind `--backend`."""

from msgspec import to_builtins

from dsh_compact.backends import lookup
from dsh_compact.cli import io, options
from dsh_compact.report import backends as report

EXAMPLES = """
dshc backends                                    all that have a name, a sentence each
dshc recover --backend prune-then-crash          one of them at work
dshc recover --backend ./mine.py:Mine            yours needs no name: a file, or a module
"""


def command(json: options.Json = False) -> int:
    """List what can stand behind --backend: honest backends, hostile ones, and those of packages.

    The honest ones are for use; each hostile one stands for a real failure, to be rehearsed with. A
    package adds its own by an entry point of the group dsh_compact.backends. Anything else is named
    as FILE.py:NAME or MODULE:NAME.
    """
    entries = lookup.entries()
    if json:
        found = [to_builtins(entry) for entry in entries]
        io.emit_json({"schema": 1, "command": "backends", "log": None, "backends": found})
    else:
        io.emit_text(report.text(entries, color=io.use_color()))
    return 0
