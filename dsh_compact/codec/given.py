"""An event that somebody gives as a line of JSON, as a draft: what `dshc append` reads.

Rule: whoever writes the line need not know the log. Its seq and time are ours and ignored, a
message without an id gets one, an operation that is not named is an append. What the line says
beyond that is the caller's word, so whatever is wrong with it is a `UsageError`.
"""

from collections.abc import Callable
from typing import Any

from dsh_compact.codec import wire
from dsh_compact.codec.decode import read_sources
from dsh_compact.codec.encode import Draft
from dsh_compact.codec.types import KNOWN_TYPES, SURFACE_KINDS
from dsh_compact.errors import RuleBroken, UsageError
from dsh_compact.events import APPEND, Op, Replace, Sources


def draft_from_json(line: bytes, version: int, new_id: Callable[[], str]) -> Draft:
    """The event in `line` for a log of format `version`; raises `UsageError`."""
    try:
        record = wire.load(line)
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            raise UsageError('an event is a JSON object with a "type"')
        return _draft(record, version, new_id)
    except RuleBroken as fault:
        raise UsageError(fault.problem) from None


def _draft(record: dict[str, Any], version: int, new_id: Callable[[], str]) -> Draft:
    kind, data = record["type"], record.get("data", {})
    ignorable = record.get("ignorable") is True
    if kind not in KNOWN_TYPES[version] and not ignorable:
        raise UsageError(
            f"{kind!r} is no event of format {version}",
            'mark it "ignorable": true if readers may skip it',
        )
    if not isinstance(data, dict):
        raise UsageError(f"the data of {kind!r} is no JSON object")
    op: Op | None = None
    if kind in SURFACE_KINDS[version]:
        op = _op(record.get("surfaceOp", "append"), version)
        data = _with_id(kind, data, new_id)
    elif "surfaceOp" in record:
        raise UsageError(f"{kind!r} is no surface event and must not carry surfaceOp")
    sources = _sources(record.get("sourceEventSeqs", []))
    return Draft(type=kind, data=data, op=op, sources=sources, ignorable=ignorable)


def _sources(entries: Any) -> Sources:
    try:
        return read_sources(wire.convert(entries, list[int | list[int]]), None)
    except RuleBroken as fault:
        raise UsageError(f"sourceEventSeqs: {fault.problem}") from None


def _with_id(kind: str, data: dict[str, Any], new_id: Callable[[], str]) -> dict[str, Any]:
    """The data with an id in its message; a user's message is the data itself."""
    if kind == "user/message":
        return {**data, "id": data.get("id", new_id())}
    message = data.get("message")
    if not isinstance(message, dict):
        raise UsageError(f"the data of {kind!r} holds no message")
    return {**data, "message": {**message, "id": message.get("id", new_id())}}


def _op(value: Any, version: int) -> Op:
    names = ("start", "end") if version == 0 else ("startSeq", "endSeq")
    match value:
        case "append":
            return APPEND
        case {"op": "replace"} if all(type(value.get(name)) is int for name in names):
            return Replace(value[names[0]], value[names[1]])
        case _:
            raise UsageError(f"surfaceOp is neither append nor a replace of format {version}")
