"""One request over HTTP, answered as a stream: sent, waited for, sent again where that helps.

Rule: only a rate limit and a failure of the server's own are tried again, after the time that the
server names or a growing one of ours; everything else fails at once, since a second time would cost
and change nothing. Keys appear nowhere but in the request: not in errors, whatever a server echoes.
Everything is bounded: tries, time (a stream that trickles included), and bytes.

This module knows no provider's shapes; it hands out the JSON objects that come.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dsh_compact.events import Failure
from dsh_compact.overflow import Code, Refusal, normalise, parse_failure
from dsh_compact.summarizers.errors import SummarizerFailed, SummarizerNotReady
from dsh_compact.summarizers.models.asking import TooLong
from dsh_compact.summarizers.patterns import harmless, one_line
from dsh_compact.summarizers.protocol import Options, Secret

if TYPE_CHECKING:
    import httpx

MOST_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""More is no summary: the largest models write less than half a megabyte."""

MOST_ERROR_BYTES: Final = 262_144
"""Of an error's body; what is longer is a page of HTML or an echo of the request."""

MOST_MESSAGE_CHARS: Final = 400
"""Of a provider's own words in ours."""

FIRST_DELAY_SECONDS: Final = 1.0
LONGEST_DELAY_SECONDS: Final = 30.0
"""Between tries where the server names no time: doubled each time, up to this."""

CONNECT_SECONDS: Final = 20.0
"""A server that can't be reached in this time is not there."""


_REDACTED: Final = "[key]"
_KEYLIKE: Final = re.compile(r"(?i)\b(?:bearer\s+[\w.~+/=-]{8,}|(?:sk|pk|rk)-[\w*.…-]{6,})")
"""What looks like a key, whole or masked: servers echo even those that they don't know."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """Whom to ask: the summarizer's name, the URL, its headers without the key's, and the key.

    `key_header` holds `{}` where the key goes; `key_from` says where a user sets it.
    """

    name: str
    url: str
    headers: Mapping[str, str]
    key: Secret | None
    key_header: tuple[str, str]
    key_from: str

    @property
    def shown(self) -> str:
        """The URL without what may be secret in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"

    def all_headers(self) -> dict[str, str]:
        """The headers with the key's: for the request alone."""
        key = {self.key_header[0]: self.key_header[1].format(self.key.reveal())} if self.key else {}
        return {**self.headers, **key, "content-type": "application/json"}

    def redacted(self, text: str) -> str:
        """Foreign text for an error: without any key, on one line, in bounds."""
        shown = self.without_key(one_line(harmless(text)))
        return _KEYLIKE.sub(_REDACTED, shown)[:MOST_MESSAGE_CHARS]

    def without_key(self, text: str) -> str:
        """The text as it is, save for the key."""
        return text.replace(self.key.reveal(), _REDACTED) if self.key else text

    def failed(self, problem: str, remedy: str = "") -> SummarizerFailed:
        """The summarizer's error."""
        return SummarizerFailed(self.name, problem, remedy)


