"""A session: the log and its surface in step, whether it is read at once, in pieces, or written."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import plain_reader
import pytest
from builders import Conversation, call, frame, line
from footprints import footprints
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from running import LOGS
from strategies import BROKEN_RULES, Spoiled, Torn, broken_logs, conversations, torn_logs

from dsh_compact.codec import encode
from dsh_compact.errors import (
    Damage,
    DamagedLog,
    ForeignAppend,
    LogError,
    NotAdmitted,
    OwnedLog,
    UnreadableLog,
    UnsupportedLog,
)
from dsh_compact.events import Append, Event, Replace, SurfaceChange, Text
from dsh_compact.meter import Pressure
from dsh_compact.session import (
    Session,
    WritableSession,
    create_session,
    open_session,
    read_session,
)
from dsh_compact.surface import Surface

EXPECTED: dict[str, Any] = json.loads((LOGS / "expected.json").read_text("utf-8"))
drawn = settings(max_examples=50)

Told = tuple[int, Surface, Pressure, dict[str, int]]


def told(session: Session) -> Told:
    """All that a session says: events, surface, pressure, and every node's price."""
    prices = {str(node.seq): session.price(node) for node in session.surface}
    return session.events, session.surface, session.pressure(), prices


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all drawn logs, each of which takes the last one's place."""
    return tmp_path_factory.mktemp("drawn")


def user(text: str = "hello") -> encode.Draft:
    """A user's message, to be appended."""
    return encode.user_message([Text(text=text)], "id-1")


# Reading ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_log_is_read_and_left_alone(name: str, logs: Path) -> None:
    """Format, events, generation and surface are the known ones; the folder is untouched."""
    before = footprints(logs)
    with read_session(logs / name) as session:
        session.pressure()
        found = (session.format, session.events, session.replace_generation)
        seqs = [*session.surface.seqs]
    wanted = EXPECTED[name]
    assert (wanted["format"], wanted["events"], wanted["generation"]) == found
    assert wanted["node_seqs"] == seqs
    assert before == footprints(logs)


@pytest.mark.parametrize("framed", [False, True])
def test_every_format_is_read_plain_and_framed(framed: bool, tmp_path: Path) -> None:
    """By what is in the file, whatever its name."""
    for version in (0, 3, 4):
        log = Conversation(format=version).system("p").user("a").assistant("b").end()
        with read_session(log.write(tmp_path / "anything", framed=framed)) as session:
            assert (version, framed) == (session.format, session.framed)
            assert log.node_seqs == [*session.surface.seqs]


def test_a_sessions_folder_means_its_newest_log(tmp_path: Path) -> None:
    """What an older harness left beside it is named."""
    for name, version in (("session.v4.jsonl", 4), ("session.v3.jsonl", 3), ("session.jsonl", 0)):
        Conversation(format=version).user("a").write(tmp_path / name)
    with read_session(tmp_path) as session:
        assert 4 == session.format
        assert "session.v3.jsonl" in session.notices[0]
        assert "session.jsonl" in session.notices[0]


def test_an_event_nobody_knows_is_named_once(tmp_path: Path) -> None:
    """Reading goes on behind it; one that is marked ignorable is not worth a word."""
    log = Conversation().user("a").event("new/one", {}).event("new/one", {})
    log.event("my/own", {}, ignorable=True)
    with read_session(log.note("b").write(tmp_path / "log")) as session:
        assert ({"new/one"}, 1) == (session.unknown_types, len(session.notices))
        assert log.node_seqs == [*session.surface.seqs]


@drawn
@given(conversations(), st.data())
def test_catching_up_is_replaying(folder: Path, log: Conversation, data: st.DataObject) -> None:
    """Cut anywhere, in the middle of lines and frames too, a log is read in pieces as in one."""
    whole = log.framed() if data.draw(st.booleans()) else log.bytes()
    header = len(frame(log.lines()[0])) if whole[:1] == b"\x28" else len(log.lines()[0])
    cuts = data.draw(st.lists(st.integers(header, len(whole)), max_size=4))
    path = folder / "pieces"
    path.write_bytes(whole[:header])
    with Session(str(path)) as session:
        for cut in [*sorted(cuts), len(whole)]:
            path.write_bytes(whole[:cut])
            session.catch_up()
        with Session(str(path)) as at_once:
            assert told(at_once) == told(session)
            assert at_once.size_bytes == session.size_bytes == len(whole)


