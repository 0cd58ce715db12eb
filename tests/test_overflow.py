"""Refusals are read right, whoever words and wraps them; lookalikes never teach a window.

The wordings lie in `data`: `overflow-errors.jsonl`, labelled reports; `overflow-seen.jsonl`, what
the table was written with; `overflow-unseen.jsonl`, what was collected afterwards and tried once
before the table learnt from it: 107 of its 114 were told apart (overflow or not), five of them with
a wrong number or cure and four under another code. Each row names its public source. `INVENTED` is
nobody's: it shows that kinds of wording are judged.
"""

import html
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Final

import anthropic
import httpx
import openai
import pytest
from endpoints import Endpoint, Refused
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dsh_compact.events import Failure
from dsh_compact.overflow import (
    LEAST_WINDOW_TOKENS,
    MOST_TEXT,
    Code,
    Refusal,
    failure_of,
    normalise,
    parse_failure,
    plain_text,
)
from dsh_compact.overflow.wordings import CERTAIN_OTHERS, READINGS, TABLE, compiled

DATA: Final = Path(__file__).parent / "data"
CTX: Final = Code.CONTEXT_WINDOW_EXCEEDED


def rows(*names: str) -> list[dict[str, Any]]:
    """The labelled rows, without those that nobody can tell from the text alone."""
    lines = [line for name in names for line in (DATA / name).read_text("utf-8").splitlines()]
    read = [json.loads(line) for line in lines]
    return [row for row in read if not row.get("ambiguous") and not row.get("silent")]


ROWS: Final = rows("overflow-errors.jsonl", "overflow-seen.jsonl", "overflow-unseen.jsonl")
OVERFLOWS: Final = [row for row in ROWS if row["expected"] == CTX]
OTHERS: Final = [row for row in ROWS if row["expected"] != CTX]


def named(chosen: list[dict[str, Any]]) -> pytest.MarkDecorator:
    """Parametrize a test over rows, by their ids."""
    return pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in chosen])


def as_reported(row: dict[str, Any]) -> Failure:
    """The row as `dshc classify` reads it from a pipe; what the reporter inferred is left out."""
    keys = ("status", "code", "message", "body")
    told = {key: row[key] for key in keys if row.get(key) and not row.get(f"{key}_inferred")}
    return parse_failure(json.dumps(told))


def numbers(refusal: Refusal) -> tuple[int | None, int | None]:
    """What the ledger learns from a refusal: the limit and the size of the request."""
    return refusal.limit_tokens, refusal.requested_tokens


# The wordings -------------------------------------------------------------------------------------


@named(OVERFLOWS)
def test_an_overflow_is_recognised(row: dict[str, Any]) -> None:
    """A refusal for the window's sake is told, whatever the provider, status and wrapping."""
    assert CTX == normalise(as_reported(row)).code


@named([row for row in OVERFLOWS if row.get("facts")])
def test_an_overflows_numbers_are_read(row: dict[str, Any]) -> None:
    """The limit, the request's size and the cure are those that the refusal states."""
    found = normalise(as_reported(row))
    wanted = {key: value for key, value in row["facts"].items() if key != "excess_tokens"}
    assert wanted == {key: getattr(found, key) for key in wanted}


@named([row for row in rows("overflow-errors.jsonl") if row["expected"] == CTX])
def test_no_number_is_invented(row: dict[str, Any]) -> None:
    """A limit or a request's size that the refusal doesn't state stays unknown."""
    facts = row.get("facts", {})
    stated = facts.get("limit_tokens"), facts.get("requested_tokens")
    assert stated == numbers(normalise(as_reported(row)))


@named(OTHERS)
def test_another_refusal_is_no_overflow(row: dict[str, Any]) -> None:
    """A rate, a quota, bytes, memory, the output's limit and the rest get their own code."""
    assert row["kind"] == normalise(as_reported(row)).kind


@named(OTHERS)
def test_another_refusal_teaches_no_window(row: dict[str, Any]) -> None:
    """What is no overflow has no numbers and no cure, whatever figures it names."""
    found = normalise(as_reported(row))
    assert Refusal(code=found.code, wording=found.wording) == found


