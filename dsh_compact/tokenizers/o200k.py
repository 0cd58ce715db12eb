"""o200k_base, the vocabulary of GPT-4o and later models; it is shipped and works on any machine.

`data/o200k_base.ranks` holds the published ranks in the form that loads fastest without trusting
anything but bytes: one zlib stream (which carries a checksum) of the 256 single bytes in the order
of their ranks, then all longer tokens in theirs, joined by 0xFF, a byte that UTF-8 never uses. One
`split` gives them back: 45 ms, where the published text takes 170. `tests/rebuild_ranks.py` makes
the file anew; a test turns it back into the published text and compares that text's SHA-256.

Source: OpenAI's tiktoken (MIT licence), file `o200k_base.tiktoken`.
"""

import zlib
from importlib.resources import files
from typing import Final

from dsh_compact.tokenizers.bytepair import BytePairTokenizer

NAME: Final = "o200k_base"

SEPARATOR: Final = b"\xff"
"""What stands between two tokens of the data file; in no token but the single byte itself."""

SINGLE_BYTES: Final = 256
"""The first ranks are the single bytes', so that any text can be told in tokens."""

PATTERN: Final = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""How the vocabulary splits text into pieces before it merges bytes; part of its definition."""


def load() -> BytePairTokenizer:
    """The tokenizer, from the package's own data."""
    return BytePairTokenizer(NAME, pattern=PATTERN, ranks=read_ranks())


def read_ranks() -> dict[bytes, int]:
    """The rank of each of the 199,998 tokens: the lower, the earlier a pair is merged."""
    packed = (files("dsh_compact") / "data" / "o200k_base.ranks").read_bytes()
    data = zlib.decompress(packed)
    tokens = [bytes((byte,)) for byte in data[:SINGLE_BYTES]]
    tokens += data[SINGLE_BYTES:].split(SEPARATOR)
    return dict(zip(tokens, range(len(tokens)), strict=True))
