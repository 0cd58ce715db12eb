"""A rehearsal as text: the story line by line, then the verdict; several side by side as a table.

Rule: what the ledger says and what the backend says stand apart, under their own names. The words
of backends, providers and logs are foreign text.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from dsh_compact.backends.running import words_of
from dsh_compact.errors import BackendFailed
from dsh_compact.events import Failure
from dsh_compact.floor import Floor
from dsh_compact.recovery import Attempt, Round, Verdict
from dsh_compact.report.table import Column, Styled, table
from dsh_compact.report.terminal import Style, clip, safe, styled
from dsh_compact.simulate import Decided, Rehearsed, Sent
from dsh_compact.words import counted

BUILT_IN: Final = "the built-in session"

LONGEST_WORDS: Final = 300
"""Characters of an error or a note that are looked at: it is foreign text."""

MOST_REQUESTS_TOLD: Final = 6
"""Requests that are told one by one: a discipline that retries for ever says the same each time."""

MILLION: Final = 1_000_000

LABEL_CELLS: Final = 9
"""How wide the story's labels are."""

MEANINGS: Final = {
    Verdict.REDUCED: "the conversation on disk is shorter",
    Verdict.STILL_OVER: "the conversation on disk is shorter, by the forecast still too long",
    Verdict.PRUNED_ONLY: "tool results on disk were cut, nothing was summarised",
    Verdict.NO_OP: "nothing on disk has changed",
    Verdict.BLOATED: "what was to replace the conversation is not shorter than it",
    Verdict.NOT_PERSISTED: "what the backend did is not on disk as a replacement",
    Verdict.BACKEND_ERROR: "the backend failed, and nothing on disk was replaced",
    Verdict.TIMED_OUT: "the backend did not return in time, and nothing on disk was replaced",
    Verdict.IRREDUCIBLE: "there is nothing left that could be folded",
}
"""A sentence a verdict."""


class Scene(Struct, frozen=True, kw_only=True):
    """One rehearsal and where it was played.

    `label` names the log; `nodes` and `threshold_tokens` are the session's before the turn, the
    latter None where no window is known.
    """

    label: str
    is_copy: bool
    tokenizer: str
    nodes: int
    threshold_tokens: int | None
    rehearsed: Rehearsed
    notices: tuple[str, ...] = ()


def text(
    scenes: Sequence[Scene],
    *,
    price_usd: float | None = None,
    width: int | None = None,
    color: bool = False,
) -> str:
    """One rehearsal as its story, several of one backend as a table under the first one's setting.

    `price_usd` is what a million tokens of input cost.
    """
    lines = [*_setting(scenes[0], is_alone=len(scenes) == 1, color=color), ""]
    if len(scenes) == 1:
        lines += [*_story(scenes[0].rehearsed, color=color), ""]
        lines += _ending(scenes[0].rehearsed, price_usd, color=color)
    lines = lines if width is None else [_fitted(one, width) for one in lines]
    if len(scenes) == 1:
        return "\n".join(lines)
    lines.append(_comparison(scenes, price_usd, width=width, color=color))
    stopped = [line for scene in scenes for line in _stopped(scene.rehearsed)]
    return "\n".join([*lines, *stopped])


def _fitted(line: str, width: int) -> str:
    """Our own words take as many lines as they need, a provider's stay on one."""
    return clip(line, width) if line.startswith(_line("", "")) else line


def usd(tokens: int, price_usd: float) -> float:
    """What so many tokens cost where a million cost `price_usd`."""
    return tokens * price_usd / MILLION


# The story ----------------------------------------------------------------------------------------


def _setting(scene: Scene, *, is_alone: bool, color: bool) -> Iterator[str]:
    done = scene.rehearsed
    where = "on a copy" if scene.is_copy else "in place"
    facts = [f"{scene.label}, {where}", counted(scene.nodes, "message"), done.backend]
    facts += [done.discipline] if is_alone else []
    yield styled(safe(" · ".join(facts)), "bold", color=color)
    estimate = f"the session estimates {done.estimated_tokens:,} tokens"
    if scene.threshold_tokens is not None:
        side = "below" if done.estimated_tokens < scene.threshold_tokens else "over"
        estimate += f", {side} its threshold of {scene.threshold_tokens:,}"
    yield estimate
    provider = f"the provider counts {done.requests[0].tokens:,} by {scene.tokenizer}"
    yield f"{provider}, and its wall stands at {done.limit_tokens:,}"


def _story(done: Rehearsed, *, color: bool) -> Iterator[str]:
    told = done.requests[:MOST_REQUESTS_TOLD]
    for place, request in enumerate(told):
        yield from _request(request, done.limit_tokens, color=color)
        if place < len(done.decisions):
            yield from _decided(done.decisions[place], done.backend, color=color)
    if left := len(done.requests) - len(told):
        yield _line("…", f"and so on, {left:,} more requests")


def _request(request: Sent, limit_tokens: int, *, color: bool) -> Iterator[str]:
    what = f"{request.tokens:,} tokens: "
    match request.outcome:
        case "answered":
            what += styled("answered", "green", color=color)
        case "refused":
            what += styled("refused", "red", color=color)
            if request.tokens > limit_tokens:
                what += f", {request.tokens - limit_tokens:,} over the wall"
        case "dropped":
            what += styled("answered", "yellow", color=color)
            what += f", but {request.dropped_tokens:,} tokens were dropped without a word"
    yield _line(f"request {request.number}", what)
    if request.failure is not None:
        yield _line("", _words(request.failure))


