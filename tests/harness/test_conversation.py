"""What an agent wrote through `Conversation` is a session that the real harness goes on with."""

from __future__ import annotations

from pathlib import Path

import plain_reader
import pytest
from harness.live_harness import LiveHarness, Place
from harness.scripted_provider import ScriptedProvider, serve

from dsh_compact.conversation import Conversation, open_conversation
from dsh_compact.events import Failure, ToolCall
from dsh_compact.recovery import Retry
from dsh_compact.replies import Reply

pytestmark = [pytest.mark.harness, pytest.mark.timeout(900)]

LS = ToolCall(id="c1", name="bash", arguments='{"command":"ls"}')
TOO_LONG = Failure(message="prompt is too long: 4100 tokens > 4000 maximum", status=400)
LONG_RESULT = "a line of a long result\n" * 150


def opened(place: Place) -> Conversation:
    """The agent's conversation, where the harness looks for it."""
    place.folder.mkdir(parents=True, exist_ok=True)
    return open_conversation(
        place.folder / "session.v4.jsonl",
        provider="deepseek-official",
        model="deepseek-v4-flash",
        system="Be brief.",
        tools=[{"name": "bash", "description": "Runs a command.", "parameters": {}}],
        window_tokens=4000,
    )


def one_turn(talk: Conversation, words: str) -> None:
    """The user asks, a tool runs, the model answers."""
    talk.user(words)
    talk.begin_step()
    for call in talk.answer(Reply(text="Looking.", calls=(LS,))):
        talk.begin_call(call.id)
        talk.tool_result(call.id, LONG_RESULT)
    talk.begin_step()
    talk.answer(f"Done with: {words}")
    talk.end_turn()


def agents_work(place: Place) -> None:
    """Turns with pressure and overflow compactions, an aborted turn, one that dies in mid-call."""
    with opened(place) as talk:
        for number in range(6):
            one_turn(talk, f"Ask {number}.")
        talk.user("And now?")
        talk.begin_step()
        assert isinstance(talk.recover(TOO_LONG), Retry)
        talk.answer(Reply(calls=(LS,)))
        talk.end_turn("aborted")
        one_turn(talk, "Again.")
        talk.user("The last word of the agent.")
        talk.begin_step()
        talk.answer(Reply(calls=(LS, ToolCall(id="c2", name="bash", arguments="{}"))))
        talk.begin_call("c1")


def test_the_harness_goes_on_with_an_agents_session(
    harness_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice resumed, and once more written by the agent in between: nothing of it is lost."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    place = Place(home=tmp_path / "home", workspace=workspace, session_id="written")
    agents_work(place)
    for round_number in (1, 2):
        written = place.log.read_bytes()
        with (
            serve(ScriptedProvider()) as provider,
            LiveHarness(harness_python, place, provider) as harness,
        ):
            harness.resume()
            assert "completed" == harness.prompt(f"round {round_number}").finish
        assert "The last word of the agent." in provider.arrived[-1].text
        assert "Ask 0." not in provider.arrived[-1].text.partition("<compacted-summary>")[0]
        assert written == place.log.read_bytes()[: len(written)]
        reading = plain_reader.read(place.log.read_bytes())
        assert (None, None) == (reading.broken, reading.refused)
        with opened(place) as talk:
            talk.user("Between two resumes.")
            talk.begin_step()
            talk.answer("Yes.")
            talk.end_turn()
