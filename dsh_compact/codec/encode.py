"""Our own records, as the harness writes them: key order, names, and framing by format.

A `Draft` is a record without seq and time, which the session gives when it appends. What stands in
an existing record (a result that is pruned, blocks that nobody interprets) is carried over byte for
byte. Optional fields that are None are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from dsh_compact.codec import wire
from dsh_compact.events import (
    Append,
    Block,
    Failure,
    Op,
    Opaque,
    Reasoning,
    Replace,
    Sources,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)

CHECKPOINT_OPENING: Final = "\n\n<compacted-summary>"
CHECKPOINT_CLOSING: Final = "</compacted-summary>"

_SYSTEM_PLUGIN: Final = {"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt"}


class Draft(Struct, frozen=True, kw_only=True):
    """A record that has no place in a log yet; made by the functions of this module."""

    type: str
    data: Any
    op: Op | None = None
    sources: Sources = ()
    ignorable: bool = False

    def line(self, seq: int, time_ms: int, version: int) -> bytes:
        """The record without its newline, as a log of format `version` has it."""
        record: dict[str, Any] = {"type": self.type, "seq": seq, "time": time_ms, "data": self.data}
        if self.sources:
            record["sourceEventSeqs"] = list(self.sources)
        match self.op:
            case Append():
                record["surfaceOp"] = "append"
            case Replace(start_seq=start, end_seq=end):
                names = ("start", "end") if version == 0 else ("startSeq", "endSeq")
                record["surfaceOp"] = {"op": "replace", names[0]: start, names[1]: end}
        if self.ignorable:
            record["ignorable"] = True
        return wire.dump(record)


# Turns and steps ----------------------------------------------------------------------------------


def turn_start(turn: int) -> Draft:
    """A turn begins."""
    return Draft(type="turn/start", data={"turn": turn})


def turn_end(turn: int, reason: str, failure: Failure | None = None) -> Draft:
    """A turn ends, as `reason` says."""
    kind: dict[str, Any] = {"kind": reason}
    if failure is not None:
        kind["error"] = _failure(failure)
    return Draft(type="turn/end", data={"turn": turn, "reason": kind})


def step_start(turn: int, step: int) -> Draft:
    """A step begins."""
    return Draft(type="step/start", data={"turn": turn, "step": step})


def step_end(turn: int, step: int) -> Draft:
    """A step ends."""
    return Draft(type="step/end", data={"turn": turn, "step": step})


def request_failed(turn: int, step: int, failure: Failure, time_ms: int, version: int) -> Draft:
    """A failed request: an attempt with its stream, in format 0 the stream's last chunk."""
    chunk = {"type": "finish", "reason": {"kind": "error", "failure": _failure(failure)}}
    data: dict[str, Any] = {"turn": turn, "step": step}
    if version == 0:
        return Draft(type="assistant/chunk", data={**data, "chunk": chunk})
    stream = [{"type": "chunk", "time": time_ms, "chunk": chunk}]
    return Draft(type="assistant/attempt", data={**data, "stream": stream})


def _failure(failure: Failure) -> dict[str, Any]:
    facts = {"message": failure.message, "code": failure.code, "status": failure.status}
    return {name: fact for name, fact in facts.items() if fact is not None}


def request_header(
    provider: str,
    model: str,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    max_tokens: int | None = None,
    system: str | None = None,
    reason: str = "initial",
) -> Draft:
    """What every later request carries: whom it goes to, its tools, the answer's bound.

    `system` is format 0's prompt; later formats have a message for it.
    """
    config: dict[str, Any] = {"provider": provider, "model": model}
    if max_tokens is not None:
        config["maxTokens"] = max_tokens
    header: dict[str, Any] = {"config": config}
    if system:
        header["system"] = system
    if tools:  # the harness refuses an empty list
        header["tools"] = [dict(tool) for tool in tools]
    return Draft(type="request/header", data={"header": header, "reason": reason})


def request_context(provider: str, model: str, window_tokens: int | None = None) -> Draft:
    """The model that later requests reach, and its window where it is known."""
    data: dict[str, Any] = {"provider": provider, "model": model}
    if window_tokens is not None:
        data["contextWindow"] = window_tokens
    return Draft(type="request/context", data=data)


# Messages -----------------------------------------------------------------------------------------


def system_message(
    turn: int, step: int, blocks: Sequence[Block], message_id: str, *, version: int
) -> Draft:
    """The system prompt at the surface's head (formats 3 and 4); without blocks it says nothing."""
    source = {"kind": "system-prompt"} if version == 4 else _SYSTEM_PLUGIN
    message = {
        "role": "system",
        "content": [_block(block) for block in blocks],
        "source": source,
        "id": message_id,
    }
    return Draft(
        type="system/message", data={"turn": turn, "step": step, "message": message}, op=Append()
    )


