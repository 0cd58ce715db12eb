"""What can stand behind `--backend`: one Protocol, and the lookup by name.

A backend works on a `Workbench` and returns a `Claim`: what it says it did. Nothing in this project
decides by a claim; it is printed beside what the ledger says.
"""

from typing import Protocol, runtime_checkable

from msgspec import Struct

from dsh_compact.workbench import Workbench


class Claim(Struct, frozen=True, kw_only=True):
    """What a backend says it did: believed by nobody."""

    acted: bool
    note: str = ""


@runtime_checkable
class Backend(Protocol):
    """Makes a conversation shorter, or says that it does."""

    name: str

    def compact(self, bench: Workbench) -> Claim:
        """One attempt on one session. May raise anything; what has landed by then has landed."""
