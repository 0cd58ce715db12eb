"""Planning: cuts part no call from its result, spans are worth it, prunes keep head and tail."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.planning import (
    LEAST_SUMMARY_TOKENS,
    Item,
    NoSpan,
    PruneBudget,
    Span,
    choose,
    objection,
    pruned_texts,
    safe_cuts,
    summary_budget,
    tail_seqs,
)
from dsh_compact.policy import MARKER_CHARACTERS

FRAMING_TOKENS = 76
WORTH = 1000  # far more than the least that is worth folding


def items(*words: str, tokens: int = WORTH) -> list[Item]:
    """A surface in short: `s` system, `u` user, `k` checkpoint, `a` assistant, `a:x,y` with calls,
    `t:x` the result of x; `=N` behind a word gives its tokens.
    """
    return [_item(seq, word, tokens) for seq, word in enumerate(words)]


def _item(seq: int, word: str, tokens: int) -> Item:
    shape, _, price = word.partition("=")
    letter, _, names = shape.partition(":")
    kinds: dict[str, Any] = {
        "s": "system", "u": "user", "k": "user", "a": "assistant", "t": "tool", "d": "developer",
    }  # fmt: skip
    calls = tuple(names.split(",")) if letter == "a" and names else ()
    answers = names if letter == "t" else None
    return Item(seq, kinds[letter], int(price or tokens), calls, answers, letter == "k")


# Cuts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "cuts"),
    [
        ("", []),
        ("u a u", [0, 1, 2]),
        ("u a:x t:x u", [0, 1, 3]),
        ("u a:x,y t:x t:y u", [0, 1, 4]),
        ("u a:x,y t:y t:x u", [0, 1, 4]),
        ("u a:x u t:x u", [0, 1, 4]),  # a message came in while the call ran
        ("u a:x,y t:x", [0, 1]),  # y is still open at the tail
        ("u a:x", [0, 1]),
        ("u a:x u u", [0, 1]),  # open, though others spoke since
        ("u a:x u a u", [0, 1, 2, 3, 4]),  # an older one that never gets its answer
        ("u a:x t:x a:x t:x u", [0, 1, 3, 5]),  # an id that is used again
        ("t:z u", [0, 1]),  # a result whose call is gone
        ("u a:x,y t:x a:z t:z u", [0, 1, 3, 5]),
    ],
)
def test_a_safe_cut_parts_no_call_from_its_result(words: str, cuts: list[int]) -> None:
    """Several calls in one message, results in any order, an open call at the tail."""
    assert cuts == safe_cuts(items(*words.split()))


@st.composite
def surfaces(draw: st.DrawFn) -> list[Item]:
    """Any surface: messages, calls with results in any order, perhaps open calls at the end."""
    words: list[str] = ["s"] if draw(st.booleans()) else []
    waiting: list[str] = []
    for number in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from("uukaAAt"))
        if kind == "t" and waiting:
            words.append(f"t:{waiting.pop(draw(st.integers(0, len(waiting) - 1)))}")
        elif kind == "A" and not waiting:
            waiting = [f"c{number}.{i}" for i in range(draw(st.integers(1, 3)))]
            words.append("a:" + ",".join(waiting))
        elif kind in "uka" and (kind != "a" or not waiting):
            words.append(kind)
    return [_item(i, f"{w}={draw(st.integers(0, 900))}", 0) for i, w in enumerate(words)]


@given(surfaces())
def test_every_cut_that_is_safe_is_found_and_no_other(surface: list[Item]) -> None:
    """A cut is safe exactly where each call before it has its answer before it, by definition."""
    newest = max((i for i, one in enumerate(surface) if one.kind == "assistant"), default=-1)
    for cut in range(len(surface)):
        before = {one.answers for one in surface[:cut]}
        after = {one.answers for one in surface[cut:]}
        open_calls = [c for one in surface[:cut] for c in one.calls if c not in before]
        safe = not any(c in after for c in open_calls) and not (
            newest < cut and any(c in surface[newest].calls for c in open_calls)
        )
        assert safe == (cut in safe_cuts(surface)), (cut, surface)


# Choosing -----------------------------------------------------------------------------------------


def chosen(words: str, **wishes: Any) -> tuple[int, ...] | str:
    """The seqs that would go, or the reason why none would."""
    wishes = {"retain_tokens": 0, "framing_tokens": FRAMING_TOKENS, **wishes}
    found = choose(items(*words.split()), **wishes)
    return found.seqs if isinstance(found, Span) else found.reason


@pytest.mark.parametrize(
    ("words", "retain_tokens", "seqs"),
    [
        ("s u a u a", 0, (1, 2, 3)),
        ("s u a u a", 1000, (1, 2, 3)),
        ("s u a u a", 1001, (1, 2)),
        ("s u a u a", 2000, (1, 2)),
        ("u a u a", 0, (0, 1, 2)),
        ("s u a:x t:x u", 2000, (1,)),  # the tail begins at the result: the call stays with it
        ("s u a:x,y t:y t:x", 0, (1,)),  # the newest indivisible unit
        ("s u u a:x", 0, (1, 2)),
        ("s k u a u", 1000, (1, 2, 3)),
        ("s d u a", 0, (1, 2)),
    ],
)
def test_the_longest_span_before_the_tail_goes(
    words: str, retain_tokens: int, seqs: tuple[int, ...]
) -> None:
    """From behind the system message to where the newest items worth `retain_tokens` begin."""
    assert seqs == chosen(words, retain_tokens=retain_tokens)


@pytest.mark.parametrize(("keep_last", "seqs"), [(1, (1, 2, 3)), (2, (1, 2)), (3, (1,))])
def test_keep_last_counts_messages(keep_last: int, seqs: tuple[int, ...]) -> None:
    """`keep_last` stands in place of `retain_tokens`."""
    assert seqs == chosen("s u a u a", keep_last=keep_last, retain_tokens=10**9)


@pytest.mark.parametrize(
    ("words", "wishes", "reason"),
    [
        ("", {}, "the surface is empty"),
        ("s", {}, "nothing but the system message"),
        ("s u", {}, "belongs to the tail"),
        ("s u a", {"retain_tokens": 10**9}, "belongs to the tail"),
        ("s u a", {"keep_last": 9}, "belongs to the tail"),
        ("s a:x u t:x", {}, "belongs to the tail"),
        ("s k u", {}, "only an earlier checkpoint"),
        ("s k a=0 u", {}, "only an earlier checkpoint"),
        ("s u=10 a=10 u", {}, "20 tokens: a checkpoint would save next to nothing"),
        ("s k u=150 a", {}, "beside an earlier checkpoint only 150 tokens"),
    ],
)
def test_nothing_goes_where_nothing_useful_can(
    words: str, wishes: dict[str, Any], reason: str
) -> None:
    """The reason is a sentence for a user."""
    assert reason in str(chosen(words, **wishes))


def test_a_failed_attempt_is_not_repeated_without_news() -> None:
    """What was tried counts for nothing; as much news as is worth a fold by itself is needed."""
    assert "has failed" in str(chosen("s u a u", stale_seqs={1, 2}))
    assert "has failed" in str(chosen("s u a u=199 u", stale_seqs={1, 2}))
    assert (1, 2, 3) == chosen("s u a u=200 u", stale_seqs={1, 2})


def test_who_insists_tries_again_whatever_has_news() -> None:
    """By force a failed attempt is repeated, but a lone checkpoint is never folded again."""
    assert (1, 2) == chosen("s u a u", stale_seqs={1, 2}, insist=True)
    assert (1, 2) == chosen("s k u=1 a", insist=True)
    assert "only an earlier checkpoint" in str(chosen("s k u", insist=True))


def test_two_checkpoints_are_news_to_each_other() -> None:
    """Checkpoints that stand side by side may be merged."""
    assert (1, 2) == chosen("s k k u")


@given(surfaces(), st.integers(0, 3000), st.none() | st.integers(1, 5), st.booleans())
def test_what_is_chosen_may_always_be_replaced(
    surface: list[Item], retain_tokens: int, keep_last: int | None, insist: bool
) -> None:
    """A chosen span meets no objection, keeps the tail, and leaves room for a summary."""
    found = choose(
        surface,
        retain_tokens=retain_tokens,
        framing_tokens=FRAMING_TOKENS,
        keep_last=keep_last,
        insist=insist,
    )
    if isinstance(found, NoSpan):
        assert found.reason
        return
    assert "" == objection(surface, found.seqs)
    assert not tail_seqs(surface, retain_tokens, keep_last) & set(found.seqs)
    assert sum(one.tokens for one in surface if one.seq in found.seqs) == found.tokens
    assert summary_budget(found, FRAMING_TOKENS, None) + FRAMING_TOKENS < found.tokens


@pytest.mark.parametrize(
    ("seqs", "reason"),
    [
        ((), "does not begin on the surface"),
        ((9,), "does not begin on the surface"),
        ((1, 3), "not what stands on the surface"),
        ((4, 5, 6, 7), "not what stands on the surface"),
        ((0, 1), "the system message"),
        ((1, 2), "parts a tool call from its result"),
        ((3, 4), "parts a tool call from its result"),
        ((4, 5), "the newest messages must stay"),
        ((1, 2, 3), ""),
        ((2, 3, 4), ""),
    ],
)
def test_a_span_that_may_not_go_is_objected_to(seqs: tuple[int, ...], reason: str) -> None:
    """Whoever chose it: order, pairs, the system message and the newest messages are kept."""
    found = objection(items("s", "u", "a:x", "t:x", "u", "a"), seqs)
    assert (reason in found) if reason else not found


@pytest.mark.parametrize(
    ("tokens", "window", "budget"),
    [
        (200, None, LEAST_SUMMARY_TOKENS),
        (10_000, None, 4924),
        (100_000, None, 8192),
        (100_000, 8000, 800),
        (100_000, 100, LEAST_SUMMARY_TOKENS),
    ],
)
def test_a_summary_is_bounded(tokens: int, window: int | None, budget: int) -> None:
    """By half of the span, by a tenth of the window, and by what is a summary at all."""
    assert budget == summary_budget(Span(seqs=(1,), tokens=tokens), FRAMING_TOKENS, window)


# Pruning ------------------------------------------------------------------------------------------

SMALL = PruneBudget(threshold=20 + MARKER_CHARACTERS, head=12, tail=8)
MARK = "characters of this tool result left out"


def test_a_short_result_is_left_alone() -> None:
    """Up to the threshold, over all blocks, nothing is cut."""
    assert None is pruned_texts(["x" * SMALL.threshold], SMALL)
    assert None is pruned_texts(["x" * (SMALL.threshold - 1), "y"], SMALL)
    assert None is not pruned_texts(["x" * SMALL.threshold, "y"], SMALL)


def test_head_and_tail_stay_with_a_marker_between() -> None:
    """The marker says how much is gone."""
    text = "h" * 12 + "m" * 1000 + "t" * 8
    assert [f"{'h' * 12}\n\n[… 1000 {MARK} …]\n\n{'t' * 8}"] == pruned_texts([text], SMALL)


def test_blocks_keep_their_places() -> None:
    """Head and tail may lie in any block; one without a part of either becomes empty."""
    texts = ["a" * 10, "b" * 100, "c" * 300, "d" * 5]
    wanted = ["a" * 10, f"bb\n\n[… 395 {MARK} …]\n\n", "ccc", "d" * 5]
    assert wanted == pruned_texts(texts, SMALL)
    assert ["", "", "y" * 12] == [t[:12] for t in pruned_texts(["", "", "y" * 900], SMALL) or []]


def test_a_cut_between_blocks_puts_the_marker_before_the_next() -> None:
    """The head ends with its block: the block in which the cut begins carries the marker."""
    found = pruned_texts(["a" * 12, "", "b" * 900], SMALL)
    assert ["a" * 12, "", f"\n\n[… 892 {MARK} …]\n\n{'b' * 8}"] == found


@given(
    st.lists(st.text("a🚀é\ud83d\n", max_size=400), min_size=1, max_size=5),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_a_pruned_result_is_short_and_made_of_what_was_there(
    texts: list[str], head: int, tail: int
) -> None:
    """Counted in code points, so that no pair of surrogates is split; never pruned twice."""
    budget = PruneBudget(threshold=head + tail + MARKER_CHARACTERS, head=head, tail=tail)
    found = pruned_texts(texts, budget)
    whole = "".join(texts)
    if found is None:
        assert len(whole) <= budget.threshold
        return
    assert len(texts) == len(found)
    assert whole[:head] == "".join(found)[:head]
    assert whole[len(whole) - tail :] == "".join(found)[len("".join(found)) - tail :]
    assert 1 == "".join(found).count(f" {MARK} …]")
    assert len("".join(found)) < len(whole)
    assert None is pruned_texts(found, budget)
