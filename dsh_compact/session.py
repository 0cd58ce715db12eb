"""A session: the log and its surface in step.

Reading: `read_session` folds a log and keeps it open, so that a message can be fetched when
somebody asks for it. Writing: `open_session` takes the lock first, and `append()` is the only door:
what does not fold is refused before a byte is written, and nothing counts before it is on disk.
"""

import os
import time
from _thread import RLock, get_ident  # without what `threading` adds: start-up is a promise
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, cast

from dsh_compact import meter as metering
from dsh_compact import tokens
from dsh_compact.ahead import Part, read_ahead
from dsh_compact.codec import (
    EVERY,
    Identity,
    Scanner,
    decode_header,
    decode_request_header,
    decode_surface_event,
)
from dsh_compact.codec.quick import decode_message, message_in
from dsh_compact.errors import (
    Damage,
    DamagedLog,
    LogError,
    NotAdmitted,
    RuleBroken,
    UnreadableLog,
    UnsupportedLog,
)
from dsh_compact.events import (
    FORMATS,
    NOWHERE,
    Event,
    Header,
    Message,
    Other,
    Place,
    RequestHeader,
    SessionHeader,
    SurfaceChange,
    SurfaceEvent,
    Usage,
)
from dsh_compact.meter import Meter, Pressure
from dsh_compact.planning import Item, item
from dsh_compact.reader import STANDARD_INPUT, LogReader, Run, find_log
from dsh_compact.surface import Node, Surface
from dsh_compact.turns import WANTED as TURNS_WANTED
from dsh_compact.turns import Turns
from dsh_compact.words import counted

if TYPE_CHECKING:  # what only writing needs is imported where it is used: reading starts faster
    from threading import Thread

    from dsh_compact.codec.encode import Draft
    from dsh_compact.journal import Disk, Journal

HEAD_BYTES: Final = 8192
"""So much of an answer is read first: most messages end before, and their stream is not wanted."""

_METERED: Final = metering.WANTED | {SurfaceChange}
"""What a meter looks at; whoever follows turns has as many events again that it need not see."""

_HEADERS_KEPT: Final = 64
"""Decoded request headers that are kept: a log may hold one for every step."""


class Watcher(Protocol):
    """Is told every event in order, with the surface before and after it."""

    def __call__(self, event: Event, before: Surface, after: Surface) -> None:
        """Looks at one event."""


