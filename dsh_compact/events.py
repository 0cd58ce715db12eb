"""What a session log says, as values: blocks, messages and the events that matter here.

Everything is immutable; the classes are `msgspec.Struct`s, which are frozen and slotted like a data
class but cost a thirtieth to define (a command must start fast) and a fifth to make. Those that a
log makes by the hundred thousand take their fields by position, and no part in the search for
garbage (`gc=False`): a third of a named tuple's price. Names are the field's own in snake case; the
names on disk live in `codec`. A surface event comes in two sizes: a
`SurfaceChange` says what it does to the surface and where its record lies, a `SurfaceEvent` is the
whole of it, decoded only when somebody needs its message. This module knows no file, no JSON and no
price.
"""

from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
"""Which surface event made a node: `tool` stands for `tool/result` in every format."""

FORMATS: Final = (0, 3, 4)
"""The released log formats; 1 and 2 never were."""


class Place(Struct, frozen=True, gc=False, array_like=True):
    """Where a record lies, all in bytes: in a plain log `frame_bytes` is -1 and `start_bytes` an
    offset of the file; in a framed log the offset of its frame, and of the record inside the
    unpacked frame.
    """

    frame_bytes: int
    start_bytes: int
    size_bytes: int

    @property
    def byte(self) -> int:
        """Where in the file the record's line or frame begins."""
        return self.start_bytes if self.frame_bytes < 0 else self.frame_bytes


NOWHERE: Final = Place(-1, -1, 0)
"""The place of a record that is not on disk yet."""


# Content blocks ---------------------------------------------------------------------------------


class Text(Struct, frozen=True, kw_only=True):
    """Plain text."""

    text: str


class Reasoning(Struct, frozen=True, kw_only=True):
    """The model's own thinking, as text."""

    text: str


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call that the model asks for; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolResult(Struct, frozen=True, kw_only=True):
    """A result as formats 0 and 3 wrap it (format 4 puts the content into the message itself)."""

    call_id: str
    content: tuple["Block", ...]
    is_error: bool


class Opaque(Struct, frozen=True, kw_only=True):
    """A block of a kind that we do not interpret (an image, a file), carried byte for byte.

    `length` is that of its compact JSON in UTF-16 code units, which is how the harness prices it.
    """

    kind: str
    json: bytes
    length: int


Block: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Opaque


class Message(Struct, frozen=True, kw_only=True):
    """One message as the model sees it; empty `content` yields no message at all."""

    role: str
    content: tuple[Block, ...]
    id: str | None = None
    source_kind: str = ""
    call_id: str | None = None
    compaction_id: str | None = None
    is_error: bool = False

    @property
    def result(self) -> tuple[Block, ...]:
        """A tool result's own content, without the wrapping of formats 0 and 3."""
        match self.content:
            case (ToolResult(content=inner),):
                return inner
            case _:
                return self.content

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that the message asks for, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    @property
    def text(self) -> str:
        """All plain text of the message (of a result: of its content), joined by newlines."""
        return "\n".join(block.text for block in self.result if isinstance(block, Text))


class Usage(Struct, frozen=True, kw_only=True):
    """What the provider counted for one request, in tokens."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Everything that is in the window once the answer has been given."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
            + self.output_tokens
        )


class Failure(Struct, frozen=True, kw_only=True):
    """How a request failed, as the provider or its client told it."""

    message: str
    code: str | None = None
    status: int | None = None
    type: str | None = None
    body: str | None = None


# What an event does to the surface --------------------------------------------------------------


class Append(Struct, frozen=True, tag=True, array_like=True):
    """The event becomes the last node."""


class Replace(Struct, frozen=True, tag=True, array_like=True):
    """The nodes from `start_seq` to `end_seq`, by their places, leave; the event stands in their
    place.
    """

    start_seq: int
    end_seq: int


Op: TypeAlias = Append | Replace
APPEND: Final = Append()


Sources: TypeAlias = tuple[int | tuple[int, int], ...]
"""Seqs, and ranges of them by both ends, which may stand for billions: nothing writes them out."""


class Tagged(Struct, frozen=True, tag=True, tag_field="event", array_like=True):
    """An event by its class's name and its fields, in their order: so it travels (see `ahead`)."""


class SurfaceChange(Tagged, frozen=True, gc=False):
    """What a surface event does; the message stays at its place in the log.

    `sources` and `identity` matter only where `op` replaces: the seqs that the event says it came
    from, and, for a tool result, its record without the content (what a prune may not change).
    """

    seq: int
    kind: Kind
    op: Op
    sources: Sources
    place: Place
    identity: Any = None


