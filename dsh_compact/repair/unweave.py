"""The order in which a log's lines are to be mended: what two processes interleaved is taken apart.

Each process's events are put one behind the other, in the order in which the processes began to
write. One exception: a process that only closes a turn as interrupted, while another goes on in
that turn, comes second: what happened stands before what was only supposed.

It knows which line is whose (`writers`), and of an event no more than what it opens or closes.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from dsh_compact.codec import encode
from dsh_compact.codec.audit import Audited
from dsh_compact.events import Place, TurnEnd
from dsh_compact.verify.writers import Chain, Writers

_SUPPOSED_CODES: Final = frozenset({encode.NOT_STARTED_CODE, encode.OUTCOME_UNKNOWN_CODE})

NOBODY: Final = -1
"""The chain of a line that is no record, or that is a mere copy."""


class Mark(IntEnum):
    """What the survey notes of a line."""

    OTHER = 0
    WORK = 1
    SUPPOSED_RESULT = 2
    STEP_END = 3
    TURN_INTERRUPTED = 4
    BRACKET_START = 5
    BRACKET_END = 6
    END_SEED = 7


class Item(NamedTuple):
    """A line to be mended: its number in the file from 1, its place, what it claims to be.

    `chain` is `NOBODY` and `seq` -1 where it is no record; `is_copy` where the very same record
    stands before; `is_orphan` for the start of a compaction whose process died.
    """

    number: int
    place: Place
    seq: int
    chain: int
    is_copy: bool
    is_orphan: bool


class Survey:
    """What a first reading notes of the lines behind the header, in a few bytes each."""

    def __init__(self) -> None:
        self.writers = Writers()
        self._numbers = array("q")
        self._frames = array("q")
        self._starts = array("q")
        self._sizes = array("q")
        self._copies: set[int] = set()
        self._chains = array("i")
        self._marks = array("b")
        self._seqs = array("q")

    def note(self, record: Audited, *, is_copy: bool) -> None:
        """The log's next line."""
        chain = NOBODY
        if is_copy:
            self._copies.add(len(self._numbers))
        elif record.seq is not None and (arrived := self.writers.arrive(record)) is not None:
            chain = arrived.chain
        self._numbers.append(record.line)
        self._frames.append(record.place.frame_bytes)
        self._starts.append(record.place.start_bytes)
        self._sizes.append(record.place.size_bytes)
        self._chains.append(chain)
        self._marks.append(_mark(record) if chain != NOBODY else Mark.OTHER)
        self._seqs.append(record.seq if record.seq is not None else -1)

    def items(self) -> Iterator[Item]:
        """All lines, in the order in which they are to be mended."""
        order: Sequence[int] = range(len(self._numbers))
        if len(self.writers.chains) > 1:
            order = list(_Unweaving(self.writers.chains, self._chains, self._marks, self._seqs))
        orphans = self._orphans(order)
        for index in order:
            yield Item(
                self._numbers[index],
                Place(self._frames[index], self._starts[index], self._sizes[index]),
                self._seqs[index],
                self._chains[index],
                index in self._copies,
                index in orphans,
            )

    def _orphans(self, order: Sequence[int]) -> set[int]:
        """The starts of compactions that an end-seed makes stale before they end."""
        found: set[int] = set()
        start: int | None = None
        for index in order:
            match self._marks[index]:
                case Mark.BRACKET_START:
                    start = index
                case Mark.BRACKET_END:
                    start = None
                case Mark.END_SEED if start is not None:
                    found.add(start)
                    start = None
                case _:
                    pass
        return found


def _mark(record: Audited) -> Mark:
    match record.type:
        case "compaction/start":
            return Mark.BRACKET_START
        case "compaction/end":
            return Mark.BRACKET_END
        case "session/end-seed":
            return Mark.END_SEED
        case "step/end":
            return Mark.STEP_END
        case "turn/end" if isinstance(record.event, TurnEnd):
            interrupted = record.event.reason == "interrupted"
            return Mark.TURN_INTERRUPTED if interrupted else Mark.WORK
        case "tool/result" if is_supposed(record):
            return Mark.SUPPOSED_RESULT
        case _:
            return Mark.WORK if record.turn is not None else Mark.OTHER


