"""An outline as text that is no longer than its bound.

Rule: the bound holds exactly, by `tokens.price_text`, for every bound from one token on. Room is
given to the sections by their shares; what one doesn't need the others get, the most important
first. Within a section entries are first made shorter, down to what still tells something, and then
left out by rank, and the text says how many. Below `PLAIN_TOKENS` headings cost too much and a
section is a line; at the very end there is only the last request.

Lengths are UTF-16 code units, as prices are. Nothing here knows where an entry came from.
"""

from collections.abc import Callable, Sequence
from typing import Final

from dsh_compact.summarizers.extract.language import Phrases
from dsh_compact.summarizers.extract.outline import Entry, Outline, Part, Section
from dsh_compact.summarizers.patterns import one_line
from dsh_compact.tokens import UNITS_PER_TOKEN

PLAIN_TOKENS: Final = 160
"""Below this a heading of its own for every section would take a fifth of the room."""

SHARES: Final = {
    Section.REQUESTS: 26,
    Section.PROGRESS: 14,
    Section.OPEN: 8,
    Section.DECISIONS: 14,
    Section.ERRORS: 12,
    Section.FILES: 9,
    Section.COMMANDS: 9,
    Section.FINDINGS: 8,
}
"""Percent of the room, the most important section first: that order decides who gets what is
left."""

LENGTHS: Final = (4_000, 1_600, 800, 400, 240, 160, 110)
"""How long an entry may be, in units: each is tried until the section's entries fit."""

LEAST_UNITS: Final = {Section.REQUESTS: 80, Section.FILES: 64, Section.OPEN: 64}
"""Below this an entry of the section tells too little, and entries are left out instead."""

LEAST_ENTRY_UNITS: Final = 110

LEAST_SECTION_UNITS: Final = 80
"""A section that needs more but gets less than this leaves its room to those before it."""

SHORTEST_UNITS: Final = 20
"""A single entry that gets less room than this isn't worth its heading."""

ELLIPSIS: Final = " … "


def layout(outline: Outline, phrases: Phrases, max_tokens: int) -> str:
    """The summary's text, of at most `max_tokens`; empty only where they hold no character."""
    room = max_tokens * UNITS_PER_TOKEN
    plain = max_tokens < PLAIN_TOKENS
    parts = {section: outline[section] for section in SHARES if _has_words(outline.get(section))}
    texts = _fill(parts, phrases, room, plain=plain)
    text = ("\n" if plain else "\n\n").join(
        texts[section] for section in Section if section in texts
    )
    return text or clip(one_line(_last_word(outline) or phrases.nothing), room).strip()


def _has_words(part: Part | None) -> bool:
    return part is not None and bool(part.entries)


def _last_word(outline: Outline) -> str:
    for section in SHARES:
        if (part := outline.get(section)) and part.entries:
            return part.entries[-1].text
    return ""


# Room ---------------------------------------------------------------------------------------------


def _fill(parts: Outline, phrases: Phrases, room: int, *, plain: bool) -> dict[Section, str]:
    """Each section's text; what one leaves of its room is offered to the next in importance."""
    setters = {
        section: _Setter(section, part, phrases, plain=plain) for section, part in parts.items()
    }
    gap = 1 if plain else 2
    given = _worthwhile(
        {section: setter.natural + gap for section, setter in setters.items()}, room
    )
    texts: dict[Section, str] = {}
    spare = room - sum(given.values())
    for section, share in given.items():
        spare += share
        text = setters[section].set(spare - gap)
        if text:
            texts[section] = text
            spare -= units(text) + gap
    return texts


def _worthwhile(needs: dict[Section, int], room: int) -> dict[Section, int]:
    """The room of each section; where it is too little for all, the least important have none."""
    while True:
        given = _share_out(needs, room)
        poor = any(
            share < min(needs[section], LEAST_SECTION_UNITS) for section, share in given.items()
        )
        if not poor or len(needs) <= 1:
            return given
        needs = dict([*needs.items()][:-1])


