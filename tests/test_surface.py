"""The fold: what a replacement does to the conversation, and which ones are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import APPEND, NOWHERE, Kind, Replace, SurfaceChange
from dsh_compact.surface import BLOCK_NODES, Node, Surface

IDENTITY = b'{"turn":1}'


def same(_: Node) -> bytes:
    """Every result's record, but for its content, is this one."""
    return IDENTITY


def appended(seq: int, kind: Kind = "user") -> SurfaceChange:
    """An event that becomes the last node."""
    return SurfaceChange(seq, kind, APPEND, (), NOWHERE)


def replacing(
    seq: int,
    start_seq: int,
    end_seq: int,
    sources: Iterable[int | tuple[int, int]],
    *,
    kind: Kind = "user",
    identity: bytes | None = None,
) -> SurfaceChange:
    """An event that takes the place of a range."""
    return SurfaceChange(seq, kind, Replace(start_seq, end_seq), tuple(sources), NOWHERE, identity)


def surface_of(*kinds: Kind) -> Surface:
    """A surface of appended nodes, with seqs from 0."""
    surface = Surface()
    for seq, kind in enumerate(kinds):
        surface = surface.extend(appended(seq, kind), same)
    return surface


def test_a_replacement_takes_the_place_of_its_range() -> None:
    """The nodes of the range leave, and the new one stands where they stood."""
    surface = surface_of("user", "assistant", "user", "assistant")
    folded = surface.extend(replacing(4, 1, 2, [1, 2]), same)
    assert (0, 4, 3) == folded.seqs
    assert (0, 1) == (surface.replace_generation, folded.replace_generation)


def test_a_range_goes_by_places_and_not_by_numbers() -> None:
    """After a replacement a range may start at a higher seq than it ends at."""
    surface = surface_of("user", "user", "user").extend(replacing(3, 0, 1, [0, 1]), same)
    assert (3, 2) == surface.seqs
    assert (4,) == surface.extend(replacing(4, 3, 2, [2, 3]), same).seqs


def test_a_surface_stays_true_after_another_was_made_of_it() -> None:
    """An earlier surface still finds its nodes, those that have left meanwhile too."""
    old = surface_of("user", "user").extend(replacing(2, 0, 0, [0]), same)
    one = old.extend(replacing(3, 2, 1, [1, 2]), same)
    other = old.extend(replacing(3, 1, 1, [1]), same)
    assert [(2, 1), (3,), (2, 3)] == [old.seqs, one.seqs, other.seqs]
    same_seq = old.extend(replacing(3, 2, 2, [2]), same)
    for surface, seq in ((old, 2), (one, 3), (other, 3), (same_seq, 3)):
        node = surface.find(seq)
        assert node is not None
        assert seq == node.seq
    assert None is one.find(2)


def test_the_newest_replacement_is_told() -> None:
    """`last` names the generation, the new node, and the nodes that left."""
    surface = surface_of("user", "user").extend(replacing(2, 0, 1, [0, 1]), same)
    assert surface.last is not None
    assert (1, 2, [0, 1]) == (
        surface.last.generation,
        surface.last.node.seq,
        [node.seq for node in surface.last.shadowed],
    )


def test_a_prune_changes_a_results_content_alone() -> None:
    """A tool result replaces the very result that it repeats."""
    surface = surface_of("assistant", "tool")
    pruned = replacing(2, 1, 1, [1], kind="tool", identity=IDENTITY)
    assert (0, 2) == surface.extend(pruned, same).seqs


def test_a_system_message_replaces_the_one_at_the_head() -> None:
    """The prompt may change, and that is a generation too."""
    surface = surface_of("system", "user").extend(replacing(2, 0, 0, [0], kind="system"), same)
    assert ((2, 1), 1) == (surface.seqs, surface.replace_generation)


