"""Windows of well-known models, for logs that do not say theirs: the last thing that is asked.

Rule: a model is known by its whole name or not at all. A name's vendor (`anthropic/…`), its date
and its channel (`-latest`) are taken off first, nothing else is: a version that nobody listed has
an unknown window, since a guess that is too large ends at the wall. The facts are those of the
`genai-prices` data, which is well kept but takes 1.6 MB of Python and pydantic to import; where
they round, they round down. What a provider's refusal says, or the log, always comes first.
"""

import re
from typing import Final

AS_OF: Final = "2026-11"
"""When the facts were taken from genai-prices 0.2.3."""

_CHANNEL: Final = re.compile(r"(?:-(?:latest|preview|20\d\d-\d\d-\d\d|20\d{6}))+\Z|[:@].*\Z")
"""What follows a model's name without making it another model."""

_BY_WINDOW: Final = {
    64_000: "deepseek-chat deepseek-reasoner",
    128_000: (
        "deepseek-v3.1-terminus deepseek-v3.2 deepseek-v3.2-exp chatgpt-4o gpt-4-turbo gpt-4o"
        " gpt-4o-mini gpt-5.3 o1-mini o1-preview glm-4.6v"
    ),
    131_072: (
        "gpt-oss-20b gpt-oss-120b grok-3 grok-3-fast grok-3-mini grok-3-mini-fast"
        " ministral-3b-2512 kimi-k2-0711-preview"
    ),
    8_192: "gpt-4 gpt-4-0613",
    16_385: "gpt-3.5-turbo gpt-3.5-turbo-0125",
    200_000: (
        "claude-3-haiku claude-3-sonnet claude-3-opus claude-3-5-haiku claude-3-5-sonnet"
        " claude-3-7-sonnet claude-haiku-4-5 claude-opus-4 claude-opus-4-0 claude-opus-4-1"
        " claude-opus-4-5 claude-sonnet-4 claude-sonnet-4-0 claude-sonnet-4-5 codex-mini"
        " o1 o1-pro o3 o3-mini o3-pro o4-mini"
    ),
    204_800: "minimax-m2 minimax-m2.1-highspeed minimax-m2.5-highspeed minimax-m2.7",
    256_000: "codestral codestral-2508 grok-4 grok-4-0709 grok-code-fast-1 grok-build-0.1",
    262_144: (
        "devstral-2512 kimi-k2-0905-preview kimi-k2-thinking kimi-k2-turbo kimi-k2.5 kimi-k2.6"
        " kimi-k2.7-code ministral-8b-2512 ministral-14b-2512 mistral-large-2512 mistral-medium-3-5"
        " mistral-small-2603"
    ),
    400_000: (
        "gpt-5 gpt-5-mini gpt-5-nano gpt-5-pro gpt-5.1 gpt-5.1-codex-mini gpt-5.2 gpt-5.2-pro"
        " gpt-5.3-codex gpt-5.4-mini gpt-5.4-nano"
    ),
    500_000: "grok-4.5 grok-4.6 grok-4.7",
    1_000_000: (
        "deepseek-flash deepseek-v4-flash deepseek-v4-pro gpt-4.1 gpt-4.1-mini gpt-4.1-nano gpt-5.5"
        " gpt-5.5-pro claude-fable-5 claude-fable-5-1 claude-fable-5-2 claude-haiku-5-5"
        " claude-mythos-5-2 claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-5"
        " claude-opus-5-5 claude-sonnet-4-6 claude-sonnet-5 claude-sonnet-5-5 gemini-1.5-flash"
        " gemini-2.0-flash gemini-2.0-flash-lite gemini-3-flash gemini-3.1-flash-lite"
        " gemini-3.5-flash gemini-3.5-flash-lite gemini-3.6-flash gemini-3.7-flash gemini-3.8-flash"
        " grok-4.20 grok-4.3 glm-5.2 glm-5.3 glm-5.3-flash minimax-m3 minimax-m3.1-flash"
    ),
    1_048_576: "gemini-2.5-flash gemini-4-argon kimi-k3 kimi-k3.1-pro mistral-large-4",
    1_050_000: (
        "gpt-5.4 gpt-5.4-pro gpt-5.6-luna gpt-5.6-sol gpt-5.6-terra gpt-6-astra gpt-6-luna"
        " gpt-6-sol gpt-6.1-sol gpt-6.1-terra"
    ),
    2_000_000: "grok-4-fast-reasoning grok-4-fast-non-reasoning grok-4-1-fast-reasoning",
}

_WINDOWS: Final = {name: window for window, names in _BY_WINDOW.items() for name in names.split()}


def window_tokens(model: str) -> int | None:
    """The window in tokens of the model called `model`, None where it is not a well-known one."""
    name = model.rpartition("/")[2].lower()
    if name in _WINDOWS:
        return _WINDOWS[name]
    return _WINDOWS.get(_CHANNEL.sub("", name))
