"""How real providers word a refusal for length: status, code and message, by provider.

The sentences are theirs, reproduced so that a rehearsal meets what life has in store; the sources
are named with each. `{requested}` and `{limit}` are counts in tokens.
"""

from typing import Any, Final

from msgspec import Struct

from dsh_compact.errors import UsageError
from dsh_compact.events import Failure


class Refused(Struct, frozen=True, kw_only=True):
    """One provider's refusal; `body` is what HTTP carries around the message."""

    status: int
    code: str | None
    message: str
    source: str


WORDINGS: Final[dict[str, Refused]] = {
    "openai": Refused(
        status=400,
        code="context_length_exceeded",
        message="This model's maximum context length is {limit} tokens. However, your messages"
        " resulted in {requested} tokens. Please reduce the length of the messages.",
        source="community.openai.com/t/context-length-exceeded",
    ),
    "anthropic": Refused(
        status=400,
        code="invalid_request_error",
        message="prompt is too long: {requested} tokens > {limit} maximum",
        source="stackblitz/bolt.new#2449",
    ),
    "deepseek": Refused(
        status=400,
        code="invalid_request_error",
        message="This model's maximum context length is {limit} tokens. However, you requested"
        " {requested} tokens ({requested} in the messages, 0 in the completion). Please reduce the"
        " length of the messages or completion.",
        source="api-docs.deepseek.com",
    ),
    "gemini": Refused(
        status=400,
        code="INVALID_ARGUMENT",
        message="The input token count ({requested}) exceeds the maximum number of tokens allowed"
        " ({limit}).",
        source="google-gemini/gemini-cli#19727",
    ),
    "bedrock": Refused(
        status=400,
        code="ValidationException",
        message="Input is too long for requested model.",
        source="docs.aws.amazon.com/bedrock",
    ),
    "vllm": Refused(
        status=400,
        code="400",
        message="This model's maximum context length is {limit} tokens. However, you requested 0"
        " output tokens and your prompt contains at least {requested} input tokens, for a total of at"
        " least {requested} tokens.",
        source="earendil-works/pi#5930",
    ),
    "llama.cpp": Refused(
        status=400,
        code="exceed_context_size_error",
        message="request ({requested} tokens) exceeds the available context size ({limit} tokens),"
        " try increasing it",
        source="ggml-org/llama.cpp tools/server",
    ),
    "ollama": Refused(
        status=500,
        code=None,
        message="the input length exceeds the context length",
        source="ollama/ollama llm/server",
    ),
}
"""By the name that `--error-like` takes."""


def refusal(like: str, requested_tokens: int, limit_tokens: int) -> Failure:
    """A refusal in that provider's words; raises `UsageError` for a provider we have no words of."""
    found = WORDINGS.get(like)
    if found is None:
        raise UsageError(f"no refusal is known of {like!r}", f"choose one of {', '.join(WORDINGS)}")
    message = found.message.format(requested=requested_tokens, limit=limit_tokens)
    return Failure(message=message, code=found.code, status=found.status)


def body(like: str, failure: Failure) -> dict[str, Any]:
    """The JSON around a refusal as that family of APIs sends it."""
    if like == "anthropic":
        return {
            "type": "error",
            "error": {"type": failure.code, "message": failure.message},
        }
    return {
        "error": {
            "message": failure.message,
            "type": "invalid_request_error",
            "param": "messages",
            "code": failure.code,
        }
    }
