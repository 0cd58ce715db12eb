"""An agent's conversation: every order of verbs is refused, or gives a log that opens."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import plain_reader
import pytest
from builders import Conversation as BuiltLog
from builders import call as built_call
from footprints import footprints
from hypothesis import given, settings
from hypothesis import strategies as st
from privilege import locked_out

from dsh_compact import read_session
from dsh_compact.backends.hostile.lying import Lying
from dsh_compact.codec import encode
from dsh_compact.conversation import Conversation, open_conversation
from dsh_compact.errors import LogError, OwnedLog, UnreadableLog, UsageError
from dsh_compact.events import Failure, ToolCall, Usage
from dsh_compact.policy import Policy
from dsh_compact.recovery import Preserve, Retry
from dsh_compact.replies import Reply
from dsh_compact.verify import verify

BASH: Final = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}
LS: Final = ToolCall(id="c1", name="bash", arguments='{"command":"ls"}')
TOO_LONG: Final = Failure(
    message="This model's maximum context length is 3000 tokens. However, your messages resulted in"
    " 3500 tokens.",
    status=400,
)


def begun(path: Path, **setup: Any) -> Conversation:
    """A conversation as an agent opens it."""
    usual: dict[str, Any] = {"provider": "openai", "model": "gpt-5", "system": "You help."}
    return open_conversation(path, **{**usual, **setup})


def one_turn(talk: Conversation, words: str, result: str = "a.txt") -> None:
    """The user asks, a tool runs, the model answers."""
    talk.user(words)
    talk.begin_step()
    talk.answer(Reply(text="Looking.", calls=(LS,)))
    talk.begin_call("c1")
    talk.tool_result("c1", result)
    talk.begin_step()
    talk.answer("Done.")
    talk.end_turn()


def records(path: Path) -> list[dict[str, Any]]:
    """Everything in the log, read by nobody of ours."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def problems(path: Path) -> list[str]:
    """What is wrong with the log, by our own judge and by the plain reader."""
    reading = plain_reader.read(path.read_bytes())
    found = [str(one.code) for one in verify(str(path)).findings if one.severity == "damage"]
    return [*found, *[str(one) for one in (reading.broken, reading.refused) if one is not None]]


def test_a_turn_is_written_as_the_harness_writes_it(tmp_path: Path) -> None:
    """Turn, step, prompt, header, calls and results stand in the harness's order."""
    path = tmp_path / "session.jsonl"
    with begun(path, tools=[BASH], window_tokens=8000) as talk:
        one_turn(talk, "What is here?")
    kinds = [record["type"] for record in records(path)]
    assert [
        "session",
        "turn/start",
        "request/header",
        "request/context",
        "step/start",
        "system/message",
        "step/end",
        "user/message",
        "step/start",
        "assistant/message",
        "tool/call",
        "tool/result",
        "step/end",
        "step/start",
        "assistant/message",
        "step/end",
        "turn/end",
    ] == kinds
    assert [] == problems(path)


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_log_of_any_format_is_gone_on_with(version: int, tmp_path: Path) -> None:
    """A harness's log, of whatever format, stays a sound one."""
    path = tmp_path / "session.jsonl"
    log = BuiltLog(format=version, window=8000).system("You help.").user("hello")
    log.assistant("Good day.").end().write(path)
    with begun(path, tools=[BASH]) as talk:
        one_turn(talk, "What is here?")
        one_turn(talk, "And now?")
    assert [] == problems(path)


def test_the_request_is_what_stands_on_disk(tmp_path: Path) -> None:
    """The body for the next request holds prompt, messages and tools, pairs whole."""
    with begun(tmp_path / "session.jsonl", tools=[BASH]) as talk:
        one_turn(talk, "What is here?")
        talk.user("And now?")
        talk.begin_step()
        body = talk.openai_request()
        other = talk.anthropic_request()
    roles = [message["role"] for message in body["messages"]]
    assert ["system", "user", "assistant", "tool", "assistant", "user"] == roles
    assert ("gpt-5", [BASH]) == (body["model"], body["tools"])
    assert [{"type": "text", "text": "You help."}] == other["system"]
    assert "And now?" == other["messages"][-1]["content"][0]["text"]


