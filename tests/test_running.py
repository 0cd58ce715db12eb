"""Where a backend runs: in a thread of ours or a process of its own, for a while, and no longer."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import plain_reader
import pytest
from running import python
from wilful import POLICY, Step, Wilful, claim, fail, fold, open_bracket, prune, sleep, stuck

from dsh_compact.backends import Claim
from dsh_compact.backends.hostile.crash import Crash
from dsh_compact.backends.running import MOST_NOTE_CHARACTERS, Ran, run_here, run_isolated, words_of
from dsh_compact.errors import BackendFailed
from dsh_compact.session import WritableSession, open_session
from dsh_compact.verify import verify
from dsh_compact.workbench import Bloated, Workbench

RUNNERS: Final = pytest.mark.parametrize("run", [run_here, run_isolated])
LONG_SECONDS: Final = 30.0


@pytest.fixture
def session(tmp_path: Path) -> Any:
    """A session that was refused a moment ago."""
    with open_session(stuck().write(tmp_path / "session.jsonl")) as opened:
        yield opened


def bench_on(session: WritableSession) -> Workbench:
    """A workbench as the overflow path gives it."""
    return Workbench(session, policy=POLICY, retain_tokens=0, goal=None, backend="b", insist=True)


def ran(run: Any, session: WritableSession, *steps: Step, seconds: float = LONG_SECONDS) -> Ran:
    """One run of a backend that does as it is told."""
    result: Ran = run(Wilful(steps), bench_on(session), seconds)
    return result


class Does:
    """A backend that calls a function."""

    name = "does"

    def __init__(self, act: Callable[[Workbench], Any]) -> None:
        self._act = act

    def compact(self, bench: Workbench) -> Any:
        """Calls it."""
        return self._act(bench)


@RUNNERS
def test_a_claim_comes_back(run: Any, session: WritableSession) -> None:
    """What the backend says, as it says it."""
    assert Ran(claim=Claim(acted=True, note="so")) == ran(run, session, claim(True, "so"))


@RUNNERS
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, MemoryError])
def test_what_it_raises_is_kept(run: Any, error: Any, session: WritableSession) -> None:
    """Nothing that a backend raises passes on, not even what ends programs."""
    found = ran(run, session, fail(error))
    assert found.error is not None
    assert f"{error.__name__}: as it was told" in words_of(found.error)
    assert (None, False) == (found.claim, found.timed_out)


@RUNNERS
def test_what_it_raises_is_told_with_its_line(run: Any, session: WritableSession) -> None:
    """The author of a backend looks for the line of theirs, not for one of ours or of Python's."""

    def slip(_: Workbench) -> None:
        json.loads("{")  # which fails deep in Python's own code

    line = slip.__code__.co_firstlineno + 1
    error = run(Does(slip), bench_on(session), 5).error
    assert words_of(error).endswith(f"column 2 (char 1) (test_running.py, line {line})")
    error = run(Crash(), bench_on(session), 5).error
    assert words_of(error).endswith("the summarizer cannot be reached")


@RUNNERS
def test_what_is_no_summary_is_refused(run: Any, session: WritableSession) -> None:
    """A text is none, and the error says so in words that name the backend once."""

    def write_text(bench: Workbench) -> None:
        bench.replace(bench.choose(), lambda: "a text")  # type: ignore[arg-type, return-value]

    error = run(Does(write_text), bench_on(session), 5).error
    assert re.fullmatch(
        r"backend \w+: what it wrote is no Summary: it is of type str; give a Summary",
        words_of(error),
    )


@RUNNERS
def test_a_bloated_summary_is_told_as_such(run: Any, session: WritableSession) -> None:
    """The family of the error crosses the process's border: the verdict depends on it."""
    assert isinstance(ran(run, session, fold("longer than it all. " * 900)).error, Bloated)


@RUNNERS
def test_what_landed_is_on_our_session(run: Any, session: WritableSession) -> None:
    """Whoever wrote it: the session knows the generation that the file has."""
    ran(run, session, prune(), fold("so far"), fail(ValueError))
    on_disk = plain_reader.read(Path(session.path).read_bytes()).generation
    assert on_disk == session.replace_generation > 3


@RUNNERS
def test_its_time_ends(run: Any, session: WritableSession) -> None:
    """A backend that hangs is left, its bracket is closed, and its bench takes nothing more."""
    begun = time.monotonic()
    bench = bench_on(session)
    assert Ran(timed_out=True) == run(Wilful([open_bracket(), sleep(20)]), bench, 0.2)
    assert 5 > time.monotonic() - begun
    assert None is session.turns.bracket
    with pytest.raises(BackendFailed, match="its time is over"):
        bench.prune()
    assert () == verify(session.path).findings


