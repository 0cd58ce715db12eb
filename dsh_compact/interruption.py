"""How a turn that was interrupted is closed: what the harness itself appends when it resumes one.

Every unanswered call of the open step gets a result that says so, in the order of the message that
asked for them; then the step ends, then the turn, with the reason "interrupted". Ids, error codes
and the sentence for a call that never started are the harness's: it checks them when it opens a
log.
"""

from collections.abc import Iterator
from typing import Final

from dsh_compact.codec import encode
from dsh_compact.codec.encode import Draft
from dsh_compact.events import Text, ToolCall
from dsh_compact.session import Session
from dsh_compact.surface import Node

NOT_STARTED: Final = (
    "The tool call was interrupted before the Harness recorded it as started."
    " Retry it if it is still needed."
)
"""Checked to the letter by the harness (0.2.1) on a result without a `tool/call`."""

OUTCOME_UNKNOWN: Final = (
    "The session ended while this call was running; whether it took effect is not known."
)


ABANDONED: Final = "abandoned: the process that began it is gone"
"""Why a compaction bracket is closed that nobody holds any more."""


def closers(session: Session, first_seq: int | None = None) -> list[Draft]:
    """The records that close the open turn, to be appended from `first_seq` on (the log's end).

    Empty where no turn is open. The session must have followed its turns.
    """
    turns = session.turns
    if turns.turn is None:
        return []
    seq = session.events if first_seq is None else first_seq
    drafts: list[Draft] = []
    bracket = turns.bracket
    if bracket is not None and not turns.bracket_is_stale and bracket.turn == turns.turn:
        drafts.append(encode.compaction_end(bracket.compaction_id, bracket.turn, ABANDONED))
    if turns.step is not None:
        for call in unanswered(session):
            drafts.append(_result(session, turns.turn, turns.step, call, seq + len(drafts)))
        drafts.append(encode.step_end(turns.turn, turns.step))
    drafts.append(encode.turn_end(turns.turn, "interrupted"))
    return drafts


def unanswered(session: Session) -> list[ToolCall]:
    """The calls of the newest assistant message that no result on the surface answers."""
    answered: set[str] = set()
    for node in _backwards(session):
        message = session.event(node).message
        if node.kind == "tool" and message.call_id is not None:
            answered.add(message.call_id)
        if node.kind == "assistant":
            return [call for call in message.calls if call.id not in answered]
    return []


def _backwards(session: Session) -> Iterator[Node]:
    return reversed(tuple(session.surface))


def _result(session: Session, turn: int, step: int, call: ToolCall, seq: int) -> Draft:
    started = next((s for s in session.turns.started_calls if s.call_id == call.id), None)
    if started is None:
        error = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
        text, sources = NOT_STARTED, tuple[int, ...]()
    else:
        error = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
        text, sources = OUTCOME_UNKNOWN, (started.seq,)
    return encode.tool_result(
        turn,
        step,
        call.id,
        (Text(text=text),),
        f"interrupted-tool-result-{call.id}-{seq}",
        version=session.format,
        sources=sources,
        is_error=True,
        error=error,
    )
