"""Earlier points of a session: the fold goes that far and no further."""

from __future__ import annotations

from pathlib import Path

import plain_reader
import pytest
from builders import Conversation
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import conversations

from dsh_compact.errors import UsageError
from dsh_compact.moments import (
    differences,
    read_at_generation,
    read_at_seq,
    read_generations,
)
from dsh_compact.session import read_session


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all drawn logs."""
    return tmp_path_factory.mktemp("drawn")


@settings(max_examples=50)
@given(conversations(formats=(3, 4)), st.data())
def test_a_point_is_a_log_that_ends_there(
    folder: Path, log: Conversation, data: st.DataObject
) -> None:
    """After any event, the session is what a log cut behind it would be."""
    if not log.next_seq:
        return
    seq = data.draw(st.integers(0, log.last_seq))
    path = log.write(folder / "log")
    with read_at_seq(path, seq) as session:
        found = session.surface, session.pressure()
    cut = folder / "cut"
    cut.write_bytes(b"".join(log.lines()[: seq + 2]))
    with read_session(cut) as whole:
        assert (whole.surface, whole.pressure()) == found


@settings(max_examples=50)
@given(conversations(), st.data())
def test_a_generation_is_the_log_up_to_the_next_replacement(
    folder: Path, log: Conversation, data: st.DataObject
) -> None:
    """The newest is the session as it is now."""
    path = log.write(folder / "log")
    replacing = [r["seq"] for r in log.records if isinstance(r.get("surfaceOp"), dict)]
    generation = data.draw(st.integers(0, len(replacing)))
    with read_at_generation(path, generation) as session:
        found = session.surface
    assert generation == found.replace_generation
    lines = log.lines()
    if generation < len(replacing):
        end = next(i for i, r in enumerate(log.records) if r.get("seq") == replacing[generation])
        lines = lines[:end]
    assert plain_reader.read(b"".join(lines)).node_seqs == [*found.seqs]


@settings(max_examples=50)
@given(conversations(), st.data())
def test_what_left_and_what_came_is_all_that_differs(
    folder: Path, log: Conversation, data: st.DataObject
) -> None:
    """Kept and gone are the old surface in order, kept and new the other, whichever is older."""
    path = log.write(folder / "log")
    most = sum(isinstance(r.get("surfaceOp"), dict) for r in log.records)
    first, second = (data.draw(st.integers(0, most)) for _ in range(2))
    session, old, new = read_generations(path, first, second)
    with session:
        rows = list(differences(old, new))
    assert (first, second) == (old.replace_generation, new.replace_generation)
    assert [*old.seqs] == [row.node.seq for row in rows if row.mark != "new"]
    assert [*new.seqs] == [row.node.seq for row in rows if row.mark != "gone"]
    assert {*old.seqs} & {*new.seqs} == {row.node.seq for row in rows if row.mark == "kept"}


def test_what_never_was_is_a_usage_error(tmp_path: Path) -> None:
    """An event or a generation that the log has not come to, with the last one that it has."""
    log = Conversation().user("a").compaction("s")
    path = log.write(tmp_path / "log")
    with pytest.raises(UsageError, match=f"the last one is {log.last_seq}"):
        read_at_seq(path, log.last_seq + 1)
    with pytest.raises(UsageError, match="the newest is 1"):
        read_at_generation(path, 2)
    read_at_seq(path, log.last_seq).close()
    read_at_generation(path, 1).close()


def test_damage_behind_the_point_does_not_matter(tmp_path: Path) -> None:
    """The past of a damaged log can be looked at."""
    log = Conversation().user("a").compaction("s").note("b").compaction("t")
    path = log.write(tmp_path / "log")
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    for generation in (0, 1):
        with read_at_generation(path, generation) as session:
            assert generation == session.replace_generation


def test_a_log_without_events_has_no_last_one(tmp_path: Path) -> None:
    """The error names no event where there is none."""
    path = Conversation().write(tmp_path / "log")
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(UsageError, match="there is no event 0; there is none at all"):
        read_at_seq(path, 0)
