"""A process uses a second core only where it is ours from its start, and there is one."""

import os
from typing import Final

import pytest
from running import python

from dsh_compact import cores

on_linux = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="the system does not tell"
)
needs_cores = pytest.mark.skipif(cores.count() < 2, reason="one core, so none to spare")


@pytest.fixture(autouse=True)
def _as_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_claimed", False)


@on_linux
def test_the_cores_are_those_that_we_may_use() -> None:
    """Not all that the machine has: a container or `taskset` may grant fewer."""
    usual = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(usual)})
        assert 1 == cores.count()
    finally:
        os.sched_setaffinity(0, usual)
    assert len(usual) == cores.count()


@pytest.mark.parametrize(("told", "expected"), [(7, 7), (None, 1)])
def test_where_the_system_does_not_tell_all_count(
    told: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least the one that this runs on."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: told)
    assert expected == cores.count()


def test_a_library_has_none_to_spare() -> None:
    """Whoever imports us decides what his process starts."""
    assert not cores.spare()


@needs_cores
def test_a_process_of_ours_has_one_to_spare() -> None:
    """Until it is one of many that share them."""
    cores.claim()
    assert cores.spare()
    cores.yield_back()
    assert not cores.spare()


@on_linux
def test_on_one_core_none_is_to_spare() -> None:
    """Whoever the process belongs to."""
    cores.claim()
    usual = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(usual)})
        assert not cores.spare()
    finally:
        os.sched_setaffinity(0, usual)


COMMAND: Final = """
import sys
sys.argv[1:] = {words!r}
from dsh_compact.__main__ import main
main({given!r})
from dsh_compact import cores
sys.exit("ours" if cores._claimed else "a guest")
"""


@pytest.mark.parametrize("words", [["measure", "--demo"], ["--help"], []], ids=str)
def test_the_command_is_ours_from_its_start(words: list[str]) -> None:
    """Whatever it is asked."""
    done = python(COMMAND.format(words=words, given=None))
    assert "ours" == done.err.splitlines()[-1]


def test_a_command_in_anothers_process_is_a_guest() -> None:
    """Its words are handed to it there."""
    done = python(COMMAND.format(words=[], given=["measure", "--demo"]))
    assert "a guest" == done.err.splitlines()[-1]


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_the_version_needs_no_cores(word: str) -> None:
    """It imports neither their count nor what uses them."""
    done = python(
        f"import sys; sys.argv[1:] = [{word!r}]\n"
        "from dsh_compact.__main__ import main\n"
        "assert main() == 0\n"
        "print([name for name in ('ahead', 'cores') if f'dsh_compact.{name}' in sys.modules])"
    )
    assert "[]" == done.out.splitlines()[-1]
