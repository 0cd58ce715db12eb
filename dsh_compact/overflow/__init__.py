"""A provider's refusal, as a code and the numbers in it.

The rule: the table in `wordings` decides, row by row in its order; this module makes the
text plain, finds the first row that holds, and reads the numbers beside it. The costs differ: a
missed overflow leaves a turn dead, a false alarm folds a healthy session, and a number that is not
the window's (a rate, a balance, bytes) would spoil every later measure. So numbers are read from an
overflow's own wording and from nothing else, and implausible ones are dropped.

Nothing here raises on any text, and the work is bounded: of a failure `MOST_TEXT` characters are
looked at, and no pattern repeats without a bound. It knows no log, no provider's client, no disk.
"""

import re
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, structs

from dsh_compact.events import Failure
from dsh_compact.overflow.wordings import (
    CERTAIN_OTHERS,
    CERTAIN_OVERFLOWS,
    HTTP_STATUS,
    LIKELY_OVERFLOWS,
    READINGS,
    TABLE,
    UNITS_BEFORE,
    UNITS_BEHIND,
    Code,
    Reading,
    Wording,
    compiled,
)

__all__ = ["Code", "Cure", "Refusal", "failure_of", "normalise", "parse_failure", "plain_text"]

Cure: TypeAlias = Literal["compact", "lower-output"]

MOST_TEXT: Final = 16_384
"""Characters of a message or body that are looked at, three quarters of them from its beginning: a
refusal has a few hundred, and what is longer echoes the request or holds a stack."""

NEAR_BEFORE: Final = 300
NEAR_BEHIND: Final = 400
"""Characters beside an overflow's words in which its numbers are read: a sentence or two."""

NEAR_UNIT: Final = 32
"""Characters before a number in which its unit may stand, as in `context_char_limit: 162131`."""

LEAST_WINDOW_TOKENS: Final = 128
"""A smaller number is no window: vLLM once reported what was left of it, TensorRT-LLM a 1."""

MOST_TOKENS: Final = 1_000_000_000
"""A larger number is an id or a time stamp, not a count of tokens."""

ROOM_TOKENS: Final = 1024
ROOM_SHARE: Final = 16
"""What the input must leave free so that a lower output cures: a short answer, or a sixteenth of a
window in which that would be much."""

MOST_JSON: Final = 4_194_304
"""Characters of a text that are tried as JSON: more than any error body, read in a blink."""

MOST_WRAPPERS: Final = 8
"""Layers that are taken off: JSON in JSON, `error` in `error`; gateways stack three or four."""

MOST_WORD: Final = 200
"""Characters of a code or type that are kept; real ones have thirty."""


class Refusal(Struct, frozen=True, kw_only=True):
    """What a failure means; numbers in tokens, None where the failure doesn't tell.

    Only an overflow has numbers and a `cure`. `limit_tokens` is the window as the refusal states
    it, `requested_tokens` the input and the reserved output together where both are stated. The
    cure is `lower-output` where the output's reservation is at fault and the input alone would fit.
    `wording` names the row of the table that decided, None where only status or code did.
    """

    code: Code
    limit_tokens: int | None = None
    requested_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cure: Cure | None = None
    wording: str | None = None

    @property
    def kind(self) -> str:
        """`context` for an overflow, any other code in lower case."""
        return "context" if self.code is Code.CONTEXT_WINDOW_EXCEEDED else self.code.lower()


def normalise(failure: Failure) -> Refusal:
    """Return what `failure` means; never raises.

    A failure that carries `CONTEXT_WINDOW_EXCEEDED` keeps it: the harness that wrote it may have
    seen more than this text. Its numbers still come from an overflow's own wording only.
    """
    text = _whole(failure)
    status = _status_in(text) if failure.status is None else failure.status
    if failure.code and failure.code.upper() == Code.CONTEXT_WINDOW_EXCEEDED:
        return _already_normalised(text)
    found = _first(TABLE, text, status)
    if found is None:
        return Refusal(code=_by_status(status, text))
    row, match = found
    if row.code is Code.CONTEXT_WINDOW_EXCEEDED:
        return _overflow(text, row, match)
    return Refusal(code=row.code, wording=row.name)


