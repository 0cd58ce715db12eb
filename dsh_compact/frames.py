"""Zstandard frames: where one ends, and what is in it.

A frame's length follows from its block headers alone (RFC 8878, section 3.1.1), so a torn frame is
told from a damaged one, and a bomb is refused, before anything is unpacked. Bytes in, bytes out: no
files here. `zstandard` is imported only when there is a frame to unpack or to make.
"""

from functools import cache
from typing import TYPE_CHECKING, Final

from dsh_compact.errors import Damage, RuleBroken

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

MAGIC: Final = b"\x28\xb5\x2f\xfd"

MAX_UNPACKED_BYTES: Final = 1 << 29
"""A frame holds what one append wrote; more than 512 MiB in one is a bomb, not a conversation."""

MAX_PACKED_BYTES: Final = 1 << 28
"""A frame is read whole before it is unpacked, so its own length is limited too."""

_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_CHECKSUM_BYTES: Final = 4
_PIECE_BYTES: Final = 1 << 20
_LEVEL: Final = 3
_RAW, _RLE, _COMPRESSED = 0, 1, 2


def frame_length(data: bytes | memoryview, start: int = 0) -> int | None:
    """The length in bytes of the frame that begins at `start`; None where `data` ends before it
    does.

    Raises `RuleBroken` (bad-frame) where no frame begins there or its structure is broken.
    """
    head = bytes(data[start : start + 18])
    if head[:4] != MAGIC[: len(head[:4])]:
        raise RuleBroken(Damage.NOT_ZSTD, "no Zstandard frame begins here")
    if len(head) < 5:
        return None
    descriptor = head[4]
    at = start + 5 + _header_bytes(descriptor)
    while True:
        block = data[at : at + 3]
        if len(block) < 3:
            return None
        value = int.from_bytes(block, "little")
        kind, size = (value >> 1) & 3, value >> 3
        if kind == 3:
            raise RuleBroken(Damage.NOT_ZSTD, "the frame holds a block of a reserved type")
        at += 3 + (1 if kind == _RLE else size)
        if value & 1:
            break
    if descriptor & 4:
        at += _CHECKSUM_BYTES
    return at - start if at <= len(data) else None


def unpack(frame: bytes | memoryview) -> bytes:
    """What a whole frame holds; raises `RuleBroken` (too-large, bad-checksum, bad-frame)."""
    import zstandard

    try:
        size = zstandard.frame_content_size(frame)
        if size > MAX_UNPACKED_BYTES:
            raise _too_large()
        if size >= 0:
            return _decompressor().decompress(frame)
        return _unpack_in_pieces(frame)
    except zstandard.ZstdError as fault:
        damage = Damage.BAD_CHECKSUM if "checksum" in str(fault) else Damage.NOT_ZSTD
        raise RuleBroken(damage, f"the frame cannot be unpacked: {fault}") from None


def unpack_torn(beginning: bytes) -> bytes:
    """What the beginning of a frame holds, as far as it can be told; empty where nothing can."""
    import zstandard

    try:
        return _unpack_in_pieces(beginning)
    except (zstandard.ZstdError, RuleBroken):
        return b""


def pack(content: bytes) -> bytes:
    """One frame with a checksum."""
    return _compressor().compress(content)


def _header_bytes(descriptor: int) -> int:
    single_segment = descriptor & 0x20
    window = 0 if single_segment else 1
    content_size = _CONTENT_SIZE_BYTES[descriptor >> 6]
    if single_segment and not content_size:
        content_size = 1
    return window + _DICTIONARY_BYTES[descriptor & 3] + content_size


def _unpack_in_pieces(frame: bytes | memoryview) -> bytes:
    pieces: list[bytes] = []
    room = MAX_UNPACKED_BYTES
    with _decompressor().stream_reader(bytes(frame)) as reader:
        while piece := reader.read(_PIECE_BYTES):
            room -= len(piece)
            if room < 0:
                raise _too_large()
            pieces.append(piece)
    return b"".join(pieces)


def _too_large() -> RuleBroken:
    return RuleBroken(
        Damage.TOO_LARGE,
        f"the frame unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB (MAX_UNPACKED_BYTES)",
    )


@cache
def _decompressor() -> "ZstdDecompressor":
    from zstandard import ZstdDecompressor

    return ZstdDecompressor()


@cache
def _compressor() -> "ZstdCompressor":
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True)
