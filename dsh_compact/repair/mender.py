"""Mending, one line after the other: what can be kept is kept, under the right numbers.

`Mender` is a fold over the lines of a damaged log, in the order in which they are to stand (see
`unweave`). It admits a line only where no rule forbids it, so what comes out breaks none. A line
that is not admitted is given to the remedy for its damage (see `remedies`), which may change what
says nothing (numbers, names of an old format), or put records before it that close what is open,
as the harness does; a line that no remedy helps is set aside, with the reason. It knows no file.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from msgspec import Struct, structs

from dsh_compact import tokens
from dsh_compact.codec import Identity, decode_surface_event, encode
from dsh_compact.codec.audit import Audited, audit
from dsh_compact.codec.encode import Draft
from dsh_compact.codec.renumber import renumber
from dsh_compact.errors import Damage, RuleBroken
from dsh_compact.events import (
    NOWHERE,
    CompactionPrune,
    CompactionSummary,
    Place,
    Replace,
    SessionHeader,
    SurfaceChange,
)
from dsh_compact.repair.unweave import NOBODY, Item
from dsh_compact.surface import Node, Surface
from dsh_compact.verify.damage import TABLE, Severity
from dsh_compact.verify.rules import Breach, Call, Rules, View
from dsh_compact.verify.rules.brackets import Saved
from dsh_compact.verify.writers import Chain, Runs

MAX_REMEDIES: Final = 16
"""So many remedies are tried on one line: each may uncover the next fault, none goes in circles."""

REPAIRED_SOURCE: Final = {"kind": "dsh-compact-repair"}
"""Where a message comes from that holds a result whose call was folded away."""


class Kept(NamedTuple):
    """A line of the mended log: where it stood (`NOWHERE`: we wrote it), whether it changed."""

    line: bytes
    place: Place
    is_changed: bool


class Action(Struct, frozen=True, kw_only=True):
    """Something that was done beyond renumbering; `line` and `seq` are those of the damaged log.

    `is_aside` where the line, as it stood, is to be kept beside the log.
    """

    code: Damage
    what: str
    line: int | None
    seq: int | None
    place: Place = NOWHERE
    is_aside: bool = False


class Case(Struct, kw_only=True):
    """A line under treatment: `raw` is what is left of it under its old numbers.

    `patch` is applied once it has its new ones; `own_first` says how a seq is understood that two
    processes gave, `turns` how often that was tried the other way.
    """

    item: Item
    raw: bytes
    patch: Callable[[bytes], bytes] | None = None
    own_first: bool = True
    turns: int = 0
    told: list[Damage] = []


class Trouble(NamedTuple):
    """What a remedy is asked to treat: `record` is the case as it was judged, under new numbers."""

    mender: "Mender"
    case: Case
    record: Audited
    damage: Damage


Remedy = Callable[[Trouble], bool]
"""Treats a case; False where it can't."""


