"""The rules that a log must keep, by name, and what says that one is broken."""

from dataclasses import dataclass

FOLD_RULES = {
    "not-utf8": "every line is UTF-8",
    "not-json": "every line is one JSON value",
    "too-deep": "no line nests deeper than the standard library can follow",
    "record-shape": "a record is an object with a type, a seq, a time and data",
    "header-missing": "the first record is the session's header",
    "unsupported-format": "the header's version is 0, 3 or 4",
    "bad-frame": "every frame but a torn last one unpacks, and its checksum is right",
    "packed-row": "a packed row's lists (format 0) have fitting lengths",
    "seq-gap": "no seq is left out",
    "seq-repeated": "no seq is used twice",
    "surface-op-missing": "a surface event says what it does to the surface",
    "surface-op-forbidden": "no other event touches the surface",
    "surface-op-shape": 'an operation is "append" or a replace as the format writes it',
    "message-shape": "a surface event holds a message that can be priced",
    "range-not-on-surface": "both ends of a replaced range are on the surface",
    "range-backwards": "a range's start does not stand behind its end",
    "sources-shape": "a replacement's sourceEventSeqs is a list of seqs",
    "sources-repeated": "a replacement's sourceEventSeqs names nothing twice",
    "sources-not-earlier": "a replacement's sourceEventSeqs names only earlier events",
    "sources-incomplete": "a replacement's sourceEventSeqs names every node that leaves",
    "result-replaces-other": "a tool result replaces exactly one tool result",
    "result-changes-more": "a replacing tool result changes nothing but the content",
    "system-prompt-folded": "the system prompt at the head is replaced only by another, alone",
}
LEDGER_RULES = {
    "header-key-unknown": "the header has no unknown key",
    "event-unknown": "an event of unknown type is marked ignorable",
    "turn-order": "turns count 1, 2, 3 and do not overlap",
    "turn-end": "a turn ends once, under its own number",
    "step-order": "steps count 1, 2, 3 within an open turn and do not overlap",
    "step-end": "a step ends once, under its own numbers",
    "step-open-at-turn-end": "no turn ends with an open step",
    "call-unanswered": "no step or turn ends with an unanswered call",
    "outside-step": "what a request yields stands in its open turn and step",
    "outside-turn": "request facts stand in an open turn",
    "call-differs": "a started call equals the call in the message",
    "call-repeated": "no call is started or promised twice in a step",
    "result-without-call": "an appended result answers a started call, or says it never was, once",
    "message-without-id": "every surface message has an id",
    "bracket-turn": "a compaction starts under the open turn's number, or null between turns",
    "bracket-nested": "no compaction starts inside another",
    "turn-in-bracket": "no turn starts or ends inside an open compaction",
    "bracket-foreign": "summary, checkpoint and end carry the open compaction's id",
    "summary-repeated": "a compaction has one summary",
    "summary-alone": "a summary stands directly before the checkpoint over the same range",
    "end-without-summary": "a compaction without a summary ends with an error",
    "shadow-wrong": "shadowedSeqs are exactly the nodes from range start to range end",
    "price-wrong": "shadowedTokenCount is the price of the nodes that leave",
    "prune-alone": "a prune stands directly before the tool result that replaces its node",
    "prune-outside-turn": "tool results are pruned only while a turn is open",
    "checkpoint-kind": "a checkpoint's source is of the kind that the format uses",
    "event-shape": "an event holds what its type promises",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first record that breaks a rule: 1-based line, the seq it claims or None, the rule."""

    line: int
    seq: int | None
    rule: str
    detail: str = ""


class RuleError(Exception):
    """A rule is broken by the record at hand."""

    def __init__(self, rule: str, detail: str = "") -> None:
        super().__init__(rule)
        self.rule = rule
        self.detail = detail
