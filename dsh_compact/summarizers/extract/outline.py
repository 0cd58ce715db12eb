"""What a summary is made of: sections, and entries in them.

Values only. A section's order here is its order in the text; which one gives way first when room is
short is the layout's business, and how it is called the language's.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

MOST_ENTRIES: Final = 400
"""Of one section: more fit into no summary."""


class Section(StrEnum):
    """The parts of a summary, in the order in which they are read."""

    REQUESTS = "requests"
    DECISIONS = "decisions"
    FILES = "files"
    COMMANDS = "commands"
    ERRORS = "errors"
    FINDINGS = "findings"
    OPEN = "open"
    PROGRESS = "progress"


class Entry(Struct, frozen=True, kw_only=True):
    """One line of a section, perhaps with lines below it.

    `rank` tells what gives way first: the entry of the highest one. `key` is what it is about (a
    path, a command): a later entry with the same key takes an earlier one's place.
    """

    text: str
    rank: int = 0
    key: str = ""


def foremost(entries: Iterable[Entry]) -> list[Entry]:
    """At most `MOST_ENTRIES` of the entries, in their order: those that would give way last."""
    listed = [*entries]
    by_rank = sorted(range(len(listed)), key=lambda index: listed[index].rank)
    return [listed[index] for index in sorted(by_rank[:MOST_ENTRIES])]


class Part(Struct, frozen=True, kw_only=True):
    """A section's entries in their order; `omitted` counts those that were left out before."""

    entries: tuple[Entry, ...] = ()
    omitted: int = 0


Outline = dict[Section, Part]
"""A summary before its words are chosen: what each section holds."""
