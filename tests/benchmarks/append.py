"""What one append to an open session costs on short and on long logs: it must not matter.

    python -m tests.benchmarks append

Prints rows of the benchmarks' table. The sessions take turns, so that all meet the same machine; a
ratio is to the first session's median. Judged is an append without `fsync`, which is the disk's
cost and hides ours. Exits 1 if a long log makes an append more than twice as dear.
"""

import argparse
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

from .__main__ import make_log, scale_words  # noqa: TID252, as there

APPENDS: Final = 200
"""To each session: enough for a median that a busy disk moves little."""

MOST: Final = 2.0
"""How much dearer an append may be on a long log."""

SHAPES: Final = {
    "1,000 nodes": ["many-nodes", "--count", "1000"],
    "200,000 nodes": ["many-nodes", "--count", "200000"],
    "100 MB": ["realistic", "--mb", "100"],
    "100 MB, framed": ["realistic", "--mb", "100", "--framed"],
}


class NoWait(Disk):
    """A disk that never makes sure."""

    def fsync(self, fd: int) -> None:
        """Returns at once."""


def main() -> int:
    """Print the rows; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=APPENDS)
    parser.add_argument("--all", action="store_true", help="has no effect: all is promised")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logs = {
            name: make(Path(folder), [*scale_words(shape, options.scale)])
            for name, shape in SHAPES.items()
        }
        unsynced = measured(logs, NoWait(), options.rounds)
        synced = measured(logs, Disk(), options.rounds)
    first, *others = logs
    worst = 0.0
    for name in others:
        ratio = unsynced[name] / unsynced[first]
        worst = max(worst, ratio)
        broken = " **(missed)**" if ratio > MOST else ""
        print(
            f"| append to {name} | {ratio:.2f} × to {first}; {unsynced[name] * 1e6:.0f} µs, "
            f"{synced[name] * 1e6:.0f} with `fsync` | ≤ {MOST:g} ×{broken} |"
        )
    return int(worst > MOST)


def make(folder: Path, shape: list[str]) -> Path:
    """A log of that shape, alone in a folder, since a log's lock lies beside it."""
    place = Path(tempfile.mkdtemp(dir=folder))
    path = place / "session.v4.jsonl"
    make_log(path, shape)
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
    sys.exit(main())
