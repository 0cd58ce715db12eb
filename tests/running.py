"""Runs the installed `dshc` as a user does: a real process, real streams, a real exit code."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DSHC: Final = Path(sys.executable).with_name("dshc")
"""The installed command, beside the interpreter that runs the tests."""

LOGS: Final = Path(__file__).with_name("logs")
"""The real logs: never written to, tests take copies (the fixture `logs`)."""

LONGEST_SECONDS: Final = 60
"""No command of the tests works as long as this; one that does hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a finished command left: its exit code and both streams as text."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, read as the one JSON object that it must be."""
        return json.loads(self.out)


def dshc(
    *words: str | Path,
    stdin: str | bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> Ran:
    """Run `dshc` with `words`; `env` is laid over the environment, broken bytes are escaped."""
    done = subprocess.run(
        [DSHC, *words],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        timeout=LONGEST_SECONDS,
        check=False,
    )
    out, err = (stream.decode("utf-8", "backslashreplace") for stream in (done.stdout, done.stderr))
    return Ran(code=done.returncode, out=out, err=err)


def python(code: str, *flags: str, cwd: Path | None = None, stdin: str = "") -> Ran:
    """Run `code` in a fresh interpreter, with `flags` for the interpreter before it."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def group_of(group: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found