INVENTED: Final = (
    (CTX, "Input tokens (1234) + max_tokens (3000) exceeds context window (4096)", 4096, 4234),
    (CTX, "prompt_tokens + max_tokens exceeds the limit", None, None),
    (CTX, "The total length of input and output tokens must be less than 4096", 4096, None),
    (CTX, "input_tokens (3000) + max_new_tokens (2000) must be <= 4096", 4096, 5000),
    (CTX, "the number of input tokens 3000 cannot exceed the total tokens limit 2048", 2048, 3000),
    (CTX, "number of input tokens must be no more than 7400, got 8123", 7400, 8123),
    (CTX, "Error: prompt tokens (9001) exceed model limit (8192)", 8192, 9001),
    (CTX, "Too many input tokens: 250000 > 200000", 200000, 250000),
    (CTX, "input sequence length 5000 exceeds max_seq_len 4096", 4096, 5000),
    (CTX, "This model supports at most 8192 input tokens; received 9000", 8192, 9000),
    (CTX, "prompt size (12000) is greater than context size (8192)", 8192, 12000),
    (CTX, "Number of tokens (150000) exceeds model limit of 128000", 128000, 150000),
    (CTX, "length of prompt exceeds maximum", None, None),
    (CTX, "conversation history exceeds maximum tokens", None, None),
    (CTX, "Your conversation is too long. Please start a new chat.", None, None),
    (CTX, "maximum context length is 8 192 tokens, you requested 10_240 tokens", 8192, 10240),
    (CTX, "Maximum context length is 1M tokens, you requested 1.2M tokens", 1_000_000, 1_200_000),
    (CTX, "token数量超过上限", None, None),
    (CTX, "请求的 token 数量超过了模型的最大上下文长度 (131072)", 131072, None),
    (CTX, "入力が長すぎます。トークン数の上限を超えました", None, None),
    (CTX, "O prompt excede o limite de contexto do modelo", None, None),
    (CTX, "The prompt exceeds the context limit: 90000 characters > 60000 characters", None, None),
    (CTX, '429 {"error": {"message": "Prompt is too long"}}', None, None),
    (Code.RATE_LIMIT, "Input token rate exceeds the limit", None, None),
    (Code.INVALID_REQUEST, "input exceeds 4 images limit", None, None),
    (Code.INVALID_REQUEST, "Unsupported parameter: 'max_tokens' is not supported", None, None),
    (Code.RATE_LIMIT, "Number of request tokens has exceeded your daily rate limit", None, None),
    (Code.RATE_LIMIT, "tokens exceed the limit of 30000 tokens per minute for inputs", None, None),
    (Code.RATE_LIMIT, "Context too large: input tokens per minute exceeded", None, None),
    (Code.RATE_LIMIT, "您的账户请求 tokens 超过每分钟限制", None, None),
    (Code.QUOTA, "402 prompt too long for your remaining credit balance", None, None),
    (Code.OUTPUT_LIMIT, "100000 is greater than the maximum of 4096 - 'max_tokens'", None, None),
    (Code.SERVER, "Out of memory: reduce the context length or the prompt", None, None),
    (Code.SERVER, "upstream connect error before headers. reset reason: overflow", None, None),
    (Code.AUTH, "Access token expired or exceeded its lifetime", None, None),
    (Code.PAYLOAD_TOO_LARGE, "Request too large: prompt has 400000 bytes, max 262144", None, None),
    (Code.INVALID_REQUEST, "image exceeds the maximum of 8000 pixels", None, None),
    (Code.OTHER, "The operation was aborted", None, None),
)  # fmt: skip
"""Sentences that no provider is known to say: code, text, limit, request."""


@pytest.mark.parametrize(("code", "text", "limit", "requested"), INVENTED)
def test_a_kind_of_wording_is_judged(
    code: Code, text: str, limit: int | None, requested: int | None
) -> None:
    """A sentence that stands in no row is told by its kind, and its numbers by their places."""
    found = normalise(parse_failure(text))
    assert (code, limit, requested) == (found.code, *numbers(found))


@pytest.mark.parametrize("status", [401, 402, 403, 429])
def test_a_status_of_the_account_silences_vague_words(status: int) -> None:
    """Tokens over some limit are no overflow where the status speaks of the account or its rate."""
    assert CTX == normalise(Failure(message="token limit exceeded", status=400)).code
    assert CTX != normalise(Failure(message="token limit exceeded", status=status)).code


