"""What is said, as records that stand where the harness wants them: turns, steps, messages.

Pure: it is told where the session stands and gives drafts. A user's message may stand anywhere. An
answer stands in an open step; where none is open, a whole turn is written around it, with what the
user said directly before. A turn that somebody left open stays open: closing it is its harness's
business, which does it when it resumes the session.

A surface of format 3 or 4 begins with a system message, be it an empty one. Where it does not, a
harness puts its own prompt behind what is there, and never opens the session again (seen on 0.2.1).
"""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from dsh_compact.codec import encode
from dsh_compact.codec.encode import Draft
from dsh_compact.errors import UsageError
from dsh_compact.events import Text
from dsh_compact.turns import Turns


class Said(Struct, frozen=True, kw_only=True):
    """One message of plain text."""

    role: Literal["user", "assistant"]
    text: str


class Speaker(Struct, frozen=True, kw_only=True):
    """Who is said to have answered; the harness wants neither of both empty."""

    provider: str
    model: str


def drafts_of(
    said: Sequence[Said],
    turns: Turns,
    *,
    version: int,
    speaker: Speaker,
    new_id: Callable[[], str],
    waiting: Sequence[str] = (),
    system: str | None = None,
) -> list[Draft]:
    """The records that say `said`, in its order, in a session that stands at `turns`.

    `system` is the prompt, perhaps an empty one, that a surface without nodes is to begin with.
    `waiting` are the calls of the open step that have no result: an answer cannot follow them, and
    that is a `UsageError`.
    """
    answers = any(one.role == "assistant" for one in said)
    if system is None and not answers:
        return [_user(one, new_id) for one in said]
    if answers and waiting:
        raise UsageError(
            f"turn {turns.turn} waits for the result of call {waiting[0]}: no answer may follow",
            "append the result first, or let its harness resume the session",
        )
    freed = [encode.end_seed()] if turns.bracket and not turns.bracket_is_stale else []
    script = _Script(turns, version, speaker, new_id)
    if system is not None:
        script.begin(system, is_answered=answers)
    for one in said:
        script.say(one)
    return [*freed, *script.finished()]


class _Script:
    """The records so far, and what is open at their end."""

    def __init__(
        self, turns: Turns, version: int, speaker: Speaker, new_id: Callable[[], str]
    ) -> None:
        self._drafts: list[Draft] = []
        self._version = version
        self._speaker = speaker
        self._new_id = new_id
        self._is_foreign = turns.turn is not None  # somebody else's turn, which stays open
        self._turn = turns.turn
        self._step = turns.step
        self._last_turn, self._last_step = turns.last_turn, turns.last_step
        self._heard: list[Said] = []  # waits for its answer, whose turn it belongs to
        self._system: str | None = None  # waits for the first step

    def begin(self, system: str, *, is_answered: bool) -> None:
        """The prompt stands in the first answer's step, in one of its own where no answer comes."""
        self._system = system
        if not is_answered:
            self._open_step()
            self._end_step()
            if not self._is_foreign:
                self._end_turn()

    def say(self, one: Said) -> None:
        if one.role == "assistant":
            self._answer(one)
        else:
            if self._step is not None and not self._is_foreign:
                self._end_turn()
            self._heard.append(one)

    def finished(self) -> list[Draft]:
        self._end_step()
        if self._turn is not None and not self._is_foreign:
            self._end_turn()
        self._speak_for_users()
        return self._drafts

    def _open_step(self) -> tuple[int, int]:
        self._end_step()
        if self._turn is None:
            self._turn = self._last_turn = self._last_turn + 1
            self._last_step = 0
            self._drafts.append(encode.turn_start(self._turn))
        self._step = self._last_step = self._last_step + 1
        self._drafts.append(encode.step_start(self._turn, self._step))
        if self._system is not None:
            prompt = [Text(text=self._system)] if self._system else []
            place = (self._turn, self._step)
            self._drafts.append(
                encode.system_message(*place, prompt, self._new_id(), version=self._version)
            )
            self._system = None
        return self._turn, self._step

    def _answer(self, one: Said) -> None:
        turn, step = self._open_step()
        self._speak_for_users()
        self._drafts.append(
            encode.assistant_message(
                turn,
                step,
                [Text(text=one.text)],
                self._new_id(),
                provider=self._speaker.provider,
                model=self._speaker.model,
                version=self._version,
            )
        )

    def _speak_for_users(self) -> None:
        self._drafts += [_user(one, self._new_id) for one in self._heard]
        self._heard.clear()

    def _end_step(self) -> None:
        if self._step is not None:
            assert self._turn is not None
            self._drafts.append(encode.step_end(self._turn, self._step))
            self._step = None

    def _end_turn(self) -> None:
        self._end_step()
        assert self._turn is not None
        self._drafts.append(encode.turn_end(self._turn, "completed"))
        self._turn = None


def _user(one: Said, new_id: Callable[[], str]) -> Draft:
    return encode.user_message([Text(text=one.text)], new_id())
