"""From texts to requests: counts remembered, messages framed, blocks taken apart."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import LOGS

from dsh_compact.events import Header, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from dsh_compact.tokenizers import Progress, Tokenizer, TokenizerUnavailable, load
from dsh_compact.tokenizers.cache import CountCache
from dsh_compact.tokenizers.conversation import header_pieces, pieces
from dsh_compact.tokenizers.framing import (
    MESSAGE_FRAME_TOKENS,
    REPLY_TOKENS,
    RequestTokens,
    count_request,
    estimate_error,
)


class Words:
    """A tokenizer of one token a word that writes down what it is asked."""

    name: Final = "words"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        return self.count_many((text,))[0]

    def count_many(self, texts: Sequence[str], progress: Progress | None = None) -> list[int]:
        self.asked += texts
        if progress is not None:
            progress(sum(map(len, texts)))
        return [len(text.split()) for text in texts]


COUNTED_TWICE: Final = """
import sys
from collections import Counter
from dsh_compact.__main__ import main
from dsh_compact.cli import many
from dsh_compact.tokenizers.bytepair import BytePairTokenizer
asked = Counter()
count_many = BytePairTokenizer.count_many
def noted(self, texts, progress=None):
    asked.update(texts)
    return count_many(self, texts, progress)
BytePairTokenizer.count_many = noted
many.HERE_SECONDS = 1_000  # so that this process hears of all
code = main(sys.argv[1:])
print(f"{code} {len(asked)} {max(asked.values())}", file=sys.stderr)
"""
"""Runs a command and tells its code, how many texts were counted, and how often at most."""


@pytest.mark.parametrize(
    "words",
    [
        ["recover", "--json"],
        ["recover", "--compare", "--json"],
        ["conformance", "--json"],
        ["measure", "--tokenizer", "o200k_base", LOGS],
    ],
    ids=["recover", "recover --compare", "conformance", "measure FOLDER"],
)
def test_a_command_counts_a_text_once(words: list[str | Path]) -> None:
    """Whatever it is part of: each round's request, each discipline's copy, each log."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTED_TWICE, *words], capture_output=True, text=True, check=False
    )
    code, texts, most = map(int, done.stderr.split()[-3:])
    assert code in (0, 3, 4)
    assert texts > 10
    assert 1 == most


# The cache ----------------------------------------------------------------------------------------


def test_a_text_is_counted_once() -> None:
    """Neither a second call nor a repetition in one call reaches the tokenizer again."""
    words = Words()
    cache = CountCache(words)
    assert [2, 1, 2] == cache.count_many(["a b", "c", "a b"])
    assert [1, 2, 3] == cache.count_many(["c", "a b", "d e f"])
    assert ["a b", "c", "d e f"] == words.asked
    assert "words" == cache.name


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    """Beyond its limit a cache counts anew, but still right, and a text in use stays."""
    words = Words()
    cache = CountCache(words, limit_texts=2)
    assert [1, 1, 1] == [cache.count(text) for text in "aba"]
    assert [1, 1] == [cache.count(text) for text in "ca"]
    assert ["a", "b", "c"] == words.asked
    assert 1 == cache.count("b")
    assert ["a", "b", "c", "b"] == words.asked


def test_one_call_may_be_larger_than_the_cache() -> None:
    """More texts at once than are remembered are all counted, each in its place."""
    cache = CountCache(Words(), limit_texts=3)
    texts = [" w" * length for length in range(20)]
    assert list(range(20)) == cache.count_many(texts)
    assert list(range(20)) == cache.count_many(texts)


@given(texts=st.lists(st.text("ab \ud83d", max_size=4)), limit_texts=st.integers(0, 4))
def test_a_cache_answers_as_its_tokenizer(texts: list[str], limit_texts: int) -> None:
    """Whatever was asked before, the counts are the tokenizer's, and progress is complete."""
    cache = CountCache(Words(), limit_texts)
    done: list[int] = []
    for asked in (texts, texts[::2], texts[::-1]):
        assert Words().count_many(asked) == cache.count_many(asked, done.append)
    assert sum(map(len, [*texts, *texts[::2], *texts])) == sum(done)


# The frame ----------------------------------------------------------------------------------------


def test_each_message_has_a_frame_and_the_request_a_reply() -> None:
    """Texts are counted by the tokenizer, the rest by the constants; no texts, no message."""
    counted = count_request([["a b", "c"], [], [""]], ["d e"], Words())
    assert RequestTokens(message_tokens=(3 + 4, 0, 4), header_tokens=2) == counted
    assert (11, 2 + 11 + 3) == (counted.surface_tokens, counted.total_tokens)
    assert (4, 3) == (MESSAGE_FRAME_TOKENS, REPLY_TOKENS)


