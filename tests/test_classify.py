"""`dshc classify` reads an error from anywhere, and answers people and programs."""

import json
from pathlib import Path
from typing import Final

import pytest
from running import dshc

from dsh_compact.overflow import Code
from dsh_compact.report.classify import MEANINGS

ANTHROPIC: Final = (
    "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease input "
    "length or `max_tokens` and try again"
)
ANSWER: Final = {
    "schema": 1,
    "command": "classify",
    "log": None,
    "code": "CONTEXT_WINDOW_EXCEEDED",
    "kind": "context",
    "limit_tokens": 200000,
    "requested_tokens": 207653,
    "input_tokens": 143653,
    "output_tokens": 64000,
    "cure": "lower-output",
    "wording": "input-plus-output",
}
RATE: Final = '{"status": 429, "message": "Rate limit reached on tokens per min: Limit 30000"}'
NOTHING: Final = dict.fromkeys(
    ["limit_tokens", "requested_tokens", "input_tokens", "output_tokens", "cure"]
)


def test_the_argument_is_the_error() -> None:
    """An error in quotes behind the command is answered, with its numbers, as JSON."""
    done = dshc("classify", ANTHROPIC, "--json")
    assert (0, ANSWER, "") == (done.code, done.json, done.err)


@pytest.mark.parametrize("words", [(), ("-",)])
def test_the_error_may_be_piped(words: tuple[str, ...]) -> None:
    """Without an argument, or with -, the error is standard input."""
    body = json.dumps({"error": {"message": ANTHROPIC, "code": 400}})
    done = dshc("classify", *words, "--json", stdin=body)
    assert (0, ANSWER) == (done.code, done.json)


def test_another_error_has_no_numbers() -> None:
    """What is no overflow has a code and a kind, and null for every number; the exit code is 0."""
    done = dshc("classify", "--json", stdin=RATE)
    wanted = {**ANSWER, **NOTHING, "code": "RATE_LIMIT", "kind": "rate_limit"}
    assert (0, wanted | {"wording": "tokens-per-time"}) == (done.code, done.json)


def test_a_person_reads_what_helps() -> None:
    """The text says what it means, the numbers, the cure and where the wording was seen."""
    done = dshc("classify", ANTHROPIC)
    assert (0, "") == (done.code, done.err)
    assert (
        done.out
        == """\
CONTEXT_WINDOW_EXCEEDED: the request is larger than the model's context window
  request     207,653 tokens (143,653 input, 64,000 reserved output)
  limit       200,000 tokens
  cure        lower-output: reserve 56,347 tokens or fewer, and the input fits as it is
  decided by  input-plus-output (anthropic, continuedev/continue#6080)
"""
    )


def test_a_person_reads_that_little_is_known() -> None:
    """An error of unknown words is not made up for."""
    assert (
        dshc("classify", "It failed.").out
        == """\
OTHER: nothing is known about this error
  decided by  its status or its code, if any: no known wording is in it
"""
    )


def test_every_line_may_be_an_error() -> None:
    """With --lines each line is told by its number; empty ones are passed over."""
    done = dshc("classify", "--lines", "--json", stdin=f"{ANTHROPIC}\n\n{RATE}\n")
    assert 0 == done.code
    told = [(one["line"], one["code"], one["limit_tokens"]) for one in done.json["failures"]]
    assert [(1, "CONTEXT_WINDOW_EXCEEDED", 200000), (3, "RATE_LIMIT", None)] == told


def test_many_errors_make_a_table() -> None:
    """The table has a row a line, with the error's own words last."""
    done = dshc("classify", "--lines", stdin=f"prompt is too long\n{RATE}\n")
    assert (
        done.out
        == """\
line  code                     limit  request  cure     error
   1  CONTEXT_WINDOW_EXCEEDED                  compact  prompt is too long
   2  RATE_LIMIT                                        Rate limit reached on tokens per min: Limit 30000
"""  # noqa: E501, as the terminal shows it
    )


def test_no_error_is_wrong_usage() -> None:
    """With nothing to classify, the user is told where to put it."""
    done = dshc("classify")
    wanted = "dshc: no error was given; put it in quotes behind the command, or pipe it in\n"
    assert (2, "", wanted) == (done.code, done.out, done.err)


@pytest.mark.parametrize("words", [(), ("--lines",), ("--json",)])
def test_hostile_bytes_are_answered(words: tuple[str, ...]) -> None:
    """Bytes that are no UTF-8, escapes and NUL neither crash nor reach the terminal raw."""
    done = dshc("classify", *words, stdin=b"\xff\x1b[31m\0 prompt is too long \xed\xa0\xbd\x9b\n")
    assert (0, "") == (done.code, done.err)
    assert "CONTEXT_WINDOW_EXCEEDED" in done.out
    assert not set("\x1b\0\x9b") & set(done.out)


def test_every_code_has_a_meaning() -> None:
    """A person finds a sentence for each code."""
    assert set(Code) == set(MEANINGS)


def test_every_labelled_error_is_answered_by_the_command(tmp_path: Path) -> None:
    """The labelled reports, through a pipe: overflow or not is right for each."""
    data = Path(__file__).parent / "data" / "overflow-errors.jsonl"
    reports = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    chosen = [row for row in reports if not row.get("ambiguous") and not row.get("silent")]
    keys = ("status", "code", "message", "body")
    given = [
        {key: row[key] for key in keys if row.get(key) and not row.get(f"{key}_inferred")}
        for row in chosen
    ]
    done = dshc("classify", "--lines", "--json", stdin="\n".join(map(json.dumps, given)))
    found = [one["code"] for one in done.json["failures"]]
    overflow = "CONTEXT_WINDOW_EXCEEDED"
    assert [row["expected"] == overflow for row in chosen] == [code == overflow for code in found]
