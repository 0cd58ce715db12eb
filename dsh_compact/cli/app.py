"""The typer app, and the one place where errors become exit codes.

Start-up is a promise (see the benchmark of start-up): a command's module is imported only when
that command runs or its own help is asked, and the help itself is plain text, laid out without
rich. What the commands do, this module doesn't know.

Exit codes beside those that the errors carry: 2 for wrong usage; 4 for want of memory; 70
(EX_SOFTWARE) for a bug of ours, so that a script does not take a traceback for the 1 of a finding;
74 (EX_IOERR) when the result could not be written; 130 after Ctrl-C; 141 when the reader of our
output left, as the shell reports SIGPIPE.
"""

import importlib
import os
import shutil
from functools import partial
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from dsh_compact.cli import COMMANDS, io, module_name, names
from dsh_compact.errors import MORE_MEMORY, NO_MEMORY, DshcError, LogError
from dsh_compact.version import __version__

EXIT_BUG: Final = 70
EXIT_OUTPUT: Final = 74
EXIT_INTERRUPTED: Final = 130
EXIT_READER_LEFT: Final = 141

HELP_WIDTH: Final = 100
"""Columns of a help text at most: longer lines are hard to read, however wide the terminal."""

NARROWEST_HELP: Final = 24
"""Columns that a help text takes at least: two of words are not worth a line."""

SHELL_ASKS: Final = "_DSHC_COMPLETE"
"""The variable by which a shell asks for completions, named as typer does."""

UNWRAPPED_WIDTH: Final = "10000"
"""Columns for the words that a shell is offered: typer wraps them, and a shell takes each line for
a candidate of its own."""

_SHELL: Final = "dsh_compact.shell"

SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH}

EXIT_CODES: Final = {
    "0": "done, or --expect met",
    "1": "a finding: damage, --expect not met, over the threshold with --check",
    "2": "wrong usage",
    "3": "overflow not recovered; the original error was reported",
    "4": "the log can't be used: unreadable, unsupported, owned by another process",
    "5": "the backend failed where nothing else decides",
}


