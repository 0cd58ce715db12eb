"""A trial: a session whose new records stay in memory, so that a plan is what would really happen.

The file is read and never written, and no lock is taken: another process may own the log. What is
appended goes through the same door as on a real session, is admitted and folded alike, and is gone
when the trial ends. It proves nothing: a generation that moved here has moved nowhere.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

from dsh_compact.events import Place
from dsh_compact.journal import Journal
from dsh_compact.reader import find_log
from dsh_compact.session import WritableSession, now_ms, refuse_unknown
from dsh_compact.summarizers import Progress, Request, Summary
from dsh_compact.tokens import UNITS_PER_TOKEN

MEMORY: Final = -2
"""The `frame_bytes` of a place that is in no file."""


class _Memory(Journal):
    """A journal without a file: it keeps what the trial appends."""

    def __init__(self) -> None:
        self.end_bytes = 0
        self._lines: dict[int, bytes] = {}
        self._next = 0

    def close(self) -> None:
        """There is nothing to give back."""

    def start_at(self, end_bytes: int) -> str | None:
        """A torn tail is left where it is."""
        self.end_bytes = end_bytes
        return None

    def append(self, records: Sequence[bytes]) -> list[Place]:
        """Keeps the records; their places lie one behind the other."""
        places = []
        for record in records:
            places.append(Place(MEMORY, self._next, len(record)))
            self._lines[self._next] = record
            self._next += len(record) + 1
        return places

    def line(self, place: Place) -> bytes:
        """The record at a place of ours."""
        return self._lines[place.start_bytes]


class TrialSession(WritableSession):
    """A session that may be appended to in memory alone."""

    def __init__(self, path: str, *, clock: Callable[[], int] = now_ms) -> None:
        """Folds the log at `path`; prefer `open_trial`, which finds it first."""
        self._memory = _Memory()
        super().__init__(path, self._memory, clock=clock)

    def line(self, place: Place) -> bytes:
        """The record at `place`, without its newline."""
        if place.frame_bytes == MEMORY:
            return self._memory.line(place)
        return super().line(place)


def open_trial(path: str | os.PathLike[str]) -> TrialSession:
    """A trial on the log at `path`; raises `LogError` and its kin as `open_session` does, save for
    what only writing needs.
    """
    found, stale = find_log(os.fspath(path))
    session = TrialSession(found)
    refuse_unknown(session)
    if stale:
        session.notices.insert(0, f"{found} is read; older formats beside it: {', '.join(stale)}")
    return session


class AtMost:
    """A summarizer for plans: it asks nobody and fills its bound, so that no summary is longer."""

    name = "at-most"

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """As many letters as the bound holds."""
        return Summary(
            text="x" * (request.max_tokens * UNITS_PER_TOKEN),
            provider="dsh-compact",
            model=self.name,
        )
