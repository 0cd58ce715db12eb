"""Hypothesis strategies for session logs: right ones of any shape, and ones with one broken rule.

The rule of this file: a drawn `Conversation` is one that the harness would open, whatever was drawn
(the builder sees to that); a drawn `Spoiled` breaks exactly the rule that it names, at the record
that it names, and the plain reader agrees.

    @given(conversations())          # a Conversation, in any of the three formats
    @given(written_logs())           # bytes: plain or framed, in the harness's style or another's
    @given(torn_logs())              # Torn(data=…, whole=…): the tail was never written
    @given(broken_logs())            # Spoiled(rule=…, data=…, line=…)
    split = data.draw(places_to_split(log.lines()))
"""

# ruff: noqa: D103 - a verb promises what the builder promises for the verb of its name

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from builders import Conversation, call, frame, line
from hypothesis import strategies as st
from plain_reader import Record, js_number
from spoilers import SPOILERS

Draw = st.DrawFn

FORMATS = (0, 3, 4)
MAX_VERBS = 40  # enough for nested replacements; beyond it, drawing costs more than it finds

# Text that terminals, parsers and length counters stumble over.
AWKWARD_TEXTS = (
    "",
    "\x00",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "[red]markup[/red] [link=x]",
    "\u2028\u2029\u0085\ufeff\u202e",
    "\ud83d",
    "\ude80\ud83d",
    "🚀 你好 ünï",
    '"\\/\b\f\n\r\t',
    "<compacted-summary></compacted-summary>",
    '{"type":"user/message","seq":0,"surfaceOp":"append"}',
)

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(AWKWARD_TEXTS),
    st.builds(
        lambda word, times: word * times, st.text(min_size=1, max_size=4), st.integers(1, 99)
    ),
)
# Numbers that JavaScript would write as they stand: no 0.0, no 1e-05. Logs come from there.
js_floats = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda x: repr(x) == js_number(x)
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | js_floats | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
opaque_blocks = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    st.sampled_from(["image", "file", "audio/x", "téxt"]),
    st.dictionaries(st.sampled_from(["data", "name", "\ud83d", "\x00"]), json_values, max_size=3),
)
said = st.lists(
    st.one_of(texts, opaque_blocks, st.builds(lambda t: {"type": "reasoning", "text": t}, texts)),
    max_size=3,
)
usages = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 9_000), st.integers(0, 300)),
    st.fixed_dictionaries(
        {"inputTokens": st.integers(0, 9_000), "outputTokens": st.integers(0, 300)},
        optional={
            "cacheReadTokens": st.integers(0, 9_000),
            "cacheWriteTokens": st.integers(0, 9_000),
            "reasoningTokens": st.integers(0, 300),
        },
    ),
)
extras: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["x-extra", "überflüssig", "\ud83d"]), json_values, max_size=2
)


# Right logs


@st.composite
def conversations(
    draw: Draw,
    *,
    formats: Sequence[int] = FORMATS,
    max_verbs: int = MAX_VERBS,
    prompted: bool | None = None,
    decorated: bool = True,
) -> Conversation:
    """A conversation of any shape, ended anywhere: between turns, in a step, in a bracket.

    With `decorated`, some records have keys that nobody knows, in the envelope and in the data.
    """
    log = Conversation(
        format=draw(st.sampled_from(formats)),
        window=draw(st.none() | st.integers(1_000, 200_000)),
        max_tokens=draw(st.none() | st.integers(1, 900)),
    )
    if draw(st.booleans()) if prompted is None else prompted:
        log.system(draw(texts))
    for _ in range(draw(st.integers(0, max_verbs))):
        VERBS[draw(st.sampled_from(possible_verbs(log)))](draw, log)
    if draw(st.integers(0, 9)) == 0:
        log.open_bracket()
    if decorated:
        decorate(draw, log)
    return log


