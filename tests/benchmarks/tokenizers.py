"""How fast texts are counted: each row sets two ways side by side, in one run.

    python -m tests.benchmarks tokenizers

Prints rows of the benchmarks' table, by the clock, since threads are a part of it. Exits 1 if a
promise is broken.
"""

import argparse
import statistics
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import tiktoken

from dsh_compact.tokenizers import load, o200k
from dsh_compact.tokenizers.cache import CountCache

RUNS: Final = 5
"""Enough for a median on a machine that does other things too."""

TEXT_CHARS: Final = 4_000_000
"""A full window of a million tokens, of code, as agents read it."""

MESSAGE_CHARS: Final = 2_000
"""A tool result of middling length."""


class Row(NamedTuple):
    """Two ways to the same end; `at_most` is None where nothing is promised."""

    what: str
    other: str
    first: Callable[[], object]
    second: Callable[[], object]
    at_most: float | None = None


def main() -> int:
    """Measure and print the rows; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=RUNS)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    text = library_text(int(TEXT_CHARS * options.scale))
    shown = [row for row in rows(text) if options.all or row.at_most is not None]
    kept = [show(row, options.rounds) for row in shown]
    return int(not all(kept))


def rows(text: str) -> list[Row]:
    """All that is compared."""
    ranks = o200k.read_ranks()
    published = b"".join(b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    whole = build(ranks)
    tokenizer, alone = load(o200k.NAME), load(o200k.NAME, threads=1)
    messages = [text[start : start + MESSAGE_CHARS] for start in range(0, len(text), MESSAGE_CHARS)]
    remembered = CountCache(tokenizer)
    remembered.count_many(messages)
    return [
        Row("ranks read", "as published", o200k.read_ranks, lambda: parse(published), 0.8),
        Row("loaded", "by tiktoken from parsed ranks", o200k.load, lambda: build(ranks)),
        Row(
            "counted in slices",
            "in one piece",
            lambda: alone.count(text),
            lambda: whole.encode_ordinary(text),
            1.3,
        ),
        Row(
            "counted in threads",
            "in one",
            lambda: tokenizer.count_many(messages),
            lambda: alone.count_many(messages),
        ),
        Row(
            "counted before",
            "for the first time",
            lambda: remembered.count_many(messages),
            lambda: alone.count_many(messages),
            0.2,
        ),
        *(run_of(unit, text) for unit in ("a", " ", "1", "=", "的", "\0")),
    ]


def run_of(unit: str, text: str) -> Row:
    """A run of one character beside as much code."""
    tokenizer, long = load(o200k.NAME), unit * len(text)
    return Row(
        f"a run of {unit!r}",
        "as much code",
        lambda: tokenizer.count(long),
        lambda: tokenizer.count(text),
    )


def show(row: Row, runs: int) -> bool:
    """Time both ways in turn and print a row; tell whether its promise was kept."""
    pairs = [(seconds(row.first), seconds(row.second)) for _ in range(runs)]
    ratio = statistics.median(one / other for one, other in pairs)
    kept = row.at_most is None or ratio <= row.at_most
    promised = "" if row.at_most is None else f"≤ {row.at_most:g} ×"
    own = statistics.median(one for one, _ in pairs)
    print(
        f"| tokens: {row.what} | {ratio:.2f} × {row.other}; {own:.3f} s "
        f"| {promised}{'' if kept else ' **(missed)**'} |"
    )
    return kept


def seconds(work: Callable[[], object]) -> float:
    """The wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def parse(published: bytes) -> dict[bytes, int]:
    """The published text as tiktoken reads it."""
    pairs = (line.split() for line in published.splitlines())
    return {b64decode(token): int(rank) for token, rank in pairs}


def build(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    """o200k_base by tiktoken alone."""
    return tiktoken.Encoding(
        "whole", pat_str=o200k.PATTERN, mergeable_ranks=ranks, special_tokens={}
    )


def library_text(size_chars: int) -> str:
    """Code of the standard library."""
    folder = Path(statistics.__file__).parent
    text = ""
    for path in sorted(folder.rglob("*.py")):
        text += path.read_text("utf-8", "replace")
        if len(text) >= size_chars:
            break
    return text[:size_chars]


if __name__ == "__main__":
    sys.exit(main())
