"""What a command imports before it works: start-up is a promise, and it is made of imports.

Times belong to `benchmarks` (the case `start-up`); here stands what must not be imported, on any
machine.
"""

from pathlib import Path
from typing import Final

import pytest
from running import Ran, python

from dsh_compact.cli import names

COMMAND_LINE: Final = """
import sys
sys.argv[1:] = {words!r}
from dsh_compact.__main__ import main
code = main()
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""

HEAVY: Final = (
    "asyncio", "concurrent", "email", "http", "httpx", "importlib.metadata", "importlib.resources",
    "multiprocessing", "pydantic", "requests", "rich", "sqlite3", "ssl", "tiktoken", "tomllib",
    "typer.rich_utils", "unittest", "urllib.request", "zstandard",
)  # fmt: skip
"""What no plain command needs; each costs between a tenth and four times `python -c pass`."""


def modules(*words: str, cwd: Path | None = None) -> tuple[set[str], Ran]:
    """All modules that are there when `dshc` with `words` has ended, and how it went."""
    done = python(COMMAND_LINE.format(words=list(words)), cwd=cwd)
    return set(done.err.splitlines()[-1].split()), done


def test_the_version_imports_nothing() -> None:
    """`dshc --version` is the bare interpreter and three small files of ours."""
    bare = set(python("import sys; print(*sys.modules)").out.split())
    loaded, done = modules("--version")
    assert 0 == done.code
    ours = {"dsh_compact", "dsh_compact.__main__", "dsh_compact.version"}
    assert ours == loaded - bare


def test_the_help_imports_no_command_and_nothing_heavy() -> None:
    """`dshc --help` lists the commands out of their table, in plain text."""
    loaded, done = modules("--help")
    assert 0 == done.code
    assert set() == heavy(loaded)
    frame = {f"dsh_compact.cli.{name}" for name in ("app", "io")}
    assert frame == {name for name in loaded if name.startswith("dsh_compact.cli.")}


@pytest.mark.parametrize("name", names())
def test_a_commands_help_imports_nothing_heavy(name: str) -> None:
    """The help of one command waits for nothing that only its work needs."""
    loaded, done = modules(name, "--help")
    assert 0 == done.code
    assert set() == heavy(loaded)


@pytest.mark.parametrize("name", sorted({"measure", "history", "verify"} & {*names()}))
@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_a_small_plain_log_needs_nothing_heavy(name: str, flags: list[str], logs: Path) -> None:
    """A reading command on a small plain log, with no configuration, imports only what it uses."""
    loaded, done = modules(name, "v4-pressure.jsonl", *flags, cwd=logs)
    assert 0 == done.code
    assert set() == heavy(loaded)


def heavy(loaded: set[str]) -> set[str]:
    """The heavy packages among `loaded`."""
    return {name for name in HEAVY if name in loaded}
