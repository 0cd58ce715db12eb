"""What is left when nothing more can move: the floor under a conversation.

Pure: prices in, an account of them out.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from dsh_compact import tokens
from dsh_compact.events import Header
from dsh_compact.planning import Item

LARGEST_SHOWN: Final = 3
"""How many of the largest messages are named."""


class Floor(Struct, frozen=True, kw_only=True):
    """Estimated tokens by what they are spent on; `largest` are the dearest messages, dearest
    first.
    """

    system_tokens: int
    tools_tokens: int
    messages_tokens: int
    largest: tuple[Item, ...]

    @property
    def total_tokens(self) -> int:
        """All of it."""
        return self.system_tokens + self.tools_tokens + self.messages_tokens


def floor_of(items: Sequence[Item], header: Header | None) -> Floor:
    """The account for a surface and the header that stands before it."""
    system = [one for one in items if one.kind == "system"]
    others = [one for one in items if one.kind != "system"]
    return Floor(
        system_tokens=sum(one.tokens for one in system)
        + (0 if header is None else tokens.system_tokens(header)),
        tools_tokens=0 if header is None else tokens.tools_tokens(header),
        messages_tokens=sum(one.tokens for one in others),
        largest=tuple(sorted(others, key=lambda one: -one.tokens)[:LARGEST_SHOWN]),
    )
