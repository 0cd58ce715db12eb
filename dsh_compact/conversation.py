"""An agent's conversation: what is said goes into the log, the next request comes out of it.

Rule: what the model was told is what stands on disk. Every message is flushed before anybody acts
on it, turns, steps and calls are written where the harness wants them, and a request is made from
the surface alone. The two paths are built in: `begin_step` makes room before a request, `recover`
decides what to do about a refused one. It sends nothing and runs no tool: that is the agent's part.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, get_args
from uuid import uuid4

from msgspec import Struct, structs

from dsh_compact import export, pressure
from dsh_compact.backends import Backend
from dsh_compact.backends.running import never
from dsh_compact.backends.standard import Standard
from dsh_compact.codec import decode_request_header, encode
from dsh_compact.codec.encode import Draft
from dsh_compact.errors import DshcError, UnreadableLog, UsageError
from dsh_compact.events import Failure, Message, Replace, Text, ToolCall
from dsh_compact.interruption import closers, step_closers
from dsh_compact.overflow import failure_of, normalise
from dsh_compact.policy import DEFAULT, Policy
from dsh_compact.pressure import NO_WISHES, Outcome, Wishes
from dsh_compact.reader import SESSION_FILES
from dsh_compact.recovery import Decision, OverflowPath, Preserve
from dsh_compact.replies import Reply
from dsh_compact.session import WritableSession, create_session, open_session
from dsh_compact.summarizers.extract import Extractive

Ending: TypeAlias = Literal["completed", "aborted", "blocked", "error", "max-tokens"]
"""Why a turn is over; `interrupted` is what the next process says of one that nobody ended."""

ENDINGS: Final[tuple[Ending, ...]] = get_args(Ending)


class Setup(Struct, frozen=True, kw_only=True):
    """What stands before the conversation in every request; see `open_conversation`."""

    provider: str
    model: str
    system: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    max_tokens: int | None = None
    window_tokens: int | None = None


def open_conversation(
    path: str | os.PathLike[str],
    *,
    provider: str,
    model: str,
    system: str | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    max_tokens: int | None = None,
    window_tokens: int | None = None,
    policy: Policy = DEFAULT,
    backend: Backend | None = None,
    wishes: Wishes = NO_WISHES,
) -> "Conversation":
    """The conversation in the log at `path`, to be gone on with; a new one where there is none.

    `provider` and `model` say who answers. `tools` are described as for OpenAI, Anthropic or the
    harness. `system` None leaves the prompt that the log has; another one takes its place.
    `max_tokens` bounds an answer, `window_tokens` is the model's window where you know it.
    `backend` None is the standard one, which summarises offline. The log is locked until the
    conversation is closed; what an earlier process left open in it is closed as the harness does
    it. Raises `UsageError` for words that cannot be, `LogError` and its kin where the log cannot be
    used.
    """
    if not provider or not model:
        raise UsageError("a conversation needs a provider and a model", "name both")
    setup = Setup(
        provider=provider,
        model=model,
        system=system,
        tools=tuple(map(_tool, tools)),
        max_tokens=max_tokens,
        window_tokens=window_tokens,
    )
    session = open_session(path) if _is_there(path) else _created(Path(path))
    try:
        chosen = Standard(Extractive()) if backend is None else backend
        return Conversation(session, setup, policy=policy, backend=chosen, wishes=wishes)
    except BaseException:
        session.close()
        raise


def _is_there(path: str | os.PathLike[str]) -> bool:
    """Whether anything is called so, a link that leads nowhere too; raises `UnreadableLog` where
    nobody may look.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError as fault:
        raise UnreadableLog(os.fspath(path), f"cannot be looked at: {fault.strerror}") from fault
    return True


def _created(path: Path) -> WritableSession:
    here = _working_directory()
    # In the harness's own layout the session's folder bears its id.
    session_id = Path(here or "", path).parent.name if path.name in SESSION_FILES else None
    return create_session(path, session_id=session_id, cwd=here)


def _working_directory() -> str | None:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # it was removed; a session need not have one
        return None