def _words(failure: Failure) -> str:
    status = "" if failure.status is None else f"{failure.status} "
    return f"{status}{safe(failure.code or '')}: {safe(failure.message, LONGEST_WORDS)}"


def _decided(decided: Decided, backend: str, *, color: bool) -> Iterator[str]:
    if decided.rounds:
        yield _line("ledger", f"generation {decided.generation_before}, as the file says")
    generation = decided.generation_before
    for one in decided.rounds:
        yield _line("backend", _claim(one, backend))
        yield _line("ledger", _found(one, generation))
        generation = generation if one.generation is None else one.generation
    yield from _forecast(decided.attempt)
    word = styled("retry", "green", color=color) if decided.retry else "preserve"
    yield _line("decision", f"{word}: {safe(decided.reason, LONGEST_WORDS)}")


def _claim(one: Round, backend: str) -> str:
    name = safe(backend, LONGEST_WORDS)
    if one.timed_out:
        return f"{name} did not return in time"
    if isinstance(one.error, BackendFailed):  # which names the backend a second time
        return f"{name} failed: {safe(one.error.problem, LONGEST_WORDS)}"
    if one.error is not None:
        return f"{name} raised {safe(words_of(one.error), LONGEST_WORDS)}"
    if one.claim is None:
        return f"{name} returned without a word"
    said = "it compacted" if one.claim.acted else "it did nothing"
    note = f" ({safe(one.claim.note, LONGEST_WORDS)})" if one.claim.note else ""
    return f"{name} says that {said}{note}"


def _found(one: Round, before: int) -> str:
    if one.generation is None:
        return "the file proves nothing any more"
    moved = one.generation - before
    what = f"{moved} replaced since" if moved else "nothing was replaced"
    return f"generation {one.generation}, as the file says: {what}"


def _forecast(attempt: Attempt | None) -> Iterator[str]:
    if attempt is None or attempt.generation_after == attempt.generation_before:
        return
    if attempt.forecast_tokens is not None and attempt.room_tokens is not None:
        forecast = f"about {attempt.forecast_tokens:,} tokens next, {attempt.room_tokens:,} allowed"
        yield _line("forecast", forecast)


def _line(label: str, what: str) -> str:
    return f"  {label:<{LABEL_CELLS}}  {what}"


# The end of it ------------------------------------------------------------------------------------


def _ending(done: Rehearsed, price_usd: float | None, *, color: bool) -> Iterator[str]:
    style: Style = "green" if done.recovered else "red"
    yield styled(_outcome(done), style, color=color)
    if done.verdict is not None:
        yield f"{done.verdict}: {MEANINGS[done.verdict]}"
    yield from _stopped(done)
    yield _counts(done, price_usd)
    attempt = done.attempt
    if not done.recovered and attempt is not None and attempt.floor is not None:
        yield from _floor(attempt.floor)


def _stopped(done: Rehearsed) -> Iterator[str]:
    if done.stopped_at is not None:
        where = f"{done.discipline} was stopped at {done.stopped_at:,} requests"
        yield f"{where}; in life nothing would have stopped it"


def _outcome(done: Rehearsed) -> str:
    if done.recovered:
        return "recovered: the request was answered"
    if done.requests[-1].outcome == "dropped":
        return "not recovered: the provider never refused, so nothing was compacted"
    if done.failure is not None and done.stopped_at is None:
        return "not recovered: the original error was reported"
    return "not recovered"


def _short_outcome(done: Rehearsed) -> str:
    if done.recovered:
        return "answered"
    if done.stopped_at is not None:
        return "would go on"
    return "dropped" if done.requests[-1].outcome == "dropped" else "original error"


def _counts(done: Rehearsed, price_usd: float | None) -> str:
    def money(tokens: int) -> str:
        return "" if price_usd is None else f" ({usd(tokens, price_usd):.4f} USD)"

    return (
        f"{counted(len(done.requests), 'request')} of {done.sent_tokens:,} tokens"
        f"{money(done.sent_tokens)},"
        f" {counted(done.invalid_retries, 'invalid retry', 'invalid retries')},"
        f" {done.wasted_tokens:,} tokens wasted{money(done.wasted_tokens)}"
    )


def _floor(floor: Floor) -> Iterator[str]:
    yield f"what is left, estimated: {floor.total_tokens:,} tokens"
    yield _line("system", f"{floor.system_tokens:,}")
    yield _line("tools", f"{floor.tools_tokens:,}")
    yield _line("messages", f"{floor.messages_tokens:,}")
    for one in floor.largest:
        yield _line("", f"{one.tokens:,} in seq {one.seq} ({one.kind})")


# Side by side -------------------------------------------------------------------------------------

_COMPARED: Final = (
    Column(name="discipline", importance=9),
    Column(name="requests", align="right", importance=7),
    Column(name="invalid retries", align="right", importance=8),
    Column(name="tokens sent", align="right", importance=3),
    Column(name="wasted", align="right", importance=6),
    Column(name="", align="right", importance=4),
    Column(name="outcome", importance=5, shrinks=True),
)


def _comparison(
    scenes: Sequence[Scene], price_usd: float | None, *, width: int | None, color: bool
) -> str:
    rows = []
    for done in (scene.rehearsed for scene in scenes):
        cost = "" if price_usd is None else f"{usd(done.wasted_tokens, price_usd):.4f} USD"
        rows.append(
            (
                done.discipline,
                f"{len(done.requests):,}",
                Styled(f"{done.invalid_retries:,}", "red" if done.invalid_retries else None),
                f"{done.sent_tokens:,}",
                f"{done.wasted_tokens:,}",
                cost,
                _short_outcome(done),
            )
        )
    return table(_COMPARED, rows, width=width, color=color)