@drawn
@given(conversations())
def test_the_generation_counts_the_replacements(folder: Path, log: Conversation) -> None:
    """Nothing else moves it, and it is the plain reader's."""
    path = log.write(folder / "counted")
    replacing = [r for r in log.records if isinstance(r.get("surfaceOp"), dict)]
    with read_session(path) as session:
        assert len(replacing) == session.replace_generation
        assert log.node_seqs == [*session.surface.seqs]


SILENT = ("todo/write", "hook/invoked", "session/title", "my/own")


@drawn
@given(conversations(max_verbs=20), st.lists(st.sampled_from(SILENT), min_size=1, max_size=5))
def test_silent_events_change_nothing(folder: Path, log: Conversation, kinds: list[str]) -> None:
    """They count as events, and surface, generation and pressure stay as they were."""
    path = log.write(folder / "silent")
    with read_session(path) as session:
        _, surface, pressure, prices = told(session)
        for kind in kinds:
            log.event(kind, {"messageSeqs": []}, ignorable=True)
        log.write(path)
        assert len(kinds) == session.catch_up()
        assert (log.next_seq, surface, pressure, prices) == told(session)


@drawn
@given(torn_logs())
def test_a_torn_tail_is_not_read(folder: Path, torn: Torn) -> None:
    """The log is what its whole records say, a notice tells of the rest, and nothing is mended."""
    if not plain_reader.read(torn.whole).records:
        return  # of the header nothing is left
    path = folder / "torn"
    path.write_bytes(torn.whole)
    with read_session(path) as session:
        wanted = told(session)
        assert [] == session.notices
    path.write_bytes(torn.data)
    with read_session(path) as session:
        assert wanted == told(session)
        assert "torn" in session.notices[0]
        assert len(torn.data) - len(torn.whole) == session.torn_bytes
    assert torn.data == path.read_bytes()


def test_a_strict_reader_checks_the_header_too(tmp_path: Path) -> None:
    """Every byte of it, also of a key that nobody needs."""
    path = tmp_path / "log"
    path.write_bytes(Conversation().user("hello").bytes().replace(b"{", b'{"odd":"\xff",', 1))
    with read_session(path) as session:
        assert 1 == len(session.surface)
    with pytest.raises(DamagedLog) as raised:
        read_session(path, strict=True)
    assert (Damage.NOT_UTF8, 1) == (raised.value.damage, raised.value.line)


def test_a_log_without_a_whole_record_is_none(tmp_path: Path) -> None:
    """Empty, or a torn header: the error says what is missing."""
    for data, line_number in ((b"", None), (b'{"type":"session","ver', 1)):
        (tmp_path / "log").write_bytes(data)
        with pytest.raises(DamagedLog) as raised:
            read_session(tmp_path / "log")
        assert (Damage.HEADER_MISSING, line_number, 4) == (
            raised.value.damage,
            raised.value.line,
            raised.value.exit_code,
        )


@pytest.mark.parametrize("name", ["nothing-here", "a-folder"])
def test_what_is_no_log_is_an_error_of_the_log(name: str, tmp_path: Path) -> None:
    """A path that leads nowhere, and a folder without a session."""
    (tmp_path / "a-folder").mkdir()
    with pytest.raises(LogError, match=name):
        read_session(tmp_path / name)


# Damage -------------------------------------------------------------------------------------------

