"""A frame's end is told from its block headers alone, and nothing unpacks beyond the limits."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from damaged import bomb
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_compact import frames
from dsh_compact.errors import Damage, RuleBroken

CONTENTS = [b"", b"x\n", b"line\n" * 50_000, os.urandom(300_000), b"\0" * 1_000_000]


@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_what_is_packed_unpacks(content: bytes) -> None:
    """One frame, with a checksum, as long as its headers say."""
    packed = frames.pack(content)
    assert frames.MAGIC == packed[:4]
    assert len(packed) == frames.frame_length(packed)
    assert len(packed) == frames.frame_length(b"before" + packed + b"behind", 6)
    assert content == frames.unpack(packed)


@pytest.mark.parametrize("options", [{}, {"write_checksum": True}, {"write_content_size": False}])
@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_frames_of_other_writers_are_measured(content: bytes, options: dict[str, Any]) -> None:
    """With and without checksum or content size, a frame ends where its last block does."""
    import zstandard

    packed = zstandard.ZstdCompressor(**options).compress(content)
    assert len(packed) == frames.frame_length(packed + frames.pack(b"another"))
    assert content == frames.unpack(packed)


@settings(max_examples=40)
@given(st.binary(max_size=400), st.data())
def test_a_torn_frame_has_no_length(content: bytes, data: st.DataObject) -> None:
    """Whatever prefix of a frame is there, it is torn and not damaged."""
    packed = frames.pack(content)
    cut = data.draw(st.integers(0, len(packed) - 1))
    assert frames.frame_length(packed[:cut]) is None


def test_what_is_no_frame_is_refused() -> None:
    """Other bytes where a frame must begin are damage, and so is a block of no known type."""
    with pytest.raises(RuleBroken) as raised:
        frames.frame_length(b'{"type":"session"}')
    assert Damage.NOT_ZSTD is raised.value.damage
    reserved = frames.MAGIC + b"\x20\x01" + (3 << 1 | 1).to_bytes(3, "little")
    with pytest.raises(RuleBroken):
        frames.frame_length(reserved)


def test_a_wrong_checksum_is_told() -> None:
    """A frame whose content was changed, its structure not."""
    packed = bytearray(frames.pack(random.Random(1).randbytes(500)))
    packed[100] ^= 1
    with pytest.raises(RuleBroken) as raised:
        frames.unpack(bytes(packed))
    assert Damage.BAD_CHECKSUM is raised.value.damage


@pytest.mark.parametrize("says_its_size", [True, False])
def test_a_bomb_is_refused_by_a_named_limit(
    says_its_size: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it tells its size or not, no frame unpacks to more than the limit."""
    if says_its_size:
        packed = bomb()
    else:
        import zstandard

        monkeypatch.setattr(frames, "MAX_UNPACKED_BYTES", 1 << 20)
        packed = zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * (3 << 20))
    with pytest.raises(RuleBroken, match="MAX_UNPACKED_BYTES") as raised:
        frames.unpack(packed)
    assert Damage.TOO_LARGE is raised.value.damage


def test_the_beginning_of_a_torn_frame_unpacks() -> None:
    """Whole blocks of what was written can be read, and rubbish gives nothing."""
    content = os.urandom(400_000)
    packed = frames.pack(content)
    beginning = frames.unpack_torn(packed[: len(packed) // 2])
    assert len(beginning) > 100_000
    assert content.startswith(beginning)
    assert b"" == frames.unpack_torn(packed[:3])
    assert b"" == frames.unpack_torn(b"rubbish")


def test_a_torn_bomb_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a bomb is no better than a whole one."""
    import zstandard

    packed = zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * (9 << 20))
    monkeypatch.setattr(frames, "MAX_UNPACKED_BYTES", 1 << 20)
    assert b"" == frames.unpack_torn(packed[:-3])
