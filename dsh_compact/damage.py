"""What can be wrong with a log: one table, a row a code, in a user's words.

`dshc verify` reports by it, `dshc repair` works by it, the README shows it. What the harness does with
each kind of damage was tried on release 0.2.1 (format 4). The table knows no file and finds nothing.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from dsh_compact.errors import Damage


class Severity(StrEnum):
    """Damage fails a check; a warning fails it only where the user is strict."""

    DAMAGE = "damage"
    WARNING = "warning"


class Consequence(StrEnum):
    """What becomes of a session with such damage."""

    LOST_TAIL = "the harness drops it: it was never a whole record"
    CUT = (
        "the harness refuses to open the session; where no turn ends behind it, it opens it and cuts"
        " off everything from here on"
    )
    REFUSED = "the harness refuses to open the session"
    REQUESTS_REFUSED = "the session opens, and the provider refuses every request"
    NO_FOLD = "the session opens, and nothing was replaced"
    WRONG_FIGURE = "the session opens; a figure in it is wrong"
    UNREADABLE = "nobody can read what stands there"
    CLOSED_LATER = "none: the harness closes it when it resumes the session"
    IN_THE_WAY = "the harness compacts again only after the next resume"
    NONE = "none: readers pass it over"


class Row(Struct, frozen=True, kw_only=True):
    """One kind of damage: where it shows, what it means, what follows, how `repair` mends it.

    `mend` is None where nothing can be done without inventing what is not known.
    """

    code: Damage
    place: str
    meaning: str
    consequence: Consequence
    mend: str | None
    severity: Severity = Severity.DAMAGE


_CUT_TAIL: Final = "cut off and kept beside"
_ASIDE: Final = "set aside"
_RENUMBER: Final = "renumbered, with every reference to it"
_CLOSE: Final = "closed the way the harness closes an interrupted turn"

ROWS: Final = (
    # The bytes
    Row(code=Damage.TORN_LINE, place="tail", meaning="the last line was never finished",
        consequence=Consequence.LOST_TAIL, mend=_CUT_TAIL),
    Row(code=Damage.TORN_FRAME, place="tail", meaning="the last frame was never finished",
        consequence=Consequence.LOST_TAIL, mend="whole lines in it are kept, the rest cut off"),
    Row(code=Damage.BAD_CHECKSUM, place="frame", meaning="a frame's content is not what was written",
        consequence=Consequence.UNREADABLE, mend=_ASIDE),
    Row(code=Damage.NOT_ZSTD, place="frame", meaning="no whole frame stands where one must",
        consequence=Consequence.UNREADABLE, mend=_ASIDE),
    Row(code=Damage.NOT_JSON, place="line", meaning="the line is empty or no JSON",
        consequence=Consequence.CUT, mend=_ASIDE),
    Row(code=Damage.NOT_UTF8, place="line", meaning="the line is not UTF-8",
        consequence=Consequence.WRONG_FIGURE, mend=_ASIDE),
    Row(code=Damage.TOO_LARGE, place="line", meaning="a record or frame beyond every limit",
        consequence=Consequence.UNREADABLE, mend=_ASIDE),
    Row(code=Damage.TOO_DEEP, place="line", meaning="JSON nested too deep to be read",
        consequence=Consequence.UNREADABLE, mend=_ASIDE),
    # The header
    Row(code=Damage.HEADER_MISSING, place="header", meaning="the first record is no session header",
        consequence=Consequence.REFUSED, mend=None),
    Row(code=Damage.HEADER_WRONG, place="header", meaning="a field of the header is missing or wrong",
        consequence=Consequence.REFUSED, mend=None),
    Row(code=Damage.HEADER_UNKNOWN_KEY, place="header", meaning="the header has a key that nobody knows",
        consequence=Consequence.REFUSED, mend=None),
    Row(code=Damage.HEADER_ID_DIFFERS, place="header", meaning="the folder has another name than the session",
        consequence=Consequence.REFUSED, mend=None),
    Row(code=Damage.UNSUPPORTED_FORMAT, place="header", meaning="a format that was never released, or a newer one",
        consequence=Consequence.REFUSED, mend=None),
    Row(code=Damage.SEED_WRONG, place="record", meaning="inherited events and the header's isSeeded disagree",
        consequence=Consequence.REFUSED, mend=None),
    # One record
    Row(code=Damage.RECORD_WRONG, place="record", meaning="a field is missing or of the wrong type",
        consequence=Consequence.CUT, mend=_ASIDE),
    Row(code=Damage.RECORD_UNKNOWN_KEY, place="record", meaning="a key beside type, seq, time and data that nobody knows",
        consequence=Consequence.CUT, mend=_ASIDE),
    Row(code=Damage.PACKED_ROW_UNEQUAL, place="record", meaning="the lists of a packed row do not fit together",
        consequence=Consequence.CUT, mend=_ASIDE),
    Row(code=Damage.UNKNOWN_EVENT, place="record", meaning="an unknown type, not marked ignorable",
        consequence=Consequence.REFUSED, mend=None),
    # Seqs
    Row(code=Damage.SEQ_GAP, place="record", meaning="events are missing",
        consequence=Consequence.CUT, mend=_RENUMBER),
    Row(code=Damage.SEQ_REPEATED, place="record", meaning="two processes gave the same number",
        consequence=Consequence.CUT, mend=_RENUMBER + "; a mere copy is set aside"),
    Row(code=Damage.SEQ_BACKWARDS, place="record", meaning="a resumed process had not read the last events",
        consequence=Consequence.CUT, mend=_RENUMBER),
    # The surface
    Row(code=Damage.SURFACE_OP_MISSING, place="record", meaning="a message does not say what it does to the surface",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.SURFACE_OP_FORBIDDEN, place="record", meaning="an event that is no message claims a place on the surface",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.SURFACE_OP_WRONG, place="record", meaning="surfaceOp is neither append nor a replace",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.RANGE_NOT_ON_SURFACE, place="record", meaning="what is to be replaced is not on the surface",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.RANGE_BACKWARDS, place="record", meaning="the replaced range ends before it starts",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.SOURCES_INCOMPLETE, place="record", meaning="sourceEventSeqs leaves out what is replaced",
        consequence=Consequence.REFUSED, mend="completed from the range"),
    Row(code=Damage.SOURCES_REPEATED, place="record", meaning="sourceEventSeqs names an event twice, or none",
        consequence=Consequence.REFUSED, mend="each named once"),
    Row(code=Damage.SOURCES_LATER, place="record", meaning="sourceEventSeqs names an event that was not there yet",
        consequence=Consequence.REFUSED, mend="left out"),
    Row(code=Damage.RESULT_REPLACES_OTHER, place="record", meaning="a tool result replaces something else",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.RESULT_CHANGED, place="record", meaning="a pruned result changes more than its content",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.SYSTEM_FOLDED, place="record", meaning="the system prompt was folded away",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.SYSTEM_MISPLACED, place="record", meaning="a system message behind a head that is none",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    # Messages
    Row(code=Damage.MESSAGE_WITHOUT_ID, place="record", meaning="a message has no id",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.MESSAGE_WRONG, place="record", meaning="role, source or a block is not what the type of event demands",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.CHECKPOINT_SOURCE_WRONG, place="record", meaning="a checkpoint names itself as another format does",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.REQUEST_HEADER_WRONG, place="record", meaning="a request header that no request can be made with",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    # Turns, steps, calls
    Row(code=Damage.TURN_UNBALANCED, place="record", meaning="a turn starts inside another, or ends without a start",
        consequence=Consequence.REFUSED, mend=_CLOSE + ", or " + _ASIDE),
    Row(code=Damage.TURN_MISCOUNTED, place="record", meaning="turns do not count 1, 2, 3",
        consequence=Consequence.REFUSED, mend=_RENUMBER),
    Row(code=Damage.STEP_UNBALANCED, place="record", meaning="a step starts inside another, or ends without a start",
        consequence=Consequence.REFUSED, mend=_CLOSE + ", or " + _ASIDE),
    Row(code=Damage.STEP_MISCOUNTED, place="record", meaning="steps do not count 1, 2, 3 in their turn",
        consequence=Consequence.REFUSED, mend=_RENUMBER),
    Row(code=Damage.OUTSIDE_TURN, place="record", meaning="an event of a turn while none is open",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.OUTSIDE_STEP, place="record", meaning="an event of a step outside that step",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.CALL_DIFFERS, place="record", meaning="a call was started that the model did not ask for",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.CALL_ID_REPEATED, place="record", meaning="a call's id is used again while it waits",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.RESULT_WITHOUT_CALL, place="record", meaning="a result answers no call that was started",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.CALL_WITHOUT_RESULT, place="record", meaning="a step or turn ends and a call has no result",
        consequence=Consequence.REFUSED, mend=_CLOSE),
    Row(code=Damage.RESULT_PARTED, place="record", meaning="a result is on the surface, its call was folded away",
        consequence=Consequence.REQUESTS_REFUSED, mend="its content stays, as a user's message"),
    Row(code=Damage.CALL_PARTED, place="record", meaning="a call is on the surface, its result was folded away",
        consequence=Consequence.REQUESTS_REFUSED, mend=None),
    # Compactions
    Row(code=Damage.BRACKET_NESTED, place="record", meaning="a compaction starts inside another",
        consequence=Consequence.REFUSED, mend="the first is ended, with an error"),
    Row(code=Damage.BRACKET_TURN_WRONG, place="record", meaning="a compaction names another turn than the open one",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.BRACKET_ID_WRONG, place="record", meaning="an event of a compaction that is not open",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.BRACKET_CROSSES_TURN, place="record", meaning="a turn starts or ends inside a compaction",
        consequence=Consequence.REFUSED, mend="the compaction is ended first, with an error"),
    Row(code=Damage.BRACKET_EMPTY, place="record", meaning="a compaction ends well without a summary",
        consequence=Consequence.REFUSED, mend="set aside, and ended with an error"),
    Row(code=Damage.SUMMARY_REPEATED, place="record", meaning="a second summary in one compaction",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.SUMMARY_MISSING, place="record", meaning="a checkpoint with no summary directly before it",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.SUMMARY_WITHOUT_REPLACEMENT, place="record", meaning="a summary that no checkpoint follows",
        consequence=Consequence.NO_FOLD, mend=_ASIDE),
    Row(code=Damage.PRUNE_WITHOUT_RESULT, place="record", meaning="a prune that no shorter result follows",
        consequence=Consequence.NO_FOLD, mend=_ASIDE),
    Row(code=Damage.SHADOW_DIFFERS, place="record", meaning="a summary or prune names other messages than its range holds",
        consequence=Consequence.REFUSED, mend="named anew from the range, or set aside"),
    # Others
    Row(code=Damage.TITLE_WRONG, place="record", meaning="a title cites what no human wrote",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.DELIVERY_WRONG, place="record", meaning="a delivery of another session, or of what was not there yet",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    Row(code=Damage.PAIR_BROKEN, place="record", meaning="the end of a command, retry or dispatch has no start",
        consequence=Consequence.REFUSED, mend=_ASIDE),
    # Warnings
    Row(code=Damage.TURN_OPEN, place="tail", meaning="the log ends in an open turn",
        consequence=Consequence.CLOSED_LATER, mend=_CLOSE, severity=Severity.WARNING),
    Row(code=Damage.CALL_OPEN, place="tail", meaning="the log ends while a call waits for its result",
        consequence=Consequence.CLOSED_LATER, mend=_CLOSE, severity=Severity.WARNING),
    Row(code=Damage.BRACKET_OPEN, place="tail", meaning="the log ends in an open compaction",
        consequence=Consequence.IN_THE_WAY, mend="ended, with an error", severity=Severity.WARNING),
    Row(code=Damage.BRACKET_STALE, place="record", meaning="a compaction whose process died before its end",
        consequence=Consequence.NONE, mend=None, severity=Severity.WARNING),
    Row(code=Damage.PRUNE_UNANNOUNCED, place="record", meaning="a shorter result with no prune directly before it",
        consequence=Consequence.WRONG_FIGURE, mend=None, severity=Severity.WARNING),
    Row(code=Damage.PRICE_DIFFERS, place="record", meaning="shadowedTokenCount is not the price of what was replaced",
        consequence=Consequence.WRONG_FIGURE, mend=None, severity=Severity.WARNING),
)  # fmt: skip

TABLE: Final = {row.code: row for row in ROWS}


class Finding(Struct, frozen=True, kw_only=True):
    """One place where a log breaks a rule.

    `line` counts from 1, `seq` is what the record claims, `byte` the offset in the file of its line or
    frame; each None where there is none.
    """

    code: Damage
    message: str
    consequence: str
    line: int | None = None
    seq: int | None = None
    byte: int | None = None

    @property
    def severity(self) -> Severity:
        """Whether it fails a check."""
        return TABLE[self.code].severity

    @property
    def repairable(self) -> bool:
        """Whether `repair` can mend its kind."""
        return TABLE[self.code].mend is not None
