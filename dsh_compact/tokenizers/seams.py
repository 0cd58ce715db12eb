"""Where a long text may be cut so that its parts count like the whole.

Rule: a cut is made at a seam, a place where every vocabulary here begins a new piece whatever
stands around it, so the sum over the parts is the count of the whole. The seams are those between

- a character that is no space, and a space or a tab: in all three patterns a space only ever begins
  a piece or belongs to a piece of spaces;
- a letter, and a line end, a digit, or a mark other than the apostrophe (which joins "don't"): a
  run of letters takes in neither;
- a digit, and a line end, a letter or a mark: digits are taken three at a time from the run's
  first.

Letters are only such as all releases of Unicode agree on. Where no seam is near, as in a megabyte
of one character, the text is cut all the same, at `SLICE_CHARS`, and the count may be off by
`HARD_CUT_TOKENS` for each such cut. The longest token of the vocabularies is 128 characters, so a
slice holds at least 384, and the error stays under 1.1 %; runs of one character, which have such
long tokens, come out exact.

Cutting depends on the text alone, never on threads or on what else is counted: equal texts, equal
counts. This module knows no vocabulary.
"""

import re
from collections.abc import Iterator
from typing import Final

SLICE_CHARS: Final = 49_152
"""Parts are at least this long: one takes some 3 ms, enough to be worth a thread. And it bounds
the longest run that the regular expressions meet: they overflow on a million spaces. Three times
a power of two, since runs of one character merge in powers of two and digits are taken in
threes: cut there, they count like the whole."""

SEAM_SEARCH_CHARS: Final = 4_096
"""How far behind `SLICE_CHARS` a seam is looked for: past any line of prose or code."""

HARD_CUT_TOKENS: Final = 4
"""The most by which one cut without a seam changed the count, up or down, in 400,000 random cuts of
runs of every kind, 2 in nearly all: the pieces left and right of it merge differently for a few
tokens, then fall into step with the uncut text."""

_MARKS: Final = (
    r"!-&(-/:-@\[-`{-~、。，：；？！"  # ASCII without the apostrophe; the commonest of CJK
)
_SEAM: Final = re.compile(
    r"\S(?=[ \t])"
    rf"|[A-Za-zА-Яа-я一-龥가-힣](?=[\n0-9{_MARKS}])"
    rf"|[0-9](?=[\nA-Za-z{_MARKS}'])"
)


def slices(text: str) -> Iterator[str]:
    """The parts of `text` in order, each at most `SLICE_CHARS + SEAM_SEARCH_CHARS` long."""
    start = 0
    while len(text) - start > SLICE_CHARS + SEAM_SEARCH_CHARS:
        earliest = start + SLICE_CHARS
        end = seam(text, earliest, earliest + SEAM_SEARCH_CHARS) or earliest
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def seam(text: str, earliest: int, latest: int) -> int | None:
    """The first index in `range(earliest, latest)` where a new piece begins for sure; not 0."""
    found = _SEAM.search(text, earliest - 1, latest)
    return found.end() if found else None
