"""A packer that treats the system prompt as one more old message."""

from msgspec import structs

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import a_span, claim, summary
from dsh_compact.workbench import Workbench


class FoldsSystem:
    """Tries to fold the system prompt away."""

    name = "folds-system"

    def compact(self, bench: Workbench) -> Claim:
        """Begins its span at the very head of the surface."""
        span = a_span(bench)
        head = bench.session.items()[0]
        wider = structs.replace(
            span,
            seqs=(head.seq, *(seq for seq in span.seqs if seq != head.seq)),
            tokens=span.tokens + head.tokens,
        )
        bench.replace(wider, lambda: summary("everything, the prompt too"))
        return claim()
