"""The event types by format, as facts of the harness's releases 0.1.2, 0.1.5 and 0.2.1."""

from typing import Final

from dsh_compact.events import Kind

SURFACE_KINDS: Final[dict[int, dict[str, Kind]]] = {
    0: {"user/message": "user", "assistant/message": "assistant", "tool/result": "tool"},
}
SURFACE_KINDS[3] = SURFACE_KINDS[4] = {
    **SURFACE_KINDS[0],
    "system/message": "system",
    "developer/message": "developer",
}

PACKED_TYPES: Final = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})
"""Format 0 only: rows that stand for as many events as their list is long."""

_COMMON: Final = frozenset(
    [
        "agent-preset/selected",
        "agent/inbox/spliced",
        "approval/asked",
        "approval/decided",
        "approval/policy",
        "assistant/message",
        "command/done",
        "command/run",
        "compaction/end",
        "compaction/prune",
        "compaction/start",
        "compaction/summary",
        "deliverables/presented",
        "feedback/message-delete",
        "feedback/message-put",
        "feedback/record",
        "goal/change",
        "hook/invoked",
        "hook/result",
        "image/offload",
        "llm/retry",
        "llm/retry-started",
        "model/selection",
        "permission/preset",
        "plan/mode",
        "request/context",
        "request/header",
        "sandbox/mode",
        "schedule/change",
        "session-log-deepseek/delivery-accepted",
        "session/end-seed",
        "session/title",
        "session/title-llm-request",
        "step/end",
        "step/start",
        "subagent/catalog",
        "subagent/descriptor",
        "subagent/model-selection-policy",
        "team/member",
        "team/message/delivered",
        "team/message/queued",
        "team/task",
        "todo/write",
        "tool-workflow/agent-end",
        "tool-workflow/agent-start",
        "tool-workflow/run-end",
        "tool-workflow/run-start",
        "tool/call",
        "tool/ptc-dispatch",
        "tool/ptc-dispatch-start",
        "tool/result",
        "turn/end",
        "turn/start",
        "user/message",
        "web/deepseek-search-llm-request",
        "workspace/changes",
    ]
)
_OLD_NAMES: Final = frozenset({"tool/code-dispatch", "tool/code-dispatch-start"})
_STREAMED: Final = frozenset({"assistant/chunk"})
_SINCE_3: Final = frozenset({"assistant/attempt", "system/message"})
_SINCE_4: Final = frozenset(
    {"developer/message", "job/registered", "job/settled", "working-directory/change"}
)

KNOWN_TYPES: Final[dict[int, frozenset[str]]] = {
    0: _COMMON | _OLD_NAMES | _STREAMED,
    3: _COMMON | _OLD_NAMES | _SINCE_3 | {"developer/message"},
    4: _COMMON | _SINCE_3 | _SINCE_4,
}
"""What a harness of that format knows; any other type is safe only where it says `ignorable`."""