WRONG = {
    "an end that is not there": (replacing(9, 1, 7, [1]), Damage.RANGE_NOT_ON_SURFACE),
    "a start that is not there": (replacing(9, 8, 2, [2]), Damage.RANGE_NOT_ON_SURFACE),
    "backwards": (replacing(9, 3, 2, [2, 3]), Damage.RANGE_BACKWARDS),
    "a node left out of the sources": (replacing(9, 1, 3, [1, 3]), Damage.SOURCES_INCOMPLETE),
    "no sources": (replacing(9, 1, 1, []), Damage.SOURCES_INCOMPLETE),
    "a source twice": (replacing(9, 1, 1, [1, 1]), Damage.SOURCES_REPEATED),
    "a range that is named once more": (replacing(9, 1, 1, [(1, 3), 2]), Damage.SOURCES_REPEATED),
    "ranges that overlap": (replacing(9, 1, 1, [(3, 5), (1, 3)]), Damage.SOURCES_REPEATED),
    "a node between the ranges": (replacing(9, 1, 3, [(0, 1), (3, 8)]), Damage.SOURCES_INCOMPLETE),
    "a range that ends too late": (replacing(9, 1, 1, [(0, 9)]), Damage.SOURCES_LATER),
    "a range of billions": (replacing(9, 1, 1, [(0, 10**15)]), Damage.SOURCES_LATER),
    "itself among the sources": (replacing(9, 1, 1, [1, 9]), Damage.SOURCES_LATER),
    "a later source": (replacing(9, 1, 1, [1, 10]), Damage.SOURCES_LATER),
    "the prompt folded": (replacing(9, 0, 1, [0, 1]), Damage.SYSTEM_FOLDED),
    "the prompt replaced by a user": (replacing(9, 0, 0, [0]), Damage.SYSTEM_FOLDED),
    "prompt and more replaced by a prompt": (
        replacing(9, 0, 1, [0, 1], kind="system"),
        Damage.SYSTEM_FOLDED,
    ),
    "a result over a message": (
        replacing(9, 1, 1, [1], kind="tool", identity=IDENTITY),
        Damage.RESULT_REPLACES_OTHER,
    ),
    "a result over two nodes": (
        replacing(9, 3, 4, [3, 4], kind="tool", identity=IDENTITY),
        Damage.RESULT_REPLACES_OTHER,
    ),
    "a result that changes more": (
        replacing(9, 3, 3, [3], kind="tool", identity=b"{}"),
        Damage.RESULT_CHANGED,
    ),
    "a seq that the surface has passed": (appended(4), Damage.SEQ_REPEATED),
    "a replacement with an old seq": (replacing(2, 1, 1, [1]), Damage.SEQ_REPEATED),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_breaks_a_rule_is_refused_and_changes_nothing(case: str) -> None:
    """The error carries the damage's code and the seq, and the surface is as it was."""
    change, damage = WRONG[case]
    surface = surface_of("system", "user", "assistant", "tool", "tool")
    before = (surface.seqs, surface.replace_generation, surface.last)
    with pytest.raises(RuleBroken) as raised:
        surface.extend(change, same)
    assert (damage, change.seq) == (raised.value.damage, raised.value.seq)
    assert before == (surface.seqs, surface.replace_generation, surface.last)


# Laws ---------------------------------------------------------------------------------------------


@st.composite
def moves(draw: st.DrawFn, most: int) -> list[tuple[int, int] | None]:
    """Appends (None) and replaced stretches, as parts of the surface: from here, so much of it."""
    span = st.tuples(st.integers(0, 1_000), st.integers(0, 1_000))
    return draw(st.lists(st.none() | span, max_size=most))


def played(moves: Sequence[tuple[int, int] | None], first: int) -> tuple[list[int], int, Surface]:
    """The moves on a plain list and on a surface, which starts with `first` appended nodes."""
    users: list[Kind] = ["user"] * first
    naive, generation, surface = [*range(first)], 0, surface_of(*users)
    for seq, move in enumerate(moves, first):
        if move is None or not naive:
            naive.append(seq)
            surface = surface.extend(appended(seq), same)
            continue
        start = move[0] * (len(naive) - 1) // 1_000
        end = start + move[1] * (len(naive) - 1 - start) // 1_000
        leaving = naive[start : end + 1]
        naive[start : end + 1] = [seq]
        generation += 1
        change = replacing(seq, leaving[0], leaving[-1], leaving)
        surface = surface.extend(change, same)
        assert surface.last is not None
        assert leaving == [node.seq for node in surface.last.shadowed]
    return naive, generation, surface


@given(moves(60), st.sampled_from([0, 1, 7, BLOCK_NODES, 3 * BLOCK_NODES + 1]))
def test_it_is_a_list_with_stretches_replaced(
    moves: list[tuple[int, int] | None], first: int
) -> None:
    """Whatever happens, the surface equals a plain list on which the same was done."""
    naive, generation, surface = played(moves, first)
    assert (naive, generation) == ([*surface.seqs], surface.replace_generation)
    assert len(naive) == len(surface)
    assert (naive[0] if naive else None) == (surface.head.seq if surface.head else None)


@given(moves(40))
def test_every_node_is_found_by_its_seq(moves: list[tuple[int, int] | None]) -> None:
    """`find` and `span` agree with walking along the surface."""
    naive, _, surface = played(moves, BLOCK_NODES + 3)
    for seq in range(BLOCK_NODES + 3 + len(moves)):
        node = surface.find(seq)
        assert (seq in naive) == (node is not None)
    middle = len(naive) // 2
    assert naive[middle:] == [node.seq for node in surface.span(naive[middle], naive[-1])]


def test_equal_surfaces_are_equal_however_they_came_about() -> None:
    """The nodes and the generation make a surface, and nothing else."""
    left, right = surface_of("user", "user"), surface_of("user", "user")
    assert left == right
    assert hash(left) == hash(right)
    assert left != left.extend(replacing(2, 0, 1, [0, 1]), same)
    assert left != "a surface"


def test_no_block_grows_without_end() -> None:
    """A replacement copies what is left of the blocks where it begins and ends, however often they
    were joined before.
    """
    surface = Surface()
    seq, last = 0, None
    for _ in range(20):
        for first in range(seq, seq + BLOCK_NODES):
            surface = surface.extend(appended(first), same)
        if last is not None:
            surface = surface.extend(replacing(first + 1, last, seq, [last, seq]), same)
        seq, last = first + 2, first
    assert 20 * (BLOCK_NODES - 1) + 1 == len(surface)
    assert 2 * BLOCK_NODES >= max(map(len, (*surface._blocks, surface._tail)))
    assert all(surface.find(node.seq) is node for node in surface)


@pytest.mark.parametrize("sources", [[(0, 8)], [(1, 3)], [1, (2, 3)], [(2, 3), 1], [(1, 1), 2, 3]])
def test_a_range_names_all_between_its_ends(sources: list[int | tuple[int, int]]) -> None:
    """Alone or among seqs, in any order, earlier seqs with it or not."""
    surface = surface_of("system", "user", "user", "user", "user")
    assert (0, 9, 4) == surface.extend(replacing(9, 1, 3, sources), same).seqs