class Mender:
    """The fold. `take` every line, then `finish`; both give what the mended log goes on with.

    `actions` says what was done, `renumbered` how many records got other numbers in them,
    `inserted` how many were put in.
    """

    def __init__(
        self,
        header: SessionHeader,
        chains: Sequence[Chain],
        read: Callable[[Place], bytes],
        remedies: Mapping[Damage, Remedy],
        quiet: AbstractSet[Damage],
    ) -> None:
        """`chains` are the survey's, `read` gives a line of the damaged log again; the remedies for
        `quiet` damage put no record in.
        """
        self.version = header.version
        self.rules = Rules(header, header.version)
        self.surface = Surface()
        self.next_seq = 0
        self.time_ms = header.created_at_ms or 0
        self.provider = ""
        self.actions: list[Action] = []
        self.renumbered = 0
        self.inserted = 0
        self._chains = chains
        self._runs = [Runs() for _ in chains]
        self._shifts: dict[int, Shift] = {}
        self._read = read
        self._remedies = remedies
        self._quiet = quiet
        self._prices: dict[int, int] = {}
        self._identities: dict[int, Identity] = {}
        self._written: dict[int, bytes] = {}
        self._is_orphan = False
        self._is_whole = True
        self._resolvers: dict[tuple[int, bool], Callable[[int], int | None]] = {}
        self._held: _Held | None = None
        self._out: list[Kept] = []

    # Lines in, lines out --------------------------------------------------------------------------

    def take(self, item: Item) -> list[Kept]:
        """The next line."""
        raw = self._read(item.place)
        if item.is_copy:
            self.set_aside(item, Damage.SEQ_REPEATED, "the very same record stands before")
        else:
            self._treat(Case(item=item, raw=raw, told=[]))
        return self._emptied()

    def finish(self) -> list[Kept]:
        """What is left to close once all lines are there."""
        self._let_go(None)
        self.end_bracket()
        self.close_turn()
        for breach in self.rules.end(self.view):
            if breach.damage is Damage.RESULT_PARTED:
                self._keep_content(breach.record)
        return self._emptied()

    def _emptied(self) -> list[Kept]:
        """What can be written now: all but what is held."""
        at = len(self._out) if self._held is None else self._held.at
        out, self._out = self._out[:at], self._out[at:]
        if self._held is not None:
            self._held = self._held._replace(at=0)
        return out

    # One line -------------------------------------------------------------------------------------

    def _treat(self, case: Case) -> None:
        line, record = self._renumbered(case)
        breach = self._first_breach(record)
        for _ in range(MAX_REMEDIES):
            if breach is None and (self._held is None or self._completes(record)):
                self._keep(case, line, record)
                return
            if breach is None or not self._remedy(case, record, breach):
                if self._held is None:
                    break
                self._let_go(case)  # and judge anew
            line, record = self._renumbered(case)
            breach = self._first_breach(record)
        assert breach is not None, "what breaks nothing was kept"
        self._lose(case, record, breach.damage, breach.problem)

    def _remedy(self, case: Case, record: Audited, breach: Breach) -> bool:
        if self._held is not None and breach.damage not in self._quiet:
            return False  # nothing may come between the held record and this one
        remedy = self._remedies.get(breach.damage)
        return remedy is not None and remedy(Trouble(self, case, record, breach.damage))

    def _renumbered(self, case: Case) -> tuple[bytes, Audited]:
        item = case.item
        line = case.raw
        try:
            shift = self._shifts.get(item.chain)
            untouched = self._is_whole and shift is None and item.seq == self.next_seq
            if item.chain != NOBODY and not untouched:
                resolve = self._resolver(item.chain, own_first=case.own_first)
                move = None if shift is None else shift.move
                line = renumber(line, self.version, self.next_seq, resolve, move)
            line = line if case.patch is None else case.patch(line)
        except RuleBroken:
            line = case.raw
        return line, audit(line, self.version, item.number, item.place)

    def _first_breach(self, record: Audited) -> Breach | None:
        """What forbids the record here, the most telling first; None where nothing does."""
        found = [Breach(record, damage, problem) for damage, problem in record.faults]
        if record.seq is None and not found:
            found.append(Breach(record, Damage.RECORD_WRONG, "the record has no seq"))
        if isinstance(record.event, SurfaceChange):
            try:
                self.surface.extend(record.event, self._recall)
            except RuleBroken as fault:
                found.append(Breach(record, fault.damage, fault.problem))
        found += [x for x in self.rules.judge(record, self.view) if x.record is record]
        crossing = self._crosses(record)
        if crossing is not None:
            found.insert(0, crossing)
        return next((x for x in found if _is_mendable(x.damage)), None)

    def _crosses(self, record: Audited) -> Breach | None:
        """A turn may start or end inside a compaction only where its process has died."""
        bracket = self.rules.brackets.bracket
        if record.type not in ("turn/start", "turn/end") or bracket is None:
            return None
        if self._is_orphan:
            return None
        return Breach(record, Damage.BRACKET_CROSSES_TURN, f"{record.type} inside a compaction")

    def _keep(self, case: Case, line: bytes, record: Audited) -> None:
        item = case.item
        assert record.seq is not None
        self._runs[item.chain].add(item.seq, record.seq, record.count)
        self.renumbered += line != case.raw
        self._is_whole = self._is_whole and item.seq == record.seq
        changed = line != case.raw or bool(case.told)
        if isinstance(record.event, CompactionSummary | CompactionPrune):
            saved = self.rules.brackets.save()
            self._held = _Held(case, line, record, saved, len(self._out))
        self._admit(line, record, changed=changed)
        self._out.append(Kept(line, item.place, changed))
        if record.type == "compaction/start":
            self._is_orphan = item.is_orphan
        for damage in case.told:
            what = f"{TABLE[damage].meaning}: {TABLE[damage].mend}"
            self.note(item, damage, what, seq=_claimed(item), is_aside=True)

    def _admit(self, line: bytes, record: Audited, *, changed: bool) -> None:
        """Takes a record in that no rule forbids."""
        if isinstance(record.event, SurfaceChange):
            self.surface = self.surface.extend(record.event, self._recall)
            if changed and record.type == "tool/result":
                self._identities[record.event.seq] = Identity(line)
            if record.place == NOWHERE:
                self._written[record.event.seq] = line
        if record.message is not None:
            self._prices[record.message.seq] = tokens.price_message(record.message.message)
        self.rules.accept(record)
        self.next_seq += record.count
        self.time_ms = record.time_ms if record.time_ms is not None else self.time_ms

    def _lose(self, case: Case, record: Audited, damage: Damage, problem: str) -> None:
        item = case.item
        self._is_whole = False
        if item.chain != NOBODY:
            self._runs[item.chain].add(item.seq, -1, record.count)
        self.note(item, damage, problem, seq=_claimed(item), is_aside=True)

    def note_header(self, what: str) -> None:
        """Remembers that the header was changed; as it stood it is kept beside the log."""
        action = Action(code=Damage.HEADER_UNKNOWN_KEY, what=what, line=1, seq=None, is_aside=True)
        self.actions.append(action)

    def understand_otherwise(self, case: Case) -> bool:
        """Takes seqs that two processes gave as the other gave them; False where there is none."""
        if case.item.chain == NOBODY or self._chains[case.item.chain].parent is None:
            return False
        case.own_first = not case.own_first
        case.turns += 1
        return True

    def original(self, case: Case) -> Audited:
        """The record under the numbers that its own process gave it."""
        return audit(case.raw, self.version, case.item.number)

    def set_aside(self, item: Item, damage: Damage, why: str) -> None:
        """Leaves a line out; it is kept beside the log."""
        self.note(item, damage, why, seq=_claimed(item), is_aside=True)

    def note(
        self,
        item: Item | None,
        damage: Damage,
        what: str,
        *,
        seq: int | None,
        is_aside: bool = False,
    ) -> None:
        """Remembers what was done."""
        place = NOWHERE if item is None else item.place
        line = None if item is None else item.number
        self.actions.append(
            Action(code=damage, what=what, line=line, seq=seq, place=place, is_aside=is_aside)
        )

    # A summary and its message, a prune and its result ------------------------------------------

    def _completes(self, record: Audited) -> bool:
        """Whether the record is what the held one announced; then that is held no longer."""
        complete = self.rules.brackets.announces(record)
        if complete:
            self._held = None
        return complete

    def _let_go(self, case: Case | None) -> None:
        """What announced a replacement that did not come is left out, but for a crash's remains."""
        held, self._held = self._held, None
        if held is None:
            return
        is_summary = isinstance(held.record.event, CompactionSummary)
        if is_summary and (case is None or self._is_orphan):
            return
        self.rules.brackets.load(held.saved)
        del self._out[held.at :]
        self.next_seq -= held.record.count
        damage = Damage.SUMMARY_WITHOUT_REPLACEMENT if is_summary else Damage.PRUNE_WITHOUT_RESULT
        self._lose(held.case, held.record, damage, TABLE[damage].meaning)

    # What stands for what -----------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The surface as it is now, with its prices."""
        return View(self.surface, self._price)

    def _price(self, node: Node) -> int | None:
        return self._prices.get(node.seq)

    def price(self, nodes: Sequence[Node]) -> int:
        """What these nodes cost together, in tokens."""
        return sum(self._prices.get(node.seq, 0) for node in nodes)

    def _recall(self, node: Node) -> Identity:
        known = self._identities.get(node.seq)
        return Identity(self._line(node.place, node.seq)) if known is None else known

    def _line(self, place: Place, seq: int) -> bytes:
        return self._written[seq] if place == NOWHERE else self._read(place)

    def _resolver(self, number: int, *, own_first: bool) -> Callable[[int], int | None]:
        """How the events of a chain understand a seq: as their own process gave it, or another."""
        known = self._resolvers.get((number, own_first))
        if known is not None:
            return known
        line: list[int] = []
        chain: Chain | None = self._chains[number]
        while chain is not None:
            line.append(chain.number)
            chain = chain.parent
        order = line if own_first else line[1:] + line[:1]
        runs = [self._runs[one] for one in order]

        def resolve(seq: int) -> int | None:
            for one in runs:
                found = one.look_up(seq)
                if found is not None:
                    return None if found < 0 else found
            return None

        self._resolvers[number, own_first] = resolve
        return resolve

    def shift(self, chain: int) -> "Shift":
        """Where the turns and steps of a chain are moved to."""
        return self._shifts.setdefault(chain, Shift())

    # Records that we write ----------------------------------------------------------------------

    def insert(self, draft: Draft, damage: Damage, what: str) -> bool:
        """Puts a record in, at the time of the one before; False where a rule forbids it."""
        line = draft.line(self.next_seq, self.time_ms, self.version)
        record = audit(line, self.version, 0)
        if self._first_breach(record) is not None:
            return False
        self._admit(line, record, changed=True)
        self._is_whole = False
        self._is_orphan = self._is_orphan and record.type != "compaction/start"
        self._out.append(Kept(line, NOWHERE, True))
        self.inserted += 1
        self.note(None, damage, what, seq=record.seq)
        return True

    def end_bracket(self) -> bool:
        """Ends the open compaction, with an error; True where none is open any more."""
        bracket = self.rules.brackets.bracket
        if bracket is None:
            return True
        draft = encode.compaction_end(bracket.start.compaction_id, bracket.turn, encode.ABANDONED)
        if bracket.command_id is not None:
            data = {**draft.data, "sourceCommandId": bracket.command_id}
            draft = structs.replace(draft, data=data)
        what = f"the compaction that started at seq {bracket.start.seq} is ended, with an error"
        return self.insert(draft, Damage.BRACKET_OPEN, what)

    def close_step(self) -> bool:
        """Answers the calls that wait and ends the open step."""
        lifecycle = self.rules.lifecycle
        if lifecycle.turn is None or lifecycle.step is None:
            return False
        if not self.answer_calls():
            return False
        what = f"step {lifecycle.step} of turn {lifecycle.turn} is ended"
        draft = encode.step_end(lifecycle.turn, lifecycle.step)
        return self.insert(draft, Damage.TURN_OPEN, what)

    def close_turn(self) -> bool:
        """Closes the open turn as interrupted, the way the harness does."""
        lifecycle = self.rules.lifecycle
        if lifecycle.turn is None:
            return False
        if lifecycle.step is not None and not self.close_step():
            return False
        what = f"turn {lifecycle.turn} is ended as interrupted"
        draft = encode.turn_end(lifecycle.turn, "interrupted")
        return self.insert(draft, Damage.TURN_OPEN, what)

    def answer_calls(self) -> bool:
        """Gives every waiting call the result that says that it was interrupted."""
        waiting = list(self.rules.lifecycle.calls.values())
        return all(
            self.insert(
                self._interrupted(call),
                Damage.CALL_OPEN,
                f"the call {call.call_id:.60} is answered",
            )
            for call in waiting
        )

    def _interrupted(self, call: Call) -> Draft:
        lifecycle = self.rules.lifecycle
        assert lifecycle.turn is not None
        assert lifecycle.step is not None
        return encode.interrupted_result(
            lifecycle.turn,
            lifecycle.step,
            call.call_id,
            call.started_seq,
            self.next_seq,
            self.version,
        )

    def _keep_content(self, record: Audited) -> None:
        """A result whose call was folded away: its content stays, as a user's message."""
        assert record.seq is not None
        line = self._line(record.place, record.seq)
        content = decode_surface_event(line, self.version).message.result
        message_id = f"repaired-result-{record.seq}"
        draft = encode.user_message(content, message_id, REPAIRED_SOURCE)
        op = Replace(record.seq, record.seq)
        draft = structs.replace(draft, op=op, sources=(record.seq,))
        what = f"the result at seq {record.seq} lost its call: its content stays as a message"
        self.insert(draft, Damage.RESULT_PARTED, what)