def test_before_a_step_room_is_made(tmp_path: Path) -> None:
    """At the threshold the head is folded between two steps, and the user's last word is kept."""
    path = tmp_path / "session.jsonl"
    with begun(path, window_tokens=3000) as talk:
        for number in range(5):
            one_turn(talk, f"Ask {number}.", "x y z " * 450)
            assert talk.session.pressure().total_tokens < 3000
        texts = [message.text for message in talk.messages()]
    kinds = [record["type"] for record in records(path)]
    first = kinds.index("compaction/start")
    assert ("step/end", "step/start") == (kinds[first - 1], kinds[first + 4])
    assert "Ask 0." not in texts
    assert "Ask 4." in texts
    assert [] == problems(path)


def test_a_refused_request_is_sent_again_after_a_real_shrink(tmp_path: Path) -> None:
    """The refusal is written down, the head folded inside the step, and there it is answered."""
    path = tmp_path / "session.jsonl"
    with begun(path) as talk:
        for number in range(3):
            one_turn(talk, f"Ask {number}.", "x y z " * 400)
        talk.user("And now?")
        talk.begin_step()
        before = talk.openai_request()
        assert isinstance(talk.recover(TOO_LONG), Retry)
        after = talk.openai_request()
        assert isinstance(talk.recover(TOO_LONG), Preserve)  # one retry, until somebody answers
        talk.answer("Fine.")
        talk.begin_step()
        assert 0 == talk._overflow.retries
        talk.answer("Finer.")
        talk.end_turn()
    assert len(str(after)) < len(str(before))
    attempts = [record for record in records(path) if record["type"] == "assistant/attempt"]
    failure = attempts[0]["data"]["stream"][-1]["chunk"]["reason"]["failure"]
    assert ("CONTEXT_WINDOW_EXCEEDED", 400) == (failure["code"], failure["status"])
    assert [] == problems(path)


def test_a_backend_that_only_says_so_earns_no_retry(tmp_path: Path) -> None:
    """The original failure is reported as it came, and the turn ends with it."""
    path = tmp_path / "session.jsonl"
    with begun(path, backend=Lying()) as talk:
        one_turn(talk, "What is here?")
        talk.user("And now?")
        talk.begin_step()
        decision = talk.recover(TOO_LONG)
        assert isinstance(decision, Preserve)
        assert TOO_LONG is decision.failure
        talk.end_turn("error", RuntimeError(TOO_LONG.message))
    reason = records(path)[-1]["data"]["reason"]
    assert ("error", "CONTEXT_WINDOW_EXCEEDED") == (reason["kind"], reason["error"]["code"])
    assert [] == problems(path)


def test_an_error_that_is_no_overflow_changes_nothing(tmp_path: Path) -> None:
    """A rate limit passes through; nothing is folded."""
    with begun(tmp_path / "session.jsonl") as talk:
        one_turn(talk, "What is here?", "x y z " * 400)
        talk.user("And now?")
        talk.begin_step()
        decision = talk.recover(ConnectionError("429 Too Many Requests"))
        assert isinstance(decision, Preserve)
        assert decision.attempt is None
        assert 0 == talk.session.replace_generation


def test_a_log_that_takes_no_proof_earns_no_retry(tmp_path: Path) -> None:
    """Where the refusal cannot be written down the original failure stands; nothing is raised."""
    path = tmp_path / "session.jsonl"
    with begun(path) as talk:
        one_turn(talk, "What is here?", "x y z " * 400)
        talk.user("And now?")
        talk.begin_step()
        with path.open("ab") as file:
            file.write(b'{"type":"turn/end"}\n')  # somebody scribbles past the lock
        size = path.stat().st_size
        decision = talk.recover(TOO_LONG)
    assert isinstance(decision, Preserve)
    assert "the log takes no proof" in decision.reason
    assert size == path.stat().st_size


