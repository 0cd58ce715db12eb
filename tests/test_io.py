"""What leaves the program: JSON that every parser reads and no terminal obeys, and colours."""

import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import Ran, python

from dsh_compact.cli import io
from dsh_compact.errors import UsageError, WriteFailed
from dsh_compact.report.terminal import safe

ANY_TEXT: Final = st.text(st.characters(codec=None, categories=None))
JSON_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    """The program's end of a real terminal, 57 columns wide."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 57))
    with open(theirs, "w") as stream:
        yield stream
    os.close(ours)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON_VALUES)
def test_json_is_one_safe_line_of_the_same_value(
    capfdbinary: pytest.CaptureFixture[bytes], value: Any
) -> None:
    """Whatever a log holds comes back from the line of JSON, and the line has nothing to obey."""
    io.emit_json({"value": value})
    line = capfdbinary.readouterr().out.decode("utf-8")
    assert {"value": value} == json.loads(line)
    assert line == safe(line[:-1]) + "\n"


def test_json_and_text_escape_the_same_characters(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Of all characters, exactly those that a line of text shows as escapes are escapes in JSON."""
    every = "".join(map(chr, [*range(0x20, 0xD800), *range(0xE000, sys.maxunicode + 1)]))
    io.emit_json(every)
    line = capfdbinary.readouterr().out.decode("utf-8")[1:-2]
    assert every == json.loads(f'"{line}"')
    blocks = (every[at : at + 256] for at in range(0, len(every), 256))
    unchanged = set[str]()
    for block in blocks:  # nearly all are unchanged as a whole, which is quick to see
        unchanged |= {*block} if block == safe(block) else {c for c in block if c == safe(c)}
    assert unchanged == {*line} | {"\\"}


def test_numbers_beyond_64_bits_are_written_out(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A number of any size is printed as it is, with its neighbours in their order."""
    io.emit_json({"b": 10**30, "a": "\ud83d"})
    assert b'{"b":1000000000000000000000000000000,"a":"\\ud83d"}\n' == capfdbinary.readouterr().out


def test_text_and_json_come_in_order() -> None:
    """Text written before an object is printed before it, though they take different ways."""
    done = python("from dsh_compact.cli import io; io.emit_text('first'); io.emit_json({})")
    assert Ran(code=0, out="first\n{}\n", err="") == done


@pytest.mark.parametrize(
    ("welcome", "env"),
    [
        (True, {"TERM": "xterm"}),
        (False, {"TERM": "dumb"}),
        (False, {"TERM": "xterm", "NO_COLOR": "1"}),
        (True, {"TERM": "xterm", "NO_COLOR": ""}),
        (True, {"TERM": "dumb", "FORCE_COLOR": "1"}),
        (False, {"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}),
    ],
)
def test_colours_are_used_where_a_terminal_welcomes_them(
    monkeypatch: pytest.MonkeyPatch, terminal: TextIO, welcome: bool, env: dict[str, str]
) -> None:
    """A terminal gets colours; NO_COLOR forbids them, a dumb one needs FORCE_COLOR."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert welcome == io.use_color(terminal)


@pytest.mark.parametrize(("welcome", "force"), [(False, ""), (False, "0"), (True, "1")])
def test_a_pipe_gets_colours_only_by_force(
    monkeypatch: pytest.MonkeyPatch, welcome: bool, force: str
) -> None:
    """What is no terminal gets colours only where FORCE_COLOR asks for them."""
    monkeypatch.setenv("FORCE_COLOR", force)
    with open(os.devnull, "w") as pipe:
        assert welcome == io.use_color(pipe)


def test_the_width_is_the_terminals(terminal: TextIO) -> None:
    """A terminal tells its width; where there is none, nothing is cut."""
    assert 57 == io.console_width(terminal)
    with open(os.devnull, "w") as pipe:
        assert io.console_width(pipe) is None


@pytest.mark.parametrize(("width", "columns"), [(33, "33"), (57, "0"), (57, "wide"), (57, "-3")])
def test_columns_is_believed_when_it_is_a_number(
    monkeypatch: pytest.MonkeyPatch, terminal: TextIO, width: int, columns: str
) -> None:
    """COLUMNS stands above the terminal, unless it is nonsense."""
    monkeypatch.setenv("COLUMNS", columns)
    assert width == io.console_width(terminal)


def test_a_closed_stream_is_no_terminal() -> None:
    """Nobody sits behind a stream that is closed or was never there."""
    with open(os.devnull, "w") as stream:
        pass
    assert not io.is_terminal(stream)
    assert not io.is_terminal(None)


def test_a_notice_shows_what_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A notice bears the program's name and no control character but its line feeds."""
    io.notice("a\x1b[2J\nb")
    assert ("", "dshc: a\\x1b[2J\nb\n") == capsys.readouterr()
    assert sys.stderr is not None


# Files --------------------------------------------------------------------------------------------


def test_a_report_takes_the_place_of_a_report_only(tmp_path: Path) -> None:
    """An earlier report, an empty file, nothing at all: else what stands there is kept."""
    path = tmp_path / "file"
    for before in (None, b"", b'<?xml version="1.0"?>'):
        if before is not None:
            path.write_bytes(before)
        io.write_file(str(path), "<?xml new")
        assert b"<?xml new" == path.read_bytes()
    path.write_bytes(b'{"type":"session"}')
    with pytest.raises(UsageError, match="is no report, and would be lost"):
        io.write_file(str(path), "<?xml new")
    assert [(path, b'{"type":"session"}')] == [
        (one, one.read_bytes()) for one in tmp_path.iterdir()
    ]


def test_a_report_goes_where_a_link_leads(tmp_path: Path) -> None:
    """The link stays a link."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    io.write_file(str(link), "<?xml")
    assert (True, b"<?xml") == (link.is_symlink(), (tmp_path / "file").read_bytes())


def test_a_report_into_a_pipe_leaves_it_a_pipe(tmp_path: Path) -> None:
    """What is no file is never replaced by one: it is written into."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        io.write_file(str(pipe), "<?xml new")
        assert reader.stdout is not None
        assert b"<?xml new" == reader.stdout.read()
    assert pipe.is_fifo()


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A folder, and a device that is full, are told with their names."""
    for path in (str(tmp_path), "/dev/full", str(tmp_path / "no" / "folder")):
        with pytest.raises(WriteFailed, match=f"^{path}: cannot be written: "):
            io.write_file(path, "<?xml")


def test_what_has_no_end_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is read whole up to a limit, and then refused."""
    monkeypatch.setattr(io, "MOST_INPUT_BYTES", 1 << 21)
    with pytest.raises(UsageError, match="/dev/zero: more than 2 MiB came"):
        io.read_file("/dev/zero")
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 21))
    assert 1 << 21 == len(io.read_file(str(path)))
