"""Well-known models and their windows: whole names or nothing."""

from __future__ import annotations

import pytest

from dsh_compact.catalog import window_tokens


@pytest.mark.parametrize(
    ("window", "model"),
    [
        (1_000_000, "deepseek-v4-flash"),
        (200_000, "claude-opus-4-1"),
        (200_000, "claude-opus-4-1-20250805"),
        (200_000, "anthropic/claude-opus-4-1@20250805"),
        (128_000, "openai/gpt-4o-2024-08-06"),
        (400_000, "GPT-5"),
        (1_000_000, "models/gemini-3-flash-preview"),
        (262_144, "moonshotai/kimi-k2-0905-preview"),
        (131_072, "kimi-k2-0711-preview"),
        (1_000_000, "x/y/claude-sonnet-5:beta"),
    ],
)
def test_a_model_is_known_by_its_name(window: int, model: str) -> None:
    """Whatever vendor stands before it, and whatever date or channel behind."""
    assert window == window_tokens(model)


@pytest.mark.parametrize(
    "model",
    [
        "",
        "gpt-5.9",
        "gpt-4o-realtime",
        "claude-opus-9",
        "my-gpt-4",
        "deepseek-v4-flash-mini",
        "-",
        "/",
    ],
)
def test_what_nobody_listed_is_unknown(model: str) -> None:
    """A near name is another model: a window that is too large ends at the wall."""
    assert None is window_tokens(model)