class Patience:
    """How often and how long: tries are counted by the caller, time by this."""

    def __init__(
        self,
        tries: int,
        seconds: float,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tries = max(1, tries)
        self.seconds = seconds
        self._sleep, self._now = sleep, now
        self._end = now() + seconds

    @property
    def left_seconds(self) -> float:
        """What is left of the time; not above 0 once it is over."""
        return self._end - self._now()

    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        self._sleep(seconds)


class Refused(Exception):
    """The server refused the request, and another try would not help; never leaves this package."""

    def __init__(self, refusal: Refusal, failure: Failure) -> None:
        super().__init__(refusal, failure)
        self.refusal = refusal
        self.failure = failure


class _Again(Exception):
    """A refusal after which another try helps; `after_seconds` None where the server names none."""

    def __init__(self, refused: Refused, after_seconds: float | None) -> None:
        super().__init__(refused)
        self.refused = refused
        self.after_seconds = after_seconds


def endpoint(
    name: str,
    url: str,
    *,
    key_header: tuple[str, str],
    key: Secret | None,
    variable: str,
    environment: Mapping[str, str],
    needs_key: bool,
    headers: Mapping[str, str] | None = None,
) -> Endpoint:
    """The endpoint with its key, from the options or from the environment's `variable`.

    Raises `SummarizerNotReady` where it needs a key and has none, or one that no header takes.
    """
    value = (key.reveal() if key else environment.get(variable, "")).strip()
    origin = "the configuration" if key else variable
    if not value and needs_key:
        raise SummarizerNotReady(name, "there is no key", f"set {variable}")
    if not value.isascii() or not value.isprintable() or " " in value:
        problem = f"the key in {origin} holds characters that no key has"
        raise SummarizerNotReady(name, problem, "set it again")
    return Endpoint(
        name=name,
        url=url,
        headers=headers or {},
        key=Secret(value) if value else None,
        key_header=key_header,
        key_from=origin,
    )


def patience(options: Options, timeout_seconds: float | None) -> Patience:
    """What the options allow, in the time that is given for the whole."""
    return Patience(options.tries, timeout_seconds or options.timeout_seconds)


# Sending ------------------------------------------------------------------------------------------


def send(
    endpoint: Endpoint,
    body: Mapping[str, Any],
    time_: Patience,
    read: Callable[[Iterator[dict[str, Any]]], "Read"],
) -> "Read":
    """Sends `body` until it is answered, and returns what `read` makes of the answer's objects.

    Raises `TooLong` and `Refused` where the server refused it, `SummarizerFailed` where it can't be
    reached, the time is over or all tries are used up.
    """
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    tried = 0
    with _client(endpoint) as client:
        while True:
            try:
                return _once(client, endpoint, content, time_, read)
            except _Again as again:
                tried += 1
                if tried >= time_.tries:
                    raise failed(endpoint, again.refused, f"{tried} times") from None
                _wait(endpoint, time_, again, tried)


class Read(Struct, frozen=True, kw_only=True):
    """What came: the text, and what the provider counted."""

    text: str
    counted: dict[str, Any] = {}


def failed(endpoint: Endpoint, refused: Refused, note: str = "") -> SummarizerFailed:
    """The refusal as an error that a user can act on, without secrets."""
    status = refused.failure.status
    words = endpoint.redacted(refused.failure.message) or "no reason given"
    who = f"{endpoint.shown} answered {status}" if status else f"{endpoint.shown} failed"
    told = f"{who}{f' {note}' if note else ''}: {words}"
    return endpoint.failed(told, _remedy(refused.refusal.code, endpoint))


def _remedy(code: Code, endpoint: Endpoint) -> str:
    match code:
        case Code.AUTH:
            return f"check the key in {endpoint.key_from}"
        case Code.QUOTA:
            return "the account has nothing left"
        case Code.RATE_LIMIT:
            return "wait, or use another model"
        case _:
            return ""


def _wait(endpoint: Endpoint, time_: Patience, again: _Again, tried: int) -> None:
    seconds = again.after_seconds
    if seconds is None:
        seconds = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (tried - 1))
    if seconds >= time_.left_seconds:
        note = f"and wants {seconds:.0f} s of patience, more than is left"
        raise failed(endpoint, again.refused, note) from None
    time_.wait(seconds)


@contextmanager
def _client(endpoint: Endpoint) -> "Iterator[httpx.Client]":
    try:
        import httpx
    except ModuleNotFoundError:
        raise SummarizerNotReady(
            endpoint.name, "httpx is not installed", "pip install 'dsh-compact[http]'"
        ) from None
    with httpx.Client(follow_redirects=False) as client:  # a redirect would carry the key away
        yield client