def test_nothing_to_send_costs_nothing() -> None:
    """An empty request has no reply to prime."""
    assert 0 == count_request([], [], Words()).total_tokens


def test_a_request_is_counted_in_one_go() -> None:
    """All texts, the header's too, reach the tokenizer and the progress bar."""
    done: list[int] = []
    words = Words()
    count_request([["ab"], ["c", "d"]], ["efg"], words, done.append)
    assert ["ab", "c", "d", "efg"] == words.asked
    assert 7 == sum(done)


def test_the_cookbooks_example() -> None:
    """OpenAI's own example of six messages has the 124 tokens that its API reports for gpt-4o."""
    system = (
        "You are a helpful, pattern-following assistant that translates corporate jargon "
        "into plain English."
    )
    named = [
        "New synergies will help drive top-line growth.",
        "Things working well together will increase revenue.",
        (
            "Let's circle back when we have more bandwidth to touch base on opportunities "
            "for increased leverage."
        ),
        "Let's talk later when we're less busy about how to do better.",
    ]
    asked = "This late pivot means we don't have time to boil the ocean for the client deliverable."
    # A message with a name costs the name and one token more.
    names = ["example_user", "example_assistant"] * 2
    messages = [[system], *([text, name] for text, name in zip(named, names, strict=True)), [asked]]
    counted = count_request(messages, [], load("o200k_base"))
    assert 124 == counted.total_tokens + len(names)


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_a_role_is_one_token(name: str, role: str) -> None:
    """The frame's constant holds: each role's name is a single token in OpenAI's vocabularies."""
    try:
        tokenizer: Tokenizer = load(name)
    except TokenizerUnavailable as missing:
        pytest.skip(str(missing))
    assert 1 == tokenizer.count(role)


@pytest.mark.parametrize(
    ("error", "estimate", "exact"), [(0.25, 125, 100), (-0.5, 50, 100), (0.0, 7, 7), (None, 5, 0)]
)
def test_the_estimates_error_is_a_part_of_the_exact_count(
    error: float | None, estimate: int, exact: int
) -> None:
    """Too much is positive, too little negative, and there is none where nothing was counted."""
    assert error == estimate_error(estimate, exact)


# The texts of a message ---------------------------------------------------------------------------


def test_every_block_has_its_texts() -> None:
    """Text, reasoning, a call's name and arguments, a result's content, unknown JSON: in order."""
    message = Message(
        role="assistant",
        content=(
            Reasoning(text="hm"),
            Text(text="now"),
            ToolCall(id="7", name="read", arguments='{"a":1}'),
            ToolResult(
                call_id="7",
                content=(
                    Text(text="one"),
                    Opaque(kind="image", json=b'{"type":"image"}', length=16),
                ),
                is_error=False,
            ),
            Text(text="done"),
        ),
    )
    assert ["hm", "now", "read", '{"a":1}', "one", '{"type":"image"}', "done"] == pieces(message)


def test_no_content_is_no_text() -> None:
    """An empty message yields nothing, as it yields nothing on the surface."""
    assert [] == pieces(Message(role="assistant", content=()))


def test_results_inside_results_are_no_danger() -> None:
    """Nesting far beyond Python's own depth is taken apart all the same."""
    inner: Text | ToolResult = Text(text="deep")
    for _ in range(5_000):
        inner = ToolResult(call_id="1", content=(inner,), is_error=False)
    assert ["deep"] == pieces(Message(role="tool", content=(inner,)))


def header(system: str | None, tools_json: bytes | None) -> Header:
    """A request header with what a model sees of it."""
    return Header(
        provider="p",
        model="m",
        max_tokens=None,
        system=system,
        tools_json=tools_json,
        tools_length=len(tools_json or b""),
        identity=b"",
    )


@pytest.mark.parametrize(
    ("texts", "given_header"),
    [
        ([], None),
        ([], header(None, None)),
        ([], header("", b"")),
        (["be brief"], header("be brief", None)),
        (["be brief", "[{}]"], header("be brief", b"[{}]")),
        (["[\ufffd]"], header(None, b"[\xff]")),
    ],
)
def test_a_header_is_its_system_prompt_and_its_tools(
    texts: list[str], given_header: Header | None
) -> None:
    """What a header does not have is not counted, and broken bytes are replaced."""
    assert texts == header_pieces(given_header)
