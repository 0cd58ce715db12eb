"""What an earlier process left open is closed as the harness closes it, in every format."""

import json
from pathlib import Path
from typing import Any, Final

import plain_reader
import pytest
from builders import Conversation, call
from running import LOGS

from dsh_compact.codec.encode import NOT_STARTED
from dsh_compact.interruption import closers, unanswered
from dsh_compact.session import open_session
from dsh_compact.verify import verify

FORMATS: Final = pytest.mark.parametrize("version", [0, 3, 4])


def begun(version: int) -> Conversation:
    """A session with one step behind it, in an open turn."""
    return (
        Conversation(format=version)
        .system("You help.")
        .user("Run both.")
        .assistant("Yes.", calls=[call("c0")])
        .result("c0", "done")
    )


def closed(log: Conversation, folder: Path) -> tuple[list[str], Path]:
    """The types of the records that close it, and the log with them."""
    path = log.write(folder / "session.jsonl")
    with open_session(path) as session:
        drafts = closers(session)
        if drafts:
            session.append(drafts)
    return [draft.type for draft in drafts], path


@FORMATS
@pytest.mark.parametrize(
    ("left", "wanted"),
    [
        ("nothing", []),
        ("a turn", ["turn/end", "session/end-seed"]),
        ("a step", ["step/end", "turn/end", "session/end-seed"]),
        ("calls", ["tool/result"] * 2 + ["step/end", "turn/end", "session/end-seed"]),
        ("a bracket", ["session/end-seed"]),
        ("a bracket in a turn", ["step/end", "turn/end", "session/end-seed"]),
        ("a stale bracket", []),
    ],
)
def test_what_is_open_is_closed(version: int, left: str, wanted: list[str], tmp_path: Path) -> None:
    """Exactly that, in the harness's order; nobody could object to the log afterwards."""
    log = begun(version)
    match left:
        case "nothing":
            log.assistant("Done.").end()
        case "a turn":
            log.event("step/end", {"turn": log.turn, "step": log.step})
        case "calls":
            log.assistant("Both.", calls=[call("c1"), call("c2")]).call("c1")
        case "a bracket":
            log.assistant("Done.").end().open_bracket()
        case "a bracket in a turn":
            log.open_bracket()
        case "a stale bracket":
            log.assistant("Done.").end().open_bracket().end_seed()
    found, path = closed(log, tmp_path)
    assert wanted == found
    assert () == verify(path).findings
    assert None is plain_reader.read(path.read_bytes()).broken


def events_of(path: Path) -> list[Any]:
    """The log's records."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_it_is_what_the_harness_wrote(tmp_path: Path) -> None:
    """On a real log that its harness resumed after a kill: the same records as it appended, but for
    the free words of an unknown outcome.
    """
    records = events_of(LOGS / "v4-interrupted.jsonl")
    compared = []
    for end in (i for i, r in enumerate(records) if r["type"] == "session/end-seed"):
        last = max(i for i, r in enumerate(records[:end]) if not _is_closer(r))
        theirs = records[last + 1 : end + 1]
        if len(theirs) == 1:  # nothing was open: a resume only says that it is one
            continue
        cut = tmp_path / f"{end}.jsonl"
        cut.write_bytes(b"".join(json.dumps(r).encode() + b"\n" for r in records[: last + 1]))
        with open_session(cut) as session:
            session.append(closers(session))
        assert [_essence(r) for r in theirs] == [_essence(r) for r in events_of(cut)[last + 1 :]]
        compared.append(len(theirs))
    assert [5, 3] == compared


def _is_closer(record: Any) -> bool:
    if record["type"] == "turn/end":
        return bool(record["data"]["reason"]["kind"] == "interrupted")
    if record["type"] == "tool/result":
        return str(record["data"]["message"]["id"]).startswith("interrupted-")
    return record["type"] in ("step/end", "session/end-seed")


def _essence(record: Any) -> Any:
    """A record without its time, and without what the harness leaves free."""
    essence = {key: value for key, value in record.items() if key != "time"}
    data = json.loads(json.dumps(record["data"]))
    if record["type"] == "tool/result" and data["error"]["code"] == "TOOL_OUTCOME_UNKNOWN":
        data["message"]["content"] = "free"
    return {**essence, "data": data}


def test_a_call_that_never_began_is_answered_to_the_letter(tmp_path: Path) -> None:
    """The harness checks these words, and that there is no source."""
    log = begun(4).assistant("One.", calls=[call("c9")])
    _, path = closed(log, tmp_path)
    result = next(r for r in events_of(path) if r["type"] == "tool/result" and "error" in r["data"])
    assert NOT_STARTED == result["data"]["message"]["content"][0]["text"]
    assert f"interrupted-tool-result-c9-{result['seq']}" == result["data"]["message"]["id"]
    assert "sourceEventSeqs" not in result


def test_only_the_newest_answers_calls_wait(tmp_path: Path) -> None:
    """An older call without a result is history: nobody awaits it any more."""
    path = begun(4).assistant("More.", calls=[call("c1")]).write(tmp_path / "session.jsonl")
    with open_session(path) as session:
        assert ["c1"] == [one.id for one in unanswered(session)]
