"""A file that is no session log is told by name, with what to do, in the same words everywhere."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from builders import Conversation, frame
from hypothesis import given, settings
from hypothesis import strategies as st
from running import dshc

from dsh_compact.codec import foreign
from dsh_compact.errors import Damage, DamagedLog
from dsh_compact.session import open_session, read_session
from dsh_compact.verify import verify

LOG: Final = Conversation(cwd="/home/jose/app").user("list the files").assistant("Well.").end()
RECORDS: Final = [json.loads(line) for line in LOG.lines()]
CHAT: Final = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def tarred(data: bytes) -> bytes:
    """The log in an archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("session.jsonl")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def zipped(data: bytes) -> bytes:
    """The same in another."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("session.jsonl", data)
    return packed.getvalue()


def database(data: bytes) -> bytes:
    """The log in a table."""
    base = sqlite3.connect(":memory:")
    base.execute("create table log (data)")
    base.execute("insert into log values (?)", (data,))
    return base.serialize()


def as_text(encoding: str) -> Callable[[bytes], bytes]:
    """The log in another encoding."""
    return lambda data: data.decode("utf-8").encode(encoding)


def pretty(value: object) -> bytes:
    """JSON as a person wants to read it."""
    return json.dumps(value, indent=2).encode() + b"\n"


WHOLE: Final[list[tuple[str, str, Callable[[bytes], bytes]]]] = [
    ("compressed with gzip", "unpack it first", gzip.compress),
    ("compressed with bzip2", "unpack it first", bz2.compress),
    ("compressed with xz", "unpack it first", lzma.compress),
    ("a zip archive", "unpack it first", zipped),
    ("a tar archive", "unpack it first", tarred),
    ("UTF-16", "iconv -f utf-16 -t", as_text("utf-16")),
    ("UTF-16", "iconv -f utf-16le -t", as_text("utf-16-le")),
    ("UTF-16", "iconv -f utf-16be -t", as_text("utf-16-be")),
    ("UTF-32", "iconv -f utf-32 -t", as_text("utf-32")),
    ("carriage returns alone", "convert it first", lambda data: data.replace(b"\n", b"\r")),
    ("an SQLite database", "name a session's log", database),
    (
        "a PNG image",
        "name a session's log",
        lambda _: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\n" * 99,
    ),
    ("a program (ELF)", "name a session's log", lambda _: Path(sys.executable).read_bytes()[:9999]),
    ("HTML or XML", "name a session's log", lambda _: b"<!DOCTYPE html>\n<html>\n</html>\n"),
    ("records over several lines", "jq -c .", lambda _: b"".join(map(pretty, RECORDS))),
    ("sent to a provider", "name a session's log", lambda _: pretty(CHAT)),
    ("is empty", "name a session's log", lambda _: b""),
]
"""What the file is, what to do, and how it is made of a log: no line of it is a record."""

PARTLY: Final[list[tuple[str, str, Callable[[bytes], bytes]]]] = [
    ("a byte order mark", "remove it", as_text("utf-8-sig")),
    ("not UTF-8", "-f latin1", lambda data: data.replace(b"jose", "josé".encode("latin-1"))),
    ("one JSON list", "jq -c .[]", lambda _: json.dumps(RECORDS).encode()),
    ("one JSON list", "jq -c .[]", lambda _: json.dumps(RECORDS).encode() + b"\n"),
    ("sent to a provider", "name a session's log", lambda _: json.dumps(CHAT).encode()),
    ("sent to a provider", "name a session's log", lambda _: json.dumps(CHAT).encode() + b"\n"),
    ("JSON, but no session log", "name a session's log", lambda _: b'{"a": 1}\n'),
    ("text that is no JSON", "name a session's log", lambda _: b"hello\nworld\n"),
    ("zeros", "look for a copy", lambda data: bytes(5_000) + data),
    ("binary data", "name a session's log", lambda data: b"\x01\0\x02" + data),
    ("the first line is empty", "", lambda data: b"\n" + data),
    ("the header's line was never finished", "", lambda data: data[: data.index(b"\n")]),
    (
        "no session header: it is of type 'turn/start'",
        "",
        lambda data: data[data.index(b'{"type":"turn/start"') :],
    ),
]
"""The same of a file that may hold records behind its beginning."""


def ids(case: object) -> str:
    """The name of a case."""
    return case if isinstance(case, str) else ""


@pytest.mark.parametrize(("what", "remedy", "make"), WHOLE + PARTLY, ids=ids)
def test_a_file_is_told_by_its_name_and_with_what_to_do(
    what: str, remedy: str, make: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """Whoever reads it, the damage is the missing header, and the words are the same."""
    path = tmp_path / "log"
    path.write_bytes(make(LOG.bytes()))
    (told,) = [one for one in verify(path).findings if one.code is Damage.HEADER_MISSING]
    assert (1, True, True) == (told.line, what in told.message, remedy in told.message)
    for read in (read_session, open_session):
        with pytest.raises(DamagedLog) as raised:
            read(path)
        fault = raised.value
        assert (Damage.HEADER_MISSING, 4) == (fault.damage, fault.exit_code)
        assert what in str(fault)
        assert (remedy or "dshc verify") in fault.remedy


@pytest.mark.parametrize(("what", "remedy", "make"), WHOLE, ids=ids)
def test_of_a_file_that_is_no_log_no_line_is_judged(
    what: str, remedy: str, make: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """One finding says it all, and names no line to those who only read."""
    path = tmp_path / "log"
    path.write_bytes(make(LOG.bytes()))
    assert [Damage.HEADER_MISSING] == [one.code for one in verify(path).findings]
    with pytest.raises(DamagedLog) as raised:
        read_session(path)
    assert raised.value.line is None


NO_RECORDS: Final[list[tuple[str, str, bytes]]] = [
    ("text that is no JSON", "name a session's log", b"# Notes\n\nNo log.\n" * 400 + b"The end."),
    ("the first line is empty", "name another file", b"\n" * 3_000),
    ("of type 'user'", "name another file", b'{"type":"user","message":{"role":"user"}}\n' * 9),
    ("sent to a provider", "name a session's log", b'{"role":"user","content":"hi"}\n' * 9),
    ("header's line was never finished", "name another file", LOG.bytes()[:20]),
    ("begins with zeros", "look for a copy", bytes(9_000)),
    ("begins with binary data", "name a session's log", b"\x01\0\x02\n" * 999),
]
"""What a file begins with, what to do, and all of it: it might hold records further on."""


@pytest.mark.parametrize(("what", "remedy", "content"), NO_RECORDS, ids=ids)
def test_a_file_without_a_record_is_told_in_one_finding(
    what: str, remedy: str, content: bytes, tmp_path: Path
) -> None:
    """Where nothing is a record, no line is blamed for it; the exit code is that of damage."""
    path = tmp_path / "notes"
    path.write_bytes(content)
    (told,) = verify(path).findings
    assert (Damage.HEADER_MISSING, 1) == (told.code, told.line)
    assert what in told.message
    assert remedy in told.message
    for words in (["verify"], ["repair"], ["repair", "--in-place"]):
        done = dshc(*words, path)
        assert (1, True) == (done.code, f"{path}: 1 finding" in done.out)
    assert content == path.read_bytes()


def test_one_record_makes_every_line_count(tmp_path: Path) -> None:
    """Text with an event in it may be what is left of a log."""
    path = tmp_path / "log"
    path.write_bytes(b"hello\nworld\n" + LOG.lines()[1])
    assert ["header-missing", "not-json"] == [one.code for one in verify(path).findings]


@pytest.mark.parametrize("make", [as_text("utf-8-sig"), lambda data: b"\x01\0\x02\n" + data])
def test_a_log_that_begins_wrong_is_judged_on(
    make: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """The events behind a spoilt beginning count, and are found sound."""
    path = tmp_path / "log"
    path.write_bytes(make(LOG.bytes()))
    assert verify(path).events >= len(RECORDS) - 1


def test_what_a_frame_holds_is_told_too(tmp_path: Path) -> None:
    """An archive that was compressed with Zstandard is unpacked to be looked at."""
    path = tmp_path / "log"
    path.write_bytes(frame(tarred(LOG.bytes()) + b"\n"))
    with pytest.raises(DamagedLog, match="a tar archive; unpack it first"):
        read_session(path)
    assert "a tar archive" in verify(path).findings[0].message


def test_lines_that_end_in_two_characters_are_read(tmp_path: Path) -> None:
    """CR LF is white space to JSON: the log is sound."""
    path = tmp_path / "log"
    path.write_bytes(LOG.bytes().replace(b"\n", b"\r\n"))
    assert verify(path).ok
    with read_session(path) as session:
        assert len(RECORDS) - 1 == session.events


@pytest.mark.parametrize(
    "words",
    [
        ["measure"],
        ["history"],
        ["show"],
        ["export", "--to", "openai"],
        ["compact", "--force"],
        ["append", "--user", "hi"],
        ["recover", "--backend", "drop-oldest"],
        ["undo", "--output", "copy"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_tells_it_alike(words: list[str], tmp_path: Path) -> None:
    """One sentence on stderr and exit 4, and nothing was written."""
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(LOG.bytes()))
    told = dshc(words[0], packed.name, *words[1:], cwd=tmp_path)
    assert (4, "") == (told.code, told.out)
    wanted = 'dshc: log.jsonl.gz: the file is compressed with gzip; unpack it first ("gunzip")\n'
    assert told.err.endswith(wanted)
    assert [packed.name] == [one.name for one in tmp_path.iterdir() if one.suffix != ".lock"]


@given(st.binary(max_size=600) | st.text(max_size=200).map(str.encode))
@settings(max_examples=300)
def test_no_beginning_is_too_odd(head: bytes) -> None:
    """Whatever stands there, it is told or it is not: nothing is raised, and no word is empty."""
    found = foreign.seen(head)
    assert found is None or found.what


@given(st.integers(min_value=2))
@settings(max_examples=50)
def test_no_part_of_a_log_is_taken_for_something_else(size_bytes: int) -> None:
    """However little of a log is there, no line of it would be passed over."""
    found = foreign.seen(LOG.bytes()[: 1 + size_bytes % len(LOG.bytes())])
    assert found is None or not found.is_whole