@pytest.mark.parametrize("status", [200, 400, 413, 429, 500, 503])
def test_no_status_hides_a_certain_wording(status: int) -> None:
    """Gateways answer an overflow with any status; a provider's own sentence outranks it."""
    text = "prompt is too long: 202095 tokens > 200000 maximum"
    assert (200000, 202095) == numbers(normalise(Failure(message=text, status=status)))


STATUSES: Final = {
    None: Code.OTHER, 400: Code.INVALID_REQUEST, 401: Code.AUTH, 402: Code.QUOTA, 403: Code.AUTH,
    404: Code.INVALID_REQUEST, 408: Code.TIMEOUT, 413: Code.PAYLOAD_TOO_LARGE,
    422: Code.INVALID_REQUEST, 429: Code.RATE_LIMIT, 500: Code.SERVER, 502: Code.SERVER,
    504: Code.TIMEOUT, 529: Code.SERVER, 200: Code.OTHER,
}  # fmt: skip


@pytest.mark.parametrize(("status", "code"), STATUSES.items())
def test_the_status_decides_where_words_dont(status: int | None, code: Code) -> None:
    """A failure without known words means what its status means."""
    assert Refusal(code=code) == normalise(Failure(message="It failed.", status=status))


# The harness's own word ---------------------------------------------------------------------------


def test_the_harness_keeps_its_word() -> None:
    """A failure that the harness called an overflow is one, though its text tells nothing."""
    failure = Failure(message="It failed.", code="CONTEXT_WINDOW_EXCEEDED", status=400)
    assert Refusal(code=CTX, cure="compact", wording="overflow-code") == normalise(failure)


def test_the_harness_word_takes_the_texts_numbers() -> None:
    """The numbers of an overflow that the harness recognised come from its text."""
    text = (
        "This model's maximum context length is 8000 tokens. However, you requested 10476 tokens "
        "(10476 in the messages, 0 in the completion)."
    )
    found = normalise(Failure(message=text, code="CONTEXT_WINDOW_EXCEEDED", status=400))
    assert (8000, 10476, 10476, 0) == (*numbers(found), found.input_tokens, found.output_tokens)


def test_the_harness_word_doesnt_make_a_rate_a_window() -> None:
    """A rate limit that was called an overflow teaches no window."""
    text = "Request too large on tokens per min (TPM): Limit 30000, Requested 36055."
    failure = Failure(message=text, code="CONTEXT_WINDOW_EXCEEDED")
    assert Refusal(code=CTX, cure="compact") == normalise(failure)


# The cure -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cure", "given", "output", "limit"),
    [
        ("lower-output", 143653, 64000, 200000),
        ("lower-output", 198976, 64000, 200000),  # room for exactly 1024 tokens
        ("compact", 198977, 64000, 200000),
        ("compact", 199759, 8192, 200000),
        ("compact", 210000, 8192, 200000),
        ("lower-output", 3840, 4096, 4096),  # a sixteenth of a small window
        ("compact", 3841, 4096, 4096),
    ],
)
def test_the_cure_is_the_output_where_the_input_would_fit(
    cure: str, given: int, output: int, limit: int
) -> None:
    """Lowering the output cures only what leaves room for an answer beside the input."""
    text = f"input length and `max_tokens` exceed context limit: {given} + {output} > {limit}"
    found = normalise(Failure(message=text))
    assert (cure, given, output) == (found.cure, found.input_tokens, found.output_tokens)


def test_an_excess_and_a_limit_make_a_request() -> None:
    """Where a refusal tells the limit and by how much it was exceeded, the request is their sum."""
    text = "context window of 8000 tokens exceeded by 500 tokens"
    assert (8000, 8500) == numbers(normalise(Failure(message=text)))


@pytest.mark.parametrize("limit", [1, 3, LEAST_WINDOW_TOKENS - 1, 9_999_999_999])
def test_an_implausible_limit_is_not_learnt(limit: int) -> None:
    """A server that reports what is left of the window, or an id, doesn't shrink the session."""
    text = f"This model's maximum context length is {limit} tokens."
    found = normalise(Failure(message=text))
    assert (CTX, None, "compact") == (found.code, found.limit_tokens, found.cure)


