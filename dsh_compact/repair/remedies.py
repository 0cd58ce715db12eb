"""A remedy for each kind of damage that can be mended: never content, only numbers and brackets.

Each changes the case under treatment, or puts records in before it, and says whether to judge
again. What has no remedy here is set aside.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import structs

from dsh_compact.codec import encode, splice
from dsh_compact.codec.audit import Audited, Owner
from dsh_compact.codec.encode import Draft
from dsh_compact.codec.shapes import ENVELOPE_KEYS
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import (
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    Replace,
    Sources,
    SurfaceChange,
    Text,
    ToolCall,
)
from dsh_compact.repair.mender import Mender, Remedy, Trouble
from dsh_compact.repair.unweave import is_supposed

_SPEECH: Final = frozenset(
    {"system/message", "developer/message", "assistant/message", "assistant/attempt"}
)
"""What shows by itself that its turn and step began: no call needs to stand before it."""

# One record: what says nothing is put right -------------------------------------------------------


def _change(it: Trouble, raw: bytes) -> bool:
    """Goes on with other bytes; False where they are the same, or it was tried before."""
    if raw == it.case.raw or it.damage in it.case.told:
        return False
    it.case.raw = raw
    it.case.told.append(it.damage)
    return True


def _patch(it: Trouble, change: Callable[[bytes], bytes]) -> bool:
    """Changes the record once it has its new numbers; False where it was tried before."""
    if it.damage in it.case.told:
        return False
    before = it.case.patch
    it.case.patch = change if before is None else lambda line: change(before(line))
    it.case.told.append(it.damage)
    return True


def _read_as_harness(it: Trouble) -> bool:
    return _change(it, splice.as_utf8(it.case.raw))


def _drop_unknown_keys(it: Trouble) -> bool:
    unknown = splice.unknown_keys(it.case.raw, ENVELOPE_KEYS)
    return _change(it, splice.without(it.case.raw, unknown))


def _drop_surface_op(it: Trouble) -> bool:
    keys = ("surfaceOp", "sourceEventSeqs")
    return _change(it, splice.without(it.case.raw, keys))


def _append(it: Trouble) -> bool:
    """A message that names no sources replaces nothing, so it can only be an append."""
    if not splice.lacks(it.case.raw, "sourceEventSeqs"):
        return False
    return _change(it, splice.with_envelope(it.case.raw, surfaceOp="append"))


def _give_id(it: Trouble) -> bool:
    message_id = f"repaired-message-{it.case.item.number}"
    return _change(it, splice.with_message(it.case.raw, id=message_id))


def _drop_sources(it: Trouble) -> bool:
    """An answer of format 4 holds its stream and names no sources; all else stays wrong."""
    if it.record.type != "assistant/message":
        return False
    return _change(it, splice.without(it.case.raw, ("sourceEventSeqs",)))


def _name_checkpoint(it: Trouble) -> bool:
    """Writes a checkpoint's source the way this log's format does."""
    named = None if it.record.message is None else it.record.message.message.compaction_id
    if named is None:
        return False
    source = encode.checkpoint_source(named, version=it.mender.version)
    if isinstance(it.record.detail, Owner) and it.record.detail.command_id is not None:
        source["sourceCommandId"] = it.record.detail.command_id
    return _change(it, splice.with_data(it.case.raw, source=source))


# The surface --------------------------------------------------------------------------------------


def _name_sources(it: Trouble) -> bool:
    """All that leaves, and whatever else was named and stands before."""
    if it.damage is Damage.SOURCES_INCOMPLETE and _may_be_meant_otherwise(it):
        return True
    named = () if it.record.message is None else it.record.message.sources
    match it.record.event:
        case SurfaceChange(seq=seq, op=Replace(start_seq=start, end_seq=end)):
            try:
                leaving = it.mender.surface.span(start, end)
            except RuleBroken:
                return False
            named = (*named, *(node.seq for node in leaving))
        case SurfaceChange(seq=seq):
            pass
        case _:
            return False
    value = _once(named, seq) or splice.GONE
    return _patch(it, lambda line: splice.with_envelope(line, sourceEventSeqs=value))


def _once(named: Sources, before_seq: int) -> list[Any]:
    """All that is named and stands before, each once; in order where ranges are among it."""
    seqs = [one for one in named if isinstance(one, int)]
    if len(seqs) == len(named):
        return [one for one in dict.fromkeys(seqs) if one < before_seq]
    runs: list[list[int]] = []
    for first, end in sorted((one, one) if isinstance(one, int) else one for one in named):
        last = min(end, before_seq - 1)
        if runs and first <= runs[-1][1] + 1:
            runs[-1][1] = max(runs[-1][1], last)
        elif first <= last:
            runs.append([first, last])
    return [first if first == last else [first, last] for first, last in runs]


def _may_be_meant_otherwise(it: Trouble) -> bool:
    """Tries the other meaning of seqs that two processes gave; goes back where it is no better."""
    return it.case.turns < 2 and it.mender.understand_otherwise(it.case)


def _understand_otherwise(it: Trouble) -> bool:
    """A seq that two processes gave may be meant as the other gave it."""
    return it.case.turns == 0 and it.mender.understand_otherwise(it.case)


def _name_shadow(it: Trouble) -> bool:
    """What is announced to leave, as its range has it."""
    event = it.record.event
    if _may_be_meant_otherwise(it):
        return True
    if not isinstance(event, CompactionSummary | CompactionPrune):
        return False
    try:
        leaving = it.mender.surface.span(event.start_seq, event.end_seq)
    except RuleBroken:
        return False
    if leaving[0].kind == "system":
        return False
    seqs = [node.seq for node in leaving]
    return _patch(it, lambda line: splice.with_data(line, shadowedSeqs=seqs))


# Turns and steps ----------------------------------------------------------------------------------


def _close_first(it: Trouble) -> bool:
    """Closes the turn that was left open."""
    return it.record.type == "turn/start" and it.mender.close_turn()


def _close_step_first(it: Trouble) -> bool:
    """Ends the step that was left open."""
    return it.record.type in ("step/start", "turn/end") and it.mender.close_step()


def _count_turn(it: Trouble) -> bool:
    """Moves this process's turns, from here on, to the numbers that are free."""
    own = it.mender.original(it.case).turn
    if own is None or it.record.turn == it.mender.rules.lifecycle.last_turn + 1:
        return False
    by = it.mender.rules.lifecycle.last_turn + 1 - own
    it.mender.shift(it.case.item.chain).turns(own, by)
    return True


