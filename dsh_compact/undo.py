"""Undo: a copy of a log in which its newest compactions never happened.

What a compaction wrote is left out, and nothing else; what follows gets the seqs that it would have
had, with every reference to them. What was folded away stands on the surface again: it was never
gone from the file. The original is only read. The copy is judged while it is written, and is there
only if it has no damage that the original has not.
"""

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from dsh_compact import frames
from dsh_compact.codec import decode
from dsh_compact.codec.renumber import renumber, renumber_header
from dsh_compact.errors import LogError, UsageError
from dsh_compact.events import (
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    Event,
    Place,
    SurfaceChange,
)
from dsh_compact.history import kind_of
from dsh_compact.journal import write_new_file
from dsh_compact.reader import Batch, LogReader, is_pipe
from dsh_compact.session import Session, read_session
from dsh_compact.surface import Surface
from dsh_compact.verify import Inspector

WANTED: Final[frozenset[type[Any]]] = frozenset(
    {CompactionStart, CompactionSummary, CompactionPrune, CompactionEnd}
)

Kind: TypeAlias = Literal["summary", "prune"]


class Undone(Struct, frozen=True, kw_only=True):
    """A compaction that the copy is without: its seqs in the original, and those it replaced."""

    kind: Kind
    generation: int
    seqs: tuple[int, ...]
    shadowed_seqs: tuple[int, ...]


class Undoing(Struct, frozen=True, kw_only=True):
    """What came of it; `undone` the newest first, token counts estimated, of the surface alone."""

    log: str
    copy: str
    undone: tuple[Undone, ...]
    generation_before: int
    generation_after: int
    tokens_before: int
    tokens_after: int
    notices: tuple[str, ...] = ()


def undo(
    path: str | os.PathLike[str], copy: str | os.PathLike[str], *, generation: int | None = None
) -> Undoing:
    """Writes to `copy` the log at `path` without its newest compaction: all that was pruned and
    folded with nothing else in between; or without all that came after `generation`.

    Raises `NothingToUndo`, and `LogError` and its kin: unreadable, damaged, `copy` exists, or the
    rest cannot stand without the compaction. There is then no copy.
    """
    if is_pipe(os.fspath(path)):
        raise UsageError(f"{path}: can be read only once, and this takes two", "name a file")
    copied = os.fspath(copy)
    finder = _Finder()
    with read_session(path, wanted=WANTED, watch=finder) as session:
        undone = _chosen(finder, generation, session)
        gone = sorted(seq for one in undone for seq in one.seqs)
        write_new_file(copied, _Copier(session, gone, copied).pieces())
        with read_session(copied) as after:
            return Undoing(
                log=session.path,
                copy=copied,
                undone=undone,
                generation_before=session.replace_generation,
                generation_after=after.replace_generation,
                tokens_before=session.pressure().surface_tokens,
                tokens_after=after.pressure().surface_tokens,
                notices=tuple(session.notices),
            )


class NothingToUndo(LogError):
    """The log holds no compaction (behind the generation that was named)."""

    exit_code = 1


# What there is to undo ----------------------------------------------------------------------------


class _Move(Struct):
    """A replacement as it passed by, and the events that belong to it as far as they are known."""

    change: SurfaceChange
    generation: int
    shadowed_seqs: tuple[int, ...]
    announced_seqs: tuple[int, ...]
    compaction_id: str | None


class _Finder:
    """Watches the fold for replacements and for what was written around them.

    `seqs` are those of all records of compactions, failed ones too.
    """

    def __init__(self) -> None:
        self.seqs: set[int] = set()
        self._moves: list[_Move] = []
        self._start: CompactionStart | None = None
        self._announced: CompactionSummary | CompactionPrune | None = None

    def __call__(self, event: Event, before: Surface, after: Surface) -> None:
        """Looks at one event."""
        if type(event) in WANTED:
            self.seqs.add(event.seq)
        match event:
            case CompactionStart():
                self._start = event
            case CompactionSummary() | CompactionPrune():
                self._announced = event
            case CompactionEnd():
                self._end(event)
            case SurfaceChange() if after.last is not before.last:
                self._move(event, after)
            case _:
                pass

    def found(self, session: Session) -> list[Undone]:
        """All compactions, the oldest first; other replacements are left out."""
        found = []
        for move in self._moves:
            kind = kind_of(session.event(move.change))
            if kind != "other":
                found.append(
                    Undone(
                        kind=kind,
                        generation=move.generation,
                        seqs=tuple(sorted((*move.announced_seqs, move.change.seq))),
                        shadowed_seqs=move.shadowed_seqs,
                    )
                )
        return found

    def _move(self, change: SurfaceChange, after: Surface) -> None:
        assert after.last is not None
        announced, self._announced = self._announced, None
        seqs: list[int] = []
        compaction_id = None
        if announced is not None and announced.seq == change.seq - 1:
            if isinstance(announced, CompactionSummary) and self._start is not None:
                compaction_id = self._start.compaction_id
                seqs.append(self._start.seq)
            seqs.append(announced.seq)
        self._moves.append(
            _Move(
                change=change,
                generation=after.replace_generation,
                shadowed_seqs=tuple(node.seq for node in after.last.shadowed),
                announced_seqs=tuple(seqs),
                compaction_id=compaction_id,
            )
        )

    def _end(self, end: CompactionEnd) -> None:
        """A compaction's end goes with it."""
        self._start = None
        for move in reversed(self._moves):
            if move.compaction_id == end.compaction_id:
                move.announced_seqs = (*move.announced_seqs, end.seq)
                return


