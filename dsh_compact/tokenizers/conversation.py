"""A message's texts as the model reads them, for a tokenizer to count.

Rule: nothing is left out. A block that we do not interpret is counted as its JSON, as the estimate
does, so that the two can be compared; what an image costs is the provider's secret.
"""

from typing import assert_never

from dsh_compact.events import Header, Message, Opaque, Reasoning, Text, ToolCall, ToolResult


def pieces(message: Message) -> list[str]:
    """The texts of `message` in order, none if it has no content."""
    texts: list[str] = []
    waiting = list(reversed(message.content))
    while waiting:  # a stack of our own: a log may nest results deeper than Python calls
        match waiting.pop():
            case Text(text=text) | Reasoning(text=text):
                texts.append(text)
            case ToolCall(name=name, arguments=arguments):
                texts += (name, arguments)
            case ToolResult(content=content):
                waiting += reversed(content)
            case Opaque(json=json):
                texts.append(json.decode("utf-8", "replace"))
            case never:
                assert_never(never)
    return texts


def header_pieces(header: Header | None) -> list[str]:
    """The texts of a request header: the system prompt and the tools' JSON, where there are any."""
    if header is None:
        return []
    tools = (header.tools_json or b"").decode("utf-8", "replace")
    return [text for text in (header.system, tools) if text]
