"""What a backend owes its users, as rules with stable names; and the judgement on one run.

Rule: what is judged is what stands on disk, what the backend said of it, and when. Under a fault a
backend may fail, and may raise whatever it likes; it may not lie, and it may leave no damage.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from dsh_compact.backends.running import words_of
from dsh_compact.conformance.faults import Fault, Seen

LEAST_SAVED: Final = 0.05
"""A share of the conversation: what saves less only moves the generation. Estimates differ from a
provider's counts by more than that."""


class Rule(StrEnum):
    """The rules, by the names that a scorecard shows."""

    RETURNS = "returns"
    IN_TIME = "in-time"
    CLAIMS_TRULY = "claims-truly"
    KEEPS_HISTORY = "keeps-history"
    KEEPS_MEMORY = "keeps-memory"
    LEAVES_NO_DAMAGE = "leaves-no-damage"
    LEAVES_NO_FILES = "leaves-no-files"
    OBEYS_THE_END = "obeys-the-end"
    MAKES_ROOM = "makes-room"
    SAVES = "saves"
    WORKS_AGAIN = "works-again"


MEANINGS: Final = {
    Rule.RETURNS: "returns a claim, and raises nothing where nothing is wrong",
    Rule.IN_TIME: "returns within its time",
    Rule.CLAIMS_TRULY: "says that it acted if and only if the file's generation has grown",
    Rule.KEEPS_HISTORY: "leaves every byte that was there, in the same file",
    Rule.KEEPS_MEMORY: "leaves the session in memory as the file has it",
    Rule.LEAVES_NO_DAMAGE: "leaves a log in which verify finds nothing new",
    Rule.LEAVES_NO_FILES: "leaves nothing else beside the log",
    Rule.OBEYS_THE_END: "writes nothing past its workbench, or after its time",
    Rule.MAKES_ROOM: "replaces something where much can be replaced",
    Rule.SAVES: "makes the conversation shorter by a twentieth at least where it acts",
    Rule.WORKS_AGAIN: "makes room again once the fault is gone",
}
"""What each rule asks of a backend."""


class Violation(Struct, frozen=True, kw_only=True):
    """A rule that was broken, and what was seen."""

    rule: Rule
    detail: str


def violations(seen: Seen, fault: Fault) -> Iterator[Violation]:
    """What one run of a backend broke, as far as file, memory and claim tell."""
    ran, is_free = seen.ran, fault.kind == "none"
    if is_free and ran.timed_out:
        yield Violation(rule=Rule.IN_TIME, detail=f"it was left alone after {seen.seconds:.1f} s")
    elif is_free and ran.error is not None:
        yield Violation(rule=Rule.RETURNS, detail=f"it raised {words_of(ran.error)}")
    elif is_free and ran.claim is None:
        yield Violation(rule=Rule.RETURNS, detail="it returned no claim")
    if seen.after is None:
        yield Violation(rule=Rule.LEAVES_NO_DAMAGE, detail=seen.reason)
        return
    if not seen.after.continues(seen.before):
        detail = "what the log said before is no longer there"
        yield Violation(rule=Rule.KEEPS_HISTORY, detail=detail)
    generations = f"{seen.before.generation} → {seen.after.generation}"
    grew = seen.after.generation > seen.before.generation
    if ran.claim is not None and ran.claim.acted != grew:
        said = "it acted" if ran.claim.acted else "it did nothing"
        detail = f"it says that {said}, and the file's generation went {generations}"
        yield Violation(rule=Rule.CLAIMS_TRULY, detail=detail)
    if seen.remembered != seen.after.generation:
        detail = f"the session has generation {seen.remembered}, the file {seen.after.generation}"
        yield Violation(rule=Rule.KEEPS_MEMORY, detail=detail)
