"""Prices and pressure: how many tokens a conversation has, by the harness's own estimate.

A price depends on one message alone, so the surface's price is the sum of its nodes' prices; who
knows how to fetch a message hands in `price`. Lengths are UTF-16 code units, and a token is four of
them, rounded up (the harness's estimate, FORMAT "Prices"). Nothing here counts with a real
tokenizer, and nothing here knows a window or a threshold.
"""

from typing import Final, assert_never

from dsh_compact.events import (
    Block,
    Header,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

UNITS_PER_TOKEN: Final = 4
FRAMING_TOKENS: Final = 4
"""What the harness adds for every block, every message and every part of a request header."""

MESSAGELESS_ROLES: Final = frozenset({"assistant", "system", "developer"})
"""Roles whose message, when its content is empty, is a node but is never sent and costs nothing."""


def price_text(text: str) -> int:
    """A quarter of the length in UTF-16 code units, rounded up."""
    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    return _quarter(units)


def price_block(block: Block) -> int:
    """Estimated tokens of one content block."""
    match block:
        case Text() | Reasoning():
            return price_text(block.text) + FRAMING_TOKENS
        case ToolCall():
            return price_text(block.name) + price_text(block.arguments) + FRAMING_TOKENS
        case ToolResult():
            return sum(map(price_block, block.content)) + FRAMING_TOKENS
        case Opaque():
            return _quarter(block.length) + FRAMING_TOKENS
        case _:
            assert_never(block)


def price_message(message: Message) -> int:
    """Estimated tokens of one message, framing included."""
    if not message.content and message.role in MESSAGELESS_ROLES:
        return 0
    return sum(map(price_block, message.content)) + FRAMING_TOKENS


def price_header(header: Header | None) -> int:
    """Estimated tokens of what stands before the conversation: system prompt and tools."""
    if header is None:
        return 0
    return system_tokens(header) + tools_tokens(header)


def system_tokens(header: Header) -> int:
    """The part of a format-0 header that is the system prompt (later formats have a message)."""
    return price_text(header.system) + FRAMING_TOKENS if header.system else 0


def tools_tokens(header: Header) -> int:
    """The part of a header that describes the tools."""
    return _quarter(header.tools_length) + FRAMING_TOKENS if header.tools_json else 0


def _quarter(units: int) -> int:
    return (units + UNITS_PER_TOKEN - 1) // UNITS_PER_TOKEN
