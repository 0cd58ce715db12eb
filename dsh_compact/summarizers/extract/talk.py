"""What was said: requests, decisions, findings, open work, and what stood last.

A user's words are kept as they are. Of an answer only those sentences are kept that tell something:
that hold a cue, or facts (names, numbers, paths) that no kept sentence held before. What the
harness itself put into the user's mouth (where the session runs, reminders) is nobody's request.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from dsh_compact.events import Message, Opaque
from dsh_compact.summarizers.extract.actions import arguments, is_result, plans
from dsh_compact.summarizers.extract.checkpoints import is_checkpoint
from dsh_compact.summarizers.extract.cues import CAUSES, CORRECTIONS, DECISIONS, OPEN_WORK, Cues
from dsh_compact.summarizers.extract.outline import MOST_ENTRIES, Entry, foremost
from dsh_compact.summarizers.patterns import (
    error_lines,
    harmless,
    names,
    numbers,
    one_line,
    paths,
    sentences,
)

LOOKED_AT_CHARS: Final = 65_536
"""Of one message, three quarters of them its beginning: what is longer was pasted, not said."""

PROSE_CHARS: Final = 2_000_000
"""Of all answers together, the newest first: sentences are weighed one by one, which takes time."""

VERBATIM_CHARS: Final = 1_200
"""A request up to this length speaks for itself; of a longer one the sentences that set rules are
kept as decisions too, since its middle is the first to go."""

REPLY_CHARS: Final = 160
"""A message as short that follows a question is a reply, and means nothing without it."""

CORRECTION_CHARS: Final = 400
"""A message as short that begins with a correction is one, whole."""

LEAST_BYTES: Final = 24
"""A sentence without facts that takes less in UTF-8 tells nothing: `Fixed.`, `All is well.`"""

ACKNOWLEDGEMENT_CHARS: Final = 10
"""`ok`, `go on`, `thanks`, `weiter`: the first to go."""

MOST_FACTS: Final = 4
"""Facts that count in one sentence: a list of numbers isn't worth more than a finding."""

LAST_ANSWERS: Final = 3
"""Work that is named as open further back has been done or forgotten."""

SPEAKS_FOR_USER: Final = frozenset({"", "user", "user-question-reply", "user-approval", "schedule"})
"""Source kinds of messages in which the user speaks; any other was put there by the harness."""


class Said(NamedTuple):
    """One text of the user or the model, harmless; `closes` tells that a turn ended with it."""

    order: int
    by_user: bool
    text: str
    closes: bool = False


def said(messages: Sequence[Message], attached: str) -> list[Said]:
    """All that was said in the span, in order; `attached` names what is no text in it."""
    found: list[Said] = []
    for order, message in enumerate(messages):
        if _by_user(message):
            found.append(Said(order, True, _words(message, attached)))
        elif message.role == "assistant" and message.text.strip():
            found.append(Said(order, False, _words(message, attached), not message.calls))
    return [one for one in found if one.text]


def _by_user(message: Message) -> bool:
    return (
        message.role == "user"
        and message.source_kind in SPEAKS_FOR_USER
        and not is_result(message)
        and not is_checkpoint(message)
    )


def _words(message: Message, attached: str) -> str:
    kinds = [block.kind for block in message.content if isinstance(block, Opaque)]
    marks = [f"[{attached}: {one_line(harmless(kind[:40]))}]" for kind in kinds]
    return "\n".join([harmless(_glimpse(message.text)).strip(), *marks]).strip()


def _glimpse(text: str) -> str:
    if len(text) <= LOOKED_AT_CHARS:
        return text
    tail = LOOKED_AT_CHARS // 4
    return f"{text[: LOOKED_AT_CHARS - tail]} … {text[-tail:]}"


# The user -----------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What the user wants: requests, and what they decided or corrected."""

    requests: list[Entry]
    decisions: list[Entry]


def asked(talk: Sequence[Said]) -> Asked:
    """The user's messages; the first is the request that all others belong to."""
    requests: dict[str, Entry] = {}
    decisions: dict[str, Entry] = {}
    question = ""
    for place, one in enumerate(talk):
        if not one.by_user:
            question = _question(one.text)
            continue
        age = len(talk) - place
        cues = Cues(CORRECTIONS, one.text)
        if question and len(one.text) <= REPLY_CHARS:
            _put(decisions, f"{question} → {one.text}", age)
        elif requests and len(one.text) <= CORRECTION_CHARS and cues.hold(_first(one.text)):
            _put(decisions, one.text, age)
        else:
            idle = len(talk) if is_idle(one.text) else 0
            _put(requests, one.text, age + idle if requests else 0)
            if cues and len(one.text) > VERBATIM_CHARS:
                for sentence in filter(cues.hold, sentences(one.text)):
                    _put(decisions, sentence, age)
        question = ""
    return Asked([*requests.values()], foremost(decisions.values()))


def _question(text: str) -> str:
    """The question that an answer ends with, or nothing."""
    if text.rstrip("*_ \n")[-1:] not in {"?", "？"}:
        return ""
    return next(reversed(sentences(text[-2 * CORRECTION_CHARS :])), "")


def _first(text: str) -> str:
    """The first sentence of prose; a message that is all code has none."""
    return next(iter(sentences(text)), "")


def is_idle(text: str) -> bool:
    """Whether a message only keeps the conversation going."""
    return len(text) <= ACKNOWLEDGEMENT_CHARS and text.isascii() and not any(map(str.isdigit, text))


