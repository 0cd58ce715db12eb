"""No line is wider than the terminal: every command that reads, on every real log."""

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from builders import Conversation
from rich.cells import cell_len

PER_LOG: Final = (
    "measure {}", "history {}", "show {}", "show --diff 0 1 {}", "config {}",
    "verify {}", "verify --strict {}", "compact --dry-run --force {}",
    "compact --dry-run --force --check-facts {}",
    "compact --dry-run --force --retain-tokens 3000 --window 8000 {}",
    "repair --dry-run {}", "history --strict {}",
)  # fmt: skip
ONCE: Final = (
    "measure .", "verify .", "--help", "verify --demo", "show --demo --diff 0 2",
    "history --demo", "measure --demo --tokenizer o200k_base", "backends", "config", "recover",
    "recover --silent", "recover --error-like bedrock",
    "recover --backend lying --compare --price 3", "recover --backend bloated",
    "recover v4-stuck.jsonl --backend prune-then-crash --limit 7800",
    "conformance --backend lying", "classify 429",
    "classify 32768_tokens_at_most,_but_40000_(38000_in_the_messages,_2000_in_the_completion).",
    "undo v4-overflow.jsonl -o undone.jsonl", "append v4-killed.jsonl --user hi",
    "append --new new.jsonl --user hi", "repair broken.jsonl", "compact v4-stuck.jsonl",
)  # fmt: skip
"""Words, `{}` the log's name; the second ones are said once. What they write lies in a folder of
the test."""

DRIVER: Final = """
import json, sys
from dsh_compact.__main__ import main
for line in json.loads(sys.argv[1]):
    print("\\x1e" + line, flush=True)
    code = main(line.split(" "))
    assert code in (0, 1, 2, 3, 4), code
"""
"""Many commands in one process: its start costs more than most of them."""

COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def shown(lines: list[str], columns: int, folder: Path) -> dict[str, list[str]]:
    """What a terminal of so many columns is sent on stdout by each command line, row by row."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, json.dumps(lines)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        sent = b""
        with contextlib.suppress(OSError):  # how a terminal says that nobody is left
            while piece := os.read(ours, 1 << 16):
                sent += piece
    os.close(ours)
    assert 0 == process.returncode, sent[-2_000:].decode()
    told = COLOURS.sub("", sent.decode("utf-8")).replace("\r\n", "\n").split("\x1e")[1:]
    assert b"\x1b[" in sent
    return {rows.split("\n")[0]: rows.split("\n")[1:] for rows in told}


def too_wide(rows: list[str], columns: int) -> list[str]:
    """The rows that don't fit, but for what is there to be copied: one word, or a command."""
    return [
        row
        for row in rows
        if cell_len(row) > columns and " " in row and not re.fullmatch(r'"dshc [^"]*"', row)
    ]


def test_no_line_is_wider_than_the_terminal(logs: Path, tmp_path: Path) -> None:
    """In colour, on a real terminal, sound logs and damaged ones, by every command."""
    folders = {columns: shutil.copytree(logs, tmp_path / f"{columns}") for columns in (40, 60, 80)}
    with ThreadPoolExecutor() as pool:  # each is but a process to be waited for
        assert [None, None, None] == [*pool.map(check_widths, folders.keys(), folders.values())]


def check_widths(columns: int, logs: Path) -> None:
    """The same on a terminal of so many columns."""
    whole = (logs / "v4-resumed.jsonl").read_bytes().splitlines(keepends=True)
    (logs / "broken.jsonl").write_bytes(b"".join([*whole[:8], *whole[9:]])[:-20])
    (logs / "two.jsonl").write_bytes(
        b"".join([*whole[:20], *(logs / "v4-stuck.jsonl").read_bytes().splitlines(keepends=True)])
    )
    Conversation().user("日本語" * 99 + " 🙂" * 99 + " \x1b[2J" * 99).assistant("x" * 999).write(
        logs / "a-name-that-is-longer-than-a-line-of-forty-cells.jsonl"
    )
    names = sorted(path.name for path in logs.iterdir() if ".jsonl" in path.name)
    lines = [line.format(name) for line in PER_LOG for name in names] + [*ONCE]
    told = shown(lines, columns, logs)
    assert lines == [*told]
    assert {} == {line: wide for line, rows in told.items() if (wide := too_wide(rows, columns))}
    refused = ("broken.jsonl", "two.jsonl", "--diff 0 1")
    assert [] == [
        line for line, rows in told.items() if not any(rows) and not any(x in line for x in refused)
    ]
