"""What a refusal means as text: one error with all that it tells, many as a table.

Rule: the code first, then what to do about it. The error's own words are foreign text.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from dsh_compact.overflow import Code, Refusal
from dsh_compact.overflow.wordings import TABLE
from dsh_compact.report.table import Column, Styled, table
from dsh_compact.report.terminal import Style, safe, styled

LONGEST_MESSAGE: Final = 200
"""Characters of an error that a row of the table quotes."""

MEANINGS: Final = {
    Code.CONTEXT_WINDOW_EXCEEDED: "the request is larger than the model's context window",
    Code.RATE_LIMIT: "too much in too short a time: wait; a smaller session is no cure",
    Code.QUOTA: "the account has no credit or quota left",
    Code.AUTH: "the key or the permission is wrong",
    Code.OUTPUT_LIMIT: "more output is reserved, or came, than the model may write",
    Code.PAYLOAD_TOO_LARGE: "the request has too many bytes: images and files, mostly",
    Code.TIMEOUT: "nobody answered in time, or somebody hung up",
    Code.SERVER: "the provider failed or is overloaded: try again later",
    Code.CONTENT_FILTER: "a filter refused the content",
    Code.INVALID_REQUEST: "the request is malformed: sending it again won't help",
    Code.OTHER: "nothing is known about this error",
}
"""A sentence a code: whose fault, and what helps."""

_STYLES: Final[dict[Code, Style]] = {Code.CONTEXT_WINDOW_EXCEEDED: "red", Code.OTHER: "dim"}

COLUMNS: Final = (
    Column(name="line", align="right", importance=2),
    Column(name="code", importance=6),
    Column(name="limit", align="right", importance=5),
    Column(name="request", align="right", importance=4),
    Column(name="cure", importance=3),
    Column(name="error", importance=1, shrinks=True),
)


class Line(Struct, frozen=True, kw_only=True):
    """One of many errors: its line in the input (from 1), its own words, and what they mean."""

    number: int
    message: str
    refusal: Refusal


def text(refusal: Refusal, *, color: bool = False) -> str:
    """One error: its code, the numbers in it, the cure, and what decided."""
    code = styled(refusal.code, _STYLES.get(refusal.code, "yellow"), color=color)
    facts = [("request", _request(refusal)), ("limit", _tokens(refusal.limit_tokens))]
    facts += [("cure", _cure(refusal)), ("decided by", _decided(refusal))]
    lines = [f"  {name:<10}  {fact}" for name, fact in facts if fact]
    return "\n".join([f"{code}: {MEANINGS[refusal.code]}", *lines])


def many(lines: Sequence[Line], *, width: int | None = None, color: bool = False) -> str:
    """Many errors as a table, in the order in which they came."""
    return table(COLUMNS, [_row(line) for line in lines], width=width, color=color)


def _row(line: Line) -> tuple[str | Styled, ...]:
    refusal = line.refusal
    numbers = (refusal.limit_tokens, refusal.requested_tokens)
    limit, requested = ("" if number is None else f"{number:,}" for number in numbers)
    code = Styled(refusal.code, _STYLES.get(refusal.code))
    message = safe(line.message, LONGEST_MESSAGE)
    return f"{line.number:,}", code, limit, requested, refusal.cure or "", message


def _request(refusal: Refusal) -> str:
    whole = _tokens(refusal.requested_tokens)
    if refusal.input_tokens is None or not refusal.output_tokens:
        return whole
    return f"{whole} ({refusal.input_tokens:,} input, {refusal.output_tokens:,} reserved output)"


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count:,} tokens"


def _cure(refusal: Refusal) -> str:
    match refusal.cure:
        case None:
            return ""
        case "compact":
            return "compact: make the session smaller"
        case "lower-output":
            assert refusal.limit_tokens is not None
            assert refusal.input_tokens is not None
            room = refusal.limit_tokens - refusal.input_tokens
            return f"lower-output: reserve {room:,} tokens or fewer, and the input fits as it is"


def _decided(refusal: Refusal) -> str:
    for row in TABLE:
        if row.name == refusal.wording:
            family = "" if row.family == "any" else f"{row.family}, "
            return f"{row.name} ({family}{row.source})"
    return "its status or its code, if any: no known wording is in it"
