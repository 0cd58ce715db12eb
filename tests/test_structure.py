"""The code keeps the rules that it states: who moves the generation, who writes files and JSON."""

import ast
import configparser
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import dsh_compact
from dsh_compact.cli import COMMANDS

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "dsh_compact"
MODULES: Final = {
    path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))
}

LONGEST_MODULE_LINES: Final = 450
"""Lines of code (prose is welcome) beyond which a module holds two subjects."""

TABLES: Final = {
    "verify/damage.py": "a row a kind of damage, in a user's words",
    "overflow/wordings.py": "a row a wording; it grows with the providers",
}
"""Modules that are data, of any length, each with its reason."""

FORGERS: Final = {
    "backends/hostile/forger.py": "stands for a backend that tries to, in vain: proof is the file",
}
"""Modules that store a generation on purpose, each with its reason."""

GENERATION: Final = {"_generation", "replace_generation"}
"""The names under which a surface knows its generation."""

WRITERS: Final = {
    "journal.py": "the file: every log is written here",
    "__main__.py": "says the version on stdout, past its buffer",
    "cli/io.py": "opens the null device, where a stream's reader left; writes what CI reads",
    "ahead.py": "tells its parent, through a pipe, what it read",
    "copies.py": "a private copy, in a folder of its own, for rehearsals",
    "backends/hostile/": "stand for backends that do what none may",
    "backends/running.py": "tells its parent, through a pipe, how an isolated backend ended",
}
"""Modules that may open files for writing, each with its reason."""

JSON_SPEAKERS: Final = {
    "codec/": "a record's JSON becomes an event here, and an event a record",
    "cli/": "reads JSON lines from stdin, writes --json",
    "report/": "shows tool arguments as the model wrote them",
    "overflow/__init__.py": "a provider's error may be JSON inside JSON",
    "backends/running.py": "hears from an isolated backend's process",
    "tokenizers/deepseek.py": "reads the vocabulary that another package ships",
    "summarizers/": "speaks with providers and programs",
    "wall/": "speaks as a provider",
}
"""Modules that may import a JSON library, each with its reason."""

SPEAKERS: Final = {
    "__main__.py": "the version, before anything is imported",
    "backends/running.py": "flushes them around a fork: what a backend prints is told, and once",
    "cli/io.py": "the only way out",
    "cli/progress.py": "asks whether a terminal is there",
    "reader.py": "`-` is standard input",
}
"""Modules that may touch the process's streams, each with its reason."""


REMEDY_AT: Final = {"UsageError": 1, "BackendFailed": 2, "Bloated": 2, "ConfigWrong": 3}
"""The place of the remedy among the arguments of an error that has none of its own."""

REMEDY_NAMED: Final = {"LogError", "ForeignAppend", "NothingToUndo", "WriteFailed"}
"""The same for those that want it by its name."""

TELLING: Final = {
    "backends/lookup.py": "what a backend raised while it was made, and in which line of its own",
    "codec/given.py": "which event, and what is wrong with it: `append` says what to do",
    "config.py": "which key, in which file, and what must stand there",
}
"""Modules in which an error may end with the fault, since that says what to do."""


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    """Each module's path in the package, and its syntax tree."""
    return tuple((name, ast.parse(path.read_text("utf-8"), name)) for name, path in MODULES.items())


def excused(name: str, table: dict[str, str]) -> bool:
    """Whether a table excuses the module: itself, or the folder in which it lies."""
    return any(name == row or (row.endswith("/") and name.startswith(row)) for row in table)


def unexcused(found: set[str], table: dict[str, str]) -> set[str]:
    """The modules that no row excuses, and the rows that excuse nobody."""
    idle = {row for row in table if not any(excused(name, {row: ""}) for name in found)}
    return idle | {name for name in found if not excused(name, table)}


# The generation -----------------------------------------------------------------------------------


