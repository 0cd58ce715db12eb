"""Exact token counts: what a tokenizer promises, and how one is found by its name.

Rule: no tokenizer ever asks the network. Ranks come from our own package data, from an installed
package, or from a file that is already on the machine with the hash that we know; where none of
them is there, the error says what to install. All text is ordinary text: what looks like a special
token in a log was typed or printed by somebody, and a provider escapes it too.

Nothing here knows a log, a price or a terminal. Importing this module is cheap; `load` is not.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from dsh_compact.tokenizers.errors import TokenizerUnavailable, UnknownTokenizer

if TYPE_CHECKING:
    from dsh_compact.tokenizers.bytepair import BytePairTokenizer

__all__ = [
    "NAMES",
    "Progress",
    "Tokenizer",
    "TokenizerUnavailable",
    "UnknownTokenizer",
    "load",
]

NAMES: Final = ("o200k_base", "cl100k_base", "deepseek")
"""Every name that `load` knows; the first works on any machine."""

Progress = Callable[[int], None]
"""Told how many characters were finished since its last call; always in the caller's thread."""


class Tokenizer(Protocol):
    """Counts tokens. Equal texts give equal counts, whatever they are counted together with."""

    @property
    def name(self) -> str:
        """The name of the vocabulary, as `load` takes it."""
        ...

    def count(self, text: str) -> int:
        """The tokens of `text`; 0 for the empty text. Any `str` is taken, lone surrogates too."""
        ...

    def count_many(self, texts: Sequence[str], progress: Progress | None = None) -> list[int]:
        """The tokens of each text, in their order; `progress` is told all their characters."""
        ...


def load(name: str, *, threads: int | None = None) -> Tokenizer:
    """The tokenizer called `name`, one of `NAMES`; made once in a process, some 200 ms.

    It counts long texts in `threads`, or in as many as help. Raises `UnknownTokenizer` for any
    other name, `TokenizerUnavailable` where its ranks are missing.
    """
    found = _load(name)
    return found if threads is None else found.in_threads(threads)


@cache
def _load(name: str) -> "BytePairTokenizer":
    match name:
        case "o200k_base":
            from dsh_compact.tokenizers import o200k

            return o200k.load()
        case "cl100k_base":
            from dsh_compact.tokenizers import cl100k

            return cl100k.load()
        case "deepseek":
            from dsh_compact.tokenizers import deepseek

            return deepseek.load()
        case _:
            raise UnknownTokenizer(name, NAMES)
