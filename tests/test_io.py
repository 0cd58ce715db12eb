"""What leaves the program: JSON that every parser reads and no terminal obeys, and colours."""

import json
import os
import pty
import sys
import termios
from collections.abc import Iterator
from typing import Any, Final, TextIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import Ran, python

from dsh_compact.cli import io
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
    assert {c for c in every if c == safe(c)} == {*line} | {"\\"}


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
