"""What a backend may do to a session: look, choose, prune, replace; and the one transaction.

A replacement is a bracket: `compaction/start` → the summary is written by whoever can → is the span
still what it was? → summary, replacing message and `compaction/end`, which reach the disk together.
The commit point is the replacing message's line: what stands before it changes nothing. An attempt
that fails closes its bracket with the reason; where even that cannot be written, the open bracket
stays as evidence. Nothing here decides whether to compact, and nothing believes a backend.
"""

import re
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final
from uuid import uuid4

from msgspec import Struct

from dsh_compact import planning, policy, tokens
from dsh_compact.codec import encode
from dsh_compact.errors import BackendFailed, DshcError, LogError
from dsh_compact.events import Block, CompactionStart, Header, Message, Text
from dsh_compact.meter import Pressure
from dsh_compact.planning import NoSpan, PruneBudget, Span
from dsh_compact.session import WritableSession
from dsh_compact.summarizers import Summary
from dsh_compact.surface import Node

PREAMBLE: Final = (
    "An earlier part of this conversation was condensed into the summary below to make room. Take it"
    " as what has already been said and done, and carry on from the messages that follow it; there is"
    " no need to mention the summary."
)
"""What stands before a checkpoint's summary: written for the model that reads on."""

MOST_ERROR_CHARACTERS: Final = 2000
"""A failed attempt's reason is evidence, not a transcript."""

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