def user_message(
    blocks: Sequence[Block], message_id: str, source: Mapping[str, Any] | None = None
) -> Draft:
    """A user's message at the end of the surface."""
    return Draft(
        type="user/message",
        data={
            "content": [_block(block) for block in blocks],
            "source": dict(source or {"kind": "user"}),
            "role": "user",
            "id": message_id,
        },
        op=Append(),
    )


def assistant_message(
    turn: int,
    step: int,
    blocks: Sequence[Block],
    message_id: str,
    *,
    provider: str,
    model: str,
    version: int,
    usage: Usage | None = None,
) -> Draft:
    """An answer at the end of the surface; formats 3 and 4 want a stream, which we do not have."""
    data: dict[str, Any] = {
        "turn": turn,
        "step": step,
        "message": {
            "role": "assistant",
            "content": [_block(block) for block in blocks],
            "source": {"kind": "model", "provider": provider, "model": model},
            "id": message_id,
        },
    }
    if usage is not None:
        data["usage"] = _usage(usage)
    if version > 0:
        data["stream"] = []
    return Draft(type="assistant/message", data=data, op=Append())


def tool_call(turn: int, step: int, call: ToolCall) -> Draft:
    """The harness begins to run a call."""
    return Draft(
        type="tool/call",
        data={
            "turn": turn,
            "step": step,
            "callId": call.id,
            "name": call.name,
            "arguments": call.arguments,
        },
    )


def tool_result(
    turn: int,
    step: int,
    call_id: str,
    blocks: Sequence[Block],
    message_id: str,
    *,
    version: int,
    sources: Sequence[int] = (),
    is_error: bool = False,
    error: Mapping[str, str] | None = None,
) -> Draft:
    """What a call gave, at the end of the surface; `sources` name its `tool/call`."""
    content = [_block(block) for block in blocks]
    message: dict[str, Any]
    if version == 4:
        message = {
            "role": "tool",
            "source": {"kind": "tool", "callId": call_id},
            "toolCallId": call_id,
            "content": content,
            "isError": is_error,
            "id": message_id,
        }
    else:
        wrapped = {
            "type": "tool-result",
            "toolCallId": call_id,
            "content": content,
            "isError": is_error,
        }
        message = {
            "source": {"kind": "tool", "callId": call_id},
            "content": [wrapped],
            "role": "user",
            "id": message_id,
        }
    data: dict[str, Any] = {"turn": turn, "step": step, "message": message}
    if error is not None:
        data["error"] = dict(error)
    return Draft(type="tool/result", data=data, op=Append(), sources=tuple(sources))


NOT_STARTED_CODE: Final = "TOOL_NOT_STARTED"
OUTCOME_UNKNOWN_CODE: Final = "TOOL_OUTCOME_UNKNOWN"
INTERRUPTED_ID: Final = "interrupted-tool-result-"
"""How the harness marks a result that no tool gave: its error's code, and how its id begins."""

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


def interrupted_result(
    turn: int, step: int, call_id: str, started_seq: int | None, seq: int, version: int
) -> Draft:
    """What the harness writes, as event `seq`, for a call that a crash left without its result.

    `started_seq` is that of the call's `tool/call`, None where it never began.
    """
    started = started_seq is not None
    unknown = {"name": "ToolOutcomeUnknownError", "code": OUTCOME_UNKNOWN_CODE}
    return tool_result(
        turn,
        step,
        call_id,
        (Text(text=OUTCOME_UNKNOWN if started else NOT_STARTED),),
        f"{INTERRUPTED_ID}{call_id}-{seq}",
        version=version,
        sources=() if started_seq is None else (started_seq,),
        is_error=True,
        error=unknown if started else {"name": "ToolNotStartedError", "code": NOT_STARTED_CODE},
    )


# A compaction -------------------------------------------------------------------------------------


def compaction_start(
    compaction_id: str,
    turn: int | None,
    *,
    tried: tuple[int, int] | None = None,
    backend: str | None = None,
) -> Draft:
    """A bracket opens; `turn` is the open turn's number, None between turns.

    `tried` are the ends of the span and `backend` who tries: further keys, which a harness ignores.
    """
    data: dict[str, Any] = {"compactionId": compaction_id, "turn": turn}
    if tried is not None:
        data["shadowedRange"] = {"start": tried[0], "end": tried[1]}
    if backend is not None:
        data["backend"] = backend
    return Draft(type="compaction/start", data=data)


