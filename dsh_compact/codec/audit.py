"""One record as a judge wants it: its event, the facts that other records depend on, all its
faults.

`decode` stops at the first fault and reads no more than a fold needs; an audit goes on and reads
every byte. What decoding refuses is always among the faults, so a log that audits clean decodes.
What depends on earlier records is judged elsewhere.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct, structs

from dsh_compact.codec import shapes, splice, wire
from dsh_compact.codec.decode import decode, decode_request_header, decode_surface_event
from dsh_compact.codec.shapes import Json, Wrong
from dsh_compact.codec.types import KNOWN_TYPES, PACKED_TYPES, SURFACE_KINDS
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import (
    FORMATS,
    NOWHERE,
    Event,
    Other,
    Place,
    SessionHeader,
    SurfaceEvent,
    ToolCall,
)

# What other records depend on -------------------------------------------------------------------


class Title(Struct, frozen=True, kw_only=True):
    """A title, or the request for one: what it cites; `by_user` where a human gave it."""

    message_seqs: tuple[int, ...]
    by_user: bool
    is_request: bool


class Delivery(Struct, frozen=True, kw_only=True):
    """What the provider's side has accepted of which session."""

    session_id: str
    through_seq: int


class Command(Struct, frozen=True, kw_only=True):
    """A command runs, or is done."""

    command_id: str
    is_done: bool
    source_seq: int | None


class Retry(Struct, frozen=True, kw_only=True):
    """A request is to be made again, or is being made again."""

    retry_id: str
    number: int
    is_started: bool
    policy: tuple[str, str]


class Dispatch(Struct, frozen=True, kw_only=True):
    """A call inside a call starts, or is settled; `identity` is what both must agree in."""

    call_id: str
    parent_id: str
    root_id: str
    is_start: bool
    identity: bytes


class Seed(Struct, frozen=True, kw_only=True):
    """An end-seed, and whether it ends the part that another session bequeathed."""

    inherited: bool


class Owner(Struct, frozen=True, kw_only=True):
    """Which command a compaction's event says it belongs to."""

    command_id: str | None


class Definer(Struct, frozen=True, kw_only=True):
    """A developer message that speaks of the tools of an earlier request header."""

    header_seq: int


class Route(Struct, frozen=True, kw_only=True):
    """Whom the requests go to from here on."""

    provider: str


class Splice(Struct, frozen=True, kw_only=True):
    """The list of waiting messages `target` changes: some leave, others come in their place."""

    target: str
    start: int
    removed_count: int
    inserted_ids: tuple[str, ...]


class Catalogued(Struct, frozen=True, kw_only=True):
    """A child session enters the catalogue."""

    child_id: str


Detail: TypeAlias = (
    Title
    | Delivery
    | Command
    | Retry
    | Dispatch
    | Seed
    | Owner
    | Definer
    | Route
    | Splice
    | Catalogued
    | None
)


class Audited(Struct, frozen=True, kw_only=True):
    """A record, read to the last byte.

    `seq` is None where it claims none; `claimed_seq` is what it claimed before it was renumbered;
    `count` is how many seqs it stands for. `event` is None where the record cannot take part in any
    fold, `message` where it is no surface event or its message cannot be read. `line` counts from
    1.
    """

    line: int
    place: Place
    type: str = ""
    seq: int | None = None
    claimed_seq: int | None = None
    count: int = 1
    time_ms: int | None = None
    turn: int | None = None
    step: int | None = None
    event: Event | None = None
    message: SurfaceEvent | None = None
    calls: tuple[ToolCall, ...] = ()
    answered: str | None = None
    source_kind: str | None = None
    error_code: str | None = None
    detail: Detail = None
    faults: tuple[Wrong, ...] = ()

    def slim(self) -> "Audited":
        """The same without what is large: for those who keep many."""
        return structs.replace(self, event=None, message=None, detail=None, faults=())


