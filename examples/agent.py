"""A small agent that does not get stuck: one file, one tool, any OpenAI-compatible endpoint.

    pip install openai
    export OPENAI_API_KEY=...        # and OPENAI_BASE_URL, AGENT_MODEL for another provider
    python examples/agent.py talk.jsonl "What does README.md say about exit codes?"

The conversation lies in talk.jsonl, is gone on with when you call again, and every `dshc` command
reads it. To see both paths at work, let it run into a wall: `dshc serve-wall --limit 2000` prints
the address for OPENAI_BASE_URL.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

from openai import APIStatusError, OpenAI

from dsh_compact import Conversation, DshcError, Preserve, Reply, ToolCall, open_conversation
from dsh_compact.config import resolve

MODEL: Final = os.environ.get("AGENT_MODEL", "gpt-5-mini")
SYSTEM: Final = "You answer questions about the files in this folder. Read before you answer."
READ_FILE: Final = {
    "name": "read_file",
    "description": "Returns the text of a file in this folder.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
}


def main(log: str, words: str) -> int:
    """Put `words` into the conversation in `log` and print the answer."""
    try:
        with open_conversation(
            log,
            provider="openai",
            model=MODEL,
            system=SYSTEM,
            tools=[READ_FILE],
            policy=resolve(log, "openai", MODEL).policy,  # dshc.toml and DSHC_... count here, too
        ) as talk:
            talk.user(words)
            print(work(talk, OpenAI()))
    except (APIStatusError, DshcError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def work(talk: Conversation, client: OpenAI) -> str:
    """One turn: requests and tool runs until the model has nothing more to ask for."""
    while True:
        if talk.begin_step().acted:  # the pressure path, before every request
            print("(packed: the window was filling up)", file=sys.stderr)
        reply = ask(talk, client)
        for call in talk.answer(reply):
            talk.begin_call(call.id)
            text, is_error = run(call)
            talk.tool_result(call.id, text, is_error=is_error)
        if not reply.calls:
            talk.end_turn("max-tokens" if reply.is_cut else "completed")
            return reply.text


def ask(talk: Conversation, client: OpenAI) -> Reply:
    """The answer to what stands in the log; a refused request goes through the overflow path."""
    while True:
        try:
            return Reply.from_openai(client.chat.completions.create(**talk.openai_request()))
        except APIStatusError as error:
            decision = talk.recover(error)
            if isinstance(decision, Preserve):
                talk.end_turn("error", error)
                raise
            print("(refused, shortened, sent again)", file=sys.stderr)


def run(call: ToolCall) -> tuple[str, bool]:
    """What the tool gives, and whether that is an error; the model may ask for anything."""
    try:
        path = Path(str(json.loads(call.arguments)["path"])).resolve()
        path.relative_to(Path.cwd())  # nothing outside of this folder
        return path.read_text("utf-8", "replace"), False
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}", True


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
