"""The fold that judges a log: a line in, its findings out. It knows no file.

Behind damage the log is read as `repair` would mend it: a stretch that is lost is passed over,
events whose seqs are wrong get the numbers that they should have had.
"""

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from dsh_compact import tokens
from dsh_compact.codec import Identity
from dsh_compact.codec.audit import Audited, audit, audit_header
from dsh_compact.codec.foreign import HEAD_BYTES, Foreign, seen
from dsh_compact.codec.renumber import renumber
from dsh_compact.codec.splice import as_utf8
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import FORMATS, Place, SurfaceChange
from dsh_compact.reader import SESSION_FILES, Batch
from dsh_compact.surface import Node, Surface
from dsh_compact.verify.damage import TABLE, Consequence, Finding, Severity
from dsh_compact.verify.rules import Breach, Rules, View
from dsh_compact.verify.salvage import Lost
from dsh_compact.verify.writers import Arrival, Arrived, Copies, Writers

MAX_FINDINGS: Final = 1_000
"""So many findings are told one by one; what more there are is counted. Nobody reads them all."""

COPY: Final = "the same record stands there twice"

NO_RECORD: Final = "and nothing in the file is a record; name another file"
"""What is added to the beginning of such a file, where that doesn't say what to do."""

_WITHOUT_RECORDS: Final = frozenset(
    {
        Damage.HEADER_MISSING,
        Damage.TORN_FRAME,
        Damage.BAD_CHECKSUM,
        Damage.NOT_ZSTD,
        Damage.TOO_LARGE,
    }
)
"""What is told of a file in which nothing is a record: its beginning, and what nobody can read."""

_SHORTEST_CUT: Final = 2
_LATEST_MS: Final = 2**62


class Report(Struct, frozen=True, kw_only=True):
    """What a log was found to be; `format` and `session_id` are None where no header says so.

    `findings` are damage and `warnings` are not, each in the order of the log; `untold` counts
    those beyond `MAX_FINDINGS`. `lines` counts the header too.
    """

    path: str
    format: int | None
    session_id: str | None
    lines: int
    events: int
    generation: int
    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    untold: int = 0

    @property
    def ok(self) -> bool:
        """Whether no damage was found."""
        return not self.findings