DAMAGE: dict[str, set[Damage]] = {
    "bad-frame": {Damage.BAD_CHECKSUM, Damage.NOT_ZSTD},
    # an event that somebody called "session", at the head, is a wrong header to anyone
    "header-missing": {Damage.HEADER_MISSING, Damage.HEADER_WRONG},
    "not-json": {Damage.NOT_JSON},
    "not-utf8": {Damage.NOT_UTF8},
    "packed-row": {Damage.PACKED_ROW_UNEQUAL, Damage.RECORD_WRONG},
    "range-backwards": {Damage.RANGE_BACKWARDS},
    "range-not-on-surface": {Damage.RANGE_NOT_ON_SURFACE},
    "record-shape": {Damage.RECORD_WRONG},
    "result-changes-more": {Damage.RESULT_CHANGED},
    "result-replaces-other": {Damage.RESULT_REPLACES_OTHER},
    "seq-gap": {Damage.SEQ_GAP},
    "seq-repeated": {Damage.SEQ_REPEATED},
    "sources-incomplete": {Damage.SOURCES_INCOMPLETE},
    "sources-not-earlier": {Damage.SOURCES_LATER, Damage.SOURCES_INCOMPLETE},
    "sources-repeated": {Damage.SOURCES_REPEATED},
    "sources-shape": {Damage.RECORD_WRONG, Damage.SOURCES_INCOMPLETE},
    "surface-op-forbidden": {Damage.SURFACE_OP_FORBIDDEN},
    "surface-op-missing": {Damage.SURFACE_OP_MISSING, Damage.SURFACE_OP_WRONG},
    "surface-op-shape": {Damage.SURFACE_OP_WRONG, Damage.RANGE_NOT_ON_SURFACE},
    "system-prompt-folded": {Damage.SYSTEM_FOLDED},
    "too-deep": {Damage.TOO_DEEP},
}
"""The plain reader's fold rules, and the codes under which a session tells that one is broken."""

TOLD_OTHERWISE = {"unsupported-format", "message-shape"}
"""An unsupported log is no damaged one; a message is looked at only when somebody asks for it."""


def test_every_rule_of_the_fold_has_its_code() -> None:
    """The table leaves no rule of the plain reader out."""
    assert set(plain_reader.FOLD_RULES) == set(DAMAGE) | TOLD_OTHERWISE
    assert set(DAMAGE) <= set(BROKEN_RULES)


@pytest.mark.parametrize("rule", DAMAGE)
def test_damage_is_told_with_its_code_and_its_line(rule: str, tmp_path: Path) -> None:
    """Whatever rule is broken, wherever: code, line, what to do, and the folder as it was."""
    path = tmp_path / "session.jsonl"

    @settings(max_examples=12)
    @given(broken_logs([rule]))
    def check(spoiled: Spoiled) -> None:
        path.write_bytes(spoiled.data)
        before = footprints(tmp_path)
        with pytest.raises(DamagedLog) as raised:
            read_session(path, strict=True)
        assert raised.value.damage in DAMAGE[rule]
        assert (spoiled.line, 4) == (raised.value.line, raised.value.exit_code)
        assert f'run "dshc verify {path}"' in str(raised.value)
        assert before == footprints(tmp_path)

    check()


@drawn
@given(broken_logs(["unsupported-format"]))
def test_a_format_that_was_never_released_is_refused(folder: Path, spoiled: Spoiled) -> None:
    """Formats 1, 2, 5 and whatever else: no damage, but nothing that we can read."""
    path = folder / "unsupported"
    path.write_bytes(spoiled.data)
    with pytest.raises((UnsupportedLog, DamagedLog)) as raised:
        read_session(path)
    assert 4 == raised.value.exit_code


def test_a_seq_below_0_is_told_as_none(tmp_path: Path) -> None:
    """It is neither repeated nor a place: the line is named, and what must come there."""
    log = Conversation().user("a").note("b")
    seq = log.node_seqs[-1]
    log.spoil(seq, lambda record: record.update(seq=-1))
    with pytest.raises(
        DamagedLog, match=f"its seq is -1, and none is below 0; {seq} must"
    ) as raised:
        read_session(log.write(tmp_path / "log"))
    told = raised.value
    assert (Damage.RECORD_WRONG, None, seq + 2) == (told.damage, told.seq, told.line)


def test_a_message_that_cannot_be_read_is_damage_when_it_is_asked_for(tmp_path: Path) -> None:
    """The fold needs no message; a price does, and then the error names the event."""
    log = Conversation().user("a")
    seq = log.node_seqs[0]
    log.spoil(seq, lambda record: record["data"].update(content=5))
    path = log.write(tmp_path / "log")
    with read_session(path) as session, pytest.raises(DamagedLog) as raised:
        session.pressure()
    assert (Damage.RECORD_WRONG, seq) == (raised.value.damage, raised.value.seq)


