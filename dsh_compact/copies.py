"""A private copy of a log, to try things on; and the log that ships with the package, for those
who have none at hand.

Rule: the original is read and never touched, not even locked; the copy lies in a folder of its own,
which nobody else can look into and which is gone afterwards, whatever happened in between.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from dsh_compact.errors import LogError, UnreadableLog, WriteFailed
from dsh_compact.journal import write_new_file
from dsh_compact.reader import LOG_SUFFIXES, find_log, open_quietly

BUILT_IN: Final = Path(__file__).parent / "data" / "session.jsonl"
"""The session that ships with the package: estimated below its threshold, counted over its window.
"""

PLAIN_NAME: Final = "session.jsonl"
"""What a copy is called whose original has no name that a log has: a pipe, say."""

PIECE_BYTES: Final = 1 << 20

ELSEWHERE: Final = "point TMPDIR at a folder with room for it"


@contextmanager
def private_copy(source: str | os.PathLike[str] | bytes) -> Iterator[str]:
    """The path of a copy of a log (a file, a session's folder, or its bytes), for as long as the
    context lasts.

    Raises `LogError` and its kin where there is no log, or it cannot be read.
    """
    with private_folder() as folder:
        yield str(_copied(source, folder))


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that its owner alone can look into, gone afterwards; raises `WriteFailed`."""
    try:
        folder = Path(mkdtemp(prefix="dshc-"))
    except OSError as fault:
        raise WriteFailed(
            "a temporary folder", f"cannot be made: {fault.strerror}", remedy=ELSEWHERE
        ) from fault
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copied(source: str | os.PathLike[str] | bytes, folder: Path) -> Path:
    if isinstance(source, bytes):
        copy = folder / PLAIN_NAME
        write_new_file(str(copy), [source])
        return copy
    path, _ = find_log(os.fspath(source))
    copy = folder / (Path(path).name if path.endswith(LOG_SUFFIXES) else PLAIN_NAME)
    try:
        fd = open_quietly(path)
    except OSError as fault:
        raise UnreadableLog(path, f"cannot be opened: {fault.strerror}") from fault
    try:
        with open(fd, "rb") as original, open(copy, "xb") as target:
            shutil.copyfileobj(original, target, PIECE_BYTES)
    except OSError as fault:
        raise UnreadableLog(
            path,
            f"cannot be copied: {fault.strerror}",
            remedy="check that it can be read, and that TMPDIR has room for it",
        ) from fault
    return copy


def check_free(path: str) -> None:
    """Raises `LogError` where something is called so already: nothing is ever overwritten."""
    if os.path.lexists(path):
        raise LogError(path, "exists already", remedy="choose another name")


def keep(copy: str, path: str) -> None:
    """Puts what the copy has become at `path`, flushed; raises `LogError` and `WriteFailed`."""
    write_new_file(path, [Path(copy).read_bytes()])
