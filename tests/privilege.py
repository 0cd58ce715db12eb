"""As a user who may not do everything: root, who often runs the tests, may look everywhere."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

NOBODY: Final = 65_534


@contextmanager
def without_privilege() -> Iterator[None]:
    """As a user who owns nothing, where root runs the tests."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def locked_out(folder: Path, mode: int = 0o000) -> Iterator[None]:
    """As such a user, and the folder is closed for as long; skips where it can't be."""
    folder.chmod(mode)
    try:
        with without_privilege():
            if os.access(folder, os.X_OK, effective_ids=True):
                pytest.skip("this user may look everywhere")
            yield
    finally:
        folder.chmod(0o755)