def _already_normalised(text: str) -> Refusal:
    if not _first(CERTAIN_OTHERS, text, None) and (
        found := _first((*CERTAIN_OVERFLOWS, *LIKELY_OVERFLOWS), text, None)
    ):
        return _overflow(text, *found)
    return Refusal(code=Code.CONTEXT_WINDOW_EXCEEDED, cure="compact")


# The text -----------------------------------------------------------------------------------------

_TERMINAL: Final = r"\x1b\[[0-9;]{0,20}[A-Za-z]"
_UNICODE_ESCAPE: Final = r"\\{1,16}u([0-9a-fA-F]{4})"
_LINE_ESCAPE: Final = r"\\{1,16}[nrt]"
_TAG: Final = r"</?[a-z!][^<>]{0,200}>"

_ENTITIES: Final = (
    ("&quot;", ""), ("&#39;", ""), ("&#x27;", ""), ("&apos;", ""), ("&gt;", ">"), ("&lt;", "<"),
    ("&nbsp;", " "), ("&amp;", "&"),
)  # fmt: skip

_FOLDED: Final = {
    **{full: full - 0xFEE0 for full in range(0xFF01, 0xFF5F)},  # full-width forms
    **dict.fromkeys((*range(0x20), 0x7F), " "),
    **dict.fromkeys(range(0x2500, 0x2580), " "),  # what frames a text on a terminal
    **dict.fromkeys(map(ord, "\\\"'`*´‘’“”「」『』"), None),
    **str.maketrans("。、【】", ".,[]"),
}


def plain_text(text: str) -> str:
    """Return `text` as the table's patterns want it: lower case, single spaces, nothing quoted.

    Escapes of JSON (however many layers), HTML and the terminal are resolved, quotes dropped.
    """
    if "\x1b" in text:
        text = compiled(_TERMINAL).sub("", text)
    if "\\" in text:
        text = compiled(_UNICODE_ESCAPE).sub(lambda escape: chr(int(escape[1], 16)), text)
        text = compiled(_LINE_ESCAPE).sub(" ", text)
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    text = text.translate(_FOLDED).lower()
    if "<" in text:
        text = compiled(_TAG).sub(" ", text)
    return " ".join(text.split())


def _whole(failure: Failure) -> str:
    """Everything that the failure says, once, as plain text of bounded length."""
    message, body = (plain_text(_clipped(part or "")) for part in (failure.message, failure.body))
    said = [body] if message in body else [message, body]
    said += [f"code: {failure.code[:MOST_WORD].lower()}"] if failure.code else []
    said += [f"type: {failure.type[:MOST_WORD].lower()}"] if failure.type else []
    return " ".join(part for part in said if part)


