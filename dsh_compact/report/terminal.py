"""What reaches a terminal: foreign text made safe, measured in cells and cut to width.

Texts in a log are hostile: escape sequences, direction overrides, NUL, lone surrogates, 50 MB in
one line. Every string that is not ours passes `safe` or `safe_block` exactly once, on its way into
a line; nothing here reads markup. Widths are counted in the terminal's cells. This module knows no
log and no stream.

Every command imports it, so what most never need waits: the pattern is compiled at the first text
that is not printable as it stands, rich is asked for widths at the first that is not ASCII.
"""

import re
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
    return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if color else text


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


def fold(text: str, width_cells: int, indent: int = 2) -> str:
    """Return `text` in lines of at most `width_cells`, cut at spaces, all but the first indented.

    For our own sentences, of which nothing may be lost; a single word that is too long is cut.
    """
    if cells(text) <= width_cells:
        return text
    words = text.lstrip(" ")
    first, *others = words.split(" ")
    lines = [text[: len(text) - len(words)] + first]
    for word in others:
        longer = f"{lines[-1]} {word}"
        if cells(longer) <= width_cells:
            lines[-1] = longer
        else:
            lines.append(f"{'':{min(indent, width_cells // 2)}}{word}")
    return "\n".join(clip(line.rstrip(), width_cells) for line in lines)


def _width(character: str) -> int:
    if character < FIRST_ACCENT or character in _NARROW or character == WIDENS:
        return 1
    from rich.cells import get_character_cell_size

    return get_character_cell_size(character)
