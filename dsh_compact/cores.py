"""How many cores the work of this process may use.

Rule: a library uses the one that it was called on. A process that is ours from its start says so
with `claim()`; from then on the reading of a large log may use a second one, too (see `ahead`).
"""

import os

_claimed = False


def count() -> int:
    """The cores that this process may use, where the system tells; else all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def claim() -> None:
    """This process is ours: it may start others for its work."""
    global _claimed  # noqa: PLW0603, what a process may do is a fact about the process
    _claimed = True


def yield_back() -> None:
    """This process is one of many that share the cores: it starts no others."""
    global _claimed  # noqa: PLW0603
    _claimed = False


def spare() -> bool:
    """Whether there is a core beside the one that this process runs on, and ours to use."""
    return _claimed and count() > 1
