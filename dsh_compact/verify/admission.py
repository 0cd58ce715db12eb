"""May these records follow? The last word before somebody else's records are written.

Rule: what a command writes never keeps a harness from opening the session. The fold says whether a
record means anything; this asks `verify`, which knows all that a harness demands, whether the log
would still be right with the records in it. Only the new records are judged: damage that was there
before is not theirs.
"""

from collections.abc import Sequence

from dsh_compact.errors import NotAdmitted
from dsh_compact.events import Place
from dsh_compact.reader import Batch, LogReader
from dsh_compact.verify import Inspector
from dsh_compact.verify.damage import Finding


def inspect_addition(path: str, lines: Sequence[bytes]) -> None:
    """Raises `NotAdmitted` where `lines` would be damage at the end of the log at `path`.

    Reads all of the log.
    """
    with LogReader(path) as reader:
        added = _Added(reader, lines)
        inspector = Inspector(added.read)
        for batch in reader.batches():
            inspector.feed_batch(batch)
        _judge(path, inspector, Batch(list(lines), -1, added.start_at(reader.end_bytes)))


def inspect_new(path: str, header: bytes, lines: Sequence[bytes]) -> None:
    """Raises `NotAdmitted` where a new log of `header` and `lines` would be damaged."""
    added = _Added(None, lines)
    inspector = Inspector(added.read)
    inspector.feed_batch(Batch([header], -1, 0))
    _judge(path, inspector, Batch(list(lines), -1, added.start_at(len(header) + 1)))


def _judge(path: str, inspector: Inspector, batch: Batch) -> None:
    before = inspector.lines
    inspector.feed_batch(batch)
    found = [
        one for one in inspector.report(path).findings if one.line is not None and one.line > before
    ]
    if found:
        raise NotAdmitted(f"{path}: {_sentence(found[0], before)}")


def _sentence(finding: Finding, before: int) -> str:
    assert finding.line is not None
    return f"record {finding.line - before} would damage the log: {finding.message}"


class _Added:
    """The log with the records behind it, as the inspector reads them again."""

    def __init__(self, reader: LogReader | None, lines: Sequence[bytes]) -> None:
        self._reader = reader
        self._lines = lines
        self._by_start: dict[int, bytes] = {}

    def start_at(self, start_bytes: int) -> int:
        """Lays the records out from `start_bytes` on, which is returned."""
        at = start_bytes
        for line in self._lines:
            self._by_start[at] = line
            at += len(line) + 1
        return start_bytes

    def read(self, place: Place) -> bytes:
        """The record at `place`."""
        if place.frame_bytes < 0 and place.start_bytes in self._by_start:
            return self._by_start[place.start_bytes]
        assert self._reader is not None
        return self._reader.read(place)