def is_supposed(record: Audited) -> bool:
    """Whether a result is the harness's own, in place of one that a tool would have given."""
    message_id = record.message.message.id if record.message is not None else None
    return record.error_code in _SUPPOSED_CODES or (message_id or "").startswith(
        encode.INTERRUPTED_ID
    )


class _Unweaving:
    """Walks the tree of chains; iterate it for the lines' indexes in their new order."""

    def __init__(
        self,
        chains: Sequence[Chain],
        owners: Sequence[int],
        marks: Sequence[int],
        seqs: Sequence[int],
    ) -> None:
        """The last three say of each line whose it is, what it is, and what seq it claims."""
        self._marks = marks
        self._seqs = seqs
        self._owners = owners
        self._lines, self._own = _lines_by_chain(len(chains), owners)
        self._first: dict[int, list[Chain]] = {}
        self._later: dict[int, list[Chain]] = {}
        for chain in chains[1:]:
            assert chain.parent is not None
            branches = self._first if self._goes_first(chain, chain.parent) else self._later
            branches.setdefault(chain.parent.number, []).append(chain)

    def __iter__(self) -> Iterator[int]:
        walks = [self._walk(0)]
        while walks:  # not by recursion: chains may hang on each other by the hundred
            step = next(walks[-1], None)
            if step is None:
                walks.pop()
            elif isinstance(step, Chain):
                walks.append(self._walk(step.number))
            else:
                yield step

    def _walk(self, number: int) -> Iterator[int | Chain]:
        """A chain's lines, and each branch where it belongs."""
        first = sorted(self._first.get(number, ()), key=_fork_seq)
        for index in self._lines[number]:
            own = self._owners[index] == number
            while first and own and self._seqs[index] >= first[0].fork_seq:
                yield first.pop(0)
            yield index
        yield from first
        yield from self._later.get(number, ())

    def _goes_first(self, chain: Chain, parent: Chain) -> bool:
        """Whether the parent, behind the fork, only closes what the branch goes on with."""
        rest = self._own_lines(parent, chain.fork_seq)
        return self._only_closes(rest) and not self._only_closes(self._own_lines(chain))

    def _own_lines(self, chain: Chain, from_seq: int = 0) -> Iterator[int]:
        """The indexes of a chain's own lines, from a seq on: within a chain, seqs rise."""
        lines = self._own[chain.number]
        at = bisect_left(lines, from_seq, key=self._seqs.__getitem__)
        return (lines[place] for place in range(at, len(lines)))

    def _only_closes(self, lines: Iterator[int]) -> bool:
        work = (mark for index in lines if (mark := self._marks[index]) in _TELLING)
        match next(work, None):
            case Mark.SUPPOSED_RESULT | Mark.TURN_INTERRUPTED:
                return True
            case Mark.STEP_END:
                return next(work, None) == Mark.TURN_INTERRUPTED
            case _:
                return False


_TELLING: Final = frozenset({Mark.WORK, Mark.SUPPOSED_RESULT, Mark.STEP_END, Mark.TURN_INTERRUPTED})


def _lines_by_chain(count: int, owners: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """The indexes of each chain's lines, with the strays behind them, and without."""
    lines: list[list[int]] = [[] for _ in range(count)]
    own: list[list[int]] = [[] for _ in range(count)]
    owner = 0
    for index, chain in enumerate(owners):
        if chain != NOBODY:
            owner = chain
            own[owner].append(index)
        lines[owner].append(index)
    return lines, own


def _fork_seq(chain: Chain) -> int:
    return chain.fork_seq
