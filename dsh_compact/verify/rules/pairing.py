"""Calls and results on the surface: a provider refuses one without the other.

The harness opens such a log; its next request fails, and so does every later one. A fold that cuts
between a call and its result makes it.
"""

from collections.abc import Iterator
from typing import ClassVar

from dsh_compact.codec.audit import Audited
from dsh_compact.errors import Damage
from dsh_compact.verify.rules.breach import Breach, Fold, Taker, View, quoted
from dsh_compact.verify.rules.lifecycle import Lifecycle


class Pairing(Fold):
    """The messages that ask for calls, and those that answer one, by seq."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        """`lifecycle` knows which calls still wait: they have no result yet, and need none."""
        self._lifecycle = lifecycle
        self._known: dict[int, tuple[Audited, tuple[str, ...], str | None]] = {}

    def end(self, view: View) -> Iterator[Breach]:
        """What was parted, on the surface as the log leaves it."""
        waiting: dict[str, Audited] = {}
        for node in view.surface:
            known = self._known.get(node.seq)
            if known is None:
                continue
            record, asked, answered = known
            waiting.update(dict.fromkeys(asked, record))
            if answered is None or waiting.pop(answered, None) is not None:
                continue
            if (record.seq, answered) not in self._lifecycle.told:
                problem = f"the result of the call {quoted(answered)} is there without it"
                yield Breach(record, Damage.RESULT_PARTED, problem)
        for call_id, record in waiting.items():
            told = (record.seq, call_id) in self._lifecycle.told
            if not told and call_id not in self._lifecycle.calls:
                problem = f"the call {quoted(call_id)} is there without its result"
                yield Breach(record, Damage.CALL_PARTED, problem)

    def _take(self, record: Audited) -> None:
        asked, answered = tuple(call.id for call in record.calls), record.answered
        if record.seq is not None and (asked or answered is not None):
            self._known[record.seq] = (record.slim(), asked, answered)

    TAKERS: ClassVar[dict[str, Taker]] = {"assistant/message": _take, "tool/result": _take}
