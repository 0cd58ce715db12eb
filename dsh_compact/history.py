"""The story of a log: what was replaced, which attempts failed, what was refused and answered.

A `Recorder` watches the fold and notes only what an event says; prices and times are fetched when
the rows are asked for, so that a record nobody asks about is never decoded. Its memory grows with
the story, not with the log: a row holds the places of the nodes that left, never their text. What
a replacement does to the surface is the surface's business; this module only reads its result.

What the messages that left had cost stands in the log, in the record right before the replacement:
that is believed where it is possible, and priced again where it is missing, where it cannot be, and
everywhere in a strict session. (`verify` holds it to the price.)
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct, field, structs

from dsh_compact import tokens
from dsh_compact.events import (
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    EndSeed,
    Event,
    Message,
    Replace,
    RequestFailed,
    SurfaceChange,
    SurfaceEvent,
    TurnEnd,
    Usage,
)
from dsh_compact.session import Session, read_session
from dsh_compact.surface import Node, Surface

if TYPE_CHECKING:
    from dsh_compact import overflow

ReplacementKind: TypeAlias = Literal["summary", "prune", "other"]

LEAST_BYTES_PER_TOKEN: Final = 4
"""No message costs more than its record has room for: a token is four UTF-16 units, each of them at
least a byte, and what is added for a block or a message is less than its JSON around the text.
"""


# The rows, in the order of the log ----------------------------------------------------------------


class Replaced(Struct, frozen=True, kw_only=True, tag="replacement", tag_field="row"):
    """One move of the generation: the event at `seq` took the place of `shadowed_seqs`.

    Tokens are estimates of the messages that left (the log's own, see above) and of the one that
    came. `time` is in ms since 1970. `compaction_id`, `provider` and `model` tell whose summary it
    is, None where it is none.
    """

    generation: int
    seq: int
    kind: ReplacementKind
    shadowed_seqs: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    time_ms: int = field(name="time")
    compaction_id: str | None = None
    provider: str | None = None
    model: str | None = None


class Attempt(Struct, frozen=True, kw_only=True, tag="attempt", tag_field="row"):
    """A compaction that ended with an error: it did not write the summary that it was to write.

    `backend` is who tried, where the log says so.
    """

    start_seq: int
    end_seq: int
    error: str
    time_ms: int = field(name="time")
    backend: str | None = None


class Refused(Struct, frozen=True, kw_only=True, tag="refusal", tag_field="row"):
    """A request that was too long for the window; the counts as far as the provider tells them."""

    seq: int
    time_ms: int = field(name="time")
    limit_tokens: int | None
    requested_tokens: int | None
    message: str


class Answered(Struct, frozen=True, kw_only=True, tag="answer", tag_field="row"):
    """The first answer after a refusal; `counted_tokens` is all that its provider counted."""

    seq: int
    time_ms: int = field(name="time")
    counted_tokens: int | None


class GaveUp(Struct, frozen=True, kw_only=True, tag="gave-up", tag_field="row"):
    """A turn that ended after a refusal, without an answer; `reason` as the log has it."""

    seq: int
    time_ms: int = field(name="time")
    turn: int
    reason: str


Row: TypeAlias = Replaced | Attempt | Refused | Answered | GaveUp


class Unfinished(Struct, frozen=True, kw_only=True):
    """A compaction that began and has not ended; `is_stale` once its process must be gone."""

    start_seq: int
    time_ms: int = field(name="time")
    is_stale: bool


class Totals(Struct, frozen=True, kw_only=True):
    """The story in numbers; tokens are estimates over all replacements."""

    summaries: int = 0
    prunes: int = 0
    others: int = 0
    failed_attempts: int = 0
    refusals: int = 0
    recovered: int = 0
    nodes_shadowed: int = 0
    tokens_before: int = 0
    tokens_after: int = 0

    @property
    def tokens_saved(self) -> int:
        """How much the conversation shrank, all in all."""
        return self.tokens_before - self.tokens_after


class History(Struct, frozen=True, kw_only=True):
    """A log's whole story; `rows` in the log's order."""

    log: str
    format: int
    session_id: str
    generation: int
    rows: tuple[Row, ...]
    unfinished: Unfinished | None
    notices: tuple[str, ...] = ()

    @property
    def replacements(self) -> tuple[Replaced, ...]:
        """Every move of the generation."""
        return tuple(row for row in self.rows if isinstance(row, Replaced))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The compactions that failed."""
        return tuple(row for row in self.rows if isinstance(row, Attempt))

    @property
    def refusals(self) -> tuple[Refused, ...]:
        """The requests that were too long."""
        return tuple(row for row in self.rows if isinstance(row, Refused))

    @property
    def answers(self) -> tuple[Answered, ...]:
        """The first answer after each refusal that had one."""
        return tuple(row for row in self.rows if isinstance(row, Answered))

    @property
    def turns_lost(self) -> tuple[GaveUp, ...]:
        """The turns that ended after a refusal."""
        return tuple(row for row in self.rows if isinstance(row, GaveUp))

    @property
    def totals(self) -> Totals:
        """The story in numbers."""
        return total(self.rows)


# What is noted while the log is folded ------------------------------------------------------------


class _Summarised(Struct, frozen=True):
    """The newest summary, and who wrote it."""

    compaction_id: str
    provider: str
    model: str


class _Shadow(Struct, frozen=True):
    """What the log says that the very next event takes the place of, and what that had cost."""

    seq: int
    shadowed_seqs: tuple[int, ...]
    tokens: int | None


class _Move(Struct, frozen=True, kw_only=True):
    """A replacement; what left is kept only where it is still to be priced."""

    generation: int
    change: SurfaceChange
    shadowed_seqs: tuple[int, ...]
    summary: _Summarised | None
    recorded_tokens: int | None = None
    unpriced: tuple[Node, ...] = ()


class _Answer(Struct, frozen=True):
    change: SurfaceChange


_Note: TypeAlias = _Move | _Answer | Attempt | Refused | GaveUp


class Recorder:
    """Watches a fold (`read_session(…, wanted=WANTED, watch=recorder)`) and gives the rows.

    `unfinished` is the compaction that is open at this point of the log. A `strict` one prices
    again what the log says of what left.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self.unfinished: Unfinished | None = None
        self._notes: list[_Note] = []
        self._bracket: CompactionStart | None = None
        self._summary: _Summarised | None = None
        self._shadow: _Shadow | None = None
        self._refused = False

    def __call__(self, event: Event, before: Surface, after: Surface) -> None:
        """Notes what `event` adds to the story."""
        if isinstance(event, SurfaceChange):
            if isinstance(event.op, Replace):
                self._replaced(event, after)
            elif self._refused and event.kind == "assistant":
                self._refused = False
                self._notes.append(_Answer(event))
        elif (take := _TAKERS.get(event.__class__)) is not None:
            take(self, event)

    def take(self, session: Session) -> tuple[Row, ...]:
        """The rows since the last call, priced from `session`, which this recorder has watched.

        Raises `DamagedLog` where a record that the story needs cannot be read.
        """
        notes, self._notes = self._notes, []
        return tuple(_row(note, session) for note in notes)

    def _replaced(self, change: SurfaceChange, after: Surface) -> None:
        last = after.last
        assert last is not None, "it has just been replaced"
        seqs = tuple(node.seq for node in last.shadowed)
        recorded = None if self._strict else self._recorded_tokens(change, seqs, last.shadowed)
        move = _Move(
            generation=last.generation,
            change=change,
            shadowed_seqs=seqs,
            summary=self._summary,
            recorded_tokens=recorded,
            unpriced=last.shadowed if recorded is None else (),
        )
        self._notes.append(move)

    def _recorded_tokens(
        self, change: SurfaceChange, seqs: tuple[int, ...], shadowed: tuple[Node, ...]
    ) -> int | None:
        """What the log says that they had cost; None where it doesn't, or where it cannot be."""
        shadow = self._shadow
        if shadow is None or shadow.seq + 1 != change.seq or shadow.shadowed_seqs != seqs:
            return None
        room_bytes = sum(node.place.size_bytes for node in shadowed)
        count = shadow.tokens
        is_possible = count is not None and 0 <= count <= room_bytes // LEAST_BYTES_PER_TOKEN
        return count if is_possible else None

    def _started(self, event: CompactionStart) -> None:
        self._bracket = event
        self.unfinished = Unfinished(start_seq=event.seq, time_ms=event.time_ms, is_stale=False)

    def _summarised(self, event: CompactionSummary) -> None:
        self._summary = _Summarised(event.compaction_id, event.provider, event.model)
        self._shadows(event)

    def _shadows(self, event: CompactionSummary | CompactionPrune) -> None:
        self._shadow = _Shadow(event.seq, event.shadowed_seqs, event.shadowed_tokens)

    def _seeded(self, _: EndSeed) -> None:
        if self.unfinished is not None:
            self.unfinished = structs.replace(self.unfinished, is_stale=True)

    def _ended(self, event: CompactionEnd) -> None:
        bracket, self._bracket, self.unfinished = self._bracket, None, None
        if bracket is None or bracket.compaction_id != event.compaction_id or event.error is None:
            return
        attempt = Attempt(
            start_seq=bracket.seq,
            end_seq=event.seq,
            error=event.error,
            time_ms=event.time_ms,
            backend=bracket.backend,
        )
        self._notes.append(attempt)

    def _failed(self, event: RequestFailed) -> None:
        from dsh_compact import overflow  # most logs hold no failure, and never ask for its table

        verdict = overflow.normalise(event.failure)
        if verdict.code is overflow.Code.CONTEXT_WINDOW_EXCEEDED:
            self._refused = True
            self._notes.append(_refusal(event, verdict))

    def _turn_ended(self, event: TurnEnd) -> None:
        if self._refused:
            self._refused = False
            lost = GaveUp(
                seq=event.seq, time_ms=event.time_ms, turn=event.turn, reason=event.reason
            )
            self._notes.append(lost)


_TAKERS: Final[dict[type[Any], Callable[[Recorder, Any], None]]] = {
    CompactionStart: Recorder._started,
    CompactionSummary: Recorder._summarised,
    CompactionPrune: Recorder._shadows,
    CompactionEnd: Recorder._ended,
    EndSeed: Recorder._seeded,
    RequestFailed: Recorder._failed,
    TurnEnd: Recorder._turn_ended,
}

WANTED: Final = frozenset(_TAKERS)
"""The events beside the surface's that tell the story."""


def _refusal(event: RequestFailed, verdict: "overflow.Refusal") -> Refused:
    return Refused(
        seq=event.seq,
        time_ms=event.time_ms,
        limit_tokens=verdict.limit_tokens,
        requested_tokens=verdict.requested_tokens,
        message=event.failure.message,
    )


# From notes to rows -------------------------------------------------------------------------------


def _row(note: _Note, session: Session) -> Row:
    match note:
        case _Move():
            return _replaced(note, session)
        case _Answer(change=change):
            event = session.event(change)
            return Answered(
                seq=change.seq, time_ms=event.time_ms, counted_tokens=_counted(event.usage)
            )
        case _:
            return note


def _replaced(move: _Move, session: Session) -> Replaced:
    event = session.event(move.change)
    kind = kind_of(event)
    compaction_id = event.message.compaction_id if kind == "summary" else None
    summary = move.summary
    if summary is not None and summary.compaction_id != compaction_id:
        summary = None
    before = move.recorded_tokens
    if before is None:
        before = sum(tokens.price_message(session.message(node)) for node in move.unpriced)
    return Replaced(
        generation=move.generation,
        seq=event.seq,
        kind=kind,
        shadowed_seqs=move.shadowed_seqs,
        tokens_before=before,
        tokens_after=tokens.price_message(event.message),
        time_ms=event.time_ms,
        compaction_id=compaction_id,
        provider=None if summary is None else summary.provider,
        model=None if summary is None else summary.model,
    )


def kind_of(event: SurfaceEvent) -> ReplacementKind:
    """What kind of replacement `event` is: a tool result is a prune, a checkpoint a summary."""
    if event.kind == "tool":
        return "prune"
    return "summary" if event.kind == "user" and _is_checkpoint(event.message) else "other"


def _is_checkpoint(message: Message) -> bool:
    """In formats 0 and 3 the plugin's own messages carry the id; in 4 the source's kind says it."""
    if message.source_kind == "plugin":
        return message.compaction_id is not None
    return message.source_kind == "compact-checkpoint"


def _counted(usage: Usage | None) -> int | None:
    return None if usage is None else usage.total_tokens


# In one go ----------------------------------------------------------------------------------------


def read_history(path: str | os.PathLike[str], *, strict: bool = False) -> History:
    """The story of the log at `path`, which may be anything that `read_session` takes.

    Reads only. Raises `LogError` and its kin.
    """
    recorder = Recorder(strict=strict)
    with read_session(path, wanted=WANTED, strict=strict, watch=recorder) as session:
        return tell(session, recorder)


def tell(session: Session, recorder: Recorder) -> History:
    """The history of `session`: the rows that `recorder` has not given yet, and what is open."""
    return History(
        log=session.path,
        format=session.format,
        session_id=session.header.id,
        generation=session.replace_generation,
        rows=recorder.take(session),
        unfinished=recorder.unfinished,
        notices=tuple(session.notices),
    )


def total(rows: tuple[Row, ...]) -> Totals:
    """What `rows` amount to."""
    moves = [row for row in rows if isinstance(row, Replaced)]
    kinds = [move.kind for move in moves]

    def count(kind: Any) -> int:
        return sum(isinstance(row, kind) for row in rows)

    return Totals(
        summaries=kinds.count("summary"),
        prunes=kinds.count("prune"),
        others=kinds.count("other"),
        failed_attempts=count(Attempt),
        refusals=count(Refused),
        recovered=count(Answered),
        nodes_shadowed=sum(len(move.shadowed_seqs) for move in moves),
        tokens_before=sum(move.tokens_before for move in moves),
        tokens_after=sum(move.tokens_after for move in moves),
    )
