"""The parent's side of a living harness: start it, speak to it, end it, or kill it in mid-turn.

The rule: one object is one process group of its own, which is gone when the block ends, however it
ends. It knows where the harness keeps a session's log, and nothing of what stands in it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.scripted_provider import TURN_MAX_TOKENS, ScriptedProvider

DRIVE = Path(__file__).parent / "drive.py"
PROFILE = "sdk-minimal"  # one system prompt, three tools, plain logs: small and steady requests
SYSTEM_PROMPT = "You help with a small project."
PATIENCE_SECONDS = 60  # a turn of the scripted provider takes well under one
LOG_NAMES = ("session.v4.jsonl", "session.v4.jsonl.zstd")


class RefusedError(Exception):
    """The harness would not do what it was asked; its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How a turn ended, and the model's last words in it."""

    finish: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One session on disk: the harness's home, the workspace it ran in, and its id."""

    home: Path
    workspace: Path
    session_id: str

    @property
    def folder(self) -> Path:
        """Where the session's log and lock lie."""
        key = "-".join(part for part in self.workspace.parts if part != "/")
        return self.home / "sessions" / f"--{key}--" / self.session_id

    @property
    def log(self) -> Path:
        """The session's log, as the harness named it."""
        return next(self.folder / name for name in LOG_NAMES if (self.folder / name).exists())

    def copy(self, home: Path) -> Place:
        """The same session in another home; the workspace stays, since the log names it."""
        shutil.copytree(self.home, home)
        return replace(self, home=home)


class LiveHarness:
    """One running harness. Use as a context manager; leaving it ends the harness in good order."""

    def __init__(
        self,
        python: Path,
        place: Place,
        provider: ScriptedProvider,
        *,
        patches: tuple[Path, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        options = {
            "dsh_home": str(place.home),
            "cwd": str(place.workspace),
            "profile": PROFILE,
            "patches": [str(path) for path in patches],
            "max_tokens": TURN_MAX_TOKENS,
            "base_url": provider.base_url,
            "api_key": "none",
            "env": {"DSH_SYSTEM_PROMPT": SYSTEM_PROMPT, **(environment or {})},
            "request_timeout_seconds": PATIENCE_SECONDS,
            # By default the SDK ends its runtime after a second, with events still unwritten.
            "shutdown_timeout_seconds": PATIENCE_SECONDS,
        }
        self._place = place
        self._process = subprocess.Popen(
            [python, DRIVE, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._process.poll() is None and kind is None:
                self._process.communicate(timeout=PATIENCE_SECONDS)  # closes stdin: an orderly end
        finally:
            self.kill()

    def start(self) -> None:
        """Begin the session; nothing is on disk before its first turn."""
        self._order(do="start", id=self._place.session_id)

    def resume(self) -> None:
        """Open the stored session. Raises RefusedError with the harness's reason."""
        self._order(do="resume", id=self._place.session_id)

    def prompt(self, text: str) -> Turn:
        """One turn, to its end."""
        told = self._order(do="prompt", text=text)
        return Turn(finish=told["finish"], text=told["text"])

    def begin_prompt(self, text: str) -> None:
        """Send a turn and do not wait for it: the harness is to be killed in the middle."""
        self._write({"do": "prompt", "text": text})

    def kill(self) -> None:
        """End the whole group at once, as a crash would."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _order(self, **order: str) -> dict[str, Any]:
        self._write(order)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RefusedError("the harness ended before it answered")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise RefusedError(told["error"])
        return told

    def _write(self, order: dict[str, str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
