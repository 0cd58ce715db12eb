"""What a client asks, whatever API it speaks: the texts that a model would read, for counting.

Rule: nothing is left out, and nothing here raises on any JSON. What is no text is counted as its
JSON, as the rehearsal does; an image as a constant, since what it costs depends on pixels.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from dsh_compact.tokenizers import Tokenizer
from dsh_compact.tokenizers.framing import count_request

IMAGE_TOKENS: Final = 1_600
"""The most that Anthropic reckons for one image (width × height / 750, scaled to fit)."""

IMAGES: Final = frozenset({"image", "image_url", "input_image"})
"""The types of blocks that carry one, in any of the APIs."""

SILENT_KEYS: Final = frozenset({"type", "id", "tool_call_id", "tool_use_id", "cache_control"})
"""What stands beside a block's text and is not read by a model as text."""


class Asked(Struct, frozen=True, kw_only=True):
    """One request: `messages` as the texts of each, `header` the texts before them.

    `wants_usage`: the counts are wanted in a stream, too, where the API leaves that to the client.
    """

    model: str
    messages: tuple[tuple[str, ...], ...]
    header: tuple[str, ...]
    images: int = 0
    is_stream: bool = False
    wants_usage: bool = False

    def count(self, tokenizer: Tokenizer) -> int:
        """The request in tokens."""
        counted = count_request(self.messages, self.header, tokenizer).total_tokens
        return counted + self.images * IMAGE_TOKENS


class Malformed(Exception):
    """A request that the API would not take; the sentence says why."""


def decoded(body: bytes) -> dict[str, Any]:
    """The JSON object that a body must be; raises `Malformed`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as fault:
        raise Malformed(f"the body is no JSON: {fault}") from None
    if not isinstance(value, dict):
        raise Malformed("the body is no JSON object")
    if not isinstance(value.get("messages"), list) or not value["messages"]:
        raise Malformed("messages: a list with at least one message is wanted")
    if not isinstance(value.get("model"), str) or not value["model"]:
        raise Malformed("model: a name is wanted")
    return value


def compact(value: object) -> str:
    """A value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def texts(value: object) -> Iterator[str]:
    """All texts in a message's content, in order, however its blocks nest; images left out."""
    waiting = [value]
    while waiting:  # a stack of our own: blocks may nest deeper than Python calls
        match waiting.pop():
            case str(text):
                yield text
            case list(items):
                waiting.extend(reversed(items))
            case dict(block) if block.get("type") in IMAGES:
                pass
            case dict(block) if "input" in block:
                yield from (str(block.get("name", "")), compact(block["input"]))
            case dict(block):
                waiting.extend(
                    inner for key, inner in reversed(block.items()) if key not in SILENT_KEYS
                )
            case None | bool():
                pass
            case other:
                yield compact(other)


def images(value: object) -> int:
    """How many images stand in a message's content."""
    count, waiting = 0, [value]
    while waiting:
        match waiting.pop():
            case list(items):
                waiting.extend(items)
            case dict(block) if block.get("type") in IMAGES:
                count += 1
            case dict(block):
                waiting.extend(block.values())
    return count