def possible_verbs(log: Conversation) -> list[str]:
    """What may happen next."""
    anywhere = ["event", "failed-compaction", "stale-bracket"]
    if not log.prompt_waits:
        anywhere.append("note")
    if log.format == 4 and log.next_seq:
        anywhere.append("delivered")
    if safe_ranges(log):
        anywhere += ["compaction", "compaction", "replace"]
    if log.turn is None:
        return ["user", "user", "user", *anywhere]
    anywhere += ["header", *(["prune", "prune"] if result_seqs(log) else [])]
    if any(not promised["answered"] for promised in log.calls.values()):
        return ["call", "result", "result", "result", "interrupt", *anywhere]
    answers = ["assistant", "assistant", "calls", "calls", "refusal", "failure", "next-step"]
    later = ["developer"] if log.format != 0 else []
    prompted = bool(log.nodes) and log.nodes[0]["type"] == "system/message"
    swap = ["system"] if prompted or log.format == 0 else []
    return [*answers, "user", "end", "end", *later, *swap, *anywhere]


def verb_user(draw: Draw, log: Conversation) -> None:
    log.user(draw(said))


def verb_assistant(draw: Draw, log: Conversation) -> None:
    log.assistant(draw(said), usage=draw(usages), stream=draw(st.booleans()), **draw(extras))


def verb_calls(draw: Draw, log: Conversation) -> None:
    number = log.next_seq
    names = [f"c{number}.{i}" for i in range(draw(st.integers(1, 4)))]
    calls = [call(name, draw(texts), draw(texts)) for name in names]
    log.assistant(draw(said), calls=calls, usage=draw(usages), **draw(extras))


def verb_call(draw: Draw, log: Conversation) -> None:
    waiting = [name for name, promised in log.calls.items() if promised["started"] is None]
    if waiting:
        log.call(draw(st.sampled_from(waiting)))


def verb_result(draw: Draw, log: Conversation) -> None:
    waiting = [name for name, promised in log.calls.items() if not promised["answered"]]
    name = draw(st.sampled_from(waiting))
    log.result(name, draw(said), is_error=draw(st.booleans()), **draw(extras))


def verb_refusal(draw: Draw, log: Conversation) -> None:
    requested = draw(st.integers(1_001, 300_000))
    messages = draw(st.none() | st.just(requested))
    log.refusal(limit=draw(st.sampled_from([1_000, 8_000])), requested=requested, messages=messages)


def verb_failure(draw: Draw, log: Conversation) -> None:
    code = draw(st.sampled_from(["OVERLOADED", "CONTEXT_WINDOW_EXCEEDED"]))
    log.failure(code=code, message=draw(texts), status=draw(st.none() | st.just(529)))


def verb_header(draw: Draw, log: Conversation) -> None:
    log.header(model=draw(st.sampled_from(["deepseek-v4-flash", "deepseek-v4-pro"])))
    log.context(draw(st.integers(1_000, 200_000)))


def verb_compaction(draw: Draw, log: Conversation) -> None:
    log.compaction(draw(said), over=draw(st.sampled_from(safe_ranges(log))))


def verb_replace(draw: Draw, log: Conversation) -> None:
    log.replace(draw(said), over=draw(st.sampled_from(safe_ranges(log))))


def verb_prune(draw: Draw, log: Conversation) -> None:
    log.prune(draw(st.sampled_from(result_seqs(log))), draw(said))


def verb_event(draw: Draw, log: Conversation) -> None:
    kind = draw(st.sampled_from(["tests/marker", "x", "user/message2", "session"]))
    log.event(kind, draw(extras), ignorable=True)


def verb_stale_bracket(draw: Draw, log: Conversation) -> None:
    if draw(st.booleans()):
        log.open_bracket()
    log.end_seed()


def verb_next_step(draw: Draw, log: Conversation) -> None:
    if log.step is not None:
        log.next_step()


VERBS: dict[str, Callable[[Draw, Conversation], object]] = {
    "assistant": verb_assistant,
    "call": verb_call,
    "calls": verb_calls,
    "compaction": verb_compaction,
    "delivered": lambda draw, log: log.delivered(),
    "developer": lambda draw, log: log.developer(draw(said)),
    "end": lambda draw, log: log.end(draw(st.sampled_from(["completed", "aborted", "max-tokens"]))),
    "event": verb_event,
    "failed-compaction": lambda draw, log: log.failed_compaction(draw(texts)),
    "failure": verb_failure,
    "header": verb_header,
    "interrupt": lambda draw, log: log.interrupt(draw(texts)),
    "next-step": verb_next_step,
    "note": lambda draw, log: log.note(draw(said)),
    "prune": verb_prune,
    "refusal": verb_refusal,
    "replace": verb_replace,
    "result": verb_result,
    "stale-bracket": verb_stale_bracket,
    "system": lambda draw, log: log.system(draw(texts)),
    "user": lambda draw, log: log.user(draw(said)),
}


