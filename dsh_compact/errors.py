"""Every error that the project raises on purpose: whose fault it is, and what to do next.

An error knows its facts as attributes and speaks them as one sentence: where, what, what to do. Its
class carries the exit code of the command line. Whatever else escapes is a bug of ours and keeps
its traceback. This module knows nothing of files, JSON or terminals.
"""

from enum import StrEnum
from typing import ClassVar, Final


class Damage(StrEnum):
    """The stable codes of everything that can be wrong with a log, as `dshc verify` prints them."""

    TORN_LINE = "torn-line"
    TORN_FRAME = "torn-frame"
    BAD_CHECKSUM = "bad-checksum"
    NOT_ZSTD = "bad-frame"
    NOT_JSON = "not-json"
    NOT_UTF8 = "not-utf8"
    TOO_LARGE = "too-large"
    TOO_DEEP = "too-deep"
    HEADER_MISSING = "header-missing"
    HEADER_WRONG = "header-wrong"
    HEADER_UNKNOWN_KEY = "header-unknown-key"
    HEADER_ID_DIFFERS = "header-id-differs"
    UNSUPPORTED_FORMAT = "unsupported-format"
    SEED_WRONG = "seed-wrong"
    RECORD_WRONG = "record-wrong"
    DATA_WRONG = "data-wrong"
    RECORD_UNKNOWN_KEY = "record-unknown-key"
    PACKED_ROW_UNEQUAL = "packed-row-unequal"
    UNKNOWN_EVENT = "unknown-event"
    SEQ_GAP = "seq-gap"
    SEQ_REPEATED = "seq-repeated"
    SEQ_BACKWARDS = "seq-backwards"
    SURFACE_OP_MISSING = "surface-op-missing"
    SURFACE_OP_FORBIDDEN = "surface-op-forbidden"
    SURFACE_OP_WRONG = "surface-op-wrong"
    RANGE_NOT_ON_SURFACE = "range-not-on-surface"
    RANGE_BACKWARDS = "range-backwards"
    SOURCES_INCOMPLETE = "sources-incomplete"
    SOURCES_REPEATED = "sources-repeated"
    SOURCES_LATER = "sources-later"
    RESULT_REPLACES_OTHER = "result-replaces-other"
    RESULT_CHANGED = "result-changed"
    SYSTEM_FOLDED = "system-folded"
    SYSTEM_MISPLACED = "system-misplaced"
    MESSAGE_WITHOUT_ID = "message-without-id"
    MESSAGE_WRONG = "message-wrong"
    CHECKPOINT_SOURCE_WRONG = "checkpoint-source-wrong"
    REQUEST_HEADER_WRONG = "request-header-wrong"
    TURN_UNBALANCED = "turn-unbalanced"
    TURN_MISCOUNTED = "turn-miscounted"
    TURN_OPEN = "turn-open"
    STEP_UNBALANCED = "step-unbalanced"
    STEP_MISCOUNTED = "step-miscounted"
    OUTSIDE_TURN = "outside-turn"
    OUTSIDE_STEP = "outside-step"
    CALL_DIFFERS = "call-differs"
    CALL_ID_REPEATED = "call-id-repeated"
    CALL_WITHOUT_RESULT = "call-without-result"
    CALL_PARTED = "call-parted"
    CALL_OPEN = "call-open"
    RESULT_WITHOUT_CALL = "result-without-call"
    RESULT_PARTED = "result-parted"
    BRACKET_OPEN = "bracket-open"
    BRACKET_STALE = "bracket-stale"
    BRACKET_NESTED = "bracket-nested"
    BRACKET_TURN_WRONG = "bracket-turn-wrong"
    BRACKET_ID_WRONG = "bracket-id-wrong"
    BRACKET_CROSSES_TURN = "bracket-crosses-turn"
    BRACKET_EMPTY = "bracket-empty"
    SUMMARY_REPEATED = "summary-repeated"
    SUMMARY_MISSING = "summary-missing"
    SUMMARY_WITHOUT_REPLACEMENT = "summary-without-replacement"
    PRUNE_WITHOUT_RESULT = "prune-without-result"
    PRUNE_UNANNOUNCED = "prune-unannounced"
    SHADOW_DIFFERS = "shadow-differs"
    PRICE_DIFFERS = "price-differs"
    TITLE_WRONG = "title-wrong"
    DELIVERY_WRONG = "delivery-wrong"
    PAIR_BROKEN = "pair-broken"
    INBOX_WRONG = "inbox-wrong"


