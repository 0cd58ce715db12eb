"""Reads the README as a machine does: its set-up commands, its console blocks, its help section.

    python tests/readme.py              write the commands' help into the README, and what the
                                        console blocks really print
    python tests/readme.py --set-up N   print set-up command N (from 1), as the README has it

Needs nothing but the standard library: the second form runs before anything is installed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
README: Final = ROOT / "README.md"
HELP_BEGINS: Final = "<!-- help: written by `python tests/readme.py`, checked by a test -->\n"
HELP_ENDS: Final = "<!-- help ends -->\n"
SEPARATOR: Final = "\x1e"
"""Stands between the outputs of two commands of a block; no command prints it."""

WIDTH: Final = {"COLUMNS": "90"}
"""As wide as a page of the README shows without scrolling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """One `console` block: its place, and each command with the output that the README shows."""

    line: int
    steps: tuple[tuple[str, str], ...]


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """Return line number (from 1) and content of each fenced block in `language`."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start()) + 1, match[1]) for match in found]


def set_up(text: str) -> list[str]:
    """Return the commands of the section "Set-up", each one shell line."""
    section = text.partition("\n## Set-up\n")[2].partition("\n## ")[0]
    return [content.strip() for _, content in blocks(section, "sh")]


def consoles(text: str) -> list[Console]:
    """Return every `console` block; a command starts with `$ ` and may go on after a backslash."""
    found = []
    for line, content in blocks(text, "console"):
        parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n?", content, flags=re.MULTILINE)
        steps = tuple(zip(parts[1::2], parts[2::2], strict=True))
        found.append(Console(line=line, steps=steps))
    return found


def play(console: Console, folder: Path, bin_folder: Path) -> list[str]:
    """Run a block's commands in one shell in `folder`; return what each printed, both streams."""
    after = f"_code=$?; printf '{SEPARATOR}'; (exit $_code)"
    script = "".join(f"{command}\n{after}\n" for command, _ in console.steps)
    done = subprocess.run(
        ["bash", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, **WIDTH, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        timeout=60,
        check=False,
    )
    return done.stdout.decode("utf-8").split(SEPARATOR)[:-1]


def agrees(shown: str, real: str) -> bool:
    """Tell whether `real` is what the README shows, where `...` stands for any text.

    A line that begins with `...` shows a path; where the real one is too long, its end is cut off.
    """
    cut = re.sub(r"(?m)^\.\.\..*$", "...…", shown.strip())
    return _fits(shown.strip(), real.strip()) or _fits(cut, real.strip())


def _fits(shown: str, real: str) -> bool:
    pattern = ".*?".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, real, re.DOTALL) is not None


def renewed(text: str, bin_folder: Path) -> str:
    """Return the README's `text` with each console block as it really happens.

    What agrees stays as it is; elsewhere the package's own folder is shown as `...`.
    """
    for console in consoles(text):
        with tempfile.TemporaryDirectory() as folder:
            logs = Path(folder) / "logs"
            shutil.copytree(ROOT / "tests" / "logs", logs)
            printed = play(console, logs, bin_folder)
        for (command, shown), real in zip(console.steps, printed, strict=True):
            if not agrees(shown, real):
                told = real.replace(str(ROOT / "dsh_compact" / "data"), "...")
                old, new = f"$ {command}\n{shown}", f"$ {command}\n{told}"
                assert old in text
                text = text.replace(old, new, 1)
    return text


def help_section() -> str:
    """Return the help of all commands as the README shows it, from the real program."""
    from dsh_compact.cli import names

    parts = [_fenced("dshc --help")]
    parts += [f"### dshc {name}\n\n{_fenced(f'dshc {name} --help')}" for name in names()]
    return "\n".join(parts)


def with_help(text: str, section: str) -> str:
    """Return the README's `text` with `section` between the two marks."""
    before, _, rest = text.partition(HELP_BEGINS)
    after = rest.partition(HELP_ENDS)[2]
    return f"{before}{HELP_BEGINS}\n{section}\n{HELP_ENDS}{after}"


def _fenced(command: str) -> str:
    words = [str(Path(sys.executable).with_name("dshc")), *command.split()[1:]]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, **WIDTH}, check=True
    )
    return f"```text\n{done.stdout.strip()}\n```\n"


def main(words: list[str]) -> None:
    """Do what the module's docstring says."""
    text = README.read_text("utf-8")
    if words[:1] == ["--set-up"]:
        print(set_up(text)[int(words[1]) - 1])
    else:
        text = renewed(text, Path(sys.executable).parent)
        README.write_text(with_help(text, help_section()), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