class Session:
    """A folded log, open for reading; see `open_session` for writing.

    `path` as it was given, `header` the log's first record, `surface` the conversation as the model
    sees it, `meter` what a measure needs, `turns` where the session stands (only where the session
    was opened for it), `events` how many events there are, `notices` what a user should know,
    `stopped` whether `until` ended the fold before the log's end.
    """

    def __init__(
        self,
        path: str,
        *,
        wanted: Iterable[type[Any]] = (),
        strict: bool = False,
        watch: Watcher | None = None,
        until: Callable[[Event], bool] | None = None,
    ) -> None:
        """Opens and folds the log; prefer `read_session`, which finds it first."""
        self.path = path
        self.surface = Surface()
        self.meter = Meter()
        self.turns = Turns()
        self.notices: list[str] = []
        self.unknown_types: set[str] = set()
        self._wanted = metering.WANTED | frozenset(wanted)
        self._follow_turns = self._wanted >= TURNS_WANTED
        self._strict = strict
        self._watch = watch
        self._until = until
        self.stopped = False
        self._items: dict[int, Item] = {}
        self._headers: dict[int, Header] = {}
        self._reader = LogReader(path)
        self._scanner: Scanner | None = None
        self.header: SessionHeader  # the log's first record, known before anything else
        try:
            self._fold()
            self._note_torn_tail()
        except BaseException:
            self._reader.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets the file go; nothing can be fetched any more."""
        self._reader.close()

    def fileno(self) -> int:
        """The descriptor of the file that was folded, whatever has its name now."""
        return self._reader.fileno()

    # What it holds --------------------------------------------------------------------------------

    @property
    def format(self) -> int:
        """The log's format: 0, 3 or 4."""
        return self.header.version

    @property
    def framed(self) -> bool:
        """Whether the log is a sequence of Zstandard frames."""
        return self._reader.framed

    @property
    def events(self) -> int:
        """How many events the log holds; the next one's seq."""
        return self._scanner.next_seq if self._scanner is not None else 0

    @property
    def replace_generation(self) -> int:
        """How often the conversation was really replaced."""
        return self.surface.replace_generation

    @property
    def size_bytes(self) -> int:
        """Where the whole records end."""
        return self._reader.end_bytes

    @property
    def torn_bytes(self) -> int:
        """How much of a torn record or frame stands behind them."""
        return self._reader.torn.size_bytes if self._reader.torn is not None else 0

    def line(self, place: Place) -> bytes:
        """The record at `place`, without its newline."""
        return self._reader.read(place)

    def event(self, node: Node | SurfaceChange) -> SurfaceEvent:
        """A node's event with its message."""
        try:
            return decode_surface_event(self.line(node.place), self.format)
        except RuleBroken as fault:
            raise DamagedLog(self.path, fault.damage, fault.problem, seq=node.seq) from None

    def message(self, node: Node | SurfaceChange) -> Message:
        """A node's message, without the rest of its event."""
        place = node.place
        try:
            if node.kind == "assistant" and place.size_bytes > HEAD_BYTES:
                head = Place(place.frame_bytes, place.start_bytes, HEAD_BYTES)
                found = message_in(self.line(head))
                if found is not None:
                    return found
            return decode_message(self.line(place), node.kind, self.format)
        except RuleBroken as fault:
            raise DamagedLog(self.path, fault.damage, fault.problem, seq=node.seq) from None

    def price(self, node: Node | SurfaceChange) -> int:
        """Estimated tokens of a node's message."""
        return self.item(node).tokens

    def item(self, node: Node | SurfaceChange) -> Item:
        """A node as planning sees it; decoded once."""
        known = self._items.get(node.seq)
        if known is None:
            message = self.message(node)
            known = item(node.seq, node.kind, tokens.price_message(message), message)
            self._items[node.seq] = known
        return known

    def items(self) -> tuple[Item, ...]:
        """The surface as planning sees it."""
        return tuple(map(self.item, self.surface))

    def usage(self, node: Node | SurfaceChange) -> Usage | None:
        """What the provider counted for an answer."""
        return self.event(node).usage

    def request_header(self, at: RequestHeader) -> Header:
        """The request header whose record lies there."""
        known = self._headers.get(at.seq)
        if known is None:
            try:
                known = decode_request_header(self.line(at.place))
            except RuleBroken as fault:
                raise DamagedLog(self.path, fault.damage, fault.problem, seq=at.seq) from None
            self._headers = {**dict(list(self._headers.items())[-_HEADERS_KEPT:]), at.seq: known}
        return known

    @property
    def newest_header(self) -> Header | None:
        """What stands before the conversation in the next request."""
        return None if self.meter.header is None else self.request_header(self.meter.header)

    def pressure(self) -> Pressure:
        """How full the window is, by the harness's estimate (see `meter`)."""
        return metering.measure(self.meter, self.surface, _Book(self))

    # The fold -------------------------------------------------------------------------------------

    def lost(self) -> str | None:
        """Why the path leads no longer to what was folded, None while it does.

        A log that only grew is caught up with; one that was replaced, cut or rewritten is to be
        read anew.
        """
        return self._reader.lost()

    def catch_up(self) -> int:
        """Folds what another writer has appended since; returns how many events that was.

        A record that is not whole yet is left for the next time.
        """
        if self.stopped:
            return 0
        before = self.events
        self._fold()
        return self.events - before

    def _fold(self) -> None:
        try:
            if self._scanner is None:
                self._fold_beginning()
            if not self.stopped:
                self._fold_rest()
        except RuleBroken as fault:
            raise self._damaged(fault) from None
        self._reader.mark_end()

    def _fold_beginning(self) -> None:
        """Folds the first run, and of a large log as much as two processes can."""
        first = next(self._reader.runs(), None)
        if first is None:
            raise RuleBroken(Damage.HEADER_MISSING, "there is no session header")
        self._take(self._begin(first))
        assert self._scanner is not None
        if self._until is None and (ahead := read_ahead(self._reader, self._scanner)):
            with ahead:
                for run in self._reader.runs(ahead.start_bytes):
                    self._take(run)
                self._take_all(ahead.parts())

    def _fold_rest(self) -> None:
        for run in self._reader.runs():
            self._take(run)
            if self.stopped:
                break

    def _take_all(self, parts: Iterable[Part]) -> None:
        """Takes what another process has scanned, as long as it continues what is folded."""
        scanner, reader = self._scanner, self._reader
        assert scanner is not None
        for part in parts:
            place = part.place
            if place.byte != reader.end_bytes or part.first_seq != scanner.next_seq:
                return
            first_line = scanner.lines + 1
            scanner.next_seq, reader.end_bytes = part.next_seq, part.end_bytes
            scanner.lines += part.lines
            self._extend_all(part.events, place, first_line)

    def _begin(self, run: Run) -> Run:
        end = run.data.index(b"\n") + 1
        self.header = decode_header(bytes(run.data[: end - 1]), strict=self._strict)
        self._scanner = Scanner(self.header.version, self._wanted, strict=self._strict)
        rest = bytes(run.data[end : run.size_bytes])
        return Run(rest, len(rest), run.frame_bytes, run.start_bytes + end)

    def _take(self, run: Run) -> None:
        assert self._scanner is not None
        place = Place(run.frame_bytes, run.start_bytes, run.size_bytes)
        first_line = self._scanner.lines + 1
        try:
            events: Sequence[Event] = self._scanner.scan(*run)
        except RuleBroken as fault:
            fault.line = self._scanner.lines
            self._extend_all(cast("Sequence[Event]", fault.events), place, first_line)
            if self.stopped:  # what is wrong stands behind the part that was asked for
                return
            raise
        self._extend_all(events, place, first_line)

    def _extend_all(self, events: Sequence[Event], place: Place, first_line: int) -> None:
        """Folds the events of the lines at `place`, of which the first has that number."""
        for event in events:
            if self._until is not None and self._until(event):
                self.stopped = True
                return
            try:
                self._extend(event)
            except RuleBroken as fault:
                if isinstance(event, SurfaceChange):
                    before_bytes = event.place.start_bytes - place.start_bytes
                    before = Place(place.frame_bytes, place.start_bytes, before_bytes)
                    fault.line = first_line + self._reader.read(before).count(b"\n")
                raise

    def _extend(self, event: Event) -> None:
        before = self.surface
        if isinstance(event, SurfaceChange):
            self.surface = before.extend(event, self._recall)
        elif isinstance(event, Other):
            self._note_unknown(event)
            return
        elif self._follow_turns:
            self.turns = self.turns.extend(event)
        if event.__class__ in _METERED:
            self.meter = self.meter.extend(event, before)
        if self._watch is not None:
            self._watch(event, before, self.surface)

    def _recall(self, node: Node) -> Identity:
        return Identity(self.line(node.place))

    def _note_unknown(self, event: Other) -> None:
        if event.type not in self.unknown_types:
            self.unknown_types.add(event.type)
            self.notices.append(
                f"{self.path}: seq {event.seq} is of the unknown type {event.type!r} and not marked"
                " ignorable: what follows may be read wrongly, and nothing is written to such a log"
            )

    def _note_torn_tail(self) -> None:
        torn = self._reader.torn
        if torn is not None:
            what, size = "frame" if torn.is_frame else "line", counted(torn.size_bytes, "byte")
            self.notices.append(
                f"{self.path}: the last {what} is torn ({size} behind byte {torn.start_bytes}):"
                " read up to the last whole record"
            )

    def _damaged(self, fault: RuleBroken) -> LogError:
        if self._scanner is None:
            return _headless(self._reader, fault)
        line = fault.line or self._scanner.lines + 1  # what no line is stands behind them
        return DamagedLog(self.path, fault.damage, fault.problem, line=line, seq=fault.seq)


