"""A model that repeats the conversation and comments on it instead of condensing it."""

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import a_span, claim, summary
from dsh_compact.workbench import Workbench


class BloatedSummary:
    """Writes a summary longer than what it replaces."""

    name = "bloated"

    def compact(self, bench: Workbench) -> Claim:
        """Tries to replace a span by more than itself."""
        span = a_span(bench)
        bench.replace(span, lambda: summary("as was said above, " * span.tokens))
        return claim()
