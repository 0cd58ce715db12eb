"""Repair: a damaged log written anew, with everything in it that can be kept and nothing else.

Two readings. The first notes what stands where and which process wrote it, so that `unweave` can
put it in order; the second mends line by line (`mender`, by its table of `remedies`) and writes.
What is left out, and what was changed beyond its numbers, is kept in a file beside, with the
reasons. The damaged log itself is never changed: the repaired one is a new file, or takes its place
once it is whole and on disk, and the damaged one gets another name.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

from msgspec import Struct, structs

from dsh_compact import frames
from dsh_compact.codec import aside, splice
from dsh_compact.codec.audit import audit, audit_as_harness, audit_header
from dsh_compact.codec.shapes import header_keys
from dsh_compact.errors import Damage, UnreadableLog, UsageError
from dsh_compact.events import NOWHERE, Place, SessionHeader
from dsh_compact.journal import PRIVATE, Disk, Journal, free_name, write_new_file
from dsh_compact.reader import Batch, LogReader, find_log, is_pipe
from dsh_compact.repair.mender import Action, Kept, Mender
from dsh_compact.repair.remedies import QUIET, REMEDIES
from dsh_compact.repair.unweave import Survey
from dsh_compact.verify import Inspector, Report, verify
from dsh_compact.verify.inspector import COPY
from dsh_compact.verify.salvage import Lost, bytes_of, lines_of_torn, pieces
from dsh_compact.verify.writers import Copies

MAX_TOLD: Final = 1_000
"""So many actions are told one by one; what more there are is counted. The file beside has all."""

_NUMBERS: Final = frozenset(
    {
        Damage.SEQ_GAP,
        Damage.SEQ_REPEATED,
        Damage.SEQ_BACKWARDS,
        Damage.TURN_MISCOUNTED,
        Damage.STEP_MISCOUNTED,
    }
)


class Repair(Struct, frozen=True, kw_only=True):
    """What was done, or in a rehearsal would be.

    `target` is where the repaired log is, None where nothing was written; `backup` the name that
    the damaged one has now, None where it keeps its own; `aside` the file of what was left out,
    None where nothing was. `kept` counts records, `renumbered` those of them with another number
    than before, `inserted` those that were put in, `set_aside` lines and stretches left out.
    `before` and `after` are what `verify` says of the two logs.
    """

    log: str
    target: str | None
    backup: str | None
    aside: str | None
    kept: int
    renumbered: int
    inserted: int
    set_aside: int
    actions: tuple[Action, ...]
    untold: int
    before: Report
    after: Report

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to mend."""
        return bool(self.actions or self.renumbered)

    @property
    def ok(self) -> bool:
        """Whether the log is sound once it is mended."""
        return self.after.ok


def repair(
    path: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    dry_run: bool = False,
    disk: Disk | None = None,
) -> Repair:
    """Mends the log at `path` (a file or a session's folder).

    The repaired log is written to `output`, by default beside the damaged one, or with `in_place`
    takes its place, under the harness's lock. With `dry_run` nothing is written. A log with nothing
    to mend is left as it is, and in place so is one that would still be damaged. Raises `LogError`
    and its kin: unreadable, owned by a live process, `output` exists.
    """
    log, _ = find_log(os.fspath(path))
    if is_pipe(log) and output is None and not dry_run:
        raise UsageError(f"{log}: a pipe has no place beside it", 'name a file with "--output"')
    if in_place and not dry_run:
        return _in_place(log, disk)
    with LogReader(log) as reader:
        work = _Work(reader)
        rehearsed = work.rehearse()
        if dry_run or not rehearsed.is_needed:
            return rehearsed
        return work.write(
            rehearsed, repaired_path(log) if output is None else os.fspath(output), disk
        )


def repaired_path(log: str) -> str:
    """Where the repaired log goes by default: `session.v4.repaired.jsonl`, beside the other."""
    for suffix in (".jsonl.zstd", ".jsonl"):
        if log.endswith(suffix):
            return f"{log.removesuffix(suffix)}.repaired{suffix}"
    return f"{log}.repaired"


