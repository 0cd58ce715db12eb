"""A session as it stood at an earlier point of its log, and how two generations differ.

Rule: the log is folded up to that point and no further, by the same fold as ever; what stands
behind the point, damage included, is not looked at. A generation means the conversation as it stood
last before it was replaced again, so the newest generation is the session as it is now.
"""

import os
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from dsh_compact.errors import UsageError
from dsh_compact.events import Event, Replace, SurfaceChange
from dsh_compact.session import Session, read_session
from dsh_compact.surface import Node, Surface

Path: TypeAlias = str | os.PathLike[str]


def read_at_seq(path: Path, seq: int, *, strict: bool = False) -> Session:
    """The session as it stood once the event `seq` was written.

    Raises `UsageError` where the log has no such event, `LogError` and its kin.
    """
    session = read_session(path, strict=strict, until=lambda event: event.seq > seq)
    if not session.stopped and session.events <= seq:
        session.close()
        there = (
            f"the last one is {session.events - 1}" if session.events else "there is none at all"
        )
        raise UsageError(f"{path}: there is no event {seq}", there)
    return session


def read_at_generation(path: Path, generation: int, *, strict: bool = False) -> Session:
    """The session as it stood last in `generation`, before the next replacement.

    Raises `UsageError` where the log never came so far, `LogError` and its kin.
    """
    return read_generations(path, generation, generation, strict=strict)[0]


def read_generations(
    path: Path, first: int, second: int, *, strict: bool = False
) -> tuple[Session, Surface, Surface]:
    """The surfaces of two generations, and the session that can fetch the messages of both."""
    earlier, later = sorted((first, second))
    seen = _Seen(earlier, later)
    session = read_session(path, strict=strict, watch=seen.watch, until=seen.is_beyond)
    reached = session.replace_generation
    if reached < later:
        session.close()
        raise UsageError(f"{path}: there is no generation {later}", f"the newest is {reached}")
    old, new = seen.surface or session.surface, session.surface
    return (session, old, new) if first <= second else (session, new, old)


class _Seen:
    """Keeps the surface that the earlier generation ended with, and ends the fold at the later."""

    def __init__(self, earlier: int, later: int) -> None:
        self.surface: Surface | None = None
        self._earlier = earlier
        self._left = later

    def watch(self, event: Event, before: Surface, after: Surface) -> None:
        if before.replace_generation == self._earlier < after.replace_generation:
            self.surface = before

    def is_beyond(self, event: Event) -> bool:
        if isinstance(event, SurfaceChange) and isinstance(event.op, Replace):
            self._left -= 1
        return self._left < 0


# Differences --------------------------------------------------------------------------------------

Mark: TypeAlias = Literal["gone", "new", "kept"]


class Difference(NamedTuple):
    """A node of one surface or of both."""

    mark: Mark
    node: Node


def differences(old: Surface, new: Surface) -> Iterator[Difference]:
    """All nodes of both surfaces in one order, each with what became of it on the way to `new`.

    What both have keeps its order, as the fold never moves a node.
    """
    had, has = set(old.seqs), set(new.seqs)
    arriving = iter(new)
    for node in old:
        if node.seq not in has:
            yield Difference("gone", node)
            continue
        yield from _before(node, arriving, had)
        yield Difference("kept", node)
    for node in arriving:
        yield Difference("new", node)


def _before(kept: Node, arriving: Iterator[Node], had: set[int]) -> Iterator[Difference]:
    """The new nodes that stand before a kept one, which is taken from `arriving` too."""
    for node in arriving:
        if node.seq in had:
            assert node.seq == kept.seq
            return
        yield Difference("new", node)
