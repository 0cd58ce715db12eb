"""The shapes on disk, as `msgspec` reads them: only the fields that matter, everything else is
skipped.

Optional fields are optional on disk too. A record that does not fit its shape is damaged; the check
is part of the decoding. JSON that `msgspec` rejects only for a lone surrogate (the harness is
written in JavaScript, which allows them) is read again with the standard library. `orjson` checks
what no shape describes; it is imported where that is asked for, which most commands never do.
"""

import re
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dsh_compact.errors import Damage, RuleBroken

Shape = TypeVar("Shape")

_LONE_SURROGATE: Final = "[\ud800-\udfff]"
"""Compiled where it is met, which most logs never make necessary."""


class Record(Struct, rename="camel"):
    """The envelope of an event; `data` stays undecoded until its type is known."""

    type: str
    seq: int
    time: int | float = 0
    data: Raw | UnsetType = UNSET
    source_event_seqs: list[int | list[int]] | UnsetType = UNSET
    surface_op: Any = UNSET
    ignorable: bool = False


class PackedRow(Struct, rename={"surface_op": "surfaceOp"}):
    """Format 0: a run of streamed pieces, one seq each."""

    type: str
    seq0: int
    data: "PackedData"
    seq: Any = UNSET
    surface_op: Any = UNSET


class PackedData(Struct):
    """The pieces stand in `texts` or in `args`; `dt` holds the times between them."""

    dt: list[int | float] = []
    texts: list[str] | None = None
    args: list[str] | None = None


class SessionHeader(Struct, rename="camel"):
    """The first record."""

    type: str
    version: int
    id: str
    created_at: int | float | None = None
    cwd: str | None = None
    is_seeded: bool = False
    parent_session: Any = UNSET


class Source(Struct, rename="camel"):
    """Where a message came from."""

    kind: str = ""
    call_id: str | None = None
    compaction_id: str | None = None
    plugin: str | None = None


class Block(Struct, rename="camel"):
    """A content block; which fields it has depends on its type."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    arguments: str = ""
    tool_call_id: str = ""
    content: list["Block"] | UnsetType = UNSET
    is_error: bool = False


class Message(Struct, rename="camel"):
    """A message whose blocks are all of kinds that we know."""

    role: str = ""
    content: list[Block] = []
    id: str | None = None
    source: Source | None = None
    tool_call_id: str | None = None
    is_error: bool = False


class RawMessage(Struct, rename="camel"):
    """A message whose blocks stay the bytes of the log: some are of kinds that nobody listed."""

    role: str = ""
    content: list[Raw] = []
    id: str | None = None
    source: Source | None = None
    tool_call_id: str | None = None
    is_error: bool = False


class RawBlock(Struct, rename="camel"):
    """A tool-result block with its content undecoded."""

    type: str
    tool_call_id: str = ""
    content: list[Raw] = []
    is_error: bool = False


class Usage(Struct, rename="camel"):
    """What a provider counted."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class Failure(Struct):
    """How a request failed."""

    message: str = ""
    code: str | int | None = None
    status: int | None = None


class Reason(Struct):
    """Why a stream finished or a turn ended."""

    kind: str = ""
    failure: Failure | None = None
    error: Failure | None = None


class Chunk(Struct):
    """A piece of a stream; only its end matters."""

    type: str = ""
    reason: Reason | None = None


class StreamItem(Struct):
    """One entry of an embedded stream."""

    chunk: Chunk | None = None


class StepData(Struct, rename="camel"):
    """`data` of everything that belongs to a turn or step; a message is skipped."""

    turn: int | None = None
    step: int | None = None
    chunk: Chunk | None = None
    stream: list[StreamItem] | None = None
    reason: Reason | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class MessageData(Struct):
    """`data` of a surface event that belongs to a step; its stream is skipped."""

    turn: int | None = None
    step: int | None = None
    message: Raw | UnsetType = UNSET
    usage: Usage | None = None


class Config(Struct, rename="camel"):
    """Whom a request goes to."""

    provider: str = ""
    model: str = ""
    max_tokens: int | None = None


class RequestHeader(Struct):
    """What stands before the conversation in a request."""

    config: Config
    system: str | None = None
    tools: Any = None


