"""A second program with the log open: it writes without the lock and without a format."""

from typing import Final

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import claim
from dsh_compact.workbench import Workbench

GARBAGE: Final = b'{"type":"compaction/done","ok":true}\n\x00\xff garbage\n'


class Scribbler:
    """Writes garbage behind the log's end."""

    name = "scribbler"

    def compact(self, bench: Workbench) -> Claim:
        """Appends past every rule."""
        with open(bench.session.path, "ab") as log:
            log.write(GARBAGE)
        return claim()
