"""The scorecard: honest backends keep the rules, each is broken by somebody, and it is told."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import plain_reader
import pytest
from running import LOGS, LONGEST_SECONDS, dshc
from wilful import POLICY, Wilful, prune, sleep, stuck

from dsh_compact.backends import Backend, Claim
from dsh_compact.backends.lookup import load
from dsh_compact.backends.running import Ran, run_here, run_isolated
from dsh_compact.backends.standard import Standard
from dsh_compact.conformance import Case, Rule, Scorecard, Violation, Wishes, cases
from dsh_compact.conformance.faults import Fault, Watch
from dsh_compact.conformance.rules import MEANINGS
from dsh_compact.conformance.sessions import OVERFLOWING, SHAPES, written_to
from dsh_compact.errors import DshcError, LogError
from dsh_compact.report.conformance import text, xml
from dsh_compact.session import open_session
from dsh_compact.summarizers.extract import Extractive
from dsh_compact.verify import verify
from dsh_compact.workbench import Workbench

QUICK: Final = Wishes(timeout_seconds=0.3)


def on_the_first(make: Callable[[], Backend], wishes: Wishes = QUICK) -> list[Case]:
    """The cases of the first session, which has room, under every fault."""
    return list(
        takewhile(lambda case: case.session == OVERFLOWING.name, cases(make, wishes=wishes))
    )


def broken_by(name: str) -> set[Rule]:
    """The rules that a backend that ships breaks on the first session."""
    found = on_the_first(lambda: load(name, Extractive))
    return {one.rule for case in found for one in case.violations}


# Backends that ship -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["standard", "prune-only", "drop-oldest"])
def test_honest_backends_keep_the_rules(name: str) -> None:
    """Under every fault, in whatever operation the disk fails."""
    assert set() == broken_by(name)


BROKEN: Final = {
    "lying": {Rule.CLAIMS_TRULY, Rule.MAKES_ROOM},
    "crash": {Rule.RETURNS, Rule.MAKES_ROOM},
    "prune-then-crash": {Rule.RETURNS},
    "hang": {Rule.IN_TIME, Rule.MAKES_ROOM},
    "one-token": {Rule.RETURNS, Rule.SAVES},
    "folds-system": {Rule.RETURNS, Rule.MAKES_ROOM},
    "memory-only": {Rule.CLAIMS_TRULY, Rule.KEEPS_MEMORY, Rule.MAKES_ROOM},
    "scribbler": {Rule.LEAVES_NO_DAMAGE, Rule.OBEYS_THE_END, Rule.MAKES_ROOM},
    "killer": {Rule.RETURNS, Rule.MAKES_ROOM},
}


@pytest.mark.parametrize("name", BROKEN)
def test_hostile_backends_break_their_rules(name: str) -> None:
    """Each those that it stands for, and no others."""
    assert BROKEN[name] == broken_by(name)


def test_an_isolated_backend_is_judged_alike() -> None:
    """In a process of its own, faults strike, too, and honest work is found."""
    found = on_the_first(lambda: Standard(Extractive()), Wishes(run=run_isolated))
    assert [] == [one for case in found for one in case.violations]
    assert 3 < sum(case.fault.kind == "disk" for case in found)


# Backends that break one rule ---------------------------------------------------------------------


class Does:
    """The standard backend's work with something before or behind it."""

    name = "does"

    def __init__(self, act: Callable[[Workbench, Standard], Any]) -> None:
        self._act = act

    def compact(self, bench: Workbench) -> Any:
        """Whatever it was told."""
        return self._act(bench, Standard(Extractive()))


def swallows_errors(bench: Workbench, standard: Standard) -> Claim:
    """Takes a failed write for a success."""
    with suppress(DshcError):
        standard.compact(bench)
    return Claim(acted=True)


def forgets_its_claim(bench: Workbench, standard: Standard) -> None:
    """Works, and returns nothing."""
    standard.compact(bench)


def leaves_a_file(bench: Workbench, standard: Standard) -> Claim:
    """Keeps its notes beside the log."""
    Path(bench.session.path).with_name("notes.txt").write_text("note to self")
    return standard.compact(bench)


