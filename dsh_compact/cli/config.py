"""`dshc config`: what is in force for a log, and who said so."""

import os
from typing import Any

from msgspec import Struct

from dsh_compact import config
from dsh_compact.cli import io, options
from dsh_compact.config import KEYS, Resolved
from dsh_compact.measurement import Window, window_of
from dsh_compact.policy import Budgets, budgets
from dsh_compact.reader import STANDARD_INPUT
from dsh_compact.report import config as report
from dsh_compact.session import read_session

EXAMPLES = """
dshc config                                      what is in force here, whatever the log
dshc config session.v4.jsonl                     for that log's provider and model
dshc config --json LOG | jq .values.retain_tokens
"""


class _Shown(Struct, frozen=True, kw_only=True):
    """What there is to tell; `log` None where none was named."""

    log: str | None
    resolved: Resolved
    window: Window
    allowed: Budgets | None


def command(log: options.OptionalLog = None, *, json: options.Json = False) -> int:
    """Tell which values are in force for a log, and where each comes from.

    Defaults, then one file, then DSHC_... variables, then flags; the later overrules. The file is
    the first of dshc.toml beside the log, dshc.toml here, and [tool.dshc] in pyproject.toml here. A
    wrong value anywhere is an error that names it, exit code 2. Nothing is written.
    """
    shown = _without_log() if log is None else _of_log(str(log))
    for notice in config.unknown_variables(os.environ):
        io.notice(notice)
    if json:
        io.emit_json(_json(shown))
    else:
        io.emit_text(
            report.text(
                shown.log,
                shown.resolved,
                shown.allowed,
                width=io.console_width(),
                color=io.use_color(),
            )
        )
    return 0


def _without_log() -> _Shown:
    resolved = config.resolve(STANDARD_INPUT)
    tokens = resolved.policy.window_tokens
    window = Window() if tokens is None else Window(tokens=tokens, source="flag")
    return _Shown(log=None, resolved=resolved, window=window, allowed=_allowed(resolved, window))


def _of_log(path: str) -> _Shown:
    settings = config.load(path)
    with read_session(path) as session:
        pressure = session.pressure()
        header = pressure.header
        resolved = settings.resolve_for(header)
        window = window_of(pressure, resolved.policy.window_tokens)
        allowed = _allowed(resolved, window, None if header is None else header.max_tokens)
        return _Shown(log=session.path, resolved=resolved, window=window, allowed=allowed)


def _allowed(
    resolved: Resolved, window: Window, reserved_tokens: int | None = None
) -> Budgets | None:
    if window.tokens is None:
        return None
    resolved.check_window(window.tokens)
    return budgets(resolved.policy, window.tokens, reserved_tokens)


def _json(shown: _Shown) -> dict[str, Any]:
    resolved, allowed = shown.resolved, shown.allowed
    values = {
        key: {
            "value": getattr(resolved.policy, key),
            "source": resolved.origins[key].kind,
            "where": resolved.origins[key].where or None,
        }
        for key in KEYS
    }
    return {
        "schema": 1,
        "command": "config",
        "log": shown.log,
        "provider": resolved.provider,
        "model": resolved.model,
        "file": resolved.file,
        "unread_files": resolved.unread,
        "values": values,
        "window_tokens": shown.window.tokens,
        "threshold_tokens": None if allowed is None else allowed.threshold_tokens,
        "retain_tokens": None if allowed is None else allowed.retain_tokens,
    }