def _chosen(finder: _Finder, generation: int | None, session: Session) -> tuple[Undone, ...]:
    """What is to be undone, the newest first."""
    found = finder.found(session)
    if generation is None:
        chosen = _newest_run(found, finder.seqs)
    else:
        chosen = [one for one in found if one.generation > generation]
    if not chosen:
        since = "" if generation is None else f" behind generation {generation}"
        raise NothingToUndo(
            session.path,
            f"there is no compaction{since}: nothing was written",
            remedy=f'"dshc history {session.path}" shows what there is',
        )
    return tuple(reversed(chosen))


def _newest_run(found: list[Undone], compaction_seqs: set[int]) -> list[Undone]:
    """The last of `found`, and those before it with nothing in between but failed attempts."""
    run = found[-1:]
    for earlier in reversed(found[:-1]):
        between = range(earlier.seqs[-1] + 1, run[0].seqs[0])
        if not compaction_seqs.issuperset(between):
            break
        run.insert(0, earlier)
    return run


# The copy -----------------------------------------------------------------------------------------


class _Copier:
    """Reads the original again and gives the copy's bytes."""

    def __init__(self, session: Session, gone: list[int], copy: str) -> None:
        """`gone` are the seqs that are left out, in order."""
        self._session = session
        self._gone = gone
        self._left_out = frozenset(gone)
        self._copy = copy
        self._original = Inspector(session.line)
        self._inspector = Inspector(self._read)

    def pieces(self) -> Iterator[bytes]:
        """The copy, piece by piece; raises `LogError` behind the last one where it is not whole."""
        with LogReader(self._session.path) as reader:
            for batch in reader.batches():
                lines = list(self._lines(batch))
                if not lines:
                    continue
                content = b"".join(b"%b\n" % line for line in lines)
                yield frames.pack(content) if reader.framed else content
        self._check_whole()

    def _check_whole(self) -> None:
        """Raises `LogError` where the copy has damage that the original has not."""
        known = Counter(found.code for found in self._original.report(self._session.path).findings)
        for found in self._inspector.report(self._copy).findings:
            known[found.code] -= 1
            if known[found.code] < 0:
                raise LogError(
                    self._session.path,
                    f"what followed cannot stand without it ({found.code}: {found.message}):"
                    " nothing was written",
                    remedy='see "dshc history" for what followed',
                )

    def _lines(self, batch: Batch) -> Iterator[bytes]:
        start = batch.start_bytes
        for line in batch.lines:
            place = Place(batch.frame_bytes, start, len(line))
            kept = self._header(line) if self._inspector.lines == 0 else self._line(line)
            self._original.feed(line, place)
            if kept is not None:
                self._inspector.feed(kept, place)
                yield kept
            start += len(line) + 1

    def _header(self, line: bytes) -> bytes:
        return renumber_header(line, lambda length: length - bisect_left(self._gone, length))

    def _line(self, line: bytes) -> bytes | None:
        """The record under its new seq; None where it is left out."""
        seq = decode(line, self._session.format).seq
        if seq in self._left_out:
            return None
        if seq < self._gone[0]:
            return line
        return renumber(line, self._session.format, self._moved(seq), self._resolve)

    def _read(self, place: Place) -> bytes:
        """The copy's record whose original lies at `place`."""
        line = self._line(self._session.line(place))
        assert line is not None, "what the copy was told of is in it"
        return line

    def _moved(self, seq: int) -> int:
        return seq - bisect_left(self._gone, seq)

    def _resolve(self, seq: int) -> int | None:
        return None if seq in self._left_out else self._moved(seq)