class _Book:
    """A session as the meter's book (the names differ since a session's `header` is its own)."""

    __slots__ = ("header", "price", "usage")

    def __init__(self, session: Session) -> None:
        self.price = session.price
        self.usage = session.usage
        self.header = session.request_header


def read_session(
    path: str | os.PathLike[str],
    *,
    wanted: Iterable[type[Any]] = (),
    strict: bool = False,
    watch: Watcher | None = None,
    until: Callable[[Event], bool] | None = None,
) -> Session:
    """The session at `path`: a log of any supported format, `-` for standard input, or a folder.

    Reads only. `strict` checks every byte, also of records that nobody needs; `wanted` and `watch`
    are for those who want to see events pass by; the first event for which `until` is true, and
    all behind it, are left out. Raises `LogError` and its kin: unreadable,
    unsupported, damaged.
    """
    found, stale = find_log(os.fspath(path))
    session = Session(found, wanted=wanted, strict=strict, watch=watch, until=until)
    if stale:
        session.notices.insert(0, f"{found} is read; older formats beside it: {', '.join(stale)}")
    return session


class WritableSession(Session):
    """A session that may be appended to: the lock is held from opening to closing.

    `kept_aside` is the path where a torn tail was put that had to be cut off, None without one.
    """

    def __init__(self, path: str, journal: "Journal", *, clock: Callable[[], int]) -> None:
        """Folds the log behind `journal`, which is locked already; prefer `open_session`."""
        super().__init__(path, wanted=TURNS_WANTED)
        self._journal = journal
        self._clock = clock
        self._door = RLock()
        self._barred: list[Thread] = []  # an identifier is given again once its thread is gone
        try:
            self.kept_aside = journal.start_at(self.size_bytes)
        except BaseException:
            super().close()
            raise

    def close(self) -> None:
        """Gives the lock back."""
        super().close()
        self._journal.close()

    def catch_up(self) -> int:
        """Folds what else was written under our lock (by a process that shares it)."""
        count = super().catch_up()
        self.kept_aside = self._journal.start_at(self.size_bytes) or self.kept_aside
        return count

    def now_ms(self) -> int:
        """The time that the next record would carry."""
        return self._clock()

    def resync(self) -> None:
        """Forgets what is in memory and folds the file anew: the file is right.

        Raises `LogError` and its kin where it cannot be folded any more.
        """
        self._reader.start_over()
        self._scanner = None
        self.surface, self.meter, self.turns = Surface(), Meter(), Turns()
        self._items.clear()
        self._headers.clear()
        self._journal.watch()
        self._fold()
        self._journal.start_at(self.size_bytes)

    def mark(self) -> bool:
        """From now on `is_as_marked` tells whether anybody else writes, our own appends left aside.

        False where it cannot, and where somebody has written since the log was folded.
        """
        return self._journal.mark()

    @property
    def is_as_marked(self) -> bool:
        """Whether the log holds what it held when it was folded, our own records behind it."""
        return self._journal.is_as_marked

    def append(self, drafts: "Sequence[Draft]") -> tuple[int, ...]:
        """Puts records at the log's end, all or none, and returns their seqs.

        They are admitted by the fold before anything is written, and folded again once they are on
        disk. Raises `NotAdmitted`, `ForeignAppend`, `WriteFailed`; the log is then as it was.
        """
        with self._door:  # one thread at a time
            if any(one.ident == get_ident() and one.is_alive() for one in self._barred):
                raise NotAdmitted(f"{self.path}: what this thread may write, it has written")
            return self._append(drafts) if drafts else ()

    def bar(self, thread: "Thread") -> None:
        """From now on nothing is written for that thread; returns once it writes nothing more."""
        with self._door:
            self._barred = [*(one for one in self._barred if one.is_alive()), thread]

    def _append(self, drafts: "Sequence[Draft]") -> tuple[int, ...]:
        first, time_ms = self.events, self._clock()
        lines = [
            draft.line(first + index, time_ms, self.format) for index, draft in enumerate(drafts)
        ]
        admit(self.path, lines, self.format, first, self.surface, self._recall)
        places = self._journal.append(lines)
        self._reader.end_bytes = self._journal.end_bytes
        data = _joined(lines)
        self._take(Run(data, len(data), places[0].frame_bytes, places[0].start_bytes))
        return tuple(range(first, first + len(lines)))


