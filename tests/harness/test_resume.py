"""The harness that wrote a log goes on with it after we changed it, as its next request shows.

That a session opens proves little: the harness drops damaged records behind the last `turn/end`
without a word. So each test also asks that what was appended is still there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import plain_reader
import pytest
from harness.live_harness import LOG_NAMES, SYSTEM_PROMPT, LiveHarness, Place, RefusedError
from harness.make_logs import FRAMED_PATCH, LOGS, WORKSPACE
from harness.scripted_provider import Arrived, ScriptedProvider, serve
from running import dshc

pytestmark = [pytest.mark.harness, pytest.mark.timeout(900)]  # the first test may install the SDK

WALL_TOKENS = 6_000
FIRST_WORDS = "RUN: seq -f 'alpha %g' 1 700"  # the oldest message: any compaction folds it first
FOLDED = "alpha 699"  # stands in the first command's output and nowhere else
SLEEP_SECONDS = 60  # longer than the harness is left alive
CHECKPOINT = "<compacted-summary>"
SEQ_KEYS = {"seq", "sourceEventSeqs", "startSeq", "endSeq", "throughSeq", "messageSeqs"}
Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A session that a harness wrote and left, and the first request that it ever sent."""

    place: Place
    first: Arrived


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    """A provider with the wall up, which refuses to summarise."""
    with serve(ScriptedProvider(wall_tokens=WALL_TOKENS)) as scripted:
        yield scripted


