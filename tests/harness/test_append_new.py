"""A session that we began is one that the real harness goes on with, more than once.

Once is not enough: a harness of this release adds its own system prompt to a conversation that does
not begin with one, where it must not stand, and refuses the session only the next time.
"""

from __future__ import annotations

from pathlib import Path

import plain_reader
import pytest
from harness.live_harness import LiveHarness, Place
from harness.scripted_provider import ScriptedProvider, serve
from running import dshc

pytestmark = [pytest.mark.harness, pytest.mark.timeout(900)]

WORDS = {
    "a user's message": ["--user", "A word from outside."],
    "a whole turn": [
        "--user",
        "A question.",
        "--assistant",
        "An answer.",
        "--user",
        "A word more.",
    ],
    "a prompt of ours": ["--system", "Be brief.", "--user", "A word from outside."],
}


@pytest.mark.parametrize("words", WORDS.values(), ids=[*WORDS])
def test_a_session_that_we_began_is_gone_on_with(
    words: list[str], harness_python: Path, tmp_path: Path
) -> None:
    """What was said reaches the model, after one resume and after another."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    place = Place(home=tmp_path / "home", workspace=workspace, session_id="begun")
    place.folder.mkdir(parents=True)
    log = place.folder / "session.v4.jsonl"
    assert 0 == dshc("append", log, "--new", "--cwd", workspace, *words).code
    written = log.read_bytes()
    for round_number in (1, 2):
        with (
            serve(ScriptedProvider()) as provider,
            LiveHarness(harness_python, place, provider) as harness,
        ):
            harness.resume()
            assert "completed" == harness.prompt(f"round {round_number}").finish
        sent = provider.arrived[-1].text
        said = [
            text for role, text in zip(words[::2], words[1::2], strict=True) if role != "--system"
        ]
        assert all(text in sent for text in said)
        assert written == log.read_bytes()[: len(written)]
        reading = plain_reader.read(log.read_bytes())
        assert (None, None) == (reading.broken, reading.refused)