def result_seqs(log: Conversation) -> list[int]:
    """The tool results on the surface."""
    return [node["seq"] for node in log.nodes if node["type"] == "tool/result"]


def safe_ranges(log: Conversation) -> list[tuple[int, int]]:
    """The ranges whose folding parts no call from its result, and moves no system prompt."""
    waiting: set[str] = set()
    cuts = []
    for place, node in enumerate(log.nodes):
        if not waiting and node["type"] != "system/message":
            cuts.append(place)
        waiting ^= call_ids(node)
    ends = [place - 1 for place in cuts] + ([] if waiting else [len(log.nodes) - 1])
    seqs = log.node_seqs
    return [(seqs[start], seqs[end]) for start in cuts for end in ends if start <= end]


def call_ids(node: Record) -> set[str]:
    """The calls that a node makes, or the one that it answers."""
    if node["type"] == "tool/result":
        return {node["data"]["message"]["source"]["callId"]}
    if node["type"] != "assistant/message":
        return set()
    content = node["data"]["message"]["content"]
    return {block["id"] for block in content if block["type"] == "tool-call"}


def decorate(draw: Draw, log: Conversation) -> None:
    """Give some events keys that nobody knows, in the data and, before format 4, beside it.

    Not tool results: a prune must repeat their data to the letter.
    """
    events = [r for r in log.records[1:] if r["type"] != "tool/result"]
    for record in draw(st.lists(st.sampled_from(events), max_size=4)) if events else []:
        if log.format != 4:  # which harnesses refuse
            record.update(draw(extras))
        record["data"].update(draw(extras))


# Ways to write one


def written_as_the_harness(record: Record) -> bytes:
    """Compact, key order as built, non-ASCII as it is."""
    return line(record)


def written_in_ascii(record: Record) -> bytes:
    """With an escape for every character beyond ASCII."""
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def written_with_spaces(record: Record) -> bytes:
    """With spaces between the tokens, and around the record."""
    escaped = json.dumps(record)
    return f" {escaped} \r\n".encode("ascii")


def written_backwards(record: Record) -> bytes:
    """The envelope's keys in reverse, so that neither type nor seq stands at the head."""
    return line(dict(reversed(record.items())))


def written_with_escapes(record: Record) -> bytes:
    """With escapes where none are needed: in the names of keys and types."""
    return line(record).replace(b'"type"', b'"\\u0074ype"').replace(b'"seq"', b'"s\\u0065q"')


STYLES = (
    written_as_the_harness,
    written_in_ascii,
    written_with_spaces,
    written_backwards,
    written_with_escapes,
)


@st.composite
def written_logs(draw: Draw, logs: st.SearchStrategy[Conversation] | None = None) -> bytes:
    """A right log's bytes: each line in any style, plain or in frames of any number of lines."""
    log = draw(conversations() if logs is None else logs)
    mixed = draw(st.booleans())
    styles = STYLES if mixed else STYLES[:1]
    lines = [draw(st.sampled_from(styles))(record) for record in log.records]
    return draw(framings(lines)) if draw(st.booleans()) else b"".join(lines)


@st.composite
def framings(draw: Draw, lines: Sequence[bytes]) -> bytes:
    """Lines in frames, a frame ending after any of them; the header's is its own."""
    whole, waiting = [], b""
    for number, raw in enumerate(lines):
        waiting += raw
        if number == 0 or number == len(lines) - 1 or draw(st.booleans()):
            whole.append(frame(waiting))
            waiting = b""
    return b"".join(whole)


def places_to_split(lines: Sequence[bytes]) -> st.SearchStrategy[int]:
    """How many lines to read first, the header among them; the rest is to be caught up with."""
    return st.integers(1, len(lines))


