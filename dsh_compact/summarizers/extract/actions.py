"""What was done: tool calls with their outcome, told apart as commands, file work and the rest.

Nothing here knows a particular harness's tools: a call's arguments tell what it is (a `command`, a
path under one of the usual names), its name what it does to a file. A call and its result are
paired by id, the newest call first, since some harnesses count ids from zero in every turn.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from dsh_compact.events import Message, Text, ToolCall, ToolResult
from dsh_compact.summarizers.patterns import (
    LONGEST_LINE_CHARS,
    LONGEST_PATH_CHARS,
    error_lines,
    exit_code,
    harmless,
    one_line,
    without_exit_code,
)

LONGEST_ARGUMENTS_CHARS: Final = 8_000_000
"""Longer arguments are not parsed: no editor writes such a file in one call."""

LONGEST_SAID_CHARS: Final = 200
"""Of a result's last line: enough for a test run's summary."""

MOST_ERRORS: Final = 2
"""Lines of a failed result that are kept: a compiler's first complaint and its last."""

MOST_PATCHED: Final = 200
"""Files of one patch that are named."""

Deed: TypeAlias = Literal[
    "command", "called", "read", "written", "edited", "deleted", "searched", "used"
]
"""`command` ran a command line, `called` some other tool; the rest was done to a file."""


class Action(Struct, frozen=True, kw_only=True):
    """One tool call and how it ended; `order` is its message's place in the span.

    `target` is the command line or the path, for other tools its name and arguments. `failed` is
    None while there is no result. `said` is what of the result tells most: of an error the error,
    otherwise the last line, and nothing where the result is only somebody's text.
    """

    order: int
    tool: str
    deed: Deed
    target: str
    failed: bool | None = None
    said: str = ""
    ended: int = -1
    """The place of the message with the result, -1 without one."""


def actions(messages: Sequence[Message]) -> list[Action]:
    """Every call in the span, in order; one that names several files is several actions.

    A call that only writes down a plan is none.
    """
    done: list[Action] = []
    waiting: dict[str, range] = {}
    for order, message in enumerate(messages):
        for call in message.calls:
            if plans(call):
                continue
            first = len(done)
            done.extend(_begun(order, call))
            waiting[call.id] = range(first, len(done))
        for call_id, text, is_error in results(message):
            for index in waiting.pop(call_id, ()):
                done[index] = _ended(done[index], order, text, is_error=is_error)
    return done


def plans(call: ToolCall) -> bool:
    """Whether a call writes down what is to be done, and does nothing."""
    name = call.name.lower()
    return "todo" in name or "plan" in name


def is_result(message: Message) -> bool:
    """Whether the message is a tool's result, in any format."""
    return (
        message.role == "tool"
        or message.source_kind == "tool"
        or any(isinstance(block, ToolResult) for block in message.content)
    )


def results(message: Message) -> Iterator[tuple[str, str, bool]]:
    """Call id, text and whether it is an error, of every result in the message."""
    if not is_result(message):
        return
    wrapped = [block for block in message.content if isinstance(block, ToolResult)]
    for block in wrapped:
        text = "\n".join(inner.text for inner in block.content if isinstance(inner, Text))
        yield block.call_id, text, block.is_error or message.is_error
    if not wrapped:
        yield message.call_id or "", message.text, message.is_error


# A call -------------------------------------------------------------------------------------------

_COMMAND_KEYS: Final = ("command", "cmd", "script", "commandLine", "command_line", "code")
_PATH_KEYS: Final = (
    "path", "file_path", "filePath", "filepath", "file", "filename", "fileName", "absolute_path",
    "absolutePath", "target_file", "targetFile", "notebook_path", "relative_path", "uri",
)  # fmt: skip
_PATHS_KEYS: Final = ("paths", "files", "file_paths", "filePaths")
_PATCH_KEYS: Final = ("patch", "diff", "input", "patchText")

_DEEDS: Final[tuple[tuple[Deed, tuple[str, ...]], ...]] = (
    ("searched", ("grep", "search", "glob", "find", "list", "ls", "tree")),
    ("deleted", ("delete", "remove", "unlink", "trash")),
    ("edited", ("edit", "replace", "patch", "insert", "append", "update", "modify", "diff")),
    ("written", ("write", "create", "save", "new")),
    ("read", ("read", "view", "open", "cat", "get", "show", "load", "fetch")),
)
"""Words in a tool's name, or in an editor's argument `command`, that tell what it does to a file;
the first row that holds decides."""

_EDITOR_COMMANDS: Final = {
    "view",
    "create",
    "str_replace",
    "insert",
    "undo_edit",
    "delete",
    "rename",
}
_PATCHED_FILE: Final = re.compile(
    rf"^(?:\*\*\* (Add|Update|Delete) File: |\+\+\+ (?:b/)?)([^\n\t]{{1,{LONGEST_PATH_CHARS}}})",
    re.MULTILINE,
)
_PATCH_DEEDS: Final[dict[str, Deed]] = {"Add": "written", "Delete": "deleted"}


