"""A disk that stops, fills up or lies, for the tests of everything that writes.

The rule of this file: `FailingDisk` does what it is told to the real folder, and keeps book of what
a power cut would leave: bytes that were not flushed may be there or not, as a prefix; a name is
there for certain only once its folder was flushed. It stops at the operation that it is told, as a
crash does: by an exception that nobody catches.

    disk = FailingDisk(folder, stop_at=3)
    with pytest.raises(CrashError):
        body(disk)
    for state in disk.states():       # all that may be on disk afterwards
        state.write(other_folder)
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dsh_compact.journal import Disk


class CrashError(BaseException):
    """The machine stops here."""


@dataclass(slots=True)
class Content:
    """A file's bytes as they were flushed, and what was done to them since."""

    flushed: bytes
    pending: list[tuple[str, bytes | int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is in the folder after a crash: each name's bytes."""

    files: dict[str, bytes]

    def write(self, folder: Path) -> None:
        """Make `folder` look like it; it is emptied first."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


class FailingDisk(Disk):
    """Stops before operation `stop_at` (from 1), or lets operation `fail_at` fail with `fault`.

    `short` makes the failing write take that many bytes first and say so. `operations` counts, and
    `log` names what was done.
    """

    def __init__(
        self,
        folder: Path,
        *,
        stop_at: int | None = None,
        fail_at: int | None = None,
        fault: int = errno.EIO,
        short: int | None = None,
    ) -> None:
        self._folder = folder
        self._stop_at = stop_at
        self._fail_at = fail_at
        self._fault = fault
        self._short = short
        self.operations = 0
        self.log: list[str] = []
        self._names: dict[str, int] = {}
        self._pending_names: list[tuple[str, str, int]] = []
        self._contents: dict[int, Content] = {}
        for path in folder.iterdir():
            if path.is_file():
                self._names[path.name] = path.stat().st_ino
                self._contents[path.stat().st_ino] = Content(path.read_bytes())

    # Operations

    def write(self, fd: int, data: bytes) -> int:
        """Append, or stop with any prefix of it pending."""
        content = self._content(fd)
        content.pending.append(("write", data))
        if self._fails("write"):
            content.pending[-1] = ("write", data[: self._short or 0])
            if self._short is None:
                raise OSError(self._fault, os.strerror(self._fault))
            return os.write(fd, data[: self._short])
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        """Flush a file's bytes, or a folder's names."""
        self._operate("fsync")
        if Path(f"/proc/self/fd/{fd}").resolve() == self._folder.resolve():
            for operation in self._pending_names:
                _rename(self._names, *operation)
            self._pending_names = []
            return
        content = self._content(fd)
        content.flushed, content.pending = _after(content.flushed, content.pending), []

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Cut."""
        self._operate("truncate")
        self._content(fd).pending.append(("truncate", size_bytes))
        os.ftruncate(fd, size_bytes)

    def link(self, source: str, target: str) -> None:
        """Give a second name."""
        self._operate("link")
        os.link(source, target)
        inode = Path(source).stat().st_ino
        self._pending_names.append(("link", Path(target).name, inode))

    def unlink(self, path: str) -> None:
        """Take a name away."""
        self._operate("unlink")
        Path(path).unlink()
        self._pending_names.append(("unlink", Path(path).name, 0))

    def rename(self, source: str, target: str) -> None:
        """Move a name over another."""
        self._operate("rename")
        inode = Path(source).stat().st_ino
        Path(source).rename(target)
        self._pending_names.append(("link", Path(target).name, inode))
        self._pending_names.append(("unlink", Path(source).name, 0))

    # What a power cut leaves

    def states(self) -> Iterator[State]:
        """All that may be in the folder: any prefix of what was not flushed."""
        for count in range(len(self._pending_names) + 1):
            names = dict(self._names)
            for operation in self._pending_names[:count]:
                _rename(names, *operation)
            for contents in self._prefixes():
                yield State(files={name: contents[inode] for name, inode in names.items()})

    def _prefixes(self) -> Iterator[dict[int, bytes]]:
        whole = {inode: content.flushed for inode, content in self._contents.items()}
        yield dict(whole)
        for inode, content in self._contents.items():
            for at, (kind, what) in enumerate(content.pending):
                before = content.pending[:at]
                for cut in _cuts(what) if isinstance(what, bytes) else [what]:
                    last = (kind, what[:cut] if isinstance(what, bytes) else cut)
                    whole[inode] = _after(content.flushed, [*before, last])
                    yield dict(whole)

    def _operate(self, name: str) -> None:
        if self._fails(name):
            raise OSError(self._fault, os.strerror(self._fault))

    def _fails(self, name: str) -> bool:
        self.operations += 1
        self.log.append(name)
        if self.operations == self._stop_at:
            raise CrashError(f"{name}, operation {self.operations}")
        return self.operations == self._fail_at

    def _content(self, fd: int) -> Content:
        """A file that was made since the last operation gets its name here."""
        inode = os.fstat(fd).st_ino
        if inode not in self._contents:
            self._contents[inode] = Content(b"")
            name = Path(f"/proc/self/fd/{fd}").readlink().name
            self._pending_names.append(("link", name, inode))
        return self._contents[inode]


def _after(content: bytes, operations: list[tuple[str, bytes | int]]) -> bytes:
    for _, what in operations:
        content = content + what if isinstance(what, bytes) else content[:what]
    return content


def _rename(names: dict[str, int], kind: str, name: str, inode: int) -> None:
    if kind == "link":
        names[name] = inode
    else:
        names.pop(name, None)


def _cuts(data: bytes) -> list[int]:
    """How much of a write may be on disk: ends, edges, and the middle."""
    return sorted({0, 1, len(data) // 2, len(data) - 1, len(data)} & set(range(len(data) + 1)))
