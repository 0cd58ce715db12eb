"""What can be wrong with a log: one table, a row a code, in a user's words.

`dshc verify` reports by it, `dshc repair` works by it, the README shows it. What the harness does
with each kind of damage was tried on release 0.2.1 (format 4). The table knows no file and finds
nothing.
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
        "the harness refuses to open the session; where no turn ends behind it, it opens it and"
        " cuts off everything from here on"
    )
    REFUSED = "the harness refuses to open the session"
    REQUESTS_REFUSED = "the session opens, and the provider refuses every request"
    NO_FOLD = "the session opens, and nothing was replaced"
    WRONG_FIGURE = "the session opens; a figure in it is wrong"
    UNREADABLE = "nobody can read what stands there"
    CLOSED_LATER = "none: the harness closes it when it resumes the session"
    IN_THE_WAY = "the harness compacts again only after the next resume"
    NONE = "none: readers pass it over"


class Row(Struct, frozen=True):
    """One kind of damage: where it shows, what it means, what follows, how `repair` mends it.

    `mend` is None where nothing can be done without inventing what is not known.
    """

    code: Damage
    place: str
    meaning: str
    consequence: Consequence
    mend: str | None
    severity: Severity = Severity.DAMAGE


_ASIDE: Final = "set aside"
_OMIT: Final = "the key is left out"
_RENUMBER: Final = "renumbered, with every reference to it"
_CLOSED: Final = "closed the way the harness closes an interrupted turn"
_CLOSE: Final = "what is open is closed as the harness does, or set aside"
_START: Final = "a start that was lost is written again, or set aside"

ROWS: Final = (
    # The bytes
    Row(
        Damage.TORN_LINE,
        "tail",
        "the last line was never finished",
        Consequence.LOST_TAIL,
        "kept where only its end is missing, else cut off",
    ),
    Row(
        Damage.TORN_FRAME,
        "tail",
        "the last frame was never finished",
        Consequence.LOST_TAIL,
        "whole lines in it are kept, the rest is cut off",
    ),
    Row(
        Damage.BAD_CHECKSUM,
        "frame",
        "a frame's content is not what was written",
        Consequence.UNREADABLE,
        _ASIDE,
    ),
    Row(
        Damage.NOT_ZSTD,
        "frame",
        "no whole frame stands where one must",
        Consequence.UNREADABLE,
        _ASIDE,
    ),
    Row(Damage.NOT_JSON, "line", "the line is empty or no JSON", Consequence.CUT, _ASIDE),
    Row(
        Damage.NOT_UTF8,
        "line",
        "the line is not UTF-8",
        Consequence.WRONG_FIGURE,
        "read as the harness reads it, with U+FFFD",
    ),
    Row(
        Damage.TOO_LARGE,
        "line",
        "a record or frame beyond every limit",
        Consequence.UNREADABLE,
        _ASIDE,
    ),
    Row(Damage.TOO_DEEP, "line", "JSON nested too deep to be read", Consequence.UNREADABLE, _ASIDE),
    # The header
    Row(
        Damage.HEADER_MISSING,
        "header",
        "the first record is no session header",
        Consequence.REFUSED,
        None,
    ),
    Row(
        Damage.HEADER_WRONG,
        "header",
        "a field of the header is missing or wrong",
        Consequence.REFUSED,
        None,
    ),
    Row(
        Damage.HEADER_UNKNOWN_KEY,
        "header",
        "the header has a key that nobody knows",
        Consequence.REFUSED,
        _OMIT,
    ),
    Row(
        Damage.HEADER_ID_DIFFERS,
        "header",
        "the folder has another name than the session",
        Consequence.REFUSED,
        None,
    ),
    Row(
        Damage.UNSUPPORTED_FORMAT,
        "header",
        "a format that was never released, or a newer one",
        Consequence.REFUSED,
        None,
    ),
    Row(
        Damage.SEED_WRONG,
        "record",
        "inherited events and the header's isSeeded disagree",
        Consequence.REFUSED,
        None,
    ),
    # One record
    Row(
        Damage.RECORD_WRONG,
        "record",
        "seq, time or another field beside the data is missing or wrong",
        Consequence.CUT,
        _ASIDE,
    ),
    Row(
        Damage.DATA_WRONG,
        "record",
        "the data is not what the type of event demands",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.RECORD_UNKNOWN_KEY,
        "record",
        "a key beside type, seq, time and data that nobody knows",
        Consequence.CUT,
        _OMIT,
    ),
    Row(
        Damage.PACKED_ROW_UNEQUAL,
        "record",
        "the lists of a packed row do not fit together",
        Consequence.CUT,
        _ASIDE,
    ),
    Row(
        Damage.UNKNOWN_EVENT,
        "record",
        "an unknown type, not marked ignorable",
        Consequence.REFUSED,
        None,
    ),
    # Seqs
    Row(Damage.SEQ_GAP, "record", "events are missing", Consequence.CUT, _RENUMBER),
    Row(
        Damage.SEQ_REPEATED,
        "record",
        "two processes gave the same number",
        Consequence.CUT,
        "renumbered like that; a mere copy is set aside",
    ),
    Row(
        Damage.SEQ_BACKWARDS,
        "record",
        "a resumed process had not read the last events",
        Consequence.CUT,
        _RENUMBER,
    ),
    # The surface
    Row(
        Damage.SURFACE_OP_MISSING,
        "record",
        "a message does not say what it does to the surface",
        Consequence.REFUSED,
        "an append where it names no sources, else set aside",
    ),
    Row(
        Damage.SURFACE_OP_FORBIDDEN,
        "record",
        "an event that is no message claims a place on the surface",
        Consequence.REFUSED,
        "the field is left out",
    ),
    Row(
        Damage.SURFACE_OP_WRONG,
        "record",
        "surfaceOp is neither append nor a replace",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.RANGE_NOT_ON_SURFACE,
        "record",
        "what is to be replaced is not on the surface",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.RANGE_BACKWARDS,
        "record",
        "the replaced range ends before it starts",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.SOURCES_INCOMPLETE,
        "record",
        "sourceEventSeqs leaves out what is replaced",
        Consequence.REFUSED,
        "completed from the range",
    ),
    Row(
        Damage.SOURCES_REPEATED,
        "record",
        "sourceEventSeqs names an event twice, or none",
        Consequence.REFUSED,
        "each named once",
    ),
    Row(
        Damage.SOURCES_LATER,
        "record",
        "sourceEventSeqs names an event that was not there yet",
        Consequence.REFUSED,
        "left out",
    ),
    Row(
        Damage.RESULT_REPLACES_OTHER,
        "record",
        "a tool result replaces something else",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.RESULT_CHANGED,
        "record",
        "a pruned result changes more than its content",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.SYSTEM_FOLDED,
        "record",
        "the system prompt was folded away",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.SYSTEM_MISPLACED,
        "record",
        "a system message behind a head that is none",
        Consequence.REFUSED,
        _ASIDE,
    ),
    # Messages
    Row(
        Damage.MESSAGE_WITHOUT_ID, "record", "a message has no id", Consequence.REFUSED, "given one"
    ),
    Row(
        Damage.MESSAGE_WRONG,
        "record",
        "role, source or a block is not what the type of event demands",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.CHECKPOINT_SOURCE_WRONG,
        "record",
        "a checkpoint names itself as another format does",
        Consequence.REFUSED,
        "named as this format does",
    ),
    Row(
        Damage.REQUEST_HEADER_WRONG,
        "record",
        "a request header that no request can be made with",
        Consequence.REFUSED,
        _ASIDE,
    ),
    # Turns, steps, calls
    Row(
        Damage.TURN_UNBALANCED,
        "record",
        "a turn starts inside another, or ends without a start",
        Consequence.REFUSED,
        _CLOSE,
    ),
    Row(
        Damage.TURN_MISCOUNTED,
        "record",
        "turns do not count 1, 2, 3",
        Consequence.REFUSED,
        _RENUMBER,
    ),
    Row(
        Damage.STEP_UNBALANCED,
        "record",
        "a step starts inside another, or ends without a start",
        Consequence.REFUSED,
        _CLOSE,
    ),
    Row(
        Damage.STEP_MISCOUNTED,
        "record",
        "steps do not count 1, 2, 3 in their turn",
        Consequence.REFUSED,
        _RENUMBER,
    ),
    Row(
        Damage.OUTSIDE_TURN,
        "record",
        "an event of a turn while none is open",
        Consequence.REFUSED,
        _START,
    ),
    Row(
        Damage.OUTSIDE_STEP,
        "record",
        "an event of a step outside that step",
        Consequence.REFUSED,
        _START,
    ),
    Row(
        Damage.CALL_DIFFERS,
        "record",
        "a call was started that the model did not ask for",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.CALL_ID_REPEATED,
        "record",
        "a call's id is used again while it waits",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.RESULT_WITHOUT_CALL,
        "record",
        "a result answers no call that was started",
        Consequence.REFUSED,
        _START,
    ),
    Row(
        Damage.CALL_WITHOUT_RESULT,
        "record",
        "a step or turn ends and a call has no result",
        Consequence.REFUSED,
        _CLOSED,
    ),
    Row(
        Damage.RESULT_PARTED,
        "record",
        "a result is on the surface, its call was folded away",
        Consequence.REQUESTS_REFUSED,
        "its content stays, as a user's message",
    ),
    Row(
        Damage.CALL_PARTED,
        "record",
        "a call is on the surface, its result was folded away",
        Consequence.REQUESTS_REFUSED,
        None,
    ),
    # Compactions
    Row(
        Damage.BRACKET_NESTED,
        "record",
        "a compaction starts inside another",
        Consequence.REFUSED,
        "the first is ended, with an error",
    ),
    Row(
        Damage.BRACKET_TURN_WRONG,
        "record",
        "a compaction names another turn than the open one",
        Consequence.REFUSED,
        "corrected, or set aside",
    ),
    Row(
        Damage.BRACKET_ID_WRONG,
        "record",
        "an event of a compaction that is not open",
        Consequence.REFUSED,
        _START,
    ),
    Row(
        Damage.BRACKET_CROSSES_TURN,
        "record",
        "a turn starts or ends inside a compaction",
        Consequence.REFUSED,
        "the compaction is ended first, with an error",
    ),
    Row(
        Damage.BRACKET_EMPTY,
        "record",
        "a compaction ends well without a summary",
        Consequence.REFUSED,
        "it ends with an error",
    ),
    Row(
        Damage.SUMMARY_REPEATED,
        "record",
        "a second summary in one compaction",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.SUMMARY_MISSING,
        "record",
        "a checkpoint with no summary directly before it",
        Consequence.REFUSED,
        "written again from its message, or set aside",
    ),
    Row(
        Damage.SUMMARY_WITHOUT_REPLACEMENT,
        "record",
        "a summary that no checkpoint follows",
        Consequence.NO_FOLD,
        _ASIDE,
    ),
    Row(
        Damage.PRUNE_WITHOUT_RESULT,
        "record",
        "a prune that no shorter result follows",
        Consequence.NO_FOLD,
        _ASIDE,
    ),
    Row(
        Damage.SHADOW_DIFFERS,
        "record",
        "a summary or prune names other messages than its range holds",
        Consequence.REFUSED,
        "named anew from the range, or set aside",
    ),
    # Records that cite others
    Row(
        Damage.TITLE_WRONG,
        "record",
        "a title cites what no human wrote",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.DELIVERY_WRONG,
        "record",
        "a delivery of another session, or of what was not there yet",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.PAIR_BROKEN,
        "record",
        "the end of a command, retry or dispatch has no start",
        Consequence.REFUSED,
        _ASIDE,
    ),
    Row(
        Damage.INBOX_WRONG,
        "record",
        "the list of waiting messages changes in a way that it can't",
        Consequence.REFUSED,
        _ASIDE,
    ),
    # Warnings
    Row(
        Damage.TURN_OPEN,
        "tail",
        "the log ends in an open turn",
        Consequence.CLOSED_LATER,
        _CLOSED,
        Severity.WARNING,
    ),
    Row(
        Damage.CALL_OPEN,
        "tail",
        "the log ends while a call waits for its result",
        Consequence.CLOSED_LATER,
        _CLOSED,
        Severity.WARNING,
    ),
    Row(
        Damage.BRACKET_OPEN,
        "tail",
        "the log ends in an open compaction",
        Consequence.IN_THE_WAY,
        "ended, with an error",
        Severity.WARNING,
    ),
    Row(
        Damage.BRACKET_STALE,
        "record",
        "a compaction whose process died before its end",
        Consequence.NONE,
        None,
        Severity.WARNING,
    ),
    Row(
        Damage.PRUNE_UNANNOUNCED,
        "record",
        "a shorter result with no prune directly before it",
        Consequence.WRONG_FIGURE,
        None,
        Severity.WARNING,
    ),
    Row(
        Damage.PRICE_DIFFERS,
        "record",
        "shadowedTokenCount is not the price of what was replaced",
        Consequence.WRONG_FIGURE,
        None,
        Severity.WARNING,
    ),
)

TABLE: Final = {row.code: row for row in ROWS}


class Finding(Struct, frozen=True, kw_only=True):
    """One place where a log breaks a rule.

    `line` counts from 1, `seq` is what the record claims, `byte` the offset in the file of its line
    or frame; each None where there is none.
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