class SurfaceEvent(Struct, frozen=True, kw_only=True):
    """A surface event in full; `turn` and `step` are None for a user message."""

    seq: int
    time_ms: int
    kind: Kind
    op: Op
    sources: Sources
    message: Message
    turn: int | None = None
    step: int | None = None
    usage: Usage | None = None


# Events beside the surface ----------------------------------------------------------------------


class SessionHeader(Struct, frozen=True, kw_only=True):
    """The first record of a log."""

    version: int
    id: str
    created_at_ms: int | None
    cwd: str | None
    is_seeded: bool = False
    has_parent: bool = False


class TurnStart(Tagged, frozen=True, kw_only=True):
    """A turn begins; turns count from 1."""

    seq: int
    time_ms: int
    turn: int


class TurnEnd(Tagged, frozen=True, kw_only=True):
    """A turn ended; `reason` is completed, aborted, blocked, error, max-tokens or interrupted."""

    seq: int
    time_ms: int
    turn: int
    reason: str
    failure: Failure | None = None


class StepStart(Tagged, frozen=True, gc=False):
    """One model request and its tool runs begin; `turn` and `step` count from 1."""

    seq: int
    turn: int
    step: int


class StepEnd(Tagged, frozen=True, gc=False):
    """The step is over."""

    seq: int
    turn: int
    step: int


class RequestHeader(Tagged, frozen=True, gc=False):
    """From here on every request carries the header whose record lies at `place`."""

    seq: int
    place: Place


class Header(Struct, frozen=True, kw_only=True):
    """A request header: whom the request goes to and what stands before the conversation.

    `tools_json` is the compact JSON of the tools and `tools_length` its length in UTF-16 code
    units. Two headers are the same when their `identity` is.
    """

    provider: str
    model: str
    max_tokens: int | None
    system: str | None
    tools_json: bytes | None
    tools_length: int
    identity: bytes


class RequestContext(Tagged, frozen=True, kw_only=True):
    """The routed model and, where known, its window in tokens."""

    seq: int
    provider: str
    model: str
    window_tokens: int | None


class RequestFailed(Tagged, frozen=True, kw_only=True):
    """A request was refused or broke off, and how."""

    seq: int
    time_ms: int
    turn: int
    step: int
    failure: Failure


class ToolCallStarted(Tagged, frozen=True, kw_only=True):
    """The harness began to run a call."""

    seq: int
    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class CompactionStart(Tagged, frozen=True, kw_only=True):
    """A compaction bracket opens; `turn` is the open turn, or None between turns.

    We also write which span is tried and by which backend, so that a failed attempt is not repeated
    without news; a harness leaves these out (None) and ignores ours.
    """

    seq: int
    time_ms: int
    compaction_id: str
    turn: int | None
    start_seq: int | None = None
    end_seq: int | None = None
    backend: str | None = None


class CompactionSummary(Tagged, frozen=True, kw_only=True):
    """What the very next event, a summary, takes the place of, and who wrote it."""

    seq: int
    time_ms: int
    compaction_id: str
    start_seq: int
    end_seq: int
    shadowed_seqs: tuple[int, ...]
    shadowed_tokens: int | None
    provider: str
    model: str
    max_tokens: int | None = None
    usage: Usage | None = None


class CompactionPrune(Tagged, frozen=True, kw_only=True):
    """The price of the tool result that the very next event replaces."""

    seq: int
    time_ms: int
    start_seq: int
    end_seq: int
    shadowed_seqs: tuple[int, ...]
    shadowed_tokens: int | None


class CompactionEnd(Tagged, frozen=True, kw_only=True):
    """A compaction bracket closes; `error` says why the attempt failed."""

    seq: int
    time_ms: int
    compaction_id: str
    turn: int | None
    error: str | None


class EndSeed(Tagged, frozen=True, gc=False):
    """Everything before came from a seed or an earlier process."""

    seq: int


class Other(Tagged, frozen=True, gc=False):
    """Any other event or packed row; it stands for `count` seqs from `seq` on.

    `known` is false for a type that we have never heard of, `ignorable` as the record says.
    """

    seq: int
    type: str
    count: int
    known: bool
    ignorable: bool


Event: TypeAlias = (
    SurfaceChange
    | TurnStart
    | TurnEnd
    | StepStart
    | StepEnd
    | RequestHeader
    | RequestContext
    | RequestFailed
    | ToolCallStarted
    | CompactionStart
    | CompactionSummary
    | CompactionPrune
    | CompactionEnd
    | EndSeed
    | Other
)
