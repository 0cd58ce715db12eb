"""A packer that edits its copy of the conversation: after a restart everything is back."""

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import claim
from dsh_compact.events import NOWHERE, Replace, SurfaceChange
from dsh_compact.surface import Node
from dsh_compact.workbench import Workbench


class MemoryOnly:
    """Changes objects in memory and never the file."""

    name = "memory-only"

    def compact(self, bench: Workbench) -> Claim:
        """Puts a shorter surface into the session, generation and all."""
        session = bench.session
        nodes = list(session.surface)[1:]
        seqs = tuple(node.seq for node in nodes)
        op = Replace(seqs[0], seqs[-1])
        change = SurfaceChange(session.events, "user", op, seqs, NOWHERE)
        session.surface = session.surface.extend(change, _nothing)
        return claim()


def _nothing(_: Node) -> bytes:
    raise AssertionError("no tool result is replaced here")
