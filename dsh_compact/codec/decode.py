"""One record in full: the bytes of a line in, one event out, or `RuleBroken` with the reason.

`decode` gives the event that a line is, a surface event as its change to the surface;
`decode_surface_event` gives the message too, `decode_request_header` what stands before the
conversation. They check what one record can tell; what depends on earlier records is the surface's
business and the session's.
"""

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import UNSET, Raw, UnsetType

from dsh_compact.codec import wire
from dsh_compact.codec.identity import Identity
from dsh_compact.codec.types import KNOWN_TYPES, PACKED_TYPES, SURFACE_KINDS
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import (
    APPEND,
    FORMATS,
    NOWHERE,
    Block,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    EndSeed,
    Event,
    Failure,
    Header,
    Kind,
    Message,
    Op,
    Opaque,
    Other,
    Place,
    Reasoning,
    Replace,
    RequestContext,
    RequestFailed,
    RequestHeader,
    SessionHeader,
    Sources,
    StepEnd,
    StepStart,
    SurfaceChange,
    SurfaceEvent,
    Text,
    ToolCall,
    ToolCallStarted,
    ToolResult,
    TurnEnd,
    TurnStart,
    Usage,
)

_ROW_SEQ: Final = b'"seq0"'
_ROW_HEAD_BYTES: Final = 64
"""Where a packed row shows that it is one."""

MAX_TOKENS: Final = 2**53
"""Largest count that is believed, the largest whole number that JavaScript writes exactly."""


def decode_header(line: bytes, *, strict: bool = False) -> SessionHeader:
    """The first record of a log; `strict` checks every byte, also of what nobody needs.

    Raises `RuleBroken`: header-missing, header-wrong, unsupported-format; not-utf8 where strict.
    """
    try:
        header = wire.read(line, wire.SessionHeader)
    except RuleBroken as fault:
        is_ours = line.startswith(b"{") and b'"session"' in line[:64]
        if is_ours and fault.damage is Damage.RECORD_WRONG:
            raise RuleBroken(Damage.HEADER_WRONG, f"the header: {fault.problem}") from None
        raise _no_header(line) from None
    if header.type != "session":
        raise _no_header(line)
    if header.version not in FORMATS:
        raise RuleBroken(
            Damage.UNSUPPORTED_FORMAT,
            f"format {header.version} is not supported: only 0, 3 and 4 were ever released",
        )
    if strict:
        wire.load(line)
    return SessionHeader(
        version=header.version,
        id=header.id,
        created_at_ms=None if header.created_at is None else int(header.created_at),
        cwd=header.cwd,
        is_seeded=header.is_seeded,
        has_parent=header.parent_session is not UNSET,
    )


def _no_header(line: bytes) -> RuleBroken:
    """What the first record is instead."""
    try:
        value = wire.load(line)
        kind = value.get("type") if isinstance(value, dict) else None
        is_text = isinstance(kind, str)
        problem = f"it is of type {kind!r:.60}" if is_text else "it is no object with a type"
    except RuleBroken as fault:
        problem = fault.problem
    return RuleBroken(Damage.HEADER_MISSING, f"the first record is no session header: {problem}")


def decode(line: bytes, version: int, place: Place = NOWHERE) -> Event:
    """The event in one line of a log of format `version`, its record at `place`."""
    if version == 0 and _ROW_SEQ in line[:_ROW_HEAD_BYTES] and (row := _row(line)):
        return _packed_row(row)
    try:
        record = wire.read(line, wire.Record)
    except RuleBroken as fault:
        if version == 0 and fault.damage is Damage.RECORD_WRONG and _ROW_SEQ in line:
            return _packed_row(wire.read(line, wire.PackedRow))
        raise
    if bytes(memoryview(_data(record))[:1]) != b"{":
        raise RuleBroken(Damage.RECORD_WRONG, f"the data of {record.type} is no object", record.seq)
    kind = SURFACE_KINDS[version].get(record.type)
    if kind is not None:
        return _surface_change(line, record, version, kind, place)
    if record.surface_op is not UNSET:
        raise _surface_op_forbidden(record.type, record.seq)
    if record.type == "request/header":
        return RequestHeader(record.seq, place)
    reader = _READERS.get(record.type)
    if reader is None or record.type not in KNOWN_TYPES[version]:
        return _other(record, version)
    try:
        return reader(record)
    except RuleBroken as fault:
        raise RuleBroken(fault.damage, f"{record.type}: {fault.problem}", record.seq) from None


