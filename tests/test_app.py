"""The command line as a whole: a command is one file, an error is a sentence and an exit code."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from running import DSHC, LOGS, Ran, dshc

from dsh_compact.cli import names

PROBE: Final = '''
"""`dshc probe`: a command for the tests."""

import os, signal, sys
from pathlib import Path
from typing import Annotated
import typer
from dsh_compact import errors
from dsh_compact.cli import io, options

EXAMPLES = """
dshc probe log.jsonl      what one would type first of all
dshc probe --json [x]     markup is no markup
"""

def command(
    log: options.OptionalLog = None,
    do: Annotated[str, typer.Option(help="Python to run.")] = "",
    json: options.Json = False,
) -> int:
    """Do what a test asks for."""
    return eval(do) if do else 0
'''

DRIVER: Final = """
import sys
import dsh_compact.cli as cli
cli.__path__.append({folder!r})
cli.COMMANDS["Look"]["probe"] = "A command for the tests."
from dsh_compact.__main__ import main
sys.exit(main())
"""
"""Lets `dsh_compact.cli` have one file more: adding a command takes nothing else."""

READING: Final = (
    "measure {}", "history {}", "show {}", "export --to openai {}", "config {}", "verify {}",
    "compact --dry-run {}", "recover {}",
)  # fmt: skip
WRITING: Final = (
    "compact {}", "append {} --user x", "append --new {} --user x", "undo {} -o copy", "repair {}",
    "repair --in-place {}", "recover --in-place {}", "recover --keep {}", "history --follow {}",
)  # fmt: skip
"""Words with a place for a log; the first may wait for who writes to a pipe, the others never."""

RAISE: Final = "(_ for _ in ()).throw({})"


@pytest.fixture
def probe(tmp_path: Path) -> list[str]:
    """The words that run a `dshc` which has one more command, `probe`."""
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "probe.py").write_text(PROBE, "utf-8")
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.format(folder=str(folder)), "utf-8")
    return [sys.executable, str(driver)]


def run(words: list[str], env: dict[str, str] | None = None) -> Ran:
    """Run `words` to their end."""
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


# Help and version ---------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["-V", "nonsense"]])
def test_the_version_is_one_line(words: list[str]) -> None:
    """The version comes alone on stdout, by the short way and by the long one."""
    assert Ran(code=0, out="dshc 0.1.0\n", err="") == dshc(*words)


def test_the_module_is_the_command() -> None:
    """`python -m dsh_compact` is `dshc`, and calls itself so."""
    done = run([sys.executable, "-m", "dsh_compact", "nonsense"])
    assert (
        Ran(code=2, out="", err='dshc: there is no command "nonsense"; see "dshc --help"\n') == done
    )


def test_no_words_at_all_get_the_help() -> None:
    """Without a command the help goes to stderr, and the usage was wrong."""
    done = dshc()
    assert (2, "", dshc("--help").out.strip()) == (done.code, done.out, done.err.strip())


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_a_command_explains_itself(probe: list[str], flag: str) -> None:
    """Both help flags show what a command does and its examples, remarks in a column."""
    done = run([*probe, "probe", flag], {"COLUMNS": "100"})
    assert (0, "") == (done.code, done.err)
    assert "Do what a test asks for." in done.out
    assert "Examples:\n  dshc probe log.jsonl    what one would type first of all\n" in done.out
    assert "  dshc probe --json [x]   markup is no markup\n" in done.out


def test_on_a_narrow_terminal_remarks_stand_below(probe: list[str]) -> None:
    """Where an example and its remark don't fit on a line, none of them tries to."""
    done = run([*probe, "probe", "--help"], {"COLUMNS": "44"})
    assert "Examples:\n  dshc probe log.jsonl\n      what one would type first of all\n" in done.out


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("words", [(), *[(name,) for name in names()]], ids=" ".join)
def test_a_help_fits_the_terminal(words: tuple[str, ...], width: int) -> None:
    """No line is wider than the terminal, but for examples, which are there to be copied."""
    help_text, _, examples = dshc(*words, "--help", env={"COLUMNS": str(width)}).out.partition(
        "Examples:\n"
    )
    remarks = [line for line in examples.splitlines() if line.startswith("    ")]
    assert [] == [line for line in (*help_text.splitlines(), *remarks) if len(line) > width]
    assert bool(words) == bool(examples)


