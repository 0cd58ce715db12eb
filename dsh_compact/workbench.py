"""What a backend may do to a session: look, choose, prune, replace; and the one transaction.

A replacement is a bracket: `compaction/start` → the summary is written by whoever can → is the span
still what it was? → summary, replacing message and `compaction/end`, which reach the disk together.
The commit point is the replacing message's line: what stands before it changes nothing. An attempt
that fails closes its bracket with the reason; where even that cannot be written, the open bracket
stays as evidence. Nothing here decides whether to compact, and nothing believes a backend.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from threading import Lock
from typing import Final
from uuid import uuid4

from msgspec import Struct

from dsh_compact import planning, policy, tokens
from dsh_compact.codec import encode
from dsh_compact.codec.encode import ABANDONED
from dsh_compact.errors import BackendFailed, DshcError, LogError, RuleBroken
from dsh_compact.events import Block, CompactionStart, Header, Message, Text
from dsh_compact.meter import Pressure
from dsh_compact.planning import NoSpan, PruneBudget, Span
from dsh_compact.session import WritableSession
from dsh_compact.summarizers import Summary
from dsh_compact.surface import Node

PREAMBLE: Final = (
    "An earlier part of this conversation was condensed into the summary below to make room. Take"
    " it as what has already been said and done, and carry on from the messages that follow it;"
    " there is no need to mention the summary."
)
"""What stands before a checkpoint's summary: written for the model that reads on."""

MOST_ERROR_CHARACTERS: Final = 2000
"""A failed attempt's reason is evidence, not a transcript."""

PRUNED_AT_ONCE: Final = 64
"""Results that are pruned in one write: fewer flushes, and still little in memory."""

EMPTY_TEXT: Final = Text(text="")

_AGAIN: Final = "try again while nobody else writes"
_OTHER_SUMMARIZER: Final = "ask for a short one by the instructions, or ask another summarizer"

_FRAME_MARKS: Final = re.compile(r"</?compacted-summary>")
"""A summary that contained its own frame's marks could be mistaken for its end."""

FRAMING_TOKENS: Final = (
    tokens.price_message(Message(role="user", content=encode.checkpoint_blocks(PREAMBLE, ())))
    + tokens.FRAMING_TOKENS
)
"""What a checkpoint costs beside the text of its summary."""


class Bloated(BackendFailed):
    """A summary that is not smaller than what it was to replace."""


class Replaced(Struct, frozen=True, kw_only=True):
    """One replacement that is on disk; `seq` is the replacing event's."""

    seq: int
    generation: int
    shadowed_seqs: tuple[int, ...]
    tokens_before: int
    tokens_after: int


class Advice(StrEnum):
    """What may help where nothing went, or too little."""

    FORCE = "force"  # only the threshold, or an attempt that failed, stands in the way
    SHORTER_TAIL = "shorter-tail"  # what could go belongs to the tail that is kept
    AGAIN = "again"  # something could go that the backend left
    LOOK = "look"  # nothing could