def _in_place(log: str, disk: Disk | None) -> Repair:
    header = _header_of(log)
    own_lock = header is not None and header.version == 0
    with Journal(log, own_lock=own_lock, disk=disk) as journal, LogReader(log) as reader:
        journal.start_at(reader.size_bytes)
        work = _Work(reader)
        rehearsed = work.rehearse()
        if not rehearsed.is_needed or not rehearsed.ok:
            return rehearsed
        fresh, backup = free_name(f"{log}.new"), free_name(f"{log}.damaged")
        done = work.write(rehearsed, fresh, disk, mode=journal.mode)
        journal.replace_with(fresh, backup)
        return structs.replace(done, target=log, backup=backup)


def _header_of(log: str) -> SessionHeader | None:
    with LogReader(log) as reader:
        first = next(pieces(reader), None)
        return audit_header(first.lines[0])[0] if isinstance(first, Batch) else None


class _Work:
    """One log under repair, open for reading."""

    def __init__(self, reader: LogReader) -> None:
        """Reads the log for the first time."""
        self._reader = reader
        self._header: SessionHeader | None = None
        self._header_line = b""
        self._survey = Survey()
        self._copies = Copies()
        self._lost: list[tuple[int, Lost]] = []
        self._torn_start_bytes = -1
        self._torn = b""
        self._lines = 0
        self._before = self._read()

    # The first reading ----------------------------------------------------------------------------

    def _read(self) -> Report:
        inspector = Inspector(self._reader.read)
        for piece in pieces(self._reader):
            if isinstance(piece, Lost):
                inspector.lose(piece)
                self._lost.append((self._lines + 1, piece))
                if piece.is_tail:
                    self._note_torn(piece)
            else:
                inspector.feed_batch(piece)
                self._note_batch(piece)
        return inspector.report(self._reader.path)

    def _note_batch(self, batch: Batch) -> None:
        start = batch.start_bytes
        for line in batch.lines:
            self._note(line, Place(batch.frame_bytes, start, len(line)))
            start += len(line) + 1

    def _note(self, line: bytes, place: Place) -> None:
        self._lines += 1
        if self._lines == 1:
            self._header, self._header_line = audit_header(line)[0], line
        elif self._header is not None:
            record = audit_as_harness(line, self._header.version, self._lines, place)
            is_copy = self._copies.has(record, line, self._survey.writers)
            self._survey.note(record, is_copy=is_copy)
            if record.seq is not None and not is_copy:
                self._copies.add(record, line)

    def _note_torn(self, lost: Lost) -> None:
        """Whole records in what a crash has cut off are as good as any."""
        if self._header is None:
            return
        torn = lines_of_torn(self._reader, lost)
        whole = [line for line in torn.split(b"\n")[:-1] if self._is_record(line)]
        self._torn_start_bytes = lost.start_bytes
        self._torn = b"\n".join([*whole, b""])
        self._note_batch(Batch(whole, lost.start_bytes, 0))

    def _is_record(self, line: bytes) -> bool:
        assert self._header is not None
        return audit(line, self._header.version, 0).seq is not None

    def _line(self, place: Place) -> bytes:
        """A line of the damaged log again."""
        if place.frame_bytes >= 0 and place.frame_bytes == self._torn_start_bytes:
            return self._torn[place.start_bytes : place.start_bytes + place.size_bytes]
        return self._reader.read(place)

    # The second reading ---------------------------------------------------------------------------

    def rehearse(self) -> Repair:
        """Mends without writing, and judges what comes out."""
        if self._header is None:
            return self._told(None, 0, self._before)
        try:
            with TemporaryFile() as file:
                return self._rehearsed(_Spool(cast("BinaryIO", file)))
        except OSError as fault:  # what reading meets is told by the reader
            raise UnreadableLog(
                self._reader.path,
                f"cannot be mended in a temporary file: {fault.strerror}",
                remedy="point TMPDIR at a folder with room for it",
            ) from fault

    def _rehearsed(self, spool: "_Spool") -> Repair:
        mender, kept = self._mender(), 0
        inspector = Inspector(spool.read)
        for one in self._mended(mender):
            inspector.feed(one.line, spool.write(one.line))
            kept += 1
        return self._told(mender, kept - 1, inspector.report(self._reader.path))

    def write(
        self, rehearsed: Repair, target: str, disk: Disk | None, *, mode: int = PRIVATE
    ) -> Repair:
        """Mends once more: what comes out to `target`, and beside the log what is left out."""
        mender = self._mender()
        write_new_file(target, self._packed(self._mended(mender)), disk=disk, mode=mode)
        kept_aside = None
        if rehearsed.set_aside:
            kept_aside = free_name(f"{self._name_beside(target)}.set-aside")
            write_new_file(kept_aside, self._set_aside(mender.actions), disk=disk)
        return structs.replace(rehearsed, target=target, aside=kept_aside, after=verify(target))

    def _name_beside(self, target: str) -> str:
        return target if is_pipe(self._reader.path) else self._reader.path

    def _told(self, mender: Mender | None, kept: int, after: Report) -> Repair:
        actions = [] if mender is None else mender.actions
        lost = [] if mender is None else [_action(line, lost) for line, lost in self._lost]
        seqs = [] if mender is None else list(self._renumbered())
        told = sorted([*lost, *seqs, *actions], key=_line_of)
        return Repair(
            log=self._reader.path,
            target=None,
            backup=None,
            aside=None,
            kept=kept,
            renumbered=0 if mender is None else mender.renumbered,
            inserted=0 if mender is None else mender.inserted,
            set_aside=sum(action.is_aside for action in told),
            actions=tuple(told[:MAX_TOLD]),
            untold=max(0, len(told) - MAX_TOLD),
            before=self._before,
            after=after,
        )

    def _renumbered(self) -> Iterator[Action]:
        """The places where numbers went wrong; what follows was renumbered from there on."""
        for found in self._before.findings:
            if found.code in _NUMBERS and not found.message.endswith(COPY):
                yield Action(
                    code=found.code,
                    what=f"{found.message}: renumbered",
                    line=found.line,
                    seq=found.seq,
                )

    def _mender(self) -> Mender:
        assert self._header is not None
        return Mender(self._header, self._survey.writers.chains, self._line, REMEDIES, QUIET)

    def _mended(self, mender: Mender) -> Iterator[Kept]:
        """The repaired log, line by line."""
        assert self._header is not None
        unknown = splice.unknown_keys(self._header_line, header_keys(self._header.version))
        header = self._header_line
        if unknown:
            header = splice.without(header, unknown)
            mender.note_header(f"without the unknown keys {', '.join(unknown)}")
        yield Kept(header, Place(0, 0, len(self._header_line)), bool(unknown))
        for item in self._survey.items():
            yield from mender.take(item)
        yield from mender.finish()

    # Out ------------------------------------------------------------------------------------------

    def _packed(self, lines: Iterable[Kept]) -> Iterator[bytes]:
        """The lines as the log has them: each for itself, or in the frames in which they stood."""
        if not self._reader.framed:
            for one in lines:
                yield b"%b\n" % one.line
            return
        for _, group in groupby(lines, key=_frame_of):
            yield frames.pack(b"".join(b"%b\n" % one.line for one in group))

    def _set_aside(self, actions: Iterable[Action]) -> Iterator[bytes]:
        for line, lost in self._lost:
            at = lost.start_bytes
            for chunk in bytes_of(self._reader, at, lost.size_bytes):
                yield _entry(chunk, _action(line, lost), at)
                at += len(chunk)
        for action in actions:
            if action.is_aside:
                raw = self._header_line if action.line == 1 else self._line(action.place)
                yield _entry(raw, action, action.place.byte)


def _entry(raw: bytes, action: Action, byte: int) -> bytes:
    written = aside.entry(
        raw, code=action.code, reason=action.what, line=action.line, seq=action.seq, byte=byte
    )
    return written + b"\n"


def _action(line: int, lost: Lost) -> Action:
    return Action(code=lost.damage, what=lost.problem, line=line, seq=None, is_aside=True)


def _line_of(action: Action) -> float:
    return float("inf") if action.line is None else action.line


def _frame_of(kept: Kept) -> int:
    return -1 if kept.place == NOWHERE else kept.place.frame_bytes


class _Spool:
    """Lines in a file without a name, to be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = 0

    def write(self, line: bytes) -> Place:
        """Puts a line down; returns where."""
        place = Place(-1, self._end, len(line))
        self._file.seek(self._end)
        self._file.write(line)
        self._end += len(line)
        return place

    def read(self, place: Place) -> bytes:
        """The line at `place`."""
        self._file.seek(place.start_bytes)
        return self._file.read(place.size_bytes)