def _share_out(needs: dict[Section, int], room: int) -> dict[Section, int]:
    """At most what each needs, and by the shares where that is more than there is."""
    given: dict[Section, int] = {}
    while open_needs := {section: need for section, need in needs.items() if section not in given}:
        left = room - sum(given.values())
        whole = sum(SHARES[section] for section in open_needs)
        fair = {section: left * SHARES[section] // whole for section in open_needs}
        content = {s: need for s, need in open_needs.items() if need <= fair[s]}
        given.update(content or fair)
    return given


# A section ----------------------------------------------------------------------------------------


class _Setter:
    """Sets one section's entries into whatever room it is given, in units."""

    def __init__(self, section: Section, part: Part, phrases: Phrases, *, plain: bool) -> None:
        heading = phrases.headings[section]
        self._head = f"{heading}: " if plain else f"## {heading}\n"
        self._line: Callable[[str], str] = one_line if plain else _bullet
        self._glue = "; " if plain else "\n"
        self._part = part
        self._more = phrases.more
        self._least = LEAST_UNITS.get(section, LEAST_ENTRY_UNITS)
        self.natural = self._size(self._lines(part.entries, LENGTHS[0]), part.omitted)

    def set(self, room: int) -> str:
        """The section in at most `room`, or nothing where that is too little."""
        for length in (length for length in LENGTHS if length >= self._least):
            lines = self._lines(self._part.entries, length)
            if self._size(lines, self._part.omitted) <= room:
                return self._join(lines, self._part.omitted)
        return self._best(room)

    def _best(self, room: int) -> str:
        """As many entries of the least length as fit, those of the lowest rank."""
        entries = self._part.entries
        by_rank = sorted(range(len(entries)), key=lambda index: entries[index].rank)
        kept: list[int] = []
        used = units(self._head) + units(self._tail(len(entries) + self._part.omitted))
        for index in by_rank:
            size = units(self._line(clip(entries[index].text, self._least))) + len(self._glue)
            if used + size > room:
                break
            kept.append(index)
            used += size
        if not kept:
            return self._only(entries[by_rank[0]], room) if entries else ""
        lines = [self._line(clip(entries[index].text, self._least)) for index in sorted(kept)]
        return self._join(lines, self._part.omitted + len(entries) - len(kept))

    def _only(self, entry: Entry, room: int) -> str:
        left = room - units(self._head) - units(self._line(""))
        return (
            self._head + self._line(clip(one_line(entry.text), left))
            if left >= SHORTEST_UNITS
            else ""
        )

    def _lines(self, entries: Sequence[Entry], length: int) -> list[str]:
        return [self._line(clip(entry.text, length)) for entry in entries]

    def _size(self, lines: Sequence[str], omitted: int) -> int:
        glue = len(self._glue) * max(0, len(lines) - 1)
        return units(self._head) + sum(map(units, lines)) + glue + units(self._tail(omitted))

    def _join(self, lines: Sequence[str], omitted: int) -> str:
        return self._head + self._glue.join(lines) + self._tail(omitted)

    def _tail(self, omitted: int) -> str:
        return self._glue + self._line(self._more.format(omitted)) if omitted else ""


def _bullet(text: str) -> str:
    return "- " + text.replace("\n", "\n  ")


# Words --------------------------------------------------------------------------------------------


def units(text: str) -> int:
    """The length of `text` in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def clip(text: str, room: int) -> str:
    """`text` in at most `room` units: whole, or its beginning and its end on one line.

    Two thirds are its beginning. Cuts are made between words where there are any nearby.
    """
    if len(text) * 2 <= room or units(text) <= room:
        return text
    text = (
        one_line(text[: 2 * room] + " " + text[-2 * room :])
        if len(text) > 4 * room
        else one_line(text)
    )
    if units(text) <= room:
        return text
    if room < SHORTEST_UNITS:
        return _head(text, room)
    left = room - len(ELLIPSIS)
    tail = _tail_of(text, left // 3)
    return _head(text, left - units(tail)).rstrip() + ELLIPSIS + tail.lstrip()


def _head(text: str, room: int) -> str:
    """As many whole characters from the beginning as `room` holds, best up to a word's end."""
    room = max(0, room)
    cut = _fitting(text[:room], room)
    if len(cut) < len(text) and not text[len(cut)].isspace():
        blank = cut.rfind(" ")
        if blank > len(cut) * 3 // 4:
            cut = cut[:blank]
    return cut


def _tail_of(text: str, room: int) -> str:
    cut = _fitting(text[-room:][::-1], room)[::-1] if room > 0 else ""
    if 0 < len(cut) < len(text) and not text[-len(cut) - 1].isspace():
        blank = cut.find(" ")
        if 0 <= blank < len(cut) // 4:
            cut = cut[blank:]
    return cut


def _fitting(text: str, room: int) -> str:
    while (excess := units(text) - room) > 0:
        text = text[: -((excess + 1) // 2)]
    return text