def _count_step(it: Trouble) -> bool:
    """Moves this turn's steps, from here on, to the numbers that are free."""
    own = it.mender.original(it.case)
    if own.turn is None or own.step is None:
        return False
    by = it.mender.rules.lifecycle.last_step + 1 - own.step
    it.mender.shift(it.case.item.chain).steps(own.turn, own.step, by)
    return True


def _open_turn(it: Trouble) -> bool:
    """A step shows that its turn began: the start that was lost is written again."""
    lifecycle = it.mender.rules.lifecycle
    if (
        it.record.type != "step/start"
        or it.record.turn is None
        or it.record.turn <= lifecycle.last_turn
    ):
        return False
    return _begin_turn(it)


def _begin_turn(it: Trouble) -> bool:
    turn = it.record.turn
    assert turn is not None
    lifecycle = it.mender.rules.lifecycle
    if lifecycle.turn is not None and not it.mender.close_turn():
        return False
    if turn != lifecycle.last_turn + 1:
        return _count_turn(it)
    what = f"the start of turn {turn} was lost, and is written again"
    return it.mender.insert(encode.turn_start(turn), Damage.TURN_UNBALANCED, what)


def _open_step(it: Trouble) -> bool:
    """What the model said shows that its step began."""
    lifecycle = it.mender.rules.lifecycle
    turn, step = it.record.turn, it.record.step
    if it.record.type not in _SPEECH or turn is None or step is None:
        return False
    if turn > lifecycle.last_turn:
        return _begin_turn(it)
    if turn != lifecycle.turn or step <= lifecycle.last_step:
        return False
    if lifecycle.step is not None and not it.mender.close_step():
        return False
    if step != lifecycle.last_step + 1:
        return _count_step(it)
    what = f"the start of step {step} of turn {turn} was lost, and is written again"
    return it.mender.insert(encode.step_start(turn, step), Damage.STEP_UNBALANCED, what)


def _answer(it: Trouble) -> bool:
    return it.mender.answer_calls()


def _start_call(it: Trouble) -> bool:
    """A tool's result shows that its call was started, and the message says how."""
    lifecycle = it.mender.rules.lifecycle
    call = lifecycle.calls.get(it.record.answered or "")
    if call is None or call.started_seq is not None or is_supposed(it.record):
        return False
    if lifecycle.turn is None or lifecycle.step is None:
        return False
    asked = ToolCall(id=call.call_id, name=call.name, arguments=call.arguments)
    draft = encode.tool_call(lifecycle.turn, lifecycle.step, asked)
    what = "the start of the call that it answers was lost, and is written again"
    return it.mender.insert(draft, Damage.RESULT_WITHOUT_CALL, what)


# Compactions --------------------------------------------------------------------------------------