# The same words, wrapped and changed --------------------------------------------------------------


def _json_in_json(text: str) -> str:
    inner = json.dumps({"error": {"code": 400, "message": text}})
    return json.dumps({"error": {"message": inner, "code": 400}})


WRAPPINGS: Final[dict[str, Callable[[str], str]]] = {
    "upper case": str.upper,
    "broken lines": lambda text: text.replace(" ", "\n   "),
    "JSON": lambda text: json.dumps({"error": {"message": text, "type": "invalid_request_error"}}),
    "JSON in JSON": _json_in_json,
    "JSON in text": lambda text: f"API Error: 400 {_json_in_json(text)} (attempt 1/3)",
    "JSON string": lambda text: json.dumps(json.dumps({"error": text})),
    "event stream": lambda text: f"event: error\ndata: {json.dumps({'error': text})}\n\n",
    "Python repr": lambda text: f"Error code: 400 - {({'error': {'message': text}})!r}",
    "bytes": lambda text: f"litellm.BadRequestError: VertexAIException - {text.encode()!r}",
    "Ruby hash": lambda text: f'{{"error"=>{{"message"=>{json.dumps(text)}, "code"=>nil}}}}',
    "exception": lambda text: f"openai.BadRequestError: {text}\n  File \"client.py\", line 12",
    "HTML": lambda text: f"<html><body><h1>400</h1><p>{html.escape(text)}</p></body></html>",
    "terminal": lambda text: f"│ \x1b[31m{text}\x1b[0m │",
    "NUL and lone surrogates": lambda text: f"\0\ud83d {text} \udc00\0",
    "told twice": lambda text: f"{text}\nDetails: {text}",
    "a long echo behind": lambda text: text + " lorem ipsum" * 3_000,
    "a long echo before": lambda text: "lorem ipsum " * 3_000 + text,
}  # fmt: skip


def wrappable(wrapping: str) -> list[dict[str, Any]]:
    """Overflows that the wrapping can hold as it stands: bytes and case spoil other escapes."""
    fragile = wrapping in {"upper case", "bytes", "broken lines"}
    return [
        row
        for row in OVERFLOWS
        if not (fragile and re.search(r"[\\{\n]|[^\0-\x7f]", row["message"]))
    ]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_wrapping_changes_nothing(wrapping: str) -> None:
    """However gateways and clients wrap a refusal, it stays an overflow with the same numbers."""
    wrap = WRAPPINGS[wrapping]
    changed = []
    for row in wrappable(wrapping):
        bare = normalise(Failure(message=row["message"]))
        found = normalise(parse_failure(wrap(row["message"])))
        if bare.code is CTX and bare != structs.replace(found, wording=bare.wording):
            changed.append((row["id"], bare, found))
    assert [] == changed


@pytest.mark.parametrize("wrapping", [name for name in WRAPPINGS if name != "upper case"])
def test_a_wrapping_makes_no_overflow(wrapping: str) -> None:
    """Nothing that is no overflow becomes one by being wrapped."""
    wrap = WRAPPINGS[wrapping]
    failures = [row for row in OTHERS if normalise(Failure(message=row["message"])).code is not CTX]
    found = [(row["id"], normalise(parse_failure(wrap(row["message"])))) for row in failures]
    assert [] == [pair for pair in found if pair[1].code is CTX]


@pytest.mark.parametrize("separator", [",", "_", " ", ".", "\u202f"])
def test_thousands_may_be_separated(separator: str) -> None:
    """A number reads the same in groups of three."""
    text = "This model's maximum context length is {:,} tokens. However, you requested {:,} tokens."
    grouped = text.format(131072, 1137610).replace(",", separator)
    assert (131072, 1137610) == numbers(normalise(Failure(message=grouped)))


def _other_number(digits: re.Match[str]) -> str:
    return str(int(digits[0]) + 7)