@drawn
@given(broken_logs([*DAMAGE]), st.data())
def test_what_stands_behind_a_point_does_not_matter(
    folder: Path, spoiled: Spoiled, data: st.DataObject
) -> None:
    """Up to an event before the damage, a damaged log is read like a right one."""
    if spoiled.line < 4 or spoiled.data[:4] == plain_reader.ZSTD_MAGIC:
        return
    whole = b"".join(spoiled.data.splitlines(keepends=True)[: spoiled.line - 1])
    surfaces = [r["seq"] for r in plain_reader.read(whole).records[1:] if "surfaceOp" in r]
    if len(surfaces) < 2:
        return
    stop = data.draw(st.sampled_from(surfaces[1:]))
    path = folder / "behind"
    path.write_bytes(spoiled.data)
    with read_session(path, until=lambda event: event.seq >= stop) as session:
        assert session.stopped
        assert 0 == session.catch_up()
        assert stop not in session.surface.seqs
        path.write_bytes(whole)
        with read_session(path, until=lambda event: event.seq >= stop) as right:
            assert right.surface == session.surface


def test_a_watcher_is_told_every_event_in_its_order(tmp_path: Path) -> None:
    """With the surface before and after it."""
    log = Conversation().user("a").assistant("b").compaction("s").end()
    steps: list[tuple[int, int, int]] = []

    def watch(event: Event, before: Surface, after: Surface) -> None:
        if isinstance(event, SurfaceChange):
            steps.append((event.seq, len(before), len(after)))

    with read_session(log.write(tmp_path / "log"), watch=watch):
        pass
    seqs = [r["seq"] for r in log.records if "surfaceOp" in r]
    assert [(seqs[0], 0, 1), (seqs[1], 1, 2), (seqs[2], 2, 1)] == steps


# When the file changes under our hands ------------------------------------------------------------


def replace_it(path: Path) -> None:
    """Another file under the name."""
    path.with_suffix(".new").write_bytes(path.read_bytes())
    path.with_suffix(".new").rename(path)


def cut_it(path: Path) -> None:
    """Shorter than it was."""
    os.truncate(path, path.stat().st_size - 1)


def rewrite_it(path: Path) -> None:
    """As long as it was, and another story."""
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (replace_it, "another file"),
        (cut_it, "cut short"),
        (rewrite_it, "rewritten"),
        (Path.unlink, "gone"),
    ],
)
def test_a_log_that_is_no_more_what_was_read_is_lost(
    change: Callable[[Path], None], word: str, tmp_path: Path
) -> None:
    """Growth is none of that; replaced, cut, rewritten and gone are told apart."""
    log = Conversation().user("a")
    path = log.write(tmp_path / "log")
    with read_session(path) as session:
        assert None is session.lost()
        with path.open("ab") as file:
            file.write(b"".join(log.note("b").lines()[-1:]))
        assert None is session.lost()
        assert 1 == session.catch_up()
        assert None is session.lost()
        change(path)
        assert word in (session.lost() or "")


# Writing ------------------------------------------------------------------------------------------


