"""The example of a backend of one's own does what its first lines say."""

from pathlib import Path
from typing import Final

import pytest
from running import dshc

from dsh_compact.pytest_plugin import Conforms

EXAMPLE: Final = Path(__file__).parent.parent / "examples" / "own_backend.py"
SPEC: Final = f"{EXAMPLE}:Minutes"


def test_it_recovers_the_built_in_session() -> None:
    """`dshc recover` finds its work in the file, and the retry is answered."""
    done = dshc("recover", "--backend", SPEC, "--expect", "recovered", "--json")
    assert (0, "") == (done.code, done.err)
    assert ("minutes", "retry", 0) == tuple(
        done.json[key] for key in ("backend", "decision", "invalid_retries")
    )


@pytest.mark.parametrize("name", ["v4-stuck.jsonl", "v0-stuck.jsonl"])
def test_it_recovers_real_sessions(name: str, logs: Path) -> None:
    """Sessions that their own harness could not shrink are answered, too."""
    assert 0 == dshc("recover", logs / name, "--backend", SPEC, "--expect", "recovered").code


def test_it_keeps_the_rules(dshc_conforms: Conforms) -> None:
    """In the three lines in which its author would write it."""
    assert dshc_conforms(SPEC).ok