def compaction_end(compaction_id: str, turn: int | None, error: str | None = None) -> Draft:
    """The bracket closes; `error` says why the attempt failed."""
    data: dict[str, Any] = {"compactionId": compaction_id, "turn": turn}
    if error is not None:
        data["error"] = error
    return Draft(type="compaction/end", data=data)


def compaction_summary(
    compaction_id: str,
    summary: Sequence[Block],
    shadowed_seqs: Sequence[int],
    shadowed_tokens: int,
    *,
    provider: str,
    model: str,
    max_tokens: int | None = None,
    usage: Usage | None = None,
) -> Draft:
    """The summary that the very next record puts on the surface."""
    data: dict[str, Any] = {
        "compactionId": compaction_id,
        "summary": [_block(block) for block in summary],
        "shadowedRange": {"start": shadowed_seqs[0], "end": shadowed_seqs[-1]},
        "shadowedSeqs": list(shadowed_seqs),
        "shadowedTokenCount": shadowed_tokens,
        "provider": provider,
        "model": model,
    }
    if max_tokens is not None:
        data["maxTokens"] = max_tokens
    if usage is not None:
        data["usage"] = _usage(usage)
    return Draft(type="compaction/summary", data=data)


def checkpoint_blocks(preamble: str, summary: Sequence[Block]) -> tuple[Block, ...]:
    """The content of the message that replaces a span: preamble, summary, closing mark."""
    return (
        Text(text=preamble + CHECKPOINT_OPENING),
        *summary,
        Text(text=CHECKPOINT_CLOSING),
    )


def checkpoint_source(compaction_id: str, *, version: int) -> dict[str, Any]:
    """How a checkpoint of format `version` says where it comes from."""
    if version == 4:
        return {"kind": "compact-checkpoint", "compactionId": compaction_id}
    return {"kind": "plugin", "plugin": "compact", "compactionId": compaction_id}


def checkpoint(
    compaction_id: str,
    content: Sequence[Block],
    message_id: str,
    shadowed_seqs: Sequence[int],
    bracket_seqs: Sequence[int],
    *,
    version: int,
) -> Draft:
    """The message that replaces `shadowed_seqs`; `bracket_seqs`: those of its start and summary."""
    draft = user_message(content, message_id, checkpoint_source(compaction_id, version=version))
    return Draft(
        type=draft.type,
        data=draft.data,
        op=Replace(shadowed_seqs[0], shadowed_seqs[-1]),
        sources=(*bracket_seqs, *shadowed_seqs),
    )


def compaction_prune(seq: int, shadowed_tokens: int) -> Draft:
    """The price of the tool result that the very next record replaces."""
    return Draft(
        type="compaction/prune",
        data={
            "shadowedRange": {"start": seq, "end": seq},
            "shadowedSeqs": [seq],
            "shadowedTokenCount": shadowed_tokens,
        },
    )


def pruned_result(line: bytes, content: Sequence[Block]) -> Draft:
    """The tool result in `line` with other content and nothing else changed, replacing it."""
    record = wire.load(line)
    data = record["data"]
    shorter = [_block(block) for block in content]
    match data["message"]["content"]:
        case [{"type": "tool-result"} as block]:
            block["content"] = shorter
        case _:
            data["message"]["content"] = shorter
    seq = record["seq"]
    return Draft(type="tool/result", data=data, op=Replace(seq, seq), sources=(seq,))


# The log itself -----------------------------------------------------------------------------------


def end_seed() -> Draft:
    """Everything before came from an earlier process, which holds nothing any more."""
    return Draft(type="session/end-seed", data={})


def session_header(
    session_id: str, created_at_ms: int, version: int, cwd: str | None = None
) -> bytes:
    """The first line of a new log, without its newline."""
    header: dict[str, Any] = {
        "type": "session",
        "version": version,
        "id": session_id,
        "createdAt": created_at_ms,
    }
    if cwd is not None:
        header["cwd"] = cwd
    if version > 0:
        header["isSeeded"] = False
    header["delegationDepth"] = 0
    return wire.dump(header)


def _block(block: Block) -> Any:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Reasoning():
            return {"type": "reasoning", "text": block.text}
        case ToolCall():
            return {
                "type": "tool-call",
                "id": block.id,
                "name": block.name,
                "arguments": block.arguments,
            }
        case ToolResult():
            return {
                "type": "tool-result",
                "toolCallId": block.call_id,
                "content": [_block(inner) for inner in block.content],
                "isError": block.is_error,
            }
        case Opaque():
            return wire.Fragment(block.json)


def _usage(usage: Usage) -> dict[str, int]:
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
    }
    told = {
        name: count
        for name, count in counts.items()
        if count or name in ("inputTokens", "outputTokens")
    }
    return {**told, "totalTokens": usage.total_tokens}
