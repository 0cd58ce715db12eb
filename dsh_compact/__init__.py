"""dsh-compact: did the compaction really happen, and may the request be sent again?

The library under `dshc`. Every name below is resolved when it is first used, so that importing the
package costs nothing; the modules say more about each.

    from dsh_compact import measure, read_session

    with read_session("session.v4.jsonl") as session:
        measured = measure(session)
    print(measured.total_tokens, measured.window_tokens, measured.over_threshold)

All counts of tokens are estimates by the harness's own rule unless a name says otherwise. Every
error raised on purpose is a `DshcError`, whose `exit_code` is that of the command line.
"""

from dsh_compact.version import __version__

TYPE_CHECKING = (
    False  # checkers take it for true; `import typing` would cost each command its start
)
if TYPE_CHECKING:
    from dsh_compact.backends import Backend as Backend
    from dsh_compact.backends import Claim as Claim
    from dsh_compact.conversation import Conversation as Conversation
    from dsh_compact.conversation import open_conversation as open_conversation
    from dsh_compact.errors import BackendFailed as BackendFailed
    from dsh_compact.errors import DamagedLog as DamagedLog
    from dsh_compact.errors import DshcError as DshcError
    from dsh_compact.errors import ForeignAppend as ForeignAppend
    from dsh_compact.errors import LogError as LogError
    from dsh_compact.errors import NotAdmitted as NotAdmitted
    from dsh_compact.errors import OwnedLog as OwnedLog
    from dsh_compact.errors import RuleBroken as RuleBroken
    from dsh_compact.errors import UnreadableLog as UnreadableLog
    from dsh_compact.errors import UnsupportedLog as UnsupportedLog
    from dsh_compact.errors import UsageError as UsageError
    from dsh_compact.errors import WriteFailed as WriteFailed
    from dsh_compact.events import Failure as Failure
    from dsh_compact.events import Message as Message
    from dsh_compact.events import SurfaceEvent as SurfaceEvent
    from dsh_compact.events import ToolCall as ToolCall
    from dsh_compact.events import Usage as Usage
    from dsh_compact.history import History as History
    from dsh_compact.history import Recorder as Recorder
    from dsh_compact.history import Replaced as Replaced
    from dsh_compact.history import read_history as read_history
    from dsh_compact.measurement import Measurement as Measurement
    from dsh_compact.measurement import Window as Window
    from dsh_compact.measurement import measure as measure
    from dsh_compact.measurement import window_of as window_of
    from dsh_compact.moments import read_at_generation as read_at_generation
    from dsh_compact.moments import read_at_seq as read_at_seq
    from dsh_compact.moments import read_generations as read_generations
    from dsh_compact.overflow import Refusal as Refusal
    from dsh_compact.overflow import failure_of as failure_of
    from dsh_compact.overflow import normalise as normalise
    from dsh_compact.policy import Budgets as Budgets
    from dsh_compact.policy import Policy as Policy
    from dsh_compact.policy import budgets as budgets
    from dsh_compact.pressure import Outcome as Outcome
    from dsh_compact.pressure import before_step as before_step
    from dsh_compact.recovery import OverflowPath as OverflowPath
    from dsh_compact.recovery import Preserve as Preserve
    from dsh_compact.recovery import Retry as Retry
    from dsh_compact.replies import NoReply as NoReply
    from dsh_compact.replies import Reply as Reply
    from dsh_compact.session import Session as Session
    from dsh_compact.session import WritableSession as WritableSession
    from dsh_compact.session import create_session as create_session
    from dsh_compact.session import open_session as open_session
    from dsh_compact.session import read_session as read_session
    from dsh_compact.speech import Said as Said
    from dsh_compact.speech import Speaker as Speaker
    from dsh_compact.speech import drafts_of as drafts_of
    from dsh_compact.surface import Node as Node
    from dsh_compact.surface import Replacement as Replacement
    from dsh_compact.surface import Surface as Surface
    from dsh_compact.tokens import price_block as price_block
    from dsh_compact.tokens import price_header as price_header
    from dsh_compact.tokens import price_message as price_message

_HOMES = {
    "backends": "Backend Claim",
    "conversation": "Conversation open_conversation",
    "errors": (
        "BackendFailed DamagedLog DshcError ForeignAppend LogError NotAdmitted OwnedLog RuleBroken"
        " UnreadableLog UnsupportedLog UsageError WriteFailed"
    ),
    "events": "Failure Message SurfaceEvent ToolCall Usage",
    "history": "History Recorder Replaced read_history",
    "measurement": "Measurement Window measure window_of",
    "moments": "read_at_generation read_at_seq read_generations",
    "overflow": "Refusal failure_of normalise",
    "policy": "Budgets Policy budgets",
    "pressure": "Outcome before_step",
    "recovery": "OverflowPath Preserve Retry",
    "replies": "NoReply Reply",
    "session": "Session WritableSession create_session open_session read_session",
    "speech": "Said Speaker drafts_of",
    "surface": "Node Replacement Surface",
    "tokens": "price_block price_header price_message",
}
"""Module → the public names that live there."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *_HOME_OF]  # noqa: PLE0604, they are strings


def __getattr__(name: str) -> object:
    """Fetch a public name from its module when it is first used."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
