"""A backend of your own: it folds the head of a conversation into the minutes of it.

    dshc recover --backend examples/own_backend.py:Minutes --expect recovered
    dshc conformance --backend examples/own_backend.py:Minutes

What a backend says that it did decides nothing: the file does.
"""

from dsh_compact import Claim
from dsh_compact.planning import NoSpan
from dsh_compact.summarizers import Summary
from dsh_compact.workbench import Workbench

CHARACTERS_PER_TOKEN = 4  # as the estimate reckons


class Minutes:
    """Prunes long tool results, then keeps of the head only what the user asked for."""

    name = "minutes"

    def compact(self, bench: Workbench) -> Claim:
        """One attempt: look, choose, replace."""
        pruned = bench.prune()
        span = bench.choose()  # what may go: no call parted from its result, no tail touched
        if isinstance(span, NoSpan):
            return Claim(acted=bool(pruned), note=span.reason)

        asked = [one.text for one in bench.messages(span) if one.source_kind == "user"]
        room = bench.summary_budget(span) * CHARACTERS_PER_TOKEN
        text = ("The user asked:\n- " + "\n- ".join(asked or ["nothing so far"]))[:room]

        # A bracket is opened, the summary checked and written, the bracket closed: all or nothing.
        bench.replace(span, lambda: Summary(text=text, provider="examples", model=self.name))
        return Claim(acted=True)
