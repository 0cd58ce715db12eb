"""The packer takes its process down: out of memory, a native crash, a hard exit."""

import os
from typing import Final

from dsh_compact.backends import Claim
from dsh_compact.workbench import Workbench

EXIT_STATUS: Final = 137
"""What a shell reports of a process that was killed."""


class Killer:
    """Ends the process that it runs in, which therefore must not be ours."""

    name = "killer"

    needs_isolation = True

    def compact(self, bench: Workbench) -> Claim:
        """Never returns."""
        os._exit(EXIT_STATUS)
