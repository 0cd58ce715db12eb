"""`dshc show`: the conversation as the model sees it."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from dsh_compact.cli import io, options
from dsh_compact.codec import content_json
from dsh_compact.errors import DamagedLog, RuleBroken, UsageError
from dsh_compact.moments import differences, read_at_generation, read_at_seq, read_generations
from dsh_compact.report import show as report
from dsh_compact.session import Session, read_session
from dsh_compact.surface import Node

Found = TypeVar("Found")

EXAMPLES = """
dshc show session.v4.jsonl                       what the model sees now
dshc show --generation 0 LOG                     as it was before anything was folded
dshc show --at 120 --full LOG                    once event 120 was written, with whole texts
dshc show --diff 1 2 LOG                         what the second replacement changed
dshc show --json LOG | jq '.nodes[].tokens'
"""


def command(
    log: options.OptionalLog = None,
    *,
    generation: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="As it stood last before replacement N + 1."),
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=0, metavar="SEQ", help="As it stood after event SEQ.")
    ] = None,
    diff: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="A B", help="What left and what came from generation A to B."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts.")] = False,
    strict: options.Strict = False,
    demo: options.Demo = False,
    json: options.Json = False,
) -> int:
    """Show the conversation as the model sees it, now or at an earlier point.

    Every message with its seq, its role and its estimated tokens; long texts are cut unless --full
    is given. A message that can't be read is told in its place, and the exit code is 4. The log is
    read no further than the point that is asked for. Nothing is written.
    """
    path = options.log_or_demo(log, demo=demo)
    if sum(wish is not None for wish in (generation, at, diff)) > 1:
        raise UsageError("--generation, --at and --diff exclude each other", "give one of them")
    if diff is not None:
        return _diff(path, diff, full=full, strict=strict, json=json)
    with _opened(path, generation, at, strict=strict) as session:
        _notify(session)
        messages = Messages(session)
        if json:
            io.emit_json(_json(session, messages))
        else:
            _print(session, messages, _look(full=full))
        messages.finish()
    return 0


class Messages:
    """Looks messages up, and goes on where one cannot be read: whoever looks into a damaged log
    wants to see the rest.
    """

    def __init__(self, session: Session) -> None:
        """Looks them up in `session`."""
        self._session = session
        self._faults: dict[int, DamagedLog] = {}

    def tokens(self, node: Node) -> int | None:
        """What a message costs, estimated; None where it cannot be read."""
        return self._tried(node, lambda: self._session.price(node))

    def shown(self, node: Node) -> report.Shown | report.Unreadable:
        """A message for people."""
        event = self._tried(node, lambda: self._session.event(node))
        tokens = self.tokens(node)
        if event is None or tokens is None:
            problem = self._faults[node.seq].problem
            return report.Unreadable(seq=node.seq, role=node.kind, problem=problem)
        return report.Shown(event=event, tokens=tokens)

    def plain(self, node: Node) -> dict[str, Any]:
        """A message under its fixed names."""
        tokens = self.tokens(node)
        line = self._session.line(node.place)
        content = None
        if tokens is not None:
            content = self._tried(node, lambda: content_json(line, node.kind))
        found = {"seq": node.seq, "role": node.kind, "tokens": tokens, "content": content}
        fault = self._faults.get(node.seq)
        return found if fault is None else {**found, "error": fault.problem}

    def finish(self) -> None:
        """Raises `DamagedLog` where a message could not be read."""
        if not self._faults:
            return
        first = next(iter(self._faults.values()))
        more = len(self._faults) - 1
        also = f", nor can {more:,} more message{'' if more == 1 else 's'} be read" if more else ""
        raise DamagedLog(first.path, first.damage, f"{first.problem}{also}", seq=first.seq)

    def _tried(self, node: Node, look: Callable[[], Found]) -> Found | None:
        try:
            return look()
        except DamagedLog as fault:
            self._faults.setdefault(node.seq, fault)
        except RuleBroken as fault:
            damaged = DamagedLog(self._session.path, fault.damage, fault.problem, seq=node.seq)
            self._faults.setdefault(node.seq, damaged)
        return None


def _opened(path: Path, generation: int | None, at: int | None, *, strict: bool) -> Session:
    if generation is not None:
        return read_at_generation(path, generation, strict=strict)
    if at is not None:
        return read_at_seq(path, at, strict=strict)
    return read_session(path, strict=strict)


def _notify(session: Session) -> None:
    for notice in session.notices:
        io.notice(notice)


def _look(*, full: bool) -> report.Look:
    return report.Look(full=full, width=io.console_width(), color=io.use_color())


def _print(session: Session, messages: Messages, look: report.Look) -> None:
    """The title, then message by message: a long conversation is never one string."""
    tokens = [messages.tokens(node) for node in session.surface]
    io.emit_text(report.title(session.path, session.replace_generation, tokens))
    for node in session.surface:
        io.emit_text("\n" + report.message(messages.shown(node), look), verbatim=look.full)


def _diff(path: Path, ends: tuple[int, int], *, full: bool, strict: bool, json: bool) -> int:
    if min(ends) < 0:
        raise UsageError("a generation is not below 0", "the first is 0")
    session, old, new = read_generations(path, *ends, strict=strict)
    with session:
        _notify(session)
        messages = Messages(session)
        found = list(differences(old, new))
        if json:
            by_mark = {
                mark: [one.node for one in found if one.mark == mark] for mark in ("gone", "new")
            }
            io.emit_json(
                {
                    **_head(session),
                    "from_generation": ends[0],
                    "to_generation": ends[1],
                    **{mark: [*map(messages.plain, nodes)] for mark, nodes in by_mark.items()},
                    "kept_seqs": [one.node.seq for one in found if one.mark == "kept"],
                }
            )
        else:
            rows = [
                (one, None if one.mark == "kept" else messages.shown(one.node)) for one in found
            ]
            io.emit_text(
                report.difference(session.path, ends, rows, _look(full=full)), verbatim=full
            )
        messages.finish()
    return 0


def _head(session: Session) -> dict[str, Any]:
    head = {"schema": 1, "command": "show", "log": session.path, "format": session.format}
    return {**head, "session_id": session.header.id}


def _json(session: Session, messages: Messages) -> dict[str, Any]:
    return {
        **_head(session),
        "generation": session.replace_generation,
        "nodes": [*map(messages.plain, session.surface)],
    }
