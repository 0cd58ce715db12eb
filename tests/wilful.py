"""Backends that do anything at all, for the law of the overflow path; and who tells what they did.

The rule of this file: what a backend does is a list of `Step`s, drawn by hypothesis or written by
hand, and the witness who says whether the log grew shares no code with the product: it looks at the
bytes, the inode, and reads them with the plain reader.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import plain_reader
from builders import Conversation, call
from hypothesis import strategies as st

from dsh_compact.backends import Claim
from dsh_compact.codec import encode
from dsh_compact.events import NOWHERE, Replace, SurfaceChange, Text
from dsh_compact.planning import NoSpan, PruneBudget, Span
from dsh_compact.policy import Policy
from dsh_compact.summarizers import Summary
from dsh_compact.surface import Node
from dsh_compact.workbench import Workbench

POLICY: Final = Policy(
    prune_threshold_characters=400, prune_head_characters=150, prune_tail_characters=50
)
"""Results of a few hundred characters are long, so that short logs will do."""

TINY: Final = PruneBudget(threshold=300, head=60, tail=20)

Act = Callable[[Workbench], Claim | None]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a backend does; a returned claim ends its round. `scribbles` where it touches
    the file itself, past lock and format.
    """

    name: str
    act: Act = field(repr=False)
    scribbles: bool = False


class Wilful:
    """Does what it is told, a list of steps a round, and nothing once they are used up.

    `stubborn`: goes on after a step that failed.
    """

    name = "wilful"

    def __init__(self, *rounds: Sequence[Step], stubborn: bool = False) -> None:
        self.rounds = list(rounds)
        self.stubborn = stubborn
        self.is_done = False

    def compact(self, bench: Workbench) -> Claim:
        """One round."""
        self.is_done = False
        try:
            return self._round(bench, self.rounds.pop(0) if self.rounds else ())
        finally:
            self.is_done = True

    def _round(self, bench: Workbench, steps: Sequence[Step]) -> Claim:
        for step in steps:
            try:
                claim = step.act(bench)
            except Exception:
                if not self.stubborn:
                    raise
                continue
            if claim is not None:
                return claim
        return Claim(acted=True, note="did as it was told")


# What one can do with a workbench -----------------------------------------------------------------


def claim(acted: bool, note: str = "") -> Step:
    """Says something and returns."""
    return Step(f"claim {acted}", lambda bench: Claim(acted=acted, note=note))


def fail(error: type[BaseException]) -> Step:
    """Raises."""

    def act(bench: Workbench) -> None:
        raise error("as it was told")

    return Step(f"raise {error.__name__}", act)


def sleep(seconds: float) -> Step:
    """Waits."""
    return Step(f"sleep {seconds}", lambda bench: time.sleep(seconds))


def prune() -> Step:
    """Cuts every tool result of some length."""
    return Step("prune", lambda bench: _nothing(bench.prune(TINY)))


def fold(text: str) -> Step:
    """Replaces all that may go by a summary of that text."""
    return Step(f"fold {len(text)}", lambda bench: _fold(bench, _span(bench), text))


def fold_part(first: int, last: int) -> Step:
    """Replaces the nodes from one place to another, whether they may go or not."""

    def act(bench: Workbench) -> None:
        items = bench.session.items()[first : last + 1]
        span = Span(seqs=tuple(one.seq for one in items), tokens=1)
        _fold(bench, span, "in part")

    return Step(f"fold {first}–{last}", act)


def _span(bench: Workbench) -> Span:
    span = bench.choose()
    if isinstance(span, NoSpan):
        raise LookupError(span.reason)
    return span


def _fold(bench: Workbench, span: Span, text: str) -> None:
    bench.replace(span, lambda: Summary(text=text, provider="tests", model="wilful"))


def _nothing(_: Any) -> None:
    return None


# What one can do with the session behind it -------------------------------------------------------


def note(text: str) -> Step:
    """Appends a message through the session's own door."""
    return Step(
        "append", lambda bench: _nothing(bench.session.append([_message(text, "from-a-backend")]))
    )


def open_bracket() -> Step:
    """Begins a compaction and forgets about it."""
    return Step(
        "open a bracket",
        lambda bench: _nothing(
            bench.session.append([encode.compaction_start("left-open", bench.session.turns.turn)])
        ),
    )


def replace_bare() -> Step:
    """Replaces a message through the session's own door, without any bracket."""
    return Step("replace", lambda bench: _nothing(bench.session.append([_bare(bench)])))


def forge() -> Step:
    """Raises the generation in memory."""

    def act(bench: Workbench) -> None:
        bench.session.surface._generation += 5

    return Step("forge", act)


def forget() -> Step:
    """Shortens the conversation in memory, by the fold's own rules."""

    def act(bench: Workbench) -> None:
        session = bench.session
        seqs = session.surface.seqs[1:]
        op = Replace(seqs[0], seqs[-1])
        change = SurfaceChange(session.events, "user", op, seqs, NOWHERE)
        session.surface = session.surface.extend(change, _no_result)

    return Step("forget", act)


def _no_result(node: Node) -> bytes:
    raise AssertionError(f"{node.seq} is no result that is replaced by another")


def _message(text: str, message_id: str) -> encode.Draft:
    return encode.user_message((Text(text=text),), message_id)


def _bare(bench: Workbench) -> encode.Draft:
    old = bench.session.surface.seqs[-1]
    draft = _message("put in its place", "bare")
    return encode.Draft(type=draft.type, data=draft.data, op=Replace(old, old), sources=(old,))


# What one can do with the file --------------------------------------------------------------------


