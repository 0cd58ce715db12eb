"""Policy: ratios, retries and bounds, and the budgets in tokens that they give for one window.

Pure: where a value came from (file, environment, flag) is `config`'s business. A policy that could
not work (a kept tail that reaches the threshold, a prune that lengthens) cannot be made.
"""

from math import floor
from typing import Final

from msgspec import Struct

from dsh_compact.errors import UsageError

DEFAULT_THRESHOLD_RATIO: Final = 0.8
"""Pack at this share of the window or more (DeepSeek Harness)."""

DEFAULT_RETAIN_RATIO: Final = 0.16
"""Share of the window that the pressure path leaves raw at the tail (DeepSeek Harness)."""

DEFAULT_PRUNE_THRESHOLD: Final = 8192
DEFAULT_PRUNE_HEAD: Final = 4096
DEFAULT_PRUNE_TAIL: Final = 1024
"""From how many code points on a tool result is too long, and what is kept of it (DeepSeek
Harness).
"""

MOST_RETRIES: Final = 100
"""Each may be a request that somebody pays for; whoever wants more wants a loop of their own."""

MOST_TOKENS: Final = 2**53
"""The largest whole number that every reader of JSON keeps."""

MOST_SECONDS: Final = 86_400.0
"""A day: nobody waits longer for a summary, and infinity is no time."""

MARKER_CHARACTERS: Final = 128
"""What the marker between head and tail of a pruned result may take, with room to spare."""


class PolicyWrong(UsageError):
    """A value of a policy cannot be; `key` names it, `others` what it does not fit."""

    def __init__(self, key: str, problem: str, others: tuple[str, ...] = ()) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.reason = problem
        self.others = others


class Policy(Struct, frozen=True, kw_only=True):
    """What is in force for one provider and model; raises `PolicyWrong` where it could not work.

    `retain_tokens`, where it is not None, stands in place of `retain_ratio`; `window_tokens` None
    means: ask the log. The `summarizer_…` values are what the summarizer of that name is given,
    None where it decides itself.
    """

    threshold_ratio: float = DEFAULT_THRESHOLD_RATIO
    retain_ratio: float = DEFAULT_RETAIN_RATIO
    retain_tokens: int | None = None
    headroom_tokens: int = 0
    compaction_retries: int = 1
    max_overflow_retries: int = 1
    window_tokens: int | None = None
    backend: str = "standard"
    summarizer: str = "extractive"
    summarizer_model: str | None = None
    summarizer_base_url: str | None = None
    summarizer_command: str | None = None
    summarizer_window_tokens: int | None = None
    summarizer_timeout_seconds: float | None = None
    summarizer_sends_reasoning: bool = False
    prune_threshold_characters: int = DEFAULT_PRUNE_THRESHOLD
    prune_head_characters: int = DEFAULT_PRUNE_HEAD
    prune_tail_characters: int = DEFAULT_PRUNE_TAIL

    def __post_init__(self) -> None:
        """Checks every value by itself, then those that depend on each other."""
        _check_ratio("threshold_ratio", self.threshold_ratio)
        _check_ratio("retain_ratio", self.retain_ratio)
        for key, most in _COUNTS.items():
            if getattr(self, key) is not None:
                _check_count(key, getattr(self, key), most)
        if not self.threshold_ratio:
            raise PolicyWrong("threshold_ratio", "at 0 nothing would ever be below the threshold")
        for key in ("window_tokens", "summarizer_window_tokens"):
            if getattr(self, key) == 0:
                raise PolicyWrong(key, "a window of 0 tokens holds no request")
        if self.summarizer_timeout_seconds is not None:
            _check_seconds("summarizer_timeout_seconds", self.summarizer_timeout_seconds)
        _check_switch("summarizer_sends_reasoning", self.summarizer_sends_reasoning)
        self._check_tail()
        self._check_prune()

    def _check_tail(self) -> None:
        """A tail that reaches the threshold would be too much again at every step."""
        if self.retain_tokens is None and self.retain_ratio >= self.threshold_ratio:
            raise PolicyWrong(
                "retain_ratio",
                f"{self.retain_ratio} is not below threshold_ratio {self.threshold_ratio}",
                ("threshold_ratio",),
            )
        if self.window_tokens is not None:
            check_tail(self, self.window_tokens)

    def _check_prune(self) -> None:
        """A pruned result must be within the threshold, or it would be pruned again."""
        kept = self.prune_head_characters + self.prune_tail_characters
        if kept + MARKER_CHARACTERS > self.prune_threshold_characters:
            raise PolicyWrong(
                "prune_threshold_characters",
                f"{self.prune_threshold_characters} leaves no room for a head of"
                f" {self.prune_head_characters}, a tail of {self.prune_tail_characters} and a"
                f" marker of up to {MARKER_CHARACTERS} characters",
                ("prune_head_characters", "prune_tail_characters"),
            )


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
    count the reserved output against the window. Retain: floor(window × retain_ratio). A headroom
    or reservation that leaves nothing of the window is ignored.
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


def check_tail(policy: Policy, window_tokens: int) -> None:
    """Raises `PolicyWrong` where `retain_tokens` is not below the threshold of such a window."""
    allowed = budgets(policy, window_tokens, None)
    if policy.retain_tokens is not None and policy.retain_tokens >= allowed.threshold_tokens:
        raise PolicyWrong(
            "retain_tokens",
            f"{policy.retain_tokens} is not below the threshold of {allowed.threshold_tokens}"
            f" tokens (window {window_tokens})",
            ("threshold_ratio", "window_tokens", "headroom_tokens"),
        )


def _check_ratio(key: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyWrong(key, f"{value!r} is no number")
    if not 0 <= value <= 1:  # nan is neither
        raise PolicyWrong(key, f"{value} is not between 0 and 1")


def _check_seconds(key: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyWrong(key, f"{value!r} is no number")
    if not 0 < value <= MOST_SECONDS:  # nan is neither
        raise PolicyWrong(key, f"{value} is not above 0 and at most {MOST_SECONDS:.0f}")


def _check_switch(key: str, value: object) -> None:
    if not isinstance(value, bool):
        raise PolicyWrong(key, f"{value!r} is neither true nor false")


def _check_count(key: str, value: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyWrong(key, f"{value!r} is no whole number")
    if not 0 <= value <= most:
        raise PolicyWrong(key, f"{value} is not between 0 and {most}")


_COUNTS: Final = {
    "retain_tokens": MOST_TOKENS,
    "headroom_tokens": MOST_TOKENS,
    "window_tokens": MOST_TOKENS,
    "summarizer_window_tokens": MOST_TOKENS,
    "compaction_retries": MOST_RETRIES,
    "max_overflow_retries": MOST_RETRIES,
    "prune_threshold_characters": MOST_TOKENS,
    "prune_head_characters": MOST_TOKENS,
    "prune_tail_characters": MOST_TOKENS,
}
"""The values that count something, and the most that each may be."""

DEFAULT: Final = Policy()
