"""From a log's bytes to its records, one line at a time."""

import json
from typing import Any, TypeGuard

from plain_reader.rules import RuleError

Record = dict[str, Any]
FORMATS = (0, 3, 4)
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def whole_lines(data: bytes) -> tuple[list[bytes], bool, str | None]:
    """The lines that end in a newline, whether more bytes follow, and what is wrong with a frame.

    A torn last frame counts as never appended, whatever could be read out of it.
    """
    torn, bad_frame = False, None
    if data[:4] == ZSTD_MAGIC:
        data, torn, bad_frame = unpack(data)
    *lines, rest = data.split(b"\n")
    return lines, torn or bool(rest), bad_frame


def unpack(data: bytes) -> tuple[bytes, bool, str | None]:
    """The text of all whole frames, whether the last one is torn, and what stopped the reading."""
    import zstandard

    parts: list[bytes] = []
    while data.strip(b"\0"):
        try:
            length = frame_length(data)
            if length is None:
                return b"".join(parts), True, None
            part = zstandard.ZstdDecompressor().decompressobj().decompress(data[:length])
        except (zstandard.ZstdError, RuleError) as fault:
            return b"".join(parts), False, str(fault)
        if not part.endswith(b"\n"):
            return b"".join(parts), False, "the frame ends inside a record"
        parts.append(part)
        data = data[length:]
    return b"".join(parts), bool(data), None  # a crash may leave zeros behind the last frame


def frame_length(data: bytes) -> int | None:
    """Where the first frame ends, by its blocks' headers (RFC 8878); None where data ends before.

    Whether bytes are torn or damaged can't be told by unpacking them: half a block is both.
    """
    if data[:4] != ZSTD_MAGIC[: len(data)]:
        raise RuleError("bad-frame", "no frame begins here")
    if len(data) < 5:
        return None
    flags = data[4]
    sizes = {"window": 1 - (flags >> 5 & 1), "dictionary": (0, 1, 2, 4)[flags & 3]}
    sizes["content"] = (flags >> 5 & 1, 2, 4, 8)[flags >> 6]
    place, last = 5 + sum(sizes.values()), 0
    while not last:
        if len(data) < place + 3:
            return None
        block = int.from_bytes(data[place : place + 3], "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        if kind == 3:
            raise RuleError("bad-frame", "a block of no kind")
        place += 3 + (1 if kind == 1 else size)
    place += 4 * (flags >> 2 & 1)  # the checksum
    return place if len(data) >= place else None


def decode(raw: bytes) -> Record:
    """One line as a record. Raises RuleError."""
    try:
        record = json.loads(raw.decode("utf-8"), parse_constant=not_a_number)
    except UnicodeDecodeError as fault:
        raise RuleError("not-utf8", str(fault)) from None
    except RecursionError:
        raise RuleError("too-deep") from None
    except ValueError as fault:
        raise RuleError("not-json", str(fault)) from None
    if not isinstance(record, dict) or not record:
        raise RuleError("record-shape", f"not an object: {record!r:.40}")
    return record


def not_a_number(name: str) -> float:
    """JSON has no NaN and no Infinity, though the standard library takes them."""
    raise ValueError(f"{name} is not JSON")


def claim(record: Record) -> int | None:
    """The seq that a record claims, for the report of its fault."""
    seq = record.get("seq", record.get("seq0"))
    return seq if is_seq(seq) else None


def is_seq(value: object) -> TypeGuard[int]:
    """Whether a value can be the number of an event."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
