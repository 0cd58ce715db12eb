"""Numbers with their nouns: one of a thing is told as one."""

import re
from pathlib import Path
from typing import Final

import pytest
from builders import Conversation, line
from readme import ROOT
from running import dshc, python

from dsh_compact.words import counted

ONE_OF_MANY: Final = re.compile(
    r"(?<![\d,.])1 (?:more |tool |invalid |refused )?\w{2,}[^s\W]s\b|\(s\)"
)
"""`1 events`, `6 message(s)`."""


@pytest.mark.parametrize(
    ("expected", "number", "nouns"),
    [
        ("0 messages", 0, ("message",)),
        ("1 message", 1, ("message",)),
        ("1,466 messages", 1_466, ("message",)),
        ("1 invalid retry", 1, ("invalid retry", "invalid retries")),
        ("2 invalid retries", 2, ("invalid retry", "invalid retries")),
    ],
)
def test_a_number_has_its_noun(expected: str, number: int, nouns: tuple[str, ...]) -> None:
    """Thousands are set apart, and a plural that is no `s` is given."""
    assert expected == counted(number, *nouns)


@pytest.mark.parametrize(
    "words",
    [
        "measure {}", "verify {}", "show --full {}", "history {}", "compact --force {}",
        "recover {} --limit 100 --backend prune-only", "append {} --user hi", "repair --dry-run {}",
        "recover {} --limit 100 --backend lying --discipline breaker:1",
        "recover {} --limit 100 --backend drop-oldest",
    ],
)  # fmt: skip
def test_one_of_a_thing_is_no_plural(words: str, tmp_path: Path) -> None:
    """A log with one event, one message and one torn byte, through every command."""
    log = tmp_path / "one.jsonl"
    header, *_, said = Conversation().user("hi " * 400).records[:6]
    log.write_bytes(b"".join([line(header), line({**said, "seq": 0}), b"{"]))
    done = dshc(*words.format(log).split())
    assert None is ONE_OF_MANY.search(f"{done.out}{done.err}")


def test_the_examples_count_as_a_person_does(logs: Path) -> None:
    """One folded message is a message, six are messages."""
    code = (ROOT / "examples/measure_log.py").read_text("utf-8")
    told = "".join(
        python(code.replace("sys.argv[1]", repr(str(log)))).out for log in sorted(logs.glob("v4*"))
    )
    assert "took the place of 1 message\n" in told
    assert re.search(r"took the place of [2-9] messages\n", told)
    assert None is ONE_OF_MANY.search(told)
