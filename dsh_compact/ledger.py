"""A reading of the ledger: what the file itself says, fresh from disk.

A reading can be had in one way only: by folding the file. It takes a path and no numbers, so that
nobody's word can take its place. Before it reads, it flushes: what is counted survives a crash. It
also knows which file it was and the bytes that it saw, so that a later reading can tell whether
history was rewritten.
"""

import hashlib
import os
from typing import Final

from dsh_compact.codec import Identity, Scanner
from dsh_compact.errors import UnreadableLog
from dsh_compact.events import Event, SurfaceChange
from dsh_compact.journal import flush_file
from dsh_compact.reader import LogReader
from dsh_compact.session import Session
from dsh_compact.surface import Surface

_PIECE_BYTES: Final = 1 << 20

_DIGEST_BYTES: Final = 16
"""Enough that nobody finds another history with the same digest by chance or by trying."""


class Standing:
    """A session as it stands, in copies that nobody else holds: what comes behind can be folded
    onto it from the file, without reading anew what stood there.

    Whoever uses it must know that nobody has changed the file before its end (see
    `WritableSession.mark`). It proves no retry.
    """

    __slots__ = ("_format", "_surface", "end_bytes", "events", "generation", "path")

    def __init__(self, session: Session) -> None:
        """Remembers where the session stands."""
        self.path: Final = session.path
        self.events = session.events
        self.end_bytes = session.size_bytes
        self.generation = session.replace_generation
        self._format: Final = session.format
        self._surface = session.surface.twin()

    def follow(self) -> None:
        """Folds what the file holds behind `end_bytes`, every byte of it checked.

        Raises `RuleBroken` where it does not follow.
        """
        scanner = Scanner(self._format, strict=True)
        scanner.next_seq = self.events
        with LogReader(self.path) as reader:
            reader.end_bytes = self.end_bytes
            for run in reader.runs():
                for event in scanner.scan(*run):
                    if isinstance(event, SurfaceChange):
                        self._surface = self._surface.extend(
                            event, lambda node: Identity(reader.read(node.place))
                        )
            self.end_bytes = reader.end_bytes
        self.events = scanner.next_seq
        self.generation = self._surface.replace_generation


class Glance:
    """The file's first `end_bytes` as they are now, seen without being folded.

    It says nothing about the conversation; a later reading can continue it. Raises `UnreadableLog`.
    """

    __slots__ = ("_digest", "_file", "end_bytes")

    def __init__(self, path: str, end_bytes: int) -> None:
        """Reads the bytes."""
        self.end_bytes: Final = end_bytes
        with LogReader(path) as reader:
            self._file, _, self._digest = _seen(path, reader.fileno(), 0, end_bytes)


class Reading:
    """How often the conversation at `path` was really replaced, on disk.

    `generation` is the file's own count, `end_bytes` where its whole records end, `tokens` the
    surface's estimated price, `prunes` how many of the replacements were tool results. Raises
    `LogError` and its kin where the file cannot be folded.
    """

    __slots__ = (
        "_digest",
        "_file",
        "_prefix",
        "end_bytes",
        "events",
        "generation",
        "path",
        "prunes",
        "tokens",
    )

    def __init__(self, path: str, since: "Reading | Glance | None" = None) -> None:
        """Flushes and folds the file; `since` is what was seen of it earlier, to be continued."""
        flush_file(path)
        prunes = _Prunes()
        with Session(path, strict=True, watch=prunes) as session:
            self.path: Final = path
            self.prunes: Final = prunes.count
            self.generation: Final = session.replace_generation
            self.events: Final = session.events
            self.end_bytes: Final = session.size_bytes
            self.tokens: Final = session.pressure().surface_tokens
            marks = (0 if since is None else since.end_bytes, self.end_bytes)
            self._file, self._prefix, self._digest = _seen(path, session.fileno(), *marks)

    def continues(self, earlier: "Reading | Glance") -> bool:
        """Whether it is the same file, and still begins with every byte that `earlier` saw."""
        return self._file == earlier._file and self._prefix == earlier._digest

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


def _seen(
    path: str, fd: int, first_bytes: int, all_bytes: int
) -> tuple[tuple[int, int], bytes, bytes]:
    """Which file it is, the digest of its first `first_bytes` and that of `all_bytes`."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    try:
        found = os.fstat(fd)
        _feed(digest, fd, 0, first_bytes)
        first = digest.digest()
        _feed(digest, fd, first_bytes, all_bytes)
    except OSError as fault:
        raise UnreadableLog(path, f"cannot be read: {fault.strerror}") from fault
    return (found.st_dev, found.st_ino), first, digest.digest()


def _feed(digest: "hashlib.blake2b", fd: int, start_bytes: int, end_bytes: int) -> None:
    """The file's bytes from there to there, as many as there are."""
    while start_bytes < end_bytes:
        piece = os.pread(fd, min(_PIECE_BYTES, end_bytes - start_bytes), start_bytes)
        if not piece:
            return
        digest.update(piece)
        start_bytes += len(piece)
