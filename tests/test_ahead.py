"""With a second process every answer and every error is the same; it can only come sooner."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import pytest
from benchmarks import generate
from builders import Conversation, call, frame
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from mutations import mutate, unpacked
from running import DSHC, LOGS, dshc, group_of, python
from strategies import Spoiled, Torn, broken_logs, torn_logs, written_logs

from dsh_compact import ahead, cores, events, reader
from dsh_compact.ahead import Ahead, Part
from dsh_compact.codec import EVERY, Identity, encode
from dsh_compact.errors import Damage, DshcError, LogError, RuleBroken, UnreadableLog
from dsh_compact.events import (
    Append,
    Event,
    Failure,
    Place,
    Replace,
    SurfaceChange,
    Text,
    Usage,
)
from dsh_compact.journal import Journal
from dsh_compact.session import Session, open_session, read_session
from dsh_compact.surface import Surface

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no second process is started"),
    # Newer Pythons warn of a fork beside a thread: the clock that ends a test for its time is one.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

needs_cores = pytest.mark.skipif(cores.count() < 2, reason="one core, so no second process")

REAL: Final = sorted(LOGS.glob("*.jsonl*"))
SHARES: Final = (0.0, 0.35, 0.9)
CHUNK_BYTES: Final = 1_024
"""So much is read at once, so that a small log has many parts, too."""

MOST_SECONDS: Final = 20
"""No process needs as long as this for anything."""

drawn = settings(max_examples=40)


# Two readings of one log --------------------------------------------------------------------------


class Taken(NamedTuple):
    """What was taken of that which the second process read: so many whole parts, and their bytes
    of the file.
    """

    parts: int
    size_bytes: int


@contextmanager
def two_processes(share: float = 0.35, **limits: int) -> Iterator[list[Taken]]:
    """Inside it every log is large, and this process may start another one for its greater part.

    Yields what was taken from there, once for each log. `limits` are those of `ahead`.
    """
    taken: list[Taken] = []
    take_all = Session._take_all

    def counted(session: Session, parts: Iterable[Part]) -> None:
        before, count = session.size_bytes, 0

        def counting() -> Iterator[Part]:
            nonlocal count
            for part in parts:
                yield part
                count += 1

        try:
            take_all(session, counting())
        finally:
            taken.append(Taken(count, session.size_bytes - before))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "CHUNK_BYTES", CHUNK_BYTES)
        patch.setattr(Session, "_take_all", counted)
        patch.setattr(cores, "spare", lambda: True)
        patch.setattr(threading, "active_count", lambda: 1)
        patch.setattr(ahead, "FIRST_SHARE", share)
        for name in ("LARGE_BYTES", "LARGE_FRAMES_BYTES"):
            patch.setattr(ahead, name, 1)
        for name, limit in limits.items():
            patch.setattr(ahead, name, limit)
        yield taken


@contextmanager
def one_process() -> Iterator[None]:
    """Inside it a log is read in small chunks, too, by nobody else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "CHUNK_BYTES", CHUNK_BYTES)
        patch.setattr(cores, "spare", lambda: False)
        yield


class Told(NamedTuple):
    """All that a reading tells: of a log that cannot be read, the error; and what a watcher saw."""

    answer: tuple[Any, ...]
    seen: list[tuple[Event, int, int]]


def told(path: Path, *, wanted: Iterable[type[Any]] = EVERY, strict: bool = False) -> Told:
    """One reading of the log at `path`."""
    seen: list[tuple[Event, int, int]] = []

    def watch(event: Event, before: Surface, after: Surface) -> None:
        seen.append((event, len(before), after.replace_generation))

    try:
        with read_session(path, wanted=wanted, strict=strict, watch=watch) as session:
            return Told(everything(session), seen)
    except DshcError as error:
        facts = {name: getattr(error, name, None) for name in ("line", "seq", "damage", "remedy")}
        return Told((type(error), str(error), facts), seen)


def everything(session: Session) -> tuple[Any, ...]:
    """All that a session tells of a log that could be read."""
    try:
        pressure: object = session.pressure()
    except LogError as error:  # a record that nobody needed before
        pressure = (type(error), str(error))
    return (
        (session.header, session.framed, session.size_bytes, session.torn_bytes),
        (session.events, session.surface, session.meter, session.turns, pressure),
        (session.notices, session.unknown_types),
    )


