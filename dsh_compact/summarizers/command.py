"""Any program as a summarizer: the request as JSON on its input, the summary on its output.

Rule: no shell runs; a string is only split as a shell would split it. The program has a time limit,
after which it and all that it started are killed, and it may not write without end. What it says on
its standard error belongs to the summary's notices, or to the error where it fails.
"""

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from typing import IO, Any, Final, NamedTuple

from dsh_compact.export import to_openai
from dsh_compact.summarizers.errors import SummarizerFailed, SummarizerNotReady
from dsh_compact.summarizers.models import instruction
from dsh_compact.summarizers.models.asking import bounded
from dsh_compact.summarizers.patterns import harmless
from dsh_compact.summarizers.protocol import Options, Progress, Request, Summary
from dsh_compact.tokens import price_text

NAME: Final = "command"

MOST_OUTPUT_BYTES: Final = 4 * 1024 * 1024
"""More is no summary."""

MOST_ERROR_BYTES: Final = 65_536
"""Of the standard error, the last: the rest has been said long ago."""

SHOWN_CHARS: Final = 2_000
"""Of it, what an error shows."""

CHUNK_BYTES: Final = 65_536

LOOK_SECONDS: Final = 0.1
"""How often we look whether the program prints too much."""

GRACE_SECONDS: Final = 1.0
"""How long after the program's end its pipes may still be held by what it started."""


def load(options: Options) -> "Command":
    """The summarizer; raises `SummarizerNotReady` where no program is named."""
    try:
        words = (
            tuple(shlex.split(options.command))
            if isinstance(options.command, str)
            else tuple(options.command)
        )
    except ValueError as fault:
        raise SummarizerNotReady(NAME, f"the command can't be split: {fault}", "mend it") from None
    if not words:
        raise SummarizerNotReady(NAME, "no program is named", "set summarizer_command")
    return Command(words, options)


class Command:
    """Summarises with a program of the user's."""

    name = NAME

    def __init__(self, words: tuple[str, ...], options: Options) -> None:
        self._words = words
        self._options = options

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """What the program printed; raises `SummarizerFailed`."""
        seconds = request.timeout_seconds or self._options.timeout_seconds
        ran = _run(self._words, _asked(request, self._options), seconds)
        text = harmless(ran.out.decode("utf-8", "replace")).strip()
        if not text:
            raise SummarizerFailed(NAME, f"{self._words[0]} printed no summary{_said(ran.err)}")
        text = bounded(text, request.max_tokens)
        if progress is not None:
            progress(price_text(text))
        return Summary(
            text=text,
            provider=NAME,
            model=self._options.model or os.path.basename(self._words[0]),  # noqa: PTH119
            requests=1,
            notices=tuple(filter(None, (_shown(ran.err),))),
        )


def _asked(request: Request, options: Options) -> bytes:
    """The request as JSON: the conversation in OpenAI's shape, and what is wanted."""
    header = request.header
    body: dict[str, Any] = {
        "schema": 1,
        "provider": None if header is None else header.provider,
        "model": options.model or (None if header is None else header.model),
        "system": to_openai(request.system, header)["messages"],
        "messages": to_openai(request.messages)["messages"],
        "max_tokens": request.max_tokens,
        "instructions": request.instructions,
        "prompt": instruction.for_span(request.max_tokens, request.instructions),
    }
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


# Running it ---------------------------------------------------------------------------------------


class _Ran(NamedTuple):
    """What a finished program left on its output and its standard error."""

    out: bytes
    err: bytes


def _run(words: tuple[str, ...], given: bytes, seconds: float) -> _Ran:
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that all it starts can be killed with it
        )
    except (OSError, ValueError) as fault:
        words_ = fault.strerror if isinstance(fault, OSError) else str(fault)
        problem = f"{words[0]} can't be run: {words_ or fault}"
        raise SummarizerFailed(NAME, problem, "check summarizer_command") from None
    assert process.stdin and process.stdout and process.stderr  # noqa: PT018
    threading.Thread(target=_feed, args=(process.stdin, given), daemon=True).start()
    out, err = _Pipe(process.stdout, MOST_OUTPUT_BYTES), _Pipe(process.stderr, MOST_ERROR_BYTES)
    try:
        code = _awaited(process, out, time.monotonic() + seconds)
    except BaseException:
        _kill(process)
        raise
    if code is None or not (out.ends() and err.ends()):
        _kill(process)
        err.ends()
    if code == 0 and not out.is_over:
        return _Ran(out.kept, err.kept)
    raise SummarizerFailed(NAME, f"{words[0]} {_ending(code, out, seconds)}{_said(err.kept)}")


def _awaited(process: "subprocess.Popen[bytes]", out: "_Pipe", end: float) -> int | None:
    """The exit code, or None where the program takes too long or prints too much."""
    while (left := end - time.monotonic()) > 0 and not out.is_over:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, LOOK_SECONDS))
    return None


def _ending(code: int | None, out: "_Pipe", seconds: float) -> str:
    if out.is_over:
        return "doesn't stop printing and was killed"
    if code is None:
        return f"took longer than {seconds:g} seconds and was killed"
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Ends the program and all that it started; what is gone already is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _feed(pipe: IO[bytes], data: bytes) -> None:
    """Writes all of it, or as much as the program wants to read."""
    with suppress(BrokenPipeError), pipe:
        pipe.write(data)


class _Pipe:
    """Reads a pipe to its end, and keeps at least the last so many bytes."""

    def __init__(self, pipe: IO[bytes], most_bytes: int) -> None:
        self._most = most_bytes
        self._chunks: deque[bytes] = deque()
        self._size = self._read = 0
        self._thread = threading.Thread(target=self._drain, args=(pipe,), daemon=True)
        self._thread.start()

    def ends(self) -> bool:
        """Whether the pipe's end comes soon: what the program started may hold it open."""
        self._thread.join(GRACE_SECONDS)
        return not self._thread.is_alive()

    @property
    def is_over(self) -> bool:
        """Whether more came than is kept."""
        return self._read > self._most

    @property
    def kept(self) -> bytes:
        """All that came, or the last of it."""
        return b"".join(self._chunks)

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), CHUNK_BYTES):
                self._chunks.append(chunk)
                self._read += len(chunk)
                self._size += len(chunk)
                while self._size - len(self._chunks[0]) >= self._most:
                    self._size -= len(self._chunks.popleft())


def _shown(err: bytes) -> str:
    return harmless(err.decode("utf-8", "replace")).strip()[-SHOWN_CHARS:]


def _said(err: bytes) -> str:
    shown = _shown(err)
    return f":\n{shown}" if shown else ""
