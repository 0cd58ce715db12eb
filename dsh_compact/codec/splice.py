"""A record taken apart at its first two levels, changed there, and put together again.

Whatever is not changed is copied byte for byte: messages, blocks, keys that nobody knows.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from dsh_compact.codec import wire
from dsh_compact.errors import Damage, RuleBroken

GONE: Final = object()
"""A value that takes its key with it."""


def parts(raw: bytes) -> dict[str, Raw]:
    """The members of a JSON object, each as its bytes; raises `RuleBroken`."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Raw])
    except msgspec.DecodeError:
        return _parts_with_surrogates(raw)
    except RecursionError:
        raise wire.too_deep() from None


def _parts_with_surrogates(raw: bytes) -> dict[str, Raw]:
    """The same where a text holds half a character, which only the standard library lets pass."""
    import json

    if not isinstance(wire.load(raw), dict):
        raise RuleBroken(Damage.RECORD_WRONG, "the record is no object")
    text, decoder = raw.decode(), json.JSONDecoder()
    found: dict[str, Raw] = {}
    at = text.index("{") + 1
    while (at := _next(text, at)) < len(text) and text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        start = _next(text, at)
        _, at = decoder.raw_decode(text, start)
        found[key] = Raw(text[start:at].encode())
    return found


def _next(text: str, at: int) -> int:
    """The place of the next token, behind blanks, commas and colons."""
    while at < len(text) and text[at] in " \t\r\n,:":
        at += 1
    return at


def joined(fields: Mapping[str, Raw], changed: Mapping[str, Any]) -> bytes:
    """The object again, with what `changed` names in its place, new members behind."""
    new = {key: value for key, value in changed.items() if key not in fields}
    written = []
    for key, raw in [*fields.items(), *new.items()]:
        value = changed.get(key, raw)
        if value is not GONE:
            text = bytes(value) if isinstance(value, Raw | bytes) else wire.dump(value)
            written.append(b"%b:%b" % (wire.dump(key), text))
    return b"{" + b",".join(written) + b"}"


def load(raw: Raw) -> Any:
    """The value of a member."""
    return wire.load(bytes(raw))


# Changes that a repair makes ----------------------------------------------------------------------


def without(line: bytes, keys: Iterable[str]) -> bytes:
    """The record without these keys beside its data."""
    return joined(parts(line), dict.fromkeys(keys, GONE))


def with_envelope(line: bytes, **fields: Any) -> bytes:
    """The record with these values beside its data."""
    return joined(parts(line), fields)


def with_data(line: bytes, **fields: Any) -> bytes:
    """The record with these values in its data."""
    outer = parts(line)
    return joined(outer, {"data": joined(parts(bytes(outer["data"])), fields)})


def with_message(line: bytes, **fields: Any) -> bytes:
    """A surface event with these values in its message; a user's message is the data itself."""
    outer = parts(line)
    if load(outer["type"]) == "user/message":
        return with_data(line, **fields)
    data = parts(bytes(outer["data"]))
    message = joined(parts(bytes(data["message"])), fields)
    return joined(outer, {"data": joined(data, {"message": message})})


def unknown_keys(line: bytes, known: Iterable[str]) -> list[str]:
    """The record's keys that are none of these."""
    allowed = set(known)
    return [key for key in parts(line) if key not in allowed]


def lacks(line: bytes, key: str) -> bool:
    """Whether the record has no such key beside its data."""
    return key not in parts(line)


def as_utf8(line: bytes) -> bytes:
    """The line as the harness reads it: what is not UTF-8 becomes U+FFFD."""
    return line.decode("utf-8", "replace").encode()