def alone(path: Path, **how: Any) -> Told:
    """The reading that every other one must equal."""
    with one_process():
        return told(path, **how)


def put(folder: Path, content: bytes) -> Path:
    """A log with that content, in the last one's place."""
    path = folder / "log"
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all drawn logs."""
    return tmp_path_factory.mktemp("drawn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of a few hundred messages, which are far more parts than the second process sends."""
    return long_talk().write(tmp_path / "log")


def long_talk(version: int = 4) -> Conversation:
    """With calls, a prune and a compaction, in the second process's share, too."""
    log = Conversation(format=version).system("You help.")
    for number in range(60):
        name = f"c{number}"
        log.user(f"question {number}").assistant("Looking.", calls=[call(name)], usage=(900, 9))
        log.result(name, "x" * 300).prune(name, "x …").assistant("Well.").end()
        if number % 20 == 19:
            log.compaction(f"notes {number}")
    return log


# The same answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
@pytest.mark.parametrize("real", REAL, ids=lambda path: path.name)
def test_a_real_log_is_told_the_same(real: Path, strict: bool) -> None:
    """Plain or framed, whatever is wanted of it and wherever the second process begins."""
    for wanted in (EVERY, ()):
        expected, most = alone(real, wanted=wanted, strict=strict), 0
        for share in SHARES:
            with two_processes(share) as taken:
                assert expected == told(real, wanted=wanted, strict=strict), share
            most = max(most, taken[0].size_bytes)
        assert most > real.stat().st_size // 4


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
def test_every_format_is_told_the_same(version: int, framed: bool, tmp_path: Path) -> None:
    """The second process reads all that lies behind its beginning, to the last byte."""
    path = long_talk(version).write(tmp_path / "log", framed=framed)
    expected = alone(path)
    with two_processes() as taken:
        assert expected == told(path)
    assert taken[0].size_bytes > path.stat().st_size // 2
    assert path.stat().st_size == expected.answer[0][2]


shares = st.floats(0, 1)


def test_a_drawn_log_is_told_the_same(folder: Path) -> None:
    """In whatever style its lines are written and however they are framed."""
    taken: list[Taken] = []

    @drawn
    @given(written_logs(), shares, st.sets(st.sampled_from(sorted(EVERY, key=str))), st.booleans())
    def check(data: bytes, share: float, wanted: set[type[Any]], strict: bool) -> None:
        path = put(folder, data)
        expected = alone(path, wanted=wanted, strict=strict)
        with two_processes(share) as some:
            assert expected == told(path, wanted=wanted, strict=strict)
        taken.extend(some)

    check()
    assert not taken or any(one.parts > 0 for one in taken)  # a drawn log may be too short


def test_a_torn_tail_is_told_the_same(folder: Path) -> None:
    """Its place and its size; the second process reads up to it."""
    taken: list[Taken] = []

    @drawn
    @given(torn_logs(), shares)
    def check(torn: Torn, share: float) -> None:
        path = put(folder, torn.data)
        expected = alone(path)
        with two_processes(share) as some:
            assert expected == told(path)
        taken.extend(some)

    check()
    assert not taken or any(one.parts > 0 for one in taken)  # a drawn log may be too short


def test_a_broken_rule_is_told_the_same(folder: Path) -> None:
    """By its class, its words, its line and its seq, after the same events."""
    taken: list[Taken] = []

    @settings(max_examples=80)
    @given(broken_logs(), shares, st.booleans())
    def check(spoiled: Spoiled, share: float, strict: bool) -> None:
        path = put(folder, spoiled.data)
        expected = alone(path, strict=strict)
        with two_processes(share) as some:
            assert expected == told(path, strict=strict)
        taken.extend(some)

    check()
    assert not taken or any(one.parts > 0 for one in taken)  # a drawn log may be too short


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
def test_what_happened_to_its_bytes_is_told_the_same(framed: bool, folder: Path) -> None:
    """A real log that a disk, a copy or a second writer spoiled somewhere."""
    logs = [unpacked(real.read_bytes()) for real in REAL]
    if framed:
        logs = [b"".join(map(frame, log.splitlines(keepends=True))) for log in logs]
    faults, taken = 0, 0
    for number in range(80):
        chance = Random(f"ahead:{number}")
        path = put(folder, mutate(chance, chance.choice(logs), logs).data)
        how: dict[str, Any] = {"strict": number % 2 == 0, "wanted": EVERY if number % 3 else ()}
        expected = alone(path, **how)
        with two_processes(chance.choice(SHARES)) as some:
            assert expected == told(path, **how), number
        faults += isinstance(expected.answer[0], type)
        taken += any(one.parts for one in some)
    assert faults > 30
    assert taken > 30


