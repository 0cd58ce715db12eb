"""Truncation by count: the cut falls between a tool call and its result."""

from msgspec import structs

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import a_span, claim, summary
from dsh_compact.workbench import Workbench


class SplitsPairs:
    """Parts a tool call from its result."""

    name = "splits-pairs"

    def compact(self, bench: Workbench) -> Claim:
        """Tries to fold up to and with a message whose results stay behind."""
        items = bench.session.items()
        span = a_span(bench)
        start = next(i for i, one in enumerate(items) if one.seq == span.start_seq)
        cut = next((i for i, one in enumerate(items) if i > start and one.calls), None)
        if cut is None:
            raise LookupError("no message asks for a tool")
        torn = items[start : cut + 1]
        wrong = structs.replace(
            span, seqs=tuple(one.seq for one in torn), tokens=sum(one.tokens for one in torn)
        )
        bench.replace(wrong, lambda: summary("cut by count"))
        return claim()
