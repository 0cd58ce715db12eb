"""One answer as it comes: its text piece by piece, what was counted, why the model stopped.

Rule: an answer counts only where the model stopped because it was done, by the last word on that.
What an object of the answer says is for the provider's module to tell; whatever stands where
something else must says nothing, or is refused there.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeAlias

from msgspec import Struct

from dsh_compact.summarizers.models.http import Endpoint, Read, told_inside

Body: TypeAlias = dict[str, Any]

CALLED_TOOL: Final = "the model called a tool instead of summarising"
NOT_TEXT: Final = "the model answered with something that is no text"
_TOOL_REASONS: Final = frozenset({"tool_calls", "function_call", "tool_use"})


class Piece(Struct, frozen=True, kw_only=True):
    """What one object says: some text, what was counted by then, why the model stopped; `is_over`
    where nothing follows, whether or not anybody said why.
    """

    text: str = ""
    counted: Mapping[str, Any] = {}
    stopped: str = ""
    is_over: bool = False


class Ends(Struct, frozen=True, kw_only=True):
    """A provider's words for a model that was done, and for one that was cut off."""

    done: AbstractSet[str]
    cut: AbstractSet[str]


def reader(
    endpoint: Endpoint,
    heard: Callable[[str], None],
    piece_of: Callable[[Endpoint, Body], Piece],
    ends: Ends,
) -> Callable[[Iterator[Body]], Read]:
    """What reads an answer, as a stream of objects or as one; `heard` is told the text as it comes.

    It raises what `told_inside` makes of an error among the objects, and `SummarizerFailed`.
    """

    def read(objects: Iterator[Body]) -> Read:
        texts: list[str] = []
        counted: Body = {}
        stopped, is_over = "", False
        for one in objects:
            if one.get("error") or one.get("type") == "error":
                raise told_inside(one)
            piece = piece_of(endpoint, one)
            counted |= piece.counted
            stopped = piece.stopped or stopped
            is_over = is_over or piece.is_over
            if piece.text:
                texts.append(piece.text)
                heard(piece.text)
        if stopped or not is_over:
            _check_end(endpoint, stopped, ends)
        return Read(text="".join(texts), counted=counted)

    return read


def _check_end(endpoint: Endpoint, stopped: str, ends: Ends) -> None:
    if stopped in ends.cut:
        raise endpoint.failed("the summary was cut at its token limit")
    if not stopped:
        raise endpoint.failed("the summary was cut: its stream ended without an end")
    if stopped in _TOOL_REASONS:
        raise endpoint.failed(CALLED_TOOL)
    if stopped not in ends.done:
        raise endpoint.failed(f"the model stopped for {endpoint.redacted(stopped)!r}")


# Shapes -------------------------------------------------------------------------------------------


def as_object(value: Any) -> Body:
    """The object, or an empty one where it is none."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The list, or an empty one where it is none."""
    return value if isinstance(value, list) else []


def as_word(value: Any) -> str:
    """The word, or an empty one where it is none."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """The number of tokens, or 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
