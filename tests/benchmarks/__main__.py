"""What the commands cost on large and on hard logs, in one table, as the README shows it.

    python -m tests.benchmarks                every promise; five minutes and 2 GB of disk
    python -m tests.benchmarks 100mb nodes    some cases
    python -m tests.benchmarks --all          what is measured and not promised, too
    python -m tests.benchmarks --list

Every command is a whole process, started in turn with the ones that it is compared to, so that all
meet the same machine; what counts is the median of the rounds, as a ratio to another command of the
same case (usually `orjson.loads` over the lines of the same log). Judged is the time by the clock,
start-up included: a large log is read by two processes, and a folder of logs by as many as there
are cores. The CPU time of all of them, user and system, stands beside it; it judges start-up, since
the clock shows what else the machine does, too, and growth, of which the clock would hide some
where only the larger log has two processes.
The peak is that of the largest process (`ru_maxrss`). Exits 1 when a promise is broken.

It doesn't import the product or the generator: a fat parent would lend its memory to its children's
peaks. `append` and `tokenizers` time calls within a process, and are processes of their own.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .cases import CASES, COPIED, COPIES, SCRIPTS, Case, Promise  # noqa: TID252, run as `tests.benchmarks`, tested as `benchmarks`

ROUNDS: Final = 5
"""Odd, and enough for the median of a process that runs for most of a second."""

LIMIT_SECONDS: Final = 600
"""A process that runs as long has lost; the original harness took 467 s for one of the cases."""

HEAD: Final = "| | measured | promised |\n|---|---|---|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process: its time by the clock and on all cores, its peak, its exit code."""

    clock_seconds: float
    cpu_seconds: float
    peak_bytes: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What came of a command's runs: medians, the highest peak, every exit code."""

    clock_seconds: float
    cpu_seconds: float
    peak_mb: float
    codes: frozenset[int]


def run(words: Sequence[str], folder: str) -> Run:
    """Run a whole process to its end, or to the limit, in a folder without configuration."""
    # An installed package has its bytecode beside it; the first round writes what is missing.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    process = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
    )
    watch = threading.Timer(LIMIT_SECONDS, process.kill)
    watch.start()
    _, status, used = os.wait4(process.pid, 0)
    clock_seconds = time.perf_counter() - begun
    watch.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(
        clock_seconds=clock_seconds,
        cpu_seconds=used.ru_utime + used.ru_stime,
        peak_bytes=used.ru_maxrss * unit,
        code=process.returncode,
    )


# Logs ---------------------------------------------------------------------------------------------


def make_logs(case: Case, folder: Path, scale: float) -> dict[str, Path]:
    """Write the case's logs into a folder, those of the same words once."""
    made = {}
    for name, words in case.logs.items():
        path = folder / f"{'_'.join(words).replace('-', '')}_{scale:g}.jsonl"
        made[name] = path
        if path.exists():
            continue
        scaled = list(scale_words(words, scale))
        if COPIES in scaled:
            at = scaled.index(COPIES)
            make_folder(path, scaled[:at], int(scaled[at + 1]))
        else:
            make_log(path, scaled)
    return made


def make_log(path: Path, words: Sequence[str]) -> None:
    """One log of that shape."""
    generator = str(Path(__file__).with_name("generate.py"))
    subprocess.run([sys.executable, generator, words[0], str(path), *words[1:]], check=True)


def make_folder(path: Path, words: Sequence[str], count: int) -> None:
    """A folder of so many equal logs."""
    path.mkdir()
    first = path / "0.jsonl"
    make_log(first, words)
    for number in range(1, count):
        shutil.copy(first, path / f"{number}.jsonl")


def scale_words(words: Sequence[str], scale: float) -> Iterator[str]:
    """The generator's words with sizes and counts made smaller."""
    sized = {"--mb", "--count", "--replacements", COPIES}
    for before, word in zip(("", *words), words, strict=False):
        if before in sized and scale != 1:
            yield f"{float(word) * scale:g}" if before == "--mb" else str(int(int(word) * scale))
        else:
            yield word


@contextmanager
def with_paths(words: Sequence[str], logs: Mapping[str, Path]) -> Iterator[tuple[list[str], str]]:
    """A command's words with paths in the place of names, and an empty folder to run in."""
    with tempfile.TemporaryDirectory() as folder:
        filled = []
        for word in words:
            if word.startswith(COPIED):
                copy = shutil.copy(logs[word.removeprefix(COPIED)], folder)
                with open(copy, "rb") as file:
                    os.fsync(file.fileno())  # else the command's own flush waits for the copying
                filled.append(copy)
            else:
                filled.append(str(logs.get(word, word)))
        yield filled, folder


# Figures ------------------------------------------------------------------------------------------


