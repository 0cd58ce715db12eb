"""From counted texts to what the model sees: each message in its frame, the header before them.

Rule: the texts are counted exactly, the frames by a constant. Providers wrap messages in tokens
that no log records; OpenAI has published how many, and the others' templates differ by a token or
two a message. Tool schemas are counted as the JSON that was sent; how a provider writes them out
for its model is not public. This module knows only strings and numbers.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dsh_compact.tokenizers import Progress, Tokenizer

MESSAGE_FRAME_TOKENS: Final = 4
"""Start, role, end of the role, end of the message. Source: OpenAI's cookbook, "How to count tokens
with tiktoken": 3 tokens a message and the role's name, which is 1 token in both its vocabularies.
DeepSeek's template spends 1 to 3 tokens a message, depending on the role."""

REPLY_TOKENS: Final = 3
"""What makes the model answer: start, "assistant", end of the role. Source: the same."""


class RequestTokens(NamedTuple):
    """A request in tokens: the messages one by one, each with its frame, and the header."""

    message_tokens: tuple[int, ...]
    header_tokens: int

    @property
    def surface_tokens(self) -> int:
        """All messages together."""
        return sum(self.message_tokens)

    @property
    def total_tokens(self) -> int:
        """Header, messages and what makes the model answer; 0 if there is nothing to send."""
        content_tokens = self.header_tokens + self.surface_tokens
        return content_tokens + REPLY_TOKENS if content_tokens else 0


def count_request(
    messages: Sequence[Sequence[str]],
    header: Sequence[str],
    tokenizer: Tokenizer,
    progress: Progress | None = None,
) -> RequestTokens:
    """Count `messages`, each given as its texts, and the texts of the request's `header`.

    A message without texts yields none and costs 0. `progress` is told the characters done.
    """
    texts = [text for message in messages for text in message]
    counts = iter(tokenizer.count_many([*texts, *header], progress))
    message_tokens = tuple(
        MESSAGE_FRAME_TOKENS + sum(next(counts) for _ in message) if message else 0
        for message in messages
    )
    return RequestTokens(message_tokens=message_tokens, header_tokens=sum(counts))


def estimate_error(estimate_tokens: int, exact_tokens: int) -> float | None:
    """How far an estimate is off, as a part of the exact count: 0.25 is a quarter too much.

    None where there is nothing to be off from.
    """
    return (estimate_tokens - exact_tokens) / exact_tokens if exact_tokens else None
