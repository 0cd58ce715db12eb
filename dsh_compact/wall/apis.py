"""The two APIs that the wall speaks, as far as a client needs them: a request's texts in, an
answer, a stream or a refusal out. Pure: JSON values in, JSON values out; HTTP is the server's.
"""

from collections.abc import Iterator
from typing import Any, Final, Protocol

from dsh_compact.events import Failure
from dsh_compact.wall.asked import Asked, compact, decoded, images, texts

Json = dict[str, Any]

PIECES: Final = 4
"""Into so many pieces a streamed answer is cut: enough for a client to show that it streams."""

CREATED_SECONDS: Final = 1_700_000_000
"""When everything here was created: equal requests get equal answers."""


class Api(Protocol):
    """How one API asks and is answered."""

    like: str

    def asked(self, body: bytes) -> Asked:
        """What a body asks; raises `Malformed`."""

    def answer(self, asked: Asked, text: str, given: int, made: int) -> Json:
        """An answer; `given` and `made` are the tokens of the request and of `text`."""

    def stream(self, asked: Asked, text: str, given: int, made: int) -> Iterator[tuple[str, Json]]:
        """The same as events, each with its name (empty where the API names none)."""

    def error(self, failure: Failure, like: str, requested: int, limit: int) -> Json:
        """A failure's body, in the shape of the provider `like` where it speaks this API."""

    def models(self, model: str) -> Json:
        """The list of models."""


def _pieces(text: str) -> list[str]:
    size = -(-len(text) // PIECES)
    return [text[start : start + size] for start in range(0, len(text), size)]


class ChatCompletions:
    """OpenAI's chat completions, as most others speak them, too."""

    like = "openai"

    def asked(self, body: bytes) -> Asked:
        """The messages' texts, tool calls with them; the tools stand in the header."""
        value = decoded(body)
        options = value.get("stream_options")
        tools = value.get("tools") or value.get("functions")
        return Asked(
            model=value["model"],
            messages=tuple(tuple(_message_texts(one)) for one in value["messages"]),
            header=(compact(tools),) if tools else (),
            images=images(value["messages"]),
            is_stream=value.get("stream") is True,
            wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
        )

    def answer(self, asked: Asked, text: str, given: int, made: int) -> Json:
        """A `chat.completion`."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            **self._head(asked, "chat.completion"),
            "choices": [choice],
            "usage": _usage(given, made),
        }

    def stream(self, asked: Asked, text: str, given: int, made: int) -> Iterator[tuple[str, Json]]:
        """`chat.completion.chunk`s."""
        head = self._head(asked, "chat.completion.chunk")
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in _pieces(text)]
        for delta in deltas:
            yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        if asked.wants_usage:
            yield "", {**head, "choices": [], "usage": _usage(given, made)}

    def error(self, failure: Failure, like: str, requested: int, limit: int) -> Json:
        """An `error` with what that provider puts into it."""
        kind: Json = {"type": "invalid_request_error", "param": None, "code": failure.code}
        match like:
            case "openai":
                kind["param"] = "messages"
            case "gemini":
                kind = {"code": failure.status, "status": failure.code}
            case "vllm":
                kind = {"type": "BadRequestError", "param": None, "code": failure.status}
            case "llama.cpp":
                kind = {"code": failure.status, "type": failure.code}
                kind |= {"n_prompt_tokens": requested, "n_ctx": limit}
        return {"error": {"message": failure.message, **kind}}

    def models(self, model: str) -> Json:
        """One model."""
        one = {"id": model, "object": "model", "created": CREATED_SECONDS, "owned_by": "dshc"}
        return {"object": "list", "data": [one]}

    def _head(self, asked: Asked, kind: str) -> Json:
        return {
            "id": "chatcmpl-wall",
            "object": kind,
            "created": CREATED_SECONDS,
            "model": asked.model,
        }


def _message_texts(message: object) -> Iterator[str]:
    """A message's texts; of its calls the names and arguments."""
    if not isinstance(message, dict):
        yield from texts(message)
        return
    yield from texts(message.get("content"))
    yield from texts(message.get("reasoning_content"))
    for call in message.get("tool_calls") or ():
        yield from texts(call.get("function") if isinstance(call, dict) else call)
    yield from texts(message.get("function_call"))


def _usage(given: int, made: int) -> Json:
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


class Messages:
    """Anthropic's messages."""

    like = "anthropic"

    def asked(self, body: bytes) -> Asked:
        """The messages' texts; the system prompt and the tools stand in the header."""
        value = decoded(body)
        tools = value.get("tools")
        return Asked(
            model=value["model"],
            messages=tuple(
                tuple(texts(one.get("content") if isinstance(one, dict) else one))
                for one in value["messages"]
            ),
            header=(*texts(value.get("system")), *((compact(tools),) if tools else ())),
            images=images(value["messages"]),
            is_stream=value.get("stream") is True,
        )

    def answer(self, asked: Asked, text: str, given: int, made: int) -> Json:
        """A `message`."""
        usage = {"input_tokens": given, "output_tokens": made}
        content = [{"type": "text", "text": text}]
        return {**self._head(asked), "content": content, "stop_reason": "end_turn", "usage": usage}

    def stream(self, asked: Asked, text: str, given: int, made: int) -> Iterator[tuple[str, Json]]:
        """A message's events, from start to stop."""
        begun = {
            **self._head(asked),
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": given, "output_tokens": 1},
        }
        events: list[Json] = [
            {"type": "message_start", "message": begun},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
        ]
        events += [
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": piece},
            }
            for piece in _pieces(text)
        ]
        events += [
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": made},
            },
            {"type": "message_stop"},
        ]
        return ((event["type"], event) for event in events)

    def error(self, failure: Failure, like: str, requested: int, limit: int) -> Json:
        """The API's own shape whoever words it: its clients read no other."""
        kind = failure.code if like == self.like else "invalid_request_error"
        error = {"type": kind, "message": failure.message}
        return {"type": "error", "error": error, "request_id": "req_wall"}

    def models(self, model: str) -> Json:
        """One model."""
        one = {
            "type": "model",
            "id": model,
            "display_name": model,
            "created_at": "2023-11-14T22:13:20Z",
        }
        return {"data": [one], "has_more": False, "first_id": model, "last_id": model}

    def _head(self, asked: Asked) -> Json:
        return {
            "id": "msg_wall",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "stop_sequence": None,
        }