def decode_surface_event(line: bytes, version: int) -> SurfaceEvent:
    """A surface event with its message; raises `RuleBroken` where the line holds none."""
    record = wire.read(line, wire.Record)
    kind = SURFACE_KINDS[version].get(record.type)
    if kind is None:
        raise RuleBroken(Damage.RECORD_WRONG, f"{record.type} is no surface event", record.seq)
    op = _op(record, version)
    try:
        if kind == "user":
            step = wire.MessageData(message=_data(record))
        else:
            step = wire.read(_data(record), wire.MessageData)
        message = _message(step.message)
    except RuleBroken as fault:
        raise RuleBroken(fault.damage, f"{record.type}: {fault.problem}", record.seq) from None
    return SurfaceEvent(
        seq=record.seq,
        time_ms=int(record.time),
        kind=kind,
        op=op,
        sources=_sources(record),
        message=message,
        turn=step.turn,
        step=step.step,
        usage=_usage(step.usage),
    )


def decode_request_header(line: bytes) -> Header:
    """What stands before the conversation in every request, from a `request/header` line."""
    record = wire.read(line, wire.Record)
    try:
        outer = wire.read(_data(record), dict[str, Any]).get("header")
        header = wire.convert(outer, wire.RequestHeader)
    except RuleBroken as fault:
        raise RuleBroken(fault.damage, f"request/header: {fault.problem}", record.seq) from None
    tools = wire.dump(header.tools) if header.tools else None
    return Header(
        provider=header.config.provider,
        model=header.config.model,
        max_tokens=header.config.max_tokens,
        system=header.system,
        tools_json=tools,
        tools_length=0 if tools is None else wire.utf16_length(tools.decode()),
        identity=wire.dump_sorted(outer),
    )


def content_json(line: bytes, kind: Kind) -> Any:
    """A message's content as plain JSON values, with all that we do not interpret."""
    data = wire.load(line)["data"]
    return (data if kind == "user" else data["message"]).get("content", [])


# The envelope -----------------------------------------------------------------------------------


def _surface_change(
    line: bytes, record: wire.Record, version: int, kind: Kind, place: Place
) -> SurfaceChange:
    op = _op(record, version)
    if op is APPEND:
        return SurfaceChange(record.seq, kind, op, (), place)
    identity = Identity(line) if kind == "tool" else None
    return SurfaceChange(record.seq, kind, op, _sources(record), place, identity)


def _op(record: wire.Record, version: int) -> Op:
    value = record.surface_op
    if value == "append":
        return APPEND
    if value is UNSET:
        raise RuleBroken(
            Damage.SURFACE_OP_MISSING, f"{record.type} carries no surfaceOp", record.seq
        )
    try:
        op = wire.convert(value, wire.ReplaceOp)
    except RuleBroken:
        op = wire.ReplaceOp(op="")
    ends = (op.start, op.end) if version == 0 else (op.start_seq, op.end_seq)
    if op.op != "replace" or ends[0] is None or ends[1] is None:
        raise RuleBroken(
            Damage.SURFACE_OP_WRONG,
            f"{record.type} carries a surfaceOp that is neither append nor a replace of format"
            f" {version}",
            record.seq,
        )
    return Replace(ends[0], ends[1])


def _sources(record: wire.Record) -> Sources:
    entries = record.source_event_seqs
    return () if entries is UNSET else read_sources(entries, record.seq)


def read_sources(entries: list[int | list[int]], seq: int | None) -> Sources:
    """What `entries` name, as they name it; raises `RuleBroken` where one is no range."""
    if list not in map(type, entries):
        return cast("Sources", tuple(entries))
    for entry in entries:
        if isinstance(entry, list) and (len(entry) != 2 or entry[0] > entry[1]):
            raise RuleBroken(
                Damage.RECORD_WRONG, f"sourceEventSeqs holds {entry}, which is no range", seq
            )
    return tuple(one if isinstance(one, int) else (one[0], one[1]) for one in entries)


def _data(record: wire.Record) -> Raw:
    if isinstance(record.data, Raw):
        return record.data
    raise RuleBroken(Damage.RECORD_WRONG, f"{record.type} has no data", record.seq)


def _other(record: wire.Record, version: int) -> Other:
    known = record.type in KNOWN_TYPES[version]
    return Other(record.seq, record.type, 1, known, record.ignorable)


def _surface_op_forbidden(kind: str, seq: int) -> RuleBroken:
    return RuleBroken(
        Damage.SURFACE_OP_FORBIDDEN, f"{kind} is no surface event and must not carry surfaceOp", seq
    )


def _row(line: bytes) -> wire.PackedRow | None:
    """A packed row, seen at a glance; None where the line must be asked what it is."""
    try:
        row = wire.read(line, wire.PackedRow)
    except RuleBroken:
        return None
    return row if row.seq is UNSET else None