def stores(tree: ast.Module) -> list[tuple[ast.stmt | ast.expr, ast.expr | None]]:
    """Every place that stores a generation, with the value stored where the syntax shows one."""
    found: list[tuple[ast.stmt | ast.expr, ast.expr | None]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                found += [(node, part) for t in targets for part in _stored(t, value)]
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
                found += [(node, None) for _ in _stored(target, ast.Constant(None))]
            case ast.Call(args=args, keywords=keywords) if _sets_by_name(node.func):
                if any(isinstance(arg, ast.Constant) and arg.value in GENERATION for arg in args):
                    found.append((node, None))
                found += [(node, None) for word in keywords if word.arg in GENERATION]
    return found


def _stored(target: ast.expr, value: ast.expr) -> Iterator[ast.expr]:
    match target:
        case ast.Attribute(attr=name) if name in GENERATION:
            yield value
        case ast.Tuple(elts=targets):
            values = value.elts if isinstance(value, ast.Tuple) else [value] * len(targets)
            for part, given in zip(targets, values, strict=True):
                yield from _stored(part, given)


def _sets_by_name(function: ast.expr) -> bool:
    return ast.unparse(function).split(".")[-1] in {
        "setattr",
        "__setattr__",
        "replace",
        "__replace__",
    }


def moves(tree: ast.Module) -> list[str]:
    """The statements that store a generation other than the first one, 0, or an untouched copy."""
    kept = {"0", *(f"self.{name}" for name in GENERATION)}
    return [
        ast.unparse(node)
        for node, value in stores(tree)
        if value is None or ast.unparse(value) not in kept
    ]


def test_one_line_moves_the_generation() -> None:
    """In the whole package a single statement changes a surface's generation, and it adds 1."""
    found = {name: moves(tree) for name, tree in trees() if name not in FORGERS}
    line = "shorter._generation = self._generation + 1"
    assert {"surface.py": [line]} == {name: lines for name, lines in found.items() if lines}


def test_nothing_else_stores_a_generation_on_a_surface() -> None:
    """Outside of surface.py nothing stores a surface's generation, not even a copy."""
    storing = {name for name, tree in trees() if stores(tree)}
    assert {"surface.py", *FORGERS} == storing


@pytest.mark.parametrize(
    "code",
    [
        "s._generation += 1",
        "s._generation = 7",
        "s._generation: int = 7",
        "a, s._generation = 1, 7",
        "a, s._generation = pair",
        "setattr(s, '_generation', 7)",
        "object.__setattr__(s, '_generation', 7)",
        "dataclasses.replace(s, replace_generation=7)",
    ],
)
def test_every_way_to_move_the_generation_is_seen(code: str) -> None:
    """The two tests above know each way in which Python can store an attribute."""
    assert 1 == len(moves(ast.parse(code)))


# The retry ----------------------------------------------------------------------------------------

CLAIM_READERS: Final = {
    "simulate.py": "the disciplines that believe a backend, to be compared with the ledger",
    "conformance/rules.py": "holds a claim against the ledger: a false one is a violation",
    "pressure.py": "repeats a backend's words where nothing on disk has changed, and says so",
    "report/": "prints what a backend says beside what the file says",
}
"""Modules that may look at what a backend claims, each with its reason."""


def calls_of(home: str, name: str) -> list[tuple[str, ast.Call]]:
    """Every call of the class `name` of the module `home`, with the module that it stands in."""
    return [
        (module, node)
        for module, tree in trees()
        if module == f"{home}.py" or f"dsh_compact.{home}.{name}" in imported(tree)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    ]


def test_a_retry_is_made_in_one_place() -> None:
    """The whole package makes a `Retry` once, of the two readings and behind the table."""
    ((module, call),) = calls_of("recovery", "Retry")
    assert "recovery.py" == module
    assert "before=before, after=after, attempt=attempt, refusal=refusal" == ", ".join(
        ast.unparse(word) for word in call.keywords
    )


def test_a_reading_is_made_of_a_path_alone() -> None:
    """No number is handed to a reading of the ledger: a path, and an earlier reading at most."""
    found = [call for _, call in calls_of("ledger", "Reading")]
    assert found
    handed = {ast.unparse(argument) for call in found for argument in call.args}
    assert {"session.path", "path", "before", "self._glance"} == handed
    assert not any(call.keywords for call in found)


def reads_a_claim(node: ast.AST) -> bool:
    """Whether an expression looks into a claim: `….claim.acted`, `claim.note`, and the like."""
    if not isinstance(node, ast.Attribute) or node.attr not in {"acted", "note"}:
        return False
    return ast.unparse(node.value).split(".")[-1] == "claim"


def test_nothing_reads_a_claim_to_decide() -> None:
    """What a backend says is carried and printed; outside of the table nobody looks whether it
    says that it acted, and where the ledger decides nobody looks at it at all.
    """
    acted = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if reads_a_claim(node) and isinstance(node, ast.Attribute) and node.attr == "acted"
    }
    assert set() == unexcused(acted, CLAIM_READERS)
    for name in ("recovery.py", "ledger.py"):
        tree = ast.parse(MODULES[name].read_text("utf-8"))
        assert not any(reads_a_claim(node) for node in ast.walk(tree))


