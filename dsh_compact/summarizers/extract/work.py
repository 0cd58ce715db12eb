"""What was done, as entries: files, commands, errors with what mended them, and what stood last."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from dsh_compact.summarizers.extract.actions import Action, Deed
from dsh_compact.summarizers.extract.language import Phrases
from dsh_compact.summarizers.extract.outline import Entry, foremost
from dsh_compact.summarizers.patterns import one_line

LONGEST_COMMAND_CHARS: Final = 240
"""Of a command line; what follows is a script that was given inline."""

LONGEST_SAID_CHARS: Final = 160
"""Of what a command printed last, beside the command."""

LONGEST_ERROR_CHARS: Final = 320

MOST_TRIES: Final = 20
"""Later successes that are looked at for the one that mended an error."""

MOST_EDITS: Final = 3
"""Files that are named as what mended an error."""

LAST_ACTIONS: Final = 2

_LESS: Final = 1_000_000
"""Added to the rank of what matters less than the rest of its section, whatever its age."""

_JOINTS: Final = re.compile(r"&&|\|\||;|\n")

RUNS: Final[frozenset[Deed]] = frozenset({"command", "called"})
CHANGES: Final[frozenset[Deed]] = frozenset({"written", "edited", "deleted"})


# Files --------------------------------------------------------------------------------------------


def files(done: Sequence[Action], phrases: Phrases) -> list[Entry]:
    """Each file that a tool worked on, with what was done to it; changed ones matter most."""
    touched: dict[str, list[Action]] = {}
    for action in done:
        if action.deed not in RUNS:
            touched.setdefault(action.target, []).append(action)
    return foremost(_file(path, deeds, phrases, len(done)) for path, deeds in touched.items())


def _file(path: str, deeds: Sequence[Action], phrases: Phrases, count: int) -> Entry:
    counts: dict[Deed, int] = {}
    for action in deeds:
        if not action.failed:
            counts[action.deed] = counts.get(action.deed, 0) + 1
    words = [
        _deed_word(deed, phrases) + (f" {phrases.times.format(times)}" if times > 1 else "")
        for deed, times in counts.items()
    ]
    changed = bool(CHANGES & counts.keys())
    age = count - deeds[-1].order
    text = f"{_marked(path)}: {', '.join(words or [phrases.failed])}"
    return Entry(text=text, rank=age + (0 if changed else _LESS), key=path)


def _deed_word(deed: Deed, phrases: Phrases) -> str:
    return {
        "read": phrases.read,
        "written": phrases.written,
        "edited": phrases.edited,
        "deleted": phrases.deleted,
        "searched": phrases.searched,
    }.get(deed, phrases.used)


# Commands -----------------------------------------------------------------------------------------


def commands(done: Sequence[Action], phrases: Phrases) -> list[Entry]:
    """Each command line with how it ended the last time; other tools' calls count as commands."""
    runs: dict[str, list[Action]] = {}
    for action in done:
        if action.deed in RUNS:
            runs.setdefault(short_command(action.target), []).append(action)
    return foremost(_command(line, again, phrases) for line, again in runs.items())


def _command(line: str, runs: Sequence[Action], phrases: Phrases) -> Entry:
    last = runs[-1]
    times = f" {phrases.times.format(len(runs))}" if len(runs) > 1 else ""
    ended = phrases.failed if last.failed else outcome(last, phrases)  # the error has its own entry
    text = f"{_marked(line)}{times} → {ended}"
    return Entry(text=text, rank=-last.order, key=line)


def outcome(action: Action, phrases: Phrases) -> str:
    """How an action ended, and the line of its result that tells most."""
    if action.failed is None:
        return phrases.unanswered
    word = phrases.failed if action.failed else phrases.ok
    return f"{word}: {action.said[:LONGEST_SAID_CHARS]}" if action.said else word