def _packed_row(row: wire.PackedRow) -> Other:
    pieces = row.data.args if row.data.texts is None else row.data.texts
    if row.type not in PACKED_TYPES or pieces is None or not pieces:
        raise RuleBroken(Damage.RECORD_WRONG, f"{row.type} is no packed row", row.seq0)
    if row.surface_op is not UNSET:
        raise _surface_op_forbidden(row.type, row.seq0)
    if len(row.data.dt) != len(pieces) - 1:
        raise RuleBroken(
            Damage.PACKED_ROW_UNEQUAL,
            f"{row.type} holds {len(pieces)} pieces but {len(row.data.dt)} times between them",
            row.seq0,
        )
    return Other(row.seq0, row.type, len(pieces), True, False)


# Messages ---------------------------------------------------------------------------------------

_KNOWN_BLOCKS: Final = frozenset({"text", "reasoning", "tool-call"})


def _message(raw: Raw | Any) -> Message:
    if raw is UNSET:
        raise RuleBroken(Damage.RECORD_WRONG, "there is no message")
    try:
        if (message := message_of(wire.read(raw, wire.Message))) is not None:
            return message
    except RuleBroken as fault:
        if fault.damage is not Damage.RECORD_WRONG:
            raise
    shaped = wire.read(raw, wire.RawMessage)
    return _envelope(shaped, tuple(map(_block_of_any_kind, shaped.content)))


def message_of(shaped: wire.Message) -> Message | None:
    """The message; None where a block is of a kind that nobody has listed."""
    content = _known_blocks(shaped.content)
    return None if content is None else _envelope(shaped, content)


def _known_blocks(shaped: list[wire.Block]) -> tuple[Block, ...] | None:
    blocks: list[Block] = []
    for one in shaped:
        block = _block(one)
        if block is None:
            return None
        blocks.append(block)
    return tuple(blocks)


def _envelope(shaped: "wire.Message | wire.RawMessage", content: tuple[Block, ...]) -> Message:
    source = shaped.source or wire.Source()
    return Message(
        role=shaped.role,
        content=content,
        id=shaped.id,
        source_kind=source.kind,
        call_id=source.call_id or shaped.tool_call_id,
        compaction_id=source.compaction_id,
        is_error=shaped.is_error,
    )


def _block(block: wire.Block) -> Block | None:
    match block.type:
        case "text":
            return Text(text=block.text)
        case "reasoning":
            return Reasoning(text=block.text)
        case "tool-call":
            return ToolCall(id=block.id, name=block.name, arguments=block.arguments)
        case "tool-result":
            inner = () if block.content is UNSET else _known_blocks(block.content)
            if inner is None:
                return None
            return ToolResult(call_id=block.tool_call_id, content=inner, is_error=block.is_error)
        case _:
            return None


def _block_of_any_kind(raw: Raw) -> Block:
    """A block whose kind, or whose content's kind, nobody has listed."""
    value = wire.load(bytes(raw))
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise RuleBroken(Damage.RECORD_WRONG, "a content block has no type")
    if kind == "tool-result":
        block = wire.read(raw, wire.RawBlock)
        content = tuple(map(_block_of_any_kind, block.content))
        return ToolResult(call_id=block.tool_call_id, content=content, is_error=block.is_error)
    if kind in _KNOWN_BLOCKS and (known := _block(wire.convert(value, wire.Block))):
        return known
    length = wire.utf16_length(wire.dump(value).decode())
    return Opaque(kind=kind, json=bytes(raw), length=length)


# Events beside the surface ------------------------------------------------------------------------


def _usage(usage: wire.Usage | None) -> Usage | None:
    if usage is None:
        return None
    counts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens or 0,
        usage.cache_write_tokens or 0,
    )
    if not all(0 <= count <= MAX_TOKENS for count in counts):
        return None
    return Usage(
        input_tokens=counts[0],
        output_tokens=counts[1],
        cache_read_tokens=counts[2],
        cache_write_tokens=counts[3],
    )


def _failure(failure: wire.Failure | None) -> Failure | None:
    if failure is None:
        return None
    code = None if failure.code is None else str(failure.code)
    return Failure(message=failure.message, code=code, status=failure.status)


def _whole(value: int | None, name: str) -> int:
    if value is None:
        raise RuleBroken(Damage.RECORD_WRONG, f"there is no {name}")
    return value


def _step_data(record: wire.Record) -> wire.StepData:
    return wire.read(_data(record), wire.StepData)


def _turn_start(record: wire.Record) -> Event:
    turn = _whole(_step_data(record).turn, "turn")
    return TurnStart(seq=record.seq, time_ms=int(record.time), turn=turn)