class Workbench:
    """One backend's hands on one session, for one attempt.

    `goal` says whether the attempt has done enough, None where it must simply do what it can;
    `insist` tries even a span whose attempt failed before. `replaced` and `pruned` list what has
    reached the disk so far.
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
        self._new_id = new_id
        self._in_bracket = False
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

    def choose(self, retain_tokens: int | None = None) -> Span | NoSpan:
        """The span that may go now: none without news. `retain_tokens` in place of the bench's
        tail.
        """
        span = planning.choose(
            self.session.items(),
            retain_tokens=self.retain_tokens if retain_tokens is None else retain_tokens,
            framing_tokens=FRAMING_TOKENS,
            keep_last=self.keep_last,
        )
        if isinstance(span, Span) and not self._insist:
            failed = self._failed_before(span)
            if failed is not None:
                return NoSpan(
                    reason=f"the attempt on this very span that began at seq {failed.seq} failed,"
                    " and nothing inside it has changed since"
                )
        return span

    def _failed_before(self, span: Span) -> CompactionStart | None:
        """Our own failed attempt on the span, if nothing inside it is younger than that attempt."""
        newest = max(span.seqs)
        for start in self.session.turns.failed:
            tried = (start.start_seq, start.end_seq, start.backend)
            if tried == (span.start_seq, span.end_seq, self._backend) and newest < start.seq:
                return start
        return None

    def messages(self, span: Span) -> tuple[Message, ...]:
        """The span's messages, in order; those without content left out."""
        nodes = self.session.surface.span(span.start_seq, span.end_seq)
        return self._messages(nodes)

    def standing_before(self, span: Span) -> tuple[Message, ...]:
        """The messages in front of the span: the system prompt, where the log has one as a message."""
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

    def can_prune(self, budget: PruneBudget = planning.PRUNE_BUDGET) -> bool:
        """Whether `prune` would shorten anything."""
        return self.may_prune and any(self._pruned(node, budget) for node in self._prunable())

    def prune(self, budget: PruneBudget = planning.PRUNE_BUDGET) -> list[Replaced]:
        """Replaces every tool result over the budget, outside the kept tail, by a shorter copy.

        Returns those that reached the disk; none while no turn is open.
        """
        if not self.may_prune:
            return []
        done = [self._prune(node, budget) for node in self._prunable()]
        return [one for one in done if one is not None]

    def _prunable(self) -> list[Node]:
        kept = self._kept_tail()
        return [n for n in self.session.surface if n.kind == "tool" and n.seq not in kept]

    def _kept_tail(self) -> set[int]:
        if self.retain_tokens == 0 and self.keep_last is None:
            return set()
        return planning.tail_seqs(self.session.items(), self.retain_tokens, self.keep_last)

    def _pruned(self, node: Node, budget: PruneBudget) -> list[Block] | None:
        """The result's blocks cut to the budget; None where they are within it."""
        blocks = self.session.event(node).message.result
        texts = planning.pruned_texts([b.text for b in blocks if isinstance(b, Text)], budget)
        if texts is None:
            return None
        shorter = iter(texts)
        return [Text(text=next(shorter)) if isinstance(b, Text) else b for b in blocks]

    def _prune(self, node: Node, budget: PruneBudget) -> Replaced | None:
        content = self._pruned(node, budget)
        if content is None:
            return None
        before = self.session.price(node)
        seqs = self._append(
            [
                encode.compaction_prune(node.seq, before),
                encode.pruned_result(self.session.line(node.place), content),
            ]
        )
        return self._landed(self.pruned, seqs[1], (node.seq,), before)

    # Replace --------------------------------------------------------------------------------------

    def replace(self, span: Span, write: Callable[[], Summary]) -> Replaced:
        """Replaces the span by the summary that `write` gives: the transaction.

        Raises whatever `write` raises, `BackendFailed` where the summary is empty or not smaller
        than what it replaces, and the errors of the journal; the bracket is then closed with that
        reason.
        """
        if self._in_bracket:
            raise BackendFailed(self._backend, "a compaction is under way in this very session")
        objection = planning.objection(self.session.items(), span.seqs)
        if objection:
            raise BackendFailed(self._backend, f"{objection}: nothing was replaced")
        self._clear_stale_bracket()
        compaction_id, turn = self._new_id(), self.session.turns.turn
        tried = (span.start_seq, span.end_seq)
        start_seq = self._append(
            [encode.compaction_start(compaction_id, turn, tried=tried, backend=self._backend)]
        )[0]
        self._in_bracket = True
        try:
            summary = write()
            self._check_stable(span)
            content = self._checked_content(summary, span)
            return self._commit(compaction_id, turn, start_seq, span, summary, content)
        except BaseException as fault:
            self._close(compaction_id, turn, fault)
            raise
        finally:
            self._in_bracket = False

    def _commit(
        self,
        compaction_id: str,
        turn: int | None,
        start_seq: int,
        span: Span,
        summary: Summary,
        content: tuple[Block, ...],
    ) -> Replaced:
        summary_seq = self.session.events
        seqs = self._append(
            [
                encode.compaction_summary(
                    compaction_id,
                    content[1:-1],
                    span.seqs,
                    span.tokens,
                    provider=summary.provider,
                    model=summary.model,
                    usage=summary.usage,
                ),
                encode.checkpoint(
                    compaction_id,
                    content,
                    self._new_id(),
                    span.seqs,
                    (start_seq, summary_seq),
                    version=self.session.format,
                ),
                encode.compaction_end(compaction_id, turn),
            ]
        )
        return self._landed(self.replaced, seqs[1], span.seqs, span.tokens)

    def _append(self, drafts: Sequence[encode.Draft]) -> tuple[int, ...]:
        with self._gate:
            if self._revoked:
                raise BackendFailed(
                    self._backend, "its time is over: nothing more is written for it"
                )
            return self.session.append(drafts)

    def revoke(self) -> None:
        """From now on nothing is written through this bench: a late backend must not surprise."""
        with self._gate:
            self._revoked = True

    def _landed(
        self, where: list[Replaced], seq: int, shadowed: tuple[int, ...], before: int
    ) -> Replaced:
        node = self.session.surface.find(seq)
        assert node is not None, "what was appended is on the surface"
        done = Replaced(
            seq=seq,
            generation=self.session.replace_generation,
            shadowed_seqs=shadowed,
            tokens_before=before,
            tokens_after=self.session.price(node),
        )
        where.append(done)
        return done

    def _check_stable(self, span: Span) -> None:
        """The span may have changed while the summary was written: other hooks append too."""
        try:
            now = self.session.surface.span(span.start_seq, span.end_seq)
        except DshcError:
            now = ()
        if tuple(node.seq for node in now) != span.seqs:
            raise BackendFailed(
                self._backend,
                "the span changed while its summary was written: nothing was replaced",
            )

    def _checked_content(self, summary: Summary, span: Span) -> tuple[Block, ...]:
        text = _FRAME_MARKS.sub("", summary.text).strip()
        if not text:
            raise BackendFailed(self._backend, "the summary is empty")
        content = encode.checkpoint_blocks(PREAMBLE, (Text(text=text),))
        price = tokens.price_message(Message(role="user", content=content))
        if price >= span.tokens:
            raise Bloated(
                self._backend,
                f"the summary is not smaller than what it replaces ({price} tokens with its frame"
                f" against {span.tokens})",
            )
        return content

    def _close(self, compaction_id: str, turn: int | None, fault: BaseException) -> None:
        reason = (str(fault) or type(fault).__name__)[:MOST_ERROR_CHARACTERS]
        try:
            bracket = self.session.turns.bracket
            if bracket is not None and bracket.compaction_id == compaction_id:
                self._append([encode.compaction_end(compaction_id, turn, reason)])
        except DshcError as second:
            self.notices.append(f"the failed attempt's bracket stays open: {second}")

    def _clear_stale_bracket(self) -> None:
        """We hold the lock, so a bracket that is open was left by a process that is gone."""
        turns = self.session.turns
        if turns.bracket is None or turns.bracket_is_stale:
            return
        if turns.bracket.turn != turns.turn:
            raise LogError(
                self.session.path,
                f"the compaction that began at seq {turns.bracket.seq} was never closed, and its turn"
                " is over: nothing may follow it",
                seq=turns.bracket.seq,
                remedy=f'run "dshc repair {self.session.path}"',
            )
        self.notices.append(
            f"the compaction that began at seq {turns.bracket.seq} was left open by a process that is"
            " gone: it is closed as failed"
        )
        reason = "abandoned: the process that began it is gone"
        self._append(
            [encode.compaction_end(turns.bracket.compaction_id, turns.bracket.turn, reason)]
        )
