"""Completion: its script for each shell, and what is offered for an option's value.

Rule: a path is left to the shell, which knows its own ways with quotes, `~` and folders; where
nothing is offered, it completes files. Imported only when a shell asks. The names come from where
the commands themselves look them up.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from typer._click.shell_completion import CompletionItem
from typer._completion_classes import ZshComplete
from typer._completion_shared import (
    COMPLETION_SCRIPT_ZSH,
    _completion_scripts,
    get_completion_script,
)
from typer._completion_shared import install as typer_install

from dsh_compact.errors import UsageError

SHELLS: Final = ("bash", "zsh", "fish")
"""Those that the tests try; typer would write PowerShell's, too."""

PROGRAM: Final = "dshc"
VARIABLE: Final = "_DSHC_COMPLETE"
"""Whose words are completed, and by which variable a shell asks for them."""

MOST_CHARACTERS: Final = 70
"""Of a sentence: beside the name it stays on one line of a usual terminal."""

FIRST_TAB: Final = """
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  %(complete_func)s "$@"
fi
"""
"""What typer's script for zsh lacks: zsh reads it at the first TAB, which wants an answer, too."""

Offer: TypeAlias = Iterable[tuple[str, str]]
"""Names, each with a sentence about it, perhaps an empty one."""


def mend() -> None:
    """Puts right what the scripts of typer do wrong; call it before any is asked for."""
    mended = COMPLETION_SCRIPT_ZSH + FIRST_TAB
    _completion_scripts["zsh"] = ZshComplete.source_template = mended


def script(shell: str | None) -> str:
    """What makes `shell` (None: the one in use) complete our words; raises `UsageError`."""
    mend()
    return get_completion_script(
        prog_name=PROGRAM, complete_var=VARIABLE, shell=_known(shell, "--show-completion")
    )


def install(shell: str | None) -> str:
    """Write the script where `shell` (None: the one in use) looks for it, and tell where that is.

    Raises `UsageError`, also where it can't be written.
    """
    shell = _known(shell, "--install-completion")
    mend()
    try:
        _, path = typer_install(shell=shell, prog_name=PROGRAM, complete_var=VARIABLE)
    except OSError as fault:
        raise UsageError(
            f"{fault.filename}: cannot be written: {fault.strerror}",
            f'"dshc --show-completion {shell}" prints the script, to be put elsewhere',
        ) from None
    return f"{shell} completes dshc from its next start on; the script is {path}"


def _known(shell: str | None, option: str) -> str:
    shell = shell or _shell_in_use()
    if shell is None:
        raise UsageError("no shell was found to be in use", f'name it: "dshc {option} bash"')
    if shell not in SHELLS:
        raise UsageError(f"{shell}: no completion for that shell", f"choose {', '.join(SHELLS)}")
    return shell


def _shell_in_use() -> str | None:
    from shellingham import (  # type: ignore[import-untyped]
        ShellDetectionFailure,
        detect_shell,
    )

    try:
        name: str = detect_shell()[0]
    except ShellDetectionFailure:
        return None
    return name


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