def short_command(line: str) -> str:
    """A command's first line, in bounds; an ellipsis tells that more follows."""
    first = one_line(line.split("\n", 1)[0][: 2 * LONGEST_COMMAND_CHARS])
    cut = first[:LONGEST_COMMAND_CHARS].rstrip()
    return cut if cut == one_line(line[: 4 * LONGEST_COMMAND_CHARS]) else f"{cut} …"


# Errors -------------------------------------------------------------------------------------------


def errors(
    done: Sequence[Action],
    causes: Sequence[tuple[int, str]],
    pasted: Iterable[tuple[int, str]],
    phrases: Phrases,
) -> list[Entry]:
    """What went wrong, and what mended it: edits and words before the same thing went well."""
    found: dict[str, Entry] = {}
    for place, line in pasted:
        found[line] = Entry(text=line[:LONGEST_ERROR_CHARS], rank=-place)
    successes = _successes(done)
    for index, action in enumerate(done):
        if action.failed and action.said:
            mended = _mended_at(index, done, successes)
            text = f"{_where(action)}: {action.said[:LONGEST_ERROR_CHARS]}"
            if mended is None:
                open_ = f"{text} → {phrases.still_open}"
                found[action.said] = Entry(text=open_, rank=-action.order)
            else:
                cure = _cure(done[index + 1 : mended], causes, action, done[mended], phrases)
                found[action.said] = Entry(text=f"{text} → {cure}", rank=_LESS - action.order)
    return foremost(found.values())


def _successes(done: Sequence[Action]) -> dict[str, list[int]]:
    """What went well, by what it was: the places in `done`."""
    found: dict[str, list[int]] = {}
    for index, action in enumerate(done):
        if action.failed is False:
            for stem in _stems(action):
                found.setdefault(stem, []).append(index)
    return found


def _mended_at(index: int, done: Sequence[Action], successes: dict[str, list[int]]) -> int | None:
    """Where everything that the failed action does went well again, first of all."""
    stems = _stems(done[index])
    times = successes.get(max(stems, default=""), [])
    later = times[bisect_right(times, index) :][:MOST_TRIES]
    return next((at for at in later if stems <= _stems(done[at])), None)


def _stems(action: Action) -> frozenset[str]:
    """What a second try shares with the first: each program with its first word, or the path."""
    if action.deed != "command":
        return frozenset((action.target,))
    line = action.target[: 4 * LONGEST_COMMAND_CHARS]
    words = (part.split(None, 2)[:2] for part in _JOINTS.split(line))
    return frozenset(" ".join(pair) for pair in words if pair and pair[0] not in {"cd", "export"})


def _where(action: Action) -> str:
    if action.deed in RUNS:
        return _marked(short_command(action.target))
    return f"{action.tool} {_marked(action.target)}"


def _cure(
    between: Sequence[Action],
    causes: Sequence[tuple[int, str]],
    failed: Action,
    mended: Action,
    phrases: Phrases,
) -> str:
    edited = [action.target for action in between if action.deed in CHANGES and not action.failed]
    named = [*dict.fromkeys(edited)][-MOST_EDITS:]
    said = [text for order, text in causes if failed.ended < order <= mended.ended]
    how = [f"{phrases.edited} {', '.join(map(_marked, named))}"] if named else []
    how += [f"“{said[0][:LONGEST_SAID_CHARS]}”"] if said else []
    return f"{phrases.mended}: {'; '.join(how)}" if how else phrases.mended


# The last thing -----------------------------------------------------------------------------------


def last_done(done: Sequence[Action], phrases: Phrases) -> list[Entry]:
    """The calls that have no result, or else the last ones with theirs."""
    waiting = [action for action in done if action.failed is None]
    last = waiting[-LAST_ACTIONS:] or done[-LAST_ACTIONS:]
    return [
        Entry(
            text=f"{phrases.done_last}: {_where(action)} → {outcome(action, phrases)}",
            rank=rank + 2,
        )
        for rank, action in enumerate(reversed(last))
    ][::-1]


def _marked(words: str) -> str:
    """Words as code, unless they hold the mark themselves."""
    return words if "`" in words else f"`{words}`"