def write(data: bytes) -> Step:
    """Puts bytes behind the log's end."""
    return Step(f"write {data[:12]!r}", lambda bench: _write(bench, data), scribbles=True)


def write_message() -> Step:
    """Writes a whole, right record, without the lock."""
    return Step(
        "write a record",
        lambda bench: _write(bench, _line(bench, _message("hi", "w"))),
        scribbles=True,
    )


def write_replacement() -> Step:
    """Writes a whole, right replacement, without the lock: the generation on disk does grow."""
    return Step(
        "write a replacement", lambda bench: _write(bench, _line(bench, _bare(bench))), True
    )


def flip(offset: int) -> Step:
    """Changes one byte of what the log already said."""

    def act(bench: Workbench) -> None:
        with open(bench.session.path, "r+b") as log:
            at = offset % os.fstat(log.fileno()).st_size
            log.seek(at)
            old = log.read(1)
            log.seek(at)
            log.write(bytes([old[0] ^ 1]))

    return Step(f"flip {offset}", act, scribbles=True)


def cut(size: int) -> Step:
    """Cuts bytes off the log's end."""

    def act(bench: Workbench) -> None:
        path = bench.session.path
        os.truncate(path, max(0, Path(path).stat().st_size - size))

    return Step(f"cut {size}", act, scribbles=True)


def swap() -> Step:
    """Puts a faithful copy in the log's place, one replacement longer."""

    def act(bench: Workbench) -> None:
        path = bench.session.path
        shutil.copyfile(path, path + ".copy")
        with open(path + ".copy", "ab") as copy:
            copy.write(_line(bench, _bare(bench)))
        Path(path + ".copy").rename(path)

    return Step("swap", act, scribbles=True)


def delete() -> Step:
    """Removes the log."""
    return Step("delete", lambda bench: Path(bench.session.path).unlink(), scribbles=True)


def pipe() -> Step:
    """Puts a pipe in the log's place: whoever opens it would wait for ever."""

    def act(bench: Workbench) -> None:
        Path(bench.session.path).unlink()
        os.mkfifo(bench.session.path)

    return Step("pipe", act, scribbles=True)


def _write(bench: Workbench, data: bytes) -> None:
    fd = os.open(bench.session.path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)  # a pipe: no wait
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _line(bench: Workbench, draft: encode.Draft) -> bytes:
    session = bench.session
    return draft.line(session.events, session.now_ms(), session.format) + b"\n"


# Drawn --------------------------------------------------------------------------------------------

SUMMARIES: Final = ("short", "a summary of some length. " * 8, "longer than it all. " * 900, " \n ")

orderly_steps = st.one_of(
    st.builds(claim, st.booleans(), st.sampled_from(["", "\x1b[31m", "\ud83d"])),
    st.builds(fail, st.sampled_from([ValueError, MemoryError, SystemExit, KeyboardInterrupt])),
    st.builds(prune),
    st.builds(fold, st.sampled_from(SUMMARIES)),
    st.builds(fold_part, st.integers(0, 6), st.integers(0, 6)),
    st.builds(note, st.sampled_from(["hello", "\ud83d", ""])),
    st.builds(open_bracket),
    st.builds(replace_bare),
    st.builds(forge),
    st.builds(forget),
)
"""All that can be done through the project's own doors, and to objects in memory."""

unruly_steps = st.one_of(
    st.builds(write, st.sampled_from([b"\x00\xff garbage\n", b"torn", b"{}\n", b"\n"])),
    st.builds(write_message),
    st.builds(write_replacement),
    st.builds(flip, st.integers(0, 1 << 20)),
    st.builds(cut, st.integers(1, 2000)),
    st.builds(swap),
    st.builds(delete),
    st.builds(pipe),
)
"""All that can be done to the file itself."""


def rounds(steps: st.SearchStrategy[Step]) -> st.SearchStrategy[list[list[Step]]]:
    """What a backend does in up to three rounds."""
    return st.lists(st.lists(steps, max_size=4), min_size=1, max_size=3)


# The log, and the witness -------------------------------------------------------------------------


def stuck(version: int = 4) -> Conversation:
    """A session in an open step that has just been refused, with results that can be cut."""
    digits = " ".join(map(str, range(10_000, 10_200)))
    return (
        Conversation(format=version, window=3_000)
        .system("You help with numbers.")
        .user("Which of these are prime? " + digits[:400])
        .assistant("Let me see.", calls=[call("c1"), call("c2")])
        .result("c1", digits)
        .result("c2", digits[:600])
        .assistant("Some of them.")
        .user("And of the rest?")
        .assistant("Looking.", calls=[call("c3")])
        .result("c3", digits)
        .refusal(limit=1_500, requested=1_900)
    )


@dataclass(frozen=True, slots=True)
class Witness:
    """What stood on disk at one moment."""

    inode: int
    data: bytes
    generation: int

    @classmethod
    def of(cls, path: Path) -> Witness:
        """Looks at a log that can be read."""
        data = path.read_bytes()
        read = plain_reader.read(data)
        assert read.broken is None
        return cls(path.stat().st_ino, data, read.generation)

    def saw_it_grow(self, path: Path) -> bool:
        """Whether the same file, its history untouched, was replaced in more often since."""
        if not path.is_file() or path.stat().st_ino != self.inode:
            return False
        data = path.read_bytes()
        read = plain_reader.read(data)
        if read.broken is not None or not data.startswith(self.data):
            return False
        if read.torn and data.endswith(b"\n"):  # a whole last line that is none: the harness
            return False  # drops it, but a log that somebody scribbled into proves nothing
        return read.generation > self.generation


def records(path: Path) -> list[Any]:
    """The log's records, decoded."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
