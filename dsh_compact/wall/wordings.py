"""How real providers word a refusal for length: status, code and message, by provider.

The sentences are theirs, reproduced so that a rehearsal meets what life has in store; the sources
are named with each. `{requested}` and `{limit}` are counts in tokens.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct, structs

from dsh_compact.errors import UsageError
from dsh_compact.events import Failure
from dsh_compact.overflow import Code, Refusal, normalise

_COUNT: Final = r"[0-9]{1,3}(?:[,_][0-9]{3})+|[0-9]+"

DEFAULT: Final = "openai"
"""Whose words are used where a log doesn't say who refuses: most others borrow them."""


class Refused(Struct, frozen=True, kw_only=True):
    """One provider's refusal: what HTTP and its JSON carry, and where that was seen."""

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
        " output tokens and your prompt contains at least {requested} input tokens, for a total of"
        " at least {requested} tokens.",
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
        status=400,
        code=None,
        message="the input length exceeds the context length",
        source="ollama/ollama server/routes.go",
    ),
}
"""By the name that `--error-like` takes."""


Refuse: TypeAlias = Callable[[int, int], Failure]
"""Words a refusal from (requested, limit), both in tokens."""


def in_words_of(like: str) -> Refuse:
    """How that provider refuses; raises `UsageError` for a provider that we have no words of."""
    found = WORDINGS.get(like)
    if found is None:
        raise UsageError(f"no refusal is known of {like!r}", f"choose one of {', '.join(WORDINGS)}")

    def refuse(requested_tokens: int, limit_tokens: int) -> Failure:
        message = found.message.format(requested=requested_tokens, limit=limit_tokens)
        return Failure(message=message, code=found.code, status=found.status)

    return refuse


def like_provider(provider: str | None) -> str:
    """The name of the wording that fits a log's provider best."""
    for like in WORDINGS:
        if provider is not None and like in provider.lower():
            return like
    return DEFAULT


def as_told(failure: Failure) -> Refuse:
    """A refusal in the words of `failure`, a real one.

    Its numbers become the rehearsal's where they can be told from its text; otherwise, and where it
    is no overflow at all, it is sent as it stands.
    """
    told = normalise(failure)

    def refuse(requested_tokens: int, limit_tokens: int) -> Failure:
        if told.code is not Code.CONTEXT_WINDOW_EXCEEDED:
            return failure
        swaps = {
            told.output_tokens: 0,
            told.requested_tokens: requested_tokens,
            told.input_tokens: requested_tokens,
            told.limit_tokens: limit_tokens,
        }
        swapped = structs.replace(
            failure,
            message=_swapped(failure.message, swaps),
            body=None if failure.body is None else _swapped(failure.body, swaps),
        )
        return swapped if _says(swapped, told, requested_tokens, limit_tokens) else failure

    return refuse


def _swapped(text: str, swaps: Mapping[int | None, int]) -> str:
    def swap(found: re.Match[str]) -> str:
        count = int(re.sub("[,_]", "", found[0]))
        return str(swaps[count]) if count in swaps else found[0]

    return re.sub(_COUNT, swap, text)


def _says(failure: Failure, told: Refusal, requested_tokens: int, limit_tokens: int) -> bool:
    """Whether the refusal names our numbers wherever the told one named its own."""
    said = normalise(failure)
    wanted = structs.replace(
        told,
        limit_tokens=told.limit_tokens and limit_tokens,
        requested_tokens=told.requested_tokens and requested_tokens,
        input_tokens=told.input_tokens and requested_tokens,
    )
    names = ("code", "limit_tokens", "requested_tokens", "input_tokens")
    return all(getattr(said, name) == getattr(wanted, name) for name in names)
