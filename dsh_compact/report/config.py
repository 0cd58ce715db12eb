"""A configuration as text: every value, and who said it."""

from collections.abc import Sequence
from typing import Final

from dsh_compact.config import KEYS, Kind, Resolved
from dsh_compact.policy import Budgets
from dsh_compact.report.table import Cell, Column, Styled, table
from dsh_compact.report.terminal import Style, safe, styled

LONGEST_NAME: Final = 120
"""Characters of a model's name that are looked at: it is foreign text."""

LONGEST_VALUE: Final = 200
"""Characters of a value that are looked at."""

UNSET: Final[dict[str, str]] = {
    "retain_tokens": "by retain_ratio",
    "window_tokens": "as the log says",
    "summarizer_model": "the session's own",
    "summarizer_base_url": "the provider's own",
    "summarizer_command": "none",
    "summarizer_window_tokens": "the model's own",
    "summarizer_timeout_seconds": "its own",
}
"""What a value that nobody has set means."""

_COLUMNS: Final = (
    Column(name="key", importance=9),
    Column(name="value", importance=8, shrinks=True),
    Column(name="from", importance=7, shrinks=True),
)

_STYLES: Final[dict[Kind, Style | None]] = {
    "default": "dim",
    "file": None,
    "environment": "cyan",
    "flag": "cyan",
}


def text(
    log: str | None,
    resolved: Resolved,
    allowed: Budgets | None,
    *,
    width: int | None = None,
    color: bool = False,
) -> str:
    """The values in force and what they give for the log's window; `log` None: for any log."""
    head = [styled(safe(log), "bold", color=color)] if log is not None else []
    model = "/".join(filter(None, (resolved.provider, resolved.model)))
    head += [safe(model, LONGEST_NAME)] if model else []
    head.append(f"file: {safe(resolved.file) if resolved.file is not None else 'none'}")
    head += [f"not read because of it: {safe(path)}" for path in resolved.unread]
    rows = [_row(key, resolved) for key in KEYS]
    blocks = [
        "\n".join(head),
        table(_COLUMNS, rows, width=width, color=color),
    ]
    return "\n\n".join([*blocks, _budgets(allowed)])


def _row(key: str, resolved: Resolved) -> Sequence[Cell]:
    origin = resolved.origins[key]
    value = getattr(resolved.policy, key)
    by = origin.where or origin.kind
    if key == "retain_ratio" and resolved.policy.retain_tokens is not None:
        by += ", overruled by retain_tokens"
    style: Style | None = "dim" if value is None else None
    return (
        key,
        Styled(safe(_shown(key, value), LONGEST_VALUE), style),
        Styled(by, _STYLES[origin.kind]),
    )


def _shown(key: str, value: object) -> str:
    match value:
        case None:
            return UNSET[key]
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _budgets(allowed: Budgets | None) -> str:
    if allowed is None:
        return "The window is not known: no threshold."
    return (
        f"Window {allowed.window_tokens:,} tokens: threshold {allowed.threshold_tokens:,},"
        f" kept tail {allowed.retain_tokens:,}."
    )
