"""The simple reader, the plain reader and the lists beside the logs say the same of every log."""

from __future__ import annotations

import json
from typing import Any

import plain_reader
import pytest
from harness.make_logs import EXPECTED, LOGS, STORIES, frames
from harness.simple_reader import explain
from test_plain_reader import found

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
STORY_FACTS: dict[str, Any] = json.loads(EXPECTED.read_text("utf-8"))
SAMPLE_FACTS: dict[str, Any] = {
    name: {key: value for key, value in facts.items() if key != "pressure_decisions"}
    for name, facts in json.loads((LOGS / "expected.json").read_text("utf-8")).items()
    if facts["format"] == 4
}
FACTS = STORY_FACTS | SAMPLE_FACTS


def test_every_story_has_its_log_and_its_facts() -> None:
    """No story is told without its log, no log lies there without a story."""
    assert set(STORIES) == set(STORY_FACTS)
    assert set(STORIES) <= {path.name for path in LOGS.iterdir()}


@pytest.mark.parametrize("name", FACTS)
def test_the_simple_reader_finds_what_is_listed(name: str) -> None:
    """Every listed figure is what one more reader computes, and what the harness itself noted."""
    data = (LOGS / name).read_bytes()
    lines = b"".join(frames(data)) if data.startswith(ZSTD_MAGIC) else data
    assert FACTS[name] == explain([json.loads(line) for line in lines.splitlines()])


@pytest.mark.parametrize("name", STORY_FACTS)
def test_the_plain_reader_finds_what_is_listed(name: str) -> None:
    """Both readers agree on the stories too, and neither finds anything broken."""
    reading = plain_reader.read((LOGS / name).read_bytes())
    assert STORY_FACTS[name] == found(reading)
    assert (None, None, False) == (reading.broken, reading.refused, reading.torn)
