"""What a record alone must keep, field by field, beyond what decoding it demands.

Each check takes parsed JSON and yields (code, problem) for all that is wrong with it. Strictness
goes by format: what release 0.2.1 refuses was tried on format 4; of the formats before, only what
their own logs agree in is demanded. What depends on other records is not known here.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from dsh_compact.errors import Damage

Json: TypeAlias = dict[str, Any]
Wrong: TypeAlias = tuple[Damage, str]

MAX_SAFE: Final = 2**53 - 1
"""The largest whole number that JavaScript tells from its neighbours."""

ENVELOPE_KEYS: Final = frozenset(
    {"type", "seq", "time", "data", "surfaceOp", "sourceEventSeqs", "ignorable"}
)
_REPLACE_KEYS: Final = frozenset({"op", "startSeq", "endSeq"})

_HEADER_KEYS: Final = frozenset(
    {"type", "version", "id", "createdAt", "cwd", "parentSession", "isSeeded", "origin"}
    | {"delegationDepth", "agentPreset"}
)
_OLD_HEADER_KEYS: Final = _HEADER_KEYS | {"seedLength"}
_REQUIRED_HEADER_KEYS: Final = ("id", "createdAt", "isSeeded", "delegationDepth")

_ROLES: Final = {
    "system/message": "system",
    "developer/message": "developer",
    "user/message": "user",
    "assistant/message": "assistant",
    "tool/result": "tool",
}
_REASONS: Final = frozenset({"initial", "resume", "change", "series"})
_ADAPTER_DEFAULTS: Final = frozenset({"reasoningEffort", "maxTokens"})


def is_count(value: Any) -> bool:
    """Whether it is a whole number from 0 that JavaScript can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SAFE


def is_text(value: Any) -> bool:
    """Whether it is a string with something in it."""
    return isinstance(value, str) and value != ""


# The header -------------------------------------------------------------------------------------


def header_keys(version: int) -> frozenset[str]:
    """All that a header of that format may have."""
    return _HEADER_KEYS if version == 4 else _OLD_HEADER_KEYS


def check_header(header: Json, version: int) -> Iterator[Wrong]:
    """The first record, of a format that is supported."""
    for key in header:
        if key not in header_keys(version):
            yield Damage.HEADER_UNKNOWN_KEY, f"the header has an unknown key, {key!r:.60}"
    if version != 4:
        return
    for key in _REQUIRED_HEADER_KEYS:
        if key not in header:
            yield Damage.HEADER_WRONG, f"the header lacks {key}"
    for key, demand, holds in _HEADER_FIELDS:
        if key in header and not holds(header[key]):
            yield Damage.HEADER_WRONG, f"the header's {key} is not {demand}"


_HEADER_FIELDS: Final[tuple[tuple[str, str, Callable[[Any], bool]], ...]] = (
    ("createdAt", "a count of milliseconds", is_count),
    ("delegationDepth", "a count", is_count),
    ("isSeeded", "true or false", lambda value: isinstance(value, bool)),
    ("cwd", "an absolute path", lambda value: isinstance(value, str) and value.startswith("/")),
    ("parentSession", "a text", lambda value: isinstance(value, str)),
    ("agentPreset", "a text", lambda value: isinstance(value, str)),
    ("origin", '"subagent"', lambda value: value == "subagent"),
)


# The envelope -----------------------------------------------------------------------------------


def check_envelope(record: Json, version: int) -> list[Wrong]:
    """An event's keys beside its data; type and seq are known to be there."""
    found: list[Wrong] = []
    if not isinstance(record.get("data"), dict):
        found.append((Damage.DATA_WRONG, f"{record['type']:.60} has no data"))
    if version != 4:
        return found
    if not record.keys() <= ENVELOPE_KEYS:
        key = next(key for key in record if key not in ENVELOPE_KEYS)
        problem = f"an unknown key beside the data, {key!r:.60}"
        found.append((Damage.RECORD_UNKNOWN_KEY, problem))
    time = record.get("time")
    if not isinstance(time, int) or isinstance(time, bool) or abs(time) > MAX_SAFE:
        found.append((Damage.RECORD_WRONG, "time is no whole number of milliseconds"))
    if record.get("ignorable", True) is not True:
        found.append((Damage.RECORD_WRONG, "ignorable is not true"))
    op = record.get("surfaceOp")
    if isinstance(op, dict) and op.get("op") == "replace" and op.keys() != _REPLACE_KEYS:
        problem = "surfaceOp has other keys than op, startSeq and endSeq"
        found.append((Damage.SURFACE_OP_WRONG, problem))
    return found