class Conversation:
    """One conversation, turn by turn; prefer `open_conversation`.

    A turn is what follows from a word of the user, a step is one request and its tool runs. First
    `user`; then `begin_step`, the request, `answer`, and `tool_result` for each call, again and
    again until an answer has no calls; then `end_turn`. A verb out of that order raises
    `UsageError`, and all raise `LogError` and its kin where nothing can be written; the log is then
    as it was.
    """

    def __init__(
        self,
        session: WritableSession,
        setup: Setup,
        *,
        policy: Policy,
        backend: Backend,
        wishes: Wishes = NO_WISHES,
    ) -> None:
        """Closes what was left open in the log, and writes nothing else yet."""
        self.session = session
        self._setup = setup
        self._policy = policy
        self._backend = backend
        self._wishes = wishes
        self._overflow = OverflowPath(
            backend,
            policy,
            instructions=wishes.instructions,
            timeout_seconds=wishes.timeout_seconds,
            run=wishes.run,
            progress=wishes.progress,
        )
        self._is_answered = False
        self._waiting: dict[str, ToolCall] = {}
        self._check_head()
        self._append(closers(session))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets the log go. An open turn stays open: whoever goes on with the log closes it."""
        self.session.close()

    # The user's part ------------------------------------------------------------------------------

    def begin_turn(self) -> None:
        """A turn begins; `user` does it where none is open."""
        turns = self.session.turns
        if turns.turn is not None:
            raise UsageError(f"turn {turns.turn} is open", "end it first")
        turn = turns.last_turn + 1
        drafts = [encode.turn_start(turn), *self._news()]
        if self.session.format > 0 and not self.session.surface:
            # A surface begins with its system message, and that has its place in a step: one of its
            # own, since what stands in the step of an answer is measured twice until the next one.
            step = (turn, 1)
            drafts += [encode.step_start(*step), self._prompt(*step), encode.step_end(*step)]
        self._append(drafts)

    def user(self, text: str) -> None:
        """What the user says, in the open turn or in a new one."""
        if self.session.turns.turn is None:
            self.begin_turn()
        self._append([encode.user_message((Text(text=text),), _new_id())])

    # The model's part -----------------------------------------------------------------------------

    def begin_step(self) -> Outcome:
        """The pressure path: call it before every request. Whatever it did, the request may go."""
        turn = self._open_turn()
        self._refuse_waiting()
        if self.session.turns.step is not None and self._is_answered:
            self._append(step_closers(self.session))
        outcome = pressure.before_step(self.session, self._policy, self._backend, self._wishes)
        if self.session.turns.step is None:
            step = self.session.turns.last_step + 1
            self._append([encode.step_start(turn, step), *self._new_prompt(turn, step)])
            self._is_answered = False
        return outcome

    def messages(self) -> list[Message]:
        """The conversation as the model sees it."""
        return [self.session.message(node) for node in self.session.surface]

    def openai_request(self) -> dict[str, Any]:
        """The next request as a chat completion's body: `model`, `messages`, `tools`."""
        return export.to_openai(self.messages(), self.session.newest_header)

    def anthropic_request(self) -> dict[str, Any]:
        """The next request as Anthropic wants it: `model`, `max_tokens`, `system`, `messages`, …"""
        return export.to_anthropic(self.messages(), self.session.newest_header)

    def answer(self, reply: Reply | str) -> tuple[ToolCall, ...]:
        """What the model answered; returns its calls, which are to be run.

        A call without an id, or with that of another one, is given an id of its own.
        """
        turn, step = self._unanswered_step()
        said = Reply(text=reply) if isinstance(reply, str) else reply
        said = structs.replace(said, calls=_with_ids(said.calls))
        message = encode.assistant_message(
            turn,
            step,
            said.blocks,
            _new_id(),
            provider=self._setup.provider,
            model=self._setup.model,
            version=self.session.format,
            usage=said.usage,
        )
        self._append([message])
        self._is_answered = True
        self._waiting = {call.id: call for call in said.calls}
        self._overflow.on_reply(self.session)
        return said.calls

    def recover(
        self, error: BaseException | Failure, *, is_cancelled: Callable[[], bool] = never
    ) -> Decision:
        """The overflow path: what to do about a request that failed with `error`.

        `Retry`: make the request anew and send it. `Preserve`: report `error` as it came. A
        decision is made whatever log, disk or backend do; only where no step awaits its answer this
        raises `UsageError`.
        """
        turn, step = self._unanswered_step()
        failure = error if isinstance(error, Failure) else failure_of(error)
        now_ms = self.session.now_ms()
        try:
            told = _normalised(failure)
            self._append([encode.request_failed(turn, step, told, now_ms, self.session.format)])
            return self._overflow.on_request_error(self.session, failure, is_cancelled=is_cancelled)
        except DshcError as fault:
            reason = f"the log takes no proof: {fault}"
            return Preserve(failure=failure, reason=reason, refusal=normalise(failure))

    # The tools' part ------------------------------------------------------------------------------

    def begin_call(self, call_id: str) -> None:
        """A call is about to be run: whoever finds the log knows that it may have happened."""
        self._append([self._started(call_id)])

    def tool_result(self, call_id: str, text: str, *, is_error: bool = False) -> None:
        """What a call gave; where `begin_call` was left out, the call is written with it."""
        begun = self.session.turns.started_seqs
        started = [] if call_id in begun else [self._started(call_id)]
        result = encode.tool_result(
            self._open_turn(),
            self.session.turns.last_step,
            call_id,
            (Text(text=text),) if text else (),
            _new_id(),
            version=self.session.format,
            sources=(begun.get(call_id, self.session.events),),
            is_error=is_error,
        )
        self._append([*started, result])
        del self._waiting[call_id]

    def _started(self, call_id: str) -> Draft:
        call = self._waiting.get(call_id)
        if call is None:
            waiting = ", ".join(self._waiting) or "none"
            raise UsageError(f"no call {call_id!r} waits for its result", f"waiting: {waiting}")
        return encode.tool_call(self._open_turn(), self.session.turns.last_step, call)

    # The end --------------------------------------------------------------------------------------

    def end_turn(self, ending: Ending = "completed", error: BaseException | None = None) -> None:
        """The turn is over; `error` is what ended it.

        Only a turn that did not complete may have calls without results: they are closed as the
        harness does it.
        """
        turn = self._open_turn()
        if ending not in ENDINGS:
            raise UsageError(f"no turn ends as {ending!r:.60}", f"say {', '.join(ENDINGS)}")
        if ending == "completed":
            self._refuse_waiting()
        told = None if error is None else _normalised(failure_of(error))
        self._append([*step_closers(self.session), encode.turn_end(turn, ending, told)])
        self._waiting = {}
        self._overflow.on_idle(self.session)

    # The order ------------------------------------------------------------------------------------

    def _append(self, drafts: Sequence[Draft]) -> None:
        if drafts:
            self.session.append(drafts)

    def _open_turn(self) -> int:
        turn = self.session.turns.turn
        if turn is None:
            raise UsageError("no turn is open", "begin with what the user says")
        return turn

    def _unanswered_step(self) -> tuple[int, int]:
        turns = self.session.turns
        if turns.turn is None or turns.step is None or self._is_answered:
            raise UsageError("no request is under way", "begin a step first")
        return turns.turn, turns.step

    def _refuse_waiting(self) -> None:
        if self._waiting:
            raise UsageError(
                f"calls wait for their results: {', '.join(self._waiting)}", "give each its result"
            )

    # What stands before the conversation ----------------------------------------------------------

    def _news(self) -> list[Draft]:
        """Whom requests go to, with what, and the window, where the log says something else."""
        setup, now = self._setup, self.session.newest_header
        header = encode.request_header(
            setup.provider,
            setup.model,
            tools=setup.tools,
            max_tokens=setup.max_tokens,
            system=self._format_0_prompt(),
            reason="initial" if now is None else "change",
        )
        news = [] if now is not None and now.identity == _identity(header) else [header]
        window = setup.window_tokens
        told = self.session.meter.window_tokens(setup.provider, setup.model)
        if window is not None and told != window:
            news.append(encode.request_context(setup.provider, setup.model, window))
        return news

    def _format_0_prompt(self) -> str | None:
        """The prompt that stands in the request header; later formats have a message for it."""
        if self.session.format > 0:
            return None
        if self._setup.system is not None:
            return self._setup.system
        now = self.session.newest_header
        return None if now is None else now.system

    def _check_head(self) -> None:
        """Raises `UsageError` where the prompt would have no place: the harness wants it first."""
        head = next(iter(self.session.surface), None)
        is_headless = head is not None and head.kind != "system"
        if is_headless and self.session.format > 0 and self._setup.system is not None:
            raise UsageError(
                f"{self.session.path}: the conversation began without a system message, so it"
                " cannot have one now",
                "leave system out",
            )

    def _prompt(self, turn: int, step: int) -> Draft:
        system = self._setup.system
        blocks = (Text(text=system),) if system else ()
        return encode.system_message(turn, step, blocks, _new_id(), version=self.session.format)

    def _new_prompt(self, turn: int, step: int) -> list[Draft]:
        """The prompt in place of the one that the log has, where they differ."""
        head = next(iter(self.session.surface), None)
        if head is None or head.kind != "system" or self._setup.system is None:
            return []
        if self.session.message(head).text == self._setup.system:
            return []
        instead = Replace(head.seq, head.seq)
        return [structs.replace(self._prompt(turn, step), op=instead, sources=(head.seq,))]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as the harness describes it."""
    name, description, parameters = export.described(dict(tool))
    return {"name": name, "description": description, "parameters": parameters}


def _identity(header: Draft) -> bytes:
    return decode_request_header(header.line(0, 0, 0)).identity


def _normalised(failure: Failure) -> Failure:
    """The failure as a harness logs it: its code is the normalised one."""
    return structs.replace(failure, code=str(normalise(failure).code))


def _with_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    seen: set[str] = set()
    given: list[ToolCall] = []
    for call in calls:
        is_taken = not call.id or call.id in seen
        given.append(structs.replace(call, id=f"call-{_new_id()}") if is_taken else call)
        seen.add(given[-1].id)
    return tuple(given)


def _new_id() -> str:
    return str(uuid4())