def test_the_help_lists_a_command_without_importing_it(probe: list[str], tmp_path: Path) -> None:
    """The list comes from the table: even a command that can't be imported is in it."""
    (tmp_path / "commands" / "probe.py").write_text("1 / 0", "utf-8")
    done = run([*probe, "--help"])
    assert (0, "") == (done.code, done.err)
    assert "probe" in done.out


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "sentence", "error"),
    [
        (2, "no such option; try another", "errors.UsageError('no such option', 'try another')"),
        (4, "a.jsonl: line 7: it is gone", "errors.LogError('a.jsonl', 'it is gone', line=7)"),
        (5, "backend b: it fell", "errors.BackendFailed('b', 'it fell')"),
        (4, r"\x1b[2J\u202e: [red]", "errors.LogError('\\x1b[2J\\u202e', '[red]')"),
        (130, "interrupted", "KeyboardInterrupt()"),
    ],
)
def test_an_error_is_a_sentence_and_an_exit_code(
    probe: list[str], code: int, sentence: str, error: str
) -> None:
    """What we raise on purpose is one safe sentence on stderr and its class's exit code."""
    done = run([*probe, "probe", "--do", RAISE.format(error)])
    assert Ran(code=code, out="", err=f"dshc: {sentence}\n") == done


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ('dshc: there is no option --nonsense; see "dshc probe --help"', ["probe", "--nonsense"]),
        ("dshc: there is no option --jsn; did you mean --json?", ["probe", "--jsn"]),
        ('dshc: there is no command "prob"; did you mean probe?', ["prob"]),
        ("dshc: Option '--do' requires an argument; see \"dshc probe --help\"", ["probe", "--do"]),
    ],
)
def test_wrong_usage_is_a_sentence_and_exit_2(
    probe: list[str], sentence: str, words: list[str]
) -> None:
    """Wrong words are answered with what is wrong and where the help is."""
    assert Ran(code=2, out="", err=f"{sentence}\n") == run([*probe, *words])


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("'--window': 'x' is no whole number; ", ["measure", "--window", "x"]),
        ("'--at': '1.5' is no whole number; ", ["show", "--at", "1.5"]),
        ("'--timeout': 'x' is no number; ", ["recover", "--timeout", "x"]),
        ("'--window': 0 is not in the range x>=1; ", ["measure", "--window", "0"]),
    ],
)
def test_a_wrong_number_is_told_in_words(told: str, words: list[str]) -> None:
    """The parser's own names for its types are nobody's business."""
    done = dshc(*words)
    wanted = f'dshc: Invalid value for {told}see "dshc {words[0]} --help"\n'
    assert Ran(code=2, out="", err=wanted) == done


def test_choices_that_come_a_line_each_are_one_sentence() -> None:
    """An error is one line, whatever the parser makes of it."""
    done = dshc("export", "--demo")
    wanted = "Missing option '--to'. Choose from: openai, anthropic, markdown"
    assert Ran(code=2, out="", err=f'dshc: {wanted}; see "dshc export --help"\n') == done


def test_a_bug_keeps_its_traceback_and_is_no_finding(probe: list[str]) -> None:
    """Any other exception shows its traceback, made safe, and exits with a code of its own."""
    done = run([*probe, "probe", "--do", RAISE.format("ValueError('\\x1b[2J')")])
    assert (70, "") == (done.code, done.out)
    assert "bug in dsh-compact" in done.err
    assert "Traceback" in done.err
    assert done.err.endswith("ValueError: \\x1b[2J\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["measure", "-", "-"], "standard input was named twice, and can be read only once; "),
        (["verify", "-", "--", "-"], "standard input was named twice, and can be read only once; "),
        (["measure", ""], "the LOG has an empty name; "),
        (["compact", ""], "the LOG has an empty name; "),
        (["verify", "a.jsonl", ""], "the LOG has an empty name; "),
    ],
)
def test_a_log_that_cannot_be_meant_is_wrong_usage(words: list[str], told: str) -> None:
    """Standard input twice; a shell's unset variable, which is not the folder one is in."""
    done = dshc(*words)
    assert (2, "", True) == (done.code, done.out, done.err.startswith(f"dshc: {told}"))


@pytest.mark.parametrize(
    "words", [*READING, *WRITING, "recover --junit {}/x", "recover --error {}"]
)
def test_a_name_that_is_too_long_is_told(words: str, tmp_path: Path) -> None:
    """What the system cannot even look at is a sentence of ours, in every command."""
    name = "n" * 300
    done = dshc(*words.format(name).split(), cwd=tmp_path)
    assert (True, "") == (done.code in (2, 4), done.out)
    assert done.err.startswith(f"dshc: {name}")
    assert 1 == done.err.count("\n")


def test_a_log_may_be_named_twice(logs: Path) -> None:
    """It is measured twice."""
    log = logs / "v4-stuck.jsonl"
    assert 2 == len(dshc("measure", "--json", log, log).json["logs"])


