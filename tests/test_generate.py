"""Generated logs are right ones: small twins of the large ones break no rule."""

from __future__ import annotations

import io
import json
from pathlib import Path

import plain_reader
import pytest
from benchmarks import generate

SHAPES: dict[str, list[str]] = {
    "realistic": ["--mb", "1.5"],
    "many-nodes": ["--count", "40"],
    "many-replacements": ["--count", "300", "--replacements", "30"],
    "one-result-replaced": ["--count", "20"],
    "one-message-replaced": ["--count", "20"],
    "one-node-twin": ["--count", "20"],
    "many-live-prunes": ["--count", "15"],
    "short-lines": ["--mb", "0.3"],
    "one-line": ["--mb", "0.1"],
}


@pytest.mark.parametrize("version", ["0", "3", "4"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_generated_log_breaks_no_rule(shape: str, version: str, tmp_path: Path) -> None:
    """The plain reader finds nothing wrong, neither with surface nor with turns, calls, prices."""
    path = tmp_path / "log.jsonl"
    generate.main([shape, str(path), "--format", version, *SHAPES[shape]])
    reading = plain_reader.read(path.read_bytes())
    assert (None, None, False) == (reading.broken, reading.refused, reading.torn)


def test_a_realistic_log_has_all_that_a_session_has(tmp_path: Path) -> None:
    """It is folded and pruned now and then, and its surface stays bounded."""
    path = tmp_path / "log.jsonl"
    generate.realistic(path, 3_000_000)
    reading = plain_reader.read(path.read_bytes())
    kinds = [item.kind for item in reading.replacements]
    assert {"summary", "prune"} == set(kinds)
    assert reading.measure.surface_tokens < generate.FOLD_AT_TOKENS + 30_000
    assert "usage" == reading.measure.baseline
    assert 3_000_000 < path.stat().st_size < 3_300_000


def test_a_realistic_log_is_no_easier_to_read_than_a_real_one(tmp_path: Path) -> None:
    """Results hold what code holds, escapes and letters beyond ASCII; pieces are a few letters."""
    path = tmp_path / "log.jsonl"
    generate.realistic(path, 3_000_000)
    lines = path.read_bytes().splitlines()
    results = b"".join(raw for raw in lines if b'"tool/result"' in raw[:30])
    assert len(results) / 50 < results.count(b"\\")
    assert results.count(b'\\"') > 1_000
    assert results.count(b"\\t") > 1_000
    assert not results.isascii()
    answers = [json.loads(raw) for raw in lines if b'"assistant/message"' in raw[:30]]
    rows = [row for answer in answers for row in answer["data"]["stream"] if "texts" in row]
    pieces = [piece for row in rows for piece in row["texts"]]
    assert sum(map(len, pieces)) / len(pieces) < 5


def test_framing_and_seed_change_what_they_say(tmp_path: Path) -> None:
    """A framed log holds the plain one's text; the same seed gives the same bytes."""
    plain, framed, again = (tmp_path / name for name in ("plain", "framed", "again"))
    generate.realistic(plain, 200_000, version=0, seed=1)
    generate.realistic(framed, 200_000, version=0, seed=1, framed=True)
    generate.realistic(again, 200_000, version=0, seed=2)
    text, torn, wrong = plain_reader.unpack(framed.read_bytes())
    assert (plain.read_bytes(), False, None) == (text, torn, wrong)
    assert plain.read_bytes() != again.read_bytes()


def test_a_bomb_is_small_and_unpacks_to_what_was_asked_for(tmp_path: Path) -> None:
    """The frame made by hand is one that a decompressor takes, and holds one whole event."""
    import zstandard

    path = tmp_path / "bomb.zstd"
    generate.bomb(path, 100_000_000)
    assert path.stat().st_size < 10_000
    reader = zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(path.read_bytes()), read_across_frames=True
    )
    lines = reader.read().split(b"\n")
    assert 100_000_000 - generate.MAX_BLOCK_BYTES < len(lines[-2])
    assert "tests/bomb" == json.loads(lines[-2])["type"]


def test_a_deep_log_nests_as_deep_as_was_asked_for(tmp_path: Path) -> None:
    """The plain reader gives up at exactly that line; all others are sound."""
    path = tmp_path / "deep.jsonl"
    generate.deep(path, 100_000)
    lines = path.read_bytes().splitlines()
    deepest = next(i for i, raw in enumerate(lines, start=1) if b"[" * 100_000 in raw)
    broken = plain_reader.read(path.read_bytes()).broken
    assert broken is not None
    assert ("too-deep", deepest) == (broken.rule, broken.line)