NO_MEMORY: Final = "there is not enough memory"
MORE_MEMORY: Final = "let other programs end, or raise the limit"


class DshcError(Exception):
    """What every error of the project is; never raised itself."""

    exit_code: ClassVar[int] = 1


class UsageError(DshcError):
    """The caller asked for something that cannot be: a wrong option, name or configuration."""

    exit_code: ClassVar[int] = 2

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        """`problem; remedy`."""
        return _sentence(self.problem, self.remedy)


class RuleBroken(DshcError):
    """One record breaks a rule of the format; raised where only the record is known, not its file.

    `line` and `events` (those read before it in the same batch) are added where they are known;
    `remedy` is empty where nothing can be done but to look closer.
    """

    exit_code: ClassVar[int] = 4

    def __init__(
        self, damage: Damage, problem: str, seq: int | None = None, remedy: str = ""
    ) -> None:
        super().__init__(damage, problem, seq, remedy)
        self.damage = damage
        self.problem = problem
        self.seq = seq
        self.remedy = remedy
        self.line: int | None = None
        self.events: tuple[object, ...] = ()

    def __str__(self) -> str:
        """`seq 12: problem`."""
        return self.problem if self.seq is None else f"seq {self.seq}: {self.problem}"


class NotAdmitted(UsageError):
    """A record that was to be appended breaks a rule: nothing was written."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy or "nothing was written: put it right, then try again")


class LogError(DshcError):
    """The log at `path` cannot be used as it is; `line` counts from 1, `seq` names the event."""

    exit_code: ClassVar[int] = 4

    def __init__(
        self,
        path: str,
        problem: str,
        *,
        line: int | None = None,
        seq: int | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(path, problem, line, seq, remedy)
        self.path = path
        self.problem = problem
        self.line = line
        self.seq = seq
        self.remedy = remedy

    def __str__(self) -> str:
        """`session.jsonl: line 7 (seq 12): problem; remedy`."""
        where = self.path
        if self.line is not None:
            where += f": line {self.line}"
        if self.seq is not None:
            where += f" (seq {self.seq})"
        return f"{where}: {_sentence(self.problem, self.remedy)}"


class DamagedLog(LogError):
    """A record inside the log breaks a rule; `damage` is its stable code."""

    def __init__(
        self,
        path: str,
        damage: Damage,
        problem: str,
        *,
        line: int | None = None,
        seq: int | None = None,
        remedy: str = "",
    ) -> None:
        look = f'run "dshc verify {path}"' if path != "-" else 'save it and run "dshc verify"'
        remedy = remedy or look
        super().__init__(path, problem, line=line, seq=seq, remedy=remedy)
        self.damage = damage


class UnsupportedLog(LogError):
    """The file is no session log, or one of a format that was never released."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem, remedy="if a newer harness wrote it, look for a newer dshc")


class UnreadableLog(LogError):
    """The system does not let us read or write the log."""

    def __init__(self, path: str, problem: str, *, remedy: str = "") -> None:
        super().__init__(path, problem, remedy=remedy or "check its name and permissions")


class ShortOfMemory(LogError):
    """The system gives us no more memory, and reading the log takes more."""

    def __init__(self, path: str) -> None:
        super().__init__(path, NO_MEMORY, remedy=MORE_MEMORY)


class OwnedLog(LogError):
    """Another live process may write to the log: it holds the lock; `owner` names it, if known."""

    def __init__(self, path: str, lock_path: str, owner: str | None) -> None:
        who = f"process {owner}" if owner else "another process"
        super().__init__(
            path,
            f"{who} holds {lock_path} and may write at any moment",
            remedy="let it end (or close its session), then try again",
        )
        self.lock_path = lock_path
        self.owner = owner


class ForeignAppend(LogError):
    """Somebody else changed the log's end after it was read: nothing was written."""


class WriteFailed(LogError):
    """The disk refused a write or a flush; the log was cut back to its last good end."""


class BackendFailed(DshcError):
    """A compaction backend or a summarizer failed where nothing else decides."""

    exit_code: ClassVar[int] = 5

    def __init__(self, backend: str, problem: str, remedy: str = "") -> None:
        super().__init__(backend, problem, remedy)
        self.backend = backend
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        """`backend NAME: problem; remedy`."""
        return f"backend {self.backend}: {_sentence(self.problem, self.remedy)}"


def _sentence(problem: str, remedy: str) -> str:
    return f"{problem}; {remedy}" if remedy else problem
