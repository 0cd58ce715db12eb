"""What reaches a terminal: foreign text made safe, measured in cells and cut to width.

Texts in a log are hostile: escape sequences, direction overrides, NUL, lone surrogates, 50 MB in
one line. Every string that is not ours passes `safe` or `safe_block` exactly once, on its way into
a line; nothing here reads markup. Widths are counted in the terminal's cells. This module knows no
log and no stream.

Every command imports it, so what most never need waits: the pattern is compiled at the first text
that is not printable as it stands, rich is asked for widths at the first that is not ASCII.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

ELLIPSIS: Final = "…"
"""What stands where something was cut."""

_OBEYED: Final = (
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1 controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of the text round
    "\u2028\u2029"  # line and paragraph separators
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # what nobody sees
    "\ud800-\udfff]"  # lone surrogates, which no encoding takes
)
"""Characters that are shown as an escape. Joiners (U+200C, U+200D) stay: scripts need them."""

LONGEST_CELL: Final = 8
"""Characters that one cell may hold, accents with it; more are not looked at, whatever follows."""

LEAST_OF_PATH: Final = 24
"""Cells of a path in a table, however narrow: a session's file and the end of its folder."""

WIDENS: Final = "\ufe0f"
"""Asks for the character before it as an emoji, which makes a narrow one wide."""

FIRST_ACCENT: Final = "\u0300"
"""The first character that stands on another one's cell; all before it are one cell wide."""