@RUNNERS
def test_its_time_counts_from_its_own_begin(run: Any, session: WritableSession) -> None:
    """What returns in time has returned in time."""
    assert None is not ran(run, session, sleep(0.1), claim(True), seconds=5).claim


@RUNNERS
def test_a_cancelled_run_says_nothing(run: Any, session: WritableSession) -> None:
    """Neither claim nor error nor timeout: nobody waits for it."""
    begun = time.monotonic()
    found = run(
        Wilful([sleep(20)]), bench_on(session), 60.0, is_cancelled=lambda: time.monotonic() > begun
    )
    assert Ran() == found
    assert 5 > time.monotonic() - begun


@RUNNERS
def test_an_interrupt_is_ours(run: Any, session: WritableSession) -> None:
    """Ctrl-C is passed on, and only after the bracket was closed."""

    def interrupts() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Wilful([open_bracket(), sleep(20)]), bench_on(session), 60.0, is_cancelled=interrupts)
    assert None is session.turns.bracket
    assert () == verify(session.path).findings


@RUNNERS
def test_long_notes_are_cut(run: Any, session: WritableSession) -> None:
    """A megabyte of note is none, and no encoding stumbles over it."""
    found = ran(run, session, claim(True, "\ud83dé" * 500_000))
    assert found.claim is not None
    assert MOST_NOTE_CHARACTERS * 6 >= len(found.claim.note.encode()) > 1000


# In a process of its own --------------------------------------------------------------------------


def test_its_memory_is_its_own(session: WritableSession) -> None:
    """What an isolated backend does to objects reaches nobody."""

    def spoils(bench: Workbench) -> Claim:
        bench.session.surface._generation += 100
        return Claim(acted=True)

    run_isolated(Does(spoils), bench_on(session), LONG_SECONDS)
    assert 0 == session.replace_generation


@pytest.mark.parametrize(
    ("ends", "status"),
    [(lambda bench: os._exit(7), 7), (lambda bench: os.kill(os.getpid(), signal.SIGKILL), -9)],
)
def test_a_process_that_ends_is_an_error(
    ends: Callable[[Workbench], Any], status: int, session: WritableSession
) -> None:
    """Exit or kill: the error tells the status, and we go on."""
    found = run_isolated(Does(ends), bench_on(session), LONG_SECONDS)
    told = f"its process ended with status {status}; look at what it wrote to standard error"
    assert f"backend does: {told}" == str(found.error)


def test_who_asks_for_isolation_is_given_it(session: WritableSession) -> None:
    """A backend that would end our process says so, and doesn't."""

    class Ends(Does):
        needs_isolation = True

    found = run_here(Ends(lambda bench: os._exit(7)), bench_on(session), LONG_SECONDS)
    assert "status 7" in str(found.error)


PRINTS: Final = """
from demo import DATA
from dsh_compact.backends.running import run_isolated
from dsh_compact.policy import DEFAULT
from dsh_compact.trial import open_trial
from dsh_compact.workbench import Workbench

class Prints:
    name = "prints"
    def compact(self, bench):
        print("by the backend")

print("before")
with open_trial(DATA) as session:
    bench = Workbench(session, policy=DEFAULT, retain_tokens=0, goal=None)
    run_isolated(Prints(), bench, 30)
print("after")
"""


def test_what_it_prints_is_told_once() -> None:
    """Neither its words are lost with its process, nor are ours told by both."""
    done = python(PRINTS, cwd=Path(__file__).parent)
    assert "before\nby the backend\nafter\n" == done.out, done.err


def test_its_children_go_with_it(session: WritableSession, tmp_path: Path) -> None:
    """What it started and did not part from is killed with it, and keeps nobody waiting."""
    alive = tmp_path / "pid"

    def starts(bench: Workbench) -> None:
        if os.fork() == 0:
            alive.write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(0)
        while not alive.exists() or not alive.read_text():
            time.sleep(0.01)
        os._exit(3)

    begun = time.monotonic()
    found = run_isolated(Does(starts), bench_on(session), LONG_SECONDS)
    assert "status 3" in str(found.error)
    assert 10 > time.monotonic() - begun
    assert not _runs(int(alive.read_text()))


def _runs(pid: int) -> bool:
    """Whether a process works (one that ended and was not fetched yet does not)."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except (FileNotFoundError, ProcessLookupError):
            return False
        time.sleep(0.02)
    return True


def test_a_torn_write_of_a_killed_process_is_cut_off(session: WritableSession) -> None:
    """Half a record that a killed backend left is no record: the log goes on behind the last."""

    def half(bench: Workbench) -> None:
        with open(bench.session.path, "ab") as log:
            log.write(b'{"type":"user/mess')
        os._exit(1)

    events = session.events
    run_isolated(Does(half), bench_on(session), LONG_SECONDS)
    assert events == session.events
    assert Path(session.path).read_bytes().endswith(b"\n")
