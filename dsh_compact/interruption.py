"""What an earlier process left open, and how the harness itself closes it when it resumes.

Every unanswered call of the open step gets a result that says so, in the order of the message that
asked for them; then the step ends, then the turn, with the reason "interrupted". Ids, error codes
and the sentence for a call that never started are the harness's: it checks them when it opens a
log. An open compaction is not ended: the `session/end-seed` behind it all makes it stale.
"""

from collections.abc import Iterator

from dsh_compact.codec import encode
from dsh_compact.codec.encode import Draft
from dsh_compact.events import ToolCall
from dsh_compact.session import Session
from dsh_compact.surface import Node


def closers(session: Session) -> list[Draft]:
    """The records that close what is open, to be appended at the log's end.

    Empty where nothing is. The session must have followed its turns.
    """
    turns = session.turns
    is_held = turns.bracket is not None and not turns.bracket_is_stale
    if turns.turn is None and not is_held:
        return []
    drafts = step_closers(session)
    if turns.turn is not None:
        drafts.append(encode.turn_end(turns.turn, "interrupted"))
    return [*drafts, encode.end_seed()]


def step_closers(session: Session) -> list[Draft]:
    """The records that close the open step: a result for each call that has none, and its end.

    Empty where no step is open.
    """
    turns = session.turns
    if turns.turn is None or turns.step is None:
        return []
    started = turns.started_seqs
    results = [
        encode.interrupted_result(
            turns.turn, turns.step, call.id, started.get(call.id), seq, session.format
        )
        for seq, call in enumerate(unanswered(session), session.events)
    ]
    return [*results, encode.step_end(turns.turn, turns.step)]


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
