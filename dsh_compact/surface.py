"""The surface: the conversation as the model sees it, folded from the events of a log.

Rule 1: every change to the surface happens in `extend()`, for replay, catch-up and admission alike.
Rule 2: nothing else moves `replace_generation`, and nothing can lower or set it.

A surface is a value: `extend()` returns a new one and the old one stays true. It knows nothing of
files, tokens or summaries.

How it stays cheap whatever the log's shape: nodes lie in blocks, and old and new surface share all
blocks but those that changed. A node keeps an `order` for life, which grows along the surface: an
appended node's is its seq, a replacing node inherits that of the first node it replaces. So a seq
is found by bisection. Only a replacing node's order cannot be told from its seq; `_orders`
remembers it, shared between versions as a mere hint: it is believed only where the node is really
found there.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from msgspec import Struct

from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import Append, Kind, Place, Sources, SurfaceChange

BLOCK_NODES: Final = 128
"""Nodes in a block. An append copies one block and a replacement the list of blocks, too; a log has
many times more of the former, so that blocks are shorter than the list of them at 10^5 nodes.
"""


class Node(Struct, frozen=True, gc=False):
    """One message on the surface."""

    seq: int
    kind: Kind
    place: Place
    order: int


class Replacement(Struct, frozen=True):
    """One step of the generation: `node` took the place of `shadowed`."""

    generation: int
    node: Node
    shadowed: tuple[Node, ...]


Recall = Callable[[Node], object]
"""Reads a tool result's identity again: equal where two records differ in no more than content."""

_Blocks = tuple[tuple[Node, ...], ...]