def rewrites(bench: Workbench, standard: Standard) -> Claim:
    """Corrects a folder's name in what the log already said."""
    claim = standard.compact(bench)
    path = Path(bench.session.path)
    path.write_bytes(path.read_bytes().replace(b'"/srv/stock"', b'"/srv/stuck"', 1))
    return claim


@pytest.mark.parametrize(
    ("act", "rule", "fault"),
    [
        (swallows_errors, Rule.CLAIMS_TRULY, "disk"),
        (swallows_errors, Rule.CLAIMS_TRULY, "time over"),
        (forgets_its_claim, Rule.RETURNS, "none"),
        (leaves_a_file, Rule.LEAVES_NO_FILES, "none"),
        (rewrites, Rule.KEEPS_HISTORY, "none"),
    ],
)
def test_one_broken_rule_is_found(
    act: Callable[[Workbench, Standard], Any], rule: Rule, fault: str
) -> None:
    """Under the fault that shows it."""
    found = on_the_first(lambda: Does(act))
    assert rule in {
        one.rule for case in found if case.fault.kind == fault for one in case.violations
    }


@pytest.mark.parametrize("run", [run_here, run_isolated])
def test_a_cancelled_request_strikes_once_something_was_written(run: Any, tmp_path: Path) -> None:
    """Not before, and then at once: nobody waits for the rest."""
    log = stuck().write(tmp_path / "session.jsonl")
    with open_session(log) as session:
        bench = Workbench(session, policy=POLICY, retain_tokens=0, goal=None, insist=True)
        watch = Watch(Fault(kind="cancelled"), run)
        assert Ran() == watch(Wilful([sleep(0.2), prune(), sleep(20)]), bench, 60.0)
        (seen,) = watch.seen
        assert seen.after is not None
        assert seen.after.generation > seen.before.generation
        assert 0.2 <= seen.seconds < 15


def test_one_that_never_gets_over_a_fault_is_found() -> None:
    """What fails once and then for ever does not work again."""

    class Sulks(Does):
        def compact(self, bench: Workbench) -> Any:
            if getattr(self, "is_hurt", False):
                return Claim(acted=False, note="not after what happened")
            try:
                return super().compact(bench)
            except DshcError:
                self.is_hurt = True
                raise

    found = on_the_first(lambda: Sulks(lambda bench, standard: standard.compact(bench)))
    assert {Rule.WORKS_AGAIN} == {one.rule for case in found for one in case.violations}


def test_every_rule_has_somebody_who_breaks_it() -> None:
    """The tests above know them all, and each has its sentence."""
    shown = {Rule.KEEPS_HISTORY, Rule.LEAVES_NO_FILES, Rule.WORKS_AGAIN}
    assert set(Rule) == set(MEANINGS) == shown.union(*BROKEN.values())


# Cases --------------------------------------------------------------------------------------------


def test_the_disk_fails_at_every_operation() -> None:
    """At the first, the second, and so on without a gap, until the backend is done before."""
    found = on_the_first(lambda: load("prune-only", Extractive))
    assert [1, 2] == [case.fault.operation for case in found if case.fault.kind == "disk"]


def test_the_sessions_are_logs_that_the_harness_opens(tmp_path: Path) -> None:
    """As different as their names, and none is damaged."""
    tried = [OVERFLOWING, *written_to(str(tmp_path))]
    assert ["overflowing", *SHAPES] == [one.name for one in tried]
    for one in tried:
        assert () == verify(one.log).findings
        assert None is plain_reader.read(Path(one.log).read_bytes()).broken


def second(make: Callable[[], Backend], log: Path) -> list[Case]:
    """The cases of a log that is tried beside the built-in sessions: it comes next."""
    found = dropwhile(lambda case: case.session == OVERFLOWING.name, cases(make, [log]))
    return list(takewhile(lambda case: case.session == str(log), found))


def test_ones_own_logs_are_tried_on_copies(tmp_path: Path) -> None:
    """Under their own names, and they stay as they are."""
    log = tmp_path / "session.jsonl"
    log.write_bytes((LOGS / "v4-stuck.jsonl").read_bytes())
    before = log.read_bytes()
    found = second(lambda: load("drop-oldest", Extractive), log)
    assert {"none", "disk", "time over", "cancelled"} == {case.fault.kind for case in found}
    assert [] == [one for case in found for one in case.violations]
    assert before == log.read_bytes()


