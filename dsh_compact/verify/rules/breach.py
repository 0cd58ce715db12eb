"""What all folds of rules share: a broken rule, the view to judge by, the dispatch."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple

from dsh_compact.codec.audit import Audited
from dsh_compact.errors import Damage
from dsh_compact.events import Replace, SurfaceChange
from dsh_compact.surface import Node, Surface

SHOWN: int = 60
"""Characters of a foreign name that a problem quotes."""


class Breach(NamedTuple):
    """A record breaks a rule."""

    record: Audited
    damage: Damage
    problem: str


class View(NamedTuple):
    """The surface before a record, and the price of a node on it, None where it is not known."""

    surface: Surface
    price: Callable[[Node], int | None]


Judge = Callable[[Any, Audited, View], Iterable[Breach]]
Taker = Callable[[Any, Audited], Iterable[Breach] | None]


class Fold:
    """Part of the rules, with what it remembers of the log so far.

    The tables name by type of record the method that judges (and changes nothing) and the one that
    takes the record in, whatever was judged. A record that cannot be read (`event` is None) is not
    judged; what it says of turns and calls is taken in.
    """

    JUDGES: ClassVar[dict[str, Judge]] = {}
    TAKERS: ClassVar[dict[str, Taker]] = {}

    def judges(self) -> dict[str, Callable[[Audited, View], Iterable[Breach]]]:
        """What judges, by the type of record."""
        return {kind: partial(judge, self) for kind, judge in self.JUDGES.items()}

    def takers(self) -> dict[str, Callable[[Audited], Iterable[Breach] | None]]:
        """What takes in, by the type of record; gives what only then turns out to be broken."""
        return {kind: partial(take, self) for kind, take in self.TAKERS.items()}

    def end(self, view: View) -> Iterable[Breach]:
        """What the end of the log shows."""
        return ()


def quoted(name: str | None) -> str:
    """A foreign name as a problem quotes it."""
    shown = repr(name)
    return shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"


def ends_of(record: Audited) -> tuple[int, int] | None:
    """The range that a record replaces, None where it does not replace."""
    match record.event:
        case SurfaceChange(op=Replace(start_seq=start, end_seq=end)):
            return start, end
        case _:
            return None


def is_checkpoint(record: Audited) -> bool:
    """Whether a record puts a summary in the place of other messages."""
    return (
        record.type == "user/message"
        and record.message is not None
        and record.message.message.compaction_id is not None
        and ends_of(record) is not None
    )
