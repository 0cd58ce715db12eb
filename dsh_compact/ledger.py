"""A reading of the ledger: what the file itself says, fresh from disk.

A reading can be had in one way only: by folding the file. It takes a path and no numbers, so that
nobody's word can take its place. Before it reads, it flushes: what is counted survives a crash. It
also knows the bytes it has seen, so that a later reading can tell whether history was rewritten.
"""

import hashlib
import os
from typing import Final

from dsh_compact.errors import DshcError
from dsh_compact.events import Event
from dsh_compact.journal import flush_file
from dsh_compact.session import Session
from dsh_compact.surface import Surface

_PIECE_BYTES: Final = 1 << 20


class Reading:
    """How often the conversation at `path` was really replaced, on disk.

    `generation` is the file's own count, `end_bytes` where its whole records end, `tokens` the
    surface's estimated price, `prunes` how many of the replacements were tool results. Raises `LogError` and its kin where the file cannot be folded.
    """

    __slots__ = (
        "_digest",
        "_prefix",
        "end_bytes",
        "events",
        "generation",
        "path",
        "prunes",
        "tokens",
    )

    def __init__(self, path: str, since: "Reading | None" = None) -> None:
        """Flushes and folds the file; `since` is an earlier reading of it, to be continued."""
        flush_file(path)
        prunes = _Prunes()
        with Session(path, strict=True, watch=prunes) as session:
            self.path: Final = path
            self.prunes: Final = prunes.count
            self.generation: Final = session.replace_generation
            self.events: Final = session.events
            self.end_bytes: Final = session.size_bytes
            self.tokens: Final = session.pressure().surface_tokens
        self._digest: Final = _digest(path, self.end_bytes)
        self._prefix: Final = b"" if since is None else _digest(path, since.end_bytes)

    def continues(self, earlier: "Reading") -> bool:
        """Whether the file still begins with every byte that `earlier` saw."""
        return self.path == earlier.path and self._prefix == earlier._digest

    def advanced_since(self, earlier: "Reading") -> bool:
        """Strictly more replacements than `earlier` saw, and the same history before them."""
        return self.generation > earlier.generation and self.continues(earlier)

    def __repr__(self) -> str:
        return f"<Reading generation {self.generation} of {self.path}>"


class _Prunes:
    """Counts the replacements of tool results that pass by."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, event: Event, before: Surface, after: Surface) -> None:
        """Looks at one event."""
        if before is not after and after.last is not before.last:
            assert after.last is not None
            self.count += after.last.node.kind == "tool"


def read_again(path: str, since: Reading) -> Reading | None:
    """A later reading, None where the file cannot be folded any more: that proves nothing."""
    try:
        return Reading(path, since)
    except DshcError:
        return None


def _digest(path: str, size_bytes: int) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        at = 0
        while at < size_bytes:
            piece = os.pread(fd, min(_PIECE_BYTES, size_bytes - at), at)
            if not piece:
                break
            digest.update(piece)
            at += len(piece)
    finally:
        os.close(fd)
    return digest.digest()