def test_other_numbers_are_read_in_the_same_places() -> None:
    """A wording is known by its words: with every number moved by 7, so are those that are read."""
    missed = []
    for row in OVERFLOWS:
        limit, requested = numbers(normalise(Failure(message=row["message"])))
        changed = re.sub(r"(?<![\w.-])[0-9]{4,7}(?![\w-]|\.[0-9])", _other_number, row["message"])
        if not limit or str(limit + 7) not in changed:
            continue
        found = normalise(Failure(message=changed))
        wanted = limit + 7
        if found.limit_tokens != wanted:
            missed.append((row["id"], wanted, found))
        if requested and str(requested + 7) in changed and found.requested_tokens != requested + 7:
            missed.append((row["id"], requested + 7, found))
    assert [] == missed


# From text to failure -----------------------------------------------------------------------------

PARSED: Final = (
    (
        '{"status": 413, "code": "too_large", "message": "No", "body": "<html>"}',
        Failure(message="No", code="too_large", status=413, body="<html>"),
    ),
    ('{"message": "No"}', Failure(message="No")),
    (
        '{"error": {"code": 400, "message": "No", "status": "INVALID_ARGUMENT"}}',
        Failure(message="No", code="INVALID_ARGUMENT", status=400, body="…"),
    ),
    (
        '{"type": "error", "error": {"type": "invalid_request_error", "message": "No"}}',
        Failure(message="No", type="error", body="…"),
    ),
    ('{"error": "No"}', Failure(message="No", body="…")),
    ('[{"error": {"message": "No", "code": "bad"}}]', Failure(message="No", code="bad", body="…")),
    (
        '{"error": {"message": "{\\"error\\": {\\"message\\": \\"No\\", \\"code\\": \\"bad\\"}}"}}',
        Failure(message="No", code="bad", body="…"),
    ),
    ('{"message": "Input is too long.", "reason": "TOO_LONG"}',
     Failure(message="Input is too long.", code="TOO_LONG", body="…")),
    ('"No"', Failure(message="No")),
    (
        'data: {"id": 1}\n\ndata: {"error": {"message": "No", "code": "bad"}}\n\ndata: [DONE]',
        Failure(message="No", code="bad", body="…"),
    ),
    (
        "Error code: 400 - {'error': {'message': 'No', 'type': 'bad', 'code': 'worse_still'}}",
        Failure(message="…", code="worse_still", status=400, type="bad"),
    ),
    ("Error code: 429 - {'code': None}", Failure(message="…", status=429)),
    ("HTTP 502 Bad Gateway", Failure(message="…", status=502)),
    ("plain words", Failure(message="…")),
    ("{not JSON", Failure(message="…")),
    ("[1, 2]", Failure(message="…")),
    ("", Failure(message="")),
)  # fmt: skip
"""A text and the failure in it; `…` stands for the whole text."""


@pytest.mark.parametrize(("text", "failure"), PARSED)
def test_a_text_is_taken_apart(text: str, failure: Failure) -> None:
    """What a user pastes becomes message, code, status and type; what was opened stays whole."""
    whole = {name for name in ("message", "body") if getattr(failure, name) == "…"}
    assert structs.replace(failure, **dict.fromkeys(whole, text.strip())) == parse_failure(text)


def test_plain_text_resolves_escapes_and_quotes() -> None:
    """Layers of escapes, quotes, entities, tags and frames leave the same words."""
    text = "│ <b>This model\\\\'s</b>\\n“limit”\u3000is&nbsp;&gt;\x1b[0m ４０９６ \\u4e0a\0 │"
    assert "this models limit is > 4096 上" == plain_text(text)


# Hostile text -------------------------------------------------------------------------------------

ANY_TEXT: Final = st.text(st.characters(codec=None, categories=None), max_size=300)
CLUES: Final = sorted({clue for row in TABLE for clue in row.clues})
NEAR_WORDS: Final = st.lists(
    st.one_of(
        st.sampled_from(CLUES), st.integers(0, 10**13).map(str), st.sampled_from("(){}<>:\\\"'")
    ),
    max_size=40,
).map(" ".join)