def _begun(order: int, call: ToolCall) -> Iterator[Action]:
    given = arguments(call)
    tool = one_line(harmless(call.name[:LONGEST_LINE_CHARS]))
    found = [*_targets(call.name, given)] or [("called", _other(tool, call.arguments))]
    for deed, target in found:
        yield Action(order=order, tool=tool, deed=deed, target=target)


def arguments(call: ToolCall) -> dict[str, Any]:
    """A call's arguments; empty where they are no JSON object, or one too large or too deep."""
    if len(call.arguments) > LONGEST_ARGUMENTS_CHARS:
        return {}
    try:
        given = msgspec.json.decode(call.arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def _targets(name: str, given: dict[str, Any]) -> Iterator[tuple[Deed, str]]:
    files = [*_files(given)]
    command = next((_words(given[key]) for key in _COMMAND_KEYS if _words(given.get(key))), "")
    if command and not (files and command in _EDITOR_COMMANDS):
        yield "command", harmless(command).strip()
    elif files:
        deed = _deed(command or name)
        for path in files:
            yield deed, one_line(harmless(path))
    else:
        for key in _PATCH_KEYS:
            if isinstance(patch := given.get(key), str):
                yield from _patched(patch)


def _words(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    return value.strip() if isinstance(value, str) else ""


def _files(given: dict[str, Any]) -> Iterator[str]:
    for key in _PATH_KEYS:
        if isinstance(path := given.get(key), str) and 0 < len(path) <= LONGEST_PATH_CHARS:
            yield path
            return
    for key in _PATHS_KEYS:
        if isinstance(listed := given.get(key), list):
            yield from (
                path
                for path in listed[:MOST_PATCHED]
                if isinstance(path, str) and 0 < len(path) <= LONGEST_PATH_CHARS
            )
            return


def _deed(name: str) -> Deed:
    lowered = name.lower()
    for deed, words in _DEEDS:
        if any(word in lowered for word in words):
            return deed
    return "used"


def _patched(patch: str) -> Iterator[tuple[Deed, str]]:
    for count, found in enumerate(_PATCHED_FILE.finditer(patch)):
        if count == MOST_PATCHED:
            return
        if found[2] != "/dev/null":
            yield _PATCH_DEEDS.get(found[1] or "", "edited"), one_line(harmless(found[2]))


def _other(tool: str, given: str) -> str:
    words = one_line(harmless(given[:LONGEST_LINE_CHARS]))
    return tool if words in {"", "{}"} else f"{tool} {words}"


# A result -----------------------------------------------------------------------------------------

_LOUD: Final = re.compile(
    r"^Traceback \(most recent|^(?:\w[\w.]{0,80})?(?:Error|Exception): "
    r"|^(?:error|fatal|panic)(?:\[|:)"
    r"|^(?:FAILED|FAIL)\b|^npm ERR!|\b[1-9]\d{0,6} (?:failed|errors?)\b|: command not found$",
    re.MULTILINE,
)
_READERS: Final = {
    "awk", "cat", "find", "grep", "head", "jq", "less", "ls", "rg", "sed", "tail", "tree", "wc",
}  # fmt: skip
"""Programs whose output is somebody else's text: an error in it is not theirs."""

_ENDS_CHARS: Final = 4_000
"""What is looked at of a result at each end, where nothing but its text tells whether it failed."""


def _ended(action: Action, order: int, text: str, *, is_error: bool) -> Action:
    failed = is_error or _has_failed(action, text)
    told = error_lines(text, MOST_ERRORS) if failed else []
    said = " | ".join(harmless(line) for line in told)
    if not said and (failed or not _reads(action)):
        said = _last_line(text)
    return msgspec.structs.replace(action, failed=failed, said=said, ended=order)


def _reads(action: Action) -> bool:
    """Whether the action shows somebody else's text, whose last line tells nothing of it."""
    if action.deed == "command":
        return action.target.partition(" ")[0] in _READERS
    return action.deed in {"read", "searched"}


def _has_failed(action: Action, text: str) -> bool:
    """Told by a command's exit code, and without one by what only a failing command prints."""
    if action.deed != "command":
        return False
    code = exit_code(text)
    if code is not None:
        return code != 0
    if _reads(action):
        return False
    return bool(_LOUD.search(text[:_ENDS_CHARS]) or _LOUD.search(text[-_ENDS_CHARS:]))


def _last_line(text: str) -> str:
    tail = without_exit_code(harmless(text[-4 * LONGEST_LINE_CHARS :]))
    return one_line(tail[tail.rfind("\n") + 1 :])[:LONGEST_SAID_CHARS]
