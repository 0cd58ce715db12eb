"""The standard backend: prune, choose, summarise, replace, and again while it is not enough."""

from dsh_compact.backends import Claim
from dsh_compact.planning import NoSpan, Span
from dsh_compact.summarizers import Request, Summarizer
from dsh_compact.workbench import Workbench


class Standard:
    """Prunes long tool results, then folds the head of the conversation into a summary."""

    name = "standard"
    needs_summarizer = True

    def __init__(self, summarizer: Summarizer) -> None:
        """`summarizer` writes the summaries."""
        self._summarizer = summarizer

    def compact(self, bench: Workbench) -> Claim:
        """Prunes, then replaces up to 1 + `compaction_retries` times while the goal is not reached.

        Without a goal it replaces once.
        """
        pruned = len(bench.prune())
        reason = ""
        for _ in range(1 + bench.policy.compaction_retries):
            if bench.is_enough():
                break
            span = bench.choose()
            if isinstance(span, NoSpan):
                reason = span.reason
                break
            self._replace(bench, span)
            if not bench.has_goal:
                break
        return Claim(acted=bool(pruned or bench.replaced), note=reason)

    def _replace(self, bench: Workbench, span: Span) -> None:
        request = Request(
            messages=bench.messages(span),
            system=bench.standing_before(span),
            header=bench.header(),
            max_tokens=bench.summary_budget(span),
            instructions=bench.instructions,
        )
        bench.replace(span, lambda: self._summarizer.summarise(request, bench.progress))