class Helpful:
    """A command whose help goes the way of every result: it fits the terminal, and a full disk is
    told, not thrown.
    """

    def get_help(self, ctx: Any) -> str:
        """Return the help; the parser's own way takes 50 columns at least."""
        formatter = ctx.make_formatter()
        columns = max(NARROWEST_HELP, shutil.get_terminal_size().columns)
        if columns < formatter.width:
            formatter.width = columns
            formatter.write_dl = partial(formatter.write_dl, col_max=columns // 3)
        self.format_help(ctx, formatter)  # type: ignore[attr-defined]
        return str(formatter.getvalue()).rstrip("\n")

    def get_help_option(self, ctx: Any) -> Any:
        """Return the parser's own option, with our way of writing."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        option.callback = _show_help
        return option


def _show_help(ctx: Any, _: Any, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        io.emit_text(ctx.get_help(), verbatim=True)
        raise typer.Exit


class LazyGroup(Helpful, TyperGroup):
    """The group of all commands; it knows their names and imports the one that is asked for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as ever; a word behind a request for completion is the shell's name."""
        if args[:1] in (["--install-completion"], ["--show-completion"]) and len(args) > 1:
            ctx.meta[_SHELL] = args.pop(1)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands' names, in the order of the help."""
        return names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, importing its module, or None if there is none of that name."""
        return _load(cmd_name) if cmd_name in names() else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section, without importing them."""
        there = names()
        for section, rows in COMMANDS.items():
            if lines := [(name, line) for name, line in rows.items() if name in there]:
                with formatter.section(section):
                    formatter.write_dl(lines)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write what an exit code means, and how to go on."""
        with formatter.section("Exit codes"):
            formatter.write_dl([*EXIT_CODES.items()])
        formatter.write_paragraph()
        formatter.write_text('"dshc COMMAND --help" explains a command, with examples.')

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete a command's name, without importing the commands."""
        from typer._click.shell_completion import CompletionItem

        there = names()
        return [
            CompletionItem(name, help=line)
            for rows in COMMANDS.values()
            for name, line in rows.items()
            if name in there and name.startswith(incomplete)
        ] + super(TyperGroup, self).shell_complete(ctx, incomplete)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that `args` begin with; to a misspelt one, name its neighbours."""
        if args[0].startswith("-") or args[0] in names():
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = get_close_matches(args[0], names())
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return ctx.fail(f'there is no command "{args[0]}"{hint}')


def run(words: list[str]) -> int:
    """Run the command line `words`, without the program's name; return the exit code.

    Every error ends here: one that we raise on purpose is a sentence on stderr and its own exit
    code, anything else is a bug of ours and keeps its traceback.
    """
    io.prepare_streams()
    try:
        code = _answered(words)
        io.flush()
        return code
    except KeyboardInterrupt:
        io.notice("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_READER_LEFT
    except io.OutputFailed as error:
        io.notice(str(error))
        return EXIT_OUTPUT
    except MemoryError:
        io.notice(f"{NO_MEMORY}; {MORE_MEMORY}")
        return LogError.exit_code
    except Exception:  # noqa: BLE001, the last door: shown whole, and never mistaken for a finding
        io.show_bug()
        return EXIT_BUG
    finally:
        io.let_go()


def _answered(words: list[str]) -> int:
    """The exit code of what was done, or of the sentence that says why it was not."""
    try:
        return _dispatch(words)
    except DshcError as error:
        io.notice(str(error))
        return error.exit_code
    except typer.TyperException as error:
        io.notice(_usage_sentence(error, words))
        return 2


def _dispatch(words: list[str]) -> int:
    group = typer.main.get_command(_app())
    if os.environ.get(SHELL_ASKS):  # typer answers and ends the process
        os.environ["COLUMNS"] = UNWRAPPED_WIDTH
        from typer._completion_classes import completion_init

        from dsh_compact.cli import completion

        completion_init()
        completion.mend()
        with io.writing():
            group.main(args=words, prog_name="dshc")
    try:
        with group.make_context("dshc", list(words)) as context:
            if not words:
                io.aside(context.get_help())
                return 2
            return int(group.invoke(context) or 0)
    except typer.Exit as done:
        return done.exit_code


def _app() -> typer.Typer:
    app = typer.Typer(
        cls=LazyGroup,
        name="dshc",
        rich_markup_mode=None,
        add_completion=False,  # its own would take no shell's name
        context_settings=dict(SETTINGS),
        help="Tell from a session's log whether a compaction really happened, and whether the "
        "request may be sent again.",
    )
    app.callback()(_root)
    return app


def _say_version(asked: bool) -> None:
    if asked:
        io.emit_text(f"dshc {__version__}")
        raise typer.Exit


def _install_completion(ctx: typer.Context, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from dsh_compact.cli import completion

        io.emit_text(completion.install(ctx.meta.get(_SHELL)))
        raise typer.Exit


def _show_completion(ctx: typer.Context, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from dsh_compact.cli import completion

        io.emit_text(completion.script(ctx.meta.get(_SHELL)), verbatim=True)
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False,
        "--version",
        "-V",
        is_eager=True,
        callback=_say_version,
        help="Show the version and exit.",
    ),
    install_completion: bool = typer.Option(
        False,
        "--install-completion",
        is_eager=True,
        callback=_install_completion,
        help="Set up completion for the shell in use, or for the one that is named: bash, zsh, "
        "fish.",
    ),
    show_completion: bool = typer.Option(
        False,
        "--show-completion",
        is_eager=True,
        callback=_show_completion,
        help="Print what would be set up.",
    ),
) -> None:
    """Stand behind the program's own options; the commands do the work."""


def _load(name: str) -> TyperCommand:
    module = importlib.import_module(module_name(name))
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    cls = _with_examples(getattr(module, "Command", TyperCommand), module.EXAMPLES)
    one.command(name, cls=cls, context_settings=dict(SETTINGS))(module.command)
    command = typer.main.get_command(one)
    assert isinstance(command, TyperCommand)
    if os.environ.get(SHELL_ASKS):
        from dsh_compact.cli import completion

        completion.attach(command)
    return command


def _with_examples(cls: type[TyperCommand], examples: str) -> type[TyperCommand]:
    """Return the command's class with its examples at the end of its help."""

    class Command(Helpful, cls):  # type: ignore[misc, valid-type]
        def format_epilog(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Examples"):
                for line in _laid_out(examples, formatter.width - formatter.current_indent):
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    return Command


def _laid_out(examples: str, width: int) -> list[str]:
    """Return the examples as lines, each remark behind its command, or below where it is too wide.

    In the text two spaces part a command from its remark. A command is never broken: it is there to
    be copied.
    """
    from textwrap import wrap

    rows = [
        (one.partition("  ")[0], one.partition("  ")[2].strip()) for one in examples.splitlines()
    ]
    rows = [(command, remark) for command, remark in rows if command]
    column = 3 + max((len(command) for command, remark in rows if remark), default=0)
    if all(column + len(remark) <= width for _, remark in rows if remark):
        return [f"{command:{column}}{remark}".rstrip() for command, remark in rows]
    return [
        line
        for command, remark in rows
        for line in (command, *wrap(remark, width, initial_indent="    ", subsequent_indent="    "))
    ]


def _usage_sentence(error: typer.TyperException, words: list[str]) -> str:
    from re import search, sub

    where = f"dshc {words[0]}" if words[0] in names() else "dshc"
    message = " ".join(error.format_message().split()).rstrip(".")  # choices come a line each
    message = sub(r"is not a valid int( range)?\b", "is no whole number", message)
    message = sub(r"is not a valid float( range)?\b", "is no number", message)
    message = sub(r"No such option: (\S+)", r"there is no option \1", message)
    if near := search(r" \(Possible options: (.+)\)$", message):
        message = f"{message[: near.start()]}; did you mean {near[1].replace(', ', ' or ')}?"
    return message if message.endswith("?") else f'{message}; see "{where} --help"'
