"""What a file is that does not begin as a session log, and what can be done about it.

Rule: it is judged by its beginning alone, bytes in and words out, in one table of signs and a few
looks; every command tells it in these words. What it does not recognise, the fault of the first
record tells.
"""

import re
from typing import Final, NamedTuple

from dsh_compact.errors import Damage, RuleBroken

HEAD_BYTES: Final = 4_096
"""So much of a file tells what it is: a tar archive shows it at byte 257, a list of messages where
the first of them says its role."""


class Foreign(NamedTuple):
    """What a file is, what its user can do, and whether that holds for all of it.

    Where it does, no line of it is worth a judgement; a log that only begins wrong is judged on.
    """

    what: str
    remedy: str
    is_whole: bool = True


def in_words(fault: RuleBroken, head: bytes) -> RuleBroken:
    """The fault of a log that has no header, told by what its file seems to be.

    Any other fault, and that of a file of no known kind, is the same as before. `head` is the first
    `HEAD_BYTES` of what is to be read as lines. The line is left out where it is the whole file's.
    """
    found = seen(head) if fault.damage is Damage.HEADER_MISSING else None
    told = fault if found is None else RuleBroken(fault.damage, found.what, remedy=found.remedy)
    told.line = None if found is not None and found.is_whole else 1
    return told


def seen(head: bytes) -> Foreign | None:
    """What a file is that begins so; None where it is of no known kind."""
    if not head:
        return _EMPTY
    for at, sign, what, remedy in _SIGNS:
        if head.startswith(sign, at):
            return Foreign(f"the file is {what}", remedy)
    if head.startswith(_BYTE_ORDER_MARK):
        return _MARKED
    if not head.strip(b"\0"):
        return _ZEROS
    if b"\0" in head:
        return _BINARY
    return _seen_as_text(head)


def _seen_as_text(head: bytes) -> Foreign | None:
    first = head.partition(b"\n")[0]
    if b"\r" in head.rstrip(b"\r") and b"\n" not in head:
        return _CARRIAGE_RETURNS
    if not first.strip():
        return _BLANK
    if not re.match(rb"\s*[\[{]", head):
        return _MARKUP if re.match(rb"\s*<[!?a-zA-Z]", head) else _TEXT
    if re.match(rb"\s*[\[{]\s*[\n\r]+[ \t]+\S", head):
        return _SPREAD if _MENTIONS in head else _without_session(head)._replace(is_whole=True)
    if re.match(rb"\s*\[", head):
        return _LIST if _MENTIONS in head else _without_session(head)
    if b'"type"' not in first:
        return _without_session(head)
    if not _is_utf8(first):
        return _OTHER_ENCODING
    return _UNFINISHED if first == head and len(head) < HEAD_BYTES else None


def _without_session(head: bytes) -> Foreign:
    """JSON of another kind: perhaps a conversation as it is sent to a provider."""
    return _MESSAGES if re.search(rb'"role"\s*:\s*"', head) else _OTHER_JSON


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as fault:
        return fault.reason == "unexpected end of data"  # the line goes on behind the head
    return True


_UNPACK: Final = "unpack it first"
_OTHER_FILE: Final = "name a session's log, such as session.v4.jsonl"

_SIGNS: Final = (
    (0, b"\x1f\x8b", "compressed with gzip", f'{_UNPACK} ("gunzip")'),
    (0, b"BZh", "compressed with bzip2", f'{_UNPACK} ("bunzip2")'),
    (0, b"\xfd7zXZ\0", "compressed with xz", f'{_UNPACK} ("unxz")'),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4", f'{_UNPACK} ("unlz4")'),
    (0, b"PK\x03\x04", "a zip archive", f'{_UNPACK} ("unzip")'),
    (0, b"PK\x05\x06", "an empty zip archive", _OTHER_FILE),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", f'{_UNPACK} ("7z x")'),
    (257, b"ustar", "a tar archive", f'{_UNPACK} ("tar -xf")'),
    (0, b"\xff\xfe\0\0", "UTF-32", 'convert it first ("iconv -f utf-32 -t utf-8")'),
    (0, b"\0\0\xfe\xff", "UTF-32", 'convert it first ("iconv -f utf-32 -t utf-8")'),
    (0, b"\xff\xfe", "UTF-16", 'convert it first ("iconv -f utf-16 -t utf-8")'),
    (0, b"\xfe\xff", "UTF-16", 'convert it first ("iconv -f utf-16 -t utf-8")'),
    (0, b'{\0"\0', "UTF-16", 'convert it first ("iconv -f utf-16le -t utf-8")'),
    (0, b'\0{\0"', "UTF-16", 'convert it first ("iconv -f utf-16be -t utf-8")'),
    (0, b"SQLite format 3\0", "an SQLite database", _OTHER_FILE),
    (0, b"\x89PNG\r\n", "a PNG image", _OTHER_FILE),
    (0, b"\xff\xd8\xff", "a JPEG image", _OTHER_FILE),
    (0, b"GIF8", "a GIF image", _OTHER_FILE),
    (0, b"%PDF-", "a PDF document", _OTHER_FILE),
    (0, b"\x7fELF", "a program (ELF)", _OTHER_FILE),
)
"""At which byte stands what, what the file is then, and what to do; the first that fits counts."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_MENTIONS: Final = b'"session"'
"""What a session's header says that it is."""

_EMPTY: Final = Foreign("the file is empty", _OTHER_FILE)
_BLANK: Final = Foreign("the first line is empty", "", is_whole=False)
_TEXT: Final = Foreign("the file begins with text that is no JSON", _OTHER_FILE, is_whole=False)
_ZEROS: Final = Foreign(
    "the file begins with zeros, as a crash leaves it", "look for a copy of it", is_whole=False
)
_BINARY: Final = Foreign("the file begins with binary data", _OTHER_FILE, is_whole=False)
_MARKED: Final = Foreign(
    "the file begins with a byte order mark",
    "remove it (\"sed '1s/^\\xef\\xbb\\xbf//'\")",
    is_whole=False,
)
_OTHER_ENCODING: Final = Foreign(
    "the header is not UTF-8",
    'if the file is Latin-1, convert it first ("iconv -f latin1 -t utf-8")',
    is_whole=False,
)
_CARRIAGE_RETURNS: Final = Foreign(
    "its lines end in carriage returns alone", "convert it first (\"tr '\\r' '\\n'\")"
)
_UNFINISHED: Final = Foreign("the header's line was never finished", "", is_whole=False)
_SPREAD: Final = Foreign(
    "the file is JSON with records over several lines", 'write one a line first ("jq -c .")'
)
_LIST: Final = Foreign(
    "the file is one JSON list, where each record has a line of its own",
    'write one a line first ("jq -c .[]")',
    is_whole=False,
)
_OTHER_JSON: Final = Foreign("the file is JSON, but no session log", _OTHER_FILE, is_whole=False)
_MESSAGES: Final = Foreign(
    "the file is a conversation as it is sent to a provider, and no session log",
    _OTHER_FILE,
    is_whole=False,
)
_MARKUP: Final = Foreign("the file is HTML or XML", _OTHER_FILE)
