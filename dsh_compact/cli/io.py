"""Where words leave the program: the result to stdout, notices to stderr, and nothing raw.

Only this module (and the progress bar beside it) writes to a stream. It doesn't know what it
writes: strings come from `dsh_compact.report`, whose foreign parts have passed `safe`.
"""

import contextlib
import errno
import os
import re
import sys
from typing import Any, BinaryIO, Final, TextIO

from dsh_compact.errors import UsageError, WriteFailed
from dsh_compact.report.terminal import fit, safe_block

PLAIN_WIDTH: Final = 80
"""Columns where the terminal doesn't tell how wide it is."""

PIECE_BYTES: Final = 1 << 20
MOST_INPUT_BYTES: Final = 1 << 28
"""Of what is held in memory whole: beyond 256 MiB lies a mistake, or a device without end."""

REPORT_BEGINS: Final = b"<?xml"
"""How a report begins that an earlier run has left."""

_RAW_IN_JSON: Final = (
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8b\x8e\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]"
    rb"|\xef\xbb\xbf|\xef\xbf[\xb9-\xbb]|\xf3\xa0[\x80\x81][\x80-\xbf]"
)
"""DEL, C1 controls, invisible and direction-changing characters, as UTF-8: JSON allows them raw, a
terminal may obey them. The same set as `report.terminal` escapes, less what JSON escapes itself."""


class OutputFailed(Exception):
    """The result could not be written, though somebody is still reading: a full disk, say."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """`the result can't be written: No space left on device`."""
        return f"the result can't be written: {self.reason.strerror or self.reason}"


def prepare_streams() -> None:
    """Make both streams take every character: what an encoding lacks is shown as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def read_input() -> bytes | None:
    """Return all of stdin, or None where a person sits there or it is closed.

    Raises `UsageError` where that would be more than `MOST_INPUT_BYTES`.
    """
    if sys.stdin is None or is_terminal(sys.stdin):
        return None
    return _whole(sys.stdin.buffer, "standard input")


def read_file(path: str) -> bytes:
    """Return what is in a file or comes out of a pipe; raise `UsageError` as `read_input` does, and
    where it can't be read.
    """
    try:
        with open(path, "rb") as file:
            return _whole(file, path)
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read: {fault.strerror}", "name a file") from None


def _whole(source: BinaryIO, name: str) -> bytes:
    pieces: list[bytes] = []
    left = MOST_INPUT_BYTES
    while piece := source.read(PIECE_BYTES):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            most = f"{MOST_INPUT_BYTES >> 20} MiB"
            raise UsageError(f"{name}: more than {most} came", "is it a log? then name the file")
    return b"".join(pieces)


def emit_text(text: str, *, verbatim: bool = False) -> None:
    """Write `text` and a line feed to stdout; raise `OutputFailed`, or BrokenPipeError.

    Lines that are wider than the terminal are folded, unless `verbatim` says that they are there to
    be copied.
    """
    width = None if verbatim else console_width()
    with writing():
        text = text if width is None else fit(text, width)
        sys.stdout.write(text + "\n")


def emit_json(value: Any) -> None:
    """Write `value` as one line of JSON to stdout, the same bytes on a terminal and in a pipe.

    Characters that a terminal may obey are written as JSON escapes: the same value to every parser.
    """
    with writing():
        sys.stdout.flush()
        sys.stdout.buffer.write(_json(value) + b"\n")


@contextlib.contextmanager
def writing() -> Any:
    """While the result is written, by us or by the parser (what a shell asks for): what stdout
    refuses becomes `OutputFailed`; a reader who left is still a BrokenPipeError.
    """
    if sys.stdout is None:  # the shell's `>&-`
        raise OutputFailed(OSError(errno.EBADF, os.strerror(errno.EBADF)))
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as reason:
        raise OutputFailed(reason) from reason