def test_what_comes_through_a_pipe_is_told_the_same(path: Path, tmp_path: Path) -> None:
    """It is kept in a file without a name, which both read."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    expected = alone(path)
    writer = threading.Thread(target=pipe.write_bytes, args=(path.read_bytes(),), daemon=True)
    writer.start()
    with two_processes() as taken:
        assert expected == told(pipe)
    writer.join()
    assert taken[0].size_bytes > path.stat().st_size // 2


@pytest.mark.parametrize("place", ["ours", "the border", "theirs"])
def test_a_fault_is_told_where_it_lies(place: str, path: Path) -> None:
    """In this process's share or the other's: the number of the line, the events before it."""
    lines = path.read_bytes().splitlines(keepends=True)
    border = border_of(path)
    number = {"ours": 40, "the border": border, "theirs": len(lines) - 40}[place]
    del lines[number]
    path.write_bytes(b"".join(lines))
    expected = alone(path)
    assert number + 1 == expected.answer[2]["line"]
    with two_processes() as taken:
        assert expected == told(path)
    assert [] == taken if place == "ours" else 1 == len(taken)
    assert any(one.parts for one in taken) == (place == "theirs")


def border_of(path: Path) -> int:
    """How many lines this process reads of a log."""
    ended: list[int] = []
    with pytest.MonkeyPatch.context() as patch, two_processes():
        patch.setattr(Session, "_take_all", lambda session, _: ended.append(session.size_bytes))
        told(path)
    return path.read_bytes()[: ended[0]].count(b"\n")


# What a log may hold ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time_ms", "name"),
    [(b"1e300", b"bash"), (b"1", b"ba\\ud83dsh")],
    ids=["number", "lone surrogate"],
)
def test_what_cannot_travel_is_read_here(time_ms: bytes, name: bytes, tmp_path: Path) -> None:
    """What lies before it has come, and from there on this process reads alone."""
    lines = long_talk().lines()
    for number, line in enumerate(lines):
        is_late = number > 0.7 * len(lines)
        if is_late and b'"type":"turn/start"' in line:
            lines[number] = (
                line[: line.index(b'"time":') + 7] + time_ms + line[line.index(b',"da') :]
            )
        if is_late and b'"type":"tool/call"' in line:
            lines[number] = line.replace(b'"name":"bash"', b'"name":"%b"' % name)
    path = put(tmp_path, b"".join(lines))
    expected = alone(path)
    assert expected != alone(long_talk().write(tmp_path / "usual"))
    with two_processes() as taken:
        assert expected == told(path)
    assert 0 < taken[0].size_bytes < path.stat().st_size // 2


SAMPLES: Final[dict[Any, tuple[Any, ...]]] = {
    int: (0, 2**53),
    int | None: (None, -3),
    str: ("", "\x00 🚀"),
    str | None: (None, "words"),
    bool: (False, True),
    Place: (Place(-1, 5, 7), Place(2**40, 0, 1)),
    events.Kind: get_args(events.Kind),
    events.Op: (Append(), Replace(3, 9)),
    events.Sources: ((), (1, (2, 2**40), 3)),
    tuple[int, ...]: ((), (1, 2)),
    Failure: (Failure(message="m"), Failure(message="m", code="c", status=4, type="t", body="b")),
    Failure | None: (None, Failure(message="m")),
    Usage | None: (None, Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3)),
    Any: (None, Identity(b'{"data":{"message":{"content":[{"type":"text","text":"a"}]}}}')),
}
"""Values of every type that an event's field has."""


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_arrives_as_it_was_sent(kind: type[Event]) -> None:
    """Of the same class, with the same values."""
    values = [SAMPLES[hint] for hint in get_type_hints(kind).values()]
    longest = max(map(len, values))
    rows = [[value[row % len(value)] for value in values] for row in range(longest)]
    sent = tuple(
        kind(**dict(zip((field.name for field in structs.fields(kind)), row, strict=True)))
        for row in rows
    )
    part = Part(Place(-1, 1, 2), 3, 4, 5, 6, sent)
    (arrived,) = through_a_pipe([part])
    assert part == arrived
    assert [kind] * longest == [type(event) for event in arrived.events]


