"""The rules by which the harness opens a session, beyond the fold's; and the brackets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plain_reader.fold import LATER_MESSAGES, PACKED, Fold, checkpoint_id
from plain_reader.lines import Record, claim
from plain_reader.prices import message_of
from plain_reader.rules import Broken, RuleError

KNOWN_EVENTS = LATER_MESSAGES | {
    "agent/inbox/spliced",
    "assistant/attempt",
    "assistant/chunk",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "request/context",
    "request/header",
    "session-log-deepseek/delivery-accepted",
    "session/end-seed",
    "session/title",
    "step/end",
    "step/start",
    "tool/call",
    "turn/end",
    "turn/start",
}
HEADER_KEYS = {
    "type",
    "version",
    "id",
    "createdAt",
    "cwd",
    "isSeeded",
    "delegationDepth",
    "parentSession",
    "seedLength",
    "origin",
    "agentPreset",
}
NOT_STARTED = "TOOL_NOT_STARTED"  # the error of a result that the harness wrote on resume
IN_OPEN_STEP = {"assistant/message", "assistant/attempt", "tool/call", "system/message"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One finished bracket; `error` is None where it succeeded."""

    start_seq: int
    end_seq: int
    error: str | None


class History:
    """The finished brackets."""

    def __init__(self) -> None:
        self.open: Record | None = None
        self.compactions: list[Compaction] = []

    def extend(self, record: Record) -> None:
        """Pair starts with ends by their ids."""
        if record["type"] == "compaction/start":
            self.open = record
        if record["type"] != "compaction/end" or self.open is None:
            return
        data = record["data"]
        if data.get("compactionId") == self.open["data"].get("compactionId"):
            self.compactions.append(
                Compaction(
                    start_seq=self.open["seq"], end_seq=record["seq"], error=data.get("error")
                )
            )
            self.open = None


