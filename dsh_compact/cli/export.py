"""`dshc export`: the conversation as it stands, for another client."""

from enum import StrEnum
from typing import Annotated, Any, assert_never

import typer

from dsh_compact.cli import io, options
from dsh_compact.events import Header, Message
from dsh_compact.export import to_anthropic, to_markdown, to_openai
from dsh_compact.report.terminal import safe_block
from dsh_compact.session import read_session

EXAMPLES = """
dshc export session.v4.jsonl --to openai > body.json      go on with any OpenAI client
dshc export LOG --to anthropic | jq '.messages | length'
dshc export LOG --to markdown | less                      to be read
"""


class Target(StrEnum):
    """Who is to go on with the conversation."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    MARKDOWN = "markdown"


def command(
    log: options.OptionalLog = None,
    *,
    to: Annotated[Target, typer.Option("--to", show_default=False, help="For whom it is written.")],
    demo: options.Demo = False,
    json: options.Json = False,
) -> int:
    """Write the conversation as the model sees it now, so that another client can go on with it.

    For openai and anthropic: the body of a request, with the session's model and tools, as the
    official clients take it; add the user's next message and send it. Every call stands with its
    result. Images and files are named in their place, the model's reasoning is left out. For
    markdown: a text to be read. Nothing is written but the output.
    """
    path = options.log_or_demo(log, demo=demo)
    with read_session(path) as session:
        for notice in session.notices:
            io.notice(notice)
        messages = [session.event(node).message for node in session.surface]
        written = _written(to, messages, session.newest_header)
        if json:
            head = {"schema": 1, "command": "export", "log": session.path, "to": to.value}
            io.emit_json({**head, "conversation": written})
        elif isinstance(written, str):
            io.emit_text(written.rstrip("\n"), verbatim=True)
        else:
            io.emit_json(written)
    return 0


def _written(to: Target, messages: list[Message], header: Header | None) -> dict[str, Any] | str:
    match to:
        case Target.OPENAI:
            return to_openai(messages, header)
        case Target.ANTHROPIC:
            return to_anthropic(messages, header)
        case Target.MARKDOWN:
            return safe_block(to_markdown(messages, header))
        case _:
            assert_never(to)