def test_a_commands_number_is_the_exit_code(probe: list[str]) -> None:
    """What `command` returns is what the process exits with."""
    assert Ran(code=3, out="", err="") == run([*probe, "probe", "--do", "3"])


# What is no log -----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [*READING, *WRITING])
def test_a_device_is_refused_at_once(words: str, tmp_path: Path) -> None:
    """`/dev/zero` never ends: each command says what is wrong, and creates nothing."""
    done = dshc(*words.format("/dev/zero").split(), cwd=tmp_path)
    assert (True, "") == (done.code in (2, 4), done.out)
    assert done.err.startswith("dshc: /dev/zero: ")
    assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize("words", WRITING)
def test_who_would_write_waits_for_no_pipe(words: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to is refused, and stays a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = dshc(*words.format("pipe").split(), cwd=tmp_path)
    assert (True, "") == (done.code in (2, 4), done.out)
    assert done.err.startswith("dshc: pipe: ")
    assert [pipe] == [*tmp_path.iterdir()]
    assert pipe.is_fifo()


@pytest.mark.parametrize("words", [*READING, "repair --dry-run {}", "repair -o mended {}"])
def test_a_pipe_is_a_log(words: str, logs: Path) -> None:
    """The shell's `<(…)` is read like the file that comes through it, by every command."""
    ask = f"{DSHC} {words.format('<(cat v4-stuck.jsonl)')}"
    piped = run(["bash", "-c", f"cd {logs}; {ask}"])
    named = dshc(*words.format("v4-stuck.jsonl").split(), cwd=logs)
    as_named = piped.out.replace("/dev/fd/63", "v4-stuck.jsonl")
    assert (named.code, named.err, named.out) == (piped.code, piped.err, as_named)


def test_standard_input_may_be_no_device() -> None:
    """`measure - </dev/zero` reads nothing; `classify` and `append` stop at what memory takes."""
    done = run(["bash", "-c", f"{DSHC} measure - < /dev/zero"])
    assert (
        Ran(code=4, out="", err="dshc: -: is a device: a log is a file or a pipe; name one\n")
        == done
    )


@pytest.mark.parametrize("words", READING)
def test_a_working_directory_that_is_gone_is_not_missed(words: str, logs: Path) -> None:
    """What comes through a pipe is read there as anywhere."""
    words, log = words.format("-"), (logs / "v4-stuck.jsonl").read_bytes()
    usual = dshc(*words.split(), stdin=log)
    gone = logs / "gone"
    gone.mkdir()
    ask = ["bash", "-c", f"cd {gone}; rmdir {gone}; cat {logs}/v4-stuck.jsonl | {DSHC} {words}"]
    assert usual == run(ask)


def test_no_session_begins_where_no_folder_is(tmp_path: Path) -> None:
    """A session works somewhere: the working directory that is gone is told, nothing is written."""
    gone = tmp_path / "gone"
    gone.mkdir()
    ask = f"{DSHC} append --new {tmp_path}/new.jsonl --user hi"
    told = "dshc: the working directory is gone; go to a folder that is there\n"
    assert Ran(code=2, out="", err=told) == run(["bash", "-c", f"cd {gone}; rmdir {gone}; {ask}"])
    assert [] == [*tmp_path.iterdir()]


# Streams ------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_ends_the_command_quietly(probe: list[str]) -> None:
    """`| head` gets what it wants; the rest ends as if by SIGPIPE, without a word."""
    words = [*probe, "probe", "--do", "[io.emit_text('x' * 1000) for _ in range(10000)] and 0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert b"x" * 10 == process.stdout.read(10)
    process.stdout.close()
    with process.stderr:
        assert b"" == process.stderr.read()
    assert 141 == process.wait()


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_full_disk_is_no_success(probe: list[str], size: int) -> None:
    """A result that can't be written, at once or only at the end, is said and is not exit 0."""
    words = [*probe, "probe", "--do", f"io.emit_text('x' * {size})"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert 74 == done.returncode
    assert "dshc: the result can't be written: No space left on device\n" == done.stderr


WAYS_OUT: Final = [
    (0, "--help"), (0, "--version"), (0, "-V x"), *[(0, f"{name} --help") for name in names()],
    (0, "--show-completion fish"), (0, "measure --jsonl {log}"), (0, "verify --jsonl {log}"),
    (0, "conformance --backend standard"), (0, "history --follow {log}"),
    (0, "serve-wall --limit 100 --port 0"),
    (0, "measure --demo"), (0, "history --demo --json"), (0, "show --demo"), (0, "verify --demo"),
    (0, "export --demo --to openai"), (0, "backends"), (0, "classify 429"), (0, "config {log}"),
    (0, "compact {log} --dry-run"), (0, "append {log} --user x"), (0, "repair {log}"),
    (1, "recover --expect preserve"), (2, ""), (2, "nonsense"), (4, "measure missing"),
]  # fmt: skip
"""The exit code of words, `{log}` a log, where all can be written."""


WRITTEN: Final = [
    "undo v4-overflow.jsonl -o out", "repair broken.jsonl", "repair --dry-run broken.jsonl",
    "repair --in-place broken.jsonl", "recover v4-stuck.jsonl", "recover --keep out",
    "recover --in-place v4-stuck.jsonl", "recover --junit out",
    "conformance --backend standard --junit out", "append v4-stuck.jsonl --user x",
    f"append --new out --user {'x' * 2_000}", "compact v4-stuck.jsonl",
    "measure - < v4-stuck.jsonl",
]  # fmt: skip
"""What writes a file, for good or in passing."""


@pytest.mark.parametrize("room", [0, 1], ids=["no room", "room for a beginning"])
@pytest.mark.parametrize("words", WRITTEN)
def test_a_file_that_has_no_room_is_no_crash(words: str, room: int, logs: Path) -> None:
    """As on a full disk: the command says which file, and what to do; the log is what it was."""
    torn = (logs / "v4-stuck.jsonl").read_bytes()[:-20]
    (logs / "broken.jsonl").write_bytes(torn)
    done = run(["bash", "-c", f"cd {logs}; ulimit -f {room}; {DSHC} {words} | cat"])
    assert re.search("(File too large|No usable temporary directory.*); ", done.err)
    assert (True, "dshc: ") == ("Traceback" not in done.err, done.err[:6])
    assert torn == (logs / "broken.jsonl").read_bytes()
    assert not (logs / "out").exists()


def redirected(redirection: str, words: str, log: Path) -> Ran:
    """`dshc` with its streams as the shell's `redirection` says."""
    command = [str(DSHC), *words.format(log=log).split()]
    return run(["bash", "-c", f'"$@" {redirection}', "bash", *command])


@pytest.mark.parametrize(("code", "words"), WAYS_OUT)
def test_no_result_is_lost_without_a_word(code: int, words: str, logs: Path) -> None:
    """Where stdout is full, no command, help or version is an exception: a line, 74, no traceback.
    Who is refused has no result to lose, and hears why.
    """
    done = redirected(">/dev/full", words, logs / "v4-stuck.jsonl")
    told = "dshc: the result can't be written: No space left on device\n"
    assert ((code, False) if code in (2, 4) else (74, True)) == (done.code, done.err.endswith(told))
    assert "Traceback" not in done.err


@pytest.mark.parametrize("redirection", ["2>/dev/full", ">/dev/full 2>/dev/full"])
@pytest.mark.parametrize(
    ("code", "words"),
    [way for way in WAYS_OUT if way[0] or way[1] in ("--version", "measure --help", "show --demo")],
)
def test_a_notice_that_cannot_be_written_changes_no_exit_code(
    code: int, words: str, redirection: str, logs: Path
) -> None:
    """Where stderr is full, nobody hears the reason, but a script still has the code."""
    has_result = code in (0, 1)
    wanted = 74 if has_result and redirection.startswith(">") else code
    assert wanted == redirected(redirection, words, logs / "v4-stuck.jsonl").code


@pytest.mark.parametrize(("code", "redirection"), [(74, ">&-"), (0, "2>&-"), (74, ">&- 2>&-")])
def test_a_closed_stream_is_no_crash(probe: list[str], code: int, redirection: str) -> None:
    """Without stdout the result can't be written; without stderr nobody hears a notice."""
    do = "io.notice('hear') or io.emit_text('x')"
    done = run(["bash", "-c", f'"$@" {redirection}', "bash", *probe, "probe", "--do", do])
    heard = "dshc: hear\n" + "dshc: the result can't be written: Bad file descriptor\n" * (code > 0)
    assert (code, "" if "2>" in redirection else heard) == (done.code, done.err)


def test_ctrl_c_is_one_line_and_130(probe: list[str]) -> None:
    """A real SIGINT in the middle of the work."""
    do = "io.emit_text('ready') or io.flush() or __import__('time').sleep(60)"
    process = subprocess.Popen(
        [*probe, "probe", "--do", do], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert (130, b"dshc: interrupted\n") == (process.returncode, err)


def test_an_encoding_that_lacks_a_character_is_no_crash(probe: list[str]) -> None:
    """On an ASCII terminal, what ASCII lacks is shown as an escape."""
    words = [*probe, "probe", "--do", "io.emit_text('größer') or io.notice('ü')"]
    done = run(words, {"PYTHONIOENCODING": "ascii"})
    assert Ran(code=0, out="gr\\xf6\\xdfer\n", err="dshc: \\xfc\n") == done


# Completion ---------------------------------------------------------------------------------------


def completed(words: str, shell: str, tmp_path: Path) -> list[str]:
    """What the shell is told to offer for `words`."""
    split = words.split(" ")
    env = {
        "_DSHC_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(split) - 1),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    driver = [sys.executable, str(tmp_path / "driver.py")]
    done = run(driver, env)
    assert (0, "") == (done.code, done.err)
    return done.out.strip().splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands(probe: list[str], tmp_path: Path, shell: str) -> None:
    """Each shell is offered the commands that begin so, from the table."""
    assert probe
    assert "probe" in "\n".join(completed("dshc pro", shell, tmp_path))
    assert "probe" not in "\n".join(completed("dshc x", shell, tmp_path))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_options(probe: list[str], tmp_path: Path, shell: str) -> None:
    """A command's own options are offered."""
    assert probe
    assert "--json" in "\n".join(completed("dshc probe --js", shell, tmp_path))


@pytest.mark.parametrize(("shell", "told"), [("bash", []), ("zsh", ["_files"]), ("fish", [])])
def test_a_log_is_left_to_the_shells_own_completion(
    probe: list[str], tmp_path: Path, shell: str, told: list[str]
) -> None:
    """For a path no words are offered, and then each shell completes files itself."""
    assert probe
    assert told == completed("dshc probe some-lo", shell, tmp_path)


def test_bash_itself_completes() -> None:
    """A real bash, with the script that `--show-completion` prints, completes a word."""
    env = {"_DSHC_COMPLETE": "source_bash", "PATH": f"{DSHC.parent}:{os.environ['PATH']}"}
    script = run([str(DSHC)], env).out
    assert "complete -o default" in script
    ask = f"""{script}
    COMP_WORDS=(dshc --vers) COMP_CWORD=1
    _dshc_completion dshc --vers dshc
    echo "${{COMPREPLY[@]}}"
    """
    done = run(["bash", "-c", ask], {"PATH": env["PATH"]})
    assert Ran(code=0, out="--version\n", err="") == done


def test_a_file_called_like_standard_input_can_be_named(tmp_path: Path) -> None:
    """`./-` is a file, whatever stands at its side on standard input."""
    log = shutil.copyfile(LOGS / "v4-stuck.jsonl", tmp_path / "-")
    for words in (["measure"], ["history"], ["verify"], ["recover", "--backend", "drop-oldest"]):
        told = dshc(*words, "./-", "--json", cwd=tmp_path, stdin="nonsense")
        assert (0, str(log)) == (told.code, told.json["log"])
    assert 0 == dshc("compact", "--force", "./-", cwd=tmp_path).code
    assert 4 == dshc("measure", "-", cwd=tmp_path, stdin="nonsense").code


@pytest.mark.parametrize("what", ["-", "pipe"])
def test_a_scorecard_wants_a_file(what: str, tmp_path: Path) -> None:
    """What can be read only once can't begin each case: wrong usage, before anything is played."""
    os.mkfifo(tmp_path / "pipe")
    told = dshc("conformance", what, cwd=tmp_path)
    assert (2, "") == (told.code, told.out)
    assert f"dshc: {what}: each case begins with the log anew" in told.err


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space as Linux does")
def test_want_of_memory_is_an_error_and_no_bug(tmp_path: Path) -> None:
    """One log: a sentence and exit 4; among others: a row with its error, and the others count."""
    endless = tmp_path / "endless.jsonl"
    with endless.open("wb") as file:
        file.write((LOGS / "v4-stuck.jsonl").read_bytes())
        file.truncate(200_000_000)  # a line of zeros, which takes no room on the disk
    good = shutil.copyfile(LOGS / "v4-stuck.jsonl", tmp_path / "good.jsonl")

    def limited(*words: str | Path) -> Ran:
        done = subprocess.run(
            [DSHC, *words],
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (160 << 20, 160 << 20)),
            check=False,
        )
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    sentence = "there is not enough memory; let other programs end, or raise the limit"
    for command in ("measure", "verify"):
        assert Ran(code=4, out="", err=f"dshc: {sentence}\n") == limited(command, endless)
        many = limited(command, "--json", tmp_path)
        rows = {row["log"]: row.get("error") for row in many.json["logs"]}
        assert (4, "") == (many.code, many.err)
        assert {str(endless): f"{endless}: {sentence}", str(good): None} == rows