def test_what_a_killed_process_left_open_is_closed(tmp_path: Path) -> None:
    """A call that was begun is told as of unknown outcome, one that was not as never started."""
    path = tmp_path / "session.jsonl"
    other = ToolCall(id="c2", name="bash", arguments="{}")
    with begun(path) as talk:
        talk.user("What is here?")
        talk.begin_step()
        talk.answer(Reply(calls=(LS, other)))
        talk.begin_call("c1")
    with begun(path) as talk:
        talk.user("Go on.")
        talk.begin_step()
        talk.answer("I do.")
        talk.end_turn()
    results = [record for record in records(path) if record["type"] == "tool/result"]
    codes = [record["data"]["error"]["code"] for record in results]
    assert ["TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"] == codes
    assert [] == problems(path)


def test_an_aborted_turn_may_leave_calls_without_results(tmp_path: Path) -> None:
    """They are closed as the harness does it, and the next turn begins."""
    path = tmp_path / "session.jsonl"
    with begun(path) as talk:
        talk.user("What is here?")
        talk.begin_step()
        talk.answer(Reply(calls=(LS,)))
        talk.end_turn("aborted")
        one_turn(talk, "Again?")
    assert [] == problems(path)


def test_a_turn_ends_only_as_the_harness_knows_it(tmp_path: Path) -> None:
    """A word that no reader expects is refused, and nothing is written."""
    path = tmp_path / "session.jsonl"
    with begun(path) as talk:
        talk.user("What is here?")
        before = path.read_bytes()
        with pytest.raises(UsageError, match="no turn ends as 'finished'; say completed, aborted"):
            talk.end_turn("finished")  # type: ignore[arg-type]
        assert before == path.read_bytes()


class Told(str):
    """A text as LangChain's messages give it."""

    __slots__ = ()


def test_a_text_may_be_of_a_class_of_its_own(tmp_path: Path) -> None:
    """Whatever is said in it stands in the log as that text."""
    path = tmp_path / "session.jsonl"
    with begun(path, system=Told("You are brief.")) as talk:
        talk.user(Told("What is here?"))
        talk.begin_step()
        talk.answer(Reply(text=Told("I'll look."), reasoning=Told("Hm."), calls=(LS,)))
        talk.tool_result(LS.id, Told("a.txt"))
        talk.begin_step()
        talk.answer(Told("One file."))
        talk.end_turn()
        told = [one["content"] for one in talk.openai_request()["messages"]]
    assert ["You are brief.", "What is here?", "I'll look.", "a.txt", "One file."] == told
    assert [] == problems(path)


def test_another_prompt_takes_the_old_ones_place(tmp_path: Path) -> None:
    """As the harness does it: in the next step, by a replacement of just that message."""
    path = tmp_path / "session.jsonl"
    with begun(path) as talk:
        one_turn(talk, "What is here?")
    with begun(path, system="You are brief.") as talk:
        one_turn(talk, "And now?")
        one_turn(talk, "And then?")
        assert "You are brief." == talk.openai_request()["messages"][0]["content"]
        assert 1 == talk.session.replace_generation
    assert [] == problems(path)


def test_the_prompt_of_a_log_stays_where_none_is_given(tmp_path: Path) -> None:
    """Without a word of it the log's own prompt goes on."""
    path = tmp_path / "session.jsonl"
    for setup in ({}, {"system": None}):
        with begun(path, **setup) as talk:
            one_turn(talk, "What is here?")
            assert "You help." == talk.openai_request()["messages"][0]["content"]
            assert 0 == talk.session.replace_generation


def test_a_conversation_that_began_without_a_prompt_gets_none(tmp_path: Path) -> None:
    """The harness would never open it again, so it is refused, and nothing is written."""
    path = tmp_path / "session.jsonl"
    log = BuiltLog(format=0).user("hello").assistant("Good day.").end()
    log.write(path)
    header = {**records(path)[0], "version": 4, "isSeeded": False}
    message = encode.user_message((), "m1").line(0, 0, 4)
    path.write_bytes(json.dumps(header).encode() + b"\n" + message + b"\n")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="cannot have one now"):
        begun(path)
    assert before == path.read_bytes()
    begun(path, system=None).close()


