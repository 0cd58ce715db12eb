"""`dshc classify`: what a provider's error means, and the numbers in it."""

from typing import Annotated, Any

import typer

from dsh_compact.cli import io, options
from dsh_compact.errors import UsageError
from dsh_compact.overflow import Refusal, normalise, parse_failure
from dsh_compact.report import classify as report

EXAMPLES = """
dshc classify "prompt is too long: 202095 tokens > 200000 maximum"
dshc classify < error.json               a body, an exception, a repr, frames of a stream
dshc classify --json < error.json | jq .limit_tokens
dshc classify --lines < errors.jsonl     every line an error
"""


def command(
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", show_default=False, help="The error; else from stdin."),
    ] = None,
    *,
    lines: Annotated[bool, typer.Option("--lines", help="Every line is an error.")] = False,
    json: options.Json = False,
) -> int:
    """Tell what a provider's error means: an overflow, a rate limit, a quota, and so on.

    The error is TEXT or standard input, as it comes: a JSON object with status, code, message and
    body, a provider's body however deep in other JSON, frames of an event stream, a Python repr,
    an exception, plain words. For an overflow the answer has the limit and the size of the request
    as far as the error states them, and the cure: a smaller session, or a lower output where the
    input alone would fit. The exit code is 0 whatever the error means.
    """
    given = _given(text)
    if lines:
        _show_many(given, json=json)
    else:
        refusal = normalise(parse_failure(given))
        if json:
            io.emit_json({"schema": 1, "command": "classify", "log": None, **_fields(refusal)})
        else:
            io.emit_text(report.text(refusal, color=io.use_color()))
    return 0


def _given(text: str | None) -> str:
    if text is not None and text != "-":
        return text
    if not (piped := io.read_input()):
        raise UsageError("no error was given", "put it in quotes behind the command, or pipe it in")
    return piped.decode("utf-8", "backslashreplace")


def _show_many(given: str, *, json: bool) -> None:
    failures = [
        (number, parse_failure(line))
        for number, line in enumerate(given.split("\n"), start=1)
        if line.strip()
    ]
    read = [
        report.Line(number=number, message=failure.message, refusal=normalise(failure))
        for number, failure in failures
    ]
    if json:
        found = [{"line": line.number, **_fields(line.refusal)} for line in read]
        io.emit_json({"schema": 1, "command": "classify", "log": None, "failures": found})
    else:
        io.emit_text(report.many(read, width=io.console_width(), color=io.use_color()))


def _fields(refusal: Refusal) -> dict[str, Any]:
    return {
        "code": refusal.code,
        "kind": refusal.kind,
        "limit_tokens": refusal.limit_tokens,
        "requested_tokens": refusal.requested_tokens,
        "input_tokens": refusal.input_tokens,
        "output_tokens": refusal.output_tokens,
        "cure": refusal.cure,
        "wording": refusal.wording,
    }