# Logs that end in the middle


@dataclass(frozen=True, slots=True, kw_only=True)
class Torn:
    """A log whose last record was not wholly written: its bytes, and those of the whole records."""

    data: bytes
    whole: bytes


@st.composite
def torn_logs(draw: Draw) -> Torn:
    """A plain or framed log, cut inside its last line or frame."""
    log = draw(conversations())
    parts = log.lines()
    if draw(st.booleans()):
        parts = [frame(b"".join(map(line, append))) for append in log.appends if append]
    count = draw(st.integers(1, len(parts)))
    whole, torn = b"".join(parts[: count - 1]), parts[count - 1]
    return Torn(data=whole + torn[: draw(st.integers(1, len(torn) - 1))], whole=whole)


# Wrong logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """A log with one broken rule: its name in the plain reader, the 1-based line, the bytes."""

    rule: str
    line: int
    data: bytes


RULE_FORMATS = {"system-prompt-folded": (3, 4), "packed-row": (0,)}
NESTING_DEPTH = 100_000
UNREADABLE_LINES = {
    "not-utf8": (b'{"a":"\xff"}', b"\xc0\x80", b'{"a":"\xed\xa0\xbd"}'),
    "not-json": (
        b"{",
        b"nonsense",
        b"",
        b"[1,]",
        b'{"a":NaN}',
        b'{"a":"\x01"}',
        b"{'a':1}",
        b"\x00",
    ),
    "record-shape": (b"[]", b"3", b"null", b'"x"', b"true"),
    "too-deep": (b"[" * NESTING_DEPTH + b"]" * NESTING_DEPTH,),
}
BROKEN_RULES = sorted({*SPOILERS, *UNREADABLE_LINES, "bad-frame"})


@st.composite
def broken_logs(draw: Draw, rules: Sequence[str] = tuple(BROKEN_RULES)) -> Spoiled:
    """A right log in which one of these rules is broken at one place."""
    rule = draw(st.sampled_from(rules))
    formats = RULE_FORMATS.get(rule, FORMATS)
    log = eventful(draw(conversations(formats=formats, max_verbs=12, prompted=True)))
    if rule == "bad-frame":
        return spoiled_frame(draw, log)
    if rule in UNREADABLE_LINES and (rule not in SPOILERS or draw(st.booleans())):
        lines = log.lines()
        place = draw(st.integers(1, len(lines) - 2))
        lines[place] = draw(st.sampled_from(UNREADABLE_LINES[rule])) + b"\n"
        return Spoiled(rule=rule, line=place + 1, data=b"".join(lines))
    records = deepcopy(log.records)
    place = SPOILERS[rule](draw, records)
    return Spoiled(rule=rule, line=place + 1, data=b"".join(map(line, records)))


def spoiled_frame(draw: Draw, log: Conversation) -> Spoiled:
    """A framed log in which one frame's checksum is wrong."""
    appends = [append for append in log.appends if append]
    frames = [bytearray(frame(b"".join(map(line, append)))) for append in appends]
    place = draw(st.integers(0, len(frames) - 1))
    frames[place][-1] ^= draw(st.integers(1, 255))
    first_line = 1 + sum(map(len, appends[:place]))
    return Spoiled(rule="bad-frame", line=first_line, data=b"".join(frames))


def eventful(log: Conversation) -> Conversation:
    """The conversation, continued until every rule has a record that could break it."""
    if log.bracket is not None:
        log.close_bracket(error="given up")
    if log.turn is not None:
        log.interrupt()
    name = f"last{log.next_seq}"
    calls = [call(f"{name}.1"), call(f"{name}.2")]
    log.user("one more").assistant("Running.", calls=calls, usage=(600, 29))
    log.result(f"{name}.2", "b" * 400).result(f"{name}.1", "a" * 4_000)
    log.refusal(limit=8_000, requested=10_476).prune(f"{name}.1", "a")
    log.failed_compaction().compaction("Something ran.", over=safe_ranges(log)[-1])
    log.header().assistant("Done.", usage=(700, 9)).end()
    log.user("and another").assistant(calls=[call(name)]).result(name, "c")
    return log.assistant("Well.").end().note("late")
