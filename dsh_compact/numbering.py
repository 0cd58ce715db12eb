"""Which event a seq means, in a log where several processes numbered their events by themselves.

A process that writes counts on from the last event that it has read. So the events of one process
make a chain of rising seqs; a chain that begins with a seq already used forks from the one that
holds the seq before. Each event gets a new number, its place in the order of writing, without gap
or repeat; a seq that an event refers to is looked up in the event's own chain first, then in those
it forks from.

Pure: no file, no JSON. A log that is whole is one chain whose new numbers are the old ones.
"""

from bisect import bisect_right
from enum import Enum
from typing import Final, NamedTuple

MAX_CHAINS: Final = 1_000
"""A log with more forks than this is noise and not the work of processes: no more is sorted out."""


class Arrival(Enum):
    """How an event's seq stands to those before it."""

    NEXT = "next"
    GAP = "gap"
    FORK = "fork"


class Arrived(NamedTuple):
    """Where an event was put: its new number, its chain, and the seq that was due."""

    kind: Arrival
    seq: int
    chain: int
    expected_seq: int


class _Run(NamedTuple):
    """Consecutive seqs of one chain, and their consecutive new numbers."""

    first_seq: int
    new_seq: int
    length: int


class _Chain:
    __slots__ = ("fork_seq", "next_seq", "number", "parent", "runs")

    def __init__(self, number: int, parent: "_Chain | None", fork_seq: int) -> None:
        self.number = number
        self.parent = parent
        self.fork_seq = fork_seq
        self.next_seq = fork_seq
        self.runs: list[_Run] = []

    def look_up(self, seq: int) -> int | None:
        at = bisect_right(self.runs, seq, key=_first_seq) - 1
        if at < 0:
            return None
        run = self.runs[at]
        return run.new_seq + seq - run.first_seq if seq < run.first_seq + run.length else None


class Numbering:
    """The numbers given so far; `next_seq` is the one that the next event gets.

    `is_identity` until an event had to get another number than it claims.
    """

    def __init__(self) -> None:
        self.next_seq = 0
        self.is_identity = True
        self._current = _Chain(0, None, 0)
        self._chains = [self._current]
        self._due: dict[int, list[_Chain]] = {0: [self._current]}

    def arrive(self, seq: int, count: int = 1) -> Arrived | None:
        """Numbers an event that claims `seq` and stands for `count`; None beyond `MAX_CHAINS`."""
        expected = self._current.next_seq
        kind = Arrival.NEXT
        if seq != expected:
            waiting = self._due.get(seq)
            if waiting:
                self._current = waiting[-1]
            elif seq > expected:
                kind = Arrival.GAP
            elif len(self._chains) < MAX_CHAINS:
                kind = Arrival.FORK
                self._fork(seq)
            else:
                return None
        new_seq = self.next_seq
        self._extend(self._current, seq, count)
        self.is_identity = self.is_identity and seq == new_seq
        return Arrived(kind, new_seq, self._current.number, expected)

    def resolve(self, seq: int) -> int | None:
        """The new number of what the newest event calls `seq`; None where there is none."""
        chain: _Chain | None = self._current
        while chain is not None:
            found = chain.look_up(seq)
            if found is not None:
                return found
            chain = chain.parent
        return None

    @property
    def due_seq(self) -> int:
        """The seq that goes on where the newest event ended."""
        return self._current.next_seq

    def all_of(self, seq: int) -> list[int]:
        """The new numbers of every event so far that claimed `seq`."""
        found = (chain.look_up(seq) for chain in self._chains)
        return [new_seq for new_seq in found if new_seq is not None]

    def skip(self, new_seq: int) -> None:
        """Goes on numbering at `new_seq`: other events were put in between."""
        self.is_identity = self.is_identity and new_seq == self.next_seq
        self.next_seq = new_seq

    def _extend(self, chain: _Chain, seq: int, count: int) -> None:
        last = chain.runs[-1] if chain.runs else None
        follows = (
            last is not None
            and last.first_seq + last.length == seq
            and last.new_seq + last.length == self.next_seq
        )
        if last is not None and follows:
            chain.runs[-1] = last._replace(length=last.length + count)
        else:
            chain.runs.append(_Run(seq, self.next_seq, count))
        self.next_seq += count
        self._move_due(chain, seq + count)

    def _move_due(self, chain: _Chain, next_seq: int) -> None:
        waiting = self._due.get(chain.next_seq, [])
        if chain in waiting:
            waiting.remove(chain)
        if not waiting:
            self._due.pop(chain.next_seq, None)
        chain.next_seq = next_seq
        self._due.setdefault(next_seq, []).append(chain)

    def _fork(self, seq: int) -> None:
        parent: _Chain | None = self._current
        while parent is not None and parent.look_up(seq - 1) is None:
            parent = parent.parent
        chain = _Chain(len(self._chains), parent or self._current, seq)
        self._chains.append(chain)
        self._due.setdefault(seq, []).append(chain)
        self._current = chain


def _first_seq(run: _Run) -> int:
    return run.first_seq