def write_file(path: str, text: str) -> None:
    """Write a report in XML to `path`, in the place of an earlier one, all at once.

    What is no file, such as a pipe or a terminal, is written into. Raises `WriteFailed`, and
    `UsageError` where anything but a report would be lost.
    """
    from dsh_compact.journal import pour, replace_file, write_new_file

    data = text.encode("utf-8")
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113, see below
        pour(path, data)
        return
    path = os.path.realpath(path)
    _refuse_other_than_report(path)
    fresh = f"{path}.{os.getpid()}.new"
    try:
        write_new_file(fresh, [data])
    except WriteFailed as fault:  # by the name that its user knows
        raise WriteFailed(path, fault.problem, remedy=fault.remedy) from fault
    try:
        replace_file(fresh, path)
    except BaseException:
        os.unlink(fresh)  # noqa: PTH108, no pathlib where a command must start fast
        raise


def _refuse_other_than_report(path: str) -> None:
    """A log's name behind the wrong option must not cost the log."""
    try:
        with open(path, "rb") as there:
            start = there.read(len(REPORT_BEGINS))
    except FileNotFoundError:
        return
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read: {fault.strerror}", "name another file") from None
    if start not in (b"", REPORT_BEGINS):
        raise UsageError(f"{path}: is no report, and would be lost", "name another file")


def notice(text: str) -> None:
    """Write a notice to stderr, behind the program's name; control characters become visible."""
    aside(f"dshc: {text}")


def aside(text: str) -> None:
    """Write `text` and a line feed to stderr; control characters become visible."""
    if sys.stderr is None:  # the shell's `2>&-`
        return
    try:
        sys.stderr.write(safe_block(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # an aside that nobody can read must not end the work
        _abandon(sys.stderr)


def flush() -> None:
    """Send what is buffered on its way, so that a failure is met here and not at the exit."""
    if sys.stdout is not None:  # nothing was written to one that is closed
        with writing():
            sys.stdout.flush()


def check_reader() -> None:
    """Raise BrokenPipeError where nobody reads stdout any more: a pipe tells without a write.

    For who waits: `| head -1` shall not have to wait for a line that nobody wants.
    """
    import select

    if sys.stdout is None or not hasattr(select, "poll"):
        return
    watch = select.poll()
    watch.register(sys.stdout.fileno(), 0)
    if any(what & (select.POLLERR | select.POLLHUP) for _, what in watch.poll(0)):
        raise BrokenPipeError


def let_go() -> None:
    """Send what is left, or give up on it: nothing that comes later changes the exit code."""
    try:
        flush()
    except (OutputFailed, OSError, ValueError):
        _abandon(sys.stdout)


def _abandon(stream: TextIO) -> None:
    """The interpreter would try once again at the exit, complain, and end with its own code."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def guests() -> Any:
    """While foreign code runs: what it prints, and what programs that it starts print, goes to
    stderr, since stdout carries our result and nothing else.
    """
    if sys.stdout is None or sys.stderr is None:
        yield
        return
    sys.stdout.flush()
    ours = os.dup(sys.stdout.fileno())
    try:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(ours, sys.stdout.fileno())
        os.close(ours)


def show_bug() -> None:
    """Print the traceback of the exception in flight, and whose fault it is."""
    import traceback

    notice(f"this is a bug in dsh-compact, please report it\n{traceback.format_exc().rstrip()}")


def console_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal behind `stream` (stdout), or None where there is none.

    COLUMNS, where it is set to a number above zero, is believed in place of the terminal.
    """
    stream = stream or sys.stdout
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if not is_terminal(stream):
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or PLAIN_WIDTH
    except (OSError, ValueError):
        return PLAIN_WIDTH


def use_color(stream: TextIO | None = None) -> bool:
    """Tell whether colours are welcome on `stream` (stdout).

    NO_COLOR forbids, FORCE_COLOR demands, a dumb terminal can't, and otherwise a terminal decides.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return os.environ.get("TERM") != "dumb" and is_terminal(stream or sys.stdout)


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person sits behind `stream`; a closed stream has nobody."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _json(value: Any) -> bytes:
    from msgspec.json import encode

    try:
        line = encode(value)
    except UnicodeEncodeError:  # a lone surrogate: a log written in JavaScript may hold one
        import json

        line = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    if line.isascii() and b"\x7f" not in line:
        return line
    return re.sub(_RAW_IN_JSON, _json_escape, line)


def _json_escape(match: re.Match[bytes]) -> bytes:
    units = match[0].decode("utf-8").encode("utf-16-be")
    return b"".join(
        b"\\u" + units[i : i + 2].hex().encode("ascii") for i in range(0, len(units), 2)
    )
