"""A success that was none: a packer that returns before its write, or swallows its error."""

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import claim
from dsh_compact.workbench import Workbench


class Lying:
    """Claims that it compacted and changes nothing."""

    name = "lying"

    def compact(self, bench: Workbench) -> Claim:
        """Does nothing."""
        return claim()
