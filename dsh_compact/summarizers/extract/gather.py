"""A span as an outline: what was said and done, merged with the checkpoints that it holds.

An earlier checkpoint's entries come first, since they are older, and a newer entry about the same
thing takes the place of an older one. What it says was in progress is over once anything follows.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from dsh_compact.events import Message
from dsh_compact.summarizers.extract.actions import actions
from dsh_compact.summarizers.extract.checkpoints import (
    is_checkpoint,
    is_done,
    outline_of,
    summary_of,
)
from dsh_compact.summarizers.extract.language import PHRASES, Phrases
from dsh_compact.summarizers.extract.outline import Entry, Outline, Part, Section
from dsh_compact.summarizers.extract.talk import (
    Said,
    asked,
    is_idle,
    open_work,
    pasted_errors,
    said,
    told,
)
from dsh_compact.summarizers.extract.work import commands, errors, files, last_done
from dsh_compact.summarizers.patterns import harmless, one_line

LAST_WORDS_CHARS: Final = 600
"""Of the last answer: what it ends with tells where the work stands."""

FIRST: Final = -10_000_000
"""The rank of what the user asked for by name: it goes last."""

_OLDER: Final = 10_000
"""Added to the rank of what an earlier checkpoint holds."""

_LONGEST_REPEAT: Final = 2_000
"""A longer finding isn't looked for elsewhere: it would be cut there."""

_FOCUS_CHARS: Final = 3
"""A shorter word of the user's wishes is a little word."""


_SAID: Final = {phrases.said_last for phrases in PHRASES.values()}
_DONE: Final = {
    label for phrases in PHRASES.values() for label in (phrases.working_on, phrases.done_last)
}
"""How our own layout, in any language, labels the entries of what was in progress."""


def gather(messages: Sequence[Message], phrases: Phrases, wishes: str = "") -> Outline:
    """The outline of a span; entries that hold a word of the user's `wishes` are kept longest."""
    earlier = [outline_of(summary_of(m)) for m in messages if is_checkpoint(m)]
    talk = said(messages, phrases.attached)
    left = open_work(messages, talk)
    new = _new(messages, talk, left.entries, phrases)
    if any(new.values()):
        earlier = [_over(outline, replaced=left.listed) for outline in earlier]
    outline = {
        section: _merged([one.get(section, Part()) for one in earlier], new[section])
        for section in Section
    }
    return {section: _focused(part, wishes) for section, part in _said_once(outline).items()}


def _new(
    messages: Sequence[Message], talk: Sequence[Said], left: list[Entry], phrases: Phrases
) -> dict[Section, list[Entry]]:
    done = actions(messages)
    wants, tells = asked(talk), told(talk)
    return {
        Section.REQUESTS: wants.requests,
        Section.DECISIONS: sorted(
            wants.decisions + tells.decisions, key=lambda entry: -(entry.rank % max(1, len(talk)))
        ),
        Section.FILES: files(done, phrases),
        Section.COMMANDS: commands(done, phrases),
        Section.ERRORS: errors(done, tells.causes, pasted_errors(talk), phrases),
        Section.FINDINGS: tells.findings,
        Section.OPEN: left,
        Section.PROGRESS: [*_stands(talk, phrases), *last_done(done, phrases)],
    }


def _stands(talk: Sequence[Said], phrases: Phrases) -> list[Entry]:
    """The newest request and the last answer."""
    wanted = [one.text for one in talk if one.by_user]
    last_request = next(
        (text for text in reversed(wanted) if not is_idle(text)), "".join(wanted[-1:])
    )
    last_answer = next((one.text for one in reversed(talk) if not one.by_user), "")
    entries = []
    if last_request:
        words = one_line(last_request)
        entries.append(Entry(text=f"{phrases.working_on}: {_short(words)}", rank=0))
    if last_answer:
        words = one_line(last_answer[-4 * LAST_WORDS_CHARS :])
        entries.append(Entry(text=f"{phrases.said_last}: {words[-LAST_WORDS_CHARS:]}", rank=1))
    return entries


def _short(words: str) -> str:
    return words if len(words) <= LAST_WORDS_CHARS // 2 else words[: LAST_WORDS_CHARS // 2] + " …"


# Merging ------------------------------------------------------------------------------------------


def _over(outline: Outline, *, replaced: bool) -> Outline:
    """An earlier checkpoint as seen from later: what was in progress is over.

    `replaced` tells that there is a newer list of what is to be done.
    """
    progress, found, left = (
        outline.get(section, Part())
        for section in (Section.PROGRESS, Section.FINDINGS, Section.OPEN)
    )
    still_open = Part(
        entries=tuple(entry for entry in left.entries if not is_done(entry)), omitted=left.omitted
    )
    return outline | {
        Section.PROGRESS: Part(),
        Section.FINDINGS: Part(
            entries=(*found.entries, *_still_true(progress)), omitted=found.omitted
        ),
        Section.OPEN: Part() if replaced else still_open,
    }


def _still_true(progress: Part) -> Iterator[Entry]:
    """What was said in an earlier progress; what was worked on and done stands elsewhere."""
    for entry in progress.entries:
        label, _, words = entry.text.partition(": ")
        if label in _SAID and words:
            yield Entry(text=words)
        elif label not in _DONE:
            yield entry


def _merged(earlier: Sequence[Part], new: Sequence[Entry]) -> Part:
    entries: dict[str, Entry] = {}
    old = [entry for part in earlier for entry in part.entries]
    for age, entry in enumerate(old):
        rank = 0 if age == 0 else _OLDER + len(old) - age
        _put(entries, msgspec.structs.replace(entry, rank=rank))
    for entry in new:
        _put(entries, entry)
    return Part(entries=tuple(entries.values()), omitted=sum(part.omitted for part in earlier))


def _said_once(outline: Outline) -> Outline:
    """The outline without findings that stand word by word in another section already."""
    elsewhere = "\n".join(
        one_line(entry.text)
        for section, part in outline.items()
        if section is not Section.FINDINGS
        for entry in part.entries
    )
    found = outline[Section.FINDINGS]
    kept = tuple(
        e for e in found.entries if len(e.text) > _LONGEST_REPEAT or e.text not in elsewhere
    )
    return outline | {Section.FINDINGS: Part(entries=kept, omitted=found.omitted)}


def _put(entries: dict[str, Entry], entry: Entry) -> None:
    """A newer entry moves to the end, and stands for the older one with the same key."""
    name = entry.key or one_line(entry.text).casefold()
    older = entries.pop(name, None)
    rank = entry.rank if older is None else min(entry.rank, older.rank)
    entries[name] = msgspec.structs.replace(entry, rank=rank)


def _focused(part: Part, wishes: str) -> Part:
    words = {w for w in harmless(wishes).casefold().split() if len(w) >= _FOCUS_CHARS}
    if not words:
        return part
    return Part(
        entries=tuple(
            msgspec.structs.replace(entry, rank=FIRST)
            if any(word in entry.text.casefold() for word in words)
            else entry
            for entry in part.entries
        ),
        omitted=part.omitted,
    )
