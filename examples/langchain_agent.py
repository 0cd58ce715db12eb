"""LangChain's agent with both paths around its message list, as one middleware.

    pip install langchain langchain-openai
    export OPENAI_API_KEY=...
    python examples/langchain_agent.py talk.jsonl "What does README.md say about exit codes?"

Why LangChain and not the OpenAI Agents SDK: its middleware has one seam where both paths belong.
`wrap_model_call` is given the whole message list before every request, may put another in its
place, sees the error of a refused one, and may call the model again. The SDK has two half seams: an
input filter that cannot retry, and a model class to wrap twice (streamed and not), whose items are
those of the Responses API.

The log is the agent's memory, so no checkpointer is needed: call again, and it goes on. (For
`ainvoke`, `awrap_model_call` is the same with `await handler(...)`.)
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI

from dsh_compact import Conversation, Preserve, Reply, ToolCall, Usage, open_conversation

MODEL: Final = os.environ.get("AGENT_MODEL", "gpt-5-mini")
SYSTEM: Final = "You answer questions about the files in this folder. Read before you answer."


def read_file(path: str) -> str:
    """Return the text of a file in this folder."""
    try:
        found = Path(path).resolve()
        found.relative_to(Path.cwd())  # nothing outside of this folder
        return found.read_text("utf-8", "replace")
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


class Ledger(AgentMiddleware):
    """Writes what is said into the conversation, and sends what stands there."""

    def __init__(self, talk: Conversation) -> None:
        super().__init__()
        self.talk = talk
        self.written = 0

    def before_agent(self, state: AgentState, runtime: Any) -> None:
        """A turn begins: its list holds nothing that is in the log already."""
        self.written = 0

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """One request: the pressure path before it, the overflow path where it is refused."""
        self.write(request.messages)
        self.talk.begin_step()
        response = self.send(request, handler)
        for message in response.result:
            if isinstance(message, AIMessage):
                self.talk.answer(reply_of(message))
        return response

    def send(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """The answer to what stands in the log; sent again only after a real shrink."""
        while True:
            told = convert_to_messages(self.talk.openai_request()["messages"])
            try:
                return handler(request.override(system_message=None, messages=told))
            except Exception as error:
                if isinstance(self.talk.recover(error), Preserve):
                    self.talk.end_turn("error", error)
                    raise

    def after_agent(self, state: AgentState, runtime: Any) -> None:
        """The answer had no calls: the turn is over."""
        self.talk.end_turn()

    def write(self, messages: Sequence[AnyMessage]) -> None:
        """What has been added to the list since the last request; answers are written at once."""
        for message in messages[self.written :]:
            if isinstance(message, HumanMessage):
                self.talk.user(message.text)
            elif isinstance(message, ToolMessage):
                failed = message.status == "error"
                self.talk.tool_result(message.tool_call_id, message.text, is_error=failed)
        self.written = len(messages)


def reply_of(message: AIMessage) -> Reply:
    """LangChain's answer as ours."""
    calls = [
        ToolCall(id=call["id"] or "", name=call["name"], arguments=json.dumps(call["args"]))
        for call in message.tool_calls
    ]
    counted = message.usage_metadata
    usage = None
    if counted is not None:
        cached = counted.get("input_token_details", {}).get("cache_read", 0)
        usage = Usage(
            input_tokens=counted["input_tokens"] - cached,
            output_tokens=counted["output_tokens"],
            cache_read_tokens=cached,
        )
    return Reply(text=message.text, calls=tuple(calls), usage=usage)


def main(log: str, words: str) -> None:
    """Put `words` into the conversation in `log` and print the answer."""
    tools = [convert_to_openai_tool(read_file)]
    with open_conversation(log, provider="openai", model=MODEL, system=SYSTEM, tools=tools) as talk:
        model = ChatOpenAI(model=MODEL, max_retries=0)
        agent = create_agent(model, [read_file], middleware=[Ledger(talk)])
        done = agent.invoke({"messages": [HumanMessage(words)]})
        print(done["messages"][-1].text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