def check_sources(record: Json) -> Iterator[Wrong]:
    """The form of `sourceEventSeqs`; whether it suffices is the surface's business."""
    entries = record.get("sourceEventSeqs")
    if not isinstance(entries, list):
        return
    if not entries:
        yield Damage.SOURCES_REPEATED, "sourceEventSeqs is empty"
    seen: set[int] = set()
    newest = -1
    for entry in entries:
        first, last = (entry[0], entry[-1]) if isinstance(entry, list) and entry else (entry, entry)
        if not is_count(first) or not is_count(last):
            return  # decoding has said so
        if last >= record["seq"]:
            later = f"sourceEventSeqs names {last}, which is not earlier than the event itself"
            yield Damage.SOURCES_LATER, later
            return
        if isinstance(entry, list):
            if first <= newest:
                yield Damage.SOURCES_REPEATED, "sourceEventSeqs holds a range and does not increase"
                return
        elif first in seen:
            yield Damage.SOURCES_REPEATED, f"sourceEventSeqs names {first} more than once"
            return
        seen.add(first)
        newest = max(newest, last)


# Messages ---------------------------------------------------------------------------------------


def check_message(record: Json, version: int) -> Iterator[Wrong]:
    """A surface event's message."""
    kind, data = record["type"], record["data"]
    message = data if kind == "user/message" else data.get("message")
    if not isinstance(message, dict):
        yield Damage.MESSAGE_WRONG, f"{kind} has no message"
        return
    if not is_text(message.get("id")):
        yield Damage.MESSAGE_WITHOUT_ID, f"the message of {kind} has no id"
    content = message.get("content")
    if not isinstance(content, list):
        yield Damage.MESSAGE_WRONG, f"the content of {kind} is no list"
        content = []
    for block in content:
        yield from _check_block(block, version)
    source = message.get("source")
    source = source if isinstance(source, dict) else {}
    foreign = list(_check_checkpoint(record, source, version))
    yield from foreign
    if version == 4:
        if not foreign:
            yield from _check_source(kind, message, source)
        yield from _check_kind(record, message, source)


def _check_block(block: Any, version: int) -> Iterator[Wrong]:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        yield Damage.MESSAGE_WRONG, "a content block has no type"
        return
    fields = _BLOCK_FIELDS.get(block["type"], ())
    for field in fields:
        if not isinstance(block.get(field), str):
            yield Damage.MESSAGE_WRONG, f"a block of type {block['type']} has no {field}"
    if block["type"] == "tool-result":
        if version == 4:
            yield Damage.MESSAGE_WRONG, "a block of type tool-result, which format 4 does not have"
        elif not isinstance(block.get("content"), list):
            yield Damage.MESSAGE_WRONG, "a block of type tool-result has no content"


_BLOCK_FIELDS: Final = {
    "text": ("text",),
    "reasoning": ("text",),
    "tool-call": ("id", "name", "arguments"),
}


def _check_checkpoint(record: Json, source: Json, version: int) -> Iterator[Wrong]:
    if record["type"] != "user/message" or not isinstance(record.get("surfaceOp"), dict):
        return
    old = source.get("kind") == "plugin" and source.get("plugin") == "compact"
    new = source.get("kind") == "compact-checkpoint"
    if (old and version == 4) or (new and version != 4):
        kind = source["kind"]
        yield Damage.CHECKPOINT_SOURCE_WRONG, f"a checkpoint of format {version} of kind {kind!r}"


def _check_source(kind: str, message: Json, source: Json) -> Iterator[Wrong]:
    if message.get("role") != _ROLES[kind]:
        yield Damage.MESSAGE_WRONG, f"the role of {kind} is not {_ROLES[kind]!r}"
    named = source.get("kind")
    if not is_text(named):
        yield Damage.MESSAGE_WRONG, f"the source of {kind} has no kind"
    elif named == "plugin":
        yield Damage.MESSAGE_WRONG, f"the source of {kind} is of kind 'plugin', as before format 4"
    elif kind == "system/message" and named != "system-prompt":
        yield Damage.MESSAGE_WRONG, "the source of system/message is not 'system-prompt'"
    elif kind == "assistant/message" and not _is_model(source):
        yield Damage.MESSAGE_WRONG, "the source of assistant/message names no provider and model"


def _is_model(source: Json) -> bool:
    named = is_text(source.get("provider")) and is_text(source.get("model"))
    return named and source["kind"] == "model"


def _check_kind(record: Json, message: Json, source: Json) -> Iterator[Wrong]:
    kind, data = record["type"], record["data"]
    if kind == "assistant/message":
        yield from _check_settled(kind, data)
        if "sourceEventSeqs" in record:
            yield Damage.MESSAGE_WRONG, "assistant/message holds its stream and has no sources"
    elif kind == "developer/message":
        yield from _check_additions(data, message)
    elif kind == "tool/result":
        call_id = message.get("toolCallId")
        if source.get("kind") != "tool" or not is_text(call_id) or source.get("callId") != call_id:
            yield Damage.MESSAGE_WRONG, "toolCallId and source of the result do not name one call"
        if not isinstance(message.get("isError", False), bool):
            yield Damage.MESSAGE_WRONG, "isError is neither true nor false"
        elif "error" in data and message.get("isError") is not True:
            yield Damage.MESSAGE_WRONG, "the result has an error, and isError is not true"


