"""Records that speak of other records: whom they cite is there, and what they end was begun.

Titles and the messages they sum up, deliveries, commands, retries, inner calls, the inbox of
waiting messages, seeds. None of them touches the surface; the harness checks all of them when it
opens a log.
"""

from collections.abc import Iterator
from typing import ClassVar

from dsh_compact.codec.audit import (
    Audited,
    Catalogued,
    Command,
    Definer,
    Delivery,
    Dispatch,
    Retry,
    Route,
    Seed,
    Splice,
    Title,
)
from dsh_compact.errors import Damage
from dsh_compact.events import SessionHeader
from dsh_compact.verify.rules.breach import Breach, Fold, Judge, Taker, View, quoted
from dsh_compact.verify.rules.lifecycle import Lifecycle


class Citations(Fold):
    """All that may be cited."""

    def __init__(self, header: SessionHeader | None, lifecycle: Lifecycle) -> None:
        """`header` is None where the log has none that can be read."""
        self._header = header
        self._lifecycle = lifecycle
        self._has_inherited = False
        self._human_seqs: set[int] = set()
        self._header_seqs: set[int] = set()
        self._provider: str | None = None
        self._foreign: list[Breach] = []
        self._children: set[str] = set()
        self._commands: set[str] = set()
        self._command_seqs: set[int] = set()
        self._retries: dict[tuple[str, int], tuple[int | None, int | None]] = {}
        self._policies: dict[tuple[int | None, int | None, str, str], Retry] = {}
        self._retry_ids: set[str] = set()
        self._begun_retries: set[tuple[str, int]] = set()
        self._dispatches: dict[str, Dispatch] = {}
        self._inbox: dict[str, list[str]] = {}

    def end(self, view: View) -> list[Breach]:
        """Deliveries of other sessions that no inherited part explains."""
        return self._foreign

    @property
    def lacks_inherited(self) -> bool:
        """Whether the header speaks of inherited events and no marker ends them."""
        seeded = self._header is not None and self._header.version == 4 and self._header.is_seeded
        return seeded and not self._has_inherited

    # Titles and headers

    def _judge_title(self, record: Audited, view: View) -> Iterator[Breach]:
        title = record.detail
        if not isinstance(title, Title):
            return
        if not title.is_request and title.by_user != (not title.message_seqs):
            problem = "a title cites messages unless a user gave it, and only then none"
            yield Breach(record, Damage.TITLE_WRONG, problem)
            return
        strange = [seq for seq in title.message_seqs if seq not in self._human_seqs]
        if strange:
            problem = f"the title cites {strange[0]}, which is no earlier message of a human"
            yield Breach(record, Damage.TITLE_WRONG, problem)
        elif len(set(title.message_seqs)) < len(title.message_seqs):
            yield Breach(record, Damage.TITLE_WRONG, "the title cites a message twice")

    def _judge_developer(self, record: Audited, view: View) -> Iterator[Breach]:
        definer = record.detail
        if isinstance(definer, Definer) and definer.header_seq not in self._header_seqs:
            problem = f"headerSeq {definer.header_seq} is no earlier request/header"
            yield Breach(record, Damage.MESSAGE_WRONG, problem)

    def _take_user(self, record: Audited) -> None:
        if record.source_kind == "user" and record.seq is not None:
            self._human_seqs.add(record.seq)

    def _take_header(self, record: Audited) -> None:
        if record.seq is not None:
            self._header_seqs.add(record.seq)
        if isinstance(record.detail, Route):
            self._provider = record.detail.provider

    # Sessions: deliveries, seeds, children

    def _judge_delivery(self, record: Audited, view: View) -> Iterator[Breach]:
        delivery = record.detail
        if isinstance(delivery, Delivery) and delivery.through_seq >= (record.seq or 0):
            problem = f"throughSeq {delivery.through_seq} is not earlier than the event itself"
            yield Breach(record, Damage.DELIVERY_WRONG, problem)
        if self._header is None or not self._header.has_parent:
            yield from self._judge_delivered(record)

    def _judge_delivered(self, record: Audited) -> Iterator[Breach]:
        delivery = record.detail
        if not isinstance(delivery, Delivery) or self._header is None:
            return
        if delivery.session_id != self._header.id:
            problem = f"a delivery of the session {quoted(delivery.session_id)}, not of this one"
            yield Breach(record, Damage.DELIVERY_WRONG, problem)

    def _take_delivery(self, record: Audited) -> None:
        if self._header is not None and self._header.has_parent:
            self._foreign += self._judge_delivered(record)

    def _judge_seed(self, record: Audited, view: View) -> Iterator[Breach]:
        seed, header = record.detail, self._header
        if header is None or header.version != 4 or header.is_seeded:
            return
        if isinstance(seed, Seed) and seed.inherited:
            problem = "events are marked as inherited, and the header says that none are"
            yield Breach(record, Damage.SEED_WRONG, problem)

    def _take_seed(self, record: Audited) -> None:
        if isinstance(record.detail, Seed) and record.detail.inherited:
            self._has_inherited = True
            self._foreign = []  # what came before is another session's
            self._children = set()

    def _judge_child(self, record: Audited, view: View) -> Iterator[Breach]:
        child = record.detail
        if isinstance(child, Catalogued) and child.child_id in self._children:
            problem = f"the child {quoted(child.child_id)} is in the catalogue already"
            yield Breach(record, Damage.PAIR_BROKEN, problem)

    def _take_child(self, record: Audited) -> None:
        if isinstance(record.detail, Catalogued):
            self._children.add(record.detail.child_id)

    # Commands, retries, inner calls

    def _judge_command(self, record: Audited, view: View) -> Iterator[Breach]:
        command = record.detail
        if not isinstance(command, Command):
            return
        name = quoted(command.command_id)
        if command.is_done and command.command_id not in self._commands:
            problem = f"the command {name} is done, and was not run"
            yield Breach(record, Damage.PAIR_BROKEN, problem)
        elif not command.is_done and command.command_id in self._commands:
            yield Breach(record, Damage.PAIR_BROKEN, f"the command {name} is run a second time")
        source = command.source_seq
        if source is not None and (source >= (record.seq or 0) or source in self._command_seqs):
            problem = f"sourceEventSeq {source} is no earlier event that a command can come from"
            yield Breach(record, Damage.PAIR_BROKEN, problem)

    def _take_command(self, record: Audited) -> None:
        if isinstance(record.detail, Command) and record.seq is not None:
            self._commands.add(record.detail.command_id)
            self._command_seqs.add(record.seq)

    def _judge_retry(self, record: Audited, view: View) -> Iterator[Breach]:
        retry = record.detail
        if not isinstance(retry, Retry):
            return
        key, place = (retry.retry_id, retry.number), (record.turn, record.step)
        if retry.is_started:
            if self._retries.get(key) != place or key in self._begun_retries:
                problem = "llm/retry-started answers no retry that was announced"
                yield Breach(record, Damage.PAIR_BROKEN, problem)
            return
        step = self._lifecycle.step
        open_step = self._lifecycle.last_step if step is None else step
        if self._lifecycle.turn is None or place != (self._lifecycle.turn, open_step):
            belongs = f"llm/retry belongs to step {record.step} of turn {record.turn}"
            problem = f"{belongs}, and {self._lifecycle.where}"
            yield Breach(record, Damage.OUTSIDE_STEP, problem)
        elif not self._goes_on(retry, place):
            problem = f"llm/retry number {retry.number} does not go on from the one before"
            yield Breach(record, Damage.PAIR_BROKEN, problem)

    def _goes_on(self, retry: Retry, place: tuple[int | None, int | None]) -> bool:
        """Whether it is the next retry of its policy, for the provider that is asked."""
        prior = self._policies.get((*place, *retry.policy))
        if retry.policy[0] != self._provider:
            return False
        if prior is None:
            return retry.number == 1 and retry.retry_id not in self._retry_ids
        return retry.number == prior.number + 1 and retry.retry_id == prior.retry_id

    def _take_retry(self, record: Audited) -> None:
        retry = record.detail
        if not isinstance(retry, Retry):
            return
        key, place = (retry.retry_id, retry.number), (record.turn, record.step)
        if retry.is_started:
            self._begun_retries.add(key)
            return
        self._retries[key] = place
        self._policies[(*place, *retry.policy)] = retry
        self._retry_ids.add(retry.retry_id)

    def _judge_dispatch(self, record: Audited, view: View) -> Iterator[Breach]:
        dispatch = record.detail
        if not isinstance(dispatch, Dispatch):
            return
        known = self._dispatches.get(dispatch.call_id)
        parent = self._dispatches.get(dispatch.parent_id)
        belongs = dispatch.parent_id == dispatch.root_id or (
            parent is not None and parent.root_id == dispatch.root_id
        )
        if dispatch.is_start:
            fits = known is None
        else:
            fits = known is not None and known.is_start and known.identity == dispatch.identity
        if not (fits and belongs):
            name = quoted(dispatch.call_id)
            problem = f"the inner call {name} does not fit its start or its parent"
            yield Breach(record, Damage.PAIR_BROKEN, problem)

    def _take_dispatch(self, record: Audited) -> None:
        if isinstance(record.detail, Dispatch):
            self._dispatches[record.detail.call_id] = record.detail

    # The inbox

    def _judge_splice(self, record: Audited, view: View) -> Iterator[Breach]:
        splice = record.detail
        if not isinstance(splice, Splice):
            return
        waiting = self._inbox.get(splice.target, [])
        if splice.start + splice.removed_count > len(waiting):
            problem = f"takes {splice.removed_count} from place {splice.start} of {len(waiting)}"
            whole = f"the inbox {quoted(splice.target)}: {problem} waiting messages"
            yield Breach(record, Damage.INBOX_WRONG, whole)
            return
        ids = self._spliced(splice) + [
            one for name, ids in self._inbox.items() if name != splice.target for one in ids
        ]
        if len(set(ids)) < len(ids):
            problem = f"the inbox {quoted(splice.target)} gets a message that waits already"
            yield Breach(record, Damage.INBOX_WRONG, problem)

    def _take_splice(self, record: Audited) -> None:
        if isinstance(record.detail, Splice):
            self._inbox[record.detail.target] = self._spliced(record.detail)

    def _spliced(self, splice: Splice) -> list[str]:
        waiting = self._inbox.get(splice.target, [])
        end = splice.start + splice.removed_count
        return [*waiting[: splice.start], *splice.inserted_ids, *waiting[end:]]

    JUDGES: ClassVar[dict[str, Judge]] = {
        "session/title": _judge_title,
        "session/title-llm-request": _judge_title,
        "developer/message": _judge_developer,
        "session-log-deepseek/delivery-accepted": _judge_delivery,
        "session/end-seed": _judge_seed,
        "subagent/catalog": _judge_child,
        "command/run": _judge_command,
        "command/done": _judge_command,
        "llm/retry": _judge_retry,
        "llm/retry-started": _judge_retry,
        "tool/ptc-dispatch": _judge_dispatch,
        "tool/ptc-dispatch-start": _judge_dispatch,
        "agent/inbox/spliced": _judge_splice,
    }
    TAKERS: ClassVar[dict[str, Taker]] = {
        "user/message": _take_user,
        "request/header": _take_header,
        "session-log-deepseek/delivery-accepted": _take_delivery,
        "session/end-seed": _take_seed,
        "subagent/catalog": _take_child,
        "command/run": _take_command,
        "command/done": _take_command,
        "llm/retry": _take_retry,
        "llm/retry-started": _take_retry,
        "tool/ptc-dispatch": _take_dispatch,
        "tool/ptc-dispatch-start": _take_dispatch,
        "agent/inbox/spliced": _take_splice,
    }
