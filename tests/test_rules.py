"""Records that refer to others: what must have been there, and what may not be there twice.

Turns, steps, calls and compactions have their cases in `damaged`; here is what is rare.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import Conversation
from damaged import talk

from dsh_compact.errors import Damage
from dsh_compact.verify import verify

Event = tuple[str, dict[str, Any]]
DELIVERED = "session-log-deepseek/delivery-accepted"


def codes(tmp_path: Path, log: Conversation) -> list[Damage]:
    """What is wrong with a log."""
    return [finding.code for finding in verify(log.write(tmp_path / "log")).findings]


def with_events(log: Conversation, *events: Event) -> Conversation:
    """The log with these behind it."""
    for kind, data in events:
        log.event(kind, data)
    return log


def retry(number: int = 1, **changes: Any) -> Event:
    """A retry is announced, in turn 1 and step 1."""
    data = {
        "retryId": "r", "turn": 1, "step": 1, "provider": "deepseek-official", "mode": "normal",
        "policyKey": "k", "retry": number, "maxRetries": 3, "delayMs": 1, "failure": {},
    }  # fmt: skip
    return "llm/retry", {**data, **changes}


def retried(number: int = 1, **changes: Any) -> Event:
    """The retry begins."""
    data = {"retryId": "r", "turn": 1, "step": 1, "retry": number}
    return "llm/retry-started", {**data, **changes}


RETRIES: list[tuple[list[Event], list[Damage]]] = [
    ([retry(), retried()], []),
    ([retry(), retried(), retry(2), retried(2)], []),
    ([retried()], [Damage.PAIR_BROKEN]),
    ([retry(), retried(), retried()], [Damage.PAIR_BROKEN]),
    ([retry(2)], [Damage.PAIR_BROKEN]),
    ([retry(), retry(1)], [Damage.PAIR_BROKEN]),
    ([retry(), retry(2, retryId="other")], [Damage.PAIR_BROKEN]),
    ([retry(provider="another")], [Damage.PAIR_BROKEN]),
    ([retry(step=2)], [Damage.OUTSIDE_STEP]),
    ([retry(), retried(step=2)], [Damage.PAIR_BROKEN]),
]


@pytest.mark.parametrize(("events", "expected"), RETRIES)
def test_retries_count_and_begin_once(
    tmp_path: Path, events: list[Event], expected: list[Damage]
) -> None:
    """A retry follows the one before of its policy, and what begins was announced."""
    log = Conversation().user("go").failure(code="OVERLOADED", message="later")
    assert expected == codes(tmp_path, with_events(log, *events))


def dispatch(call_id: str, *, start: bool, **changes: Any) -> Event:
    """A call inside a call."""
    data = {"subCallId": call_id, "rootCallId": "root", "parentCallId": "root", "name": "n",
            "arguments": "{}"}  # fmt: skip
    return f"tool/ptc-dispatch{'-start' if start else ''}", {**data, **changes}


DISPATCHES: list[tuple[list[Event], list[Damage]]] = [
    ([dispatch("a", start=True), dispatch("a", start=False)], []),
    ([dispatch("a", start=True), dispatch("b", start=True, parentCallId="a")], []),
    ([dispatch("a", start=False)], [Damage.PAIR_BROKEN]),
    ([dispatch("a", start=True), dispatch("a", start=True)], [Damage.PAIR_BROKEN]),
    ([dispatch("a", start=True), dispatch("a", start=False, name="x")], [Damage.PAIR_BROKEN]),
    ([dispatch("b", start=True, parentCallId="nobody")], [Damage.PAIR_BROKEN]),
]


@pytest.mark.parametrize(("events", "expected"), DISPATCHES)
def test_inner_calls_are_settled_as_they_began(
    tmp_path: Path, events: list[Event], expected: list[Damage]
) -> None:
    """An inner call has one start, a known parent, and ends with the same name and arguments."""
    assert expected == codes(tmp_path, with_events(Conversation().user("go"), *events))


COMMANDS: list[tuple[list[Event], list[Damage]]] = [
    ([("command/run", {"commandId": "c", "name": "n", "source": {}}),
      ("command/done", {"commandId": "c", "kind": "success", "sourceEventSeq": 2})], []),
    ([("command/run", {"commandId": "c", "name": "n", "source": {}})] * 2, [Damage.PAIR_BROKEN]),
    ([("command/run", {"commandId": "c", "name": "n", "source": {}}),
      ("command/done", {"commandId": "c", "kind": "success", "sourceEventSeq": 16})],
     [Damage.PAIR_BROKEN]),
]  # fmt: skip


@pytest.mark.parametrize(("events", "expected"), COMMANDS)
def test_commands_are_run_before_they_are_done(
    tmp_path: Path, events: list[Event], expected: list[Damage]
) -> None:
    """Once, and what they come from is an event that was there and no command."""
    assert expected == codes(tmp_path, with_events(talk(), *events))


def spliced(start: int, removed: int, *ids: str, target: str = "next-turn") -> Event:
    """The list of waiting messages changes."""
    inserted = [{"id": name, "source": {"kind": "user"}} for name in ids]
    data = {"target": target, "start": start, "removedCount": removed, "inserted": inserted}
    return "agent/inbox/spliced", data


INBOXES: list[tuple[list[Event], list[Damage]]] = [
    ([spliced(0, 0, "a", "b"), spliced(1, 1, "c"), spliced(0, 2)], []),
    ([spliced(0, 0, "a"), spliced(0, 0, "b", target="next-step")], []),
    ([spliced(1, 0, "a")], [Damage.INBOX_WRONG]),
    ([spliced(0, 0, "a"), spliced(0, 2)], [Damage.INBOX_WRONG]),
    ([spliced(0, 0, "a"), spliced(1, 0, "a")], [Damage.INBOX_WRONG]),
    ([spliced(0, 0, "a"), spliced(0, 0, "a", target="next-step")], [Damage.INBOX_WRONG]),
]


@pytest.mark.parametrize(("events", "expected"), INBOXES)
def test_waiting_messages_come_and_go_once(
    tmp_path: Path, events: list[Event], expected: list[Damage]
) -> None:
    """What leaves the list was in it, and nothing waits twice."""
    assert expected == codes(tmp_path, with_events(talk(), *events))


def child() -> Conversation:
    """A session that inherited events of its parent."""
    log = Conversation(session_id="child", parentSession="parent", isSeeded=True)
    theirs = {"sessionId": "parent", "sessionFormatVersion": 4, "throughSeq": 0}
    log.note("from the parent")
    return log.event(DELIVERED, theirs)


def test_inherited_deliveries_are_the_parent_s(tmp_path: Path) -> None:
    """Before the marker they may name the parent, behind it only the session itself."""
    inherited = child().event("session/end-seed", {"inherited": True})
    assert [] == codes(tmp_path, inherited)
    theirs = {"sessionId": "parent", "sessionFormatVersion": 4, "throughSeq": 0}
    assert [Damage.DELIVERY_WRONG] == codes(tmp_path, inherited.event(DELIVERED, theirs))


def test_a_seeded_session_says_where_its_seed_ends(tmp_path: Path) -> None:
    """Without the marker nobody knows what is its own."""
    assert Damage.SEED_WRONG in codes(tmp_path, child())


def test_a_command_s_compaction_belongs_to_it(tmp_path: Path) -> None:
    """All events of a bracket name the command that asked for it."""
    log = talk().compaction("One file.")
    for record in log.records:
        if record["type"] in ("compaction/start", "compaction/summary"):
            record["data"]["sourceCommandId"] = "c"
    found = codes(tmp_path, log)
    assert [Damage.BRACKET_ID_WRONG] * 2 == found


def test_the_result_of_a_call_that_never_began_is_the_harness_s_own(tmp_path: Path) -> None:
    """Only the exact words close it; any other result answers a call that was not started."""
    from builders import call

    log = Conversation().user("go").assistant(calls=[call("c1")])
    message: dict[str, Any] = {
        "id": f"interrupted-tool-result-c1-{log.next_seq}", "role": "tool", "toolCallId": "c1",
        "isError": True, "source": {"kind": "tool", "callId": "c1"},
        "content": [{"type": "text", "text": "The tool call was interrupted before the Harness"
                     " recorded it as started. Retry it if it is still needed."}],
    }  # fmt: skip
    data = {"turn": 1, "step": 1, "message": message,
            "error": {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}}  # fmt: skip
    log.event("tool/result", data, surfaceOp="append")
    assert [] == codes(tmp_path, log)
    message["content"][0]["text"] = "It was not started."
    assert [Damage.RESULT_WITHOUT_CALL] == codes(tmp_path, log)
