"""What a model is told when it is to summarise: our own words, for a span, a part, and a merge.

The instruction stands behind the conversation, never before it, so that the request begins as the
conversation's own requests did. Nothing here knows a provider.
"""

from typing import Final

WORDS_PER_TOKEN: Final = 0.6
"""What is asked for, so that a summary of plain English stays below its bound: models overdo it."""

SECTIONS: Final = """\
## Request
What the user wants and why, in their own words where those are short; then everything they \
changed, corrected or ruled out since. Instructions that still hold come first.
## Decisions
What was settled, with the reason, and what was tried and given up.
## Files
Each file that matters, by its exact path: what was read, written or changed in it, and why.
## Errors
Each error in its exact words, its cause, and what mended it; say so where it is still open.
## Open work
What was asked for and isn't done.
## Next step
What was being done at the very end, and the next thing to do."""

_TASK: Final = (
    "Write a checkpoint of the conversation above. It takes the place of these messages: whoever"
    " goes on with the work will see your checkpoint and what came later, and nothing else."
)

_RULES: Final = (
    "Copy paths, names, commands, figures and error messages exactly. Write nothing that isn't in"
    " the conversation, and don't go on with its work. If it holds an earlier checkpoint, take over"
    " what still matters instead of mentioning it. Write in the user's language, headings too, and"
    " leave out a section that would be empty. Answer with the checkpoint alone: plain text, no"
    " introduction, no tool call."
)

_PART: Final = (
    "The transcript above is part {number} of a longer conversation. Write a checkpoint of this"
    " part; it will be merged with those of the other parts. Tool output may have been shortened"
    " where it says so."
)

_MERGE: Final = (
    "The checkpoints above describe one conversation part by part, in order. Merge them into one,"
    " as if it had been written at once: what a later part changed or finished replaces what an"
    " earlier part says, and nothing is told twice. The last part tells the next step."
)


def for_span(max_tokens: int, wishes: str) -> str:
    """To summarise everything above."""
    return _joined(_TASK, max_tokens, wishes)


def for_part(number: int, max_tokens: int, wishes: str) -> str:
    """To summarise a transcript that is part `number`, from 1."""
    return _joined(_PART.format(number=number), max_tokens, wishes)


def for_merge(max_tokens: int, wishes: str) -> str:
    """To make one checkpoint of several."""
    return _joined(_MERGE, max_tokens, wishes)


def _joined(task: str, max_tokens: int, wishes: str) -> str:
    words = max(1, int(max_tokens * WORDS_PER_TOKEN))
    room = f"Use at most {words} words, fewer where little happened."
    asked = (
        f"The user asks that the checkpoint heed this:\n{wishes.strip()}" if wishes.strip() else ""
    )
    return "\n\n".join(filter(None, (task, _RULES, asked, room, f"Sections:\n{SECTIONS}")))
