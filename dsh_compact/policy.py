"""Policy: ratios and retries, and the budgets in tokens that they give for one window.

Pure: where a value came from (file, environment, flag) is `config`'s business.
"""

from math import floor
from typing import Final

from msgspec import Struct

DEFAULT_THRESHOLD_RATIO: Final = 0.8
"""Pack at this share of the window or more (DeepSeek Harness)."""

DEFAULT_RETAIN_RATIO: Final = 0.16
"""Share of the window that the pressure path leaves raw at the tail (DeepSeek Harness)."""


class Policy(Struct, frozen=True, kw_only=True):
    """What is in force for one provider and model; `window_tokens` None means: ask the log."""

    threshold_ratio: float = DEFAULT_THRESHOLD_RATIO
    retain_ratio: float = DEFAULT_RETAIN_RATIO
    retain_tokens: int | None = None
    headroom_tokens: int = 0
    compaction_retries: int = 1
    max_overflow_retries: int = 1
    window_tokens: int | None = None
    backend: str = "standard"
    summarizer: str = "extractive"


DEFAULT: Final = Policy()


class Budgets(Struct, frozen=True, kw_only=True):
    """What a window allows, in tokens.

    `ignored_reservation_tokens` is the request's output reservation where it would leave nothing of
    the window and is therefore not believed.
    """

    window_tokens: int
    threshold_tokens: int
    retain_tokens: int
    ignored_reservation_tokens: int | None = None


def budgets(policy: Policy, window_tokens: int, reserved_tokens: int | None) -> Budgets:
    """The budgets under `policy`; `reserved_tokens` is the newest request header's `maxTokens`.

    Threshold: floor(min(window × threshold_ratio, window − reserved − headroom)), since providers
    count the reserved output against the window. Retain: floor(window × retain_ratio).
    """
    reserved = reserved_tokens or 0
    share = window_tokens * policy.threshold_ratio
    room = window_tokens - reserved - policy.headroom_tokens
    ignored = None
    if reserved and room <= 0:
        ignored = reserved
        room = window_tokens - policy.headroom_tokens
    threshold = floor(share) if room <= 0 else floor(min(share, room))
    if policy.retain_tokens is None:
        retain = floor(window_tokens * policy.retain_ratio)
    else:
        retain = policy.retain_tokens
    return Budgets(
        window_tokens=window_tokens,
        threshold_tokens=threshold,
        retain_tokens=retain,
        ignored_reservation_tokens=ignored,
    )
