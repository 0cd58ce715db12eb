"""What a shell may offer for an option's value: the names of backends, tokenizers, and so on.

Rule: a path is left to the shell, which knows its own ways with quotes, `~` and folders; where
nothing is offered, it completes files. Imported only when a shell asks. The names come from where
the commands themselves look them up.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from typer._click.shell_completion import CompletionItem

MOST_CHARACTERS: Final = 70
"""Of a sentence: beside the name it stays on one line of a usual terminal."""

Offer: TypeAlias = Iterable[tuple[str, str]]
"""Names, each with a sentence about it, perhaps an empty one."""


def backends() -> Offer:
    """All that have a name; a file or a module is completed as a path."""
    from dsh_compact.backends.lookup import entries

    return [(entry.name, f"{entry.kind}: {entry.sentence}") for entry in entries()]


def summarizers() -> Offer:
    """Those that ship with the package."""
    from dsh_compact.summarizers import NAMES

    return [(name, "") for name in NAMES]


def tokenizers() -> Offer:
    """Those that ship with the package or its extras."""
    from dsh_compact.tokenizers import NAMES

    return [(name, "") for name in NAMES]


def disciplines() -> Offer:
    """Who may decide on a retry."""
    return [
        ("proof", "what the log says"),
        ("breaker:3", "three refusals, whatever was said"),
        ("trust", "what the backend says"),
    ]


def wordings() -> Offer:
    """The providers whose refusals are known."""
    from dsh_compact.wall import WORDINGS

    return [(name, f"{row.status}: {row.message}") for name, row in WORDINGS.items()]


VALUES: Final[Mapping[str, Callable[[], Offer]]] = {
    "backend": backends,
    "summarizer": summarizers,
    "tokenizer": tokenizers,
    "discipline": disciplines,
    "error_like": wordings,
}
"""The option's name in Python → what may stand behind it, in every command that has it."""


def attach(command: Any) -> None:
    """Lets the command's options offer their values."""
    for parameter in command.params:
        if parameter.name in VALUES:
            parameter.shell_complete = _completer(VALUES[parameter.name])


def _completer(offer: Callable[[], Offer]) -> Callable[[Any, str], list[CompletionItem]]:
    def complete(_: Any, incomplete: str) -> list[CompletionItem]:
        return [
            CompletionItem(name, help=sentence[:MOST_CHARACTERS] or None)
            for name, sentence in offer()
            if name.startswith(incomplete)
        ]

    return complete
