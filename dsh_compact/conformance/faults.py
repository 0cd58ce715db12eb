"""What goes wrong around a backend while it works, and only then: a disk, its time, its request.

Rule: a fault strikes while the backend runs; the rehearsal around it is spared, so that what is
judged is the backend. `Watch` is the runner that does it and keeps book of what it saw.
"""

import errno
import os
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from time import monotonic
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from dsh_compact.backends import Backend
from dsh_compact.backends.running import Ran, Runner, never
from dsh_compact.errors import DshcError
from dsh_compact.journal import Disk
from dsh_compact.ledger import Reading
from dsh_compact.workbench import Workbench

Kind: TypeAlias = Literal["none", "disk", "time over", "cancelled"]

KINDS: Final[tuple[Kind, ...]] = ("none", "disk", "time over", "cancelled")


class Fault(Struct, frozen=True, kw_only=True):
    """One fault; `operation` is the disk's, from 1, at which it strikes."""

    kind: Kind
    operation: int = 0

    def __str__(self) -> str:
        """`disk fails at operation 3`."""
        match self.kind:
            case "none":
                return "no fault"
            case "disk":
                return f"disk fails at operation {self.operation}"
            case "time over":
                return "its time is over before it begins"
            case "cancelled":
                return "the request is cancelled once it has written"


NO_FAULT: Final = Fault(kind="none")


class FailingDisk(Disk):
    """A disk that fails at one operation while it is armed, a write after half of its bytes.

    It flushes nothing: what it holds is a copy that is thrown away.
    """

    def __init__(self, operation: int) -> None:
        self._operation = operation
        self._shared = mmap(-1, 1)  # seen by a child process, too
        self.is_armed = False

    @property
    def has_failed(self) -> bool:
        """Whether the operation was reached."""
        return self._shared[0] == self._operation

    def write(self, fd: int, data: bytes) -> int:
        """Writes at the end; returns how many bytes were taken."""
        if self._strikes():
            super().write(fd, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        """Returns once everything written so far survives a crash."""
        if self._strikes():
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _strikes(self) -> bool:
        if not self.is_armed or self.has_failed:
            return False
        self._shared[0] += 1
        return self.has_failed


class Seen(Struct, frozen=True, kw_only=True):
    """One run of a backend; `after` is None where the file could not be read, for that `reason`.

    `remembered` is the generation that the session in memory had then.
    """

    ran: Ran
    seconds: float
    before: Reading
    after: Reading | None
    reason: str
    remembered: int


class Watch:
    """Runs a backend by `run` under a fault; `seen` are its runs so far."""

    def __init__(self, fault: Fault, run: Runner) -> None:
        self.disk = FailingDisk(fault.operation)
        self.seen: list[Seen] = []
        self._fault = fault
        self._run = run

    def __call__(
        self,
        backend: Backend,
        bench: Workbench,
        timeout_seconds: float,
        *,
        is_cancelled: Callable[[], bool] = never,
    ) -> Ran:
        """One run, as `Runner` promises."""
        session = bench.session
        before, begun = Reading(session.path), monotonic()
        if self._fault.kind == "time over":
            bench.revoke()
        if self._fault.kind == "cancelled":
            is_cancelled = _grown(session.path)
        self.disk.is_armed = self._fault.kind == "disk"
        try:
            ran = self._run(backend, bench, timeout_seconds, is_cancelled=is_cancelled)
        finally:
            self.disk.is_armed = False
        after, reason = _read(session.path, before)
        self.seen.append(
            Seen(
                ran=ran,
                seconds=monotonic() - begun,
                before=before,
                after=after,
                reason=reason,
                remembered=session.replace_generation,
            )
        )
        return ran


def _grown(path: str) -> Callable[[], bool]:
    """Whether the file is longer than now: it tells what another process wrote, too."""
    size_bytes = _size_bytes(path)
    return lambda: _size_bytes(path) > size_bytes


def _size_bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:  # it was taken away
        return 0


def _read(path: str, before: Reading) -> tuple[Reading | None, str]:
    try:
        return Reading(path, before), ""
    except DshcError as fault:
        return None, str(fault)
