"""Whether each record may stand where it stands.

A fold beside the surface's, over audited records: `judge` says what a record breaks and changes
nothing, `accept` takes it in all the same, so that what follows is judged by what the log says.
The rules are those by which release 0.2.1 opens a log (tried on it, format 4), and those without
which a record means nothing. The folds below know no file and no JSON, and each only its own
subject.
"""

from itertools import chain
from typing import TypeVar

from dsh_compact.codec.audit import Audited
from dsh_compact.events import SessionHeader
from dsh_compact.verify.rules.brackets import Brackets
from dsh_compact.verify.rules.breach import Breach, Fold, View
from dsh_compact.verify.rules.citations import Citations
from dsh_compact.verify.rules.lifecycle import Call, Lifecycle
from dsh_compact.verify.rules.pairing import Pairing

__all__ = [
    "Breach",
    "Call",
    "Rules",
    "View",
]


class Rules:
    """All rules but the surface's own, and where the session stands by them."""

    def __init__(self, header: SessionHeader | None, version: int) -> None:
        """`header` is None where none can be read; `version` is then what the log seems to be."""
        self.lifecycle = Lifecycle(version)
        self.brackets = Brackets(self.lifecycle)
        self.citations = Citations(header, self.lifecycle)
        self._folds: tuple[Fold, ...] = (
            self.brackets,
            self.citations,
            Pairing(self.lifecycle),
            self.lifecycle,  # last: the others ask where the session stood before the record
        )
        self._judges = _by_type([fold.judges() for fold in self._folds])
        self._takers = _by_type([fold.takers() for fold in self._folds])

    def judge(self, record: Audited, view: View) -> list[Breach]:
        """What `record` breaks, seen against `view`, the surface before it."""
        found = self.brackets.judge_announced(record)
        if record.event is not None:
            for judge in self._judges.get(record.type, ()):
                found += judge(record, view)
        return found

    def accept(self, record: Audited) -> list[Breach]:
        """Takes `record` in, whatever was judged; gives what only now turns out to be broken."""
        found = self.brackets.expect_announced(record)
        for take in self._takers.get(record.type, ()):
            found += take(record) or ()
        self.lifecycle.newest = record
        return found

    def end(self, view: View) -> list[Breach]:
        """What the end of the log shows: what is open, what was parted."""
        return [*chain.from_iterable(fold.end(view) for fold in self._folds)]


Bound = TypeVar("Bound")


def _by_type(tables: list[dict[str, Bound]]) -> dict[str, list[Bound]]:
    found: dict[str, list[Bound]] = {}
    for table in tables:
        for kind, method in table.items():
            found.setdefault(kind, []).append(method)
    return found