class Inspector:
    """The fold over a log's lines, in order; see `feed`, `lose` and `report`."""

    def __init__(self, read: Callable[[Place], bytes]) -> None:
        """`read` gives the record at a place again; only results that are pruned are asked for."""
        self._read = read
        self._version: int | None = None
        self._session_id: str | None = None
        self._header_line: int | None = None
        self._writers = Writers()
        self._surface = Surface()
        self._rules: Rules | None = None
        self._prices: dict[int, int] = {}
        self._times = array("q")
        self._copies = Copies()
        self._findings: list[Finding] = []
        self._untold = 0
        self._lost_lines = 0
        self._lost_frame = False
        self._last_turn_end_line = 0
        self._header_missing = False
        self._beginning: Foreign | None = None  # what stands where a header must
        self._newest_type = ""
        self.lines = 0

    # In -------------------------------------------------------------------------------------------

    def feed_batch(self, batch: Batch) -> None:
        """Whole lines, the next of the log."""
        start = batch.start_bytes
        for line in batch.lines:
            self.feed(line, Place(batch.frame_bytes, start, len(line)))
            start += len(line) + 1

    def feed(self, line: bytes, place: Place) -> None:
        """One line, the next of the log; of a file that is none, no line is judged."""
        self.lines += 1
        if self._is_foreign:
            return
        if self._version is None and self._begin(line, place):
            return
        self._take(line, place)

    def lose(self, lost: Lost) -> None:
        """A stretch that gives no lines."""
        if self._version is None and lost.damage is Damage.TORN_LINE:
            head = self._read(Place(-1, lost.start_bytes, HEAD_BYTES))
            self._begin_without(head, "its first line was never finished", lost.start_bytes)
        if self._is_foreign:
            return
        self._add(lost.damage, lost.problem, line=self.lines + 1, byte=lost.start_bytes)
        self._lost_frame = True

    # The header -----------------------------------------------------------------------------------

    def _begin(self, line: bytes, place: Place) -> bool:
        """Takes the first line; returns whether it is a header, right or wrong, or no log's."""
        header, version, faults = audit_header(line)
        if header is None and dict(faults).get(Damage.HEADER_MISSING) is not None:
            head = self._read(Place(place.frame_bytes, place.start_bytes, HEAD_BYTES))
            self._begin_without(head, dict(faults)[Damage.HEADER_MISSING], place.byte)
            return self._is_foreign or audit(line, FORMATS[-1], self.lines).seq is None
        for damage, problem in faults:
            self._add(damage, problem, line=self.lines, byte=place.byte)
        if header is not None and version is not None:
            self._version, self._session_id = version, header.id
            self._header_line = self.lines
            self._rules = Rules(header, version)
            return True
        self._judge_by_newest()
        return audit(line, FORMATS[-1], self.lines).seq is None

    def _begin_without(self, head: bytes | None, problem: str, byte: int) -> None:
        """No header stands at that byte: tells what the file is, where its beginning shows that."""
        if head is not None:
            self._beginning = seen(head) or Foreign(problem, "", is_whole=False)
            problem = "; ".join(filter(None, (self._beginning.what, self._beginning.remedy)))
        self._add(Damage.HEADER_MISSING, problem, line=max(self.lines, 1), byte=byte)
        self._judge_by_newest()

    @property
    def _is_foreign(self) -> bool:
        return self._beginning is not None and self._beginning.is_whole

    def _judge_by_newest(self) -> None:
        """What follows is judged as if the newest format had been named."""
        self._version = FORMATS[-1]
        self._header_missing = True
        self._rules = Rules(None, self._version)

    # Events ---------------------------------------------------------------------------------------

    def _take(self, line: bytes, place: Place) -> None:
        assert self._version is not None
        record = audit(line, self._version, self.lines, place)
        if record.faults and record.faults[0][0] is Damage.NOT_UTF8:
            self._add_at(record, *record.faults[0])
            line = as_utf8(line)
            record = audit(line, self._version, self.lines, place)
        claimed = record.seq
        if record.type == "turn/end":
            self._last_turn_end_line = self.lines
        if claimed is None:
            for damage, problem in record.faults:
                self._add(damage, problem, line=self.lines, byte=place.byte)
            self._lost_lines += 1
            return
        if self._copies.has(record, line, self._writers):
            self._add_at(record, Damage.SEQ_REPEATED, f"seq {claimed} again: {COPY}")
            return
        arrived = self._writers.arrive(record)
        if arrived is None:
            self._add_at(record, Damage.SEQ_REPEATED, f"seq {claimed} again, one fork too many")
            return
        self._judge_seq(record, arrived)
        self._copies.add(record, line)
        self._note(record)
        self._newest_type = record.type
        if not self._writers.is_identity:
            record = self._renumbered(line, record, arrived)
        for damage, problem in record.faults:
            self._add_at(record, damage, problem)
        self._fold(record)

    def _renumbered(self, line: bytes, record: Audited, arrived: Arrived) -> Audited:
        """The record as it would stand in a log whose numbers are right."""
        assert self._version is not None
        if record.event is None:
            return structs.replace(record, seq=arrived.seq)
        moved = renumber(line, self._version, arrived.seq, self._writers.resolve)
        again = audit(moved, self._version, record.line, record.place)
        return structs.replace(again, claimed_seq=record.claimed_seq, faults=record.faults)

    def _fold(self, record: Audited) -> None:
        assert self._rules is not None
        found = self._rules.judge(record, View(self._surface, self._price))
        if isinstance(record.event, SurfaceChange):
            try:
                self._surface = self._surface.extend(record.event, self._recall)
            except RuleBroken as fault:
                if fault.damage not in dict(record.faults):
                    found.insert(0, Breach(record, fault.damage, fault.problem))
        if record.message is not None:
            self._prices[record.message.seq] = tokens.price_message(record.message.message)
        for breach in (*found, *self._rules.accept(record)):
            self._add_breach(breach)

    def _price(self, node: Node) -> int | None:
        return self._prices.get(node.seq)

    def _recall(self, node: Node) -> Identity:
        return Identity(self._read(node.place))

    # Seqs -----------------------------------------------------------------------------------------

    def _judge_seq(self, record: Audited, arrived: Arrived) -> None:
        claimed, expected = record.seq, arrived.expected_seq
        assert claimed is not None
        lost, self._lost_lines = self._lost_lines, 0
        frame, self._lost_frame = self._lost_frame, False
        if arrived.kind is Arrival.GAP:
            if not frame and claimed - expected != lost:
                missing = "" if claimed == expected + 1 else f"–{claimed - 1}"
                problem = f"seq {expected}{missing} missing: {claimed} comes next"
                self._add_at(record, Damage.SEQ_GAP, problem)
        elif arrived.kind is Arrival.FORK:
            self._judge_fork(record, claimed, expected)

    def _judge_fork(self, record: Audited, claimed: int, expected: int) -> None:
        back = expected - claimed
        resumed = self._newest_type == "session/end-seed"
        if back >= _SHORTEST_CUT and (resumed or record.type == "session/end-seed"):
            problem = f"seq falls back by {back} after a resume, to {claimed}: the last events were"
            self._add_at(record, Damage.SEQ_BACKWARDS, f"{problem} not read by who goes on")
            return
        problem = f"seq {claimed} again, where {expected} must come{self._apart(record)}"
        self._add_at(record, Damage.SEQ_REPEATED, problem)

    def _apart(self, record: Audited) -> str:
        """When the two that gave the same number wrote, as far as their records tell."""
        first = next(iter(self._writers.all_of(record.seq or 0)), None)
        if first is None or first >= len(self._times) or record.time_ms is None:
            return ""
        apart = (record.time_ms - self._times[first]) / 1000
        return f": two processes wrote, the second one's event is {apart:+.3f} s from the first's"

    def _note(self, record: Audited) -> None:
        time = max(min(record.time_ms or 0, _LATEST_MS), -_LATEST_MS)
        if record.count == 1:
            self._times.append(time)
        else:
            self._times.extend([time] * record.count)

    # Out ------------------------------------------------------------------------------------------

    def report(self, path: str) -> Report:
        """All that was found; nothing can be fed afterwards."""
        if self._version is None:
            head = None if self._lost_frame else b""
            self._begin_without(head, "there is no whole record", 0)
        elif self._rules is not None:
            for breach in self._rules.end(View(self._surface, self._price)):
                self._add_breach(breach)
            if self._rules.citations.lacks_inherited:
                problem = "the header says that events are inherited, and none is marked so"
                self._add(Damage.SEED_WRONG, problem, line=self._header_line, byte=0)
        if self._beginning is not None and not self._writers.next_seq:
            self._tell_in_one(self._beginning)
        self._judge_folder(path)
        told = self._with_consequences()
        return Report(
            path=path,
            format=None if self._header_missing else self._version,
            session_id=self._session_id,
            lines=self.lines,
            events=self._writers.next_seq,
            generation=self._surface.replace_generation,
            findings=tuple(x for x in told if x.severity is Severity.DAMAGE),
            warnings=tuple(x for x in told if x.severity is Severity.WARNING),
            untold=self._untold,
        )

    def _tell_in_one(self, beginning: Foreign) -> None:
        """Of a file in which nothing is a record, no line is blamed for being none."""
        kept = [x for x in self._findings if x.code in _WITHOUT_RECORDS]
        if len(kept) < len(self._findings):
            self._findings, self._untold = kept, 0
        if not beginning.remedy:
            words = f"{beginning.what}, {NO_RECORD}"
            self._findings = [
                structs.replace(x, message=words) if x.code is Damage.HEADER_MISSING else x
                for x in kept
            ]

    def _judge_folder(self, path: str) -> None:
        """In the harness's own folders, the session's folder bears its id."""
        if Path(path).name not in SESSION_FILES:
            return
        log = Path(path).absolute()
        project, named = log.parent.parent.name, log.parent.name
        kept = project.startswith("--") and project.endswith("--")
        if kept and self._session_id not in (None, named):
            problem = f"the header names the session {self._session_id!r:.60}, the folder {named!r}"
            self._add(Damage.HEADER_ID_DIFFERS, problem, line=self._header_line, byte=0)

    def _add_breach(self, breach: Breach) -> None:
        self._add_at(breach.record, breach.damage, breach.problem)

    def _add_at(self, record: Audited, damage: Damage, problem: str) -> None:
        byte = record.place.byte
        self._add(damage, problem, line=record.line, seq=record.claimed_seq, byte=byte)

    def _add(
        self,
        damage: Damage,
        problem: str,
        *,
        line: int | None,
        byte: int | None,
        seq: int | None = None,
    ) -> None:
        if len(self._findings) >= MAX_FINDINGS:
            self._untold += 1
            return
        finding = Finding(
            code=damage, message=problem, consequence="", line=line, seq=seq, byte=byte
        )
        self._findings.append(finding)

    def _with_consequences(self) -> list[Finding]:
        """In the log's order, each with what it means for this log."""
        findings = sorted(self._findings, key=_order)
        cut = next((x.line for x in findings if self._is_cut(x)), None)
        return [structs.replace(x, consequence=self._consequence(x, cut)) for x in findings]

    def _is_cut(self, finding: Finding) -> bool:
        """Whether the harness ends its reading there and goes on without the rest."""
        return (
            not self._header_missing  # else it opens nothing at all
            and TABLE[finding.code].consequence is Consequence.CUT
            and finding.line is not None
            and finding.line > self._last_turn_end_line
        )

    def _consequence(self, finding: Finding, cut_line: int | None) -> str:
        consequence = TABLE[finding.code].consequence
        if cut_line is not None and finding.line is not None and finding.line >= cut_line:
            count = self.lines - cut_line + 1
            dropped = "the last record" if count == 1 else f"the last {count} records"
            return f"the harness opens the session and drops {dropped} without a word"
        return str(Consequence.REFUSED if consequence is Consequence.CUT else consequence)


def _order(finding: Finding) -> tuple[int, int]:
    return (finding.line or 0, finding.byte or 0)
