"""An earlier checkpoint in a span: found by its mark or its frame, taken apart into sections.

Whoever wrote it: our own layout in any of its languages, or a model's headings. A heading tells the
section by the words in it, and what stands under no known heading is a finding. So a second summary
merges the first, section by section, and never holds a frame inside a frame.
"""

import re
from collections.abc import Sequence
from typing import Final

from dsh_compact.codec.encode import CHECKPOINT_CLOSING, CHECKPOINT_OPENING
from dsh_compact.events import Message, Text
from dsh_compact.summarizers.extract.language import PHRASES
from dsh_compact.summarizers.extract.outline import Entry, Outline, Part, Section
from dsh_compact.summarizers.patterns import harmless

LONGEST_CHECKPOINT_CHARS: Final = 400_000
"""What is taken apart of one checkpoint: no summary is as long, and a foreign one may be
anything."""

_OPENING: Final = CHECKPOINT_OPENING.strip()


def is_checkpoint(message: Message) -> bool:
    """Whether the message stands for a folded span: by its source, or by the frame alone."""
    if message.role not in {"user", "system", "developer"}:
        return False
    return (
        message.compaction_id is not None
        or message.source_kind == "compact-checkpoint"
        or _framed(message) is not None
    )


def summary_of(message: Message) -> str:
    """The summary inside a checkpoint, without the frame and what introduces it."""
    framed = _framed(message)
    return (message.text if framed is None else framed).strip()


def _framed(message: Message) -> str | None:
    """The text between the frame's marks, which open at the end of a line and close at the end."""
    texts = [block.text for block in message.content if isinstance(block, Text)]
    whole = "\n".join(texts).rstrip()
    begin = whole.find(_OPENING)
    if begin < 0 or not whole.endswith(CHECKPOINT_CLOSING):
        return None
    return whole[begin + len(_OPENING) : -len(CHECKPOINT_CLOSING)]


# Taking it apart ----------------------------------------------------------------------------------

_HEADING: Final = re.compile(
    r"^\s{0,3}(?:#{1,6}\s+(.{1,200}?)#*|\*\*(.{1,120}?)\*\*:?|<(\w{1,40})>)\s*$"
)
_NUMBERED: Final = re.compile(
    r"^\s{0,3}\d{1,2}[.)]\s+\*{0,2}([^*:：]{3,80}?)\*{0,2}[:：]\*{0,2}\s*$"
)
_BULLET: Final = re.compile(r"^[ \t]{0,8}(?:[-*•+]|\d{1,3}[.)])\s+")
_MARKED: Final = re.compile(r"^(?:\[[ xX]\]\s*)?`([^`]{1,2000})`")
_DONE: Final = re.compile(r"^\[[xX]\]")
_TAG_END: Final = re.compile(r"^\s{0,3}</\w{1,40}>\s*$")

_BY_WORD: Final = (
    (Section.ERRORS, "error fix problem bug issue fail trouble"),
    (Section.OPEN, "pending todo to-do open task remaining outstanding unfinished"),
    (Section.PROGRESS, "progress current next state status step"),
    (Section.DECISIONS, "decision constraint preference correction feedback rule choice agreed"),
    (Section.COMMANDS, "command"),
    (Section.REQUESTS, "request intent goal objective user ask task"),
    (Section.FILES, "file code path artifact"),
)
"""Words in a foreign heading → section; the first row that holds decides."""

_OURS: Final = {
    heading.lower(): section
    for phrases in PHRASES.values()
    for section, heading in phrases.headings.items()
}
_MORE: Final = [
    re.compile(re.escape(phrases.more).replace(r"\{\}", r"(\d{1,9})") + "$")
    for phrases in PHRASES.values()
]


def outline_of(summary: str) -> Outline:
    """The sections of a summary with their entries; foreign text in them is made harmless."""
    section = Section.FINDINGS
    gathered: dict[Section, _Gathered] = {}
    fenced = False
    for line in harmless(summary[:LONGEST_CHECKPOINT_CHARS]).split("\n"):
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else _heading(line)
        plain = None if fenced else _plain(line)
        if heading is not None:
            section = heading
        elif plain is not None:
            section, texts = plain
            gathered.setdefault(section, _Gathered()).take_all(texts)
        elif line.strip() and not _TAG_END.match(line):
            gathered.setdefault(section, _Gathered()).take(line)
    return {section: _part(found.texts) for section, found in gathered.items()}


def _heading(line: str) -> Section | None:
    found = _HEADING.match(line) or _NUMBERED.match(line)
    if not found:
        return None
    words = next(group for group in found.groups() if group).strip(" :*").lower()
    if words in _OURS:
        return _OURS[words]
    return next(
        (
            section
            for section, clues in _BY_WORD
            if any(word.startswith(tuple(clues.split())) for word in re.findall(r"[\w-]+", words))
        ),
        Section.FINDINGS,
    )


def _plain(line: str) -> tuple[Section, list[str]] | None:
    """A section that our layout wrote as one line for want of room."""
    words, colon, rest = line.partition(": ")
    section = _OURS.get(words.lower()) if colon else None
    return None if section is None else (section, rest.split("; "))


class _Gathered:
    """The entries of one section, line by line; a bullet's depth is measured by the first one's."""

    def __init__(self) -> None:
        self._lines: list[list[str]] = []
        self._depth: int | None = None

    @property
    def texts(self) -> list[str]:
        """The entries, each with the lines that go on with it."""
        return ["\n".join(lines) for lines in self._lines]

    def take(self, line: str) -> None:
        """A bullet begins an entry; what is indented deeper goes on with it."""
        depth = len(line) - len(line.lstrip())
        bullet = _BULLET.match(line)
        if bullet and self._depth is None:
            self._depth = depth
        if bullet and depth <= (self._depth or 0):
            self._lines.append([line[bullet.end() :].rstrip()])
        elif self._lines and depth:
            self._lines[-1].append(line.strip())
        else:
            self._lines.append([line.strip()])

    def take_all(self, texts: Sequence[str]) -> None:
        """Each text is an entry."""
        self._lines.extend([text] for text in texts)


def _part(texts: list[str]) -> Part:
    entries, omitted = [], 0
    for text in texts:
        count = _count_more(text)
        if count is None:
            marked = _MARKED.match(text)
            entries.append(Entry(text=text, key=marked[1] if marked else ""))
        else:
            omitted += count
    return Part(entries=tuple(entries), omitted=omitted)


def _count_more(text: str) -> int | None:
    for pattern in _MORE:
        if found := pattern.match(text):
            return int(found[1])
    return None


def is_done(entry: Entry) -> bool:
    """Whether the entry is a to-do that is ticked off."""
    return bool(_DONE.match(entry.text))
