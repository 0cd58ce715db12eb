"""The one engine: byte-pair encoding by tiktoken over slices, in threads where there is much to do.

Rule: the cost is linear in the text, whatever the text. tiktoken alone overflows its stack on a
million spaces and slows down on long unbroken runs; `seams` bounds what it ever sees at once. It
releases the interpreter's lock while it encodes, so threads help: 30 MB/s on two cores, 18 on one.

A lone surrogate counts as U+FFFD, which is what a provider's JSON parser puts in its place. This
module knows no vocabulary and no file.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Final, NamedTuple

from dsh_compact import cores
from dsh_compact.tokenizers import Progress
from dsh_compact.tokenizers.seams import SLICE_CHARS, slices

PARALLEL_CHARS: Final = 4 * SLICE_CHARS
"""From here on threads are started; less is done sooner than they are."""

MAX_THREADS: Final = 8
"""More would wait for the interpreter's lock, which each needs to hand over its tokens."""

BATCHES_AHEAD: Final = 4
"""Batches in work per thread: none idles, and an interrupted count ends within milliseconds."""


class Batch(NamedTuple):
    """One job: parts of texts, and for each the index of the text that it belongs to."""

    indexes: list[int]
    parts: list[str]
    size_chars: int


class BytePairTokenizer:
    """A `Tokenizer` made of a vocabulary's pattern and ranks.

    `threads` share a long text; by default one for each core, up to `MAX_THREADS`.
    """

    def __init__(
        self, name: str, *, pattern: str, ranks: dict[bytes, int], threads: int | None = None
    ) -> None:
        import tiktoken

        self.name: Final = name
        self._threads = threads or min(MAX_THREADS, cores.count())
        # Without special tokens, none can be recognised in a log's text.
        self._encoding = tiktoken.Encoding(
            name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        )

    def in_threads(self, threads: int) -> "BytePairTokenizer":
        """The same tokenizer, working in so many threads."""
        other = copy(self)
        other._threads = threads
        return other

    def count(self, text: str) -> int:
        """The tokens of `text`; see `Tokenizer` and, for long texts without a seam, `seams`."""
        return self.count_many((text,))[0]

    def count_many(self, texts: Sequence[str], progress: Progress | None = None) -> list[int]:
        """The tokens of each text, in the order given; the threads change nothing but the time."""
        counts = [0] * len(texts)
        for batch, tokens in self._counted(texts):
            for index, part_tokens in zip(batch.indexes, tokens, strict=True):
                counts[index] += part_tokens
            if progress is not None:
                progress(batch.size_chars)
        return counts

    def _counted(self, texts: Sequence[str]) -> Iterator[tuple[Batch, list[int]]]:
        if self._threads > 1 and sum(map(len, texts)) >= PARALLEL_CHARS:
            return _in_threads(self._count_batch, _batches(texts), self._threads)
        return ((batch, self._count_batch(batch)) for batch in _batches(texts))

    def _count_batch(self, batch: Batch) -> list[int]:
        encode = self._encoding.encode_ordinary
        return [len(encode(part)) for part in batch.parts]


def _batches(texts: Sequence[str]) -> Iterator[Batch]:
    """All parts of all texts, gathered until a batch is at least `SLICE_CHARS` long."""
    indexes: list[int] = []
    parts: list[str] = []
    size_chars = 0
    for index, text in enumerate(texts):
        for part in slices(text):
            indexes.append(index)
            parts.append(part)
            size_chars += len(part)
            if size_chars >= SLICE_CHARS:
                yield Batch(indexes, parts, size_chars)
                indexes, parts, size_chars = [], [], 0
    if parts:
        yield Batch(indexes, parts, size_chars)


def _in_threads(
    count_batch: Callable[[Batch], list[int]], batches: Iterator[Batch], threads: int
) -> Iterator[tuple[Batch, list[int]]]:
    """Each batch with its counts, in the order of `batches`, which is read as far as needed."""
    ahead: deque[tuple[Batch, Future[list[int]]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="count") as pool:
        for batch in batches:
            ahead.append((batch, pool.submit(count_batch, batch)))
            if len(ahead) == threads * BATCHES_AHEAD:
                first, future = ahead.popleft()
                yield first, future.result()
        for last, future in ahead:
            yield last, future.result()
