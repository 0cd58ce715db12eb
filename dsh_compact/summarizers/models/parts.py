"""A span that is too long for a summarizer, as transcripts that aren't.

Rule: a part ends where no call is separated from its results, and all parts together tell the whole
span in order. Only a unit (an answer with its results) that is larger than a part is cut inside,
and a text that would fill half a part by itself is shortened in its middle, which the text says.
Parts are transcripts and no messages: they need no tools, no system prompt and no pairs.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from dsh_compact.events import Block, Message, Text, ToolCall, ToolResult
from dsh_compact.export import to_markdown
from dsh_compact.summarizers.extract.actions import is_result
from dsh_compact.tokens import UNITS_PER_TOKEN, price_text

SHORTENED: Final = "\n[… {:,} characters left out …]\n"

LEAST_CUT_SHARE: Final = 2
"""A transcript is cut at a line's end if there is one in its last half, otherwise anywhere."""

Unit = tuple[Message, ...]


class Place(NamedTuple):
    """How far a span has been cut: the next unit, and what is left of the one before it."""

    unit: int
    left: str = ""


def units(messages: Sequence[Message]) -> list[Unit]:
    """The span in pieces that belong together: a message, or an answer with its results."""
    found: list[list[Message]] = []
    for message in messages:
        if found and is_result(message) and found[-1][0].calls:
            found[-1].append(message)
        else:
            found.append([message])
    return [tuple(unit) for unit in found]


def cut(span: Sequence[Unit], at: Place, max_tokens: int) -> tuple[str, Place]:
    """The next part from `at`, of at most `max_tokens`, and where the one after it begins.

    The text is empty only at the span's end.
    """
    if at.left:
        part, left = _split(at.left, max_tokens)
        return part, Place(at.unit, left)
    texts: list[str] = []
    room, index = max_tokens * UNITS_PER_TOKEN, at.unit
    for index in range(at.unit, len(span) + 1):
        if index == len(span):
            break
        text = to_markdown(_shortened(span[index], max_tokens // 2))
        size = (price_text(text) + 1) * UNITS_PER_TOKEN
        if size > room:
            break
        texts.append(text)
        room -= size
    if texts or index == len(span):
        return "\n".join(texts), Place(index)
    part, left = _split(to_markdown(_shortened(span[index], max_tokens // 2)), max_tokens)
    return part, Place(index + 1, left)


def is_end(span: Sequence[Unit], at: Place) -> bool:
    """Whether nothing of the span is left."""
    return at.unit >= len(span) and not at.left


def _split(text: str, max_tokens: int) -> tuple[str, str]:
    """The text's beginning, of at most `max_tokens`, and the rest."""
    end = min(len(text), max_tokens * UNITS_PER_TOKEN)
    while price_text(text[:end]) > max_tokens:
        end = max(1, end - (price_text(text[:end]) - max_tokens) * UNITS_PER_TOKEN // 2)
    if end < len(text):
        line = text.rfind("\n", end // LEAST_CUT_SHARE, end) + 1
        end = line or end
    return text[:end], text[end:]


def _shortened(unit: Unit, most_tokens: int) -> Unit:
    most_units = most_tokens * UNITS_PER_TOKEN
    return tuple(
        msgspec.structs.replace(
            message, content=tuple(_shorter(block, most_units) for block in message.content)
        )
        for message in unit
    )


def _shorter(block: Block, most_units: int) -> Block:
    match block:
        case Text(text=text):
            return Text(text=_without_middle(text, most_units))
        case ToolCall(id=call_id, name=name, arguments=arguments):
            short = _without_middle(arguments, most_units)
            return ToolCall(id=call_id, name=name, arguments=short)
        case ToolResult(call_id=call_id, content=content, is_error=is_error):
            inner = tuple(_shorter(one, most_units) for one in content)
            return ToolResult(call_id=call_id, content=inner, is_error=is_error)
        case _:
            return block


def _without_middle(text: str, most_units: int) -> str:
    """The text with three quarters of its room for its beginning, the rest for its end."""
    if len(text) <= most_units // 2 or price_text(text) * UNITS_PER_TOKEN <= most_units:
        return text
    kept = most_units if text.isascii() else most_units // 2
    tail = kept // 4
    mark = SHORTENED.format(len(text) - kept)
    return f"{text[: kept - tail]}{mark}{text[len(text) - tail :]}"
