"""A light gives the event that decoding gives, or none: on real lines, and on lines gone wrong."""

from __future__ import annotations

import random
import re
from typing import Any, Final

import pytest
from running import LOGS

from dsh_compact.codec import decode, decode_header
from dsh_compact.codec.light import LIGHTS, replacement
from dsh_compact.codec.types import SURFACE_KINDS
from dsh_compact.errors import RuleBroken
from dsh_compact.events import Event, Place, RequestHeader

PLACE: Final = Place(-1, 7, 9)
BYTES: Final = b'"\\{}[],:0129-+.eE abtruefalsn\n\x00\xff'
"""What a byte is turned into: what JSON is made of, and what it is not."""

TYPES: Final = {
    "TurnStart": "turn/start",
    "TurnEnd": "turn/end",
    "StepStart": "step/start",
    "StepEnd": "step/end",
    "RequestHeader": "request/header",
    "ToolCallStarted": "tool/call",
    "CompactionPrune": "compaction/prune",
}


def lines_of(kind: str) -> list[tuple[bytes, int]]:
    """The real lines of that type on disk, each with its format."""
    found = []
    for path in sorted(LOGS.glob("*.jsonl")):
        header, *lines = path.read_bytes().splitlines()
        mark = b'{"type":"%b",' % kind.encode()
        version = decode_header(header).version
        found += [(line, version) for line in lines if line.startswith(mark)]
    return found


def seq_of(line: bytes) -> int:
    """The seq as the head has it."""
    found = re.match(rb'\{"type":"[^"]*","seq":([0-9]+),', line)
    assert found is not None
    return int(found[1])


def lit(event: type[Any], line: bytes, seq: int) -> Event | None:
    """What the light gives for a line that stands between others."""
    data = bytearray(b"before\n" + line + b"\nbehind")
    return LIGHTS[event](data, 7, 7 + len(line), seq, PLACE)


def decoded(line: bytes, version: int) -> Event | None:
    """What decoding gives; None where it finds fault."""
    try:
        return decode(line, version, PLACE)
    except RuleBroken:
        return None


@pytest.mark.parametrize("event", LIGHTS, ids=lambda event: event.__name__)
def test_a_real_line_is_lit(event: type[Any]) -> None:
    """Every line of the harness, but for a turn that failed, and as decoding reads it."""
    lines = lines_of(TYPES[event.__name__])
    assert lines
    for line, version in lines:
        found = lit(event, line, seq_of(line))
        assert found is not None or b'"error":{' in line
        assert found in (None, decode(line, version, PLACE))


@pytest.mark.parametrize("event", LIGHTS, ids=lambda event: event.__name__)
def test_a_line_gone_wrong_is_read_as_decoding_reads_it(event: type[Any]) -> None:
    """Behind the head any byte is changed, doubled or left out: the same event, or none.

    A request header alone is believed to be one: it is decoded when somebody asks for it.
    """
    dice = random.Random(event.__name__)
    lines = lines_of(TYPES[event.__name__])
    for _ in range(4_000):
        line, version = dice.choice(lines)
        behind_head = line.index(b'"data":{') + 8
        at = dice.randrange(behind_head, len(line))
        new = dice.choice([b"", line[at : at + 1] * 2, bytes([dice.choice(BYTES)])])
        wrong = line[:at] + new + line[at + 1 :]
        found = lit(event, wrong, seq_of(line))
        if event is RequestHeader:
            assert found in (None, RequestHeader(seq_of(line), PLACE))
        elif found is not None:
            assert decoded(wrong, version) == found


@pytest.mark.parametrize("event", LIGHTS, ids=lambda event: event.__name__)
def test_what_claims_to_change_the_surface_is_decoded(event: type[Any]) -> None:
    """It must not, and decoding says so."""
    line, _ = lines_of(TYPES[event.__name__])[0]
    claiming = line[:-1] + b',"surfaceOp":"append"}'
    assert lit(event, line, seq_of(line)) is not None
    assert lit(event, claiming, seq_of(line)) is None


# What changes the surface -------------------------------------------------------------------------


def replacing_lines() -> list[tuple[bytes, int, str]]:
    """The real lines that replace, each with its format and its kind."""
    found: list[tuple[bytes, int, str]] = []
    for path in sorted(LOGS.glob("*.jsonl")):
        header, *lines = path.read_bytes().splitlines()
        version = decode_header(header).version
        kinds = {
            b'{"type":"%b",' % name.encode(): kind for name, kind in SURFACE_KINDS[version].items()
        }
        for line in lines:
            kind = next((kinds[mark] for mark in kinds if line.startswith(mark)), None)
            if kind is not None and b'"surfaceOp":{' in line:
                found.append((line, version, kind))
    return found


def changed(line: bytes, version: int, kind: Any) -> Event | None:
    """What the layout tells of a line that stands between others."""
    data = bytearray(b"before\n" + line + b"\nbehind")
    return replacement(data, 7, 7 + len(line), seq_of(line), PLACE, kind, version)


def test_a_real_replacement_is_lit() -> None:
    """Every one of the harness, in every format, as decoding reads it."""
    lines = replacing_lines()
    assert {0, 3, 4} == {version for _, version, _ in lines}
    assert {"tool", "user"} <= {kind for _, _, kind in lines}
    for line, version, kind in lines:
        assert decode(line, version, PLACE) == changed(line, version, kind)


def test_a_replacement_gone_wrong_is_read_as_decoding_reads_it() -> None:
    """Behind its data any byte is changed, doubled or left out: the same change, or none.

    A zero before a number is no JSON, which a glance believes.
    """
    dice = random.Random("replacement")
    lines = replacing_lines()
    for _ in range(6_000):
        line, version, kind = dice.choice(lines)
        at = dice.randrange(line.rindex(b',"sourceEventSeqs":'), len(line))
        new = dice.choice([b"", line[at : at + 1] * 2, bytes([dice.choice(BYTES)])])
        wrong = line[:at] + new + line[at + 1 :]
        found = changed(wrong, version, kind)
        if found is not None and not re.search(rb"[\[,]0[0-9]", wrong):
            assert decoded(wrong, version) == found


def test_what_a_message_quotes_is_no_replacement() -> None:
    """The end of a line is its own, whatever stands in its text."""
    line, version, kind = next(one for one in replacing_lines() if one[2] == "user")
    tail = line[line.rindex(b'},"sourceEventSeqs":') :]
    quoting = line.replace(b'"text":"', b'"text":"' + tail.replace(b'"', b'\\"'), 1)
    assert decode(quoting, version, PLACE) == changed(quoting, version, kind)
    appended = quoting[: quoting.rindex(b',"sourceEventSeqs":')] + b',"surfaceOp":"append"}'
    assert changed(appended, version, kind) is None
