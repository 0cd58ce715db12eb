"""A service that refuses now and then: the second call would have worked."""

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile import a_span, claim, summary
from dsh_compact.workbench import Workbench


class Flaky:
    """Fails the first time and works the second."""

    name = "flaky"

    def __init__(self) -> None:
        self._calls = 0

    def compact(self, bench: Workbench) -> Claim:
        """Raises once."""
        self._calls += 1
        if self._calls == 1:
            raise TimeoutError("the summarizer did not answer in time")
        bench.replace(a_span(bench), lambda: summary("worked at last"))
        return claim()
