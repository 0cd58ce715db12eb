"""From a name to a backend: built in, a file's, a module's, a package's; and what goes wrong."""

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from running import dshc, python

from dsh_compact.backends import Backend, Claim, lookup
from dsh_compact.backends.lookup import BUILT_IN, Named, entries, is_foreign, load, maker
from dsh_compact.backends.standard import Standard
from dsh_compact.errors import BackendFailed, UsageError
from dsh_compact.summarizers import Summarizer
from dsh_compact.summarizers.extract import Extractive

MINE: Final = """
import helper
from dsh_compact import Claim

class Mine:
    name = "mine"
    def compact(self, bench):
        return Claim(acted=False, note=helper.NOTE)

class Nameless:
    def compact(self, bench):
        return Claim(acted=False)

class Summarising:
    name = "summarising"
    needs_summarizer = True
    def __init__(self, summarizer):
        self.summarizer = summarizer
    def compact(self, bench):
        return Claim(acted=False)

def made():
    return Mine()

instance = Mine()
nothing = 7

class Fails:
    def __init__(self):
        raise RuntimeError("no key")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a backend and what it imports from beside itself; we stand in it."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helper.py").write_text('NOTE = "from beside"\n')
    (tmp_path / "broken.py").write_text("x = 1\ny = 1 / 0\n")
    (tmp_path / "unwritten.py").write_text("def (\n")
    (tmp_path / "round.py").symlink_to("round.py")
    (tmp_path / "quits.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def found(spec: str) -> Backend:
    """The backend of that name, with the offline summarizer at hand."""
    return load(spec, Extractive)


def unasked() -> Summarizer:
    """A summarizer that nobody should ask for."""
    raise AssertionError("no summarizer is needed")


# Built in -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_ships_is_found_by_its_name(name: str) -> None:
    """Each is a backend, bears the name by which it is found, and is made anew each time."""
    assert isinstance(found(name), Backend)
    assert name == found(name).name
    assert found(name) is not found(name)


@pytest.mark.parametrize("entry", BUILT_IN.values(), ids=BUILT_IN.keys())
def test_each_says_what_it_stands_for(entry: lookup.Entry) -> None:
    """Its module's docstring names the failure, its class's what it does; it fits on a screen."""
    module = import_module(entry.module)
    assert len(module.__doc__ or "") > 40
    assert getattr(module, entry.attribute).__doc__
    assert 40 > len(inspect.getsource(getattr(module, entry.attribute)).splitlines())


def test_a_summarizer_is_made_for_those_who_need_one() -> None:
    """The standard backend is given one, the others cost nothing."""
    assert isinstance(found("standard"), Standard)
    for name in set(BUILT_IN) - {"standard"}:
        load(name, unasked)


# Somebody else's ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec", ["mine.py:Mine", "./mine.py:made", "mine:instance", "mine:Mine", "mine:made"]
)
def test_a_file_or_module_is_taken(spec: str, folder: Path) -> None:
    """A class, a function that makes one, or a backend itself; it may import from beside itself."""
    assert Claim(acted=False, note="from beside") == found(spec).compact(None)  # type: ignore[arg-type]
    assert is_foreign(spec)


def test_a_file_is_run_once(folder: Path) -> None:
    """However often it is asked for: what a module does on import, it does once."""
    assert type(found("mine.py:Mine")) is type(found("./mine.py:Mine"))


def test_equal_names_of_two_files_are_two_modules(folder: Path) -> None:
    """Another folder's file of the same name is another backend."""
    (folder / "other").mkdir()
    (folder / "other" / "mine.py").write_text(MINE.replace('"mine"', '"theirs"'))
    assert ["mine", "theirs"] == [found("mine.py:Mine").name, found("other/mine.py:Mine").name]


def test_one_that_needs_a_summarizer_is_given_it(folder: Path) -> None:
    """Whoever says `needs_summarizer` is made with the one in force."""
    backend: Any = found("mine.py:Summarising")
    assert isinstance(backend.summarizer, Extractive)