class Workbench:
    """One backend's hands on one session, for one attempt.

    `goal` says whether the attempt has done enough, None where it must simply do what it can;
    `insist` tries even a span whose attempt failed before, `keeps_tail` never gives up the tail.
    `replaced` and `pruned` list what has reached the disk so far.
    """

    def __init__(
        self,
        session: WritableSession,
        *,
        policy: policy.Policy,
        retain_tokens: int,
        goal: Callable[[Pressure], bool] | None,
        window_tokens: int | None = None,
        keep_last: int | None = None,
        instructions: str = "",
        backend: str = "",
        insist: bool = False,
        keeps_tail: bool = False,
        progress: Callable[[int], None] | None = None,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        """Nothing is read or written before it is asked for."""
        self.session = session
        self.policy = policy
        self.retain_tokens = retain_tokens
        self._goal = goal
        self.window_tokens = window_tokens
        self.keep_last = keep_last
        self.instructions = instructions
        self.progress = progress
        self.replaced: list[Replaced] = []
        self.pruned: list[Replaced] = []
        self.notices: list[str] = []
        self._backend = backend
        self._insist = insist
        self._keeps_tail = keeps_tail
        self._new_id = new_id
        self._bracket: _Bracket | None = None
        self._first_seq = session.events
        self._revoked = False
        self._gate = Lock()

    # Look -----------------------------------------------------------------------------------------

    @property
    def replace_generation(self) -> int:
        """How often the conversation was replaced, by the session's own fold."""
        return self.session.replace_generation

    def pressure(self) -> Pressure:
        """How full the window is now."""
        return self.session.pressure()

    @property
    def has_goal(self) -> bool:
        """Whether it can be said when the attempt has done enough."""
        return self._goal is not None

    def is_enough(self) -> bool:
        """Whether the goal is reached; never where there is none."""
        return self._goal is not None and self._goal(self.pressure())

    def choose(self) -> Span | NoSpan:
        """The span that may go now, none without news.

        Where there is a goal and the kept tail leaves nothing to fold, the tail is given up, down
        to the newest indivisible unit: a conversation that stays over its threshold would be looked
        at again at every step. A tail that somebody insists on is kept all the same, and a failed
        attempt is no reason to give it up.
        """
        found = self._choose(self.retain_tokens)
        if not isinstance(found, NoSpan) or found.was_tried:
            return found
        return self._choose(0) if self.has_goal and not self._keeps_tail else found

    def why_idle(self) -> str:
        """Why no attempt would be of use now; empty where one may be."""
        if self.can_prune():
            return ""
        found = self.choose()
        return found.reason if isinstance(found, NoSpan) else ""

    def advice(self) -> Advice:
        """What may help where this attempt cannot do enough, or did not."""
        found = self.choose()
        if not isinstance(found, NoSpan):
            return Advice.AGAIN
        if found.was_tried:
            return Advice.FORCE
        shortest = self._choose(0, keep_last=1)
        return Advice.LOOK if isinstance(shortest, NoSpan) else Advice.SHORTER_TAIL

    def _choose(self, retain_tokens: int, *, keep_last: int | None = None) -> Span | NoSpan:
        return planning.choose(
            self.session.items(),
            retain_tokens=retain_tokens,
            framing_tokens=FRAMING_TOKENS,
            keep_last=self.keep_last if keep_last is None else keep_last,
            stale_seqs=self._tried_in_vain(),
            insist=self._insist,
        )

    def _tried_in_vain(self) -> frozenset[int]:
        """What this backend's failed attempts were about, where nothing has touched it since."""
        tried: set[int] = set()
        for failed in self.session.turns.failed:
            if failed.backend == self._backend:
                tried.update(seq for seq in self._range_of(failed) if seq < failed.seq)
        return frozenset(tried)

    def _range_of(self, attempt: CompactionStart) -> tuple[int, ...]:
        """The nodes between the ends that an attempt named; none where an end has gone."""
        if attempt.start_seq is None or attempt.end_seq is None:
            return ()
        try:
            nodes = self.session.surface.span(attempt.start_seq, attempt.end_seq)
        except RuleBroken:
            return ()
        return tuple(node.seq for node in nodes)

    def messages(self, span: Span) -> tuple[Message, ...]:
        """The span's messages, in order; those without content left out."""
        nodes = self.session.surface.span(span.start_seq, span.end_seq)
        return self._messages(nodes)

    def standing_before(self, span: Span) -> tuple[Message, ...]:
        """The messages in front of the span: the system prompt, where the surface holds it."""
        nodes = list(self.session.surface)
        first = next(i for i, node in enumerate(nodes) if node.seq == span.start_seq)
        return self._messages(nodes[:first])

    def header(self) -> Header | None:
        """What stands before the conversation in a request."""
        return self.session.newest_header

    def summary_budget(self, span: Span) -> int:
        """Most tokens that a summary of the span may have."""
        return planning.summary_budget(span, FRAMING_TOKENS, self.window_tokens)

    def _messages(self, nodes: Sequence[Node]) -> tuple[Message, ...]:
        messages = (self.session.event(node).message for node in nodes)
        return tuple(message for message in messages if message.content)

    # Prune ----------------------------------------------------------------------------------------

    @property
    def may_prune(self) -> bool:
        """Whether a turn is open: the harness refuses a log with a prune outside one."""
        return self.session.turns.turn is not None

    def can_prune(self, budget: PruneBudget | None = None) -> bool:
        """Whether `prune` would shorten anything."""
        return self.may_prune and any(self._pruned(node, budget) for node in self._prunable())

    def prune(self, budget: PruneBudget | None = None) -> list[Replaced]:
        """Replaces every tool result over the budget (the policy's own), outside the kept tail, by
        a shorter copy.

        Returns those that reached the disk, in the surface's order; none while no turn is open.
        """
        if not self.may_prune:
            return []
        cuts = ((node, self._pruned(node, budget)) for node in self._prunable())
        todo = [(node, content) for node, content in cuts if content is not None]
        done: list[Replaced] = []
        for first in range(0, len(todo), PRUNED_AT_ONCE):
            done += self._prune(todo[first : first + PRUNED_AT_ONCE])
        return done

    def _prunable(self) -> list[Node]:
        kept = self._kept_tail()
        return [n for n in self.session.surface if n.kind == "tool" and n.seq not in kept]

    def _kept_tail(self) -> set[int]:
        if self.retain_tokens == 0 and self.keep_last is None:
            return set()
        return planning.tail_seqs(self.session.items(), self.retain_tokens, self.keep_last)

    def _pruned(self, node: Node, budget: PruneBudget | None) -> list[Block] | None:
        """The result's blocks cut to the budget; None where they are within it."""
        if self.session.price(node) <= self._budget(budget).threshold // tokens.UNITS_PER_TOKEN:
            return None  # too cheap to be long: nothing is decoded
        blocks = self.session.event(node).message.result
        texts = [block.text for block in blocks if isinstance(block, Text)]
        cut = planning.pruned_texts(texts, self._budget(budget))
        if cut is None:
            return None
        shorter = iter(cut)
        kept = (Text(text=next(shorter)) if isinstance(b, Text) else b for b in blocks)
        return [block for block in kept if block != EMPTY_TEXT]  # providers refuse empty texts

    def _budget(self, wanted: PruneBudget | None) -> PruneBudget:
        return planning.prune_budget(self.policy) if wanted is None else wanted

    def _prune(self, todo: Sequence[tuple[Node, list[Block]]]) -> list[Replaced]:
        """Some results at once: each pair of records stands by itself, so that a torn write keeps
        those before it.
        """
        before = [self.session.price(node) for node, _ in todo]
        drafts: list[encode.Draft] = []
        for (node, content), price in zip(todo, before, strict=True):
            line = self.session.line(node.place)
            drafts += (
                encode.compaction_prune(node.seq, price),
                encode.pruned_result(line, content),
            )
        seqs = self._append(drafts)[1::2]
        first = self.session.replace_generation - len(seqs)
        return [
            self._landed(self.pruned, seq, first + count, (node.seq,), price)
            for count, (seq, (node, _), price) in enumerate(zip(seqs, todo, before, strict=True), 1)
        ]

    # Replace --------------------------------------------------------------------------------------

    def replace(self, span: Span, write: Callable[[], Summary]) -> Replaced:
        """Replaces the span by the summary that `write` gives: the transaction.

        Raises whatever `write` raises, `BackendFailed` where the summary is none, is empty or not
        smaller than what it replaces, and the errors of the journal; the bracket is then closed
        with that reason.
        """
        price = self._admitted_price(span)
        self._clear_stale_bracket()
        bracket = self._open(span)
        try:
            summary = self._summary_of(write())
            self.notices += summary.notices
            self._check_stable(span, bracket)
            content = self._checked_content(summary, price)
            return self._commit(bracket, span, price, summary, content)
        except BaseException as fault:
            self._close(bracket, fault)
            raise
        finally:
            self._bracket = None

    def _admitted_price(self, span: Span) -> int:
        """What the span costs, by our own count; raises where it may not be replaced."""
        if self._bracket is not None:
            raise BackendFailed(
                self._backend, "a compaction is under way in this very session", "let it end first"
            )
        items = self.session.items()
        objection = planning.objection(items, span.seqs)
        if objection:
            raise BackendFailed(
                self._backend,
                f"{objection}: nothing was replaced",
                "take the one that choose() gives",
            )
        leaving = set(span.seqs)
        return sum(one.tokens for one in items if one.seq in leaving)

    def _open(self, span: Span) -> "_Bracket":
        compaction_id, turn = self._new_id(), self.session.turns.turn
        tried = (span.start_seq, span.end_seq)
        start = encode.compaction_start(compaction_id, turn, tried=tried, backend=self._backend)
        seq = self._append([start])[0]
        self._bracket = _Bracket(seq, compaction_id, turn)
        return self._bracket

    def _commit(
        self,
        bracket: "_Bracket",
        span: Span,
        price: int,
        summary: Summary,
        content: tuple[Block, ...],
    ) -> Replaced:
        summary_seq = self.session.events
        seqs = self._append(
            [
                encode.compaction_summary(
                    bracket.compaction_id,
                    content[1:-1],
                    span.seqs,
                    price,
                    provider=summary.provider,
                    model=summary.model,
                    usage=summary.usage,
                ),
                encode.checkpoint(
                    bracket.compaction_id,
                    content,
                    self._new_id(),
                    span.seqs,
                    (bracket.seq, summary_seq),
                    version=self.session.format,
                ),
                encode.compaction_end(bracket.compaction_id, bracket.turn),
            ]
        )
        generation = self.session.replace_generation
        return self._landed(self.replaced, seqs[1], generation, span.seqs, price)

    def _append(self, drafts: Sequence[encode.Draft]) -> tuple[int, ...]:
        with self._gate:
            if self._revoked:
                raise BackendFailed(
                    self._backend,
                    "its time is over: nothing more is written for it",
                    "return at once",
                )
            return self.session.append(drafts)

    def revoke(self, reason: str = "its time was over") -> None:
        """From now on nothing is written through this bench: a late backend must not surprise.

        A bracket that the attempt left open is closed with `reason`: no turn may end inside one.
        """
        with self._gate:
            if self._revoked:
                return
            self._revoked = True
            bracket = self.session.turns.bracket
            if bracket is not None and bracket.seq >= self._first_seq:
                self._write_end(_Bracket(bracket.seq, bracket.compaction_id, bracket.turn), reason)

    def _landed(
        self,
        where: list[Replaced],
        seq: int,
        generation: int,
        shadowed: tuple[int, ...],
        before: int,
    ) -> Replaced:
        node = self.session.surface.find(seq)
        assert node is not None, "what was appended is on the surface"
        done = Replaced(
            seq=seq,
            generation=generation,
            shadowed_seqs=shadowed,
            tokens_before=before,
            tokens_after=self.session.price(node),
        )
        where.append(done)
        return done

    def _check_stable(self, span: Span, bracket: "_Bracket") -> None:
        """The log may have grown while the summary was written: others append too."""
        try:
            now = self.session.surface.span(span.start_seq, span.end_seq)
        except RuleBroken:
            now = ()
        if tuple(node.seq for node in now) != span.seqs:
            raise BackendFailed(
                self._backend,
                "the span changed while its summary was written: nothing was replaced",
                _AGAIN,
            )
        if not self._is_open(bracket):
            raise BackendFailed(
                self._backend,
                "the compaction's bracket or turn was closed while its summary was written: nothing"
                " was replaced",
                _AGAIN,
            )

    def _is_open(self, bracket: "_Bracket") -> bool:
        """Whether the log still awaits the bracket's end, in the turn in which it began."""
        turns = self.session.turns
        return (
            turns.bracket is not None
            and turns.bracket.seq == bracket.seq
            and not turns.bracket_is_stale
            and turns.turn == bracket.turn
        )

    def _summary_of(self, written: object) -> Summary:
        """What was written, if it is a summary; foreign code may give anything."""
        if isinstance(written, Summary):
            return written
        found = type(written).__name__
        raise BackendFailed(
            self._backend, f"what it wrote is no Summary: it is of type {found}", "give a Summary"
        )

    def _checked_content(self, summary: Summary, price: int) -> tuple[Block, ...]:
        """The checkpoint's content; raises where it is empty or not smaller than `price` tokens."""
        text = _FRAME_MARKS.sub("", summary.text).strip()
        if not text:
            raise BackendFailed(self._backend, "the summary is empty", _OTHER_SUMMARIZER)
        content = encode.checkpoint_blocks(PREAMBLE, (Text(text=text),))
        framed = tokens.price_message(Message(role="user", content=content))
        if framed >= price:
            raise Bloated(
                self._backend,
                f"the summary is not smaller than what it replaces ({framed} tokens with its frame"
                f" against {price})",
                _OTHER_SUMMARIZER,
            )
        return content

    def _close(self, bracket: "_Bracket", fault: BaseException) -> None:
        with self._gate:
            if not self._revoked:
                self._write_end(bracket, str(fault) or type(fault).__name__)

    def _write_end(self, bracket: "_Bracket", reason: str) -> None:
        """Ends a failed attempt; a bracket that may not be ended any more stays, as evidence."""
        if not self._is_open(bracket):
            return
        error = reason[:MOST_ERROR_CHARACTERS]
        try:
            self.session.append([encode.compaction_end(bracket.compaction_id, bracket.turn, error)])
        except DshcError as second:
            notice = f"the failed attempt's bracket stays open: {second}"
            if notice not in self.notices:  # it is tried again when all is over
                self.notices.append(notice)

    def _clear_stale_bracket(self) -> None:
        """We hold the lock, so a bracket that is open was left by a process that is gone.

        Behind a `session/end-seed` it is over without an end, and the harness refuses one.
        """
        turns = self.session.turns
        if turns.bracket is None or turns.bracket_is_stale:
            return
        left = turns.bracket
        if left.turn != turns.turn:
            raise LogError(
                self.session.path,
                f"the compaction that began at seq {left.seq} was never closed, and its turn is"
                " over: nothing may follow it",
                seq=left.seq,
                remedy=f'run "dshc repair {self.session.path}"',
            )
        self.notices.append(
            f"the compaction that began at seq {left.seq} was left open by a process that is gone:"
            " it is closed as failed"
        )
        self._append([encode.compaction_end(left.compaction_id, left.turn, ABANDONED)])


class _Bracket(Struct, frozen=True):
    """An attempt of ours that has begun: where, under which id, in which turn."""

    seq: int
    compaction_id: str
    turn: int | None
