"""A request without a time limit: the summarizer's connection stays open and says nothing."""

import time
from typing import Final

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import claim
from dsh_compact.workbench import Workbench

FOREVER_SECONDS: Final = 3600.0
"""Longer than any time limit that a rehearsal is given, and still an end."""


class Hang:
    """Does not return within its time."""

    name = "hang"

    def compact(self, bench: Workbench) -> Claim:
        """Waits."""
        time.sleep(FOREVER_SECONDS)
        return claim()
