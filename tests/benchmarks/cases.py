"""What is measured, and what is promised of it.

A case is some logs and some commands on them; a command is held against another one of the same
case. Knows nothing of how anything is measured.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

DSHC: Final = str(Path(sys.executable).with_name("dshc"))

COPIED: Final = "copy of "
"""Before the name of a log: the command gets its own copy in each round, for it writes."""

COPIES: Final = "--copies"
"""Before a number in a log's words: not one log, but a folder of so many equal ones."""

ORJSON: Final = """
import os, sys, orjson
def logs(path):
    return [e.path for e in os.scandir(path)] if os.path.isdir(path) else [path]
for log in logs(sys.argv[1]):
    with open(log, 'rb') as lines:
        for line in lines: orjson.loads(line)
"""
"""The yardstick: what a program pays that only decodes each line."""

EMPTY_APP: Final = """
import typer
app = typer.Typer()
@app.command()
def one(log: str) -> None: ...
@app.command()
def two(log: str) -> None: ...
app()
"""

ONE_CORE: Final = """
import os, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Before a command: it may use one core, so it starts no processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """At most so many times what the other command takes, or so many MB at the peak."""

    command: str
    at_most: float
    times: str | None = None

    def __str__(self) -> str:
        """The limit as the table's last column shows it."""
        return f"≤ {self.at_most:g} MB" if self.times is None else f"≤ {self.at_most:g} ×"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Logs by name, each with the generator's words; commands by label, in which names are logs.

    What has no promise is measured against the first command. `judged` by the clock, or by CPU time
    where all that is compared is short, or where growth matters, of which a second process for the
    larger log alone would hide some.
    """

    title: str
    logs: Mapping[str, Sequence[str]]
    commands: Mapping[str, Sequence[str]]
    promises: Sequence[Promise] = ()
    codes: Mapping[str, int] = field(default_factory=dict)
    judged: Literal["CPU", "clock"] = "clock"
    rounds: int | None = None


def dshc(*words: str) -> list[str]:
    """The installed command."""
    return [DSHC, *words]


def python(code: str, *words: str) -> list[str]:
    """A fresh interpreter."""
    return [sys.executable, "-c", code, *words]


def reading(most_mb: float) -> list[Promise]:
    """What is promised of every large log."""
    return [
        Promise(command="measure", at_most=0.6, times="orjson"),
        Promise(command="measure", at_most=most_mb),
        Promise(command="history", at_most=0.6, times="orjson"),
        Promise(command="measure --strict", at_most=1.6, times="orjson"),
    ]


READERS: Final = {
    "orjson": python(ORJSON, "log"),
    "measure": dshc("measure", "log"),
    "measure --strict": dshc("measure", "log", "--strict"),
    "history": dshc("history", "log"),
    "verify": dshc("verify", "log"),
}

CASES: Final[Mapping[str, Case]] = {
    "100mb": Case(
        title="100 MB",
        logs={"log": ["realistic", "--mb", "100"]},
        commands=READERS,
        promises=reading(80),
    ),
    "100mb-format-0": Case(
        title="100 MB in format 0",
        logs={"log": ["realistic", "--mb", "100", "--format", "0"]},
        commands=READERS,
        promises=reading(80),
    ),
    "500mb": Case(
        title="500 MB",
        logs={"log": ["realistic", "--mb", "500"]},
        commands={"orjson": python(ORJSON, "log"), "measure": dshc("measure", "log")},
        promises=reading(120)[:2],
    ),
    "framed": Case(
        title="100 MB in frames",
        logs={
            "plain": ["realistic", "--mb", "100"],
            "framed": ["realistic", "--mb", "100", "--framed"],
        },
        commands={"its plain twin": dshc("measure", "plain"), "measure": dshc("measure", "framed")},
        promises=[Promise(command="measure", at_most=2.2, times="its plain twin")],
    ),
    "compact": Case(
        title="100 MB",
        logs={"log": ["realistic", "--mb", "100"]},
        commands={
            "measure": dshc("measure", "log"),
            "compact": dshc("compact", f"{COPIED}log", "--force"),
        },
        promises=[Promise(command="compact", at_most=1.5, times="measure")],
    ),
    "many-logs": Case(
        title="400 logs of 250 KB",
        logs={"folder": ["realistic", "--mb", "0.25", COPIES, "400"]},
        commands={
            "orjson": python(ORJSON, "folder"),
            "measure": dshc("measure", "folder"),
            "verify on one core": python(ONE_CORE, *dshc("verify", "folder")),
            "verify": dshc("verify", "folder"),
        },
        promises=[
            Promise(command="measure", at_most=2, times="orjson"),
            Promise(command="verify", at_most=0.8, times="verify on one core"),
        ],
    ),
    "nodes": Case(
        title="200,000 nodes",
        logs={
            "few": ["many-nodes", "--count", "25000"],
            "many": ["many-nodes", "--count", "200000"],
        },
        commands={"25,000 nodes": dshc("measure", "few"), "measure": dshc("measure", "many")},
        promises=[Promise(command="measure", at_most=10, times="25,000 nodes")],
        judged="CPU",
    ),
    "replacements": Case(
        title="5,000 replacements among 200,000 nodes",
        logs={
            "none": ["many-nodes", "--count", "200000"],
            "many": ["many-replacements", "--count", "200000", "--replacements", "5000"],
        },
        commands={
            "none": dshc("measure", "none"),
            "measure": dshc("measure", "many"),
            "history": dshc("history", "many"),
        },
        promises=[Promise(command="measure", at_most=2, times="none")],
        judged="CPU",
    ),
    "one-node": Case(
        title="one node replaced 50,000 times",
        logs={
            "twin": ["one-node-twin", "--count", "50000"],
            "larger twin": ["one-node-twin", "--count", "76500"],  # as many bytes as "pruned"
            "message": ["one-message-replaced", "--count", "50000"],
            "pruned": ["one-result-replaced", "--count", "50000"],
        },
        commands={
            "as many bytes without": dshc("measure", "twin"),
            "measure, a message": dshc("measure", "message"),
            "as many bytes of results": dshc("measure", "larger twin"),
            "measure, a result": dshc("measure", "pruned"),
            "history, a result": dshc("history", "pruned"),
        },
        promises=[
            Promise(command="measure, a message", at_most=2, times="as many bytes without"),
            Promise(command="measure, a result", at_most=2, times="as many bytes of results"),
        ],
    ),
    "live-prunes": Case(
        title="50,000 results pruned",
        logs={"log": ["many-live-prunes", "--count", "50000"]},
        commands={"orjson": python(ORJSON, "log"), "measure": dshc("measure", "log")},
    ),
    "short-lines": Case(
        title="50 MB of short lines",
        logs={"log": ["short-lines", "--mb", "50"]},
        commands={"orjson": python(ORJSON, "log"), "measure": dshc("measure", "log")},
        promises=[Promise(command="measure", at_most=2, times="orjson")],
    ),
    "one-line": Case(
        title="50 MB in one line",
        logs={"log": ["one-line", "--mb", "50"]},
        commands={"orjson": python(ORJSON, "log"), "measure": dshc("measure", "log")},
    ),
    "attacks": Case(
        title="hostile",
        logs={"deep": ["deep", "--count", "100000"], "bomb": ["bomb", "--count", "10000000000"]},
        commands={
            "verify, brackets 100,000 deep": dshc("verify", "deep"),
            "measure, a frame of 10 GB": dshc("measure", "bomb"),
        },
        promises=[Promise(command="measure, a frame of 10 GB", at_most=600)],
        codes={"verify, brackets 100,000 deep": 1, "measure, a frame of 10 GB": 4},
    ),
    "start-up": Case(
        title="start-up",
        logs={"log": ["realistic", "--mb", "0.1"]},
        commands={
            "python -c pass": python("pass"),
            "an empty typer app": python(EMPTY_APP, "one", "log"),
            "--version": dshc("--version"),
            "--help": dshc("--help"),
            "measure, 100 KB": dshc("measure", "log"),
            "history, 100 KB": dshc("history", "log"),
        },
        promises=[
            Promise(command="--version", at_most=3, times="python -c pass"),
            Promise(command="measure, 100 KB", at_most=9, times="python -c pass"),
            Promise(command="measure, 100 KB", at_most=1.3, times="an empty typer app"),
        ],
        judged="CPU",
        rounds=31,
    ),
}

SCRIPTS: Final = ("append", "tokenizers")
"""Modules here that time calls within a process and print rows of the same table."""
