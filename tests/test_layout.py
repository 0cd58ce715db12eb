"""Setting an outline into a bound: exact, fair, and telling what was left out."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.summarizers.extract.language import PHRASES
from dsh_compact.summarizers.extract.layout import SHARES, clip, layout, units
from dsh_compact.summarizers.extract.outline import Entry, Outline, Part, Section
from dsh_compact.tokens import price_text

EN: Final = PHRASES["en"]


def outline(**sections: list[str]) -> Outline:
    """An outline of texts; the later an entry the lower its rank."""
    return {
        Section(name): Part(
            entries=tuple(Entry(text=text, rank=-i) for i, text in enumerate(texts))
        )
        for name, texts in sections.items()
    }


def test_with_room_everything_stands_in_order() -> None:
    """Sections come in their reading order, whatever their importance, under headings."""
    made = layout(outline(open=["c"], requests=["a", "b"]), EN, 200)
    assert "## Requests\n- a\n- b\n\n## Open work\n- c" == made


def test_without_room_for_headings_a_section_is_a_line() -> None:
    """Below the bound where headings pay, entries stand behind their section's name."""
    assert "Requests: a; b\nOpen work: c" == layout(
        outline(requests=["a", "b"], open=["c"]), EN, 60
    )


def test_the_highest_rank_goes_first() -> None:
    """Where entries must go, those of the lowest rank stay, in their order, the rest is counted."""
    texts = [f"number {i} " + "x" * 100 for i in range(50)]
    made = layout(outline(requests=texts), EN, 200)
    lines = made.split("\n")[1:]
    assert "- … 41 more" == lines[-1]
    assert [f"number {i}" for i in range(41, 50)] == [line[2:11] for line in lines[:-1]]


def test_the_least_important_section_goes_first() -> None:
    """In a very small bound the sections that matter least have no line at all."""
    texts = {str(section): [f"{section} " + "word " * 40] for section in Section}
    made = layout(outline(**texts), EN, 60)
    assert ["Requests", "Last in progress"] == [line.partition(":")[0] for line in made.split("\n")]


def test_shares_are_percents_of_all_sections() -> None:
    """Every section has a share, and they make up the whole."""
    assert {*Section} == {*SHARES}
    assert 100 == sum(SHARES.values())


@pytest.mark.parametrize(
    ("wanted", "text", "room"),
    [
        ("short", "short", 20),
        ("the first words … the last", "the first words and many more until the last", 28),
        ("abc", "abcdefgh", 3),
        ("", "abc", 0),
        ("", "abc", -5),
        ("😀", "😀😀😀", 3),
    ],
)
def test_clipping(wanted: str, text: str, room: int) -> None:
    """Beginning and end are kept, cut between words, and never half a character of two units."""
    assert wanted == clip(text, room)


@given(st.text(max_size=300), st.integers(-5, 400))
def test_a_clipped_text_fits(text: str, room: int) -> None:
    """Whatever the text, no more units than allowed, and a text that fits stays whole."""
    clipped = clip(text, room)
    assert units(clipped) <= max(0, room)
    if units(text) <= room:
        assert text == clipped


@given(
    st.dictionaries(
        st.sampled_from([*Section]),
        st.builds(
            Part,
            entries=st.lists(
                st.builds(Entry, text=st.text(min_size=1, max_size=200), rank=st.integers(-9, 9)),
                max_size=9,
            ).map(tuple),
            omitted=st.integers(0, 99),
        ),
    ),
    st.sampled_from([*PHRASES]),
    st.integers(1, 500),
)
def test_the_bound_holds_for_every_outline(made: Outline, code: str, max_tokens: int) -> None:
    """No outline, language or bound gives a text that costs more than the bound."""
    assert price_text(layout(made, PHRASES[code], max_tokens)) <= max_tokens