@given(st.one_of(ANY_TEXT, NEAR_WORDS), st.none() | st.integers(), st.none() | ANY_TEXT)
def test_no_text_is_too_strange(text: str, status: int | None, other: str | None) -> None:
    """Whatever the text, there is an answer, and only an overflow has numbers and a cure."""
    for failure in (
        parse_failure(text),
        Failure(message=text, status=status, code=other, body=other, type=other),
    ):
        found = normalise(failure)
        if found.code is CTX:
            assert found.cure is not None
            assert found.limit_tokens is None or found.limit_tokens >= LEAST_WINDOW_TOKENS
        else:
            assert Refusal(code=found.code, wording=found.wording) == found


@given(NEAR_WORDS)
def test_a_rate_never_teaches_a_window(words: str) -> None:
    """No words around it make a limit per minute a window."""
    assert normalise(Failure(message=f"{words} tokens per minute {words}")).limit_tokens is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
        lambda part: (
            st.lists(part, max_size=3)
            | st.dictionaries(
                st.sampled_from(["error", "message", "code", "status", "body", "type"]), part
            )
        ),
    )
)
def test_no_json_is_too_strange(value: Any) -> None:
    """Any value in any of an error's places is taken apart without a word."""
    assert isinstance(parse_failure(json.dumps(value)), Failure)


MEGABYTE: Final = 1_000_000
REPEATED: Final = (
    "9", "1,", "123,456 ", "9 tokens > ", "tokens ", "prompt ", "exceed ", "context window ",
    "max_tokens ", "limit (", "input tokens of 12 in the prompt ", "\\", "\\u", "\\n", "[", "{",
    '"', '{"error":', "<a", "&amp;", "\x1b[", "\0", "\ud800", "\u0301", "超", "上下文", "status ",
    "code: ", "error (attempt ", "data: {\n", "data: [1",
    "requested 12 tokens exceeds context window of ",
)  # fmt: skip


@pytest.mark.parametrize("piece", REPEATED)
def test_a_megabyte_of_anything_is_read_at_once(piece: str) -> None:
    """A hostile megabyte takes no longer than a fraction of a second."""
    text = piece * (MEGABYTE // len(piece))
    begin = time.process_time()
    normalise(parse_failure(text))
    normalise(Failure(message=text, body=text, code=text, type=text))
    assert time.process_time() - begin < 2


def test_the_end_of_a_long_text_is_looked_at() -> None:
    """Behind a request's echo, the refusal at the end still counts; in the middle it is lost."""
    refusal = "prompt is too long: 202095 tokens > 200000 maximum"
    echo = "lorem " * MOST_TEXT
    assert 200000 == normalise(Failure(message=f"{echo}{refusal}")).limit_tokens
    assert None is normalise(Failure(message=f"{echo}{refusal}{echo}")).limit_tokens


# The table ----------------------------------------------------------------------------------------


def test_every_row_has_a_name_of_its_own_and_a_source() -> None:
    """A row can be named in a report, and looked up where it was said."""
    assert len(TABLE) == len({row.name for row in TABLE})
    assert [] == [row.name for row in TABLE if not row.source or not row.clues]


def test_every_row_decides_something() -> None:
    """No row is dead: each decides a known refusal, or a sentence made up for its kind."""
    texts = [as_reported(row) for row in ROWS] + [parse_failure(row[1]) for row in INVENTED]
    deciding = {normalise(failure).wording for failure in texts}
    assert [] == [row.name for row in TABLE if row.name not in deciding]


def test_clues_never_hide_a_pattern() -> None:
    """Where a row's pattern would match, one of its clues occurs, and the row is tried."""
    texts = [plain_text(row["message"]) for row in ROWS] + [plain_text(row[1]) for row in INVENTED]
    hidden = [
        (row.name, text)
        for row in TABLE
        for text in texts
        if not any(clue in text for clue in row.clues) and compiled(row.pattern).search(text)
    ]
    assert [] == hidden


def test_what_is_certain_about_others_never_speaks_in_an_overflow() -> None:
    """The first group outranks all, so none of its rows may match a known overflow."""
    matching = [
        (row.name, known["id"])
        for known in OVERFLOWS
        for row in CERTAIN_OTHERS
        if compiled(row.pattern).search(plain_text(known["message"]))
    ]
    assert [] == matching


def _repeats(parsed: Any) -> Iterator[Any]:
    """The upper bound of every repetition in a parsed pattern."""
    for operation, argument in parsed:
        if operation in {_constants.MAX_REPEAT, _constants.MIN_REPEAT}:
            yield argument[1]
        for part in argument if isinstance(argument, tuple | list) else ():
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, _parser.SubPattern):
                    yield from _repeats(inner)


