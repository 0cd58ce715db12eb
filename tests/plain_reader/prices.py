"""Prices, in the harness's own estimate: UTF-16 code units by four, rounded up."""

import json
import re
from typing import Any

from plain_reader.lines import Record
from plain_reader.rules import RuleError

SILENT_WHEN_EMPTY = {"assistant/message", "system/message", "developer/message"}


def units(text: str) -> int:
    """The length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def quarter(length: int) -> int:
    """A length in tokens: ceil(length / 4)."""
    return -(-length // 4)


def js_number(value: float) -> str:
    """A number as JavaScript writes it, which holds every number as a double."""
    double = float(value)
    if double == int(double) and abs(double) < 1e21:
        return str(int(double))
    digits, _, exponent = repr(double).partition("e")
    if not exponent and abs(double) >= 1e-6:
        return digits
    power = int(exponent or 0)
    if -7 < power < 0:
        return f"{double:.{len(digits.replace('.', '').lstrip('-')) - 1 - power}f}"
    return f"{digits.removesuffix('.0')}e{power:+d}"


def js_json(value: object) -> str:
    """Compact JSON as JavaScript writes it: lone surrogates are escaped, all else stays."""
    match value:
        case dict():
            return "{" + ",".join(f"{js_json(k)}:{js_json(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(js_json(item) for item in value) + "]"
        case bool() | None:
            return json.dumps(value)
        case int() | float():
            return js_number(value)
        case _:
            written = json.dumps(value, ensure_ascii=False)
            return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", written)


def block_tokens(block: Any) -> int:
    """The price of one content block. Raises RuleError where what it is priced by is missing."""
    if not isinstance(block, dict):
        raise RuleError("message-shape", "a block is not an object")
    kind = block.get("type")
    if not isinstance(kind, str):
        raise RuleError("message-shape", "a block without a type")
    if kind in ("text", "reasoning"):
        return quarter(units(text_of(block, "text"))) + 4
    if kind == "tool-call":
        name, arguments = text_of(block, "name"), text_of(block, "arguments")
        return quarter(units(name)) + quarter(units(arguments)) + 4
    if kind == "tool-result":
        return content_tokens(block.get("content")) + 4
    return quarter(units(js_json(block))) + 4


def text_of(block: Record, key: str) -> str:
    """A text that a block must have."""
    value = block.get(key)
    if not isinstance(value, str):
        raise RuleError("message-shape", f"{block['type']} without {key}")
    return value


def content_tokens(content: Any) -> int:
    """The price of a list of blocks."""
    if not isinstance(content, list):
        raise RuleError("message-shape", "content is not a list")
    return sum(block_tokens(block) for block in content)


def message_of(record: Record) -> Record:
    """The message inside a surface event."""
    data: Record = record["data"]
    message = data if record["type"] == "user/message" else data.get("message")
    if not isinstance(message, dict):
        raise RuleError("message-shape", "no message")
    return message


def node_tokens(record: Record) -> int:
    """The price of a surface event."""
    content = message_of(record).get("content")
    if content == [] and record["type"] in SILENT_WHEN_EMPTY:
        return 0
    return content_tokens(content) + 4


def header_tokens(header: Record | None) -> int:
    """The price of a request header: its system prompt (format 0) and its tools."""
    if header is None:
        return 0
    system, tools = header.get("system"), header.get("tools")
    price = quarter(units(system)) + 4 if system else 0
    return price + (quarter(units(js_json(tools))) + 4 if tools else 0)
