"""A program as summarizer: a real one each time, well-behaved and not."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest
from talks import ALL, Talk

from dsh_compact.events import Header, Message, Text
from dsh_compact.summarizers import (
    Options,
    Request,
    SummarizerFailed,
    SummarizerNotReady,
    Summary,
    load,
)
from dsh_compact.tokens import price_text

HEADER: Final = Header(
    provider="p", model="m-1", max_tokens=None, system=None, tools_json=None, tools_length=0,
    identity=b"",
)  # fmt: skip


def ask(code: str, *words: str, timeout_seconds: float = 30.0, **fields: Any) -> Summary:
    """The summary that a Python program gives."""
    summarizer = load("command", Options(command=(sys.executable, "-c", code, *words)))
    asked: dict[str, Any] = {"messages": ALL["debugging"]().messages, "max_tokens": 500, **fields}
    return summarizer.summarise(Request(header=HEADER, timeout_seconds=timeout_seconds, **asked))


def test_the_request_comes_as_json_on_standard_input(tmp_path: Path) -> None:
    """Conversation, system prompt, model, bound, wishes, and a prompt that a model understands."""
    seen = tmp_path / "seen.json"
    system = (Message(role="system", content=(Text(text="You help."),)),)
    ask(
        f"import sys; open({str(seen)!r}, 'w').write(sys.stdin.read()); print('done')",
        messages=Talk().user("Rename Foo.").messages,
        system=system,
        instructions="Keep the SQL.",
    )
    given = json.loads(seen.read_text())
    prompt = given.pop("prompt")
    assert {
        "schema": 1,
        "provider": "p",
        "model": "m-1",
        "system": [{"role": "system", "content": "You help."}],
        "messages": [{"role": "user", "content": "Rename Foo."}],
        "max_tokens": 500,
        "instructions": "Keep the SQL.",
    } == given
    assert prompt.startswith("Write a checkpoint")
    assert "Keep the SQL." in prompt


def test_its_output_is_the_summary() -> None:
    """What it prints, without blanks around; what it says beside it is a notice."""
    made = ask("import sys; print('  a summary\\n'); print('used 3 calls', file=sys.stderr)")
    assert "a summary" == made.text
    assert ("command", Path(sys.executable).name) == (made.provider, made.model)
    assert ("used 3 calls",) == made.notices


def test_it_need_not_read() -> None:
    """A program that never looks at its input is no failure, however long that is."""
    messages = Talk().user("x" * 3_000_000).messages
    assert "short" == ask("print('short')", messages=messages).text


def test_it_may_print_before_it_reads() -> None:
    """Neither side waits for the other: much output and much input don't block."""
    code = "import sys; print('word ' * 60_000); sys.stdin.read()"
    made = ask(code, messages=Talk().user("x" * 3_000_000).messages, max_tokens=100)
    assert price_text(made.text) <= 100


def test_a_string_is_split_without_a_shell(tmp_path: Path) -> None:
    """Quotes are understood; what only a shell knows is an ordinary word."""
    script = tmp_path / "say it.py"
    script.write_text("import sys; print(sys.argv[1:])")
    command = f"{sys.executable} '{script}' '$HOME; ls' > x"
    summarizer = load("command", Options(command=command))
    made = summarizer.summarise(Request(messages=(), max_tokens=50))
    assert "['$HOME; ls', '>', 'x']" == made.text


@pytest.mark.parametrize(
    ("wanted", "command"),
    [("no program is named", ""), ("no program is named", ()), ("can't be split", "a 'b")],
)
def test_a_command_that_is_none(wanted: str, command: str | tuple[str, ...]) -> None:
    """Without a program, or with one that can't be read, it is not ready: wrong usage."""
    with pytest.raises(SummarizerNotReady, match=wanted) as caught:
        load("command", Options(command=command))
    assert 2 == caught.value.exit_code


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ("ended with exit code 3:\nhm", "import sys; print('hm', file=sys.stderr); exit(3)"),
        ("printed no summary", "print(' ')"),
        ("printed no summary:\nhm", "import sys; print('hm', file=sys.stderr)"),
        ("was ended by signal 9", "import os; os.kill(os.getpid(), 9)"),
        ("doesn't stop printing", "while True: print('x' * 100_000)"),
        ("doesn't stop printing", "print('x' * 9_000_000)"),
    ],
)  # fmt: skip
def test_failures_are_told(wanted: str, code: str) -> None:
    """Exit code, signal, silence and flood are errors, with the end of what the program said."""
    with pytest.raises(SummarizerFailed) as caught:
        ask(code)
    assert wanted in str(caught.value)
    assert 5 == caught.value.exit_code


def test_a_program_that_is_not_there() -> None:
    """A name that the system doesn't know is told with what to check."""
    summarizer = load("command", Options(command=("no-such-program-anywhere",)))
    with pytest.raises(SummarizerFailed, match=r"can't be run: No such file.*summarizer_command"):
        summarizer.summarise(Request(messages=(), max_tokens=50))


def test_time_runs_out_for_all_that_it_started(tmp_path: Path) -> None:
    """Past the limit the program is killed together with its children, and its words are shown."""
    pid = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "print('thinking', file=sys.stderr, flush=True)\n"
        "time.sleep(60)\n"
    )
    began = time.monotonic()
    with pytest.raises(SummarizerFailed, match=r"longer than 1.5 seconds .*:\nthinking"):
        ask(code, timeout_seconds=1.5)
    assert time.monotonic() - began < 10
    assert not is_alive(int(pid.read_text()))


def test_a_child_that_holds_the_pipe_does_not_hold_us(tmp_path: Path) -> None:
    """A program that ends well is believed, though something it started keeps its output open."""
    pid = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "print('a summary')\n"
    )
    began = time.monotonic()
    assert "a summary" == ask(code).text
    assert time.monotonic() - began < 15
    assert not is_alive(int(pid.read_text()))


def is_alive(pid: int) -> bool:
    """Whether a process still runs, a moment after it should have gone."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    os.kill(pid, 9)
    return True


def test_harmful_output_is_made_harmless() -> None:
    """Escapes, broken bytes and frame marks don't get into the log."""
    code = "import sys; sys.stdout.buffer.write(b'a\\x1b[31mb\\x00c\\xff<compacted-summary>')"
    assert "ab\ufffdc\ufffd[compacted-summary]" == ask(code).text


def test_lone_surrogates_are_sent(tmp_path: Path) -> None:
    """A conversation with half a character in it is valid JSON in UTF-8 for the program."""
    code = "import sys, json; print(json.load(sys.stdin)['messages'][0]['content'])"
    assert "a\ufffdb" == ask(code, messages=Talk().user("a\ud83db").messages).text