def _check_additions(data: Json, message: Json) -> Iterator[Wrong]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    adds = any(isinstance(one, dict) and one.get("type") == "tool-addition" for one in blocks)
    if adds != ("headerSeq" in data):
        yield Damage.MESSAGE_WRONG, "headerSeq must stand there exactly where tools are added"


def _check_settled(kind: str, data: Json) -> Iterator[Wrong]:
    if not is_count(data.get("turn")) or not is_count(data.get("step")):
        yield Damage.MESSAGE_WRONG, f"{kind} does not say in which turn and step it stands"
    if not isinstance(data.get("stream"), list):
        yield Damage.MESSAGE_WRONG, f"the stream of {kind} is no list"


# Other events -----------------------------------------------------------------------------------


def check_data(record: Json) -> Iterator[Wrong]:
    """The data of an event of format 4 that is no message, where its type has demands."""
    if "sourceEventSeqs" in record:
        problem = f"{record['type']} is no message and must not carry sourceEventSeqs"
        yield Damage.SURFACE_OP_FORBIDDEN, problem
    check = _DATA_CHECKS.get(record["type"])
    if check is not None:
        yield from check(record)


def _check_attempt(record: Json) -> Iterator[Wrong]:
    yield from _check_settled("assistant/attempt", record["data"])


def _check_request_header(record: Json) -> Iterator[Wrong]:
    header, reason = record["data"].get("header"), record["data"].get("reason")
    header = header if isinstance(header, dict) else {}
    config = header.get("config")
    config = config if isinstance(config, dict) else {}
    if not is_text(config.get("provider")) or not is_text(config.get("model")):
        yield Damage.REQUEST_HEADER_WRONG, "the request header names no provider and model"
    if header.get("tools") == []:
        yield Damage.REQUEST_HEADER_WRONG, "the request header's list of tools is empty"
    if "system" in header:
        yield Damage.REQUEST_HEADER_WRONG, "the request header has a system prompt, as format 0 had"
    if not isinstance(reason, str) or reason not in _REASONS:
        yield Damage.REQUEST_HEADER_WRONG, f"the request header's reason is {reason!r:.40}"
    if not is_text(config.get("reasoningEffort", "none")):
        yield Damage.REQUEST_HEADER_WRONG, "the request header's reasoningEffort is no text"
    if record["data"].get("startsSeries", True) is not True:
        yield Damage.REQUEST_HEADER_WRONG, "startsSeries is not true"
    if not _is_adapted(header.get("adapterDefaults"), config):
        yield Damage.REQUEST_HEADER_WRONG, "adapterDefaults does not fit the request header"


def _is_adapted(defaults: Any, config: Json) -> bool:
    if defaults is None:
        return True
    return (
        isinstance(defaults, dict)
        and defaults != {}
        and all(
            key in _ADAPTER_DEFAULTS and marked is True and key in config
            for key, marked in defaults.items()
        )
    )


def _check_compaction(record: Json) -> Iterator[Wrong]:
    if not is_text(record["data"].get("compactionId")):
        yield Damage.DATA_WRONG, f"{record['type']} has no compactionId"


def _check_summary(record: Json) -> Iterator[Wrong]:
    yield from _check_compaction(record)
    for key in ("summary", "rawOutput"):
        blocks = record["data"].get(key)
        if isinstance(blocks, list):
            for block in blocks:
                yield from _check_block(block, 4)


def _check_waiting(record: Json) -> Iterator[Wrong]:
    inserted = record["data"].get("inserted")
    for message in inserted if isinstance(inserted, list) else ():
        source = message.get("source") if isinstance(message, dict) else None
        kind = source.get("kind") if isinstance(source, dict) else None
        if not is_text(kind) or kind == "plugin":
            yield Damage.INBOX_WRONG, "a waiting message does not say where it comes from"


def _check_end_seed(record: Json) -> Iterator[Wrong]:
    if record["data"].get("inherited", True) is not True:
        yield Damage.SEED_WRONG, "inherited is not true"


_DATA_CHECKS: Final[dict[str, Callable[[Json], Iterator[Wrong]]]] = {
    "agent/inbox/spliced": _check_waiting,
    "assistant/attempt": _check_attempt,
    "request/header": _check_request_header,
    "compaction/end": _check_compaction,
    "compaction/start": _check_compaction,
    "compaction/summary": _check_summary,
    "session/end-seed": _check_end_seed,
}