def admit(
    path: str,
    lines: Sequence[bytes],
    version: int,
    first_seq: int,
    surface: Surface,
    recall: Callable[[Node], object],
) -> None:
    """Raises `NotAdmitted` unless the records `lines` may follow on `surface`, their messages too.

    The first must carry `first_seq`; `recall` reads a result that is in the log already.
    """

    def recall_any(node: Node) -> object:
        return recall(node) if node.seq < first_seq else Identity(lines[node.seq - first_seq])

    scanner = Scanner(version, EVERY, strict=True)
    scanner.next_seq = first_seq
    try:
        data = _joined(lines)
        for event in scanner.scan(data, len(data), NOWHERE.frame_bytes, NOWHERE.start_bytes):
            if isinstance(event, SurfaceChange):
                surface = surface.extend(event, recall_any)
                decode_surface_event(lines[event.seq - first_seq], version)
    except RuleBroken as fault:
        raise NotAdmitted(f"{path}: the record would damage the log: {fault}") from None


def open_session(
    path: str | os.PathLike[str],
    *,
    clock: Callable[[], int] | None = None,
    disk: "Disk | None" = None,
) -> WritableSession:
    """The session at `path` for appending, under the harness's lock.

    `clock` gives the time in ms since 1970, `disk` the operations of the journal. A torn tail is
    cut off and kept beside the log. Raises `LogError` and its kin: owned by a live process,
    damaged, no regular file, or holding events that only a newer harness understands.
    """
    found, stale = find_log(os.fspath(path))
    if found == STANDARD_INPUT:
        raise UnreadableLog(found, "standard input cannot be appended to", remedy="name a file")
    from dsh_compact.journal import Journal, refuse_special_file

    refuse_special_file(found)
    own_lock = _header_of(found).version == 0
    journal = Journal(found, own_lock=own_lock, disk=disk)
    try:
        session = WritableSession(found, journal, clock=clock or now_ms)
    except BaseException:
        journal.close()
        raise
    refuse_unknown(session)
    if stale:
        session.notices.insert(0, f"{found} is used; older formats beside it: {', '.join(stale)}")
    return session