def _once(
    client: "httpx.Client",
    endpoint: Endpoint,
    content: bytes,
    time_: Patience,
    read: Callable[[Iterator[dict[str, Any]]], Read],
) -> Read:
    import httpx

    left = time_.left_seconds
    if left <= 0:
        raise _over(endpoint, time_)
    timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS))
    try:
        with client.stream(
            "POST", endpoint.url, content=content, headers=endpoint.all_headers(), timeout=timeout
        ) as response:
            if response.status_code != httpx.codes.OK:
                raise _refusal(response, endpoint, time_)
            return read(_objects(response, endpoint, time_))
    except httpx.ConnectTimeout:
        raise endpoint.failed(f"{endpoint.shown} can't be reached", "check the base URL") from None
    except httpx.TimeoutException:
        raise _over(endpoint, time_) from None
    except httpx.ConnectError as fault:
        words = endpoint.redacted(str(fault))
        problem = f"{endpoint.shown} can't be reached: {words}"
        raise endpoint.failed(problem, "check the base URL") from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as fault:
        words = endpoint.redacted(str(fault)) or type(fault).__name__
        raise endpoint.failed(f"the answer from {endpoint.shown} broke off: {words}") from None


def _over(endpoint: Endpoint, time_: Patience) -> SummarizerFailed:
    problem = f"{endpoint.shown} gave no whole summary within {time_.seconds:g} seconds"
    return endpoint.failed(problem, "give it more time, or use a faster model")


# Refusals -----------------------------------------------------------------------------------------


def _refusal(response: "httpx.Response", endpoint: Endpoint, time_: Patience) -> Exception:
    body = b"".join(_bounded(response, endpoint, time_, MOST_ERROR_BYTES, is_error=True))
    failure = parse_failure(body.decode("utf-8", "replace"))
    failure = msgspec.structs.replace(failure, status=response.status_code)
    return classified(failure, _retry_after(response.headers))


def told_inside(answer: Mapping[str, Any]) -> Exception:
    """An error that came in the middle of an answer, as the exception that says what helps."""
    return classified(parse_failure(json.dumps(answer)))


def classified(failure: Failure, after_seconds: float | None = None) -> Exception:
    """A failure as the exception that says what helps: shorter, again, or nothing."""
    refusal = normalise(failure)
    refused = Refused(refusal, failure)
    match refusal.code:
        case Code.CONTEXT_WINDOW_EXCEEDED | Code.PAYLOAD_TOO_LARGE:
            return TooLong(refusal)
        case Code.RATE_LIMIT | Code.SERVER | Code.TIMEOUT:
            return _Again(refused, after_seconds)
        case _:
            return refused


def _retry_after(headers: "httpx.Headers") -> float | None:
    """How long the server asks us to wait: seconds, milliseconds, or a date."""
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) / per_second)
        except ValueError:
            pass
    try:
        return max(
            0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time()
        )
    except ValueError:
        return None


# The stream ---------------------------------------------------------------------------------------


def _objects(
    response: "httpx.Response", endpoint: Endpoint, time_: Patience
) -> Iterator[dict[str, Any]]:
    """The JSON objects of the answer, one by one: of an event stream, or the only one."""
    chunks = _bounded(response, endpoint, time_, MOST_ANSWER_BYTES)
    if "json" in response.headers.get("content-type", ""):
        yield _object(b"".join(chunks), endpoint)
        return
    for line in _lines(chunks):
        if line.startswith(b"data:"):
            data = line[5:].strip()
            yield {"done": True} if data == b"[DONE]" else _object(data, endpoint)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines by their line feeds alone: JSON may hold every other line end of Unicode."""
    parts: list[bytes] = []
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*parts, line]).rstrip(b"\r")
            parts = []
        parts.append(rest)
    if last := b"".join(parts):
        yield last


def _object(data: bytes, endpoint: Endpoint) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        words = endpoint.redacted(data[:MOST_MESSAGE_CHARS].decode("utf-8", "replace"))
        problem = f"{endpoint.shown} doesn't speak the protocol: {words}"
        raise endpoint.failed(problem, "check the base URL")
    return value


def _bounded(
    response: "httpx.Response",
    endpoint: Endpoint,
    time_: Patience,
    most_bytes: int,
    *,
    is_error: bool = False,
) -> Iterator[bytes]:
    """The answer's bytes; beyond the bound an error's are left, a summary's are refused."""
    left = most_bytes
    for chunk in response.iter_bytes():
        if time_.left_seconds <= 0:
            raise _over(endpoint, time_)
        left -= len(chunk)
        if left < 0 and is_error:
            return
        if left < 0:
            raise endpoint.failed(f"{endpoint.shown} doesn't stop answering")
        yield chunk
