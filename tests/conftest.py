"""What every test stands on: an environment without wishes of its own, copies of the real logs."""

import os
import shutil
import signal
from pathlib import Path
from typing import Final

import hypothesis
import pytest
from running import LOGS

WISHES: Final = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTHONUNBUFFERED", "TTY_COMPATIBLE")
"""Variables by which a person shapes output; the tests say what they want themselves."""

hypothesis.settings.register_profile(
    "steady",
    deadline=None,  # a busy machine is no failure of ours
    derandomize=True,  # the same examples everywhere: a red run is red again
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# A shell starts what runs in the background without Ctrl-C, `nohup` without a hang-up, and every
# process of the tests inherits it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse cases without an order: processes that share the suite must agree on what it is."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if isinstance(mark.args[1], set | frozenset):
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: a set of cases has no order")


@pytest.fixture(autouse=True)
def _no_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name in WISHES or name.startswith(("DSHC_", "_DSHC")):
            monkeypatch.delenv(name)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with a writable copy of every real log."""
    folder = tmp_path / "logs"
    shutil.copytree(LOGS, folder)
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder
