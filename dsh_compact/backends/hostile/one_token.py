"""Compaction that makes no headway: the generation moves, the request hardly shrinks."""

from dsh_compact import tokens
from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import a_span, claim, summary
from dsh_compact.workbench import FRAMING_TOKENS, Workbench


class OneToken:
    """Moves the generation and saves one token."""

    name = "one-token"

    def compact(self, bench: Workbench) -> Claim:
        """Replaces a span by one that costs one token less."""
        span = a_span(bench)
        room = span.tokens - FRAMING_TOKENS - 1
        bench.replace(span, lambda: summary("." * (room * tokens.UNITS_PER_TOKEN)))
        return claim()