class RequestContext(Struct, rename="camel"):
    """The routed model."""

    provider: str = ""
    model: str = ""
    context_window: int | None = None


class Range(Struct):
    """What a summary or prune shadows."""

    start: int
    end: int


class Compaction(Struct, rename="camel"):
    """`data` of all four compaction events."""

    compaction_id: str = ""
    turn: int | None = None
    error: str | None = None
    shadowed_range: Range | None = None
    shadowed_seqs: list[int] = []
    shadowed_token_count: int | float | UnsetType = UNSET
    backend: str | None = None
    provider: str = ""
    model: str = ""
    max_tokens: int | None = None
    usage: Usage | None = None


class ReplaceOp(Struct, rename="camel"):
    """Formats 3 and 4 name the ends `startSeq` and `endSeq`, format 0 `start` and `end`."""

    op: str
    start_seq: int | None = None
    end_seq: int | None = None
    start: int | None = None
    end: int | None = None


def read(raw: bytes | Raw, shape: type[Shape]) -> Shape:
    """`raw` as `shape`; raises `RuleBroken` (not-json, not-utf8, too-deep, record-wrong)."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as fault:
        raise RuleBroken(Damage.RECORD_WRONG, _in_words(str(fault))) from None
    except (msgspec.DecodeError, RecursionError):
        return convert(_keep_raw(load(bytes(raw)), shape), shape)


def convert(value: Any, shape: type[Shape]) -> Shape:
    """A parsed JSON value as `shape`; raises `RuleBroken` (record-wrong, too-deep)."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as fault:
        raise RuleBroken(Damage.RECORD_WRONG, _in_words(str(fault))) from None
    except RecursionError:
        raise too_deep() from None
    except UnicodeEncodeError:
        pass  # msgspec can't look at a lone surrogate in a key, or in text where none belongs
    try:
        return msgspec.convert(_without_odd_keys(value), shape)
    except msgspec.ValidationError as fault:
        raise RuleBroken(Damage.RECORD_WRONG, _in_words(str(fault))) from None
    except UnicodeEncodeError:
        problem = "half a character (a lone surrogate) stands where none belongs"
        raise RuleBroken(Damage.RECORD_WRONG, problem) from None
    except RecursionError:
        raise too_deep() from None


def too_deep() -> RuleBroken:
    """What to raise where a parser or writer goes no deeper."""
    return RuleBroken(Damage.TOO_DEEP, "the record is nested too deep to be read")


