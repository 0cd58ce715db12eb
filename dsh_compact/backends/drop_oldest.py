"""Drop the oldest: what many chat programs do, with the difference that the log says so."""

from typing import Final

from dsh_compact.backends import Claim
from dsh_compact.planning import NoSpan
from dsh_compact.summarizers import Summary
from dsh_compact.words import counted
from dsh_compact.workbench import Workbench

NOTE: Final = "Dropped from the beginning of this conversation to make room: {}."


class DropOldest:
    """Folds the head of the conversation into a note that says how much was dropped."""

    name = "drop-oldest"

    def compact(self, bench: Workbench) -> Claim:
        """Replaces once."""
        span = bench.choose()
        if isinstance(span, NoSpan):
            return Claim(acted=False, note=span.reason)
        text = NOTE.format(counted(len(span.seqs), "message"))
        bench.replace(span, lambda: Summary(text=text, provider="dsh-compact", model=self.name))
        return Claim(acted=True, note=f"dropped {counted(len(span.seqs), 'message')}")