def test_the_header_is_written_where_it_is_news(tmp_path: Path) -> None:
    """Another model, other tools or another window are told once, and not at every turn."""
    path = tmp_path / "session.jsonl"

    def told() -> list[str]:
        kinds = [record["type"] for record in records(path)]
        return [kind for kind in kinds if kind in ("request/header", "request/context")]

    for _ in range(2):
        with begun(path, tools=[BASH], window_tokens=8000) as talk:
            one_turn(talk, "What is here?")
    assert ["request/header", "request/context"] == told()
    with begun(path, tools=[BASH], window_tokens=9000) as talk:
        one_turn(talk, "What is here?")
    assert ["request/context"] == told()[2:]
    with begun(path, tools=[], window_tokens=9000) as talk:
        one_turn(talk, "What is here?")
    assert ["request/header"] == told()[3:]
    assert [] == problems(path)


def test_a_count_of_the_provider_is_the_next_measure(tmp_path: Path) -> None:
    """Usage reaches the log, and what the user says next is added to it once."""
    with begun(tmp_path / "session.jsonl") as talk:
        talk.user("What is here?")
        talk.begin_step()
        talk.answer(Reply(text="Nothing.", usage=Usage(input_tokens=900, output_tokens=100)))
        talk.end_turn()
        assert 1000 == talk.session.pressure().total_tokens
        talk.user("x" * 4000)
        assert 1000 + 1008 == talk.session.pressure().total_tokens


def test_calls_get_ids_of_their_own(tmp_path: Path) -> None:
    """Some servers give none, or the same one twice; results are still paired."""
    path = tmp_path / "session.jsonl"
    nameless = ToolCall(id="", name="bash", arguments="{}")
    with begun(path) as talk:
        talk.user("What is here?")
        talk.begin_step()
        calls = talk.answer(Reply(calls=(nameless, LS, LS)))
        for call in calls:
            talk.tool_result(call.id, "nothing")
        talk.begin_step()
        talk.answer("Nothing.")
        talk.end_turn()
    assert 3 == len({call.id for call in calls})
    assert "c1" == calls[1].id
    assert [] == problems(path)


def test_the_log_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    """Two agents cannot write into one conversation."""
    path = tmp_path / "session.jsonl"
    with begun(path), pytest.raises(OwnedLog):
        begun(path)
    begun(path).close()


def test_a_session_in_the_harness_layout_bears_its_folders_name(tmp_path: Path) -> None:
    """So that the harness finds it under that id."""
    folder = tmp_path / "mine"
    folder.mkdir()
    begun(folder / "session.v4.jsonl").close()
    assert "mine" == records(folder / "session.v4.jsonl")[0]["id"]


def test_where_nobody_may_look_no_conversation_is_begun(tmp_path: Path) -> None:
    """A log that cannot be seen may be there: it is told what stands in the way, and stays."""
    with tempfile.TemporaryDirectory() as folder:  # where everybody may come
        Path(folder).chmod(0o755)
        closed = Path(folder, "closed")
        closed.mkdir()
        begun(closed / "talk.jsonl").close()
        before = footprints(closed)
        with locked_out(closed), pytest.raises(UnreadableLog, match="Permission denied") as raised:
            begun(closed / "talk.jsonl")
        assert str(closed / "talk.jsonl") == raised.value.path
        assert before == footprints(closed)


def test_a_link_that_leads_nowhere_is_no_place_for_a_conversation(tmp_path: Path) -> None:
    """As any other link: two names would be two locks. What it names is told, and can be begun."""
    link, target = tmp_path / "link.jsonl", tmp_path / "talk.jsonl"
    link.symlink_to(target)
    with pytest.raises(UnreadableLog, match=f"is a symbolic link; name {target}"):
        begun(link)
    begun(target).close()
    with pytest.raises(UnreadableLog, match=f"is a symbolic link; name {target}"):
        begun(link)