def through_a_pipe(parts: Iterable[Part]) -> list[Part]:
    """What arrives of them."""
    ours, theirs = os.pipe()
    ahead._send(parts, theirs)
    os.close(theirs)
    return arriving(ours)


def arriving(pipe: int) -> list[Part]:
    """All that comes out of it."""
    receiver = Ahead(0, pipe, 0, ())
    try:
        return [*receiver.parts()]
    finally:
        receiver._pipe.close()


def test_an_identity_stays_what_it_was() -> None:
    """Equal to that of a record that says the same, written alike or not, and to no other."""
    usual = b'{"type":"tool/result","data":{"n":%b,"message":{"content":[{"type":"text"%b}]}}}'
    odd = b'{ "type":"tool/result","data":{"message":{"content" :[1]},"n": %b}}'
    lines = [usual % (b"1", b',"text":"a"'), usual % (b"2", b""), odd % b"1", odd % b"2"]
    changes = [
        SurfaceChange(7, "tool", Replace(1, 1), (1,), Place(-1, 0, 9), Identity(line))
        for line in lines
    ]
    (arrived,) = through_a_pipe([Part(Place(-1, 0, 9), 9, 7, 8, 1, tuple(changes))])
    after = [one.identity for one in arrived.events if isinstance(one, SurfaceChange)]
    before = [one.identity for one in changes]
    same = [[one == other for other in before] for one in before]
    assert [True, False, True, False] == same[0] == same[2]
    assert same == [[one == other for other in before] for one in after]
    assert same == [[one == other for other in after] for one in after]


@pytest.mark.parametrize(
    ("sent_bytes", "most_unsent_bytes"),
    [(1, 0), (ahead.SENT_BYTES, 5_000), (ahead.SENT_BYTES, ahead.MOST_UNSENT_BYTES)],
)
def test_what_nobody_asks_for_yet_arrives_all_the_same(
    sent_bytes: int, most_unsent_bytes: int, tmp_path: Path
) -> None:
    """More than the pipe takes, and more than may be kept, while this process has other things to
    do.
    """
    path = tmp_path / "log"
    generate.many_nodes(path, 4_000)
    expected = alone(path)
    events_seen = 0

    def watch(event: Event, before: Surface, after: Surface) -> None:
        nonlocal events_seen
        events_seen += 1
        if events_seen == 100:
            time.sleep(0.2)

    limits = {"SENT_BYTES": sent_bytes, "MOST_UNSENT_BYTES": most_unsent_bytes}
    with (
        two_processes(0.05, **limits) as taken,
        read_session(path, wanted=EVERY, watch=watch) as session,
    ):
        assert expected.answer == everything(session)
    assert len(expected.seen) == events_seen
    assert taken[0].size_bytes > 0.9 * path.stat().st_size


def test_no_more_is_kept_than_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the other process waits, too: its memory is bounded."""
    monkeypatch.setattr(ahead, "MOST_UNSENT_BYTES", 100_000)
    event = events.Other(1, "x" * 1_000, 1, False, False)
    made = 0

    def parts() -> Iterator[Part]:
        nonlocal made
        for made in range(1, 1_001):
            yield Part(Place(-1, 0, 1), 1, made, made, 1, (event,))

    ours, theirs = os.pipe()

    def send() -> None:
        ahead._send(parts(), theirs)
        os.close(theirs)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    time.sleep(0.1)
    assert 100 < made < 300
    arrived = arriving(ours)
    sender.join()
    assert [*range(1, 1_001)] == [part.first_seq for part in arrived]


# Whatever happens over there ----------------------------------------------------------------------

Parts = Iterator[Part]


def dies(parts: Parts) -> Parts:
    """Killed, as for want of memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    return parts


def fails(parts: Parts) -> Parts:
    """A bug."""
    raise LookupError("a bug of ours")


def ends(parts: Parts) -> Parts:
    """No more to tell."""
    return iter(())


def skips(parts: Parts) -> Parts:
    """A part is lost."""
    next(parts)
    return parts


def repeats(parts: Parts) -> Parts:
    """A part comes twice."""
    part = next(parts)
    return itertools.chain([part, part], parts)


def swaps(parts: Parts) -> Parts:
    """Two parts come in the wrong order."""
    one, other = next(parts), next(parts)
    return itertools.chain([other, one], parts)


