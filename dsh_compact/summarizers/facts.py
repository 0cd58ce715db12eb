"""Which facts of a span are still in a text: a count, not an opinion.

Six kinds: file paths, commands, error strings, numbers, identifiers, and the user's instructions. A
fact must have been somebody's: it stands in a user's message, in an answer, or in the arguments of
a call, or it is the error that a failed call ended with. What a tool merely printed (a listing, a
file's content) is no fact of the conversation until somebody takes it up, otherwise one `ls` would
outweigh a day's work.

A path, number or identifier is kept where the text names it; a command where the text holds its
beginning; an error or an instruction where one line of the text holds most of its words, so that a
summary in other words isn't counted as a loss. A high ratio doesn't make a good summary; a low one
makes a bad one likely. An earlier checkpoint in the span counts as if an answer had said it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from dsh_compact.events import Message
from dsh_compact.summarizers.extract.actions import actions
from dsh_compact.summarizers.extract.checkpoints import is_checkpoint, summary_of
from dsh_compact.summarizers.extract.talk import is_idle, said
from dsh_compact.summarizers.extract.work import RUNS
from dsh_compact.summarizers.patterns import (
    harmless,
    last_part,
    names,
    numbers,
    one_line,
    paths,
    sentences,
)

MOST_EXAMPLES: Final = 10
"""Lost facts that a report names for each kind."""

MOST_FACTS: Final = 20_000
"""Facts of one kind that are looked for; a span with more is a listing."""

COMMAND_HEAD_CHARS: Final = 60
"""So much of a command tells which one it was."""

WORDS_KEPT: Final = 0.6
"""Of an instruction's or an error's words, one line of the text must hold this share."""

LONGEST_CHARS: Final = 1_000_000
"""What is read of the text that is checked."""

LEAST_WORD_CHARS: Final = 3


class FactKind(StrEnum):
    """What is counted."""

    PATH = "paths"
    COMMAND = "commands"
    ERROR = "errors"
    NUMBER = "numbers"
    IDENTIFIER = "identifiers"
    INSTRUCTION = "instructions"


class KindReport(Struct, frozen=True, kw_only=True):
    """One kind: how many facts the span holds and the text keeps; some that it lost, in order."""

    kind: FactKind
    total: int
    kept: int
    lost: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """Kept of total; 1 where there was nothing to keep."""
        return self.kept / self.total if self.total else 1.0


class FactsReport(Struct, frozen=True, kw_only=True):
    """Every kind's report, in the order of `FactKind`."""

    kinds: tuple[KindReport, ...]

    @property
    def total(self) -> int:
        """All facts of the span."""
        return sum(kind.total for kind in self.kinds)

    @property
    def kept(self) -> int:
        """Those that the text still holds."""
        return sum(kind.kept for kind in self.kinds)

    @property
    def ratio(self) -> float:
        """Kept of total, every fact counting once; 1 where there was nothing to keep."""
        return self.kept / self.total if self.total else 1.0

    def of(self, kind: FactKind) -> KindReport:
        """One kind's report."""
        return next(report for report in self.kinds if report.kind is kind)


def check(messages: Sequence[Message], summary: str) -> FactsReport:
    """Counts which facts of `messages` are in `summary`; never raises, linear in both lengths."""
    text = _Text(harmless(summary[:LONGEST_CHARS]))
    keeps = {
        FactKind.PATH: text.names_path,
        FactKind.COMMAND: text.holds_command,
        FactKind.ERROR: text.tells,
        FactKind.NUMBER: text.numbers.__contains__,
        FactKind.IDENTIFIER: text.names.__contains__,
        FactKind.INSTRUCTION: text.tells,
    }
    reports = []
    for kind, facts in facts_of(messages).items():
        lost = [fact for fact in facts if not keeps[kind](fact)]
        reports.append(
            KindReport(
                kind=kind,
                total=len(facts),
                kept=len(facts) - len(lost),
                lost=tuple(lost[:MOST_EXAMPLES]),
            )
        )
    return FactsReport(kinds=tuple(reports))


# What the span holds ------------------------------------------------------------------------------


def facts_of(messages: Sequence[Message]) -> dict[FactKind, list[str]]:
    """The facts of a span by kind, each once, in the order of their first appearance."""
    talk = said(messages, "")
    prose = [one.text for one in talk] + [
        harmless(summary_of(message)[:LONGEST_CHARS])
        for message in messages
        if is_checkpoint(message)
    ]
    done = actions(messages)
    commands = [action.target for action in done if action.deed == "command"]
    targets = [a.target for a in done if a.deed not in RUNS]
    found: dict[FactKind, Iterable[str]] = {
        FactKind.PATH: [*targets, *_each(paths, [*prose, *commands])],
        FactKind.COMMAND: map(_head, commands),
        FactKind.ERROR: [action.said for action in done if action.failed and action.said],
        FactKind.NUMBER: _each(numbers, prose),
        FactKind.IDENTIFIER: _each(names, prose),
        FactKind.INSTRUCTION: _each(
            sentences, [o.text for o in talk if o.by_user and not is_idle(o.text)]
        ),
    }
    return {kind: [*dict.fromkeys(facts)][:MOST_FACTS] for kind, facts in found.items()}


def _each(scan: Callable[[str], list[str]], texts: Iterable[str]) -> list[str]:
    return [fact for text in texts for fact in scan(text)]


def _head(command: str) -> str:
    return one_line(command[: 4 * COMMAND_HEAD_CHARS])[:COMMAND_HEAD_CHARS].rstrip()


# What the text holds ------------------------------------------------------------------------------

_WORD: Final = re.compile(r"[^\W_]{1,40}")
_WIDE: Final = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


class _Text:
    """The text that is checked, taken apart once."""

    def __init__(self, text: str) -> None:
        self._plain = one_line(text)
        self.numbers = {*numbers(text)}
        self.names = {*names(text)}
        self._paths: dict[str, list[str]] = {}
        for path in paths(text):
            self._paths.setdefault(last_part(path), []).append(path.strip("./"))
        self._lines: dict[str, list[int]] = {}
        for index, line in enumerate(text.split("\n")):
            for word in {*_words(line)}:
                self._lines.setdefault(word, []).append(index)

    def names_path(self, path: str) -> bool:
        """Whether the text names the path, or enough of its end to be no other."""
        wanted = path.replace("\\", "/").strip("./")
        others = self._paths.get(last_part(path), ())
        return path in self._plain or any(
            _is_tail(other, wanted) or _is_tail(wanted, other) for other in others[:MOST_EXAMPLES]
        )

    def holds_command(self, command: str) -> bool:
        """Whether the text holds the command's beginning."""
        return command in self._plain

    def tells(self, sentence: str) -> bool:
        """Whether one line holds most of the sentence's words."""
        words = {*_words(sentence)}
        if not words:
            return one_line(sentence) in self._plain
        hits = Counter(line for word in words for line in self._lines.get(word, ()))
        return max(hits.values(), default=0) >= WORDS_KEPT * len(words)


def _is_tail(tail: str, path: str) -> bool:
    return tail == path or path.endswith("/" + tail)


def _words(text: str) -> list[str]:
    """The words that matter; where words aren't spaced, pairs of neighbouring characters."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if _WIDE.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif len(word) >= LEAST_WORD_CHARS or word.isdigit():
            found.append(word)
    return found
