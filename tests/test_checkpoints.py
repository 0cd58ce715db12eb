"""Earlier checkpoints: found by mark or frame, taken apart whoever wrote them."""

import pytest
from talks import Talk

from dsh_compact.events import Message, Text
from dsh_compact.summarizers.extract.checkpoints import is_checkpoint, outline_of, summary_of
from dsh_compact.summarizers.extract.outline import Outline, Section


def texts(outline: Outline) -> dict[str, list[str]]:
    """The entries' texts by section."""
    return {str(name): [entry.text for entry in part.entries] for name, part in outline.items()}


def framed(*inner: str) -> Message:
    """A user's message with a frame in it, as any harness may carry it on."""
    blocks = ("Background.\n\n<compacted-summary>", *inner, "</compacted-summary>")
    return Message(role="user", content=tuple(Text(text=t) for t in blocks), source_kind="user")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (True, Talk().checkpoint("x").messages[0]),
        (True, framed("x")),
        (True, Message(role="user", content=(), source_kind="plugin", compaction_id="c")),
        (False, Talk().user("What does <compacted-summary> mean?").messages[0]),
        (False, Talk().user("</compacted-summary>").messages[0]),
        (False, Talk().answer("a <compacted-summary>x</compacted-summary>").messages[0]),
        (False, Talk().user("hello").messages[0]),
    ],
)
def test_what_is_a_checkpoint(wanted: bool, message: Message) -> None:
    """A message is one by its source, or by a frame that it opens and ends with."""
    assert wanted is is_checkpoint(message)


def test_the_summary_is_what_stands_in_the_frame() -> None:
    """Preamble and marks go, all blocks between them stay."""
    assert "one\ntwo" == summary_of(framed("one", "two"))


def test_a_checkpoint_without_a_frame_is_its_text() -> None:
    """Some harness may frame its checkpoints otherwise; the mark of the source is enough."""
    message = Message(role="user", content=(Text(text="so far"),), source_kind="compact-checkpoint")
    assert "so far" == summary_of(message)


@pytest.mark.parametrize(
    ("wanted", "summary"),
    [
        ({"requests": ["a", "b\n- c"]}, "## Requests\n- a\n- b\n  - c"),
        ({"files": ["`a.py`: read"]}, "## Dateien\n- `a.py`: read"),
        (
            {"errors": ["x"], "open": ["y"]},
            "**Errors and fixes:**\n* x\n\n3. Pending tasks:\n   - y",
        ),
        ({"progress": ["x"]}, "<current_work>\nx\n</current_work>"),
        ({"findings": ["free words", "more"]}, "free words\nmore"),
        ({"findings": ["x"]}, "# Anything else\n- x"),
        ({"findings": ["```", "## Files", "```"]}, "```\n## Files\n```"),
        ({"requests": ["a", "b"], "open": ["c"]}, "Requests: a; b\nOpen work: c"),
        ({}, ""),
    ],
)
def test_taking_it_apart(wanted: dict[str, list[str]], summary: str) -> None:
    """Headings of every usual kind lead to sections; deeper bullets go on with their entry."""
    assert wanted == texts(outline_of(summary))


def test_entries_know_what_they_are_about() -> None:
    """What stands in code at an entry's beginning is its key, by which newer facts replace it."""
    (entry,) = outline_of("## Commands\n- `make` → ok")[Section.COMMANDS].entries
    assert "make" == entry.key


def test_what_was_left_out_is_counted_in_every_language() -> None:
    """The line that counts the rest is no entry."""
    for line, section in (
        ("… 7 more", "Files"),
        ("… 7 weitere", "Dateien"),
        ("… 另有 7 项", "文件"),
    ):
        part = outline_of(f"## {section}\n- `a`\n- {line}")[Section.FILES]
        assert (1, 7) == (len(part.entries), part.omitted)
