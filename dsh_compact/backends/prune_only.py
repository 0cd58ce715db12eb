"""Prune only: cheap, needs no model, and is often enough for one huge tool result."""

from dsh_compact.backends import Claim
from dsh_compact.words import counted
from dsh_compact.workbench import Workbench


class PruneOnly:
    """Prunes long tool results and writes no summary."""

    name = "prune-only"

    def compact(self, bench: Workbench) -> Claim:
        """Prunes once."""
        pruned = len(bench.prune())
        return Claim(acted=pruned > 0, note=f"pruned {counted(pruned, 'tool result')}")
