"""Mutated logs against the commands: no crash, no hang, no raw text, no wrong answer.

    python tests/fuzz.py --seconds 600              as long as there is time
    python tests/fuzz.py --seed 7 --only 1234       one mutant again, kept for a look

The rule of this file: mutant number `i` of a seed is the same on every machine; each command runs
in a process of its own, forked from one that has imported everything, with a limit on time and
memory; what it answers is compared to the plain reader. It doesn't know how a command works, and
where the format says nothing about a mutant, the first four properties are all that it asks:

1. The exit code is one that the command promises: a bug of ours (70, a signal) is none.
2. Standard output is empty where the log can't be used, and JSON where JSON was asked for; `show`
   alone shows what there is.
3. No control character reaches the terminal, on either stream.
4. The log and its folder are as before.
5. `measure` and `measure --strict` give one answer where both give one, and it is the plain
   reader's; what folds is measured, what does not fold is not.
6. `history --strict` (which prices again what the log has priced) and `show` tell of the same
   generation and the same nodes.
7. `verify --strict` passes only what no rule speaks against.
8. What `repair` says it has mended verifies clean, folds, and keeps the rules; the original stays.
9. What `compact`, `append` and `undo` write folds, breaks no rule that was kept before, and is as
   they say; `compact` and `append` change no byte of a whole record, and `undo` none at all.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import plain_reader
from mutations import Mutant, mutate
from plain_reader import Reading

from dsh_compact.errors import NO_MEMORY

LOGS = Path(__file__).with_name("logs")
LIMIT_SECONDS = 20  # for a log of 100 KB; a command needs a tenth of a second
MEMORY_BYTES = 1 << 30  # beyond what the imported program holds
SYNTAX_RULES = {"not-json", "not-utf8", "too-deep"}  # which a quick look may leave unchecked
UNSAID_RULES = {"message-shape", "record-shape"}  # a reader may see them, or not need to look
# How a refusal speaks of a field that the plain reader doesn't look at.
WRONG_TYPE = re.compile(r"where .+ belongs?|has no \w+|there is no \w+|beyond every number")
BUG = 70
RAW_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

CODES: dict[str, set[int]] = {
    "measure": {0, 4},
    "history": {0, 4},
    "show": {0, 4},
    "verify": {0, 1, 4},
    "repair": {0, 1, 4},
    "compact": {0, 1, 4, 5},
    "append": {0, 2, 4},
    "undo": {0, 1, 4},
}
FINDERS = {"verify", "compact", "repair"}  # whose exit 1 is an answer too


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command's process left behind. A negative code is a signal's number."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    def json(self) -> Any:
        """The object on standard output, or None where there is none."""
        try:
            return json.loads(self.out)
        except ValueError:
            return None


class Commands:
    """Runs commands in forked processes of a warm interpreter."""

    def __init__(self, folder: Path, wanted: Collection[str]) -> None:
        from dsh_compact import __main__ as entry
        from dsh_compact import cli

        self._main: Callable[[list[str]], int] = entry.main
        self.names = set(cli.names()) & set(wanted)
        for name in self.names:
            importlib.import_module(cli.module_name(name))
        self._out, self._err = folder / "stdout", folder / "stderr"

    def run(self, *words: str) -> Outcome:
        """One command to its end, its limit or its death."""
        begun = time.perf_counter()
        child = os.fork()
        if child == 0:
            self._become(list(words))
        _, status = os.waitpid(child, 0)
        seconds = time.perf_counter() - begun
        out, err = (p.read_bytes().decode("utf-8", "replace") for p in (self._out, self._err))
        code = os.waitstatus_to_exitcode(status)
        return Outcome(words=words, code=code, out=out, err=err, seconds=seconds)

    def _become(self, words: list[str]) -> None:
        """In the child: streams into files, limits, the command, and the end."""
        code = BUG
        try:
            for stream, path in ((1, self._out), (2, self._err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.stdout, sys.stderr = (os.fdopen(stream, "w") for stream in (1, 2))
            limit_memory()
            signal.alarm(LIMIT_SECONDS)
            code = self._main(words)
            sys.stdout.flush()
            sys.stderr.flush()
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 1
        except BaseException as fault:  # noqa: BLE001, the child must not return into the fuzzer
            os.write(2, f"Traceback: {fault!r}\n".encode("utf-8", "backslashreplace"))
        finally:
            os._exit(code)


def limit_memory() -> None:
    """Let this process have a fixed amount more than it has, where the system can say that."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        ceiling = pages * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))