def refuse_unknown(session: WritableSession) -> None:
    """Closes the session and raises `LogError` where events that only a newer harness knows are in
    it: nobody can tell what may follow them.
    """
    if session.unknown_types:
        session.close()
        names = ", ".join(sorted(session.unknown_types))
        raise LogError(
            session.path,
            f"holds events of unknown types ({names}) that are not marked ignorable: appending"
            " would not be safe",
            remedy="use a newer dshc",
        )


def create_session(
    path: str | os.PathLike[str],
    *,
    session_id: str | None = None,
    version: int = FORMATS[-1],
    cwd: str | None = None,
    framed: bool = False,
    drafts: "Sequence[Draft]" = (),
    clock: Callable[[], int] | None = None,
) -> WritableSession:
    """A new log at `path` with its header and `drafts`, all or nothing, opened for appending.

    Raises `NotAdmitted`, and `LogError` where something of that name exists.
    """
    from uuid import uuid4

    from dsh_compact import frames
    from dsh_compact.codec.encode import session_header
    from dsh_compact.journal import write_new_file

    clock = clock or now_ms
    time_ms = clock()
    lines = [draft.line(seq, time_ms, version) for seq, draft in enumerate(drafts)]
    admit(os.fspath(path), lines, version, 0, Surface(), _recall_nothing)
    header = session_header(session_id or str(uuid4()), time_ms, version, cwd) + b"\n"
    pieces = [header, b"".join(b"%b\n" % line for line in lines)]
    write_new_file(
        os.fspath(path), [frames.pack(piece) if framed else piece for piece in pieces if piece]
    )
    return open_session(path, clock=clock)


def _recall_nothing(node: Node) -> object:
    raise AssertionError(f"a new log holds no node {node.seq}")


def now_ms() -> int:
    """The time in ms since 1970."""
    return time.time_ns() // 1_000_000


def _header_of(path: str) -> SessionHeader:
    """The header alone: it says which lock belongs to the log."""
    with LogReader(path) as reader:
        try:
            batch = next(reader.batches(), None)
            if batch is None:
                raise RuleBroken(Damage.HEADER_MISSING, "there is no session header")
            return decode_header(batch.lines[0])
        except RuleBroken as fault:
            raise _headless(reader, fault) from None


def _headless(reader: LogReader, fault: RuleBroken) -> LogError:
    """What is wrong with a log before its first event; of no log at all, what its file is."""
    if fault.damage is Damage.UNSUPPORTED_FORMAT:
        return UnsupportedLog(reader.path, fault.problem)
    from dsh_compact.codec import foreign

    told = foreign.in_words(fault, reader.head(foreign.HEAD_BYTES))
    return DamagedLog(reader.path, told.damage, told.problem, line=told.line, remedy=told.remedy)


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"".join(b"%b\n" % line for line in lines)
