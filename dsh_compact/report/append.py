"""What was appended, as one line."""

from collections.abc import Sequence

from dsh_compact.report.terminal import safe
from dsh_compact.words import counted


def text(log: str, seqs: Sequence[int], *, is_new: bool) -> str:
    """Where the records stand now."""
    begun = "new log, " if is_new else ""
    if not seqs:
        return f"{safe(log)}: {begun}nothing in it yet"
    count = f"{counted(len(seqs), 'event')} appended"
    where = f"seq {seqs[0]}" if len(seqs) == 1 else f"seq {seqs[0]}–{seqs[-1]}"
    return f"{safe(log)}: {begun}{count}, {where}"
