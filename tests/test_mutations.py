"""The mutations do what their names say, and the plain reader bears them all."""

from __future__ import annotations

import random
from pathlib import Path

import plain_reader
import pytest
from builders import Conversation, call
from mutations import OPERATORS, PIECES, mutate

LOGS = [path.read_bytes() for path in sorted((Path(__file__).parent / "logs").glob("*.jsonl*"))]


def short_log() -> Conversation:
    """A log with a call, a fold and a prune."""
    log = Conversation().user("go").assistant(calls=[call("c1")]).result("c1", "x" * 500)
    return log.prune("c1", "x").assistant("done").end().compaction("It went.")


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("framed", [False, True])
def test_an_operator_changes_bytes_and_bears_any(name: str, framed: bool) -> None:
    """Most of its mutants differ from the log; an empty log and noise are not too little for it."""
    base = short_log().framed() if framed else short_log().bytes()
    mutants = [OPERATORS[name](random.Random(seed), base, LOGS) for seed in range(20)]
    assert sum(mutant != base for mutant in mutants) >= 5
    for odd in (b"", b"\n", b"{}\n", b"\x28\xb5\x2f\xfd", b"[1]\n\x00"):
        assert isinstance(OPERATORS[name](random.Random(1), odd, [b""]), bytes)


@pytest.mark.parametrize("name", PIECES)
def test_moving_lines_leaves_each_as_it_is(name: str) -> None:
    """What moves lines about makes up none, except the one that it tears or ends otherwise."""
    base = short_log().bytes()
    mutant = PIECES[name](random.Random(3), base, [base])
    strange = set(mutant.split(b"\n")) - set(base.split(b"\n"))
    assert len(strange) <= 1


def test_the_same_seed_gives_the_same_mutant() -> None:
    """A mutant can be made again from its seed alone."""
    first, again = (mutate(random.Random("7:12"), LOGS[0], LOGS) for _ in range(2))
    assert first == again
    assert first != mutate(random.Random("7:13"), LOGS[0], LOGS)


def test_the_plain_reader_bears_every_mutant() -> None:
    """It never raises, and most mutants break a rule or tear the tail."""
    readings = []
    for seed in range(150):
        chance = random.Random(seed)
        base = chance.choice([short_log().bytes(), short_log().framed()])
        readings.append(plain_reader.read(mutate(chance, base, [base, *LOGS[:2]]).data))
    assert sum(reading.refused is not None or reading.torn for reading in readings) > 75
