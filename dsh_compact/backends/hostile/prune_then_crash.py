"""Half the work, then an error: the prunes are on disk, the summary never came."""

from dsh_compact.backends import Claim
from dsh_compact.workbench import Workbench


class PruneThenCrash:
    """Prunes for real, then raises: the retry is allowed all the same."""

    name = "prune-then-crash"

    def compact(self, bench: Workbench) -> Claim:
        """Prunes and raises."""
        bench.prune()
        raise ConnectionError("the summarizer cannot be reached")
