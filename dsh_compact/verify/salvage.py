"""Everything that stands in a log, good or bad, in order: reading that goes on behind damage.

Whole lines come in batches; between them, the stretches that no reader can make lines of. Where a
frame is broken, the search goes to the next place where a frame begins and unpacks; where a line is
beyond every limit, to its end. It knows bytes, not events, and never holds more than the reader
does.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from dsh_compact import frames
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import Place
from dsh_compact.reader import CHUNK_BYTES, Batch, LogReader
from dsh_compact.words import counted

MAX_TRIES: Final = 64
"""Places behind a broken frame that look like a frame's beginning and are tried."""

MAX_TRY_BYTES: Final = 1 << 20
"""How long a frame may be that is found behind a broken one: appends are small, a try is dear."""

MAX_TORN_BYTES: Final = 1 << 26
"""A longer tail is not looked into: it is no append that was cut off."""


class Lost(Struct, frozen=True, kw_only=True):
    """A stretch of the file that gives no lines; with `is_tail` nothing follows it."""

    damage: Damage
    problem: str
    start_bytes: int
    size_bytes: int
    is_tail: bool = False


def pieces(reader: LogReader) -> Iterator[Batch | Lost]:
    """All of an open log that was not read yet."""
    while True:
        try:
            yield from reader.batches()
            break
        except RuleBroken as fault:
            start = reader.end_bytes
            split = fault.damage is Damage.NOT_ZSTD
            partial = _lines_of_split_frame(reader) if split else None
            if partial is not None:
                yield partial
            end = _next_frame(reader) if reader.framed else _next_line(reader)
            reader.end_bytes = end
            yield Lost(
                damage=fault.damage,
                problem=fault.problem,
                start_bytes=start,
                size_bytes=end - start,
                is_tail=end >= reader.size_bytes,
            )
    torn = reader.torn
    if torn is not None:
        what = "frame" if torn.is_frame else "line"
        size, verb = counted(torn.size_bytes, "byte"), "is" if torn.size_bytes == 1 else "are"
        yield Lost(
            damage=Damage.TORN_FRAME if torn.is_frame else Damage.TORN_LINE,
            problem=f"the last {what} was never finished: {size} of it {verb} there",
            start_bytes=torn.start_bytes,
            size_bytes=torn.size_bytes,
            is_tail=True,
        )


def lines_of_torn(reader: LogReader, lost: Lost) -> bytes:
    """What a torn tail holds of whole lines, each with its newline.

    Of a frame that is what its beginning unpacks to; a line that lacks nothing but its newline gets
    it. Whether it is a record is for others to say.
    """
    if lost.size_bytes > MAX_TORN_BYTES:
        return b""
    torn = b"".join(bytes_of(reader, lost.start_bytes, lost.size_bytes))
    if lost.damage is Damage.TORN_FRAME:
        content = frames.unpack_torn(torn)
        return content[: content.rfind(b"\n") + 1]
    return torn + b"\n" if lost.damage is Damage.TORN_LINE else b""


def bytes_of(reader: LogReader, start_bytes: int, size_bytes: int) -> Iterator[bytes]:
    """What stands in a stretch of the file, in chunks."""
    while size_bytes > 0:
        chunk = reader.read(Place(-1, start_bytes, min(CHUNK_BYTES, size_bytes)))
        if not chunk:
            return
        yield chunk
        start_bytes += len(chunk)
        size_bytes -= len(chunk)


def _next_line(reader: LogReader) -> int:
    """Behind the end of the line that begins at the reader's end."""
    at = reader.end_bytes
    for chunk in bytes_of(reader, at, reader.size_bytes - at):
        cut = chunk.find(b"\n")
        if cut >= 0:
            return at + cut + 1
        at += len(chunk)
    return at


def _next_frame(reader: LogReader) -> int:
    """Where the next frame begins: where the broken one says that it ends, or where one unpacks."""
    window = reader.read(Place(-1, reader.end_bytes, MAX_TRY_BYTES))
    try:
        length = frames.frame_length(window)
    except RuleBroken:
        length = None
    if length is not None:
        return reader.end_bytes + length
    at, tries = reader.end_bytes + 1, 0
    while tries < MAX_TRIES:
        at = _find_magic(reader, at)
        if at < 0:
            break
        if _is_frame(reader, at):
            return at
        tries += 1
        at += 1
    return reader.size_bytes


def _find_magic(reader: LogReader, at: int) -> int:
    kept = len(frames.MAGIC) - 1  # a magic may lie across two chunks
    while True:
        chunk = reader.read(Place(-1, at, CHUNK_BYTES))
        found = chunk.find(frames.MAGIC)
        if found >= 0:
            return at + found
        if len(chunk) < CHUNK_BYTES:
            return -1
        at += len(chunk) - kept


def _is_frame(reader: LogReader, at: int) -> bool:
    window = reader.read(Place(-1, at, MAX_TRY_BYTES))
    try:
        length = frames.frame_length(window)
        return length is not None and frames.unpack(window[:length]).startswith(b"{")
    except RuleBroken:
        return False


def _lines_of_split_frame(reader: LogReader) -> Batch | None:
    """The whole lines of a frame that unpacks but ends in the middle of a record."""
    if not reader.framed:
        return None
    window = reader.read(Place(-1, reader.end_bytes, MAX_TRY_BYTES))
    try:
        length = frames.frame_length(window)
        content = b"" if length is None else frames.unpack(window[:length])
    except RuleBroken:
        return None
    whole = content[: content.rfind(b"\n") + 1]
    return Batch(whole[:-1].split(b"\n"), reader.end_bytes, 0) if whole else None
