"""Ways in which a log's bytes go wrong: on disks, in copies, between two writers, by hand.

The rule of this file: a mutation is a pure function of a source of chance and of bytes, so that the
same seed gives the same mutant; it knows no rule of the format and doesn't care whether what comes
out is still a right log.

    mutant = mutate(random.Random("7:12"), base, others=[...])

`BYTES` change any bytes; `PIECES` move lines (of a framed log: frames) about; `FRAMES` change how a
framed log is packed; `VALUES` change what one line says and leave it JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from builders import frame, line
from plain_reader import ZSTD_MAGIC

COUNTS = (1, 1, 1, 2, 2, 3)  # of mutations: many make rubbish, whose first fault hides all others
LONG_RUN = 5_000  # of repeated bytes, nesting or digits: beyond any small buffer

Operator = Callable[[Random, bytes, Sequence[bytes]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """Changed bytes, and the names of what was done to them, in order."""

    data: bytes
    steps: tuple[str, ...]


def mutate(chance: Random, base: bytes, others: Sequence[bytes] = ()) -> Mutant:
    """One to three mutations of a log; `others` are logs to splice from."""
    data, steps = base, []
    for _ in range(chance.choice(COUNTS)):
        family = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        name = chance.choice(list(OPERATORS_OF[family]))
        data = OPERATORS[name](chance, data, others or [base])
        steps.append(name)
    return Mutant(data=data, steps=tuple(steps))


# Any bytes


def span(chance: Random, size: int, longest: int = 4_096) -> tuple[int, int]:
    """Where a short stretch of so many bytes starts and ends."""
    start = chance.randrange(size) if size else 0
    length = int(longest ** chance.random())
    return start, min(size, start + length)


def flip_bit(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One bit is the other way round, as on a failing disk."""
    if not data:
        return data
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut_tail(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The end is missing, most often a short one."""
    start, end = span(chance, len(data), len(data) + 1)
    return data[: len(data) - (end - start)]


def cut_out(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A stretch is missing."""
    start, end = span(chance, len(data))
    return data[:start] + data[end:]


def double(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A stretch stands there twice."""
    start, end = span(chance, len(data))
    return data[:end] + data[start:end] + data[end:]


def zero(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A stretch is zeros, as after a crash on some file systems."""
    start, end = span(chance, len(data))
    return data[:start] + bytes(end - start) + data[end:]


def zero_tail(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Zeros follow the last record: the size was written, the data not."""
    return data + bytes(chance.randint(1, 4_096))


def insert_noise(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Random bytes stand in between."""
    place = chance.randint(0, len(data))
    return data[:place] + chance.randbytes(chance.randint(1, 64)) + data[place:]


def swap_stretches(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Two stretches change places."""
    (a, b), (c, d) = sorted((span(chance, len(data)), span(chance, len(data))))
    if b > c:
        return data
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


# Lines and frames


def pieces_of(data: bytes) -> list[bytes]:
    """A plain log's lines with their ends, or a framed log's frames; the rest is a piece too."""
    if data[:4] != ZSTD_MAGIC:
        return data.splitlines(keepends=True) if data else []
    return list(frames_of(data))


def frames_of(data: bytes) -> Iterator[bytes]:
    """The packed frames one by one; what can't be unpacked comes as the last piece."""
    import zstandard

    while data:
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        try:
            unpacker.decompress(data)
        except (zstandard.ZstdError, MemoryError):
            yield data
            return
        rest = unpacker.unused_data if unpacker.eof else b""
        yield data[: len(data) - len(rest)]
        data = rest


def with_pieces(change: Callable[[Random, list[bytes], Sequence[bytes]], object]) -> Operator:
    """An operator from a function that edits a list of pieces in place.

    In a framed log it edits the frames, or as often the lines in them.
    """

    def operate(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        inside = data[:4] == ZSTD_MAGIC and chance.random() < 0.5
        pieces = pieces_of(unpacked(data) if inside else data)
        if pieces:
            change(chance, pieces, others)
        changed = b"".join(pieces)
        return repack(chance, changed, others) if inside else changed

    return operate


def drop_piece(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """A piece is lost."""
    del pieces[chance.randrange(len(pieces))]


def double_piece(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """A piece was written twice, at once or later."""
    piece = chance.choice(pieces)
    pieces.insert(chance.randint(0, len(pieces)), piece)


def swap_pieces(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """Two pieces change places, often neighbours."""
    a = chance.randrange(len(pieces))
    near = min(len(pieces) - 1, a + 1)
    b = chance.choice([near, chance.randrange(len(pieces))])
    pieces[a], pieces[b] = pieces[b], pieces[a]


def repeat_run(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """A second writer wrote the same run again behind the first."""
    start = chance.randrange(len(pieces))
    end = min(len(pieces), start + chance.randint(1, 8))
    pieces[end:end] = pieces[start:end]


def interleave(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """Two writers' runs of the same place stand line by line between one another."""
    start = chance.randrange(len(pieces))
    run = pieces[start : start + chance.randint(2, 8)]
    pieces[start : start + len(run)] = [
        piece for pair in zip(run, run, strict=True) for piece in pair
    ]


def splice(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """Pieces of another log stand in this one."""
    foreign = pieces_of(chance.choice(others))
    if foreign:
        start = chance.randrange(len(foreign))
        place = chance.randint(0, len(pieces))
        pieces[place:place] = foreign[start : start + chance.randint(1, 8)]


def join_lines(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """A record's newline is missing: the next one stands in the same line."""
    place = chance.randrange(len(pieces))
    pieces[place] = pieces[place].removesuffix(b"\n")


def tear_line(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """A record was half written, and the next writer went on behind it, on the same line or not."""
    place = chance.randrange(len(pieces))
    half = pieces[place][: chance.randint(0, len(pieces[place]))]
    pieces[place] = half + chance.choice([b"", b"\n"])


def blank_line(chance: Random, pieces: list[bytes], others: Sequence[bytes]) -> None:
    """An empty line, or another system's line end."""
    place = chance.randrange(len(pieces))
    if chance.random() < 0.5:
        pieces.insert(place, chance.choice([b"\n", b"\r\n", b" \n", b"\xef\xbb\xbf"]))
    else:
        pieces[place] = pieces[place].removesuffix(b"\n") + b"\r\n"


# Frames


def repack(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The same text in other frames, or a plain log framed, or a framed one plain."""
    text = unpacked(data)
    if data[:4] == ZSTD_MAGIC and chance.random() < 0.3:
        return text
    lines, packed = text.splitlines(keepends=True), []
    while lines:
        count = chance.randint(1, 20)
        packed.append(frame(b"".join(lines[:count])))
        lines = lines[count:]
    return b"".join(packed)


def unpacked(data: bytes) -> bytes:
    """The text of a log as far as it can be unpacked."""
    import zstandard

    if data[:4] != ZSTD_MAGIC:
        return data
    text = []
    for piece in frames_of(data):
        try:
            text.append(zstandard.ZstdDecompressor().decompressobj().decompress(piece))
        except (zstandard.ZstdError, MemoryError):
            break
    return b"".join(text)


def odd_frame(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A frame that is empty, to be skipped, without a checksum, or a lie about its size."""
    import zstandard

    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b'{"a":1}\n')
    odd = [
        frame(b""),
        b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip",
        b"\x50\x2a\x4d\x18\xff\xff\xff\xffskip",
        unsized,
        ZSTD_MAGIC,
        ZSTD_MAGIC + b"\xe0" + b"\xff" * 8 + b"\x01\x00\x00",
        ZSTD_MAGIC + b"\x00\xff" + b"\x03\x00\x00a" * 9,
    ]
    pieces = pieces_of(data)
    pieces.insert(chance.randint(0, len(pieces)), chance.choice(odd))
    return b"".join(pieces)


# What a line says

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1,
    0.5,
    -0.0,
    1e308,
    2**53,
    2**63,
    2**64,
    10**30,
    "",
    "0",
    "\x00\x1b[31m[red]\u2028\ud83d",
    "append",
    "replace",
    [],
    {},
    [[0, 10**9]],
    [[5, 1]],
    [None],
    {"op": "replace", "startSeq": 0, "endSeq": 0, "start": 0, "end": 0},
)
ODD_TEXTS = (
    b"1e999",
    b"-",
    b"NaN",
    b"0" * LONG_RUN,
    b"9" * LONG_RUN,
    b"[" * LONG_RUN + b"]" * LONG_RUN,
    b'{"a":' * LONG_RUN + b"1" + b"}" * LONG_RUN,
    b'"' + b"x" * 1_000_000 + b'"',
    b'"\\ud83d\\ude80\\ud83d"',
    b'"\\u0000"',
    b'"\\x"',
)
PLACEHOLDER = "a place that no log has"


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder and key inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from places_in(inner)


def with_record(change: Callable[[Random, dict[str, Any]], bytes | None]) -> Operator:
    """An operator from a function that edits one record, or returns the line to write for it."""

    def operate(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        framed = data[:4] == ZSTD_MAGIC
        lines = unpacked(data).splitlines(keepends=True)
        if not lines:
            return data
        place = chance.randrange(len(lines))
        try:
            record = json.loads(lines[place])
            written = change(chance, record) if isinstance(record, dict) and record else None
            lines[place] = line(record) if written is None else written
        except (ValueError, RecursionError):
            return data
        text = b"".join(lines)
        return repack(chance, text, others) if framed else text

    return operate


def any_place(chance: Random, record: dict[str, Any]) -> tuple[Any, Any]:
    """A holder and key in a record, the envelope's as often as all others."""
    if chance.random() < 0.5:
        return record, chance.choice(list(record))
    return chance.choice(list(places_in(record)))


def odd_value(chance: Random, record: dict[str, Any]) -> None:
    """A value is of another type, or huge."""
    holder, key = any_place(chance, record)
    holder[key] = chance.choice(ODD_VALUES)


def odd_text(chance: Random, record: dict[str, Any]) -> bytes:
    """A value is written in a way that a parser may stumble over."""
    holder, key = any_place(chance, record)
    holder[key] = PLACEHOLDER
    quoted = json.dumps(PLACEHOLDER).encode()
    return line(record).replace(quoted, chance.choice(ODD_TEXTS), 1)


def nudge_number(chance: Random, record: dict[str, Any]) -> None:
    """A number is a little off."""
    numbers = [(h, k) for h, k in places_in(record) if type(h[k]) is int]
    if numbers:
        holder, key = chance.choice(numbers)
        holder[key] += chance.choice([-4, -1, 1, 4])


def remove_key(chance: Random, record: dict[str, Any]) -> None:
    """A key or an item is missing."""
    holder, key = any_place(chance, record)
    del holder[key]


def rename_key(chance: Random, record: dict[str, Any]) -> None:
    """A key has another name."""
    holder, key = any_place(chance, record)
    if isinstance(holder, dict):
        holder[chance.choice([f"{key}x", key.upper(), "type", "seq"])] = holder.pop(key)


def double_key(chance: Random, record: dict[str, Any]) -> bytes:
    """A key stands in a line twice: the last one counts, for JavaScript and for Python."""
    key = chance.choice(list(record))
    again = json.dumps({key: chance.choice([record[key], *ODD_VALUES])}).encode()
    inside = line(record).rstrip(b"\n")[1:-1]
    first, second = chance.sample([again[1:-1], inside], 2)
    return b"{" + first + b"," + second + b"}\n"


def shuffle_keys(chance: Random, record: dict[str, Any]) -> None:
    """The envelope's keys stand in another order."""
    items = list(record.items())
    chance.shuffle(items)
    record.clear()
    record.update(items)


def change_type(chance: Random, record: dict[str, Any]) -> None:
    """The event is of another type."""
    kinds = ["user/message", "assistant/message", "tool/result", "compaction/summary", "turn/end"]
    kinds += ["session", "text-chunks", "session/end-seed", "future/event", "step/start"]
    record["type"] = chance.choice(kinds)


BYTES: dict[str, Operator] = {
    "flip-bit": flip_bit,
    "cut-tail": cut_tail,
    "cut-out": cut_out,
    "double": double,
    "zero": zero,
    "zero-tail": zero_tail,
    "insert-noise": insert_noise,
    "swap-stretches": swap_stretches,
}
PIECES: dict[str, Operator] = {
    "drop-piece": with_pieces(drop_piece),
    "double-piece": with_pieces(double_piece),
    "swap-pieces": with_pieces(swap_pieces),
    "repeat-run": with_pieces(repeat_run),
    "interleave": with_pieces(interleave),
    "splice": with_pieces(splice),
    "join-lines": with_pieces(join_lines),
    "tear-line": with_pieces(tear_line),
    "blank-line": with_pieces(blank_line),
}
FRAMES: dict[str, Operator] = {"repack": repack, "odd-frame": odd_frame}
VALUES: dict[str, Operator] = {
    "odd-value": with_record(odd_value),
    "odd-text": with_record(odd_text),
    "nudge-number": with_record(nudge_number),
    "remove-key": with_record(remove_key),
    "rename-key": with_record(rename_key),
    "double-key": with_record(double_key),
    "shuffle-keys": with_record(shuffle_keys),
    "change-type": with_record(change_type),
}
OPERATORS: dict[str, Operator] = {**BYTES, **PIECES, **FRAMES, **VALUES}
OPERATORS_OF = {"bytes": BYTES, "pieces": PIECES, "frames": FRAMES, "values": VALUES}
# Changed values lead deepest into a reader; changed bytes are mostly refused at the first look.
WEIGHTS = {"values": 55, "pieces": 20, "bytes": 15, "frames": 10}
