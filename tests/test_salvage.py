"""Everything that stands in a file comes out, as lines or as a stretch that gives none."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from builders import Conversation, frame, line
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_compact import reader as reading
from dsh_compact.errors import Damage
from dsh_compact.reader import Batch, LogReader
from dsh_compact.verify import salvage
from dsh_compact.verify.salvage import Lost, lines_of_torn, pieces


def found(path: Path) -> tuple[list[bytes], list[Lost]]:
    """The lines and the lost stretches of a file."""
    with LogReader(str(path)) as reader:
        lines: list[bytes] = []
        lost: list[Lost] = []
        for piece in pieces(reader):
            if isinstance(piece, Batch):
                lines += map(bytes, piece.lines)
            else:
                lost.append(piece)
    return lines, lost


def put(folder: Path, content: bytes) -> Path:
    """A file with that content."""
    path = folder / "log"
    path.write_bytes(content)
    return path


def packed() -> list[bytes]:
    """The frames of a small log, one a record."""
    log = Conversation().user("list the files").assistant("Well.").end()
    return [frame(line(record)) for record in log.records]


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_whatever_is_done_to_a_file_it_is_read_to_its_end(seed: int, times: int) -> None:
    """Every byte of a spoiled framed log belongs to a frame that was read or to a lost stretch."""
    from tempfile import TemporaryDirectory

    chance, content = random.Random(seed), bytearray(b"".join(packed()))
    for _ in range(times):
        at = chance.randrange(4, len(content))
        content[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
    with TemporaryDirectory() as folder:
        path = put(Path(folder), bytes(content))
        lines, lost = found(path)
        whole = [raw for record in packed() for raw in [record] if raw in content]
        assert len(lines) + sum(x.size_bytes > 0 for x in lost) >= min(1, len(whole))
        for before, after in pairwise(lost):
            assert before.start_bytes + before.size_bytes <= after.start_bytes
        if lost and lost[-1].is_tail:
            assert lost[-1].start_bytes + lost[-1].size_bytes == len(content)


def test_reading_goes_on_behind_a_bad_checksum(tmp_path: Path) -> None:
    """The broken frame says itself where the next one begins, however long it is."""
    frames = packed()
    big = bytearray(frame(random.Random(1).randbytes(300_000) + b"\n"))
    big[5_000] ^= 1
    lines, lost = found(put(tmp_path, b"".join([*frames[:3], bytes(big), *frames[3:]])))
    assert len(frames) == len(lines)
    assert [(Damage.BAD_CHECKSUM, len(big))] == [(x.damage, x.size_bytes) for x in lost]


def test_a_magic_in_rubbish_is_no_frame(tmp_path: Path) -> None:
    """What only looks like the beginning of a frame is passed over."""
    frames = packed()
    rubbish = b"rubbish \x28\xb5\x2f\xfd and more rubbish " * 9
    lines, lost = found(put(tmp_path, b"".join([*frames[:3], rubbish, *frames[3:]])))
    assert len(frames) == len(lines)
    assert [len(rubbish)] == [x.size_bytes for x in lost]


def test_the_search_for_a_frame_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file full of false beginnings is given up, not tried for ever."""
    monkeypatch.setattr(salvage, "MAX_TRIES", 5)
    frames = packed()
    rubbish = b"\x28\xb5\x2f\xfd\xff" * 50
    lines, lost = found(put(tmp_path, b"".join([frames[0], b"x", rubbish, *frames[1:]])))
    assert 1 == len(lines)
    assert lost[-1].is_tail


def test_a_frame_that_ends_inside_a_record_gives_its_whole_lines(tmp_path: Path) -> None:
    """Two whole lines and half a third: two come out, the frame is told."""
    frames = packed()
    split = frame(b'{"a":1}\n{"b":2}\n{"c":')
    lines, lost = found(put(tmp_path, b"".join([frames[0], split, *frames[1:]])))
    assert [b'{"a":1}', b'{"b":2}'] == lines[1:3]
    assert len(frames) + 2 == len(lines)
    assert [Damage.NOT_ZSTD] == [x.damage for x in lost]


def test_reading_goes_on_behind_an_endless_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line beyond every limit is passed over up to its end."""
    monkeypatch.setattr(reading, "CHUNK_BYTES", 100)
    monkeypatch.setattr(reading, "MAX_RECORD_BYTES", 1_000)
    lines, lost = found(put(tmp_path, b"one\n" + b"x" * 9_000 + b"\ntwo\n"))
    assert [b"one", b"two"] == lines
    assert [(Damage.TOO_LARGE, 4, 9_001)] == [(x.damage, x.start_bytes, x.size_bytes) for x in lost]


@pytest.mark.parametrize("framed", [False, True])
def test_a_torn_tail_comes_last(tmp_path: Path, framed: bool) -> None:
    """What was never finished is the last piece, and says so."""
    whole = b"".join(packed()) if framed else b"one\ntwo\n"
    torn = frame(b"three\n")[:-2] if framed else b"thr"
    _, lost = found(put(tmp_path, whole + torn))
    code = Damage.TORN_FRAME if framed else Damage.TORN_LINE
    assert [(code, len(whole), len(torn), True)] == [
        (x.damage, x.start_bytes, x.size_bytes, x.is_tail) for x in lost
    ]


def test_a_line_that_lacks_only_its_end_is_given_it(tmp_path: Path) -> None:
    """The tail of a plain log is one line without its newline."""
    path = put(tmp_path, b"one\ntwo")
    with LogReader(str(path)) as reader:
        tail = [piece for piece in pieces(reader) if isinstance(piece, Lost)][-1]
        assert b"two\n" == lines_of_torn(reader, tail)
