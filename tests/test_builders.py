"""Built logs are logs that the harness would open, and look like its own."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import plain_reader
import pytest
from builders import Conversation, call, line

LOGS = Path(__file__).parent / "logs"


def long_story(version: int) -> Conversation:
    """A session in which everything happens that a log can hold."""
    return (
        Conversation(format=version, window=8_000, max_tokens=500)
        .system("You help.")
        .user("list the files")
        .assistant("Running.", calls=[call("c1"), call("c2")], reasoning="Hm.", usage=(90, 29))
        .call("c1")
        .result("c2", "b " * 400)
        .result("c1", "a " * 4000)
        .note("the folder changed")
        .refusal(limit=8_000, requested=10_476, messages=10_476)
        .prune("c1", "a …")
        .failed_compaction()
        .compaction("Files were listed.")
        .header()
        .assistant("Done.", usage=(300, 9))
        .user("go on 🚀 \ud83d")
        .failure(code="OVERLOADED", message="try later", status=529)
        .give_up()
        .compaction("They were listed, and the provider was busy.")
        .note("between turns")
        .user("again")
        .assistant()
        .event("tests/marker", {"x": 1}, ignorable=True)
        .user("and a call that is never answered")
        .assistant("", calls=[call("c3")])
        .call("c3")
        .open_bracket()
        .end_seed()
        .interrupt()
    )


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("framed", [False, True])
def test_a_built_log_breaks_no_rule(version: int, framed: bool) -> None:
    """The plain reader finds nothing wrong with a log that has a bit of everything."""
    log = long_story(version)
    if version != 0:
        log.user("rules").developer("Be brief.").system("You help well.")
    reading = plain_reader.read(log.framed() if framed else log.bytes())
    assert (None, None, False) == (reading.broken, reading.refused, reading.torn)
    assert (log.next_seq, log.node_seqs) == (reading.events, reading.node_seqs)
    kinds = ["prune", "summary", "summary", "other"][: 3 if version == 0 else 4]
    assert kinds == [item.kind for item in reading.replacements]


def key_pairs(data: bytes) -> set[tuple[str, str, str]]:
    """Which key stands before which, by the place: record type and path to the object."""
    found = set()
    for raw in data.splitlines():
        record = json.loads(raw)
        inside = record.get("data", {})
        if "error" in inside and record["type"] == "tool/result":
            continue  # written on resume, in an order of its own
        for path, part in (("", record), ("data", inside), ("message", inside.get("message", {}))):
            place = f"{record['type']} {path}"
            found |= {(place, *pair) for pair in combinations(part, 2)}
    return found


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_built_record_has_its_keys_in_the_order_of_a_real_one(version: int) -> None:
    """No two keys stand in another order than in real logs of the format, and none is made up."""
    real = {path.name: key_pairs(path.read_bytes()) for path in LOGS.glob("*.jsonl")}
    same_format = set().union(*(pairs for name, pairs in real.items() if name[1] == str(version)))
    anywhere = {(place, key) for pairs in real.values() for place, *both in pairs for key in both}
    built = key_pairs(long_story(version).bytes())
    ours = {"session/end-seed", "tests/marker"}
    compared = {pair for pair in built if pair[0].split()[0] not in ours}
    assert set() == {pair for pair in compared if (pair[0], pair[2], pair[1]) in same_format}
    assert set() == {(place, key) for place, *both in compared for key in both} - anywhere
    assert len(compared & same_format) > 100


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.jsonl")), ids=lambda path: path.name)
def test_lines_are_written_as_the_harness_writes_them(path: Path) -> None:
    """A real log, decoded and written again, is the same to the byte."""
    real = path.read_bytes()
    assert real == b"".join(line(json.loads(raw)) for raw in real.splitlines())


def test_interrupted_calls_are_answered_as_the_harness_answers_them() -> None:
    """A started call's outcome is unknown, another was not started: the keys are the real ones."""
    raw = (LOGS / "v4-interrupted.jsonl").read_bytes().splitlines()
    real = [json.loads(line) for line in raw if b"interrupted-tool-result" in line]
    log = Conversation().user("go").assistant(calls=[call("c1"), call("c2")]).call("c1").interrupt()
    built = [record for record in log.records if "error" in record.get("data", {})]
    assert [keys(record) for record in real] == [keys(record) for record in built]


def keys(value: object) -> object:
    """The keys of an object and of those in it, in their order."""
    return [(k, keys(v)) for k, v in value.items()] if isinstance(value, dict) else None


def test_a_verb_that_would_break_a_rule_asserts() -> None:
    """The builder refuses to end a turn whose call waits for its answer."""
    log = Conversation().user("go").assistant(calls=[call("c1")])
    with pytest.raises(AssertionError, match="wait for their results"):
        log.end()