def _clipped(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    tail = MOST_TEXT // 4
    return f"{text[: MOST_TEXT - tail]} {text[-tail:]}"


# The decision -------------------------------------------------------------------------------------


def _first(
    rows: tuple[Wording, ...], text: str, status: int | None
) -> tuple[Wording, re.Match[str]] | None:
    """The first row that holds for `text`, and where it found its words."""
    for row in rows:
        if status in row.silenced_by or not any(clue in text for clue in row.clues):
            continue
        if match := compiled(row.pattern).search(text):
            return row, match
    return None


_STATUS: Final = (
    r"(?:status(?:[ _]?code)?|http(?: error)?|error(?: code)?|\(attempt [0-9/]{1,9}\)|^)(?: is)?"
    r" ?[:=]? ?\(?([45][0-9]{2})(?![0-9.,])"
)


def _status_in(text: str) -> int | None:
    match = compiled(_STATUS).search(text)
    return int(match[1]) if match else None


_BY_STATUS: Final = {
    401: Code.AUTH, 402: Code.QUOTA, 403: Code.AUTH, 407: Code.AUTH, 408: Code.TIMEOUT,
    413: Code.PAYLOAD_TOO_LARGE, 429: Code.RATE_LIMIT, 499: Code.TIMEOUT, 504: Code.TIMEOUT,
    522: Code.TIMEOUT, 524: Code.TIMEOUT,
}  # fmt: skip

_BAD_REQUEST: Final = (
    "invalid", "not valid", "validation", "bad request", "unprocessable", "unsupported",
)  # fmt: skip


def _by_status(status: int | None, text: str) -> Code:
    """What is left to say where no wording is known: the status's meaning."""
    if status is not None and (code := _BY_STATUS.get(status)):
        return code
    if status is not None and status >= 400:
        return Code.SERVER if status >= 500 else Code.INVALID_REQUEST
    return Code.INVALID_REQUEST if any(word in text for word in _BAD_REQUEST) else Code.OTHER


# The numbers --------------------------------------------------------------------------------------


def _overflow(text: str, row: Wording, match: re.Match[str]) -> Refusal:
    numbers = _numbers(text, match) if row.reads_numbers else {}
    limit, given, output = (numbers.get(role) for role in ("limit", "input", "output"))
    requested = numbers.get("total")
    if requested is None and given is not None:
        requested = given + (output or 0)
    if requested is None and limit is not None and "excess" in numbers:
        requested = limit + numbers["excess"]
    return Refusal(
        code=Code.CONTEXT_WINDOW_EXCEEDED,
        limit_tokens=limit,
        requested_tokens=requested,
        input_tokens=given,
        output_tokens=output,
        cure=_cure(limit, given, output),
        wording=row.name,
    )


def _cure(limit: int | None, given: int | None, output: int | None) -> Cure:
    if limit is None or given is None or not output:
        return "compact"
    room = min(ROOM_TOKENS, limit // ROOM_SHARE)
    return "lower-output" if given + room <= limit else "compact"


def _numbers(text: str, match: re.Match[str]) -> dict[str, int]:
    """The numbers by role: those that the row names, then those that `READINGS` find beside it."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for role in match.re.groupindex:
        if match[role] and (count := _count(text, match.span(role), role)) is not None:
            found[role] = count
            taken.add(match.start(role))
    again = text.find(match[0], match.end())  # clients append the body, which says it all once more
    behind = match.end() + NEAR_BEHIND if again < 0 else min(again, match.end() + NEAR_BEHIND)
    near = slice(max(0, match.start() - NEAR_BEFORE), behind)
    for reading in READINGS:
        if reading.role not in found:
            _read(reading, text, near, found, taken)
    return found


def _read(reading: Reading, text: str, near: slice, found: dict[str, int], taken: set[int]) -> None:
    """Find what `reading` looks for `near` the words, and add it to `found` and `taken`."""
    for match in compiled(reading.pattern).finditer(text, near.start, near.stop):
        at = match.start("n")
        count = None if at in taken else _count(text, match.span("n"), reading.role)
        if count is None or compiled(HTTP_STATUS).match(text, at):
            continue
        found[reading.role] = found.get(reading.role, 0) + count
        taken.add(at)
        if not reading.adds:
            return


_SEPARATOR: Final = r"[,._ ](?=[0-9]{3}(?![0-9]))"


def _count(text: str, span: tuple[int, int], role: str) -> int | None:
    """The number at `span`, or None where it can't be a count of tokens in that role."""
    before = text[max(0, span[0] - NEAR_UNIT) : span[0]]
    if compiled(UNITS_BEHIND).match(text, span[1]) or compiled(UNITS_BEFORE).search(before):
        return None
    digits = text[span[0] : span[1]]
    unit = {"k": 1000, "m": 1_000_000}.get(digits[-1], 1)
    count = int(float(compiled(_SEPARATOR).sub("", digits.rstrip("km "))) * unit)
    least = LEAST_WINDOW_TOKENS if role == "limit" else 0
    return count if least <= count <= MOST_TOKENS else None


# From text to failure -----------------------------------------------------------------------------


def parse_failure(text: str) -> Failure:
    """Read as a failure what a user pastes or pipes; never raises.

    JSON is taken apart, through as many layers as gateways stack: an object with `status`, `code`,
    `message` and `body`, a provider's body, a string that holds one, frames of an event stream. All
    else (an exception, a Python repr, a page of HTML) is a message as it stands, from which only
    status and code are read. What was taken apart stays whole in `body`.
    """
    text = text.strip("\ufeff \t\r\n\0")
    value = _json(text)
    if value is None and (frame := _frame(text)) is not None:
        value = _json(frame)
    facts = _Facts()
    if isinstance(value, dict | list | str):
        facts.take(value)
    if facts.message is None:
        return _from_words(text)
    return Failure(
        message=facts.message,
        code=facts.code,
        status=facts.status,
        type=facts.type,
        body=facts.body or (text if facts.says_more else None),
    )


def failure_of(error: BaseException) -> Failure:
    """Read as a failure what a client raised; never raises.

    Clients keep the provider's answer in `body` (the official ones of OpenAI and Anthropic) or in
    `response` (httpx), and the status beside it; of all others the words are read.
    """
    told = parse_failure(_answer_in(error) or _words_of(error))
    if told.status is not None:
        return told
    status = _asked(error, "status_code") or _asked(_asked(error, "response"), "status_code")
    return structs.replace(told, status=_http_status(status))


def _answer_in(error: BaseException) -> str:
    """What the provider answered, as text; empty where the error does not have it."""
    import json

    body = _asked(error, "body")
    if isinstance(body, dict | list) and body:
        return json.dumps(body, default=str)
    texts = (body, _asked(_asked(error, "response"), "text"))
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _asked(value: object, name: str) -> Any:
    """An attribute; None where there is none or asking fails (for a text that was not read)."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001, it is somebody else's code
        return None


def _words_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001, it is somebody else's code
        return type(error).__name__


_PLAIN_KEYS: Final = {"status", "code", "type", "message", "body"}
"""The keys of a failure itself: an object that has no others says no more than they do."""


class _Facts:
    """What the layers of an error say, the outer layer before the inner, the innermost message."""

    def __init__(self) -> None:
        self.message: str | None = None
        self.code: str | None = None
        self.status: int | None = None
        self.type: str | None = None
        self.body: str | None = None
        self.says_more = False

    def take(self, value: Any) -> None:
        """Go down from layer to layer, and keep what each says."""
        for _ in range(MOST_WRAPPERS):
            if isinstance(value, list):
                value = next((part for part in value if isinstance(part, dict | list)), None)
            elif isinstance(value, dict):
                value = self._layer(value)
                self.says_more = self.says_more or value is not None
            elif isinstance(value, str) and (inner := _json(value)) is not None:
                value = inner
            else:
                self.message = self.message or (value if isinstance(value, str) else None)
                break

    def _layer(self, layer: dict[str, Any]) -> Any:
        """Keep this layer's facts; return the layer inside it, if there is one."""
        self.says_more = self.says_more or not layer.keys() <= _PLAIN_KEYS
        for key in ("status", "status_code", "statusCode", "http_status", "code"):
            self.status = self.status or _http_status(layer.get(key))
        for key in ("code", "error_code", "errorCode", "reason", "status"):
            self.code = self.code or _word(layer.get(key))
        for key in ("type", "error_type", "__type"):
            self.type = self.type or _word(layer.get(key))
        if self.body is None and isinstance(layer.get("body"), str):
            self.body = layer["body"]
        for key in ("message", "error_msg", "msg", "detail", "Message", "error", "body"):
            if isinstance(said := layer.get(key), str) and said:
                self.message = said
                break
        for key in ("error", "errors", "response", "data", "message", "details"):
            inner = layer.get(key)
            if isinstance(inner, dict | list) or (isinstance(inner, str) and _json(inner)):
                return inner
        return None


def _from_words(text: str) -> Failure:
    plain = plain_text(_clipped(text))
    code, kind = (_named(plain, names) for names in ("(?:error_?)?code", "(?:error_?)?type"))
    return Failure(message=text, code=code, status=_status_in(plain), type=kind)


def _named(plain: str, names: str) -> str | None:
    """The word that stands behind a name, as in `code: context_length_exceeded`."""
    match = re.search(rf"(?<![a-z_]){names} ?(?::|=>|=) ?([a-z][a-z0-9_.-]{{2,63}})", plain)
    return None if match is None or match[1] in {"none", "null"} else match[1]


def _frame(text: str) -> str | None:
    """The data of the frame that tells an error, out of an event stream; None if it is none."""
    frames = re.findall(r"^data: ?([\[{].*)", text[:MOST_JSON], re.MULTILINE)
    failed = [frame for frame in frames if "error" in frame or "fail" in frame]
    return (failed or frames)[-1] if frames else None


def _json(text: str) -> Any:
    """The value that `text` writes, or None where it is no JSON worth taking apart."""
    import json

    if not text.lstrip().startswith(("{", "[", '"')) or len(text) > MOST_JSON:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _http_status(value: Any) -> int | None:
    digits = str(value) if isinstance(value, int | str) else ""
    return int(digits) if re.fullmatch("[1-5][0-9]{2}", digits) else None


def _word(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | str) or _http_status(value):
        return None
    return str(value)[:MOST_WORD] or None