def test_a_conversation_may_begin_where_no_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A working directory that was removed is not named; the log is sound without it."""
    here, path = tmp_path / "here", tmp_path / "session.v4.jsonl"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    begun(path).close()
    assert "cwd" not in records(path)[0]
    assert [] == problems(path)
    with pytest.raises(LogError, match="No such file"):
        begun(Path("session.v4.jsonl"))


def test_a_model_has_a_name(tmp_path: Path) -> None:
    """The harness refuses a session in which nobody answers."""
    path = tmp_path / "session.jsonl"
    with pytest.raises(UsageError):
        begun(path, model="")
    assert not path.exists()


@pytest.mark.parametrize("verb", ["begin_step", "answer", "recover", "end_turn", "begin_turn"])
def test_a_call_that_waits_stops_the_turn(verb: str, tmp_path: Path) -> None:
    """No request, no answer and no good end before its result is there; nothing is written."""
    path = tmp_path / "session.jsonl"
    with begun(path) as talk:
        talk.user("What is here?")
        talk.begin_step()
        talk.answer(Reply(calls=(LS,)))
        before = path.read_bytes()
        with pytest.raises(UsageError):
            VERBS[verb](talk)
        assert before == path.read_bytes()


# Any order of verbs

VERBS: Final[dict[str, Callable[[Conversation], object]]] = {
    "begin_turn": lambda talk: talk.begin_turn(),
    "user": lambda talk: talk.user("a word " * 40),
    "begin_step": lambda talk: talk.begin_step(),
    "answer": lambda talk: talk.answer("An answer."),
    "calls": lambda talk: talk.answer(
        Reply(calls=(LS, ToolCall(id="c2", name="bash", arguments="no json")))
    ),
    "nothing": lambda talk: talk.answer(""),
    "recover": lambda talk: talk.recover(TOO_LONG),
    "pass": lambda talk: talk.recover(TimeoutError()),
    "begin_call": lambda talk: talk.begin_call("c1"),
    "result": lambda talk: talk.tool_result("c1", "a long result " * 60),
    "second": lambda talk: talk.tool_result("c2", "", is_error=True),
    "end_turn": lambda talk: talk.end_turn(),
    "abort": lambda talk: talk.end_turn("aborted"),
    "fail": lambda talk: talk.end_turn("error", RuntimeError("it broke")),
}


@settings(max_examples=60)
@given(
    verbs=st.lists(st.sampled_from([*VERBS, "reopen"]), min_size=1, max_size=40),
    window=st.sampled_from([None, 1200]),
)
def test_any_order_of_verbs_leaves_a_sound_log(
    verbs: list[str], window: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A verb either does its part or raises a usage error and leaves the log byte for byte."""
    path = tmp_path_factory.mktemp("verbs") / "session.jsonl"
    policy = Policy(
        prune_threshold_characters=400, prune_head_characters=150, prune_tail_characters=50
    )
    talk = begun(path, window_tokens=window, policy=policy)
    for verb in verbs:
        before = path.read_bytes()
        if verb == "reopen":
            talk.close()
            talk = begun(path, window_tokens=window, policy=policy)
            continue
        try:
            VERBS[verb](talk)
        except UsageError:
            assert before == path.read_bytes()
        assert path.read_bytes().startswith(before)
    talk.close()
    assert [] == problems(path)
    with read_session(path) as session:
        assert session.events == talk.session.events


def test_a_built_log_with_a_call_in_flight_is_gone_on_with(tmp_path: Path) -> None:
    """What a harness left in mid-turn is closed in its way before a new turn begins."""
    path = tmp_path / "session.jsonl"
    log = BuiltLog(format=4, window=8000).system("You help.").user("hello")
    log.assistant("Running it.", calls=[built_call("c9")]).write(path)
    with begun(path) as talk:
        one_turn(talk, "What is here?")
    assert [] == problems(path)
