"""Which process wrote which event, and which event a seq means, where several numbered alone.

A process that writes counts on from the last event that it has read. So the events of one process
make a chain of rising seqs; a chain that begins with a seq already used forks from the one that
holds the seq before. Where two chains are due at the same seq, the event goes to the one whose
open turn, step, calls and messages it fits, and to the one that wrote last where nothing tells.
Each event gets a new number, its place in the order of writing, without gap or repeat; a seq that
an event refers to is looked up in the event's own chain first, then in those that it forks from.

Pure: no file, no JSON. A log that is whole is one chain, and its new numbers are the old ones.
"""

from array import array
from bisect import bisect_right
from collections import deque
from enum import Enum
from typing import Final, NamedTuple

from msgspec import Struct, structs

from dsh_compact.codec.audit import Audited, Splice
from dsh_compact.events import ToolCallStarted

MAX_CHAINS: Final = 1_000
"""A log with more forks is noise and not the work of processes: no more is sorted out."""

MAX_COMPARED_CHAINS: Final = 64
"""So many of the newest chains are looked at: older processes write no more."""

MAX_STANDS: Final = 4_096
"""So far back a fork finds out what was open; processes meet at the end of a log."""


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


# What is open in a chain --------------------------------------------------------------------------


class Stand(Struct, frozen=True, kw_only=True):
    """Which turn and step are open for a process, and which calls and messages wait for it."""

    turn: int | None = None
    step: int | None = None
    last_turn: int = 0
    last_step: int = 0
    waiting: frozenset[str] = frozenset()
    inbox: frozenset[str] = frozenset()

    def fits(self, record: Audited) -> bool | None:
        """Whether the record goes on from here; None where nothing tells."""
        place = (record.turn, record.step)
        match record.type:
            case "turn/start":
                return self.turn is None and record.turn == self.last_turn + 1
            case "turn/end":
                return self.turn == record.turn and self.step is None
            case "step/start":
                return place == (self.turn, self.last_step + 1) and self.step is None
            case "tool/call":
                call_id = _call_id(record)
                return place == (self.turn, self.step) and call_id in self.waiting
            case "tool/result" if record.answered is not None:
                return place == (self.turn, self.step) and record.answered in self.waiting
            case "user/message" if record.message is not None:
                return True if record.message.message.id in self.inbox else None
            case _ if record.turn is not None and record.step is not None:
                return place == (self.turn, self.step)
            case _:
                return None

    def extend(self, record: Audited) -> "Stand":
        """What is open after the record."""
        match record.type:
            case "turn/start":
                last = record.turn or self.last_turn + 1
                return Stand(turn=record.turn, last_turn=last, inbox=self.inbox)
            case "turn/end":
                return Stand(last_turn=self.last_turn, inbox=self.inbox)
            case "step/start":
                last = record.step or self.last_step + 1
                return structs.replace(self, step=record.step, last_step=last, waiting=frozenset())
            case "step/end":
                return structs.replace(self, step=None, waiting=frozenset())
            case "assistant/message" if record.calls:
                asked = {call.id for call in record.calls}
                return structs.replace(self, waiting=self.waiting | asked)
            case "tool/result" if record.answered in self.waiting:
                return structs.replace(self, waiting=self.waiting - {record.answered})
            case "agent/inbox/spliced" if isinstance(record.detail, Splice):
                if not record.detail.inserted_ids:
                    return self
                return structs.replace(self, inbox=frozenset(record.detail.inserted_ids))
            case _:
                return self


_MOVING: Final = frozenset(
    {"turn/start", "turn/end", "step/start", "step/end", "assistant/message", "tool/result"}
    | {"agent/inbox/spliced"}
)
"""The types of event that open or close something."""


def _call_id(record: Audited) -> str | None:
    return record.event.call_id if isinstance(record.event, ToolCallStarted) else None


# Chains -------------------------------------------------------------------------------------------


class Runs:
    """The new numbers of one chain's events, told in rising order of their seqs.

    A run is consecutive seqs with consecutive new numbers: its first seq, its first new number (-1
    where its events are gone), its length.
    """

    __slots__ = ("_firsts", "_lengths", "_news")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._news: list[int] = []
        self._lengths: list[int] = []

    def add(self, seq: int, new_seq: int, count: int) -> None:
        """`count` events from `seq` on are numbered from `new_seq` on; -1: they are gone."""
        if self._firsts:
            end = self._firsts[-1] + self._lengths[-1]
            if end == seq and new_seq >= 0 and self._news[-1] + self._lengths[-1] == new_seq:
                self._lengths[-1] += count
                return
            if end > seq:
                self._forget_from(seq)
        self._firsts.append(seq)
        self._news.append(new_seq)
        self._lengths.append(count)

    def _forget_from(self, seq: int) -> None:
        """What was told of this seq and later ones is told anew."""
        while self._firsts and self._firsts[-1] >= seq:
            for part in (self._firsts, self._news, self._lengths):
                part.pop()
        if self._firsts:
            self._lengths[-1] = min(self._lengths[-1], seq - self._firsts[-1])

    def look_up(self, seq: int) -> int | None:
        """The new number, -1 for an event that is gone, None for one that is not of this chain."""
        at = bisect_right(self._firsts, seq) - 1
        if at < 0 or seq >= self._firsts[at] + self._lengths[at]:
            return None
        return -1 if self._news[at] < 0 else self._news[at] + seq - self._firsts[at]


