"""Why there is no summary: none of that name, wrongly set up, or it failed."""

from collections.abc import Sequence

from dsh_compact.errors import BackendFailed, UsageError


class UnknownSummarizer(UsageError):
    """No summarizer has the name `name`; `known` lists those that there are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no summarizer {name!r}", f"known are {', '.join(known)}")
        self.name = name
        self.known = tuple(known)


class SummarizerNotReady(UsageError):
    """The summarizer `name` exists, but lacks what it needs: a model, a key, a package."""

    def __init__(self, name: str, problem: str, remedy: str) -> None:
        super().__init__(f"summarizer {name}: {problem}", remedy)
        self.name = name


class SummarizerFailed(BackendFailed):
    """A summarizer gave no summary that may be used; nothing was changed."""

    def __str__(self) -> str:
        """`summarizer NAME: problem; remedy`."""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"summarizer {self.backend}: {self.problem}{remedy}"
