"""A progress bar on stderr, for work that turns out to be long.

Short work never shows it and never pays for it: rich is imported only when a terminal is there and
the work has gone on for `PATIENCE_SECONDS`. The bar leaves no trace when the work ends. It has no
thread of its own: it is drawn while work is reported, so that a fork is safe beside it.
"""

import os
import sys
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from dsh_compact.cli import io
from dsh_compact.report.terminal import safe

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

PATIENCE_SECONDS: Final = 0.5
"""So long a person waits without wondering whether anything happens."""

REDRAW_SECONDS: Final = 0.1
"""More often nobody sees it, and drawing costs as much as reading a small log."""


class Progress:
    """A context in which `advance` reports work done; without a terminal it shows nothing.

    `total` counts the same things as `advance`; None where nobody knows how many there will be.
    `beside_output` tells that results are printed meanwhile: where they go to a terminal, they are
    the progress.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        beside_output: bool = False,
    ) -> None:
        self._label = safe(label)
        self._total = total
        self._is_rough = False
        self._done = 0
        self._due_seconds = monotonic() + PATIENCE_SECONDS
        self._wanted = _can_draw() and not (beside_output and io.is_terminal(sys.stdout))
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def expect(self, total: int) -> None:
        """Say, before the first `advance`, how much there will be, roughly: a percentage is shown.

        Nobody is told more than 99 % as long as there is work.
        """
        self._total, self._is_rough = total, True

    def advance(self, count: int = 1) -> None:
        """Report that `count` more is done."""
        self._done += count
        if not self._wanted or monotonic() < self._due_seconds:
            return
        if self._bar is None:
            self._show()
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(self._task, completed=self._shown(), refresh=True)
        self._due_seconds = monotonic() + REDRAW_SECONDS

    def _show(self) -> None:
        from rich import progress
        from rich.console import Console

        amount = progress.TaskProgressColumn() if self._is_rough else progress.MofNCompleteColumn()
        label = progress.TextColumn("{task.description}", markup=False)
        self._bar = progress.Progress(
            label,
            progress.BarColumn(),
            amount,
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
        )
        self._task = self._bar.add_task(self._label, total=self._total, completed=self._shown())
        self._bar.start()

    def _shown(self) -> int:
        if self._total is None or not self._is_rough:
            return self._done
        return min(self._done, self._total * 99 // 100)


def _can_draw() -> bool:
    return io.is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