class Surface:
    """The nodes in order and how often part of them was replaced.

    `replace_generation` counts the replace operations since the log began. `last` is the newest
    replacement, None before the first.
    """

    __slots__ = ("_blocks", "_count", "_generation", "_last", "_newest_seq", "_orders", "_tail")

    def __init__(self) -> None:
        self._blocks: _Blocks = ()
        self._tail: tuple[Node, ...] = ()
        self._count = 0
        self._generation = 0
        self._last: Replacement | None = None
        self._newest_seq = -1
        self._orders: dict[int, int] = {}

    @property
    def replace_generation(self) -> int:
        """How often part of the conversation was really replaced; derived, never stored."""
        return self._generation

    @property
    def last(self) -> Replacement | None:
        """The newest replacement."""
        return self._last

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Node]:
        return chain(chain.from_iterable(self._blocks), self._tail)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Surface):
            return NotImplemented
        return self._generation == other._generation and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((self._generation, tuple(self)))

    def __repr__(self) -> str:
        return f"<Surface generation {self._generation}, {self._count} nodes>"

    @property
    def seqs(self) -> tuple[int, ...]:
        """The seqs of the nodes, in the surface's order."""
        return tuple(node.seq for node in self)

    @property
    def head(self) -> Node | None:
        """The first node."""
        first = self._blocks[0] if self._blocks else self._tail
        return first[0] if first else None

    def find(self, seq: int) -> Node | None:
        """The node with that seq, if it is on the surface."""
        spot = self._locate(seq)
        return None if spot is None else self._block(spot[0])[spot[1]]

    def span(self, start_seq: int, end_seq: int) -> tuple[Node, ...]:
        """The nodes from `start_seq` to `end_seq` by their places; raises `RuleBroken` where no
        such.
        """
        first, last = self._ends(start_seq, end_seq, None)
        return self._cut(first, last)

    def twin(self) -> "Surface":
        """The same surface in an object of its own, which whoever holds this one cannot reach."""
        return self._copy()

    # The one way in ------------------------------------------------------------------------------

    def extend(self, change: SurfaceChange, recall: Recall) -> "Surface":
        """The surface after `change`; raises `RuleBroken` where a rule of the format forbids it.

        `recall` is asked only when a tool result replaces another one.
        """
        if change.seq <= self._newest_seq:
            raise RuleBroken(
                Damage.SEQ_REPEATED,
                f"the surface has already seen seq {self._newest_seq}",
                change.seq,
            )
        op = change.op
        if isinstance(op, Append):
            return self._append(change)
        first, last = self._ends(op.start_seq, op.end_seq, change.seq)
        shadowed = self._cut(first, last)
        self._admit(change, shadowed, recall)
        return self._replace(change, first, last, shadowed)

    def _append(self, change: SurfaceChange) -> "Surface":
        longer = self._copy()
        last = (Node(change.seq, change.kind, change.place, change.seq),)
        if len(self._tail) < BLOCK_NODES:
            longer._tail = self._tail + last  # half the price of unpacking, at every message
        else:
            longer._blocks = (*self._blocks, self._tail)
            longer._tail = last
        longer._newest_seq = change.seq
        longer._count = self._count + 1
        return longer

    def _replace(
        self,
        change: SurfaceChange,
        first: tuple[int, int],
        last: tuple[int, int],
        shadowed: tuple[Node, ...],
    ) -> "Surface":
        node = Node(change.seq, change.kind, change.place, shadowed[0].order)
        merged = (
            *self._block(first[0])[: first[1]],
            node,
            *self._block(last[0])[last[1] + 1 :],
        )
        shorter = self._copy()
        blocks = _in_blocks(merged)
        if last[0] == len(self._blocks):
            shorter._blocks, shorter._tail = self._blocks[: first[0]] + blocks[:-1], blocks[-1]
        else:
            shorter._blocks = self._blocks[: first[0]] + blocks + self._blocks[last[0] + 1 :]
        shorter._count = self._count - len(shadowed) + 1
        shorter._newest_seq = node.seq
        shorter._orders[node.seq] = node.order
        shorter._generation = self._generation + 1
        shorter._last = Replacement(shorter._generation, node, shadowed)
        return shorter

    def _copy(self) -> "Surface":
        twin = Surface.__new__(Surface)
        twin._blocks, twin._tail, twin._count = self._blocks, self._tail, self._count
        twin._generation, twin._last = self._generation, self._last
        twin._newest_seq, twin._orders = self._newest_seq, self._orders
        return twin

    # The rules of a replacement -------------------------------------------------------------------

    def _ends(
        self, start_seq: int, end_seq: int, seq: int | None
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        first = self._locate(start_seq)
        last = first if start_seq == end_seq else self._locate(end_seq)
        if first is None or last is None:
            gone = start_seq if first is None else end_seq
            raise RuleBroken(
                Damage.RANGE_NOT_ON_SURFACE,
                f"the replaced range {start_seq}–{end_seq} names {gone},"
                " which is not on the surface",
                seq,
            )
        if first > last:
            raise RuleBroken(
                Damage.RANGE_BACKWARDS,
                f"the replaced range starts at {start_seq}, which stands behind its end {end_seq}",
                seq,
            )
        return first, last

    def _admit(self, change: SurfaceChange, shadowed: tuple[Node, ...], recall: Recall) -> None:
        _check_sources(change, shadowed)
        is_prompt = shadowed[0].kind == "system" and shadowed[0] is self.head
        if is_prompt and (change.kind != "system" or len(shadowed) > 1):
            raise RuleBroken(
                Damage.SYSTEM_FOLDED,
                f"the system message at the head (seq {shadowed[0].seq}) may be replaced only by"
                " a system message over just that node",
                change.seq,
            )
        if change.kind == "tool":
            _check_prune(change, shadowed, recall)

    # Places ---------------------------------------------------------------------------------------

    def _block(self, index: int) -> tuple[Node, ...]:
        return self._tail if index == len(self._blocks) else self._blocks[index]

    def _locate(self, seq: int) -> tuple[int, int] | None:
        order = self._orders.get(seq, seq)
        tail = self._tail
        if self._blocks and (not tail or tail[0].order > order):
            index = max(0, bisect_right(self._blocks, order, key=_first_order) - 1)
        else:
            index = len(self._blocks)
        block = self._block(index)
        at = bisect_right(block, order, key=_order) - 1
        if at >= 0 and block[at].seq == seq:
            return index, at
        return self._search(seq) if seq in self._orders else None

    def _search(self, seq: int) -> tuple[int, int] | None:
        """The slow, certain way: needed only on a surface that another was derived from."""
        for index in range(len(self._blocks) + 1):
            for at, node in enumerate(self._block(index)):
                if node.seq == seq:
                    return index, at
        return None

    def _cut(self, first: tuple[int, int], last: tuple[int, int]) -> tuple[Node, ...]:
        if first[0] == last[0]:
            return self._block(first[0])[first[1] : last[1] + 1]
        inner = chain.from_iterable(self._blocks[first[0] + 1 : last[0]])
        return (*self._block(first[0])[first[1] :], *inner, *self._block(last[0])[: last[1] + 1])


def _in_blocks(nodes: tuple[Node, ...]) -> _Blocks:
    """What a replacement leaves of two blocks, as one; as more where it grew by that too often."""
    if len(nodes) <= 2 * BLOCK_NODES:
        return (nodes,)
    return tuple(nodes[at : at + BLOCK_NODES] for at in range(0, len(nodes), BLOCK_NODES))


def _order(node: Node) -> int:
    return node.order


def _first_order(block: tuple[Node, ...]) -> int:
    return block[0].order


def _check_sources(change: SurfaceChange, shadowed: tuple[Node, ...]) -> None:
    if change.sources == tuple(node.seq for node in shadowed):
        return  # just what leaves: nodes are earlier than the event, and none is there twice
    named = _Named(change.sources)
    if named.repeats:
        raise RuleBroken(
            Damage.SOURCES_REPEATED, "sourceEventSeqs names a seq more than once", change.seq
        )
    missing = named.first_left_out(node.seq for node in shadowed)
    if missing is not None:
        raise RuleBroken(
            Damage.SOURCES_INCOMPLETE,
            f"sourceEventSeqs leaves out {missing}, which the event replaces",
            change.seq,
        )
    if named.newest_seq >= change.seq:
        raise RuleBroken(
            Damage.SOURCES_LATER,
            f"sourceEventSeqs names {named.newest_seq}, which is not earlier than the event itself",
            change.seq,
        )


class _Named:
    """What a record's sources stand for: `repeats` tells whether a seq is among them twice."""

    __slots__ = ("_firsts", "_lasts", "_seqs", "newest_seq", "repeats")

    def __init__(self, sources: Sources) -> None:
        """Looks at the ends of ranges only."""
        seqs = [one for one in sources if isinstance(one, int)]
        ranges = sorted(one for one in sources if isinstance(one, tuple))
        self._seqs = set(seqs)
        self._firsts = [first for first, _ in ranges]
        self._lasts = [last for _, last in ranges]
        self.newest_seq = max([*seqs, *self._lasts], default=-1)
        self.repeats = (
            len(self._seqs) < len(seqs)
            or any(map(int.__ge__, self._lasts, self._firsts[1:]))
            or (bool(ranges) and any(map(self._is_in_a_range, seqs)))
        )

    def first_left_out(self, seqs: Iterable[int]) -> int | None:
        """The first of `seqs` that is not among them."""
        left_out = (seq for seq in seqs if seq not in self._seqs)
        return next((seq for seq in left_out if not self._is_in_a_range(seq)), None)

    def _is_in_a_range(self, seq: int) -> bool:
        at = bisect_right(self._firsts, seq) - 1
        return at >= 0 and seq <= self._lasts[at]


def _check_prune(change: SurfaceChange, shadowed: tuple[Node, ...], recall: Recall) -> None:
    original = shadowed[0]
    if len(shadowed) > 1 or original.kind != "tool":
        raise RuleBroken(
            Damage.RESULT_REPLACES_OTHER,
            "a tool result may replace only exactly one tool result",
            change.seq,
        )
    if recall(original) != change.identity:
        raise RuleBroken(
            Damage.RESULT_CHANGED,
            f"the result that replaces {original.seq} changes more than its content",
            change.seq,
        )
