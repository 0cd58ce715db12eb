"""How long commands take to start, as multiples of `python -c pass`, side by side in one run.

    python tests/benchmarks/start_up.py [ROUNDS]

The promises, as medians: `dshc --version` at most 3 × `python -c pass`; `dshc measure` on a small
log at most 9 ×, and at most 1.3 × an empty typer app of two commands. Exits 1 if one is broken.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

ROUNDS: Final = 31
"""Odd, and enough for a median that a busy machine moves little."""

EMPTY_APP: Final = """
import typer
app = typer.Typer()
@app.command()
def one(log: str) -> None: ...
@app.command()
def two(log: str) -> None: ...
app()
"""

PYTHON: Final = sys.executable
DSHC: Final = str(Path(PYTHON).with_name("dshc"))
LOG: Final = Path(__file__).parent.parent / "logs" / "v4-prune-then-failed-summary.jsonl"
PROMISES: Final = (
    ("dshc --version", "python -c pass", 3.0),
    ("dshc measure", "python -c pass", 9.0),
    ("dshc measure", "empty typer app", 1.3),
)


def rounds(commands: dict[str, list[str]], count: int, folder: str) -> dict[str, float]:
    """Return each command's median in seconds; they take turns, to meet the same machine.

    They run in `folder`, where no configuration lies.
    """
    taken: dict[str, list[float]] = {name: [] for name in commands}
    # An installed package has its bytecode beside it; the first round writes what is missing.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(count + 1):
        for name, words in commands.items():
            begun = perf_counter()
            subprocess.run(
                words, stdout=subprocess.DEVNULL, env=environment, cwd=folder, check=True
            )
            taken[name].append(perf_counter() - begun)
    return {name: median(times[1:]) for name, times in taken.items()}


def main(words: list[str]) -> int:
    """Print the table and the promises; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder, "app.py")
        app.write_text(EMPTY_APP, "utf-8")
        log = shutil.copy(LOG, folder)
        commands = {
            "python -c pass": [PYTHON, "-c", "pass"],
            "empty typer app": [PYTHON, str(app), "one", log],
            "dshc --version": [DSHC, "--version"],
            "dshc --help": [DSHC, "--help"],
            "dshc measure": [DSHC, "measure", log],
            "dshc measure --json": [DSHC, "measure", log, "--json"],
            "dshc history": [DSHC, "history", log],
        }
        taken = rounds(commands, int(words[0]) if words else ROUNDS, folder)
    for name, seconds in taken.items():
        ratio = seconds / taken["python -c pass"]
        print(f"{name:22} {seconds * 1000:6.1f} ms {ratio:6.2f} × python -c pass")
    broken = 0
    for name, base, limit in PROMISES:
        ratio = taken[name] / taken[base]
        broken += ratio > limit
        print(
            f"{name}: {ratio:.2f} × {base}, at most {limit} {'BROKEN' if ratio > limit else 'kept'}"
        )
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
