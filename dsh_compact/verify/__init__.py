"""Verify: every byte of a log read, every rule judged, and on it goes behind the first damage.

The loop that reads a file to its end is here. `salvage` reads on where no reader can, `inspector`
is the fold that judges line after line, by `rules` and by what `writers` tells of who wrote which;
`damage` is the table of all that can be found. `admission` asks the same of records that are yet
to be written.
"""

import os

from dsh_compact.reader import Batch, LogReader, find_log
from dsh_compact.verify.inspector import Inspector, Report
from dsh_compact.verify.salvage import Lost, pieces

__all__ = ["Inspector", "Report", "verify"]


def verify(path: str | os.PathLike[str]) -> Report:
    """Reads the log at `path` (a file, a session's folder, `-`) to its end and judges all of it.

    Reads only. Raises `LogError` and its kin only where there is nothing that could be read.
    """
    found, _ = find_log(os.fspath(path))
    with LogReader(found) as reader:
        inspector = Inspector(reader.read)
        for piece in pieces(reader):
            match piece:
                case Lost():
                    inspector.lose(piece)
                case Batch():
                    inspector.feed_batch(piece)
        return inspector.report(found)
