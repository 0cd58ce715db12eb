"""A second reader of session logs: slow, short, and written from the format's description alone.

The rule of this package: it imports nothing of the product, decodes every line with the standard
library, keeps the surface in a plain list and looks things up by walking it. What the product
computes cleverly must equal what is computed here naively.

It checks two families of `rules`. Those of the `fold` decide what a log means; a log that breaks
one is damaged at that record (`Reading.broken`). Those of the `ledger` are those by which the
harness refuses to open a session whose fold is whole; the first broken rule of either family is
`Reading.refused`.

It does not know how to mend a log, or how to go on behind the first broken fold rule.
"""

from dataclasses import dataclass

from plain_reader.fold import LATER_MESSAGES, MESSAGES, Fold, Measure, Node, Replacement
from plain_reader.ledger import NOT_STARTED, Compaction, History, Ledger
from plain_reader.lines import ZSTD_MAGIC, Record, claim, decode, frame_length, unpack, whole_lines
from plain_reader.prices import header_tokens, js_number, message_of, node_tokens
from plain_reader.rules import FOLD_RULES, LEDGER_RULES, Broken, RuleError

__all__ = [
    "FOLD_RULES",
    "LATER_MESSAGES",
    "LEDGER_RULES",
    "MESSAGES",
    "NOT_STARTED",
    "ZSTD_MAGIC",
    "Reading",
    "Record",
    "RuleError",
    "decode",
    "frame_length",
    "header_tokens",
    "js_number",
    "message_of",
    "node_tokens",
    "read",
    "unpack",
    "whole_lines",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that a log says, up to its end or to the first broken fold rule."""

    header: Record
    events: int
    records: list[Record]
    nodes: list[Node]
    replacements: list[Replacement]
    compactions: list[Compaction]
    measure: Measure
    torn: bool
    broken: Broken | None
    refused: Broken | None

    @property
    def format(self) -> int | None:
        """The header's version; None where there is no header."""
        return self.header.get("version")

    @property
    def generation(self) -> int:
        """How often part of the surface was replaced."""
        return len(self.replacements)

    @property
    def node_seqs(self) -> list[int]:
        """The seqs of the surface, in the order in which the model sees them."""
        return [node.seq for node in self.nodes]


def read(data: bytes) -> Reading:
    """Everything about a log's bytes, plain or framed. Raises nothing, whatever the bytes."""
    fold, ledger, history = Fold(), Ledger(), History()
    records: list[Record] = []
    broken: Broken | None = None
    refused: Broken | None = None
    lines, torn, bad_frame = whole_lines(data)
    for line, raw in enumerate(lines, start=1):
        record: Record = {}
        try:
            record = decode(raw)
            if refused is None:
                refused = ledger.refusal(line, record, fold)
            fold.extend(record)
        except RuleError as fault:
            undecodable = fault.rule in ("not-json", "not-utf8")
            if undecodable and line == len(lines) > 1 and bad_frame is None:
                torn = True  # the harness opens a log whose last line alone is damaged
            else:
                broken = Broken(line=line, seq=claim(record), rule=fault.rule, detail=fault.detail)
            break
        history.extend(record)
        records.append(record)
    if broken is None and bad_frame is not None:
        broken = Broken(line=len(lines) + 1, seq=None, rule="bad-frame", detail=bad_frame)
    if broken is None and not records:
        broken = Broken(line=1, seq=None, rule="header-missing", detail="there is no whole record")
    if broken is not None and (refused is None or refused.line >= broken.line):
        refused = broken
    return Reading(
        header=fold.header,
        events=fold.next_seq,
        records=records,
        nodes=fold.nodes,
        replacements=fold.replacements,
        compactions=history.compactions,
        measure=fold.measure(),
        torn=torn,
        broken=broken,
        refused=refused,
    )
