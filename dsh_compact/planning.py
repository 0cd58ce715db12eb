"""Which span of the surface may go: safe cuts, the kept tail, and what is worth an attempt.

Pure: items in, a span or a reason out. A cut is safe where no call is separated from its result; a
span begins behind a system message at the head and ends where the newest items worth
`retain_tokens` begin. It is worth an attempt only where enough of it is news: neither what an
earlier compaction left, nor what a failed attempt was about. It knows no file, no summary and no
backend.
"""

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from dsh_compact import policy
from dsh_compact.events import Kind, Message

LEAST_SUMMARY_TOKENS: Final = 24
"""A summary of fewer tokens says nothing; a span without room for it is not worth folding."""

SUMMARY_SHARE: Final = 0.1
"""Most of the window that one checkpoint may take."""

MOST_SUMMARY_TOKENS: Final = 8192
"""More than that is no summary, whatever the window."""

LEAST_SAVING: Final = 2
"""A summary may be at most the span divided by this: less saving is not worth a lossy fold."""


class Item(Struct, frozen=True, gc=False):
    """A node as planning sees it: what it costs, which calls it asks for, which one it answers."""

    seq: int
    kind: Kind
    tokens: int
    calls: tuple[str, ...]
    answers: str | None
    is_checkpoint: bool


class Span(Struct, frozen=True, kw_only=True):
    """Neighbouring items that may be replaced by a summary."""

    seqs: tuple[int, ...]
    tokens: int

    @property
    def start_seq(self) -> int:
        """Where the range begins."""
        return self.seqs[0]

    @property
    def end_seq(self) -> int:
        """Where the range ends, by its place on the surface."""
        return self.seqs[-1]


class NoSpan(Struct, frozen=True, kw_only=True):
    """Nothing useful can go, and why, as a sentence for a user.

    `was_tried` where something could go, had not an attempt on it failed.
    """

    reason: str
    was_tried: bool = False


def item(seq: int, kind: Kind, tokens: int, message: Message) -> Item:
    """The item of one node."""
    answers = message.call_id if kind == "tool" else None
    calls = tuple(call.id for call in message.calls) if kind == "assistant" else ()
    return Item(seq, kind, tokens, calls, answers, is_checkpoint(message))


def is_checkpoint(message: Message) -> bool:
    """Whether the message is what an earlier compaction left."""
    return message.compaction_id is not None


def choose(
    items: Sequence[Item],
    *,
    retain_tokens: int,
    framing_tokens: int,
    keep_last: int | None = None,
    stale_seqs: Collection[int] = (),
    insist: bool = False,
) -> Span | NoSpan:
    """The longest span that leaves a raw tail worth `retain_tokens`, or of `keep_last` items.

    With `retain_tokens` 0 only the newest indivisible unit stays. `framing_tokens` is what a
    checkpoint costs beside its summary, `stale_seqs` what a failed attempt was about and nothing
    has touched since. To `insist` is to take a span with any news at all, a failed attempt's too.
    """
    start = 1 if items and items[0].kind == "system" else 0
    tail = _tail_start(items, retain_tokens, keep_last)
    end = max((cut for cut in safe_cuts(items) if cut <= tail), default=start)
    span = items[start:end]
    if not span:
        return NoSpan(reason=_why_empty(items, start))
    if refused := _not_worth(span, framing_tokens, stale_seqs, insist=insist):
        return refused
    return Span(seqs=tuple(one.seq for one in span), tokens=sum(one.tokens for one in span))


def _not_worth(
    span: Sequence[Item], framing_tokens: int, stale_seqs: Collection[int], *, insist: bool
) -> NoSpan | None:
    """Why an attempt on the span would be wasted; None where it would not."""
    least = LEAST_SAVING * (framing_tokens + LEAST_SUMMARY_TOKENS)
    whole = sum(one.tokens for one in span)
    known = next((one for one in span if one.is_checkpoint), None)
    fresh = [one for one in span if one is not known and one.tokens]
    if not fresh and known is not None:
        return NoSpan(reason="only an earlier checkpoint could be folded, and nothing in it is new")
    if whole < least:
        return NoSpan(
            reason=f"what could be folded has {whole} tokens: a checkpoint would save next to"
            " nothing"
        )
    news = sum(one.tokens for one in fresh if one.seq not in stale_seqs)
    if insist or news >= least:
        return None
    if any(one.seq in stale_seqs for one in fresh):
        return NoSpan(
            reason="an attempt on it has failed, and next to nothing in it has changed since",
            was_tried=True,
        )
    return NoSpan(
        reason=f"beside an earlier checkpoint only {news} tokens could be folded: next to nothing"
    )