@contextmanager
def locked_by_another(path: Path) -> Iterator[None]:
    """Another process holds the lock at `path`."""
    code = (
        f"import fcntl,sys;f=open({str(path)!r},'a');fcntl.flock(f,2);print(1,flush=True);input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        yield
        holder.stdin.close()


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_what_is_appended_stands_behind_what_was_there(
    version: int, framed: bool, tmp_path: Path
) -> None:
    """No byte before the end changes, the plain reader sees the messages, frames get a frame."""
    log = Conversation(format=version).system("p").user("a").assistant("b").end()
    path = log.write(tmp_path / "log", framed=framed)
    old = path.read_bytes()
    with open_session(path, clock=lambda: 7) as session:
        seqs = session.append([user("c"), user("d")])
        with read_session(path) as fresh:
            assert told(fresh) == told(session)
    assert (log.next_seq, log.next_seq + 1) == seqs
    assert old == path.read_bytes()[: len(old)]
    added = path.read_bytes()[len(old) :]
    assert framed == added.startswith(plain_reader.ZSTD_MAGIC)
    reading = plain_reader.read(path.read_bytes())
    assert (None, None) == (reading.broken, reading.refused)
    assert [*log.node_seqs, *seqs] == reading.node_seqs


@drawn
@given(conversations(max_verbs=12), st.lists(st.text(max_size=9), min_size=1, max_size=3))
def test_an_open_session_is_its_file(folder: Path, log: Conversation, said: list[str]) -> None:
    """After every append memory and a fresh reading agree."""
    path = log.write(folder / "open")
    with open_session(path, clock=lambda: 7) as session:
        for text in said:
            session.append([user(text)])
            with read_session(path) as fresh:
                assert told(fresh) == told(session)


WRONG_DRAFTS: dict[str, encode.Draft] = {
    "a range that is not there": encode.Draft(
        type="user/message", data=user().data, op=Replace(77, 78), sources=(77, 78)
    ),
    "no sources": encode.Draft(type="user/message", data=user().data, op=Replace(4, 4)),
    "an unknown operation": encode.Draft(type="user/message", data=user().data),
    "content that is a number": encode.Draft(type="user/message", data={"content": 5}, op=Append()),
    "a turn without a number": encode.Draft(type="turn/start", data={}),
}


@pytest.mark.parametrize("case", WRONG_DRAFTS)
def test_what_does_not_fold_is_not_written(case: str, tmp_path: Path) -> None:
    """One wrong record among right ones: none is written, and the session goes on."""
    path = Conversation().system("p").user("a").write(tmp_path / "log")
    with open_session(path) as session:
        before, data = told(session), path.read_bytes()
        with pytest.raises(NotAdmitted) as raised:
            session.append([user(), WRONG_DRAFTS[case]])
        assert 2 == raised.value.exit_code
        assert (before, data) == (told(session), path.read_bytes())
        session.append([user()])


def test_a_result_may_be_pruned_in_the_same_append(tmp_path: Path) -> None:
    """A draft may build on the drafts before it."""
    log = Conversation().user("a").assistant(calls=[call("c1")]).call("c1")
    with open_session(log.write(tmp_path / "log")) as session:
        seq = session.events
        result = encode.tool_result(1, 1, "c1", [Text(text="x" * 99)], "m", version=4)
        pruned = encode.pruned_result(result.line(seq, 0, 4), [Text(text="x")])
        session.append([result, encode.compaction_prune(seq, 29), pruned])
        assert 1 == session.replace_generation


def test_a_result_in_the_log_is_pruned_as_it_stands_there(tmp_path: Path) -> None:
    """The shorter one repeats everything but the content, or it is not written."""
    log = Conversation().user("a").assistant(calls=[call("c1")]).result("c1", "x" * 99)
    original = line(log.nodes[-1]).rstrip(b"\n")
    pruned = encode.pruned_result(original, [Text(text="x")])
    with open_session(log.write(tmp_path / "log")) as session:
        with pytest.raises(NotAdmitted):
            session.append([structs.replace(pruned, data={**pruned.data, "meta": 1})])
        session.append([encode.compaction_prune(log.node_seqs[-1], 29), pruned])
        assert 1 == session.replace_generation


def test_a_log_that_a_live_process_owns_is_not_opened(tmp_path: Path) -> None:
    """Under the harness's own lock beside the log; reading is always free."""
    path = Conversation().user("a").write(tmp_path / "session.v4.jsonl")
    data = path.read_bytes()
    with locked_by_another(tmp_path / "session.lock"):
        with pytest.raises(OwnedLog) as raised:
            open_session(path)
        assert 4 == raised.value.exit_code
        with read_session(path) as session:
            assert 1 == len(session.surface)
    assert data == path.read_bytes()
    with open_session(path):
        pass


def test_a_format_0_log_is_its_own_lock(tmp_path: Path) -> None:
    """Its harness knew no lock file, and none is made."""
    path = Conversation(format=0).user("a").write(tmp_path / "session.jsonl")
    with locked_by_another(path), pytest.raises(OwnedLog):
        open_session(path)
    with open_session(path) as session:
        session.append([user()])
    assert [path] == [*tmp_path.iterdir()]


def test_the_lock_is_held_until_the_session_is_closed(tmp_path: Path) -> None:
    """And given back then, also where the log turns out to be damaged."""
    path = Conversation().user("a").write(tmp_path / "session.v4.jsonl")
    with open_session(path), pytest.raises(OwnedLog):
        open_session(path)
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    with pytest.raises(DamagedLog):
        open_session(path)
    with (tmp_path / "session.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def special_fifo(path: Path) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(path)


def special_link(path: Path) -> None:
    """A link to a right log."""
    path.symlink_to(Conversation().user("a").write(path.parent / "target"))


@pytest.mark.parametrize("make", [special_fifo, special_link, Path.mkdir])
def test_nothing_is_written_to_what_is_no_regular_file(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    """Pipes, links and folders are refused at once, without waiting for anybody."""
    path = tmp_path / "log"
    make(path)
    with pytest.raises(LogError) as raised:
        open_session(path)
    assert 4 == raised.value.exit_code
    assert not (tmp_path / "session.lock").exists()


def test_standard_input_is_not_appended_to() -> None:
    """Whatever stands in it."""
    with pytest.raises(UnreadableLog):
        open_session("-")


def test_a_log_with_events_from_the_future_is_not_appended_to(tmp_path: Path) -> None:
    """Nobody can say what would follow safely; one that is marked ignorable does no harm."""
    path = tmp_path / "log"
    Conversation().user("a").event("new/one", {}).write(path)
    with pytest.raises(LogError, match="new/one"):
        open_session(path)
    Conversation().user("a").event("my/own", {}, ignorable=True).write(path)
    with open_session(path) as session:
        session.append([user()])


def test_a_torn_tail_is_cut_off_and_kept(tmp_path: Path) -> None:
    """What a crash left half done is put beside the log, and the next record starts a line."""
    log = Conversation().user("a")
    path = log.write(tmp_path / "log")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"user/mess')
    with open_session(path) as session:
        assert session.kept_aside is not None
        assert b'{"type":"user/mess' == Path(session.kept_aside).read_bytes()
        session.append([user()])
    assert whole == path.read_bytes()[: len(whole)]
    assert None is plain_reader.read(path.read_bytes()).broken


def test_another_writer_without_the_lock_is_noticed(tmp_path: Path) -> None:
    """Nothing is put behind what was never read."""
    log = Conversation().user("a")
    path = log.write(tmp_path / "log")
    with open_session(path) as session:
        with path.open("ab") as file:
            file.write(line(log.note("b").records[-1]))
        data = path.read_bytes()
        with pytest.raises(ForeignAppend):
            session.append([user()])
        assert data == path.read_bytes()
        assert 1 == session.catch_up()
        session.append([user()])


# New logs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_new_log_is_one_that_the_harness_opens(
    version: int, framed: bool, tmp_path: Path
) -> None:
    """With its header and its first records, readable for its owner alone."""
    path = tmp_path / "log"
    with create_session(
        path, session_id="s", version=version, cwd="/w", framed=framed, drafts=[user()]
    ) as session:
        assert isinstance(session, WritableSession)
        assert (version, framed, 1) == (session.format, session.framed, session.events)
        session.append([user("again")])
    assert 0o600 == path.stat().st_mode & 0o777
    reading = plain_reader.read(path.read_bytes())
    assert (None, None, 2) == (reading.broken, reading.refused, reading.events)
    assert ("s", "/w") == (reading.header["id"], reading.header["cwd"])


def test_a_new_log_takes_nothings_place(tmp_path: Path) -> None:
    """Where something of that name exists, it stays."""
    path = tmp_path / "log"
    path.write_text("mine")
    with pytest.raises(LogError, match="exists"):
        create_session(path)
    assert "mine" == path.read_text()


def test_a_new_log_with_a_wrong_record_is_not_begun(tmp_path: Path) -> None:
    """Not even its header is written."""
    with pytest.raises(NotAdmitted):
        create_session(tmp_path / "log", drafts=[WRONG_DRAFTS["content that is a number"]])
    assert [] == [*tmp_path.iterdir()]