def audit(line: bytes, version: int, number: int, place: Place = NOWHERE) -> Audited:
    """The record in `line`, the log's line `number`; raises nothing, whatever the bytes."""
    try:
        value = wire.load(line)
    except RuleBroken as fault:
        problem = "the line is empty" if not line else fault.problem
        return Audited(line=number, place=place, faults=((fault.damage, problem),))
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        wrong = (Damage.RECORD_WRONG, "the record is no object with a type")
        return Audited(line=number, place=place, faults=(wrong,))
    seq = value.get("seq0" if version == 0 and kind in PACKED_TYPES else "seq")
    if not shapes.is_count(seq):
        wrong = (Damage.RECORD_WRONG, f"{kind:.60} has no seq")
        return Audited(line=number, place=place, type=kind, faults=(wrong,))
    return _audit_record(line, value, version, number, place)


def audit_as_harness(line: bytes, version: int, number: int, place: Place = NOWHERE) -> Audited:
    """The same, where what is no UTF-8 is read as the harness does: that is no fault then."""
    record = audit(line, version, number, place)
    if dict(record.faults).get(Damage.NOT_UTF8) is None:
        return record
    return audit(splice.as_utf8(line), version, number, place)


def audit_header(line: bytes) -> tuple[SessionHeader | None, int | None, list[Wrong]]:
    """The first record: its header where one can be told, its claimed version, all its faults."""
    from dsh_compact.codec.decode import decode_header

    try:
        header = decode_header(line)
    except RuleBroken as fault:
        return None, None, [(fault.damage, fault.problem)]
    faults: list[Wrong] = []
    value = _caught(faults, wire.load, line)
    if value is not None:
        faults += shapes.check_header(value, header.version)
    return header, header.version, faults


def _audit_record(line: bytes, value: Json, version: int, number: int, place: Place) -> Audited:
    kind: str = value["type"]
    faults: list[Wrong] = []
    event = _caught(faults, decode, line, version, place)
    if version == 0 and kind in PACKED_TYPES:
        return _packed(value, number, place, event, faults)
    envelope = shapes.check_envelope(value, version)
    data, seq = value.get("data"), value["seq"]
    if not isinstance(data, dict):
        told = _sorted_out(faults, envelope)
        return Audited(line=number, place=place, type=kind, seq=seq, claimed_seq=seq, faults=told)
    message = None
    if kind in SURFACE_KINDS[version]:
        faults += shapes.check_sources(value)
        faults += shapes.check_message(value, version)
        message = _caught(faults, decode_surface_event, line, version)
    elif kind in KNOWN_TYPES[version]:
        if version == 4:
            faults += shapes.check_data(value)
    elif isinstance(event, Other) and not event.ignorable:
        problem = f"the type {kind!r:.80} is unknown, and not ignorable"
        faults.append((Damage.UNKNOWN_EVENT, problem))
    detail = _caught(faults, _DETAILS[kind], line, data, kind) if kind in _DETAILS else None
    is_result, is_answer = kind == "tool/result", kind == "assistant/message"
    return Audited(
        line=number,
        place=place,
        type=kind,
        seq=seq,
        claimed_seq=seq,
        time_ms=_whole(value.get("time")),
        turn=_whole(data.get("turn")),
        step=_whole(data.get("step")),
        event=event,
        message=message,
        calls=_calls(data) if is_answer else (),
        answered=_answered(data) if is_result else None,
        source_kind=_source_kind(data) if kind == "user/message" else None,
        error_code=_error_code(data) if is_result else None,
        detail=detail,
        faults=_sorted_out(faults, envelope) if faults or envelope else (),
    )


def _packed(
    value: Json, number: int, place: Place, event: Event | None, faults: list[Wrong]
) -> Audited:
    """A row of format 0 that stands for many events."""
    return Audited(
        line=number,
        place=place,
        type=value["type"],
        seq=value["seq0"],
        claimed_seq=value["seq0"],
        count=event.count if isinstance(event, Other) else 1,
        event=event,
        faults=tuple(faults),
    )


