"""A reading of the ledger: the file's own count, flushed, and which history it was."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import plain_reader
import pytest
from running import LOGS
from wilful import POLICY, Wilful, fold, prune, stuck

from dsh_compact.errors import LogError, RuleBroken
from dsh_compact.events import Failure
from dsh_compact.ledger import Glance, Reading, Standing
from dsh_compact.meter import Pressure
from dsh_compact.recovery import OverflowPath
from dsh_compact.session import Session, open_session

FAILURE: Final = Failure(message="prompt is too long: 1900 tokens > 1500 maximum", status=400)
REAL: Final = sorted(path.name for path in LOGS.glob("*.jsonl*"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A session that was refused a moment ago."""
    return stuck().write(tmp_path / "session.jsonl")


def append(path: Path, data: bytes) -> None:
    """Writes behind the log's end."""
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize("name", REAL)
def test_it_counts_as_the_plain_reader_does(name: str) -> None:
    """On every real log, plain and framed: generation, events and prunes."""
    plain = plain_reader.read((LOGS / name).read_bytes())
    reading = Reading(str(LOGS / name))
    prunes = sum(one.kind == "prune" for one in plain.replacements)
    assert (plain.generation, plain.events, prunes) == (
        reading.generation,
        reading.events,
        reading.prunes,
    )


def test_equal_readings_prove_nothing(log: Path) -> None:
    """The same file twice: it continues itself, and has not advanced."""
    first, second = Reading(str(log)), Reading(str(log), Reading(str(log)))
    assert second.continues(first)
    assert not second.advanced_since(first)


@pytest.mark.parametrize(("step", "prunes"), [(prune(), 3), (fold("so far"), 0)])
def test_a_replacement_advances(step: Any, prunes: int, log: Path) -> None:
    """A later reading that continues an earlier one and counts more has advanced."""
    before = Reading(str(log))
    with open_session(log) as session:
        OverflowPath(Wilful([step]), POLICY).on_request_error(session, FAILURE)
    after = Reading(str(log), before)
    assert after.advanced_since(before)
    assert not before.advanced_since(after)
    assert prunes == after.prunes
    assert after.tokens < before.tokens


def flipped(path: Path) -> None:
    """One byte of the header changes, the size stays."""
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"/srv/app"', b'"/srv/apq"', 1))


def copied(path: Path) -> None:
    """Another file of the same content takes the log's place."""
    data = path.read_bytes()
    path.with_suffix(".new").write_bytes(data)
    path.with_suffix(".new").rename(path)


def shortened(path: Path) -> None:
    """The last record goes."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))


@pytest.mark.parametrize("change", [flipped, copied, shortened])
def test_another_history_is_not_continued(change: Callable[[Path], None], log: Path) -> None:
    """Rewritten, replaced or cut: the later reading continues nothing, neither does a glance."""
    before, glance = Reading(str(log)), Glance(str(log), log.stat().st_size)
    change(log)
    assert not Reading(str(log), before).continues(before)
    assert not Reading(str(log), glance).continues(glance)


def test_what_is_compared_is_what_was_folded(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that takes the log's place in the middle of a reading has no part in it."""
    before = Reading(str(log))
    pressure = Session.pressure

    def late(session: Session) -> Pressure:
        copied(log)
        return pressure(session)

    monkeypatch.setattr(Session, "pressure", late)
    assert Reading(str(log), before).continues(before)
    monkeypatch.undo()
    assert not Reading(str(log), before).continues(before)


def test_a_torn_tail_is_no_history(log: Path) -> None:
    """What was never finished may go without changing what was there."""
    append(log, b'{"type":"user/mess')
    before = Reading(str(log))
    shortened_to = log.read_bytes().rpartition(b"\n")[0] + b"\n"
    log.write_bytes(shortened_to)
    assert Reading(str(log), before).continues(before)


def test_it_flushes(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted survives a crash: the log was flushed, whoever wrote to it."""
    flushed: list[int] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        flushed.append(os.fstat(fd).st_ino)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    Reading(str(log))
    assert [log.stat().st_ino] == flushed


def gone(path: Path) -> None:
    """Nothing is left."""
    path.unlink()


def folder(path: Path) -> None:
    """A folder has the log's name."""
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    """A pipe has the log's name."""
    path.unlink()
    os.mkfifo(path)


def garbage(path: Path) -> None:
    """Something else stands in it."""
    append(path, b"no JSON\n")


@pytest.mark.parametrize("spoil", [garbage, gone, folder, pipe])
def test_what_cannot_be_folded_is_an_error(spoil: Callable[[Path], None], log: Path) -> None:
    """No reading without a fold, and no waiting for a pipe's writer."""
    spoil(log)
    with pytest.raises(LogError):
        Reading(str(log))


def test_a_reading_shows_what_it_is(log: Path) -> None:
    """In a debugger the generation and the path are seen."""
    assert f"<Reading generation 0 of {log}>" == repr(Reading(str(log)))


# What comes behind


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
def test_what_comes_behind_is_folded_onto_what_stood_there(framed: bool, tmp_path: Path) -> None:
    """Events, generation and end are those of the whole file, read anew."""
    path = stuck().write(tmp_path / "session.jsonl", framed=framed)
    with open_session(path) as session:
        standing = Standing(session)
        OverflowPath(Wilful([prune(), fold("so far")]), POLICY).on_request_error(session, FAILURE)
        standing.follow()
    whole = Reading(str(path))
    assert (whole.events, whole.generation, whole.end_bytes) == (
        standing.events,
        standing.generation,
        standing.end_bytes,
    )
    assert 4 == standing.generation


def test_a_surface_that_is_patched_later_moves_nothing(log: Path) -> None:
    """The surface is a copy that only the reading holds."""
    with open_session(log) as session:
        standing = Standing(session)
        session.surface._generation += 7
        standing.follow()
    assert 0 == standing.generation


def test_what_does_not_follow_is_told(log: Path) -> None:
    """Every byte behind is checked."""
    with open_session(log) as session:
        standing = Standing(session)
        append(log, b'{"type":"compaction/done","ok":true}\n')
        with pytest.raises(RuleBroken):
            standing.follow()
