"""`dshc append`: messages at a log's end, or into a new log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer
from msgspec import Struct
from typer.core import TyperCommand

from dsh_compact.cli import io, options
from dsh_compact.codec.encode import Draft, session_header
from dsh_compact.codec.given import draft_from_json
from dsh_compact.errors import UsageError
from dsh_compact.events import FORMATS
from dsh_compact.reader import SESSION_FILES
from dsh_compact.report import append as report
from dsh_compact.session import WritableSession, create_session, now_ms, open_session
from dsh_compact.speech import Said, Speaker, drafts_of
from dsh_compact.turns import Turns
from dsh_compact.verify.admission import inspect_addition, inspect_new

EXAMPLES = """
dshc append session.v4.jsonl --user "go on"      a message from the user
dshc append LOG --user hello --assistant hi      a whole turn; the order is kept
dshc append LOG < events.jsonl                   events as JSON lines, seq and time left out
dshc append --new --framed LOG --user hello      a new log, format 4 unless --format says so
"""

UNNAMED: Final = Speaker(provider="dshc", model="by-hand")
"""Who answers in a log that has not said yet whom its requests go to."""

_ORDER: Final = "dsh_compact.spoken"


class Command(TyperCommand):
    """Remembers in which order --user and --assistant were given: their values alone don't tell."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as ever, and note the order."""
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        ctx.meta[_ORDER] = [one.name for one in order if one.name in ("user", "assistant")]
        return super().parse_args(ctx, args)


def command(
    ctx: typer.Context,
    log: options.Log,
    *,
    user: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A user's message. Repeatable.")
    ] = None,
    assistant: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="An answer. Repeatable.")
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The system prompt, where there is nothing yet."),
    ] = None,
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who answered; else as the log says.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which model; else as the log says.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Start a new log.")] = False,
    version: Annotated[
        int | None,
        typer.Option("--format", metavar="N", help="A new log's format: 0, 3 or 4.  [default: 4]"),
    ] = None,
    framed: Annotated[
        bool, typer.Option("--framed", help="Write a new log as Zstandard frames.")
    ] = False,
    cwd: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where a new log's session works.  [default: here]"),
    ] = None,
    json: options.Json = False,
) -> int:
    """Append messages to a log, or events as JSON lines from standard input.

    Everything is checked before anything is written, and written all or not at all, under the log's
    lock, and flushed. Ids, seqs and times are made here. An answer stands in a turn: where none is
    open, one is written around it and the user's messages before it.
    """
    if not new and (version is not None or framed or cwd is not None):
        raise UsageError("--format, --framed and --cwd shape a new log", "say --new, too")
    said = _in_order(ctx.meta[_ORDER], user or [], assistant or [])
    given = () if said or system is not None else _given_lines(may_be_empty=new)
    text = Words(said=said, given=given, system=system, speaker=_speaker(provider, model))
    if new:
        wish = Wish(version=FORMATS[-1] if version is None else version, framed=framed, cwd=cwd)
        with _created(log, text, wish) as session:
            seqs = tuple(range(session.events))
    else:
        with open_session(log) as session:
            seqs = _append(session, text)
    _tell(session, seqs, is_new=new, json=json)
    return 0


class Words(Struct, frozen=True, kw_only=True):
    """What is to be appended: messages that were said, or else events as lines of JSON."""

    said: tuple[Said, ...]
    given: tuple[bytes, ...]
    system: str | None
    speaker: Speaker | None


class Wish(Struct, frozen=True, kw_only=True):
    """What a new log shall be."""

    version: int
    framed: bool
    cwd: Path | None


# What is to be written ----------------------------------------------------------------------------


def _in_order(order: Sequence[str], user: list[str], assistant: list[str]) -> tuple[Said, ...]:
    """The messages in the order in which the options were given."""
    texts = {"user": iter(user), "assistant": iter(assistant)}
    return tuple(
        Said(role="user" if role == "user" else "assistant", text=next(texts[role]))
        for role in order
    )


def _given_lines(*, may_be_empty: bool) -> tuple[bytes, ...]:
    lines = tuple(line for line in (io.read_input() or b"").split(b"\n") if line.strip())
    if not lines and not may_be_empty:
        raise UsageError(
            "nothing to append", "give --user TEXT or --assistant TEXT, or events on stdin"
        )
    return lines


def _speaker(provider: str | None, model: str | None) -> Speaker | None:
    if provider is None and model is None:
        return None
    if not provider or not model:
        raise UsageError("--provider and --model belong together", "give both, or neither")
    return Speaker(provider=provider, model=model)


