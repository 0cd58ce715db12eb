"""Compaction that makes no headway: the generation moves, the request hardly shrinks."""

from dsh_compact import tokens
from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import a_span, claim, summary
from dsh_compact.tokenizers.conversation import pieces
from dsh_compact.workbench import FRAMING_TOKENS, Workbench


class OneToken:
    """Moves the generation and saves next to nothing."""

    name = "one-token"

    def compact(self, bench: Workbench) -> Claim:
        """Replaces a span by its own words, less what the checkpoint's frame costs."""
        span = a_span(bench)
        words = "\n".join(text for message in bench.messages(span) for text in pieces(message))
        room = (span.tokens - FRAMING_TOKENS - 1) * tokens.UNITS_PER_TOKEN
        bench.replace(span, lambda: summary(_cut(words, room)))
        return claim()


def _cut(words: str, most_units: int) -> str:
    """As many of the words as have so many UTF-16 code units, which is how they are priced."""
    units = words.encode("utf-16-le", "surrogatepass")[: 2 * most_units]
    return units.decode("utf-16-le", "ignore")
