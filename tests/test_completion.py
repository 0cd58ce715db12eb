"""Completion: every option that takes a name offers the names there are, in every shell."""

import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import Any, Final

import pytest
from running import DSHC, LOGS, Ran, dshc
from typer.main import get_command

from dsh_compact import summarizers, tokenizers
from dsh_compact.backends.lookup import BUILT_IN
from dsh_compact.cli import completion, names
from dsh_compact.cli.app import _app
from dsh_compact.wall import WORDINGS

FREE: Final = {"provider", "model"}
"""Names that anybody may choose."""

needs = {
    shell: pytest.mark.skipif(shutil.which(shell) is None, reason=f"needs {shell}")
    for shell in ("bash", "fish", "zsh")
}


def told(script: str, *shell: str) -> str:
    """What a shell prints that has `dshc` on its path, in a folder of logs."""
    path = f"{DSHC.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*shell, "-c", script],
        capture_output=True,
        text=True,
        cwd=LOGS,
        env={**os.environ, "PATH": path},
        timeout=60,
        check=False,
    )
    assert "" == done.stderr
    return done.stdout


def named_options() -> Iterator[tuple[str, Any]]:
    """Each command's options that take a name."""
    group: Any = get_command(_app())
    with group.make_context("dshc", ["config"], resilient_parsing=True) as context:
        for name in names():
            for parameter in group.get_command(context, name).params:
                if parameter.metavar == "NAME":
                    yield name, parameter


def test_every_option_that_takes_a_name_offers_names() -> None:
    """A new one has to decide what it offers, or that it is anybody's choice."""
    undecided = [
        f"{command} --{option.name}"
        for command, option in named_options()
        if option.name not in {*completion.VALUES, *FREE}
    ]
    assert [] == undecided


def test_no_row_is_left_over() -> None:
    """Every row of the table is some command's option."""
    assert {*completion.VALUES} <= {option.name for _, option in named_options()}


@pytest.mark.parametrize(
    ("offer", "wanted"),
    [
        (completion.backends, {*BUILT_IN}),
        (completion.summarizers, {*summarizers.NAMES}),
        (completion.tokenizers, {*tokenizers.NAMES}),
        (completion.disciplines, {"proof", "breaker:3", "trust"}),
        (completion.wordings, {*WORDINGS}),
    ],
)
def test_what_is_offered_is_what_the_commands_take(offer: Any, wanted: set[str]) -> None:
    """The names are those of the tables in which the commands look them up."""
    assert wanted <= {name for name, _ in offer()}


FISH: Final = """
env _DSHC_COMPLETE=source_fish dshc | source
complete -C '{}'
"""

BASH: Final = """
eval "$(_DSHC_COMPLETE=source_bash dshc)"
COMP_WORDS=({}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_dshc_completion dshc
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

ZSH: Final = """
compdef() {{ : }}
_arguments() {{ print -r -- "$1" }}
_files() {{ print files }}
eval "$(_DSHC_COMPLETE=source_zsh dshc)"
words=({})
CURRENT=$#words
_dshc_completion
"""


@needs["fish"]
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("dshc measure v4-st", "v4-stuck.jsonl\n"),
        ("dshc recover --backend ly", "lying\thostile: claims that it compacted"),
        ("dshc recover --discipline b", "breaker:3\tthree refusals"),
        ("dshc recover --backend ./v4-st", "./v4-stuck.jsonl\n"),
        ("dshc serve-wall --error-like v", "vllm\t400: This model's"),
    ],
)
def test_fish_completes(words: str, offered: str) -> None:
    """A real fish offers the names with their sentences, one line each, or files."""
    lines = told(FISH.format(words), "fish", "--no-config").splitlines(keepends=True)
    assert [True] == [line.startswith(offered) for line in lines]


@needs["bash"]
def test_bash_completes() -> None:
    """A real bash is given the names, and nothing where files are to be completed."""
    assert "lying\n" == told(BASH.format("dshc recover --backend ly"), "bash", "--norc")
    assert "\n" == told(BASH.format("dshc recover --backend ./v4-st"), "bash", "--norc")


READY: Final = b"ready-to-go"
"""Printed by each shell once it has started: it is typed as a sum, so that its echo is another."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "shell", [pytest.param(shell, marks=needs[shell]) for shell in completion.SHELLS]
)
def test_a_tab_completes_in_a_shell_that_was_set_up(shell: str, tmp_path: Path) -> None:
    """`--install-completion`, a new shell, `dshc mea` and the key, once: the word is there."""
    path = f"{DSHC.parent}{os.pathsep}{os.environ['PATH']}"
    home = {"HOME": str(tmp_path), "PATH": path, "TERM": "xterm"}
    done = dshc("--install-completion", shell, env=home)
    script = Path(done.out.strip().rpartition(" ")[2])
    assert (0, True) == (done.code, script.is_relative_to(tmp_path) and script.is_file())
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(shell, [shell, "-i"], {**os.environ, **home})
    try:
        os.write(terminal, b"echo ready-to''-go\r")
        read_until(READY, terminal)
        os.write(terminal, b"dshc mea\t")
        read_until(b"measure", terminal)
        os.write(terminal, b"--demo | head -n 1\r")
        read_until(b"data/session.jsonl", terminal)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def read_until(word: bytes, terminal: int) -> None:
    """Return once the terminal shows the word, which it must soon."""
    seen = b""
    while word not in seen:
        assert [terminal] == select([terminal], [], [], 20)[0], seen
        piece = os.read(terminal, 4096)
        if b"\x1b[c" in piece or b"\x1b[0c" in piece:  # a shell asks who it is
            os.write(terminal, b"\x1b[?62;c")
        seen += piece


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_shell_may_be_named(shell: str) -> None:
    """What is printed is that shell's, whichever is in use, and what the shell itself asks for."""
    done = dshc("--show-completion", shell)
    assert (0, "") == (done.code, done.err)
    assert done.out.strip() == dshc(env={"_DSHC_COMPLETE": f"source_{shell}"}).out.strip()


def test_a_shell_that_is_unknown_is_wrong_usage() -> None:
    """Another shell's name is refused, and those that there are are named."""
    done = dshc("--show-completion", "tcsh")
    told = "dshc: tcsh: no completion for that shell; choose bash, zsh, fish\n"
    assert Ran(code=2, out="", err=told) == done


def test_where_nothing_can_be_written_the_script_is_pointed_at(tmp_path: Path) -> None:
    """A home that takes no file costs no traceback."""
    (tmp_path / ".zfunc").write_text("in the way")
    done = dshc("--install-completion", "zsh", env={"HOME": str(tmp_path)})
    assert (2, "") == (done.code, done.out)
    assert f"dshc: {tmp_path}/.zfunc: cannot be written: File exists; " in done.err
    assert '"dshc --show-completion zsh" prints the script' in done.err


@needs["zsh"]
def test_zsh_completes() -> None:
    """A real zsh is given names with their sentences, escaped as it wants, or asked for files."""
    offered = told(ZSH.format("dshc recover --backend ly"), "zsh", "-f")
    assert 'lying":"hostile\\\\: claims that it' in offered
    assert "files\n" == told(ZSH.format("dshc recover --backend ./v4-st"), "zsh", "-f")
