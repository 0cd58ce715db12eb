"""Two packers at once: the span was chosen on a surface that another one has changed since."""

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import a_span, claim, summary
from dsh_compact.workbench import Workbench


class Stale:
    """Replaces a span of a surface that is no more."""

    name = "stale"

    def compact(self, bench: Workbench) -> Claim:
        """Lets another replacement land while its own summary is being written, then carries on."""
        span = a_span(bench)
        bench.replace(span, lambda: summary("the first one lands"))
        bench.replace(span, lambda: summary("the second one is too late"))
        return claim()