@pytest.mark.parametrize("code", ["ran.claim.acted", "claim.acted", "one.ran.claim.note"])
def test_every_look_at_a_claim_is_seen(code: str) -> None:
    """The test above knows what a look at a claim looks like."""
    assert any(reads_a_claim(node) for node in ast.walk(ast.parse(code)))


# Files, JSON, streams -----------------------------------------------------------------------------

CHANGING: Final = {
    "hardlink_to", "link", "mkfifo", "rename", "rmtree", "symlink", "symlink_to",
    "touch", "truncate", "unlink", "write_bytes", "write_text", "copyfile", "copytree", "copy2",
}  # fmt: skip
"""Functions and methods that create, change or remove a file, beside `open`."""

CHANGING_OS: Final = {
    "os.replace",
    "os.remove",
    "os.rename",
    "os.truncate",
    "os.write",
    "os.pwrite",
    "shutil.move",
}


def changes_a_file(node: ast.AST) -> bool:
    """Whether a call may create, change or remove a file."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    last = name.split(".")[-1]
    if name == "formatter.write_text":  # a paragraph of a help text
        return False
    if name == "os.open":
        flags = ast.unparse(node)
        return any(f"O_{word}" in flags for word in ("WRONLY", "RDWR", "CREAT", "TRUNC", "APPEND"))
    if last in {"open", "fdopen"}:
        position = 1 if name in {"open", "io.open", "os.fdopen"} else 0
        modes = [*node.args[position : position + 1]]
        modes += [word.value for word in node.keywords if word.arg == "mode"]
        return any(
            not isinstance(m, ast.Constant) or set("wax+") & set(str(m.value)) for m in modes
        )
    return (
        name in CHANGING_OS
        or last in CHANGING
        or (name.startswith("tempfile.") and last != "gettempdir")
    )


def test_only_the_named_modules_write_files() -> None:
    """Nothing outside of the table opens a file for writing, and nobody stands in it needlessly."""
    writing = {
        name for name, tree in trees() if any(changes_a_file(node) for node in ast.walk(tree))
    }
    assert set() == unexcused(writing, WRITERS)


@pytest.mark.parametrize(
    "code",
    [
        "open(p, 'w')", "open(p, mode='ab')", "open(p, mode)", "p.open('r+')", "os.open(p, O_RDWR)",
        "p.write_text('')", "os.replace(a, b)", "shutil.move(a, b)", "tempfile.mkstemp()",
        "os.fdopen(fd, 'wb')",
    ],
)  # fmt: skip
def test_every_way_to_write_is_seen(code: str) -> None:
    """The test above knows the ways in which a program changes files."""
    assert any(changes_a_file(node) for node in ast.walk(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "open(p)", "open(p, 'rb')", "p.open()", "p.open('rb')", "os.open(p, os.O_RDONLY)",
        "os.fdopen(fd, 'rb')", "tempfile.gettempdir()",
    ],
)  # fmt: skip
def test_reading_is_not_taken_for_writing(code: str) -> None:
    """Opening a file to read it is everybody's right."""
    assert not any(changes_a_file(node) for node in ast.walk(ast.parse(code)))


