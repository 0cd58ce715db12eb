"""The scorecard as a test: pytest finds the fixture by itself once the package is installed.

    from mine import Mine

    def test_my_backend_keeps_the_rules(dshc_conforms):
        dshc_conforms(Mine)

Rule: this module is imported by every run of pytest where the package is installed, so it imports
nothing else of it before the fixture is used.
"""

import os
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from dsh_compact.conformance import Scorecard


class Conforms(Protocol):
    """Tries a backend, and fails with its scorecard where it broke a rule."""

    def __call__(self, backend: Any, *logs: str | os.PathLike[str], **wishes: Any) -> "Scorecard":
        """`backend` is a class, a function that makes one, a backend itself, or what `--backend`
        takes; `logs` are tried beside the built-in sessions, on copies. `wishes` are those of
        `conformance.Wishes`: `policy`, `timeout_seconds`, `run`.
        """


@pytest.fixture
def dshc_conforms() -> Conforms:
    """Runs a backend through all sessions and faults of `dshc conformance`."""
    return conforms


def conforms(backend: Any, *logs: str | os.PathLike[str], **wishes: Any) -> "Scorecard":
    """What the fixture gives; see `Conforms`."""
    from dsh_compact import conformance, summarizers
    from dsh_compact.backends import lookup
    from dsh_compact.report.conformance import text

    __tracebackhide__ = True
    make = lookup.maker(backend, lambda: summarizers.load("extractive"))
    card = conformance.run(make, logs, wishes=conformance.Wishes(**wishes))
    if not card.ok:
        pytest.fail(text(card), pytrace=False)
    return card