def _put(entries: dict[str, Entry], text: str, rank: int) -> None:
    entries.setdefault(one_line(text).casefold(), Entry(text=text, rank=rank))


def pasted_errors(talk: Iterable[Said]) -> Iterator[tuple[int, str]]:
    """Place and text of errors that the user reported in messages too long to stay whole."""
    for one in talk:
        if one.by_user and len(one.text) > VERBATIM_CHARS:
            for line in error_lines(one.text, 1):
                yield one.order, line


# The answers --------------------------------------------------------------------------------------


class Told(NamedTuple):
    """What the answers tell: decisions, findings, and why things went wrong, by place."""

    decisions: list[Entry]
    findings: list[Entry]
    causes: list[tuple[int, str]]


def told(talk: Sequence[Said]) -> Told:
    """The telling sentences of the answers, newest first in rank, in the order of the span."""
    decisions: dict[str, Entry] = {}
    findings: dict[str, Entry] = {}
    causes: list[tuple[int, str]] = []
    known: set[str] = set()
    for age, one in _newest_prose(talk):
        cues = [Cues(words, one.text) for words in (DECISIONS, CAUSES, OPEN_WORK)]
        for place, sentence in enumerate(sentences(one.text)):
            decides, explains, leaves = (cue.hold(sentence) for cue in cues)
            if explains:
                causes.append((one.order, sentence))
            if decides and not leaves:
                _put(decisions, sentence, len(talk) + age)  # the user's own have the lower rank
            elif not _boxed(sentence):
                concludes = one.closes and place == 0
                if worth := _worth(sentence, known, explains=explains, concludes=concludes):
                    _put(findings, sentence, age - 2 * worth)
    return Told(foremost(decisions.values()), foremost(findings.values()), causes)


def _newest_prose(talk: Sequence[Said]) -> list[tuple[int, Said]]:
    """The answers that are weighed, each with its age, in the order of the span."""
    chosen: list[tuple[int, Said]] = []
    room = PROSE_CHARS
    for age, one in enumerate(reversed(talk)):
        if not one.by_user:
            room -= len(one.text)
            if room < 0:
                break
            chosen.append((age, one))
    return chosen[::-1]


def _worth(sentence: str, known: set[str], *, explains: bool, concludes: bool) -> int:
    """How much a sentence tells; 0 means that it may go. Its facts are known from then on."""
    facts = {*names(sentence), *numbers(sentence), *paths(sentence)} - known
    telling = (explains or concludes) and len(sentence.encode("utf-8", "replace")) >= LEAST_BYTES
    if not facts and not telling:
        return 0
    known |= facts
    return min(len(facts), MOST_FACTS) + 3 * explains + 2 * concludes


# Open work ----------------------------------------------------------------------------------------

_DONE_WORDS: Final = frozenset({"done", "completed", "complete", "finished", "cancelled", "closed"})
_ITEM_KEYS: Final = ("content", "text", "title", "task", "step", "description", "subject")


class OpenWork(NamedTuple):
    """What is still to be done; `listed` tells that a list replaces what older ones say."""

    entries: list[Entry]
    listed: bool


def open_work(messages: Sequence[Message], talk: Sequence[Said]) -> OpenWork:
    """The newest to-do list's open items, and what the last answers say is left."""
    items = _newest_list(messages)
    entries: dict[str, Entry] = {}
    for item in items or ():
        _put(entries, item, 0)
    answers = [one.text for one in talk if not one.by_user][-LAST_ANSWERS:]
    for age, text in enumerate(reversed(answers)):
        cues = Cues(OPEN_WORK, text)
        for sentence in filter(cues.hold, sentences(text)):
            if not _boxed(sentence):
                _put(entries, sentence.lstrip("-*• "), age + 1)
    return OpenWork([*entries.values()][:MOST_ENTRIES], items is not None)


def _newest_list(messages: Sequence[Message]) -> list[str] | None:
    """The open items of the newest list, by a tool or as boxes; None where there is none."""
    for message in reversed(messages):
        if message.role != "assistant":
            continue
        for call in reversed(message.calls):
            if plans(call):
                for value in arguments(call).values():
                    if isinstance(value, list) and (items := _items(value)) is not None:
                        return items
        text = _glimpse(message.text)
        if "[ ]" in text or "[x]" in text:
            boxes = [line.strip() for line in harmless(text).split("\n")]
            return [_unboxed(line) for line in boxes if line.startswith(("- [ ]", "* [ ]"))]
    return None


def _items(value: list[Any]) -> list[str] | None:
    found = []
    for item in value[:MOST_ENTRIES]:
        if not isinstance(item, dict):
            return None
        words = next((item[key] for key in _ITEM_KEYS if isinstance(item.get(key), str)), None)
        if words is None:
            return None
        status = str(item.get("status", "")).lower()
        if status not in _DONE_WORDS and item.get("done") is not True:
            doing = (
                f" ({status.replace('_', ' ')})" if status not in {"", "pending", "todo"} else ""
            )
            found.append(one_line(harmless(words[:LOOKED_AT_CHARS])) + doing)
    return found


def _unboxed(line: str) -> str:
    return line[5:].strip()


def _boxed(sentence: str) -> bool:
    """Whether the sentence is an item of a list with boxes, which is kept as such."""
    return sentence.lstrip("-* ").lower().startswith(("[x]", "[ ]"))
