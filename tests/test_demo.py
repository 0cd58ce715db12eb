"""The session that ships: its data are what tests/demo.py makes, and it is stuck unawares."""

from typing import Final

import plain_reader
from demo import DATA, WINDOW_TOKENS, demo

from dsh_compact import tokenizers
from dsh_compact.history import read_history
from dsh_compact.measurement import measure
from dsh_compact.moments import read_at_generation
from dsh_compact.session import read_session
from dsh_compact.verify import verify

OTHERS_SIZE_BYTES: Final = 65_536


def test_the_data_are_made() -> None:
    """Whoever changes the one writes the other anew: python tests/demo.py."""
    assert demo().bytes() == DATA.read_bytes()
    assert OTHERS_SIZE_BYTES > DATA.stat().st_size


def test_the_estimate_sees_nothing_coming() -> None:
    """Estimated below the threshold, by a real count over the wall: by an eighth at least."""
    with read_session(DATA) as session:
        measured = measure(session, tokenizer=tokenizers.load("o200k_base"))
    assert (WINDOW_TOKENS, False) == (measured.window_tokens, measured.over_threshold)
    assert measured.tokenizer is not None
    counted = measured.tokenizer.surface_tokens + measured.tokenizer.header_tokens
    assert counted > WINDOW_TOKENS * 9 // 8


def test_it_has_a_story() -> None:
    """A refusal, a prune, a summary, an answer, a failed attempt: something to show for each."""
    history = read_history(str(DATA))
    assert ["prune", "summary"] == [one.kind for one in history.replacements]
    assert 1 == len(history.attempts)
    assert "REFUSED, ANSWERED" == ", ".join(
        type(row).__name__.upper()
        for row in history.rows
        if type(row).__name__ in ("Refused", "Answered")
    )


def test_its_prune_keeps_the_head_of_what_it_cuts() -> None:
    """What is shown of a pruned result stood in the result."""
    with read_at_generation(DATA, 0) as before, read_at_generation(DATA, 1) as after:
        whole, cut = (
            next(one.message(node).text for node in one.surface if node.seq in (15, 20))
            for one in (before, after)
        )
    head, mark = cut.rsplit("\n", 1)
    assert whole.startswith(head)
    assert "[… the rest of the listing was cut …]" == mark


def test_it_is_sound() -> None:
    """The harness would open it."""
    assert () == verify(DATA).findings
    assert None is plain_reader.read(DATA.read_bytes()).refused