# The properties


def check_manners(outcome: Outcome) -> Iterator[str]:
    """Properties 1 to 3, which hold for any bytes."""
    command = outcome.words[0]
    if outcome.code not in CODES[command] or "Traceback" in outcome.err:
        yield f"exit {outcome.code}: {outcome.err[-1_500:]}"
        return
    if NO_MEMORY in outcome.err:
        yield f"takes more memory than {MEMORY_BYTES >> 20} MiB: {outcome.err[-300:]}"
    if outcome.code == 4 and outcome.out and "--json" not in outcome.words and command != "show":
        yield f"exit 4 with {outcome.out[:100]!r} on stdout"
    says = outcome.code == 0 or (outcome.code == 1 and command in FINDERS)
    if "--json" in outcome.words and says and outcome.json() is None:
        yield f"no JSON: {outcome.out[:200]!r}"
    for name, text in (("stdout", outcome.out), ("stderr", outcome.err)):
        raw = RAW_CONTROL.search(text)
        if raw:
            yield f"{raw[0]!r} raw on {name}: {text[max(0, raw.start() - 60) : raw.end()]!r}"


def right_figures(reading: Reading) -> dict[str, Any]:
    """What `measure --json` must say of a log."""
    measure = reading.measure
    return {
        "format": reading.format,
        "events": reading.events,
        "generation": reading.generation,
        "baseline": {"kind": measure.baseline, "tokens": measure.baseline_tokens},
        "delta_tokens": measure.delta_tokens,
        "total_tokens": measure.total_tokens,
        "surface": {"nodes": len(reading.nodes), "tokens": measure.surface_tokens},
        "header_tokens": measure.header_tokens,
    }


def check_measure(outcome: Outcome, reading: Reading, mutant: Mutant) -> Iterator[str]:
    """Property 5, for one of the two ways to measure."""
    strict = "--strict" in outcome.words
    rule = None if reading.broken is None else reading.broken.rule
    excused = UNSAID_RULES | (set() if strict else SYNTAX_RULES)
    if "double-key" in mutant.steps:
        return  # no writer doubles a key, and which of both counts is each parser's own affair
    if outcome.code == 4:
        if reading.refused is None and not reading.torn and not WRONG_TYPE.search(outcome.err):
            yield f"refuses a log in which nothing is wrong: {outcome.err[:300]}"
        return
    if rule in excused:
        return
    if rule is not None:
        yield f"measures a log that breaks {reading.broken}"
        return
    found = outcome.json() or {}
    wanted = right_figures(reading)
    wrong = {k: (found.get(k), v) for k, v in wanted.items() if found.get(k) != v}
    if wrong and not ends_in_a_damaged_line(mutant.data):
        yield f"figures (found, right): {wrong}"


def ends_in_a_damaged_line(data: bytes) -> bool:
    """Whether the last whole line is damaged; whether it counts, the format leaves open."""
    lines, _, _ = plain_reader.whole_lines(data)
    try:
        plain_reader.decode(lines[-1] if lines else b"")
    except plain_reader.RuleError:
        return True
    return False


