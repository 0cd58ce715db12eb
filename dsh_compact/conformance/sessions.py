"""The sessions that every backend is tried on: each a shape that has been packed wrongly somewhere.

They are written through the door that agents use, so that they are logs as a harness has them, into
a folder that is handed in; `OVERFLOWING` ships with the package.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from dsh_compact.codec import encode
from dsh_compact.conversation import Conversation, open_conversation
from dsh_compact.copies import BUILT_IN
from dsh_compact.events import ToolCall
from dsh_compact.replies import Reply


class Tried(Struct, frozen=True, kw_only=True):
    """A session: its name in the scorecard and its log. `has_room` where there is much to gain."""

    name: str
    log: str
    has_room: bool = False


OVERFLOWING: Final = Tried(name="overflowing", log=str(BUILT_IN), has_room=True)
"""The session that ships: it has long results and much to fold, so that anybody can make room."""


def written_to(folder: str) -> Iterator[Tried]:
    """The sessions of `SHAPES`, each written when it is asked for, to a folder of its own in
    `folder`.
    """
    for name, say in SHAPES.items():
        home = Path(folder) / name.replace(" ", "-")
        home.mkdir()
        log = str(home / "session.v4.jsonl")
        with open_conversation(log, provider="conformance", model="m", system=PROMPT) as talk:
            say(talk)
        yield Tried(name=name, log=log)


PROMPT: Final = "You help with a project. Run the tests after each change."

STORY: Final = (
    "The import of the order book takes 40 minutes, most of it in `load_lines`, which reads the"
    " file once for each customer. Read it once, keep the lines by customer, and leave the order of"
    " the output as it is. "
)


def _exchange(talk: Conversation, text: str) -> None:
    talk.user(text)
    talk.begin_step()
    talk.answer(f"So be it. {text[:40]}")
    talk.end_turn()


def _call(talk: Conversation, *results: tuple[str, str, bool], text: str = "") -> None:
    """A step whose answer calls a tool for each result; they come in reverse order."""
    talk.begin_step()
    calls = tuple(
        ToolCall(id=name, name="bash", arguments='{"command": "make test"}')
        for name, _, _ in results
    )
    talk.answer(Reply(text=text, calls=calls))
    for name, result, is_error in reversed(results):
        talk.tool_result(name, result, is_error=is_error)


def _tool_pairs(talk: Conversation) -> None:
    for turn in range(3):
        talk.user(f"{turn}: run everything. {STORY}")
        _call(
            talk,
            (f"a{turn}", "12 passed\n" * 40, False),
            (f"b{turn}", "", False),
            (f"c{turn}", "make: *** [test] Error 2\n" * 20, True),
        )
        _call(talk, (f"d{turn}", STORY * 2, False), text="Once more.")
        talk.begin_step()
        talk.answer("All done.")
        talk.end_turn()


def _open_turn(talk: Conversation) -> None:
    """Killed while one call ran and another had not begun."""
    _exchange(talk, STORY * 4)
    talk.user("Now run it.")
    _call(talk, ("first", "12 passed\n" * 60, False))
    talk.begin_step()
    calls = [ToolCall(id=name, name="bash", arguments="{}") for name in ("begun", "not-begun")]
    talk.answer(Reply(text="And these.", calls=tuple(calls)))
    talk.begin_call("begun")


def _stale_bracket(talk: Conversation) -> None:
    """A compaction that nobody will ever end."""
    for turn in range(4):
        _exchange(talk, f"{turn}: {STORY * 2}")
    talk.session.append([encode.compaction_start("left-open", None), encode.end_seed()])


def _abandoned_bracket(talk: Conversation) -> None:
    """The same, without the word that its process is gone."""
    for turn in range(4):
        _exchange(talk, f"{turn}: {STORY * 2}")
    talk.session.append([encode.compaction_start("left-open", None)])


def _system_prompt(talk: Conversation) -> None:
    """Next to nothing but a developer's instructions behind the prompt."""
    _exchange(talk, "What are your rules?")
    talk.user(f"Keep to these. {STORY * 6}")
    talk.begin_step()
    talk.answer("I shall.")
    talk.end_turn()
    _exchange(talk, "Go on.")


AWKWARD: Final = (
    "naïve 文件 👩‍👩‍👧‍👦 \u202eright to left\u202c \x00 \x1b[31mred\x1b[0m \ud83d lone"
    " <compacted-summary> </compacted-summary> "
)


def _unicode(talk: Conversation) -> None:
    for turn in range(4):
        _exchange(talk, f"{turn}: {AWKWARD * 12}")


def _many_messages(talk: Conversation) -> None:
    for turn in range(30):
        _exchange(talk, f"{turn}: {STORY[:60]}")


def _one_message(talk: Conversation) -> None:
    """Nothing can go: an honest backend says so."""
    talk.begin_turn()


SHAPES: Final[dict[str, Callable[[Conversation], None]]] = {
    "tool pairs": _tool_pairs,
    "open turn": _open_turn,
    "stale bracket": _stale_bracket,
    "abandoned bracket": _abandoned_bracket,
    "system prompt": _system_prompt,
    "unicode": _unicode,
    "many messages": _many_messages,
    "nothing to fold": _one_message,
}
"""Name → what is said."""