def test_one_without_a_name_is_called_as_it_was_asked_for(folder: Path) -> None:
    """A name it has, and all else is its own."""
    backend: Any = found("mine.py:Nameless")
    assert isinstance(backend, Named)
    assert "mine.py:Nameless" == backend.name
    with pytest.raises(AttributeError):
        backend.needs_isolation  # noqa: B018


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nobody", r"there is no backend 'nobody'; see \"dshc backends\""),
        ("standrd", r"there is no backend 'standrd'; did you mean standard\?"),
        ("mine.py", r"there is no backend 'mine.py'; name what is in the file, too: mine.py:NAME"),
        ("nowhere.py:Mine", "nowhere.py: no such file"),
        ("round.py:Mine", "round.py: no such file"),
        ("no_such_module:Mine", "there is no module no_such_module"),
        ("mine.py:Yours", "mine.py has no Yours"),
        ("mine:nothing", "no method compact"),
    ],
)
def test_what_is_not_there_is_wrong_usage(spec: str, words: str, folder: Path) -> None:
    """Each error says what is missing and what to do."""
    with pytest.raises(UsageError, match=words):
        found(spec)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("broken.py:X", r"ZeroDivisionError: division by zero \(broken.py, line 2\)"),
        ("broken:X", r"ZeroDivisionError: division by zero \(broken.py, line 2\)"),
        ("unwritten.py:X", r"SyntaxError: .*\(unwritten.py, line 1\)$"),
        ("quits.py:X", "SystemExit: 3"),
        ("mine.py:Fails", r"cannot be made: RuntimeError: no key \(mine.py, line \d+\)"),
    ],
)
def test_what_fails_on_the_way_is_the_backends_fault(spec: str, words: str, folder: Path) -> None:
    """The error names the backend, what was raised and where: it is no bug of ours."""
    with pytest.raises(BackendFailed, match=words):
        found(spec)


def test_a_makers_backends_are_fresh() -> None:
    """Names, classes and functions make one after the other, a backend stays itself."""
    for source in ("flaky", Standard, lambda: found("flaky")):
        make = maker(source, Extractive)
        assert make() is not make()
    one = found("flaky")
    make = maker(one, Extractive)
    assert make() is make() is one


# Entry points -------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder in which another package with a backend is installed."""
    (tmp_path / "theirs.py").write_text(
        "from dsh_compact.backends.lookup import BUILT_IN\n"
        "class Theirs:\n    name = 'theirs'\n    def compact(self, bench): ...\n"
    )
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dsh_compact.backends]\ntheirs = theirs:Theirs\n")
    return tmp_path


def test_a_package_names_its_backend(package: Path) -> None:
    """An installed package's backend is found by its name, and listed."""
    done = python(
        "from dsh_compact.backends.lookup import load, entries\n"
        "print(load('theirs', None).name, entries()[-1].kind, entries()[-1].sentence)",
        cwd=package,
    )
    assert "theirs entry point from theirs\n" == done.out


def test_the_command_lists_all(package: Path) -> None:
    """By kind, with a sentence each; a package's last."""
    done = dshc("backends", env={"PYTHONPATH": str(package)})
    assert (0, "") == (done.code, done.err)
    lines = done.out.splitlines()
    assert "honest: for use" == lines[0]
    assert "  theirs            from theirs" == lines[-1]
    shown = {line.split()[0] for line in lines if line.startswith("  ")}
    assert {*BUILT_IN, "theirs"} == shown


def test_the_list_is_there_for_programs() -> None:
    """As JSON, each with its kind."""
    told = dshc("backends", "--json").json
    assert (1, "backends", None) == (told["schema"], told["command"], told["log"])
    assert [(one.name, one.kind) for one in entries()] == [
        (one["name"], one["kind"]) for one in told["backends"]
    ]