def _caught(faults: list[Wrong], read: Callable[..., Any], *given: Any) -> Any:
    """What `read` gives; None where it refuses, and its reason joins the faults."""
    try:
        return read(*given)
    except RuleBroken as fault:
        faults.append((fault.damage, fault.problem))
    except RecursionError:
        faults.append((Damage.TOO_DEEP, "the record is nested too deep to be read"))
    return None


def _sorted_out(faults: list[Wrong], envelope: list[Wrong]) -> tuple[Wrong, ...]:
    """Each code once, with its first reason: several checks may see one fault.

    Where the envelope is right, what decoding refuses is the data.
    """
    told: dict[Damage, str] = dict(reversed(envelope))
    in_data = Damage.RECORD_WRONG not in told
    for damage, problem in faults:
        is_data = in_data and damage is Damage.RECORD_WRONG
        told.setdefault(Damage.DATA_WRONG if is_data else damage, problem)
    if told.keys() & _MORE_PRECISE:
        told.pop(Damage.DATA_WRONG, None)
    return tuple(told.items())


_MORE_PRECISE: Final = frozenset(
    {
        Damage.MESSAGE_WRONG,
        Damage.REQUEST_HEADER_WRONG,
        Damage.SOURCES_REPEATED,
        Damage.TITLE_WRONG,
        Damage.DELIVERY_WRONG,
        Damage.PAIR_BROKEN,
        Damage.INBOX_WRONG,
    }
)
"""Codes that say what a decoder only calls wrong data."""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _content(data: Json) -> list[Json]:
    message = data.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict)]


def _calls(data: Json) -> tuple[ToolCall, ...]:
    """The calls that a message asks for; told even where the rest of it cannot be read."""
    return tuple(
        ToolCall(id=block["id"], name=block["name"], arguments=block["arguments"])
        for block in _content(data)
        if block.get("type") == "tool-call"
        and all(isinstance(block.get(key), str) for key in ("id", "name", "arguments"))
    )


def _answered(data: Json) -> str | None:
    """The call that a result answers; formats 0 and 3 name it in the block around the content."""
    holders = [block for block in _content(data) if block.get("type") == "tool-result"]
    message = data.get("message")
    holder = holders[0] if len(holders) == 1 else message
    call_id = holder.get("toolCallId") if isinstance(holder, dict) else None
    return call_id if isinstance(call_id, str) else None


def _source_kind(data: Json) -> str | None:
    source = data.get("source")
    kind = source.get("kind") if isinstance(source, dict) else None
    return kind if isinstance(kind, str) else None


def _error_code(data: Json) -> str | None:
    error = data.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else None


# Details ----------------------------------------------------------------------------------------