def _turn_end(record: wire.Record) -> Event:
    data = _step_data(record)
    reason = data.reason or wire.Reason()
    return TurnEnd(
        seq=record.seq,
        time_ms=int(record.time),
        turn=_whole(data.turn, "turn"),
        reason=reason.kind,
        failure=_failure(reason.error),
    )


def _step_start(record: wire.Record) -> Event:
    data = _step_data(record)
    return StepStart(record.seq, _whole(data.turn, "turn"), _whole(data.step, "step"))


def _step_end(record: wire.Record) -> Event:
    data = _step_data(record)
    return StepEnd(record.seq, _whole(data.turn, "turn"), _whole(data.step, "step"))


def _request_context(record: wire.Record) -> Event:
    data = wire.read(_data(record), wire.RequestContext)
    return RequestContext(
        seq=record.seq,
        provider=data.provider,
        model=data.model,
        window_tokens=data.context_window,
    )


def _attempt(record: wire.Record) -> Event:
    data = _step_data(record)
    chunks = (item.chunk for item in reversed(data.stream or ()) if item.chunk is not None)
    return _failed(record, data, next(chunks, None))


def _chunk(record: wire.Record) -> Event:
    data = _step_data(record)
    return _failed(record, data, data.chunk)


def _failed(record: wire.Record, data: wire.StepData, chunk: wire.Chunk | None) -> Event:
    reason = chunk.reason if chunk is not None and chunk.type == "finish" else None
    failure = _failure(reason.failure) if reason is not None and reason.kind == "error" else None
    if failure is None:
        return Other(record.seq, record.type, 1, True, record.ignorable)
    return RequestFailed(
        seq=record.seq,
        time_ms=int(record.time),
        turn=_whole(data.turn, "turn"),
        step=_whole(data.step, "step"),
        failure=failure,
    )


def _tool_call(record: wire.Record) -> Event:
    data = _step_data(record)
    return ToolCallStarted(
        seq=record.seq,
        turn=_whole(data.turn, "turn"),
        step=_whole(data.step, "step"),
        call_id=data.call_id,
        name=data.name,
        arguments=data.arguments,
    )


def _compaction_start(record: wire.Record) -> Event:
    data = wire.read(_data(record), wire.Compaction)
    tried = data.shadowed_range
    return CompactionStart(
        seq=record.seq,
        time_ms=int(record.time),
        compaction_id=data.compaction_id,
        turn=data.turn,
        start_seq=None if tried is None else tried.start,
        end_seq=None if tried is None else tried.end,
        backend=data.backend,
    )


def _compaction_end(record: wire.Record) -> Event:
    data = wire.read(_data(record), wire.Compaction)
    return CompactionEnd(
        seq=record.seq,
        time_ms=int(record.time),
        compaction_id=data.compaction_id,
        turn=data.turn,
        error=data.error,
    )


def _compaction_summary(record: wire.Record) -> Event:
    data = wire.read(_data(record), wire.Compaction)
    start, end = _range(data)
    return CompactionSummary(
        seq=record.seq,
        time_ms=int(record.time),
        compaction_id=data.compaction_id,
        start_seq=start,
        end_seq=end,
        shadowed_seqs=tuple(data.shadowed_seqs),
        shadowed_tokens=_whole_count(data.shadowed_token_count),
        provider=data.provider,
        model=data.model,
        max_tokens=data.max_tokens,
        usage=_usage(data.usage),
    )


def _compaction_prune(record: wire.Record) -> Event:
    data = wire.read(_data(record), wire.Compaction)
    start, end = _range(data)
    return CompactionPrune(
        seq=record.seq,
        time_ms=int(record.time),
        start_seq=start,
        end_seq=end,
        shadowed_seqs=tuple(data.shadowed_seqs),
        shadowed_tokens=_whole_count(data.shadowed_token_count),
    )


def _range(data: wire.Compaction) -> tuple[int, int]:
    if data.shadowed_range is None:
        raise RuleBroken(Damage.RECORD_WRONG, "there is no shadowedRange")
    return data.shadowed_range.start, data.shadowed_range.end


def _whole_count(value: float | UnsetType) -> int | None:
    """A count as it stands there; None where there is none, or no whole one."""
    return int(value) if value is not UNSET and value % 1 == 0 else None


def _end_seed(record: wire.Record) -> Event:
    return EndSeed(record.seq)


_READERS: Final[dict[str, Callable[[wire.Record], Event]]] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _step_end,
    "request/context": _request_context,
    "assistant/attempt": _attempt,
    "assistant/chunk": _chunk,
    "tool/call": _tool_call,
    "compaction/start": _compaction_start,
    "compaction/summary": _compaction_summary,
    "compaction/prune": _compaction_prune,
    "compaction/end": _compaction_end,
    "session/end-seed": _end_seed,
}
"""How the events that matter are read, by their type on disk."""
