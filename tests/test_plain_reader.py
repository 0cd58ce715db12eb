"""The plain reader against logs that the real harness wrote, and against what it must refuse."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import plain_reader
import pytest

LOGS = Path(__file__).parent / "logs"
EXPECTED: dict[str, Any] = json.loads((LOGS / "expected.json").read_text("utf-8"))


def found(reading: plain_reader.Reading) -> dict[str, Any]:
    """A reading in the words of expected.json."""
    measure = reading.measure
    return {
        "format": reading.format,
        "events": reading.events,
        "generation": reading.generation,
        "node_seqs": reading.node_seqs,
        "window": measure.context_window,
        "replacements": [
            {key: value for key, value in asdict(item).items() if key != "kind"}
            for item in reading.replacements
        ],
        "compactions": [asdict(item) for item in reading.compactions],
        "measure_at_end": {
            "baseline": measure.baseline,
            "baseline_tokens": measure.baseline_tokens,
            "delta_tokens": measure.delta_tokens,
            "total_tokens": measure.total_tokens,
            "surface_tokens": measure.surface_tokens,
            "nodes": len(reading.nodes),
            "provider_limit": measure.provider_limit,
        },
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_it_reads_what_the_harness_meant(name: str) -> None:
    """Every figure of a real log is the one that is known to be right."""
    expected = {k: v for k, v in EXPECTED[name].items() if k != "pressure_decisions"}
    assert expected == found(plain_reader.read((LOGS / name).read_bytes()))


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.jsonl*")), ids=lambda path: path.name)
def test_the_harness_opens_its_own_logs(path: Path) -> None:
    """No log that the harness wrote breaks a rule by which it refuses logs."""
    reading = plain_reader.read(path.read_bytes())
    assert (None, None, False) == (reading.broken, reading.refused, reading.torn)


def test_it_decides_as_the_harness_decided() -> None:
    """Cut before each step, the pressure log measures what the harness measured there."""
    name = "v4-pressure.jsonl"
    lines = (LOGS / name).read_bytes().splitlines(keepends=True)
    for step in EXPECTED[name]["pressure_decisions"]["steps"]:
        prefix = [x for x in lines if json.loads(x).get("seq", -1) < step["before_seq"]]
        measure = plain_reader.read(b"".join(prefix)).measure
        assert step["total_tokens"] == measure.total_tokens
