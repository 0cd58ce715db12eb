"""The backend that a configuration names, made ready; and what a file may not name unasked.

Rule: what somebody types, or puts into the environment, is meant. What a file beside a log says may
be anybody's: it sets numbers, but code that does not ship with this package, a program or a model
that would be shown the conversation, it names in vain, unless it is trusted.
"""

from collections.abc import Callable
from typing import Final

from dsh_compact import summarizers
from dsh_compact.backends import Backend, lookup
from dsh_compact.config import Resolved
from dsh_compact.errors import UsageError
from dsh_compact.summarizers import Summarizer
from dsh_compact.summarizers.protocol import DEFAULT_TIMEOUT_SECONDS

OFFLINE: Final = "extractive"
"""The summarizer that runs nothing and shows nothing to anybody."""


def load(
    resolved: Resolved,
    *,
    is_trusted: bool,
    make_summarizer: Callable[[], Summarizer] | None = None,
) -> Backend:
    """The backend in force with the summarizer in force, or the one that `make_summarizer` makes.

    Raises `UsageError` where there is none of that name, or where a file that is not trusted names
    it.
    """
    spec = resolved.policy.backend
    if lookup.is_foreign(spec):
        _check_trust(resolved, "backend", is_trusted, "code that does not ship with dshc")
    return lookup.load(
        spec, make_summarizer or (lambda: summarizer(resolved, is_trusted=is_trusted))
    )


def summarizer(resolved: Resolved, *, is_trusted: bool) -> Summarizer:
    """The summarizer in force; raises `UsageError` as `load` does."""
    policy = resolved.policy
    if policy.summarizer != OFFLINE:
        for key in ("summarizer", "summarizer_base_url", "summarizer_command"):
            _check_trust(resolved, key, is_trusted, "who would be shown the conversation")
    seconds = policy.summarizer_timeout_seconds
    options = summarizers.Options(
        model=policy.summarizer_model,
        base_url=policy.summarizer_base_url,
        command=policy.summarizer_command or (),
        window_tokens=policy.summarizer_window_tokens,
        timeout_seconds=DEFAULT_TIMEOUT_SECONDS if seconds is None else seconds,
        send_reasoning=policy.summarizer_sends_reasoning,
    )
    return summarizers.load(policy.summarizer, options)


def _check_trust(resolved: Resolved, key: str, is_trusted: bool, what: str) -> None:
    origin = resolved.origins[key]
    if origin.kind == "file" and not is_trusted:
        value = getattr(resolved.policy, key)
        raise UsageError(
            f"{origin.where}: {key}: {value!r} names {what}: no file is believed in that unasked",
            "look at it, then say --trust",
        )
