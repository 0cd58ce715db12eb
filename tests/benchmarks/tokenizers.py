"""How fast texts are counted: each row sets two ways side by side, in one run.

    python tests/benchmarks/tokenizers.py

Prints both medians and their ratio; below 1 the first way is the faster one.
"""

import statistics
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Final

import tiktoken

from dsh_compact.tokenizers import load, o200k
from dsh_compact.tokenizers.bytepair import BytePairTokenizer
from dsh_compact.tokenizers.cache import CountCache

RUNS: Final = 5
"""Enough for a median on a machine that does other things too."""

TEXT_CHARS: Final = 4_000_000
"""A full window of a million tokens, of code, as agents read it."""

MESSAGE_CHARS: Final = 2_000
"""A tool result of middling length."""


def main() -> None:
    """Measure and print every row."""
    ranks = o200k.read_ranks()
    published = b"".join(b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    row("ranks as shipped | as published", o200k.read_ranks, lambda: parse(published))
    row("load, once a process | tiktoken's part of it", o200k.load, lambda: build(ranks))

    tokenizer, whole = load(o200k.NAME), build(ranks)
    one_thread = BytePairTokenizer("one", pattern=o200k.PATTERN, ranks=ranks, threads=1)
    text = library_text()
    messages = [text[start : start + MESSAGE_CHARS] for start in range(0, len(text), MESSAGE_CHARS)]
    remembered = CountCache(tokenizer)
    remembered.count_many(messages)
    row(
        "one thread | one piece",
        lambda: one_thread.count(text),
        lambda: whole.encode_ordinary(text),
    )
    row("threads | one thread", lambda: tokenizer.count(text), lambda: one_thread.count(text))
    row(
        "messages, threads | one thread",
        lambda: tokenizer.count_many(messages),
        lambda: one_thread.count_many(messages),
    )
    row(
        "messages remembered | counted anew",
        lambda: remembered.count_many(messages),
        lambda: tokenizer.count_many(messages),
    )
    for unit in ("a", " ", "1", "=", "的", "\0"):
        run(unit)


def run(unit: str) -> None:
    """One row: a run of one character beside as much code."""
    tokenizer = load(o200k.NAME)
    text = library_text()
    long = unit * len(text)
    row(f"run of {unit!r} | code", lambda: tokenizer.count(long), lambda: tokenizer.count(text))


def row(what: str, first: Callable[[], object], second: Callable[[], object]) -> None:
    """Time both ways in turn and print a line."""
    pairs = [(seconds(first), seconds(second)) for _ in range(RUNS)]
    ratio = statistics.median(one / other for one, other in pairs)
    one, other = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{what:<48} {one:8.0f} ms {other:8.0f} ms  {ratio:6.2f}")


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


def library_text() -> str:
    """Code of the standard library."""
    folder = Path(statistics.__file__).parent
    paths = sorted(folder.rglob("*.py"))
    text = ""
    for path in paths:
        text += path.read_text("utf-8", "replace")
        if len(text) >= TEXT_CHARS:
            break
    return text[:TEXT_CHARS]


if __name__ == "__main__":
    main()
