"""A text counted once is not counted again: by `--follow`, by the rounds of a recovery, by a
comparison.

Rule: the cache answers exactly what its tokenizer would. It keeps digests, not texts, and the ones
used longest ago leave first. It is not for several threads at once.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from dsh_compact.tokenizers import Progress, Tokenizer

CACHE_TEXTS: Final = 131_072
"""Counts kept, at some 200 bytes each: more texts than a session's surface has, under 30 MB."""

DIGEST_BYTES: Final = 16
"""Two texts share a digest with a chance of 1 in 2^94 among as many texts as are kept."""


class CountCache:
    """A `Tokenizer` that asks `tokenizer` about each text only once, as long as it remembers it."""

    def __init__(self, tokenizer: Tokenizer, limit_texts: int = CACHE_TEXTS) -> None:
        self._tokenizer = tokenizer
        self._limit_texts = limit_texts
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    @property
    def name(self) -> str:
        """The name of the tokenizer behind."""
        return self._tokenizer.name

    def count(self, text: str) -> int:
        """The tokens of `text`, remembered or counted now."""
        return self.count_many((text,))[0]

    def count_many(self, texts: Sequence[str], progress: Progress | None = None) -> list[int]:
        """The tokens of each text; only those that are new, each once, reach the tokenizer."""
        digests = [_digest(text) for text in texts]
        known = {digest: self._counts[digest] for digest in digests if digest in self._counts}
        new = {
            digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known
        }
        if progress is not None:
            progress(sum(map(len, texts)) - sum(map(len, new.values())))
        counts = self._tokenizer.count_many(tuple(new.values()), progress)
        known.update(zip(new, counts, strict=True))
        self._remember(known)
        return [known[digest] for digest in digests]

    def _remember(self, counts: dict[bytes, int]) -> None:
        for digest, tokens in counts.items():
            self._counts[digest] = tokens
            self._counts.move_to_end(digest)
        while len(self._counts) > self._limit_texts:
            self._counts.popitem(last=False)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
