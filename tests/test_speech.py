"""What is said stands where the harness wants it, wherever the session stands."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import plain_reader
import pytest
from builders import Conversation, call
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import conversations

from dsh_compact.errors import UsageError
from dsh_compact.events import CompactionStart
from dsh_compact.session import create_session, open_session
from dsh_compact.speech import Said, Speaker, drafts_of
from dsh_compact.turns import Turns
from dsh_compact.verify import verify

SPEAKER = Speaker(provider="p", model="m")
Role = Literal["user", "assistant"]


def says(*roles: Role) -> list[Said]:
    """So many messages, by their roles."""
    return [Said(role=role, text=f"{role} {number}") for number, role in enumerate(roles)]


def types(said: list[Said], turns: Turns | None = None, system: str | None = None) -> str:
    """The types of the records that say it, in short."""
    drafts = drafts_of(
        said, turns or Turns(), version=4, speaker=SPEAKER, new_id=lambda: "id", system=system
    )
    return " ".join(draft.type.replace("/message", "").replace("/", ".") for draft in drafts)


def test_a_users_message_needs_nothing_around_it() -> None:
    """It may stand anywhere."""
    assert "user user" == types(says("user", "user"))


def test_an_answer_gets_a_turn_and_what_was_said_before_it() -> None:
    """The order of what was said is kept."""
    assert "turn.start step.start user assistant step.end turn.end user" == types(
        says("user", "assistant", "user")
    )
    assert "turn.start step.start assistant step.end turn.end" == types(says("assistant"))


def test_a_second_answer_is_a_second_step() -> None:
    """A step is one request and its answer."""
    two = "turn.start step.start assistant step.end step.start assistant step.end turn.end"
    assert two == types(says("assistant", "assistant"))


def test_turns_count_on() -> None:
    """From the session's last one."""
    drafts = drafts_of(
        says("assistant", "user", "assistant"),
        Turns(last_turn=6),
        version=4,
        speaker=SPEAKER,
        new_id=lambda: "id",
    )
    assert [7, 8] == [draft.data["turn"] for draft in drafts if draft.type == "turn/start"]


def test_a_foreign_turn_is_used_and_left_open() -> None:
    """Its harness closes it on resume; the step that is open ends before ours."""
    turns = Turns(turn=2, step=3, last_turn=2, last_step=3)
    assert "step.end step.start user assistant step.end user" == types(
        says("user", "assistant", "user"), turns
    )


def test_a_conversation_begins_with_a_system_message() -> None:
    """In the first answer's step, or in a turn of its own; an empty prompt says nothing."""
    assert "turn.start step.start system step.end turn.end user" == types(
        says("user"), system="be brief"
    )
    assert "turn.start step.start system user assistant step.end turn.end" == types(
        says("user", "assistant"), system=""
    )
    assert 1 == types(says("assistant", "assistant"), system="").split().count("system")


def test_an_open_bracket_is_made_stale_before_a_turn_begins() -> None:
    """Whoever held it is gone: we have the lock."""
    log = Conversation().user("a").end().open_bracket()
    start = log.record(log.last_seq)
    bracket = CompactionStart(
        seq=start["seq"], time_ms=1, compaction_id=start["data"]["compactionId"], turn=None
    )
    assert types(says("assistant"), Turns(bracket=bracket)).startswith("session.end-seed turn")
    stale = Turns(bracket=bracket, bracket_is_stale=True)
    assert types(says("assistant"), stale).startswith("turn.start")
    assert "user" == types(says("user"), Turns(bracket=bracket))


def test_an_answer_does_not_follow_a_call_that_waits() -> None:
    """The result comes first; a user's message may be left meanwhile."""
    turns = Turns(turn=1, step=1, last_turn=1, last_step=1)
    assert drafts_of(
        says("user"),
        turns,
        version=4,
        speaker=SPEAKER,
        new_id=lambda: "id",
        waiting=["c1"],
        system="",
    )
    with pytest.raises(UsageError, match="c1"):
        drafts_of(
            says("assistant"),
            turns,
            version=4,
            speaker=SPEAKER,
            new_id=lambda: "id",
            waiting=["c1"],
        )
    assert "user" == types(says("user"), turns)


roles = st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=6)


@settings(max_examples=40)
@given(conversations(max_verbs=15, prompted=True), roles)
def test_whatever_is_said_leaves_a_log_that_the_harness_opens(
    tmp_path_factory: pytest.TempPathFactory, log: Conversation, roles: list[Role]
) -> None:
    """After any log that breaks no rule, in every format."""
    if any(not promised["answered"] for promised in log.calls.values()) and log.step is not None:
        return
    path = log.write(tmp_path_factory.mktemp("drawn") / "log")
    with open_session(path, clock=lambda: 7) as session:
        drafts = drafts_of(
            says(*roles),
            session.turns,
            version=log.format,
            speaker=SPEAKER,
            new_id=lambda: "id",
        )
        session.append(drafts)
    reading = plain_reader.read(path.read_bytes())
    assert (None, None) == (reading.broken, reading.refused)
    assert len(log.nodes) + len(roles) == len(reading.nodes)


@pytest.mark.parametrize("version", [0, 3, 4])
@given(roles)
@settings(max_examples=15)
def test_a_new_conversation_is_sound(
    tmp_path_factory: pytest.TempPathFactory, version: int, roles: list[Role]
) -> None:
    """From its first record on, by verify's word and the plain reader's."""
    path: Path = tmp_path_factory.mktemp("new") / "log"
    drafts = drafts_of(
        says(*roles),
        Turns(),
        version=version,
        speaker=SPEAKER,
        new_id=lambda: "id",
        system=None if version == 0 else "",
    )
    create_session(path, version=version, drafts=drafts).close()
    reading = plain_reader.read(path.read_bytes())
    assert (None, None) == (reading.broken, reading.refused)
    assert () == verify(path).findings


def test_a_killed_session_is_spoken_to(tmp_path: Path) -> None:
    """A user's message behind a call that nobody will answer any more."""
    log = Conversation().system("p").user("a").assistant(calls=[call("c1")]).call("c1")
    path = log.write(tmp_path / "log")
    with open_session(path) as session:
        session.append(
            drafts_of(says("user"), session.turns, version=4, speaker=SPEAKER, new_id=lambda: "id")
        )
    reading = plain_reader.read(path.read_bytes())
    assert (None, None) == (reading.broken, reading.refused)
