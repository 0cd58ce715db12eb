"""What the commands cost on large and on hard logs, in one table.

    python -m tests.benchmarks                      every case; some minutes and 2 GB of disk
    python -m tests.benchmarks measure-100mb nodes  some of them
    python -m tests.benchmarks --list

Every command is a whole process, started in turn with the ones that it is compared to, so that all
meet the same machine; what counts is the median of the rounds, as a ratio to another command of the
same case (usually `orjson.loads` over the lines of the same log). The peak is the process's own
(`ru_maxrss`). Exits 1 when a promise is broken.

Beside it, each a table of its own: `start_up.py`, `append.py`, `tokenizers.py`.

It doesn't import the product or the generator: a fat parent would lend its memory to its children's
peaks.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROUNDS: Final = 5
"""Odd, and enough for the median of a process that runs for most of a second."""

LIMIT_SECONDS: Final = 600
"""A process that runs as long has lost; the original harness took 467 s for one of the cases."""

DSHC: Final = str(Path(sys.executable).with_name("dshc"))
ORJSON: Final = "import sys, orjson\nfor line in open(sys.argv[1], 'rb'): orjson.loads(line)"
COPIED: Final = "copy of "
"""Before the name of a log: the command gets its own copy in each round, for it writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """At most so many times the other command's median, or so many MB at the peak."""

    command: str
    at_most: float
    times: str | None = None

    def __str__(self) -> str:
        """The limit as the table's last column shows it."""
        if self.times is None:
            return f"peak ≤ {self.at_most:g} MB"
        return f"≤ {self.at_most:g} × {self.times}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Logs by name, each with the generator's words; commands by label, in which names are logs."""

    logs: Mapping[str, Sequence[str]]
    commands: Mapping[str, Sequence[str]]
    promises: Sequence[Promise] = ()
    codes: Mapping[str, int] = field(default_factory=dict)


def dshc(*words: str) -> list[str]:
    """The installed command."""
    return [DSHC, *words]


def orjson_over(log: str) -> list[str]:
    """The yardstick: a Python process that decodes each line."""
    return [sys.executable, "-c", ORJSON, log]


