"""Every backend that ships, on every discipline: what comes of it, and that no log suffers."""

from pathlib import Path
from typing import Final, Literal

import plain_reader
import pytest
from demo import WINDOW_TOKENS, demo
from running import LOGS

from dsh_compact import simulate, tokenizers
from dsh_compact.backends.lookup import BUILT_IN, load
from dsh_compact.recovery import Verdict
from dsh_compact.session import open_session
from dsh_compact.simulate import Rehearsal, Rehearsed
from dsh_compact.summarizers.extract import Extractive
from dsh_compact.tokenizers.cache import CountCache
from dsh_compact.verify import verify
from dsh_compact.wall import Wall, in_words_of

TOKENIZER: Final = CountCache(tokenizers.load("o200k_base"))

OUTCOMES: Final[dict[str, tuple[Literal["retry", "preserve"], Verdict, bool]]] = {
    "standard": ("retry", Verdict.REDUCED, True),
    "prune-only": ("preserve", Verdict.STILL_OVER, False),
    "drop-oldest": ("retry", Verdict.REDUCED, True),
    "lying": ("preserve", Verdict.NO_OP, False),
    "crash": ("preserve", Verdict.BACKEND_ERROR, False),
    "prune-then-crash": ("preserve", Verdict.STILL_OVER, False),
    "hang": ("preserve", Verdict.TIMED_OUT, False),
    "bloated": ("preserve", Verdict.BLOATED, False),
    "empty": ("preserve", Verdict.BACKEND_ERROR, False),
    "one-token": ("preserve", Verdict.STILL_OVER, False),
    "splits-pairs": ("preserve", Verdict.BACKEND_ERROR, False),
    "folds-system": ("preserve", Verdict.BACKEND_ERROR, False),
    "stale": ("retry", Verdict.REDUCED, True),
    "memory-only": ("preserve", Verdict.NOT_PERSISTED, False),
    "forger": ("preserve", Verdict.NOT_PERSISTED, False),
    "scribbler": ("preserve", Verdict.NOT_PERSISTED, False),
    "rewriter": ("preserve", Verdict.NOT_PERSISTED, False),
    "flaky": ("preserve", Verdict.BACKEND_ERROR, False),
    "killer": ("preserve", Verdict.BACKEND_ERROR, False),
}
"""On the session that ships: the last decision, the verdict, whether an answer came."""

SCRIBBLERS: Final = {"scribbler", "rewriter"}
"""Those who write past every door: only they can leave damage, and only on the copy."""


def play(log: Path, name: str, limit_tokens: int, discipline: str = "proof") -> Rehearsed:
    """One rehearsal with a backend that ships."""
    with open_session(log) as session:
        decide = simulate.discipline(discipline, load(name, Extractive), timeout_seconds=0.3)
        wall = Wall(limit_tokens=limit_tokens, refuse=in_words_of("deepseek"))
        return Rehearsal(
            session, TOKENIZER, lambda _: wall, decide, backend=name, max_requests=5
        ).play()


def test_nobody_is_left_out() -> None:
    """The table knows every backend that ships."""
    assert list(BUILT_IN) == list(OUTCOMES)


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_comes_of_it(name: str, tmp_path: Path) -> None:
    """Decision, verdict and end; never an invalid retry; the log as sound as it was."""
    log = demo().write(tmp_path / "session.jsonl")
    before = log.read_bytes()
    done = play(log, name, WINDOW_TOKENS)
    assert OUTCOMES[name] == (done.decision, done.verdict, done.recovered)
    assert 0 == done.invalid_retries
    if name not in SCRIBBLERS:
        assert log.read_bytes().startswith(before)
        assert () == verify(log).findings
        assert done.generation_after == plain_reader.read(log.read_bytes()).generation


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_original_error_comes_back(name: str, tmp_path: Path) -> None:
    """Where no answer came, what is reported is the provider's refusal and nobody else's words."""
    done = play(demo().write(tmp_path / "session.jsonl"), name, WINDOW_TOKENS)
    if done.recovered:
        assert None is done.failure
        return
    assert done.failure is not None
    assert "CONTEXT_WINDOW_EXCEEDED" == done.failure.code
    assert f"maximum context length is {WINDOW_TOKENS} tokens" in done.failure.message


@pytest.mark.parametrize("name", [name for name in OUTCOMES if name != "hang"])
@pytest.mark.parametrize("log_name", ["v0-stuck.jsonl", "v4-killed.jsonl", "v4-framed.jsonl.zstd"])
def test_real_logs_stay_sound(name: str, log_name: str, tmp_path: Path) -> None:
    """Plain and framed, stuck and killed, formats 0 and 4: nothing is found in the copies."""
    log = tmp_path / log_name
    log.write_bytes((LOGS / log_name).read_bytes())
    done = play(log, name, 3_000)
    assert 0 == done.invalid_retries
    if name not in SCRIBBLERS:
        assert () == verify(log).findings


@pytest.mark.parametrize(
    ("name", "discipline", "requests", "invalid", "stopped"),
    [
        ("lying", "trust", 5, 4, 5),
        ("lying", "breaker:3", 3, 2, None),
        ("crash", "trust", 1, 0, None),
        ("crash", "breaker:3", 3, 2, None),
        ("standard", "trust", 2, 0, None),
        ("scribbler", "trust", 2, 1, None),
        ("scribbler", "breaker:3", 2, 1, None),
        ("rewriter", "trust", 2, 1, None),
        ("forger", "trust", 5, 4, 5),
    ],
)  # fmt: skip
def test_what_others_make_of_it(
    name: str, discipline: str, requests: int, invalid: int, stopped: int | None, tmp_path: Path
) -> None:
    """Disciplines that ask the backend pay for it; a log that takes no refusal ends them, too."""
    done = play(demo().write(tmp_path / "session.jsonl"), name, WINDOW_TOKENS, discipline)
    assert (requests, invalid, stopped) == (
        len(done.requests),
        done.invalid_retries,
        done.stopped_at,
    )


def test_one_token_saves_nothing_by_a_real_count(tmp_path: Path) -> None:
    """Its retry is as long as the request was, to a hundredth."""
    done = play(demo().write(tmp_path / "session.jsonl"), "one-token", WINDOW_TOKENS)
    first, second = (one.tokens for one in done.requests)
    assert second > 0.99 * first
    assert done.generation_after > done.generation_before