def objection(items: Sequence[Item], seqs: Sequence[int]) -> str:
    """Why those items may not be replaced together; empty where they may.

    Asked of every span before its bracket opens, whoever chose it.
    """
    places = [index for index, one in enumerate(items) if one.seq == seqs[0]] if seqs else []
    if not places:
        return "the span does not begin on the surface"
    start, end = places[0], places[0] + len(seqs)
    if tuple(one.seq for one in items[start:end]) != tuple(seqs):
        return "the span is not what stands on the surface"
    if items[start].kind == "system" and start == 0:
        return "the system message at the head may not be folded"
    cuts = {*safe_cuts(items), len(items)}
    if end == len(items):
        return "the newest messages must stay"
    if start not in cuts or end not in cuts:
        return "the span parts a tool call from its result"
    return ""


def safe_cuts(items: Sequence[Item]) -> list[int]:
    """The indices at which the surface may be cut, ascending: no call is left without its result.

    A call of the newest assistant message that has no result yet still waits for it; an older one
    without a result never gets one and holds nothing together.
    """
    blocked = [0] * (len(items) + 2)
    asked: dict[str, int] = {}
    for index, one in enumerate(items):
        if one.answers is not None and one.answers in asked:
            _block(blocked, asked.pop(one.answers), index)
        for call in one.calls:
            asked[call] = index
    newest = max((i for i, one in enumerate(items) if one.kind == "assistant"), default=-1)
    if newest in asked.values():
        _block(blocked, newest, len(items))
    cuts, depth = [], 0
    for index in range(len(items)):
        depth += blocked[index]
        if depth == 0:
            cuts.append(index)
    return cuts


def _block(blocked: list[int], first: int, last: int) -> None:
    """No cut may fall between the items `first` and `last`."""
    blocked[first + 1] += 1
    blocked[last + 1] -= 1


def _tail_start(items: Sequence[Item], retain_tokens: int, keep_last: int | None) -> int:
    """Where the raw tail begins; it always holds at least the newest item."""
    if keep_last is not None:
        return len(items) - max(1, keep_last)
    kept = 0
    for index in range(len(items) - 1, -1, -1):
        kept += items[index].tokens
        if kept >= max(1, retain_tokens):
            return index
    return 0


def tail_seqs(items: Sequence[Item], retain_tokens: int, keep_last: int | None = None) -> set[int]:
    """The seqs of the tail that is kept raw."""
    return {one.seq for one in items[_tail_start(items, retain_tokens, keep_last) :]}


def _why_empty(items: Sequence[Item], start: int) -> str:
    if len(items) <= start:
        return (
            "the surface holds nothing but the system message" if start else "the surface is empty"
        )
    return "everything behind the head belongs to the tail that is kept raw"


def summary_budget(span: Span, framing_tokens: int, window_tokens: int | None) -> int:
    """Most tokens that the summary of `span` may have, by the estimate, without its framing."""
    most = MOST_SUMMARY_TOKENS
    if window_tokens is not None:
        most = min(most, int(window_tokens * SUMMARY_SHARE))
    share = span.tokens // LEAST_SAVING - framing_tokens
    return max(LEAST_SUMMARY_TOKENS, min(most, share))


# Pruning ----------------------------------------------------------------------------------------


class PruneBudget(Struct, frozen=True, kw_only=True):
    """When a tool result is too long, and what is kept of it, all in code points."""

    threshold: int = policy.DEFAULT_PRUNE_THRESHOLD
    head: int = policy.DEFAULT_PRUNE_HEAD
    tail: int = policy.DEFAULT_PRUNE_TAIL


PRUNE_BUDGET: Final = PruneBudget()


def prune_budget(of: policy.Policy) -> PruneBudget:
    """The budget under a policy."""
    return PruneBudget(
        threshold=of.prune_threshold_characters,
        head=of.prune_head_characters,
        tail=of.prune_tail_characters,
    )


def pruned_texts(texts: Sequence[str], budget: PruneBudget = PRUNE_BUDGET) -> list[str] | None:
    """The text blocks of one result, together cut to head and tail; None where they are short
    enough.

    Counted in code points, so that no surrogate pair is split; one text a block, empty where
    nothing of it is kept. A marker that tells how much is gone stands where the cut begins.
    """
    total = sum(map(len, texts))
    if total <= budget.threshold:
        return None
    tail_start = total - budget.tail
    marker = f"\n\n[… {tail_start - budget.head} characters of this tool result left out …]\n\n"
    shorter: list[str] = []
    start = 0
    for text in texts:
        end = start + len(text)
        begins_here = start <= budget.head < end
        shorter.append(
            text[: max(0, budget.head - start)]
            + (marker if begins_here else "")
            + text[max(0, tail_start - start) :]
        )
        start = end
    return shorter