def one_part(**lies: Any) -> Callable[[Parts], Parts]:
    """The next part says something else of itself."""

    def lying(parts: Parts) -> Parts:
        part = next(parts)
        told = {name: lie(getattr(part, name)) for name, lie in lies.items()}
        return itertools.chain([structs.replace(part, **told)], parts)

    return lying


def moved(bytes_: int) -> Callable[[Place], Place]:
    """Another place."""
    return lambda place: Place(place.frame_bytes, place.start_bytes + bytes_, place.size_bytes)


MISHAPS: Final[dict[str, Callable[[Parts], Parts]]] = {
    "dies": dies,
    "fails": fails,
    "ends": ends,
    "skips": skips,
    "repeats": repeats,
    "swaps": swaps,
    "an earlier seq": one_part(first_seq=lambda seq: seq - 1),
    "a later seq": one_part(first_seq=lambda seq: seq + 1),
    "an earlier place": one_part(place=moved(-1)),
    "a later place": one_part(place=moved(1)),
    "a huge number": one_part(lines=lambda lines: 1 << 70),
    "no number": one_part(lines=lambda lines: "many"),
    "no events": one_part(events=lambda events: ("an event",)),
}


@pytest.mark.parametrize("mishap", MISHAPS.values(), ids=[*MISHAPS])
@pytest.mark.parametrize("whole", [0, 1, 7])
def test_whatever_happens_over_there_is_not_noticed(
    mishap: Callable[[Parts], Parts], whole: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After none, one or some right parts: those are taken, and nothing else."""
    right = ahead._parts

    def parts(*args: Any) -> Parts:
        given = right(*args)
        yield from itertools.islice(given, whole)
        yield from mishap(given)

    expected = alone(path)
    with two_processes(SENT_BYTES=1) as taken:
        told(path)
        monkeypatch.setattr(ahead, "_parts", parts)
        assert expected == told(path)
    usual, less = taken
    assert usual.parts > 20
    assert whole + (mishap is repeats) == less.parts


def test_ctrl_c_is_not_its_business(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal sends it to both; the one that was started by the user obeys."""
    right = ahead._parts

    def parts(*args: Any) -> Parts:
        for part in right(*args):
            signal.raise_signal(signal.SIGINT)
            yield part

    with two_processes() as taken:
        expected = told(path)
        monkeypatch.setattr(ahead, "_parts", parts)
        assert expected == told(path)
    assert taken[0] == taken[1]


@pytest.mark.parametrize("sent_bytes", [1, 7, 8, 9, -1])
def test_half_a_part_is_none(sent_bytes: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies in the middle of a word, wherever that is."""
    write = os.write

    def die(pipe: int, data: bytearray) -> None:
        write(pipe, data[:sent_bytes])
        os.kill(os.getpid(), signal.SIGKILL)

    expected = alone(path)
    with two_processes(SENT_BYTES=1) as taken:
        monkeypatch.setattr(os, "write", die)
        assert expected == told(path)
    assert [Taken(0, 0)] == taken


# A log that changes -------------------------------------------------------------------------------


@contextmanager
def when_half_is_seen(path: Path, change: Callable[[], object]) -> Iterator[Session]:
    """A session of the log, of which half was folded when it changed."""
    half = len(alone(path).seen) // 2
    count = 0

    def watch(event: Event, before: Surface, after: Surface) -> None:
        nonlocal count
        count += 1
        if count == half:
            change()

    with two_processes(0.9) as taken, read_session(path, wanted=EVERY, watch=watch) as session:
        yield session
    assert 1 == len(taken)


def test_a_log_that_grows_is_read_to_its_new_end(path: Path) -> None:
    """What is appended while it is read belongs to it."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-50]))

    def grow() -> None:
        with path.open("ab") as log:
            log.write(b"".join(lines[-50:]))

    with when_half_is_seen(path, grow) as session:
        found = everything(session)
        assert session.lost() is None
    assert alone(path).answer == found


def test_a_log_that_is_cut_is_told_as_it_was(path: Path) -> None:
    """As far as it was read; and that it was cut, to whoever asks."""
    content = path.read_bytes()
    with when_half_is_seen(path, lambda: os.truncate(path, 1_000)) as session:
        found, size_bytes = everything(session), session.size_bytes
        assert "the log was cut short" == session.lost()
    path.write_bytes(content[:size_bytes])
    expected = alone(path).answer
    assert size_bytes > len(content) // 2
    assert expected[2] == found[2]
    assert expected[1][:2] == found[1][:2]


def test_a_log_whose_place_is_taken_is_told_as_it_was(path: Path) -> None:
    """The file that was opened is read to its end."""
    expected = alone(path)
    other = long_talk(3).write(path.parent / "other")
    with when_half_is_seen(path, lambda: other.replace(path)) as session:
        assert expected.answer == everything(session)
        assert "another file has taken the log's place" == session.lost()


# Nothing is left ----------------------------------------------------------------------------------


def children() -> list[int]:
    """The processes below this one, those that are dead but not collected among them."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(word) for task in tasks for word in task.read_text().split()]


def descriptors() -> set[str]:
    """The open files of this process."""
    return {fd.name for fd in Path("/proc/self/fd").iterdir()}


@contextmanager
def nothing_left() -> Iterator[None]:
    """Asserts that what is begun inside leaves nothing: process, descriptor, blocked signal."""
    before = children(), len(descriptors()), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    after = children(), len(descriptors()), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert before == after


class Enough(Exception):
    """A watcher has seen what it wanted to see."""


@pytest.mark.parametrize("error", [Enough, RuleBroken, KeyboardInterrupt, SystemExit, None])
@pytest.mark.parametrize("when", [0.2, 0.8], ids=["in our share", "in theirs"])
def test_nothing_is_left_of_it(error: type[BaseException] | None, when: float, path: Path) -> None:
    """When the log has been read, and when a watcher had enough of it."""
    last = int(when * len(alone(path).seen))
    forks: list[int] = []

    def watch(event: Event, before: Surface, after: Surface) -> None:
        nonlocal last
        last -= 1
        if last == 0:
            forks.extend(children())
            if error is RuleBroken:
                raise RuleBroken(Damage.RECORD_WRONG, "too much")
            if error is not None:
                raise error

    with nothing_left(), two_processes():
        if error is None:
            read_session(path, wanted=EVERY, watch=watch).close()
        else:
            with pytest.raises(LogError if error is RuleBroken else error):
                read_session(path, wanted=EVERY, watch=watch)
    assert 1 == len(forks)


def test_it_ends_by_itself_and_says_no_word(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It never returns into the code that was begun in this process."""
    left = len(alone(path).seen)
    ended: list[Any] = []

    def watch(event: Event, before: Surface, after: Surface) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            how = os.WEXITED | os.WNOWAIT | os.WNOHANG
            ended.append(wait_until(lambda: os.waitid(os.P_ALL, 0, how)))

    print("a word that waits for its turn", end="")
    with two_processes():
        read_session(path, wanted=EVERY, watch=watch).close()
    assert [(os.CLD_EXITED, 0)] == [(one.si_code, one.si_status) for one in ended]
    assert ("a word that waits for its turn", "") == capfd.readouterr()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_late", [False, True], ids=["before the fork", "behind it"])
def test_a_signal_that_meets_the_fork_leaves_nothing(
    number: signal.Signals, is_late: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exception is raised once the process is known that must be ended."""
    fork = os.fork
    forks: list[int] = []

    def interrupted() -> int:
        if not is_late:
            signal.pthread_kill(threading.get_ident(), number)
        forks.append(fork())
        if is_late and forks[-1]:
            signal.pthread_kill(threading.get_ident(), number)
        return forks[-1]

    def enough(*_: object) -> None:
        raise Enough

    usual = signal.signal(number, enough)
    try:
        with nothing_left(), two_processes():
            monkeypatch.setattr(os, "fork", interrupted)
            with pytest.raises(Enough):
                read_session(path)
    finally:
        signal.signal(number, usual)
    assert 1 == len(forks)


def test_a_place_that_cannot_be_read_is_told_in_its_turn(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails further behind starts no process and ends no reading of what is before."""

    def failing(log: reader.LogReader, from_bytes: int) -> int:
        raise UnreadableLog(log.path, f"cannot be read at {from_bytes}")

    expected = alone(path)
    monkeypatch.setattr(reader.LogReader, "boundary", failing)
    with two_processes() as taken:
        assert expected == told(path)
    assert [] == taken


@pytest.mark.parametrize("name", ["fork", "pipe"])
def test_where_the_system_gives_none_one_reads(
    name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process, or no descriptor for its pipe."""

    def refuse() -> int:
        raise BlockingIOError("no more for you")

    expected = alone(path)
    with nothing_left(), two_processes() as taken:
        monkeypatch.setattr(os, name, refuse)
        assert expected == told(path)
    assert [] == taken


def test_whoever_collects_all_children_may_have_it(path: Path) -> None:
    """A watcher that waits for processes of its own, say, gets the end of ours, too."""
    expected = alone(path)
    collected: list[int] = []

    def watch(event: Event, before: Surface, after: Surface) -> None:
        if not collected and (forked := children()):
            os.kill(forked[0], signal.SIGKILL)
            collected.append(os.wait()[0])

    with nothing_left(), two_processes(), read_session(path, wanted=EVERY, watch=watch) as session:
        assert expected.answer == everything(session)
        session.close()
    assert 1 == len(collected)


# When there is none -------------------------------------------------------------------------------

STARTING: Final = """
import os, signal
from threading import Event, Thread
os.register_at_fork(before=lambda: print("a fork"))
from dsh_compact import ahead, cores, reader
from dsh_compact.session import read_session
ahead.LARGE_BYTES, reader.CHUNK_BYTES = 1, 1_024
until = None
{setup}
read_session({path!r}, until=until).close()
"""

SETUPS: Final = {
    "a library": "",
    "one of many": "cores.claim(); cores.yield_back()",
    "a thread": "cores.claim(); Thread(target=Event().wait, daemon=True).start()",
    "one core": "cores.claim(); os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
    "children are ignored": "cores.claim(); signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "children are heard of": "cores.claim(); signal.signal(signal.SIGCHLD, lambda *_: None)",
    "a part is asked for": "cores.claim(); until = lambda event: False",
    "a small log": "cores.claim(); ahead.LARGE_BYTES = 10**6",
}


@needs_cores
def test_a_process_of_ours_starts_one(path: Path) -> None:
    """For a large log, once."""
    done = python(STARTING.format(setup="cores.claim()", path=str(path)))
    assert (0, "a fork\n", "") == (done.code, done.out, done.err)


@pytest.mark.parametrize("setup", SETUPS.values(), ids=[*SETUPS])
def test_none_is_started(setup: str, path: Path) -> None:
    """Where it does not pay, is not ours to do, or is not safe."""
    done = python(STARTING.format(setup=setup, path=str(path)))
    assert (0, "", "") == (done.code, done.out, done.err)


MANY: Final = """
import os, sys
from dsh_compact import ahead, cores, reader
from dsh_compact.__main__ import main
from dsh_compact.cli import many
ahead.LARGE_BYTES, reader.CHUNK_BYTES = 1, 1_024
many.HERE_SECONDS, many.BYTES_AT_ONCE = -1, 1
cores.claim()
os.register_at_fork(before=lambda: os.write(2, b"%d " % os.getpid()))
os.write(2, b"%d " % os.getpid())
sys.exit(main(["measure", {folder!r}]))
"""


@needs_cores
def test_many_logs_have_the_cores_already(tmp_path: Path) -> None:
    """Of the processes that read many logs, none starts another one."""
    for number in range(4):
        long_talk().write(tmp_path / f"{number}.jsonl")
    done = python(MANY.format(folder=str(tmp_path)))
    assert 0 == done.code
    parent, *forking = done.err.split()
    assert {parent} == set(forking)
    assert 2 <= len(forking)


# Real commands on a real log ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of format 0, in which the log itself is locked, just large enough."""
    path = tmp_path_factory.mktemp("large") / "session.jsonl"
    generate.many_nodes(path, 76_000, version=0)
    assert ahead.LARGE_BYTES * 1.02 < path.stat().st_size < ahead.LARGE_BYTES * 1.2
    return path


@contextmanager
def working(*words: str | Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command that has begun to read a large log, and its second process, which was stopped on
    its way, so that the command waits.
    """
    work, other = wait_until(lambda: caught(words))
    try:
        yield work, other
    finally:
        for pid in group_of(work.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        work.communicate()


def caught(words: tuple[str | Path, ...]) -> tuple[subprocess.Popen[bytes], int] | None:
    """None where it was done before we looked: the machine is busy."""
    work = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    with suppress(ProcessLookupError):
        while work.poll() is None:
            for other in {*group_of(work.pid)} - {work.pid}:
                os.kill(other, signal.SIGSTOP)
                if other in group_of(work.pid):
                    return work, other
    work.communicate()
    return None


def wait_until(true: Callable[[], Any]) -> Any:
    """What it gives, as soon as that is something."""
    deadline = time.monotonic() + MOST_SECONDS
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return found


@needs_cores
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("to_all", [True, False], ids=["to the group", "to the parent alone"])
def test_a_signal_ends_both(number: int, to_all: bool, large: Path) -> None:
    """The command as ever, in one word at most, and its second process within moments."""
    with working(DSHC, "measure", large) as (work, other):
        (os.killpg if to_all else os.kill)(work.pid, number)
        if number != signal.SIGINT:  # which the command obeys at leisure, and ends the other first
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGCONT)
        out, err = work.communicate(timeout=MOST_SECONDS)
        if number == signal.SIGINT:
            assert (130, b"dshc: interrupted\n") == (work.returncode, err)
            assert [] == group_of(work.pid)
        else:
            assert (-number, b"") == (work.returncode, err)
        assert b"" == out
        wait_until(lambda: not group_of(work.pid))


@needs_cores
def test_it_holds_nothing_that_is_ours(large: Path) -> None:
    """Neither a lock nor our output: killed beside it, we are gone for whoever waits for us."""
    with working(DSHC, "append", large, "--user", "hello") as (work, other):
        folder = Path(f"/proc/{other}/fd")
        while len([*folder.iterdir()]) > 2:  # it was stopped before it could let go
            os.kill(other, signal.SIGCONT)
            time.sleep(0.001)
            os.kill(other, signal.SIGSTOP)
        held = sorted(str(fd.readlink()).partition(":")[0] for fd in folder.iterdir())
        assert [str(large), "pipe"] == held
        work.kill()
        assert (b"", b"") == work.communicate(timeout=MOST_SECONDS)
        with Journal(str(large), own_lock=True):
            assert [other] == group_of(work.pid)


SILENT: Final = """
import os, time
from dsh_compact import ahead, cores, reader
from dsh_compact.codec import Scanner
from dsh_compact.session import read_session
ahead.LARGE_BYTES, reader.CHUNK_BYTES = 1, 256
cores.claim()
scan, ours = Scanner.scan, os.getpid()
def slow(*words):
    if os.getpid() != ours: time.sleep(0.2)
    return scan(*words)
Scanner.scan = slow
read_session({path!r})
"""


@needs_cores
def test_a_process_that_has_nothing_to_say_sees_that_it_is_alone(path: Path) -> None:
    """It would scan to the end of the log before it met the closed pipe."""
    with working(sys.executable, "-c", SILENT.format(path=str(path))) as (work, other):
        work.kill()
        begun = time.monotonic()
        os.kill(other, signal.SIGCONT)
        wait_until(lambda: not group_of(work.pid))
        assert time.monotonic() - begun < 2


@needs_cores
def test_a_large_log_is_measured_the_same(large: Path) -> None:
    """As on one core, and with whatever Python can warn of."""
    core = min(os.sched_getaffinity(0))
    expected = python(
        f"import os, sys; os.sched_setaffinity(0, {{{core}}}); sys.argv[1:] = "
        f"['measure', '--json', {str(large)!r}]\n"
        "from dsh_compact.__main__ import main; sys.exit(main())"
    )
    assert 0 == expected.code
    found = dshc("measure", "--json", large)
    assert (expected.code, expected.out, expected.err) == (found.code, found.out, found.err)
    strictly = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "error",
            "-m",
            "dsh_compact",
            "measure",
            "--json",
            large,
        ],
        capture_output=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    assert (0, expected.out, b"") == (
        strictly.returncode,
        strictly.stdout.decode(),
        strictly.stderr,
    )


def test_a_session_that_writes_reads_so_too(path: Path) -> None:
    """What is appended then follows on what both have read; another look needs no other process."""
    with one_process(), open_session(path) as session:
        expected = everything(session)
    with nothing_left(), two_processes() as taken, open_session(path) as session:
        assert expected == everything(session)
        (seq,) = session.append([encode.user_message([Text(text="hello")], "id-1")])
        assert session.events == seq + 1
        assert 1 == len(taken)
        session.resync()
        assert 2 == len(taken)
        assert session.events == seq + 1
    assert all(one.parts for one in taken)