def _drafts(text: Words, version: int, session: WritableSession | None) -> list[Draft]:
    if not text.said and text.system is None:
        return [_draft(number, line, version) for number, line in enumerate(text.given, 1)]
    return drafts_of(
        text.said,
        Turns() if session is None else session.turns,
        version=version,
        speaker=text.speaker or _usual_speaker(session),
        new_id=_new_id,
        waiting=() if session is None else waiting_calls(session),
        system=_prompt(text.system, version, is_empty=session is None or not session.surface),
    )


def _prompt(asked: str | None, version: int, *, is_empty: bool) -> str | None:
    """The system prompt to begin with; None where the surface has its beginning already."""
    if version == 0:
        if asked is not None:
            raise UsageError(
                "format 0 keeps the system prompt in its request header", "leave --system out"
            )
        return None
    if is_empty:
        return asked or ""
    if asked is not None:
        raise UsageError(
            "the conversation has begun already, so --system comes too late", "leave it out"
        )
    return None


_PUT_RIGHT: Final = "nothing was written: put that line right"


def _draft(number: int, line: bytes, version: int) -> Draft:
    try:
        return draft_from_json(line, version, _new_id)
    except UsageError as fault:
        raise UsageError(
            f"line {number} of stdin: {fault.problem}", fault.remedy or _PUT_RIGHT
        ) from None


def _usual_speaker(session: WritableSession | None) -> Speaker:
    header = None if session is None else session.newest_header
    if header is None or not header.provider or not header.model:
        return UNNAMED
    return Speaker(provider=header.provider, model=header.model)


def waiting_calls(session: WritableSession) -> list[str]:
    """The calls of the open step that have no result yet, by their ids."""
    if session.turns.step is None:
        return []
    asked: dict[str, None] = {}
    for item in session.items():
        if item.kind == "assistant":
            asked = dict.fromkeys(item.calls)
        elif item.answers is not None:
            asked.pop(item.answers, None)
    return [*asked]


def _new_id() -> str:
    return str(uuid4())


# Writing ------------------------------------------------------------------------------------------


def _append(session: WritableSession, text: Words) -> tuple[int, ...]:
    drafts = _drafts(text, session.format, session)
    if text.given:
        if not session.surface:
            _warn_of_head(session.path, drafts, session.format)
        lines = [
            draft.line(seq, now_ms(), session.format)
            for seq, draft in enumerate(drafts, session.events)
        ]
        inspect_addition(session.path, lines)
    return session.append(drafts)


def _created(path: Path, text: Words, wish: Wish) -> WritableSession:
    if wish.version not in FORMATS:
        raise UsageError(f"format {wish.version} was never released", "choose 0, 3 or 4")
    # In the harness's own layout the session's folder bears its id, and its parent the cwd.
    session_id = _in_full(path).parent.name if path.name in SESSION_FILES else _new_id()
    cwd = str(_in_full(wish.cwd or Path()))
    drafts = _drafts(text, wish.version, None)
    if text.given:
        _warn_of_head(str(path), drafts, wish.version)
    lines = [draft.line(seq, now_ms(), wish.version) for seq, draft in enumerate(drafts)]
    inspect_new(str(path), session_header(session_id, now_ms(), wish.version, cwd), lines)
    return create_session(
        path,
        session_id=session_id,
        version=wish.version,
        cwd=cwd,
        framed=wish.framed,
        drafts=drafts,
    )


def _in_full(path: Path) -> Path:
    try:
        return path.absolute()
    except FileNotFoundError:
        gone = "the working directory is gone"
        raise UsageError(gone, "go to a folder that is there") from None


def _warn_of_head(path: str, drafts: list[Draft], version: int) -> None:
    """Say what becomes of a conversation that does not begin with a system message."""
    first = next((draft for draft in drafts if draft.op is not None), None)
    if version > 0 and first is not None and first.type != "system/message":
        io.notice(
            f"{path}: the conversation does not begin with a system message: a harness that adds"
            " its own would not open the session a second time"
        )


def _tell(session: WritableSession, seqs: tuple[int, ...], *, is_new: bool, json: bool) -> None:
    for notice in session.notices:
        io.notice(notice)
    if session.kept_aside is not None:
        io.notice(f"{session.path}: a torn tail was cut off and is kept in {session.kept_aside}")
    if json:
        io.emit_json(
            {
                "schema": 1,
                "command": "append",
                "log": session.path,
                "format": session.format,
                "session_id": session.header.id,
                "created": is_new,
                "seqs": seqs,
                "events": session.events,
                "generation": session.replace_generation,
                "kept_aside": session.kept_aside,
            }
        )
    else:
        io.emit_text(report.text(session.path, seqs, is_new=is_new))