def test_a_log_that_cannot_be_written_to_is_no_session(tmp_path: Path) -> None:
    """A damaged log is an error of the call, not of the backend."""
    log = tmp_path / "session.jsonl"
    log.write_bytes(b"nonsense\n" + (LOGS / "v4-stuck.jsonl").read_bytes())
    with pytest.raises(LogError):
        second(lambda: load("crash", Extractive), log)


# The report ---------------------------------------------------------------------------------------

CARD: Final = Scorecard(
    backend="mine \x1b[31m",
    cases=(
        Case(
            session="a",
            fault=Fault(kind="none"),
            violations=(Violation(rule=Rule.RETURNS, detail="it raised \x1b[31m"),),
            made_room=True,
            seconds=0.5,
        ),
        *(
            Case(
                session="a",
                fault=Fault(kind="disk", operation=number),
                violations=(Violation(rule=Rule.SAVES, detail="no"),) if number > 1 else (),
                made_room=False,
                seconds=0.25,
            )
            for number in range(1, 7)
        ),
        Case(
            session="b",
            fault=Fault(kind="none"),
            violations=(),
            made_room=False,
            seconds=0.0,
        ),
    ),
)


def test_the_scorecard_is_a_table_with_reasons() -> None:
    """A row a session, a column a fault, each broken rule with its first cases; nothing raw."""
    assert (
        text(CARD)
        == r"""mine \x1b[31m: 8 cases, 2 rules broken

session  no fault  disk fails     time over      cancelled      made room
a        broken    5 of 6 broken  wrote nothing  wrote nothing  yes
b        ok        wrote nothing  wrote nothing  wrote nothing  no

returns: returns a claim, and raises nothing where nothing is wrong
  a, no fault: it raised \x1b[31m

saves: makes the conversation shorter by a twentieth at least where it acts
  a, disk fails at operation 2: no
  a, disk fails at operation 3: no
  a, disk fails at operation 4: no
  … and 2 more cases"""
    )


def test_a_narrow_terminal_cuts_no_reason() -> None:
    """The table loses columns, what was broken is told to its end."""
    assert r"  a, no fault: it raised \x1b[31m" in text(CARD, width=20)


def test_ci_reads_a_test_a_case() -> None:
    """Eight tests, six of which failed, each with its reason."""
    suite = ET.fromstring(xml(CARD).encode())[0]
    assert ("8", "6") == (suite.get("tests"), suite.get("failures"))
    (failure,) = suite[0].findall("failure")
    assert r"returns: it raised \x1b[31m" == failure.get("message")


def test_the_command_tells_a_liar(tmp_path: Path) -> None:
    """Exit code 1, the cases as JSON, and a file for CI."""
    done = dshc("conformance", "--backend", "lying", "--json", "--junit", tmp_path / "r.xml")
    assert (1, "") == (done.code, done.err)
    told = done.json
    assert ("conformance", "lying", False) == tuple(
        told[key] for key in ("command", "backend", "ok")
    )
    first = told["cases"][0]
    assert (OVERFLOWING.name, "none", None, False, False) == tuple(
        first[key] for key in ("session", "fault", "operation", "ok", "made_room")
    )
    assert {"claims-truly", "makes-room"} == {one["rule"] for one in first["violations"]}
    suite = ET.parse(tmp_path / "r.xml").getroot()[0]
    assert str(len(told["cases"])) == suite.get("tests")


def test_an_unknown_backend_is_wrong_usage() -> None:
    """Before anything is played."""
    done = dshc("conformance", "--backend", "nobody")
    assert (2, "") == (done.code, done.out)


# The fixture --------------------------------------------------------------------------------------

THREE_LINES: Final = """
from dsh_compact.backends.hostile.folds_system import FoldsSystem

def test_my_backend_keeps_the_rules(dshc_conforms):
    dshc_conforms(FoldsSystem)
"""


def test_pytest_shows_the_scorecard(tmp_path: Path) -> None:
    """A test of three lines fails with the scorecard, and without our traceback."""
    (tmp_path / "test_mine.py").write_text(THREE_LINES)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    assert 1 == done.returncode
    assert "folds-system: 27 cases, 2 rules broken" in done.stdout
    assert "makes-room: replaces something where much can be replaced" in done.stdout
    assert "pytest_plugin.py" not in done.stdout
