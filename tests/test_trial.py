"""A trial: everything that a writable session does, and nothing of it in a file."""

from pathlib import Path

import pytest
from builders import Conversation, call
from running import LOGS

from dsh_compact.codec import encode
from dsh_compact.errors import LogError, NotAdmitted
from dsh_compact.events import Text
from dsh_compact.session import open_session
from dsh_compact.summarizers import Request
from dsh_compact.tokens import price_text
from dsh_compact.trial import AtMost, open_trial


def message(words: str) -> encode.Draft:
    """A user's message."""
    return encode.user_message([Text(text=words)], f"id of {words}")


@pytest.mark.parametrize("path", sorted(LOGS.glob("v*")), ids=lambda path: path.name)
def test_what_is_appended_is_folded_and_read_back(path: Path, logs: Path) -> None:
    """Seqs, surface, prices and messages are those that a real append would give."""
    drafts = [message("one"), message("two")]
    files = {entry: entry.read_bytes() for entry in logs.iterdir()}
    with open_trial(logs / path.name) as trial:
        seqs = trial.append(drafts[:1]) + trial.append(drafts[1:])
        nodes = [trial.surface.find(seq) for seq in seqs]
        texts = [trial.event(node).message.text for node in nodes if node is not None]
        pressure, items, generation = trial.pressure(), trial.items(), trial.replace_generation
    assert ["one", "two"] == texts
    assert files == {entry: entry.read_bytes() for entry in logs.iterdir()}
    with open_session(logs / path.name) as session:
        assert seqs == session.append(drafts)
        assert (pressure, items) == (session.pressure(), session.items())
        assert generation == session.replace_generation


def test_an_appended_result_can_be_pruned(tmp_path: Path) -> None:
    """What stands in memory alone is found again where the format's rules ask for it."""
    log = Conversation().user("go").assistant(calls=[call("c")]).result("c", "a" * 100)
    with open_trial(log.write(tmp_path / "log")) as trial:
        for words in ("b" * 50, "c" * 25):
            node = next(node for node in trial.surface if node.kind == "tool")
            shorter = encode.pruned_result(trial.line(node.place), [Text(text=words)])
            trial.append([encode.compaction_prune(node.seq, trial.price(node)), shorter])
        node = next(node for node in trial.surface if node.kind == "tool")
        assert ("c" * 25, 2) == (trial.event(node).message.text, trial.replace_generation)


def test_the_door_is_the_same(tmp_path: Path) -> None:
    """What would damage a log is not admitted to a trial either."""
    path = Conversation().user("go").end().write(tmp_path / "log")
    with open_trial(path) as trial:
        wrong = encode.checkpoint("c", [Text(text="x")], "id", (99,), (0, 1), version=4)
        with pytest.raises(NotAdmitted):
            trial.append([message("one"), wrong])
        assert (0, 1) == (trial.replace_generation, len(trial.surface))


def test_a_log_from_the_future_is_no_ground_for_a_plan(tmp_path: Path) -> None:
    """Nobody can tell what may follow events that only a newer harness knows."""
    path = Conversation().user("go").event("future/thing").end().write(tmp_path / "log")
    with pytest.raises(LogError, match="future/thing"):
        open_trial(path)


def test_a_bound_is_filled_to_the_brim() -> None:
    """The stand-in for a summarizer takes all that it may, and not a token more."""
    summary = AtMost().summarise(Request(messages=(), max_tokens=123))
    assert 123 == price_text(summary.text)
