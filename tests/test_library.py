"""The library's front: names that cost nothing until they are used, and an example that runs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import readme
from running import LOGS, python

import dsh_compact

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "measure_log.py"


@pytest.mark.parametrize("name", dsh_compact.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """And explains itself."""
    value = getattr(dsh_compact, name)
    assert name == "__version__" or value.__doc__
    assert name in dir(dsh_compact)


def test_type_checkers_see_the_same_names() -> None:
    """What is resolved at run time is what is imported for them, from the same modules."""
    tree = ast.parse(Path(dsh_compact.__file__).read_text("utf-8"))
    seen = {
        (alias.asname, node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    resolved = {
        (name, f"dsh_compact.{home}")
        for home, names in dsh_compact._HOMES.items()
        for name in names.split()
    }
    assert resolved == seen


def test_no_name_hides_a_module() -> None:
    """A submodule is bound under its own name as soon as anybody imports it."""
    modules = {path.stem for path in Path(dsh_compact.__file__).parent.iterdir()}
    assert set() == modules & set(dsh_compact.__all__)


def test_importing_the_package_imports_nothing_else() -> None:
    """A command pays for what it uses."""
    done = python("import sys; a = {*sys.modules}; import dsh_compact; print(*{*sys.modules} - a)")
    assert {"dsh_compact", "dsh_compact.version"} == {*done.out.split()}


def test_an_unknown_name_is_no_attribute() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="nonsense"):
        dsh_compact.nonsense  # noqa: B018


def test_the_example_measures_a_log() -> None:
    """`examples/measure_log.py` as its docstring says."""
    done = run_example(LOGS / "v4-overflow.jsonl")
    assert 0 == done.returncode
    assert "2,505 tokens, usage\nwindow 8,000, told by: provider\nthere is room\n" in done.stdout
    assert 3 == done.stdout.count("a summary took the place")
    lost = run_example(Path("nowhere"))
    assert (4, "") == (lost.returncode, lost.stdout)


def test_the_readmes_snippets_run(logs: Path) -> None:
    """What the README shows of the library works as it stands."""
    snippets = readme.blocks(readme.README.read_text("utf-8"), "python")
    assert snippets
    (logs / "v4-overflow.jsonl").rename(logs / "session.v4.jsonl")
    for _, code in snippets:
        if "session.v4.jsonl" in code:
            done = python(code, cwd=logs)
            assert (0, "") == (done.code, done.err)
            assert "2505 8000 False" in done.out


def run_example(log: Path) -> subprocess.CompletedProcess[str]:
    """The example on a log, as a person runs it."""
    words = [sys.executable, str(EXAMPLE), str(log)]
    return subprocess.run(words, capture_output=True, text=True, check=False)