def _seqs(value: Any, damage: Damage, name: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(map(shapes.is_count, value)):
        raise RuleBroken(damage, f"{name} is no list of seqs")
    return tuple(value)


def _text(data: Json, key: str, damage: Damage) -> str:
    value = data.get(key)
    if not shapes.is_text(value):
        raise RuleBroken(damage, f"there is no {key}")
    return str(value)


def _title(_: bytes, data: Json, kind: str) -> Title:
    source = data.get("source")
    if not isinstance(source, dict):
        raise RuleBroken(Damage.TITLE_WRONG, "the title does not say where it comes from")
    return Title(
        message_seqs=_seqs(data.get("messageSeqs"), Damage.TITLE_WRONG, "messageSeqs"),
        by_user=source.get("kind") == "user",
        is_request=kind == "session/title-llm-request",
    )


def _delivery(_line: bytes, data: Json, _kind: str) -> Delivery | None:
    version = data.get("sessionFormatVersion", 0)
    if not shapes.is_count(version):
        raise RuleBroken(Damage.DELIVERY_WRONG, "sessionFormatVersion is no count")
    if version != FORMATS[-1]:
        return None  # another format's seqs, which nobody can check here
    if not shapes.is_count(data.get("throughSeq")):
        raise RuleBroken(Damage.DELIVERY_WRONG, "throughSeq is no seq")
    session_id = _text(data, "sessionId", Damage.DELIVERY_WRONG)
    return Delivery(session_id=session_id, through_seq=data["throughSeq"])


def _command(_: bytes, data: Json, kind: str) -> Command:
    source = data.get("sourceEventSeq")
    return Command(
        command_id=_text(data, "commandId", Damage.PAIR_BROKEN),
        is_done=kind == "command/done",
        source_seq=_whole(source),
    )


_INBOXES: Final = frozenset({"next-turn", "next-step"})


def _splice(_line: bytes, data: Json, _kind: str) -> Splice:
    inserted, removed = data.get("inserted"), data.get("removedCount", 0)
    if not shapes.is_count(data.get("start")) or not shapes.is_count(removed):
        raise RuleBroken(Damage.INBOX_WRONG, "start or removedCount is no count")
    if not isinstance(inserted, list) or not all(isinstance(one, dict) for one in inserted):
        raise RuleBroken(Damage.INBOX_WRONG, "inserted is no list of messages")
    target = _text(data, "target", Damage.INBOX_WRONG)
    if target not in _INBOXES:
        raise RuleBroken(Damage.INBOX_WRONG, f"there is no inbox {target!r:.60}")
    return Splice(
        target=target,
        start=data["start"],
        removed_count=removed,
        inserted_ids=tuple(str(one.get("id")) for one in inserted),
    )


def _retry(_: bytes, data: Json, kind: str) -> Retry:
    if not shapes.is_count(data.get("retry")):
        raise RuleBroken(Damage.PAIR_BROKEN, "retry is no count")
    return Retry(
        retry_id=_text(data, "retryId", Damage.PAIR_BROKEN),
        number=data["retry"],
        is_started=kind == "llm/retry-started",
        policy=(str(data.get("provider")), str(data.get("policyKey"))),
    )


def _dispatch(_: bytes, data: Json, kind: str) -> Dispatch:
    shared = [data.get(key) for key in ("rootCallId", "parentCallId", "name", "arguments")]
    return Dispatch(
        call_id=_text(data, "subCallId", Damage.PAIR_BROKEN),
        parent_id=_text(data, "parentCallId", Damage.PAIR_BROKEN),
        root_id=_text(data, "rootCallId", Damage.PAIR_BROKEN),
        is_start=kind == "tool/ptc-dispatch-start",
        identity=wire.dump_sorted(shared),
    )


def _owner(_line: bytes, data: Json, _kind: str) -> Owner:
    command_id = data.get("sourceCommandId")
    return Owner(command_id=command_id if isinstance(command_id, str) else None)


def _checkpoint(line: bytes, data: Json, kind: str) -> Owner | None:
    source = data.get("source")
    return _owner(line, source, kind) if isinstance(source, dict) else None


def _definer(_line: bytes, data: Json, _kind: str) -> Definer | None:
    seq = _whole(data.get("headerSeq"))
    return None if seq is None else Definer(header_seq=seq)


def _catalogued(_line: bytes, data: Json, _kind: str) -> Catalogued | None:
    child_id = data.get("childId")
    return Catalogued(child_id=child_id) if isinstance(child_id, str) else None


def _route(line: bytes, _data: Json, _kind: str) -> Route:
    return Route(provider=decode_request_header(line).provider)


_DETAILS: Final[dict[str, Callable[[bytes, Json, str], Detail]]] = {
    "request/header": _route,
    "session/title": _title,
    "session/title-llm-request": _title,
    "session-log-deepseek/delivery-accepted": _delivery,
    "agent/inbox/spliced": _splice,
    "command/run": _command,
    "command/done": _command,
    "llm/retry": _retry,
    "llm/retry-started": _retry,
    "tool/ptc-dispatch": _dispatch,
    "tool/ptc-dispatch-start": _dispatch,
    "session/end-seed": lambda _, data, __: Seed(inherited=data.get("inherited") is True),
    "compaction/start": _owner,
    "compaction/summary": _owner,
    "compaction/end": _owner,
    "user/message": _checkpoint,
    "developer/message": _definer,
    "subagent/catalog": _catalogued,
}
