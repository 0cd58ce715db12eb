"""What a summary is made of: sections, and entries in them.

Values only. A section's order here is its order in the text; which one gives way first when room is
short is the layout's business, and how it is called the language's.
"""

from enum import StrEnum

from msgspec import Struct


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


class Part(Struct, frozen=True, kw_only=True):
    """A section's entries in their order; `omitted` counts those that were left out before."""

    entries: tuple[Entry, ...] = ()
    omitted: int = 0


Outline = dict[Section, Part]
"""A summary before its words are chosen: what each section holds."""