class Copies:
    """Finds events that stand in a log a second time, byte for byte and under the same seq.

    Records are remembered by a hash of 64 bits, which a process draws anew each time it runs: what
    is taken for a copy by chance, nobody can choose.
    """

    def __init__(self) -> None:
        self._digests = array("q")

    def has(self, record: Audited, line: bytes, writers: "Writers") -> bool:
        """Whether the record was there before; `writers` are those before it arrives."""
        seq = record.seq
        if seq is None or (len(writers.chains) == 1 and seq >= writers.due_seq):
            return False
        digest = hash(line)
        return any(self._digests[at] == digest for at in writers.all_of(seq))

    def add(self, record: Audited, line: bytes) -> None:
        """Remembers a record that has arrived."""
        if record.count == 1:
            self._digests.append(hash(line))
        else:
            self._digests.extend([hash(line)] * record.count)


class Chain:
    """One process's events: `number` counts the chains, `fork_seq` is the first seq of its own.

    `parent` is None for the first chain only.
    """

    __slots__ = ("_stands", "fork_seq", "next_seq", "number", "parent", "runs", "stand")

    def __init__(self, number: int, parent: "Chain | None", fork_seq: int) -> None:
        self.number = number
        self.parent = parent
        self.fork_seq = fork_seq
        self.next_seq = fork_seq
        self.runs = Runs()
        self.stand: Stand | None = Stand() if parent is None else parent.stood_at(fork_seq)
        self._stands: deque[tuple[int, Stand]] = deque(maxlen=MAX_STANDS)

    def stood_at(self, seq: int) -> Stand | None:
        """What was open before its event `seq`; None where that is too long ago."""
        for change_seq, stand in reversed(self._stands):
            if change_seq < seq:
                return stand
        return Stand() if self.parent is None and len(self._stands) < MAX_STANDS else None

    def take(self, record: Audited) -> None:
        """Takes in what the record opens or closes."""
        if self.stand is None or record.seq is None or record.type not in _MOVING:
            return
        stand = self.stand.extend(record)
        if stand is not self.stand:
            self.stand = stand
            self._stands.append((record.seq, stand))


class Writers:
    """All chains so far, and the numbers given; `next_seq` is the one that the next event gets.

    `is_identity` until an event had to get another number than it claims. `chains` in the order of
    their beginnings.
    """

    def __init__(self) -> None:
        self.next_seq = 0
        self.is_identity = True
        self._current = Chain(0, None, 0)
        self.chains = [self._current]

    @property
    def due_seq(self) -> int:
        """The seq that goes on where the newest event ended."""
        return self._current.next_seq

    def arrive(self, record: Audited) -> Arrived | None:
        """Numbers a record, which must claim a seq; None beyond `MAX_CHAINS`."""
        seq, expected = record.seq, self._current.next_seq
        assert seq is not None
        kind = Arrival.NEXT
        if len(self.chains) > 1 or seq != expected:
            found = self._find(seq, record)
            if found is None:
                return None
            kind = found
        chain, new_seq = self._current, self.next_seq
        chain.runs.add(seq, new_seq, record.count)
        chain.take(record)
        chain.next_seq = seq + record.count
        self.next_seq += record.count
        self.is_identity = self.is_identity and seq == new_seq
        return Arrived(kind, new_seq, chain.number, expected)

    def _find(self, seq: int, record: Audited) -> Arrival | None:
        """Makes the chain that the record goes on the current one."""
        due = [chain for chain in self.chains[-MAX_COMPARED_CHAINS:] if chain.next_seq == seq]
        if due:
            self._current = self._choose(due, record)
            return Arrival.NEXT
        if seq > self._current.next_seq:
            return Arrival.GAP
        if len(self.chains) == MAX_CHAINS:
            return None
        self._fork(seq)
        return Arrival.FORK

    def resolve(self, seq: int) -> int | None:
        """The new number of what the newest event calls `seq`; None where there is none."""
        chain: Chain | None = self._current
        while chain is not None:
            found = chain.runs.look_up(seq)
            if found is not None:
                return found
            chain = chain.parent
        return None

    def all_of(self, seq: int) -> list[int]:
        """The new numbers of the events so far that claimed `seq`."""
        found = (chain.runs.look_up(seq) for chain in self.chains[-MAX_COMPARED_CHAINS:])
        return [new_seq for new_seq in found if new_seq is not None]

    def _choose(self, waiting: list[Chain], record: Audited) -> Chain:
        """The chain that the record goes on; the one that wrote last where nothing tells."""
        if len(waiting) == 1:
            return waiting[0]
        fitting = [x for x in waiting if x.stand is not None and x.stand.fits(record)]
        choice = fitting or waiting
        return self._current if self._current in choice else choice[-1]

    def _fork(self, seq: int) -> None:
        parent: Chain | None = self._current
        while parent is not None and parent.runs.look_up(seq - 1) is None:
            parent = parent.parent
        chain = Chain(len(self.chains), parent or self._current, seq)
        self.chains.append(chain)
        self._current = chain