def check_agreement(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Properties 5 and 6: commands that answer agree."""
    answers = {o.words: o.json() or {} for o in outcomes if o.code == 0 and "--json" in o.words}
    for key in ("generation", "format"):
        found = {str(a.get(key)) for w, a in answers.items() if w[0] in ("measure", "history")}
        if len(found) > 1:
            yield f"commands differ about the {key}: {found}"


def check_story(outcome: Outcome, reading: Reading, mutant: Mutant) -> Iterator[str]:
    """Property 6: what is told is what the plain reader folds."""
    if outcome.code != 0 or reading.broken is not None or ends_in_a_damaged_line(mutant.data):
        return
    if "double-key" in mutant.steps:
        return
    found = outcome.json() or {}
    if outcome.words[0] == "history":
        keys = ("generation", "seq", "shadowed_seqs", "tokens_before", "tokens_after")
        told = [{k: row.get(k) for k in keys} for row in found.get("replacements", [])]
        right = [{k: getattr(r, k) for k in keys} for r in reading.replacements]
    else:
        told = [{"seq": node.get("seq"), "tokens": node.get("tokens")} for node in found["nodes"]]
        right = [{"seq": node.seq, "tokens": node.tokens} for node in reading.nodes]
    if told != right:
        wrong = [pair for pair in zip(told, right, strict=False) if pair[0] != pair[1]]
        yield f"{len(told)} rows for {len(right)}, first difference {wrong[:1]}"


def check_verify(outcome: Outcome, reading: Reading) -> Iterator[str]:
    """Property 7, and the form of the findings."""
    found = outcome.json()
    if found is None:
        return
    timeless = reading.refused is not None and reading.refused.detail.startswith("time ")
    if outcome.code == 0 and reading.refused is not None and not timeless:
        yield f"passes a log that breaks {reading.refused}"
    if outcome.code == 0 and reading.torn:
        yield "passes a log with a torn tail"
    findings = found.get("findings", [])
    if (outcome.code == 1) != bool(findings):
        yield f"exit {outcome.code} with {len(findings)} findings"
    for finding in findings:
        if not isinstance(finding.get("code"), str) or not isinstance(finding.get("message"), str):
            yield f"a finding without code or message: {finding}"


def check_repair(commands: Commands, path: Path, mended: Path) -> Iterator[str]:
    """Property 8."""
    outcome = commands.run("repair", str(path), "--output", str(mended))
    yield from check_manners(outcome)
    if outcome.code == 1 and not (outcome.out or outcome.err):
        yield "mends nothing and doesn't say why"
    if outcome.code != 0:
        return
    checked = mended if mended.exists() else path  # nothing to mend, nothing written
    verdict = commands.run("verify", str(checked), "--json")
    if verdict.code != 0:
        yield f"its result does not verify: {verdict.out[:600]}"
    reading = plain_reader.read(checked.read_bytes())
    if reading.broken is not None and not reading.broken.detail.startswith("time "):
        yield f"its result breaks {reading.broken}"


def check_writing(
    commands: Commands, mutant: Mutant, reading: Reading, place: Path, *words: str
) -> Iterator[str]:
    """Property 9, for one command on its own copy of the mutant."""
    path, copy = place / "mutant.jsonl", place / "copy.jsonl"
    path.write_bytes(mutant.data)
    filled = [{"LOG": str(path), "COPY": str(copy)}.get(word, word) for word in words]
    outcome = commands.run(*filled, "--json")
    complained = list(check_manners(outcome))
    yield from complained
    if complained:
        return
    written = path.read_bytes()
    if words[0] == "undo" and written != mutant.data:
        yield "changed the original"
    if not keeps_whole_records(mutant.data, written):
        yield "changed bytes that were there"
    if words[0] == "undo":
        written = copy.read_bytes() if copy.exists() else mutant.data
    if written == mutant.data or reading.broken is not None:
        return
    after = plain_reader.read(written)
    if after.broken is not None:
        yield f"exit {outcome.code}, and the log breaks {after.broken}"
    elif reading.refused is None and after.refused is not None:
        yield f"exit {outcome.code}, and the log breaks {after.refused}"
    said = (outcome.json() or {}).get("generation_after")
    if outcome.code == 0 and said not in (None, after.generation):
        yield f"says generation {said}, the log's is {after.generation}"


def keeps_whole_records(before: bytes, after: bytes) -> bool:
    """Whether all that counted before an append is still there; a torn tail may be cut off."""
    if ends_in_a_damaged_line(before):
        return True
    if before[:4] == plain_reader.ZSTD_MAGIC:
        whole = 0
        with suppress(plain_reader.RuleError):
            while whole < len(before) and (length := plain_reader.frame_length(before[whole:])):
                whole += length
        return after[:whole] == before[:whole]
    return after.startswith(before[: before.rfind(b"\n") + 1])


WRITING = (
    ("compact", "LOG", "--force"),
    ("compact", "LOG", "--force", "--dry-run"),
    ("append", "LOG", "--user", "one \x1b[31m more", "--assistant", "yes"),
    ("undo", "LOG", "--output", "COPY"),
)
READING = (
    ("measure", "--json"),
    ("measure", "--json", "--strict"),
    ("measure",),
    ("history", "--json", "--strict"),
    ("history",),
    ("show", "--json"),
    ("show",),
    ("verify", "--json", "--strict"),
    ("verify",),
)


def complaints(commands: Commands, mutant: Mutant, folder: Path) -> Iterator[str]:
    """All that is wrong with what the commands do to a mutant."""
    path = folder / "mutant.jsonl"
    path.write_bytes(mutant.data)
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    reading = plain_reader.read(mutant.data)
    outcomes = [
        commands.run(name, str(path), *flags) for name, *flags in READING if name in commands.names
    ]
    for outcome in outcomes:
        label = " ".join((outcome.words[0], *outcome.words[2:]))
        yield from (f"{label}: {text}" for text in check_one(outcome, reading, mutant))
    yield from check_agreement(outcomes)
    after = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    if before != after or path.read_bytes() != mutant.data:
        yield f"a reading command left {set(after) ^ set(before) or 'another log'} behind"
    for words in WRITING:
        if words[0] in commands.names:
            place = folder / "_".join(words[0:1] + words[3:4])
            place.mkdir()
            found = check_writing(commands, mutant, reading, place, *words)
            yield from (f"{' '.join(words)}: {text}" for text in found)
    if "repair" in commands.names:
        mended = folder / "mended.jsonl"
        yield from (f"repair: {text}" for text in check_repair(commands, path, mended))
        if path.read_bytes() != mutant.data:
            yield "repair: the original was changed"
    for left in folder.iterdir():
        left.unlink() if left.is_file() else shutil.rmtree(left)


def check_one(outcome: Outcome, reading: Reading, mutant: Mutant) -> list[str]:
    """What one reading command did wrong; what it said counts only where it kept its manners."""
    found = list(check_manners(outcome))
    if found or "--json" not in outcome.words:
        return found
    match outcome.words[0]:
        case "measure":
            return list(check_measure(outcome, reading, mutant))
        case "verify":
            return list(check_verify(outcome, reading))
        case _:
            return list(check_story(outcome, reading, mutant))


def mutant_of(seed: str, number: int, logs: Sequence[bytes]) -> Mutant:
    """Mutant number so-and-so of a seed."""
    chance = Random(f"{seed}:{number}")
    return mutate(chance, chance.choice(logs), logs)


@dataclass(slots=True, kw_only=True)
class Tally:
    """How far a run came."""

    mutants: int = 0
    wrong: int = 0


def fuzz(
    seed: str,
    numbers: Iterable[int],
    *,
    until: float = float("inf"),
    wanted: Collection[str] = tuple(CODES),
    keep: Path | None = None,
) -> Tally:
    """Try mutants until the clock (`time.monotonic`) says `until`; print what is wrong."""
    logs = [path.read_bytes() for path in sorted(LOGS.glob("*.jsonl*"))]
    tally = Tally()
    with tempfile.TemporaryDirectory() as temporary:
        streams, folder = Path(temporary, "streams"), Path(temporary, "logs")
        streams.mkdir()
        folder.mkdir()
        commands = Commands(streams, wanted)
        for number in numbers:
            if time.monotonic() > until:
                break
            mutant = mutant_of(seed, number, logs)
            found = list(complaints(commands, mutant, folder))
            tally.mutants += 1
            tally.wrong += bool(found)
            for text in found:
                print(f"seed {seed}, mutant {number} ({', '.join(mutant.steps)}): {text}")
            if found and keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{number}.jsonl").write_bytes(mutant.data)
    return tally


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's first lines."""
    parser = argparse.ArgumentParser(description="Mutated logs against the commands.")
    parser.add_argument("--seconds", type=float, default=60, help="how long to go on")
    parser.add_argument("--seed", default="0", help="another seed, other mutants")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--count", type=int, help="how many mutants at most")
    parser.add_argument("--only", type=int, help="one mutant by its number")
    parser.add_argument(
        "--keep", type=Path, help="a folder for the mutants that something fails on"
    )
    parser.add_argument("--commands", default=",".join(CODES), help="of these only")
    options = parser.parse_args(words)
    numbers: Iterable[int] = count(options.first)
    if options.only is not None:
        numbers = [options.only]
    elif options.count is not None:
        numbers = range(options.first, options.first + options.count)
    until = time.monotonic() + options.seconds
    wanted = options.commands.split(",")
    tally = fuzz(options.seed, numbers, until=until, wanted=wanted, keep=options.keep)
    print(f"{tally.mutants} mutants, {tally.wrong} with something wrong", file=sys.stderr)
    return int(tally.wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