def rounds(
    case: Case, logs: Mapping[str, Path], count: int, *, cold: bool = False
) -> dict[str, Figures]:
    """Each command's figures, the commands taking turns; a first round fills the caches, and only
    where it is `cold` is it left out.
    """
    runs: dict[str, list[Run]] = {label: [] for label in case.commands}
    uncounted = 0 if cold else 1
    for _ in range(count + uncounted):
        for label, words in case.commands.items():
            with with_paths(words, logs) as (filled, folder):
                runs[label].append(run(filled, folder))
    return {label: figures(taken[uncounted:]) for label, taken in runs.items()}


def figures(runs: Sequence[Run]) -> Figures:
    """What the runs come to."""
    return Figures(
        clock_seconds=statistics.median(one.clock_seconds for one in runs),
        cpu_seconds=statistics.median(one.cpu_seconds for one in runs),
        peak_mb=max(one.peak_bytes for one in runs) / 1e6,
        codes=frozenset(one.code for one in runs),
    )


def report(case: Case, found: Mapping[str, Figures], *, whole: bool) -> tuple[list[str], bool]:
    """The case's rows of the table, and whether all its promises were kept."""
    rows, all_kept = [], True
    for label, own in found.items():
        promises = [one for one in case.promises if one.command == label]
        said = [(one, is_kept(one, case, found)) for one in promises]
        ends = own.codes == {case.codes.get(label, 0)}
        all_kept = all_kept and ends and all(kept for _, kept in said)
        if promises or whole or not ends:
            words = [f"{one}{'' if kept else ' **(missed)**'}" for one, kept in said]
            if not ends:
                words.append(f"**exit {', '.join(map(str, sorted(own.codes)))}**")
            measured = "; ".join(measures(label, promises, case, found))
            rows.append(f"| {case.title}: {label} | {measured} | {'; '.join(words)} |")
    return rows, all_kept


def is_kept(promise: Promise, case: Case, found: Mapping[str, Figures]) -> bool:
    """Whether what was found is within the limit."""
    own = found[promise.command]
    if promise.times is None:
        return own.peak_mb <= promise.at_most
    return ratio(own, found[promise.times], case.judged) <= promise.at_most


def measures(
    label: str, promises: Sequence[Promise], case: Case, found: Mapping[str, Figures]
) -> Iterator[str]:
    """The parts of the column `measured`: what is promised, in the order of the promises."""
    own, first = found[label], next(iter(found))
    others = [one.times for one in promises if one.times]
    if not promises and label != first:
        others = [first]
    for other in others:
        cpu, clock = (ratio(own, found[other], judged) for judged in ("CPU", "clock"))
        shown = (cpu, clock, "by the clock") if case.judged == "CPU" else (clock, cpu, "CPU")
        yield f"{shown[0]:.2f} × {other} ({shown[1]:.2f} {shown[2]})"
    seconds = own.cpu_seconds if case.judged == "CPU" else own.clock_seconds
    yield f"{seconds:.3f} s" if seconds < 0.1 else f"{seconds:.2f} s"
    yield f"{own.peak_mb:.0f} MB"


def ratio(own: Figures, other: Figures, judged: str) -> float:
    """How many times the other command's time this one takes."""
    if judged == "CPU":
        return own.cpu_seconds / other.cpu_seconds
    return own.clock_seconds / other.clock_seconds


# The command line ---------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's first lines."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description="What dshc costs, as ratios in one run."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases to run; without: all")
    parser.add_argument("--list", action="store_true", help="name the cases")
    parser.add_argument("--all", action="store_true", help="show what has no promise, too")
    parser.add_argument("--rounds", type=int, help="of each case, in place of its own number")
    parser.add_argument("--cold", action="store_true", help="fill no caches before, in haste")
    parser.add_argument("--scale", type=float, default=1, help="make all logs smaller or larger")
    parser.add_argument("--folder", type=Path, help="keep the logs here for the next time")
    options = parser.parse_args(words)
    names = [*CASES, *SCRIPTS]
    if unknown := set(options.names) - set(names):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; see --list")
    if options.list:
        print("\n".join(names))
        return 0
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        kept = [
            run_script(name, options) if name in SCRIPTS else run_case(CASES[name], folder, options)
            for name in options.names or names
        ]
    return 0 if all(kept) else 1


def run_case(case: Case, folder: Path, options: argparse.Namespace) -> bool:
    """Print the case's rows; tell whether its promises were kept."""
    logs = make_logs(case, folder, options.scale)
    found = rounds(case, logs, options.rounds or case.rounds or ROUNDS, cold=options.cold)
    rows, kept = report(case, found, whole=options.all)
    for row in rows:
        print(row, flush=True)
    return kept


def run_script(name: str, options: argparse.Namespace) -> bool:
    """Let the module print its rows; tell whether its promises were kept."""
    words = ["--scale", str(options.scale), *(["--all"] if options.all else [])]
    if options.rounds:
        words += ["--rounds", str(options.rounds)]
    done = subprocess.run([sys.executable, "-m", f"tests.benchmarks.{name}", *words], check=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
