"""The summarizer's service is down: an exception before anything was written."""

from dsh_compact.backends import Claim
from dsh_compact.workbench import Workbench


class Crash:
    """Raises before anything has landed."""

    name = "crash"

    def compact(self, bench: Workbench) -> Claim:
        """Raises."""
        raise ConnectionError("the summarizer cannot be reached")
