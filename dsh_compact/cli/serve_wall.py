"""`dshc serve-wall`: a provider with a wall, as a real server."""

import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsh_compact import tokenizers
from dsh_compact.cli import io, options, wall_options
from dsh_compact.errors import UsageError
from dsh_compact.wall import in_words_of
from dsh_compact.words import counted

if TYPE_CHECKING:
    from dsh_compact.wall.server import Arrived

EXAMPLES = """
dshc serve-wall --limit 8000                     then point your agent at the address it prints
dshc serve-wall --limit 8000 --port 8000 --error-like vllm
dshc serve-wall --limit 8000 --silent            answers always, and drops what doesn't fit
curl http://127.0.0.1:8000/                      what has arrived so far, as JSON
"""


def command(
    *,
    limit: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", show_default=False, help="Where it stands.")
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Where it listens; 0: any free port.")
    ] = 0,
    error_like: wall_options.ErrorLike = None,
    silent: wall_options.Silent = False,
    tokenizer: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"How it counts: {', '.join(tokenizers.NAMES)}."),
    ] = tokenizers.NAMES[0],
    json: options.Json = False,
) -> int:
    """Serve a provider with a wall on 127.0.0.1, for your own agent to run into.

    It speaks OpenAI's chat completions (/v1/chat/completions) and Anthropic's messages
    (/v1/messages and its count_tokens), streamed or not, takes any key and any model's name, counts
    each request with a real tokenizer, answers with one sentence what fits, and refuses what
    doesn't with the status, body and words of a real provider. The address is printed on stdout,
    each request on stderr. Ctrl-C ends it, with exit code 0.
    """
    if error_like is not None:
        in_words_of(error_like)  # says which there are
    server = _made(limit, port, error_like, tokenizer, is_silent=silent)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a script's kill is a Ctrl-C, too
    try:
        _announce(server, json=json)
        server.serve()
    except KeyboardInterrupt:
        io.notice(f"served {counted(server.served, 'request')}")
    finally:
        server.close()
    return 0


def _made(limit: int, port: int, like: str | None, tokenizer: str, *, is_silent: bool) -> Any:
    from dsh_compact.tokenizers.cache import CountCache
    from dsh_compact.wall.server import HOST, WallServer

    try:
        return WallServer(
            limit,
            CountCache(tokenizers.load(tokenizer)),  # an agent sends it all again each time
            like=like,
            is_silent=is_silent,
            port=port,
            told=_tell,
        )
    except OSError as fault:
        problem = f"{HOST}:{port}: cannot be listened on: {fault.strerror}"
        raise UsageError(problem, "choose another --port") from None


def _announce(server: Any, *, json: bool) -> None:
    if json:
        io.emit_json(
            {
                "schema": 1,
                "command": "serve-wall",
                "log": None,
                "url": server.url,
                "limit_tokens": server.limit_tokens,
            }
        )
    else:
        io.emit_text(
            f"{server.url}\n"
            f"the wall stands at {server.limit_tokens:,} tokens; Ctrl-C ends it\n"
            f"  OPENAI_BASE_URL={server.url}/v1\n"
            f"  ANTHROPIC_BASE_URL={server.url}"
        )
    io.flush()


def _tell(arrived: "Arrived") -> None:
    tokens = "" if arrived.tokens is None else f"{arrived.tokens:,} tokens, "
    io.aside(f"request {arrived.number}, {arrived.path}: {tokens}{arrived.outcome}")
