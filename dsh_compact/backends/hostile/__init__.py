"""Backends that fail as real ones do: each stands for a failure that was met in the field.

They share no code but the helpers below. None of them may ever bring about an invalid retry, a lost
original error, or a damaged log outside the copy that they were given.
"""

from dsh_compact.backends import Claim
from dsh_compact.planning import NoSpan, Span
from dsh_compact.summarizers import Summary
from dsh_compact.workbench import Workbench


def a_span(bench: Workbench) -> Span:
    """Any span that may go; raises `LookupError` where there is none."""
    span = bench.choose()
    if isinstance(span, NoSpan):
        raise LookupError(span.reason)
    return span


def summary(text: str) -> Summary:
    """A summary by nobody in particular."""
    return Summary(text=text, provider="dsh-compact", model="hostile")


def claim() -> Claim:
    """What every liar says."""
    return Claim(acted=True, note="compacted")
