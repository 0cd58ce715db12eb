"""Why a tokenizer cannot be had: there is none of that name, or its ranks are not installed."""

from collections.abc import Sequence

from dsh_compact.errors import UsageError


class UnknownTokenizer(UsageError):
    """No tokenizer has the name `name`; `known` lists those that there are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no tokenizer {name!r}", f"known are {', '.join(known)}")
        self.name = name
        self.known = tuple(known)


class TokenizerUnavailable(UsageError):
    """The tokenizer `name` exists, but what it counts with is not on this machine."""

    def __init__(self, name: str, problem: str, remedy: str) -> None:
        super().__init__(f"{name}: {problem}", remedy)
        self.name = name
