"""What a summary is made of: which entries of a section stay where there are too many."""

from dsh_compact.summarizers.extract.outline import MOST_ENTRIES, Entry, foremost


def entries(ranks: list[int]) -> list[Entry]:
    """An entry for each rank, told apart by its text."""
    return [Entry(text=str(number), rank=rank) for number, rank in enumerate(ranks)]


def test_few_entries_all_stay() -> None:
    """In their order, whatever their ranks."""
    few = entries([3, 1, 2])
    assert few == foremost(iter(few))


def test_of_many_entries_those_that_give_way_first_are_gone() -> None:
    """The highest ranks leave; the others keep their order."""
    many = entries([*range(MOST_ENTRIES + 2)][::-1])
    assert many[2:] == foremost(many)


def test_entries_of_one_rank_are_not_all_lost_together() -> None:
    """Where ranks say nothing, the first ones stay."""
    many = entries([5] * (MOST_ENTRIES + 100))
    assert many[:MOST_ENTRIES] == foremost(many)