_WORDS: Final = {
    "int": "a whole number",
    "float": "a decimal number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
"""What the parser calls the kinds of values."""


def _in_words(problem: str) -> str:
    """What the parser says of a value that does not fit its shape, as a user may read it: which
    field, what stands there, what belongs there.
    """
    problem, _, path = problem.removesuffix("`").partition(" - at `$")
    field = path.removeprefix(".")
    if found := re.fullmatch("Expected `(.+)`, got `(.+?)`?", problem):
        wanted = found[1].replace("int | float", "number").split(" | ")
        belongs = " or ".join(_WORDS.get(name, f"a {name}") for name in wanted)
        is_there = _WORDS.get(found[2], found[2])
        subject = f"{field} is {is_there}, where" if field else f"{is_there} stands where"
        return f"{subject} {belongs} belongs"
    if found := re.fullmatch("Object missing required field `(.+?)`?", problem):
        return f"{field} has no {found[1]}" if field else f"there is no {found[1]}"
    if problem.endswith("out of range"):
        return f"{field or 'a number'} is beyond every number that can be meant"
    return f"{field}: {problem}" if field else problem


def _without_odd_keys(value: Any) -> Any:
    """The value without keys that hold a lone surrogate: no shape has one, so none is missed."""
    if isinstance(value, list):
        return [_without_odd_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: _without_odd_keys(v) for k, v in value.items() if not re.search(_LONE_SURROGATE, k)}


def _keep_raw(value: Any, shape: type[Any]) -> Any:
    """The fields that `shape` wants undecoded, as bytes again."""
    field = _RAW_FIELDS.get(shape)
    if field is not None and isinstance(value, dict) and field in value:
        inner = value[field]
        is_list = field == "content" and isinstance(inner, list)
        value[field] = [Raw(dump(one)) for one in inner] if is_list else Raw(dump(inner))
    return value


_RAW_FIELDS: Final[dict[type[Any], str]] = {
    Record: "data",
    MessageData: "message",
    RawMessage: "content",
    RawBlock: "content",
}


def load(raw: bytes | memoryview) -> Any:
    """Any JSON value, lone surrogates too; raises `RuleBroken` (not-json, not-utf8, too-deep)."""
    orjson = _orjson()

    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as fault:
        first = fault
    try:
        text = str(raw, "utf-8")
    except UnicodeDecodeError as fault:
        raise RuleBroken(Damage.NOT_UTF8, f"byte {fault.start} is not UTF-8") from None
    import json  # the standard library's parser accepts what JavaScript writes

    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise too_deep() from None
    except ValueError:
        where = f"at character {first.pos + 1}"
        raise RuleBroken(Damage.NOT_JSON, f"not JSON: {first.msg}, {where}") from None


@cache
def _orjson() -> Any:
    """The module, imported while no signal gets through: an exception that Ctrl-C raises within its
    import of 10 ms ends in a segmentation fault (orjson 3.13).
    """
    import signal

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        import orjson
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return orjson


class _Anything(Struct):
    """Any object: all that it holds is skipped, which holds it to the syntax."""


_SYNTAX: Final = msgspec.json.Decoder(_Anything)


def check(raw: bytes | memoryview) -> None:
    """Raises `RuleBroken` (not-json, too-deep) unless `raw`, which is UTF-8, is JSON."""
    try:
        _SYNTAX.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        load(raw)  # it may be right all the same (a lone surrogate, no object), and tells more


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def dump(value: Any) -> bytes:
    """Compact JSON as JavaScript writes it: UTF-8, a lone surrogate escaped.

    Raises `RuleBroken` (too-deep): what could be read is not always shallow enough to be written.
    """
    try:
        written = _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _dump_with_surrogates(value)
    except RecursionError:
        raise too_deep() from None
    return _dump_with_exponents(value) if re.search(_EXPONENT, written) else written


Fragment = Raw
"""JSON that stands in a value as it is; `dump` writes it byte for byte."""


def _plain(value: Any) -> Any:
    """What a text or number of a subclass is written as: some frameworks' texts are such."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case _:
            raise TypeError(f"{type(value).__name__} is no type that can be written as JSON")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)
_SORTING_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain, order="sorted")

_EXPONENT: Final = rb"[0-9]e[0-9]"
"""`1e21`, which JavaScript writes `1e+21`; or some text that looks like it."""


def _dump_with_exponents(value: Any) -> bytes:
    orjson = _orjson()

    def fragment(part: Any) -> Any:
        return orjson.Fragment(bytes(part))

    try:
        written: bytes = orjson.dumps(value, default=fragment)
    except (TypeError, orjson.JSONEncodeError):  # a number that is too large for it
        return _dump_with_surrogates(value)
    return written


def _dump_with_surrogates(value: Any) -> bytes:
    """The standard library's way, which knows no fragments: marks that nobody can guess hold their
    places.
    """
    import json
    from uuid import uuid4

    fragments: dict[bytes, bytes] = {}

    def mark(part: Raw) -> str:
        name = str(uuid4())
        fragments[name.encode()] = bytes(part)
        return name

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=mark)
    line = re.sub(_LONE_SURROGATE, _escape, text).encode()
    return re.sub(rb'"([0-9a-f-]{36})"', lambda found: fragments.get(found[1], found[0]), line)


def dump_sorted(value: Any) -> bytes:
    """The same JSON for equal values, whatever the order of their keys.

    Raises `RuleBroken` (too-deep).
    """
    try:
        return _SORTING_ENCODER.encode(value)
    except RecursionError:
        raise too_deep() from None
    except UnicodeEncodeError:
        import json

        return json.dumps(value, sort_keys=True).encode()


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def utf16_length(text: str) -> int:
    """How long `text` is in UTF-16 code units, as the harness counts."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