class Ledger:
    """The rules that the harness opens a session by, beyond the fold's."""

    def __init__(self) -> None:
        self.format: int | None = None
        self.turn: int | None = None
        self.last_turn = 0
        self.step: int | None = None
        self.last_step = 0
        self.calls: dict[str, Record] = {}
        self.bracket: Record | None = None
        self.summarised = False
        self.stale = False
        self.before: Record = {}

    def refusal(self, line: int, record: Record, fold: Fold) -> Broken | None:
        """The rule that the record breaks, given the surface before it; or None."""
        try:
            if self.format is None:
                self.begin(record)
            else:
                self.check(record, fold)
        except RuleError as fault:
            return Broken(line=line, seq=claim(record), rule=fault.rule, detail=fault.detail)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as fault:
            return Broken(line=line, seq=claim(record), rule="event-shape", detail=repr(fault))
        return None

    def begin(self, record: Record) -> None:
        """The header's keys."""
        unknown = set(record) - HEADER_KEYS
        if unknown:
            raise RuleError("header-key-unknown", f"{sorted(unknown)}")
        self.format = record["version"]

    def check(self, record: Record, fold: Fold) -> None:
        """All that one event must keep."""
        kind, data = record["type"], record["data"]
        known = kind in KNOWN_EVENTS or (kind in PACKED and self.format == 0)
        if not known and record.get("ignorable") is not True:
            raise RuleError("event-unknown", kind)
        self.check_pairs(record)
        self.check_place(record)
        if "surfaceOp" in record:
            self.check_message(record, fold)
        match kind:
            case "turn/start" | "turn/end":
                self.take_turn(kind, data)
            case "step/start" | "step/end":
                self.take_step(kind, data)
            case "tool/call":
                self.take_call(data)
            case "session/end-seed":
                self.stale = self.bracket is not None
            case "compaction/start" | "compaction/end":
                self.take_bracket(kind, data)
            case "compaction/summary" | "compaction/prune":
                self.take_shadow(kind, data, fold)
        self.before = record

    def check_pairs(self, record: Record) -> None:
        """A summary or a prune stands directly before the event that it announces."""
        announced, op = self.before.get("type"), record.get("surfaceOp")
        replaces = isinstance(op, dict)
        if announced == "compaction/summary":
            same = self.before["data"]["compactionId"] == checkpoint_id(record)
            if not (replaces and same and self.ends(op) == self.shadow_ends()):
                raise RuleError("summary-alone", "no checkpoint follows")
        elif replaces and checkpoint_id(record) is not None:
            raise RuleError("summary-alone", "no summary stands before the checkpoint")
        pruned = record["type"] == "tool/result" and replaces
        if announced == "compaction/prune":
            if not (pruned and self.ends(op) == self.shadow_ends()):
                raise RuleError("prune-alone", "no replacing result follows")
        elif pruned:
            raise RuleError("prune-alone", "no prune stands before the replacing result")

    def ends(self, op: Any) -> tuple[Any, Any]:
        """The range of a replace operation."""
        names = ("start", "end") if self.format == 0 else ("startSeq", "endSeq")
        return op[names[0]], op[names[1]]

    def shadow_ends(self) -> tuple[Any, Any]:
        """The range that the event before announced."""
        shadow = self.before["data"]["shadowedRange"]
        return shadow["start"], shadow["end"]

    def check_place(self, record: Record) -> None:
        """What belongs into a step or a turn stands in one that is open."""
        kind, data = record["type"], record["data"]
        appended_result = kind == "tool/result" and record.get("surfaceOp") == "append"
        if (kind in IN_OPEN_STEP or appended_result) and (
            self.step is None or (data["turn"], data["step"]) != (self.turn, self.step)
        ):
            raise RuleError("outside-step", kind)
        if kind in ("request/header", "request/context") and self.turn is None:
            raise RuleError("outside-turn", kind)
        if kind == "tool/result" and not appended_result and self.turn is None:
            raise RuleError("prune-outside-turn")

    def check_message(self, record: Record, fold: Fold) -> None:
        """Ids, calls and answers in messages."""
        message = message_of(record)
        if not isinstance(message.get("id"), str):
            raise RuleError("message-without-id")
        kind, appended = record["type"], record["surfaceOp"] == "append"
        if kind == "assistant/message":
            for block in message["content"]:
                if block["type"] == "tool-call":
                    self.promise(block)
        if kind == "tool/result" and appended:
            error = record["data"].get("error") or {}
            self.answer(self.answered_call(message), started=error.get("code") != NOT_STARTED)
        named = checkpoint_id(record)
        if named is not None and not appended:
            self.check_checkpoint(named, message["source"]["kind"])

    def promise(self, block: Record) -> None:
        """A call stands in the message; it is to be started and answered in this step."""
        if block["id"] in self.calls:
            raise RuleError("call-repeated", block["id"])
        self.calls[block["id"]] = {
            "name": block["name"],
            "arguments": block["arguments"],
            "started": False,
            "answered": False,
        }

    def take_call(self, data: Record) -> None:
        """A call is started."""
        call = self.calls.get(data["callId"])
        if call is None:
            raise RuleError("call-differs", f"{data['callId']!r:.40} stands in no message")
        if (call["name"], call["arguments"]) != (data["name"], data["arguments"]):
            raise RuleError("call-differs", data["callId"])
        if call["started"]:
            raise RuleError("call-repeated", data["callId"])
        call["started"] = True

    def answered_call(self, message: Record) -> str:
        """The call that a result says it answers."""
        block: Record = message if self.format == 4 else message["content"][0]
        name: str = block["toolCallId"]
        if message["source"]["callId"] != name:
            raise RuleError("result-without-call", "its source names another call")
        return name

    def answer(self, call_id: str, *, started: bool) -> None:
        """A result arrived; on resume the harness answers even calls that were never started."""
        call = self.calls.get(call_id)
        if call is None or call["started"] != started or call["answered"]:
            raise RuleError("result-without-call", f"{call_id!r:.40}")
        call["answered"] = True

    def check_unanswered(self) -> None:
        """Every promised call has its answer."""
        waiting = [name for name, call in self.calls.items() if not call["answered"]]
        if waiting:
            raise RuleError("call-unanswered", f"{waiting}")

    def take_turn(self, kind: str, data: Record) -> None:
        """A turn starts or ends."""
        if self.bracket is not None and not self.stale:
            raise RuleError("turn-in-bracket", kind)
        if kind == "turn/start":
            if self.turn is not None or not same_int(data["turn"], self.last_turn + 1):
                raise RuleError("turn-order", f"{data['turn']!r:.20} after {self.last_turn}")
            self.turn = self.last_turn = data["turn"]
            self.last_step = 0
            return
        if self.turn is None or not same_int(data["turn"], self.turn):
            raise RuleError("turn-end", f"{data['turn']!r:.20}, open is {self.turn}")
        self.check_unanswered()
        if self.step is not None:
            raise RuleError("step-open-at-turn-end", f"{self.step}")
        self.turn = None

    def take_step(self, kind: str, data: Record) -> None:
        """A step starts or ends."""
        numbers = (data["turn"], data["step"])
        if kind == "step/start":
            if self.turn is None or self.step is not None:
                raise RuleError("step-order", f"{numbers} outside a turn, or inside another step")
            if not same_int(data["turn"], self.turn) or not same_int(
                data["step"], self.last_step + 1
            ):
                raise RuleError("step-order", f"{numbers} after {self.turn}, {self.last_step}")
            self.step = self.last_step = data["step"]
            self.calls = {}
            return
        if self.step is None or numbers != (self.turn, self.step):
            raise RuleError("step-end", f"{numbers}, open is {self.turn}, {self.step}")
        self.check_unanswered()
        self.step = None
        self.calls = {}

    def take_bracket(self, kind: str, data: Record) -> None:
        """A compaction starts or ends."""
        if kind == "compaction/start":
            if self.bracket is not None and not self.stale:
                raise RuleError("bracket-nested")
            if data["turn"] != self.turn:
                raise RuleError("bracket-turn", f"{data['turn']!r:.20}, open is {self.turn}")
            self.bracket, self.summarised, self.stale = data, False, False
            return
        self.check_bracket(data["compactionId"])
        if data.get("error") is None and not self.summarised:
            raise RuleError("end-without-summary")
        self.bracket = None
        self.stale = False

    def check_bracket(self, compaction_id: Any) -> None:
        """The open compaction is the one that is named."""
        if self.bracket is None or self.bracket["compactionId"] != compaction_id:
            raise RuleError("bracket-foreign", f"{compaction_id!r:.60}")

    def check_checkpoint(self, named: str, kind: str) -> None:
        """A checkpoint belongs to the open compaction and says so in the format's way."""
        self.check_bracket(named)
        if kind != ("compact-checkpoint" if self.format == 4 else "plugin"):
            raise RuleError("checkpoint-kind", kind)

    def take_shadow(self, kind: str, data: Record, fold: Fold) -> None:
        """A summary or a prune says which nodes will leave, and their price."""
        if kind == "compaction/summary":
            self.check_bracket(data["compactionId"])
            if self.summarised:
                raise RuleError("summary-repeated")
        ends = data["shadowedRange"]
        try:
            start, end = fold.place(ends["start"]), fold.place(ends["end"])
        except RuleError as fault:
            raise RuleError("shadow-wrong", fault.detail) from None
        leaving = fold.nodes[start : end + 1]
        if not leaving or data["shadowedSeqs"] != [node.seq for node in leaving]:
            raise RuleError("shadow-wrong", f"{data['shadowedSeqs']!r:.60}")
        price = sum(node.tokens for node in leaving)
        if data["shadowedTokenCount"] != price:
            raise RuleError("price-wrong", f"{data['shadowedTokenCount']!r:.40}, is {price}")
        self.summarised = self.summarised or kind == "compaction/summary"


def same_int(found: object, wanted: int) -> bool:
    """Whether a value is that whole number, and not a truth value that equals it."""
    return isinstance(found, int) and not isinstance(found, bool) and found == wanted