def _end_bracket_first(it: Trouble) -> bool:
    return it.mender.end_bracket()


def _name_turn(it: Trouble) -> bool:
    """A compaction belongs to the turn that is open."""
    if not isinstance(it.record.event, CompactionStart | CompactionEnd):
        return False
    turn = it.mender.rules.lifecycle.turn
    return _patch(it, lambda line: splice.with_data(line, turn=turn))


def _open_bracket(it: Trouble) -> bool:
    """A summary shows that its compaction began: the start that was lost is written again."""
    if isinstance(it.record.event, CompactionSummary):
        named = it.record.event.compaction_id
    elif it.record.type == "user/message" and it.record.message is not None:
        named = it.record.message.message.compaction_id or ""
    else:
        return False
    if not it.mender.end_bracket():
        return False
    draft = encode.compaction_start(named, it.mender.rules.lifecycle.turn)
    if isinstance(it.record.detail, Owner) and it.record.detail.command_id is not None:
        data = {**draft.data, "sourceCommandId": it.record.detail.command_id}
        draft = structs.replace(draft, data=data)
    what = "the start of the compaction was lost, and is written again"
    return it.mender.insert(draft, Damage.BRACKET_ID_WRONG, what)


def _fail_bracket(it: Trouble) -> bool:
    """A compaction that replaced nothing did not succeed."""
    return _change(it, splice.with_data(it.case.raw, error=encode.ABANDONED))


def _write_summary(it: Trouble) -> bool:
    """A checkpoint holds its summary: the record that announced it is written again."""
    draft = _summary_of(it.mender, it.record)
    what = "the summary's own record was lost, and is written again from its message"
    return draft is not None and it.mender.insert(draft, Damage.SUMMARY_MISSING, what)


def _summary_of(mender: Mender, record: Audited) -> Draft | None:
    match record.event:
        case SurfaceChange(op=Replace(start_seq=start, end_seq=end)) if record.message is not None:
            content = record.message.message.content
        case _:
            return None
    try:
        leaving = mender.surface.span(start, end)
    except RuleBroken:
        return None
    framed = len(content) > 1 and content[-1] == Text(text=encode.CHECKPOINT_CLOSING)
    return encode.compaction_summary(
        record.message.message.compaction_id or "",
        content[1:-1] if framed else content,
        [node.seq for node in leaving],
        mender.price(leaving),
        provider="",
        model="",
    )


_CHANGES: Final[Mapping[Damage, Remedy]] = {
    Damage.NOT_UTF8: _read_as_harness,
    Damage.RECORD_UNKNOWN_KEY: _drop_unknown_keys,
    Damage.SURFACE_OP_MISSING: _append,
    Damage.SURFACE_OP_FORBIDDEN: _drop_surface_op,
    Damage.RANGE_NOT_ON_SURFACE: _understand_otherwise,
    Damage.RANGE_BACKWARDS: _understand_otherwise,
    Damage.SOURCES_INCOMPLETE: _name_sources,
    Damage.SOURCES_REPEATED: _name_sources,
    Damage.SOURCES_LATER: _name_sources,
    Damage.MESSAGE_WITHOUT_ID: _give_id,
    Damage.MESSAGE_WRONG: _drop_sources,
    Damage.CHECKPOINT_SOURCE_WRONG: _name_checkpoint,
    Damage.TURN_MISCOUNTED: _count_turn,
    Damage.STEP_MISCOUNTED: _count_step,
    Damage.BRACKET_TURN_WRONG: _name_turn,
    Damage.BRACKET_EMPTY: _fail_bracket,
    Damage.SHADOW_DIFFERS: _name_shadow,
}
_INSERTIONS: Final[Mapping[Damage, Remedy]] = {
    Damage.TURN_UNBALANCED: _close_first,
    Damage.STEP_UNBALANCED: _close_step_first,
    Damage.OUTSIDE_TURN: _open_turn,
    Damage.OUTSIDE_STEP: _open_step,
    Damage.CALL_WITHOUT_RESULT: _answer,
    Damage.RESULT_WITHOUT_CALL: _start_call,
    Damage.BRACKET_NESTED: _end_bracket_first,
    Damage.BRACKET_CROSSES_TURN: _end_bracket_first,
    Damage.BRACKET_ID_WRONG: _open_bracket,
    Damage.SUMMARY_MISSING: _write_summary,
}

REMEDIES: Final[Mapping[Damage, Remedy]] = {**_CHANGES, **_INSERTIONS}
"""By the code of the damage; what has none is set aside."""

QUIET: Final = _CHANGES.keys()
"""The damage whose remedy changes the record and puts none in."""