_NARROW: Final = frozenset("–—‘’“”…←↑→↓↳─│┃▏▎▍▌▋▊▉█░▒▓■□●○✓✗")
"""Characters of one cell that our own lines use: they must not cost the import of rich."""

Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_SGR: Final[dict[Style, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}

_PLAIN: Final = "\x1b[0m"
_STYLED: Final = r"\x1b\[[0-9;]*m"
"""What ends a style, and the beginnings and ends of all."""

_COMMAND: Final = r'"dshc [^"]*"'
_JOINT: Final = "\0"
"""A command that a sentence tells to run, and what stands for its blanks while words are told
apart: safe text holds none."""

_LABEL: Final = r" *\S+(?: \S+){0,2} {2,}(?=\S)"
"""A word or three, and so many blanks that what follows is meant to stand under each other."""


# Text -------------------------------------------------------------------------------------------


def safe(text: str, limit: int | None = None) -> str:
    r"""Return `text` as one line that no terminal obeys: ESC becomes `\x1b`, a line feed `\n`.

    At most `limit` characters of `text` are looked at; where more follow, an ellipsis says so. A
    backslash stays as it is: this is for eyes, and nothing reads it back.
    """
    if limit is not None and len(text) > limit:
        return safe(text[:limit]) + ELLIPSIS
    if text.isprintable():  # in one pass of C: nearly every text of a log
        return text
    return re.sub(_OBEYED, _shown, text)


def safe_block(text: str) -> str:
    """Return `text` like `safe`, but with its line feeds and tabs."""
    return "\n".join("\t".join(map(safe, line.split("\t"))) for line in text.split("\n"))


def styled(text: str, style: Style, *, color: bool) -> str:
    """Return `text` in a style if `color`, else as it is; `text` must be safe already."""
    return f"\x1b[{_SGR[style]}m{text}{_PLAIN}" if color else text


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {9: r"\t", 10: r"\n", 13: r"\r"}.get(code)
    if short:
        return short
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Widths -----------------------------------------------------------------------------------------


def cells(text: str) -> int:
    """Return how many cells of a terminal `text` takes at most; `text` must be safe already.

    Character by character: a terminal that joins emoji takes fewer, none takes more. Of rich only
    the table of widths is used, since its ways with whole texts depend on the release, and those
    of 14.3.0 to 14.3.2 never end on some.
    """
    return len(text) if text.isascii() else sum(map(_width, text))


def clip(text: str, width_cells: int) -> str:
    """Return as much of `text` as fits into `width_cells`, an ellipsis telling of a cut."""
    if width_cells <= 0:
        return ""
    if text.isascii():
        return text if len(text) <= width_cells else text[: width_cells - 1] + ELLIPSIS
    kept = taken = 0
    for index, character in enumerate(text):
        taken += _width(character)
        if taken > width_cells or index >= width_cells * LONGEST_CELL:
            return text[:kept] + ELLIPSIS
        if taken < width_cells:
            kept = index + 1
    return text


def clip_start(text: str, width_cells: int) -> str:
    """Return as much of the end of `text` as fits into `width_cells`, an ellipsis before it."""
    if width_cells <= 0:
        return ""
    tail = text[-width_cells * LONGEST_CELL :]
    if tail == text and cells(text) <= width_cells:
        return text
    at, taken = len(tail), 1
    while at and taken + _width(tail[at - 1]) <= width_cells:
        at -= 1
        taken += _width(tail[at])
    while at < len(tail) and _width(tail[at]) == 0:  # an accent whose letter is gone
        at += 1
    return ELLIPSIS + tail[at:]


def end_of(path: str, width_cells: int | None) -> str:
    """Return a path's end, safe: what tells it from the others, in at most a third of the line."""
    shown = safe(path)
    return shown if width_cells is None else clip_start(shown, max(LEAST_OF_PATH, width_cells // 3))


def fit(block: str, width_cells: int) -> str:
    """Return `block` with every line folded that is too long, under its label where it has one.

    For all that is printed: no line is wider, but for a single word that is there to be copied.
    """
    return "\n".join(_fitted(line, width_cells) for line in block.split("\n"))


def _fitted(line: str, width_cells: int) -> str:
    if len(line) <= width_cells and line.isascii():
        return line
    bare = _bare(line)
    label = re.match(_LABEL, bare)
    hang = len(bare) - len(bare.lstrip(" ")) + 2 if label is None else cells(label[0])
    return fold(line, width_cells, hang if hang <= width_cells // 2 else 2)


def fold(text: str, width_cells: int, indent: int = 2) -> str:
    """Return `text` in lines of at most `width_cells`, cut at spaces, all but the first indented.

    For our own sentences, of which nothing may be lost: a path, an id or a command of ours that is
    too long stands whole on a line of its own, so that it can be copied though the terminal breaks
    it. A style goes on in the next line.
    """
    bare = _bare(text)
    if cells(bare) <= width_cells:
        return text
    lead = len(bare) - len(bare.lstrip(" "))
    parts = re.sub(_COMMAND, _joined, text).split(" ")
    words = ["".join(parts[: lead + 1]), *parts[lead + 1 :]]  # what leads has no cells, but a style
    lines: list[str] = []
    taken = width_cells
    for word in words:
        size = cells(_bare(word))
        if taken + 1 + size <= width_cells:
            lines[-1] += f" {word}"
            taken += 1 + size
        elif lines and not size:
            lines[-1] += word
        else:
            blanks = min(indent if lines else lead, max(0, width_cells - size))
            lines.append(" " * blanks + word)
            taken = blanks + size
    return "\n".join(_restyled(line.rstrip(" ").replace(_JOINT, " ") for line in lines))


def _joined(command: re.Match[str]) -> str:
    return command[0].replace(" ", _JOINT)


def _bare(text: str) -> str:
    return re.sub(_STYLED, "", text) if "\x1b" in text else text


def _restyled(lines: Iterable[str]) -> Iterator[str]:
    """The same lines, none of which leaves a style to the next."""
    style = ""
    for line in lines:
        begun = style
        for code in re.findall(_STYLED, line):
            style = "" if code == _PLAIN else code
        yield f"{begun}{line}{_PLAIN if style else ''}"


def _width(character: str) -> int:
    if character < FIRST_ACCENT or character in _NARROW or character == WIDENS:
        return 1
    from rich.cells import get_character_cell_size

    return get_character_cell_size(character)