@pytest.mark.parametrize("pattern", sorted({row.pattern for row in (*TABLE, *READINGS)}))
def test_every_repetition_is_bounded(pattern: str) -> None:
    """No pattern may run on without an end, so that matching stays linear."""
    assert _constants.MAXREPEAT not in set(_repeats(_parser.parse(compiled(pattern).pattern)))


def test_the_check_of_bounds_sees_an_unbounded_one() -> None:
    """The check above finds a star, however deep."""
    assert _constants.MAXREPEAT in set(_repeats(_parser.parse("a(?:b|(?P<n>c(?=d[ef]*)))")))


# What a client raised -----------------------------------------------------------------------------

SAID: Final = {
    "error": {
        "message": "prompt is too long: 202095 tokens > 200000 maximum",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
}


def raised_by(ask: Callable[[str], object]) -> BaseException:
    """What a real client raises when a real server refuses."""
    with Endpoint(Refused(400, SAID)) as server, pytest.raises(Exception) as caught:  # noqa: PT011
        ask(server.url)
    return caught.value


def ask_openai(url: str) -> None:
    """One request with OpenAI's own client."""
    with openai.OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])


def ask_anthropic(url: str) -> None:
    """One request with Anthropic's own client."""
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "a"}])


def ask_httpx(url: str) -> None:
    """One request with a client that only knows HTTP."""
    httpx.post(url, json={}).raise_for_status()


def ask_httpx_unread(url: str) -> None:
    """The same, but the body was never read."""
    with httpx.stream("POST", url, json={}) as response:
        response.raise_for_status()


def ask_urllib(url: str) -> None:
    """One request with the standard library's client."""
    urllib.request.urlopen(url, data=b"{}")


@pytest.mark.parametrize("ask", [ask_openai, ask_anthropic, ask_httpx])
def test_a_clients_error_is_read_with_its_numbers(ask: Callable[[str], object]) -> None:
    """The provider's answer is taken out of the exception, whoever's client raised it."""
    failure = failure_of(raised_by(ask))
    refusal = normalise(failure)
    assert (400, CTX) == (failure.status, refusal.code)
    assert (200_000, 202_095) == (refusal.limit_tokens, refusal.input_tokens)


@pytest.mark.parametrize("ask", [ask_httpx_unread, ask_urllib])
def test_an_error_without_the_answer_is_read_as_it_speaks(ask: Callable[[str], object]) -> None:
    """Its status is known, and no overflow is made of it."""
    error = raised_by(ask)
    failure = failure_of(error)
    assert 400 == failure.status
    assert CTX is not normalise(failure).code
    if isinstance(error, urllib.error.HTTPError):
        error.close()  # it holds the connection


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("This model's maximum context length is 8192 tokens"), CTX),
        (TimeoutError(), Code.TIMEOUT),
        (KeyError("\ud800"), Code.OTHER),
        (ValueError({"message": "prompt is too long: 9000 tokens > 8000 maximum"}), CTX),
    ],
)
def test_any_other_exception_is_read_by_its_words(error: BaseException, code: Code) -> None:
    """Also one that says nothing."""
    assert code is normalise(failure_of(error)).code


def test_no_exception_crashes_the_reading() -> None:
    """Not one whose attributes raise, or are anything at all."""

    class Odd(Exception):
        body = object()
        status_code = "many"

        @property
        def response(self) -> object:
            raise OSError("the connection is gone")

    assert Failure(message="odd") == failure_of(Odd("odd"))


@pytest.mark.parametrize("output", [400, 429, 499, 500, 512])
def test_a_count_that_looks_like_a_status_is_a_count(output: int) -> None:
    """An output reservation of 500 tokens is no HTTP status, whatever stands around it."""
    message = (
        "This model's maximum context length is 8000 tokens. However, you requested"
        f" {11167 + output} tokens (11167 in the messages, {output} in the completion)."
    )
    refusal = normalise(Failure(message=message, status=400))
    assert (11167, output) == (refusal.input_tokens, refusal.output_tokens)