@pytest.fixture(scope="module")
def stuck(harness_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Ready:
    """A session whose every request is refused as too long, and which cannot shrink itself."""
    return get_stuck(harness_python, tmp_path_factory.mktemp("stuck"))


@pytest.fixture(scope="module")
def killed(harness_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Ready:
    """A session whose process died while a command ran: an open turn and an unanswered call."""
    place = new_place(tmp_path_factory.mktemp("killed"), "killed")
    with (
        serve(ScriptedProvider()) as scripted,
        LiveHarness(harness_python, place, scripted) as harness,
    ):
        harness.start()
        assert "completed" == harness.prompt(FIRST_WORDS).finish
        assert "completed" == harness.prompt("RUN: seq 5 700").finish
        harness.begin_prompt(f"RUN: sleep {SLEEP_SECONDS}")
        wait_for_record(
            place, lambda record: record["type"] == "tool/call" and "sleep" in str(record)
        )
        harness.kill()
    return Ready(place=place, first=scripted.arrived[0])


# What the harness itself does: if these fail, the harness has changed, and not we


def test_the_stuck_session_stays_stuck(
    stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """Resumed as it was left, the session is refused again: the wall is real."""
    place = stuck.place.copy(tmp_path / "home")
    turn = resumed_turn(harness_python, place, provider)
    assert ("error", "refused") == (turn, provider.arrived[0].outcome)


def test_it_sends_a_checkpoint_written_by_hand(
    stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """A bracket that follows the format to the letter is what the harness goes on from."""
    place = stuck.place.copy(tmp_path / "home")
    old = place.log.read_bytes()
    place.log.write_bytes(old + lines(hand_made_bracket(plain_reader.read(old))))
    whole = place.log.read_bytes()
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert_goes_on_from_checkpoint(provider.last, stuck.first)
    assert place.log.read_bytes().startswith(whole)


def test_it_drops_a_damaged_tail_without_a_word(
    stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """A record of ours that is damaged behind the last turn is gone after a resume, silently."""
    place = stuck.place.copy(tmp_path / "home")
    old = place.log.read_bytes()
    bracket = hand_made_bracket(plain_reader.read(old))
    bracket[0]["colour"] = "blue"  # no such key in an event's envelope
    place.log.write_bytes(old + lines(bracket))
    assert "error" == resumed_turn(harness_python, place, provider)
    assert place.log.read_bytes().startswith(old)
    assert b"blue" not in place.log.read_bytes()


@pytest.mark.parametrize("log", sorted(LOGS.glob("v4-*.jsonl*")), ids=lambda path: path.name)
def test_it_opens_every_log_that_the_tests_stand_on(
    log: Path, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """The logs beside the tests, in their neutral words, are sessions that the harness resumes."""
    place = new_place(tmp_path, plain_reader.read(log.read_bytes()).header["id"])
    written = replace(place, workspace=WORKSPACE)  # the folder's name comes from the log's header
    framed = log.suffix == ".zstd"
    written.folder.mkdir(parents=True)
    stored = written.folder / LOG_NAMES[framed]
    stored.write_bytes(log.read_bytes())
    patch = tmp_path / "framed.patch.yml"
    patch.write_text(FRAMED_PATCH)
    patches = (patch,) if framed else ()
    with LiveHarness(harness_python, place, provider, patches=patches) as harness:
        harness.resume()  # and no turn: the directory that the session ran in is not there
    old, new = log.read_bytes(), stored.read_bytes()
    assert new.startswith(old)
    assert "session/end-seed" == plain_reader.read(new).records[-1]["type"]


# Compaction


def test_a_stuck_session_goes_on_after_compact(
    stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """One `dshc compact` with no flags, and the harness sends the checkpoint, and is answered."""
    place = stuck.place.copy(tmp_path / "home")
    old = place.log.read_bytes()
    report = report_of("compact", place.log)
    whole = place.log.read_bytes()
    assert (True, plain_reader.read(whole).generation) == (
        report["acted"],
        report["generation_after"],
    )
    assert whole.startswith(old)
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert place.log.read_bytes().startswith(whole)
    assert_goes_on_from_checkpoint(provider.last, stuck.first)


def test_a_framed_session_goes_on_after_compact(
    harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """A log of compressed frames gets frames that the harness reads."""
    patch = tmp_path / "framed.patch.yml"
    patch.write_text(FRAMED_PATCH)
    ready = get_stuck(harness_python, tmp_path, (patch,))
    assert "session.v4.jsonl.zstd" == ready.place.log.name
    report_of("compact", ready.place.log)
    whole = ready.place.log.read_bytes()
    turn = resumed_turn(harness_python, ready.place, provider, patches=(patch,))
    assert "completed" == turn
    assert ready.place.log.read_bytes().startswith(whole)
    assert_goes_on_from_checkpoint(provider.last, ready.first)


def test_a_second_compaction_is_resumed_too(
    stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """Compacted, resumed, compacted again: the second checkpoint takes the first one's place."""
    place = stuck.place.copy(tmp_path / "home")
    report_of("compact", place.log)
    assert "completed" == resumed_turn(harness_python, place, provider, "RUN: seq 1 1500")
    report = report_of("compact", place.log, "--force")
    assert report["acted"]
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert_goes_on_from_checkpoint(provider.last, stuck.first)
    assert 1 == provider.last.text.count(CHECKPOINT)


def test_a_session_killed_in_mid_turn_goes_on_after_compact(
    killed: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """The bracket belongs to the turn that the crash left open; the call stays, and is answered."""
    place = killed.place.copy(tmp_path / "home")
    report_of("compact", place.log, "--force", "--retain-tokens", "100")
    whole = place.log.read_bytes()
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert place.log.read_bytes().startswith(whole)
    assert_goes_on_from_checkpoint(provider.last, killed.first)


def test_a_living_harness_keeps_its_log(
    stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """While the harness lives, compact exits 4 and changes nothing; afterwards it works."""
    place = stuck.place.copy(tmp_path / "home")
    with LiveHarness(harness_python, place, provider) as harness:
        harness.resume()
        held = place.log.read_bytes()
        assert 4 == dshc("compact", place.log, "--json").code
        assert held == place.log.read_bytes()
    assert report_of("compact", place.log)["acted"]


def test_a_pruned_result_is_what_is_sent(
    killed: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """In a turn that a crash left open, head and tail of a long result stay, and a word between."""
    provider.wall_tokens = None
    place = killed.place.copy(tmp_path / "home")
    short = "prune_threshold_characters = 1000\nprune_head_characters = 400\n"
    (place.folder / "dshc.toml").write_text(short + "prune_tail_characters = 100\n")
    words = ("--force", "--retain-tokens", "1", "--backend", "prune-only")
    assert report_of("compact", place.log, *words)["acted"]
    whole = place.log.read_bytes()
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert place.log.read_bytes().startswith(whole)
    assert "characters of this tool result left out" in provider.last.text
    assert FOLDED in provider.last.text  # the tail
    assert "alpha 350\n" not in provider.last.text


def test_a_prune_that_a_crash_cut_off_is_passed_over(
    killed: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """A `compaction/prune` whose result never reached the disk changes nothing, before or after
    a compaction.
    """
    provider.wall_tokens = None
    place = killed.place.copy(tmp_path / "home")
    reading = plain_reader.read(place.log.read_bytes())
    node = next(node for node in reading.nodes if node.type == "tool/result")
    shadow = {"shadowedRange": {"start": node.seq, "end": node.seq}, "shadowedSeqs": [node.seq]}
    prune = event("compaction/prune", reading.events, {**shadow, "shadowedTokenCount": node.tokens})
    place.log.write_bytes(place.log.read_bytes() + lines([prune]))
    folded = place.copy(tmp_path / "folded")
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert FOLDED in provider.last.text
    report_of("compact", folded.log, "--force", "--retain-tokens", "100")
    whole = folded.log.read_bytes()
    assert "completed" == resumed_turn(harness_python, folded, provider)
    assert folded.log.read_bytes().startswith(whole)
    assert_goes_on_from_checkpoint(provider.last, killed.first)


def test_undo_gives_the_conversation_back(
    stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """The copy that `undo` writes is opened by the harness, and nothing in it is folded."""
    place = stuck.place.copy(tmp_path / "home")
    report_of("compact", place.log)
    assert "completed" == resumed_turn(harness_python, place, provider, "Remember this line.")
    copy = tmp_path / "undone.jsonl"
    report_of("undo", place.log, "-o", copy)
    place.log.write_bytes(copy.read_bytes())
    provider.wall_tokens = None
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert FOLDED in provider.last.text
    assert CHECKPOINT not in provider.last.text
    assert "Remember this line." in provider.last.text
    assert set() == provider.last.unanswered_calls


def test_a_rehearsed_copy_opens(
    stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """A rehearsal written into a copy is a session like any other: the harness goes on with it."""
    place = stuck.place.copy(tmp_path / "home")
    report = report_of("recover", place.log, "--in-place")
    whole = place.log.read_bytes()
    assert "retry" == report["decision"]
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert place.log.read_bytes().startswith(whole)
    assert_goes_on_from_checkpoint(provider.last, stuck.first)


@pytest.mark.parametrize("session", ["stuck", "killed"])
@pytest.mark.parametrize(
    "backend",
    ["lying", "crash", "prune-then-crash", "hang", "one-token", "stale", "flaky", "killer"],
)
def test_whatever_a_backend_did_in_a_rehearsal_the_session_opens(
    backend: str,
    session: str,
    request: pytest.FixtureRequest,
    harness_python: Path,
    provider: ScriptedProvider,
    tmp_path: Path,
) -> None:
    """A hostile backend rehearsed in place leaves a session that the harness goes on with."""
    provider.wall_tokens = None
    place = request.getfixturevalue(session).place.copy(tmp_path / "home")
    words = ("--in-place", "--backend", backend, "--timeout", "0.5", "--json")
    ran = dshc("recover", place.log, *words)
    assert (0 if ran.json["recovered"] else 3) == ran.code
    whole = place.log.read_bytes()
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert place.log.read_bytes().startswith(whole)
    assert set() == provider.last.unanswered_calls


def test_an_appended_message_is_sent(
    killed: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """What `append --user` adds reaches the model with the next request."""
    provider.wall_tokens = None
    place = killed.place.copy(tmp_path / "home")
    report_of("append", place.log, "--user", "A word from outside.")
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert "A word from outside." in provider.last.text
    assert set() == provider.last.unanswered_calls


# Damage and repair


def seq_repeated(records: list[Record]) -> list[Record]:
    """Two writers claimed one seq: the first message's event stands there twice."""
    place = first_user_message(records)
    return [*records[: place + 1], *records[place:]]


def seq_missing(records: list[Record]) -> list[Record]:
    """One record was lost: nothing else refers to it."""
    place = next(i for i, x in enumerate(records) if x["type"] == "agent/inbox/spliced")
    return records[:place] + records[place + 1 :]


def seq_used_again(records: list[Record]) -> list[Record]:
    """The resuming process took for its first event the seq that its end-seed already had."""
    return fallen_back(records, 1)


def seq_four_back(records: list[Record]) -> list[Record]:
    """The resuming process had not read the last four events."""
    return fallen_back(records, 4)


def fallen_back(records: list[Record], by: int) -> list[Record]:
    """Every event behind the newest resume counts `by` too low, and so do references to them."""
    seed = next(x["seq"] for x in reversed(records) if x["type"] == "session/end-seed")

    def moved(value: Any, key: str = "") -> Any:
        match value:
            case dict():
                return {name: moved(inner, name) for name, inner in value.items()}
            case list():
                return [moved(inner, key) for inner in value]
            case int() if key in SEQ_KEYS and value > seed:
                return value - by
        return value

    return [moved(record) for record in records]


@pytest.mark.parametrize("damage", [seq_repeated, seq_missing, seq_used_again, seq_four_back])
def test_a_log_that_the_harness_refuses_is_resumed_after_repair(
    damage: Any, stuck: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """The harness refuses the damaged log, and resumes it once `dshc repair` has mended it."""
    place = stuck.place.copy(tmp_path / "home")
    provider.wall_tokens = None
    assert "completed" == resumed_turn(harness_python, place, provider, "Remember this line.")
    place.log.write_bytes(lines(damage(plain_reader.read(place.log.read_bytes()).records)))
    with pytest.raises(RefusedError):
        resumed_turn(harness_python, place, provider)
    report_of("repair", place.log, "--in-place")
    repaired = place.log.read_bytes()
    assert "completed" == resumed_turn(harness_python, place, provider)
    assert place.log.read_bytes().startswith(repaired)
    assert FOLDED in provider.last.text
    assert "Remember this line." in provider.last.text


def test_repair_answers_a_dangling_call_as_the_harness_does(
    killed: Ready, harness_python: Path, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """For a turn that a crash left open, repair appends the very events that a resume appends."""
    provider.wall_tokens = None
    theirs, ours = killed.place.copy(tmp_path / "theirs"), killed.place.copy(tmp_path / "ours")
    old = theirs.log.read_bytes()
    with LiveHarness(harness_python, theirs, provider) as harness:
        harness.resume()
    report_of("repair", ours.log, "--in-place")
    by_harness, by_us = closers(old, theirs.log), closers(old, ours.log)
    assert 3 == len(by_harness)
    assert by_harness == by_us
    assert "completed" == resumed_turn(harness_python, ours, provider)


# Words of the tests


def new_place(root: Path, session_id: str) -> Place:
    """An empty home and workspace for one session."""
    place = Place(home=root / "home", workspace=root / "workspace", session_id=session_id)
    place.home.mkdir()
    place.workspace.mkdir()
    return place


def get_stuck(python: Path, root: Path, patches: tuple[Path, ...] = ()) -> Ready:
    """Take a new session to the wall, and once more against it."""
    place = new_place(root, "stuck")
    with (
        serve(ScriptedProvider(wall_tokens=WALL_TOKENS)) as scripted,
        LiveHarness(python, place, scripted, patches=patches) as harness,
    ):
        harness.start()
        assert "completed" == harness.prompt(FIRST_WORDS).finish
        assert "error" == harness.prompt("RUN: seq 1 2500 && seq 5 700").finish
        assert "error" == harness.prompt("Is anybody there?").finish
    assert "refused" in {request.outcome for request in scripted.arrived}
    return Ready(place=place, first=scripted.arrived[0])


def resumed_turn(
    python: Path,
    place: Place,
    provider: ScriptedProvider,
    text: str = "Please go on.",
    patches: tuple[Path, ...] = (),
) -> str | None:
    """Resume the session, take one turn, end the harness; how the turn ended."""
    with LiveHarness(python, place, provider, patches=patches) as harness:
        harness.resume()
        return harness.prompt(text).finish


def assert_goes_on_from_checkpoint(request: Arrived, first: Arrived) -> None:
    """The request holds the checkpoint and nothing that it folded; all else is as it ever was."""
    assert "answered" == request.outcome
    assert CHECKPOINT in request.text
    assert FOLDED not in request.text
    assert set() == request.unanswered_calls
    assert (SYSTEM_PROMPT, first.tools) == (request.system, request.tools)


def wait_for_record(place: Place, wanted: Any, patience_seconds: float = 30) -> None:
    """Until the log holds such a record."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        if place.folder.exists() and any(
            map(wanted, plain_reader.read(place.log.read_bytes()).records)
        ):
            return
        time.sleep(0.05)
    raise TimeoutError(f"{place.folder}: the record never came")


def report_of(*words: str | Path) -> Record:
    """The JSON of a command that succeeds."""
    ran = dshc(*words, "--json")
    assert 0 == ran.code, ran.err
    report: Record = ran.json
    return report


def lines(records: list[Record]) -> bytes:
    """Records as the harness writes them."""
    return b"".join(json.dumps(x, separators=(",", ":")).encode() + b"\n" for x in records)


def first_user_message(records: list[Record]) -> int:
    """The place of the first message that a human wrote."""
    return next(i for i, x in enumerate(records) if x["type"] == "user/message")


def closers(old: bytes, log: Path) -> list[Record]:
    """What was appended to close the open turn, without the model's reading matter."""
    assert log.read_bytes().startswith(old)
    appended = [json.loads(line) for line in log.read_bytes()[len(old) :].splitlines()]
    end = next(i for i, x in enumerate(appended) if x["type"] == "turn/end")
    for record in appended[: end + 1]:
        record["data"].get("message", {}).pop("content", None)
    return appended[: end + 1]


def event(kind: str, seq: int, data: Record, **more: Any) -> Record:
    """One event."""
    return {"type": kind, "seq": seq, "time": 1_796_000_000_000, "data": data, **more}


def hand_made_bracket(reading: plain_reader.Reading) -> list[Record]:
    """A compaction of all but the system prompt and the newest message, between turns."""
    gone = reading.node_seqs[1:-1]
    price = sum(node.tokens for node in reading.nodes[1:-1])
    seq, owner = reading.events, {"compactionId": "by-hand", "turn": None}
    summary = [{"type": "text", "text": "Numbers were listed, twice."}]
    frame = ["What came before, in short.\n\n<compacted-summary>", "</compacted-summary>"]
    content = [{"type": "text", "text": frame[0]}, *summary, {"type": "text", "text": frame[1]}]
    shadow = {
        "summary": summary,
        "shadowedRange": {"start": gone[0], "end": gone[-1]},
        "shadowedSeqs": gone,
        "shadowedTokenCount": price,
        "provider": "by-hand",
        "model": "none",
    }
    message = {
        "role": "user",
        "id": "checkpoint-by-hand",
        "source": {"kind": "compact-checkpoint", "compactionId": "by-hand"},
        "content": content,
    }
    operation = {"op": "replace", "startSeq": gone[0], "endSeq": gone[-1]}
    sources = [seq, seq + 1, *gone]
    return [
        event("compaction/start", seq, owner),
        event("compaction/summary", seq + 1, {"compactionId": "by-hand", **shadow}),
        event("user/message", seq + 2, message, surfaceOp=operation, sourceEventSeqs=sources),
        event("compaction/end", seq + 3, owner),
    ]
