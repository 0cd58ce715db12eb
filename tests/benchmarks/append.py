"""What one append to an open session costs on short and on long logs: it must not matter.

    python tests/benchmarks/append.py [APPENDS]

The sessions take turns, so that all meet the same machine; a row's ratio is to the first row's
median. The second column leaves out `fsync`, which is the disk's cost and hides ours.
Exits 1 if a long log makes an append more than twice as dear.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from dsh_compact.codec.encode import user_message
from dsh_compact.events import Text
from dsh_compact.journal import Disk
from dsh_compact.session import WritableSession, open_session

APPENDS: Final = 200
"""To each session: enough for a median that a busy disk moves little."""

MOST: Final = 2.0
"""How much dearer an append may be on a long log."""

SHAPES: Final = {
    "1,000 nodes": ["many-nodes", "--count", "1000"],
    "200,000 nodes": ["many-nodes", "--count", "200000"],
    "1 MB": ["realistic", "--mb", "1"],
    "100 MB": ["realistic", "--mb", "100"],
    "100 MB, framed": ["realistic", "--mb", "100", "--framed"],
}


class NoWait(Disk):
    """A disk that never makes sure."""

    def fsync(self, fd: int) -> None:
        """Returns at once."""


def main(words: list[str]) -> int:
    """Print the table; return the exit code."""
    count = int(words[0]) if words else APPENDS
    print("| log | an append | ratio | without fsync | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        logs = {name: make(Path(folder), shape) for name, shape in SHAPES.items()}
        synced, unsynced = measured(logs, Disk(), count), measured(logs, NoWait(), count)
    first, worst = next(iter(logs)), 0.0
    for name in logs:
        ratios = [taken[name] / taken[first] for taken in (synced, unsynced)]
        worst = max(worst, ratios[1])
        print(
            f"| {name} | {synced[name] * 1e6:.0f} µs | {ratios[0]:.2f} "
            f"| {unsynced[name] * 1e6:.0f} µs | {ratios[1]:.2f} |"
        )
    return int(worst > MOST)


def make(folder: Path, shape: list[str]) -> Path:
    """A log of that shape, alone in a folder, since a log's lock lies beside it."""
    place = Path(tempfile.mkdtemp(dir=folder))
    path = place / "session.v4.jsonl"
    generator = str(Path(__file__).with_name("generate.py"))
    subprocess.run([sys.executable, generator, shape[0], str(path), *shape[1:]], check=True)
    return path


def measured(logs: dict[str, Path], disk: Disk, count: int) -> dict[str, float]:
    """The median seconds of an append to each of the logs."""
    sessions = {name: open_session(path, disk=disk) for name, path in logs.items()}
    taken: dict[str, list[float]] = {name: [] for name in logs}
    for number in range(count):
        for name, session in sessions.items():
            taken[name].append(seconds(session, number))
    for session in sessions.values():
        session.close()
    return {name: median(times) for name, times in taken.items()}


def seconds(session: WritableSession, number: int) -> float:
    """The wall time of one append of a short message."""
    draft = user_message([Text(text=f"message {number}")], f"benchmark-{number}")
    begun = perf_counter()
    session.append([draft])
    return perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