def imported(tree: ast.Module) -> set[str]:
    """All that a module imports, at any depth: modules, and `module.name` for names out of them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def speaks_json(tree: ast.Module) -> bool:
    """Whether a module reads or writes JSON itself; `msgspec` does so only through its `json`."""
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return bool({"json", "orjson", "msgspec.json"} & (imported(tree) | used))


def test_json_stops_at_the_door() -> None:
    """The modules in the table import a JSON library, and no others."""
    speaking = {name for name, tree in trees() if speaks_json(tree)}
    assert set() == unexcused(speaking, JSON_SPEAKERS)


def test_only_the_rim_touches_the_streams() -> None:
    """Nothing but cli/io (and what the table excuses) writes to or asks about the three streams."""
    streams = {f"sys.{name}" for name in ("stdin", "stdout", "stderr", "__stdout__", "__stderr__")}
    touching = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in streams
    }
    assert set() == unexcused(touching, SPEAKERS)


def test_nothing_executes_what_it_reads() -> None:
    """No pickle, no eval, no shell: logs, configuration and backends' output are untrusted."""
    called = {
        (name, ast.unparse(node.func))
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    assert set() == {row for row in called if row[1] in {"eval", "exec", "os.system", "os.popen"}}
    assert [] == [name for name, tree in trees() if {"pickle", "shelve", "dill"} & imported(tree)]
    shells = [name for name, path in MODULES.items() if "shell=True" in path.read_text("utf-8")]
    assert [] == shells


# Shape --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_a_module_holds_one_subject(name: str) -> None:
    """No module has more code than the limit, and each opens by saying what it is."""
    text = MODULES[name].read_text("utf-8")
    assert name in TABLES or code_lines(text) <= LONGEST_MODULE_LINES
    assert ast.get_docstring(ast.parse(text))


def code_lines(text: str) -> int:
    """Count the lines that hold code: not blank, no comment, no docstring."""
    prose = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in prose
        for number, line in enumerate(text.splitlines(), 1)
    )


def test_prose_counts_as_no_code() -> None:
    """The limit is on code, so that nobody saves on a reason."""
    assert 2 == code_lines('"""Says\nwhat."""\n\n# why\nx = """a"""\n\nprint(x)\n')


# Errors -------------------------------------------------------------------------------------------


def silent(tree: ast.Module) -> list[str]:
    """The errors that are made without a word of what to do next."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name, named = node.func.id, any(word.arg == "remedy" for word in node.keywords)
            if not named and (name in REMEDY_NAMED or len(node.args) <= REMEDY_AT.get(name, -1)):
                found.append(ast.unparse(node))
    return found


def test_every_error_says_what_to_do() -> None:
    """Where, what and what to do next: the last is not left out, or the fault says it."""
    found = {(name, error) for name, tree in trees() for error in silent(tree)}
    assert set() == {(name, error) for name, error in found if not excused(name, TELLING)}
    assert set() == unexcused({name for name, _ in found}, TELLING)


@pytest.mark.parametrize(
    "code",
    ['UsageError("no")', 'BackendFailed(name, "no")', 'LogError(path, "no", line=7)'],
)
def test_every_error_without_a_remedy_is_seen(code: str) -> None:
    """And one with it is not taken for one without."""
    assert 1 == len(silent(ast.parse(code)))
    assert [] == silent(
        ast.parse(code.replace('")', '", remedy="go")').replace("7)", "7, remedy=1)"))
    )


def test_every_command_has_a_row() -> None:
    """A file of cli/ that holds a command is named in the table of commands."""
    rows = {name.replace("-", "_") for section in COMMANDS.values() for name in section}
    found = {
        name.removeprefix("cli/").removesuffix(".py")
        for name, tree in trees()
        if name.startswith("cli/")
        and any(isinstance(node, ast.FunctionDef) and node.name == "command" for node in tree.body)
    }
    assert set() == found - rows


def test_the_drawing_of_the_layers_leaves_nothing_out() -> None:
    """Every layers contract is exhaustive: a new file fails until somebody decides its place."""
    drawing = configparser.ConfigParser()
    drawing.read(ROOT / ".importlinter")
    layers = [part for part in drawing.values() if part.get("type") == "layers"]
    folders = {"cli", "repair", "report", "summarizers", "summarizers.extract"}
    folders |= {"summarizers.models", "verify"}
    assert {"dsh_compact", *(f"dsh_compact.{folder}" for folder in folders)} == {
        part["containers"] for part in layers
    }
    assert all(part.getboolean("exhaustive") for part in layers)


def test_the_map_shows_every_module() -> None:
    """The README's table of what happens where names each module and folder of the package once."""
    text = (ROOT / "README.md").read_text("utf-8")
    rows = text.partition("\n| looking for ")[2].partition("\n\n")[0]
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "version"}
    folders = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    named = re.findall(r"`([a-z_]+/?)`", rows)
    assert sorted(modules | folders) == sorted(named)


def test_the_package_is_typed() -> None:
    """`py.typed` lies in the installed package, so that users' type checkers believe it."""
    assert Path(dsh_compact.__path__[0], "py.typed").is_file()
