"""A model that spent its output on reasoning, or was cut at once: the text is blank."""

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import a_span, claim, summary
from dsh_compact.workbench import Workbench


class Empty:
    """Writes a summary with nothing in it."""

    name = "empty"

    def compact(self, bench: Workbench) -> Claim:
        """Tries to replace a span by white space."""
        bench.replace(a_span(bench), lambda: summary(" \n\t "))
        return claim()
