"""The conversation as text: every message under a line that says whose it is and what it costs.

Rule: texts are the log's, so each passes the terminal's rules exactly once, here; without `full` no
more of a text is looked at than is shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, assert_never

from msgspec import Struct

from dsh_compact.events import (
    Block,
    Kind,
    Message,
    Opaque,
    Reasoning,
    SurfaceEvent,
    Text,
    ToolCall,
    ToolResult,
)
from dsh_compact.moments import Difference, Mark
from dsh_compact.report.terminal import Style, clip, safe, safe_block, styled
from dsh_compact.words import counted

PLAIN_WIDTH: Final = 100
SHOWN_LINES: Final = 6
"""Lines of each text that are shown without `full`: enough to recognise it."""

LONGEST_NAME: Final = 80
"""Characters of an id or a name: longer ones are hostile."""

LONGEST_PROBLEM: Final = 300
"""Characters of what is wrong with a message: it may quote the log."""

INDENT: Final = "    "

_ROLES: Final[dict[str, Style]] = {
    "system": "cyan",
    "developer": "cyan",
    "user": "green",
    "assistant": "yellow",
    "tool": "dim",
}
_MARKS: Final[dict[Mark, str]] = {"gone": "- ", "new": "+ ", "kept": "  "}
_MARK_STYLES: Final[dict[Mark, Style]] = {"gone": "red", "new": "green", "kept": "dim"}


class Shown(Struct, frozen=True, kw_only=True):
    """A node of the surface with its message and its estimated price."""

    event: SurfaceEvent
    tokens: int


class Unreadable(Struct, frozen=True, kw_only=True):
    """A node of the surface whose message cannot be read, and why."""

    seq: int
    role: Kind
    problem: str


class Look(Struct, frozen=True, kw_only=True):
    """How messages are shown: whole or their beginning, how wide, in colour or not."""

    full: bool = False
    width: int | None = None
    color: bool = False


def title(log: str, generation: int, tokens: Sequence[int | None]) -> str:
    """What stands above a conversation; `tokens` of each message, None where it is unreadable."""
    readable = [one for one in tokens if one is not None]
    messages = counted(len(tokens), "message")
    if lost := len(tokens) - len(readable):
        messages += f", {lost:,} unreadable"
    return (
        f"{safe(log)}\ngeneration {generation} · {messages} · {sum(readable):,} tokens, estimated"
    )


def message(shown: Shown | Unreadable, look: Look) -> str:
    """One message: its head, and its blocks below."""
    if isinstance(shown, Unreadable):
        role = styled(shown.role, _ROLES[shown.role], color=look.color)
        lost = styled("unreadable", "red", color=look.color)
        return f"[{shown.seq}] {role} · {lost}\n{INDENT}{safe(shown.problem, LONGEST_PROBLEM)}"
    body = [_indented(part) for part in _blocks(shown.event.message.result, look)]
    return "\n".join([_head(shown, look), *body])


def difference(
    log: str,
    ends: tuple[int, int],
    rows: Sequence[tuple[Difference, Shown | Unreadable | None]],
    look: Look,
) -> str:
    """What left and what came between two generations; `rows` hold None for what both have."""
    lines = [_difference_title(log, ends, rows), ""]
    width = None if look.width is None else look.width - len(_MARKS["kept"])
    narrowed = Look(full=look.full, width=width)
    kept = 0
    for one, shown in rows:
        if shown is None:
            kept += 1
            continue
        lines += _kept(kept, look)
        kept = 0
        mark = _MARKS[one.mark]
        text = message(shown, narrowed)
        style = _MARK_STYLES[one.mark]
        lines += [styled(mark + line, style, color=look.color) for line in text.split("\n")]
    return "\n".join([*lines, *_kept(kept, look)])


def _difference_title(
    log: str, ends: tuple[int, int], rows: Iterable[tuple[Difference, Shown | Unreadable | None]]
) -> str:
    counts: dict[Mark, int] = {"gone": 0, "new": 0, "kept": 0}
    tokens: dict[Mark, int] = {"gone": 0, "new": 0, "kept": 0}
    for one, shown in rows:
        counts[one.mark] += 1
        tokens[one.mark] += shown.tokens if isinstance(shown, Shown) else 0
    return (
        f"{safe(log)}\ngeneration {ends[0]} → {ends[1]}:"
        f" {counts['gone']:,} gone ({tokens['gone']:,} tokens),"
        f" {counts['new']:,} new ({tokens['new']:,} tokens), {counts['kept']:,} kept"
    )


def _kept(count: int, look: Look) -> list[str]:
    if not count:
        return []
    text = f"  … {counted(count, 'message')} kept"
    return [styled(text, "dim", color=look.color)]


def _head(shown: Shown, look: Look) -> str:
    event = shown.event
    role = styled(event.kind, _ROLES[event.kind], color=look.color)
    notes = "".join(f" · {note}" for note in _notes(event.message))
    return f"[{event.seq}] {role}{notes} · {shown.tokens:,} tokens"


def _notes(message: Message) -> Iterator[str]:
    """What a message is, beside its role."""
    if message.compaction_id is not None:
        yield "checkpoint"
    elif message.source_kind not in ("", "user", "model", "tool", "system-prompt", "plugin"):
        yield safe(message.source_kind, LONGEST_NAME)
    if message.call_id is not None:
        yield f"answers {safe(message.call_id, LONGEST_NAME)}"
    if message.is_error or any(b.is_error for b in message.content if isinstance(b, ToolResult)):
        yield "error"


def _blocks(blocks: Iterable[Block], look: Look) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text=text):
                yield _text(text, look)
            case Reasoning(text=text):
                yield styled(_text(f"(thinks) {text}", look), "dim", color=look.color)
            case ToolCall():
                name, call_id = safe(block.name, LONGEST_NAME), safe(block.id, LONGEST_NAME)
                yield _text(f"→ {name} ({call_id}) {block.arguments}", look)
            case ToolResult():
                yield from _blocks(block.content, look)
            case Opaque(kind=kind, json=json):
                yield f"[{safe(kind, LONGEST_NAME)}, {counted(len(json), 'byte')} of JSON]"
            case _:
                assert_never(block)


def _text(text: str, look: Look) -> str:
    """The text, or its first lines with a word on what is left out."""
    if look.full:
        return safe_block(text)
    width = (look.width or PLAIN_WIDTH) - len(INDENT)
    start = text[: SHOWN_LINES * width]
    lines = start.split("\n", SHOWN_LINES)[:SHOWN_LINES]
    left = len(text) - len("\n".join(lines))
    cut = "\n".join(clip(safe_block(line), width) for line in lines).rstrip()
    return f"{cut}\n… {counted(left, 'more character')}" if left else cut


def _indented(text: str) -> str:
    return "\n".join(INDENT + line if line else "" for line in text.split("\n"))
