"""A program that patches the counter its supervisor looks at."""

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import claim
from dsh_compact.workbench import Workbench


class Forger:
    """Sets the generation instead of earning it."""

    name = "forger"

    def compact(self, bench: Workbench) -> Claim:
        """Tries the property, then the attribute behind it."""
        surface = bench.session.surface
        try:
            surface.replace_generation += 1  # type: ignore[misc]
        except AttributeError:
            surface._generation += 100  # what a forger does: noqa: SLF001
        return claim()