def _is_mendable(damage: Damage) -> bool:
    """Whether a record must not stay as it is; what nobody can mend stays, and is told."""
    row = TABLE[damage]
    return row.severity is Severity.DAMAGE and row.mend is not None


def _claimed(item: Item) -> int | None:
    return item.seq if item.seq >= 0 else None


class _Held(NamedTuple):
    """A summary or prune that waits for what it announces, and how to take it back."""

    case: Case
    line: bytes
    record: Audited
    saved: Saved
    at: int


class Shift:
    """Where one process's turns and steps are moved to, since others took their numbers.

    All numbers asked for are the process's own, those before it was moved.
    """

    def __init__(self) -> None:
        self._turns: list[tuple[int, int]] = []
        self._steps: tuple[int, int, int] = (-1, 0, 0)

    def turns(self, from_turn: int, by: int) -> None:
        """Turns from this number on are moved by so many."""
        self._turns.append((from_turn, by))

    def steps(self, turn: int, from_step: int, by: int) -> None:
        """Steps of this turn from this number on are moved by so many."""
        self._steps = (turn, from_step, by)

    def move(self, turn: int, step: int | None) -> tuple[int, int | None]:
        """The new numbers."""
        by = next((by for start, by in reversed(self._turns) if turn >= start), 0)
        shifted, from_step, steps_by = self._steps
        if step is not None and turn == shifted and step >= from_step:
            return turn + by, step + steps_by
        return turn + by, step