CASES: Final[Mapping[str, Case]] = {
    "measure-100mb": Case(
        logs={"log": ["realistic", "--mb", "100"]},
        commands={
            "orjson": orjson_over("log"),
            "measure": dshc("measure", "log"),
            "measure --strict": dshc("measure", "log", "--strict"),
            "history": dshc("history", "log"),
            "verify": dshc("verify", "log"),
        },
        promises=[
            Promise(command="measure", at_most=0.6, times="orjson"),
            Promise(command="history", at_most=0.6, times="orjson"),
            Promise(command="measure --strict", at_most=1.6, times="orjson"),
            Promise(command="measure", at_most=80),
        ],
    ),
    "measure-100mb-format-0": Case(
        logs={"log": ["realistic", "--mb", "100", "--format", "0"]},
        commands={
            "orjson": orjson_over("log"),
            "measure": dshc("measure", "log"),
            "measure --strict": dshc("measure", "log", "--strict"),
            "history": dshc("history", "log"),
        },
        promises=[
            Promise(command="measure", at_most=0.6, times="orjson"),
            Promise(command="history", at_most=0.6, times="orjson"),
            Promise(command="measure --strict", at_most=1.6, times="orjson"),
            Promise(command="measure", at_most=80),
        ],
    ),
    "measure-500mb": Case(
        logs={"log": ["realistic", "--mb", "500"]},
        commands={"orjson": orjson_over("log"), "measure": dshc("measure", "log")},
        promises=[
            Promise(command="measure", at_most=0.6, times="orjson"),
            Promise(command="measure", at_most=120),
        ],
    ),
    "framed": Case(
        logs={
            "plain": ["realistic", "--mb", "100"],
            "framed": ["realistic", "--mb", "100", "--framed"],
        },
        commands={"plain": dshc("measure", "plain"), "framed": dshc("measure", "framed")},
        promises=[Promise(command="framed", at_most=2.2, times="plain")],
    ),
    "compact": Case(
        logs={"log": ["realistic", "--mb", "100"]},
        commands={
            "measure": dshc("measure", "log"),
            "compact": dshc("compact", f"{COPIED}log", "--force"),
        },
        promises=[Promise(command="compact", at_most=1.5, times="measure")],
    ),
    "nodes": Case(
        logs={
            "few": ["many-nodes", "--count", "25000"],
            "many": ["many-nodes", "--count", "200000"],
        },
        commands={
            "25,000 nodes": dshc("measure", "few"),
            "200,000 nodes": dshc("measure", "many"),
            "orjson, 200,000": orjson_over("many"),
        },
        promises=[Promise(command="200,000 nodes", at_most=10, times="25,000 nodes")],
    ),
    "replacements": Case(
        logs={
            "none": ["many-nodes", "--count", "200000"],
            "many": ["many-replacements", "--count", "200000", "--replacements", "5000"],
        },
        commands={
            "200,000 nodes": dshc("measure", "none"),
            "5,000 replacements": dshc("measure", "many"),
            "history": dshc("history", "many"),
        },
        promises=[Promise(command="5,000 replacements", at_most=2, times="200,000 nodes")],
    ),
    "one-node": Case(
        logs={
            "twin": ["one-node-twin", "--count", "50000"],
            "larger twin": ["one-node-twin", "--count", "76500"],  # as many bytes as "pruned"
            "message": ["one-message-replaced", "--count", "50000"],
            "pruned": ["one-result-replaced", "--count", "50000"],
        },
        commands={
            "24 MB without": dshc("measure", "twin"),
            "message replaced": dshc("measure", "message"),
            "36 MB without": dshc("measure", "larger twin"),
            "result pruned": dshc("measure", "pruned"),
            "history": dshc("history", "pruned"),
        },
        promises=[
            Promise(command="message replaced", at_most=2, times="24 MB without"),
            Promise(command="result pruned", at_most=2, times="36 MB without"),
        ],
    ),
    "live-prunes": Case(
        logs={"log": ["many-live-prunes", "--count", "50000"]},
        commands={"orjson": orjson_over("log"), "measure": dshc("measure", "log")},
    ),
    "short-lines": Case(
        logs={"log": ["short-lines", "--mb", "50"]},
        commands={"orjson": orjson_over("log"), "measure": dshc("measure", "log")},
        promises=[Promise(command="measure", at_most=2, times="orjson")],
    ),
    "one-line": Case(
        logs={"log": ["one-line", "--mb", "50"]},
        commands={"orjson": orjson_over("log"), "measure": dshc("measure", "log")},
    ),
    "attacks": Case(
        logs={"deep": ["deep", "--count", "100000"], "bomb": ["bomb", "--count", "10000000000"]},
        commands={
            "depth 100,000": dshc("verify", "deep"),
            "bomb of 10 GB": dshc("measure", "bomb"),
        },
        promises=[Promise(command="bomb of 10 GB", at_most=600)],
        codes={"depth 100,000": 1, "bomb of 10 GB": 4},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process: how long it took, its peak in bytes, its exit code (negative: a signal)."""

    seconds: float
    peak_bytes: int
    code: int


def run(words: Sequence[str]) -> Run:
    """Run a whole process to its end, or to the limit."""
    begun = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    clock = threading.Timer(LIMIT_SECONDS, process.kill)
    clock.start()
    _, status, used = os.wait4(process.pid, 0)
    clock.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begun
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(seconds=seconds, peak_bytes=used.ru_maxrss * unit, code=process.returncode)


def make_logs(case: Case, folder: Path, scale: float) -> dict[str, Path]:
    """Write the case's logs into a folder, those of the same words once."""
    made = {}
    for name, words in case.logs.items():
        path = folder / f"{'_'.join(words).replace('-', '')}_{scale:g}.jsonl"
        made[name] = path
        if not path.exists():
            generator = Path(__file__).with_name("generate.py")
            scaled = list(scale_words(words, scale))
            command = [sys.executable, str(generator), scaled[0], str(path), *scaled[1:]]
            subprocess.run(command, check=True)
    return made


def scale_words(words: Sequence[str], scale: float) -> Iterator[str]:
    """The generator's words with sizes and counts made smaller."""
    sized = {"--mb", "--count", "--replacements"}
    for before, word in zip(("", *words), words, strict=False):
        if before in sized and scale != 1:
            yield f"{float(word) * scale:g}" if before == "--mb" else str(int(int(word) * scale))
        else:
            yield word


@contextmanager
def with_paths(words: Sequence[str], logs: Mapping[str, Path]) -> Iterator[list[str]]:
    """A command's words with paths in the place of names; copies are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        filled = []
        for word in words:
            if word.startswith(COPIED):
                path = logs[word.removeprefix(COPIED)]
                filled.append(shutil.copy(path, folder))
            else:
                filled.append(str(logs.get(word, word)))
        yield filled


def rounds(case: Case, logs: Mapping[str, Path], count: int) -> dict[str, list[Run]]:
    """Each command's runs, the commands taking turns; a first round fills the caches."""
    runs: dict[str, list[Run]] = {label: [] for label in case.commands}
    for _ in range(count + 1):
        for label, words in case.commands.items():
            with with_paths(words, logs) as filled:
                runs[label].append(run(filled))
    return {label: taken[1:] for label, taken in runs.items()}


def report(name: str, case: Case, runs: Mapping[str, Sequence[Run]]) -> tuple[list[str], bool]:
    """The case's rows of the table, and whether all its promises were kept."""
    median = {label: statistics.median(r.seconds for r in taken) for label, taken in runs.items()}
    peak_mb = {label: max(r.peak_bytes for r in taken) / 1e6 for label, taken in runs.items()}
    base = next(iter(runs))
    rows, all_kept = [], True
    for label, taken in runs.items():
        said = []
        for promise in (p for p in case.promises if p.command == label):
            found = peak_mb[label] if promise.times is None else 0.0
            if promise.times is not None:
                found = median[label] / median[promise.times]
            kept = found <= promise.at_most
            all_kept = all_kept and kept
            said.append(f"{promise}: {'kept' if kept else f'**broken** ({found:.2f})'}")
        wrong = {r.code for r in taken} - {case.codes.get(label, 0)}
        if wrong:
            all_kept = False
            said.append(f"**exit {', '.join(map(str, sorted(wrong)))}**")
        rows.append(
            f"| {name} | {label} | {median[label]:.3f} s | {median[label] / median[base]:.2f} "
            f"| {peak_mb[label]:.0f} MB | {'; '.join(said)} |"
        )
    return rows, all_kept


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's first lines."""
    parser = argparse.ArgumentParser(description="What dshc costs, as ratios in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases to run; without: all")
    parser.add_argument("--list", action="store_true", help="name the cases")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scale", type=float, default=1, help="make all logs smaller or larger")
    parser.add_argument("--folder", type=Path, help="keep the logs here for the next time")
    options = parser.parse_args(words)
    unknown = set(options.names) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; see --list")
    if options.list:
        print("\n".join(CASES))
        return 0
    print("| case | command | median | ratio | peak | promise |\n|---|---|---|---|---|---|")
    all_kept = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name in options.names or CASES:
            case = CASES[name]
            logs = make_logs(case, folder, options.scale)
            rows, kept = report(name, case, rounds(case, logs, options.rounds))
            print("\n".join(rows), flush=True)
            all_kept = all_kept and kept
            if options.folder is None:
                for path in logs.values():
                    path.unlink(missing_ok=True)
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
