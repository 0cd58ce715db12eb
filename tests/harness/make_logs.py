"""Makes, with the real harness, the logs that need several processes or a crash.

The rule: each log comes out of one little story below, told to the real harness and the scripted
provider. Foreign words (the harness's own texts) are replaced by neutral ones of the same length,
so that every price stays right; nothing else is touched. What a right reader finds in each log is
computed by `simple_reader` and written beside them.

Run it with `tests` on the path, and `DSHC_HARNESS_PYTHON` naming a Python that has the SDK. Logs
differ from run to run in ids and times, so name those that are to be made anew; without a name all
are.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard
from harness.live_harness import LiveHarness, Place
from harness.scripted_provider import ScriptedProvider, serve
from harness.simple_reader import Record, explain

LOGS = Path(__file__).parents[1] / "logs"
EXPECTED = LOGS / "expected-stories.json"
WORKSPACE = Path("/srv/app/ws")  # its name is in the logs, so it says nothing
SUMMARY = "## Current Work\n- lists of numbers were printed\n\n## Next Step\n- go on"
UNKNOWN_OUTCOME = "TOOL_OUTCOME_UNKNOWN"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

FRAMED_PATCH = """\
- id: sessions
  config:
    root: !!js dshHomePath('sessions')
    compression: zstd
"""
PRESSURE_PATCH = """\
- id: compaction-basic
  config:
    headroomTokens: 0
    maxTokens: 300
"""

NEUTRAL = {
    "tools": "What this input is for. ",
    "context": "Where this session runs now. ",
    "checkpoint": "What came before this point, in short. ",
    "unknown outcome": "The outcome of this call is unknown. ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a story is played on: one home, one session, one provider."""

    python: Path
    place: Place
    provider: ScriptedProvider
    patches: tuple[Path, ...] = ()

    def harness(self, **environment: str) -> LiveHarness:
        """A new process of the harness."""
        return LiveHarness(
            self.python,
            self.place,
            self.provider,
            patches=self.patches,
            environment=environment,
        )

    def play(self, *words: str, resume: bool = True, **environment: str) -> None:
        """One process: begin or resume, say the words, end in good order."""
        with self.harness(**environment) as harness:
            harness.resume() if resume else harness.start()
            for word in words:
                harness.prompt(word)

    def killed_at(self, word: str, kind: str, *, resume: bool = True) -> None:
        """One process, killed as soon as the word has led to an event of that kind."""
        with self.harness() as harness:
            harness.resume() if resume else harness.start()
            before = self.count(kind)
            harness.begin_prompt(word)
            while self.count(kind) == before:
                time.sleep(0.02)
            harness.kill()

    def count(self, kind: str) -> int:
        """How many events of a kind the log holds by now."""
        if not self.place.folder.exists() or not any(self.place.folder.glob("session.v4*")):
            return 0
        return self.place.log.read_text("utf-8").count(f'{{"type":"{kind}"')

    def patched(self, text: str) -> Stage:
        """The same stage, with a patch of the harness's configuration."""
        patch = self.place.home.with_suffix(".patch.yml")
        patch.write_text(text)
        return Stage(python=self.python, place=self.place, provider=self.provider, patches=(patch,))


# The stories


def resumed(stage: Stage) -> None:
    """Three processes; the second has another system prompt, which replaces the first's."""
    stage.play("RUN: seq 1 200", "hello", resume=False)
    stage.play("RUN: seq 1 20", DSH_SYSTEM_PROMPT="You help with a small project, kindly.")
    stage.play("goodbye", DSH_SYSTEM_PROMPT="You help with a small project, kindly.")


def parallel(stage: Stage) -> None:
    """Several calls in one message, one fails, one prints more than ASCII; folded in mid-step."""
    stage.provider.summary, stage.provider.wall_tokens = SUMMARY, 2_900
    stage.play(
        "RUN: seq 1 100 && false && printf 'Grüße \\u4f60\\u597d \\U1f600' && seq 60 99",
        "RUN: seq 1 500 && seq 2 300 && seq 3 30",
        "RUN: seq 1 700 && true",
        "RUN: seq 1 700",
        resume=False,
    )


def interrupted(stage: Stage) -> None:
    """Killed with one call running and one not begun; then while a reply was awaited."""
    stage.play("RUN: seq 1 50", resume=False)
    stage.killed_at("RUN: sleep 60 && echo never", "tool/call")
    stage.killed_at("STALL", "step/start")
    stage.play("hello")


def troubled(stage: Stage) -> None:
    """A reply that its budget cut, a stream that broke off, and turns that went well between."""
    stage.play("CUT", "RUN: seq 1 20", "BREAK", "hello", resume=False)
    stage.play("BREAK", "RUN: seq 5 25")


def much_compacted(stage: Stage) -> None:
    """Many turns against a low wall: the overflow path folds again and again."""
    stage.provider.summary, stage.provider.wall_tokens = SUMMARY, 2_600
    stage.play(*(f"RUN: seq {n} {n + 800}" for n in range(1, 9)), resume=False)
    stage.play(*(f"RUN: seq {n} {n + 800}" for n in range(9, 11)))


def much_pressed(stage: Stage) -> None:
    """Many turns in a small window: the pressure path folds between steps."""
    stage.provider.summary = SUMMARY
    pressed = stage.patched(PRESSURE_PATCH)
    words = [f"RUN: seq {n} {n + 400}" for n in range(1, 13)]
    pressed.play(*words, resume=False, DSH_CONTEXT_WINDOW="3000")


def framed(stage: Stage) -> None:
    """Folded, resumed and folded again, in a framed log."""
    stage.provider.summary, stage.provider.wall_tokens = SUMMARY, 2_600
    packed = stage.patched(FRAMED_PATCH)
    packed.play(*(f"RUN: seq {n} {n + 800}" for n in range(1, 5)), resume=False)
    packed.play("RUN: seq 1 700 && seq 2 300", "hello")


STORIES: dict[str, Callable[[Stage], None]] = {
    "v4-resumed.jsonl": resumed,
    "v4-parallel.jsonl": parallel,
    "v4-interrupted.jsonl": interrupted,
    "v4-troubled.jsonl": troubled,
    "v4-much-compacted.jsonl": much_compacted,
    "v4-much-pressed.jsonl": much_pressed,
    "v4-framed-resumed.jsonl.zstd": framed,
}


def tell(name: str, story: Callable[[Stage], None], python: Path, root: Path) -> bytes:
    """Play one story; the log's bytes, in neutral words."""
    home = root / "home"
    home.mkdir()
    session_id = name.partition(".")[0].replace("-", "_")
    place = Place(home=home, workspace=WORKSPACE, session_id=session_id)
    with serve(ScriptedProvider()) as provider:
        story(Stage(python=python, place=place, provider=provider))
    return neutral_log(place.log.read_bytes())


# Neutral words


def neutral_log(data: bytes) -> bytes:
    """The same log, plain or frame by frame, with the harness's own texts replaced."""
    if not data.startswith(ZSTD_MAGIC):
        return b"".join(map(neutral_line, data.splitlines(keepends=True)))
    packer = zstandard.ZstdCompressor(write_checksum=True)
    return b"".join(
        packer.compress(b"".join(map(neutral_line, frame.splitlines(keepends=True))))
        for frame in frames(data)
    )


def frames(data: bytes) -> list[bytes]:
    """What each frame unpacks to."""
    unpacked = []
    while data:
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        unpacked.append(unpacker.decompress(data))
        data = unpacker.unused_data
    return unpacked


def neutral_line(line: bytes) -> bytes:
    """One record in neutral words."""
    record = json.loads(line)
    neutralise(record)
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def neutralise(record: Record) -> None:
    """Replace the harness's own texts in place; texts that it checks to the letter stay."""
    data = record.get("data", {})
    source = data.get("source", {})
    if record["type"] == "request/header":
        for tool in data["header"]["tools"]:
            redescribe(tool)
    if source.get("kind") == "runtime-context":
        for part in (*data["content"], *source.get("sections", [])):
            part["text"] = same_length("context", part["text"])
    if source.get("kind") == "compact-checkpoint":
        block, end = data["content"][0], "\n\n<compacted-summary>"
        block["text"] = same_length("checkpoint", block["text"].removesuffix(end)) + end
    if record["type"] == "tool/result" and data.get("error", {}).get("code") == UNKNOWN_OUTCOME:
        for block in data["message"]["content"]:
            block["text"] = same_length("unknown outcome", block["text"])


def redescribe(schema: Any) -> None:
    """Replace every description in a tool's schema."""
    if isinstance(schema, list):
        for item in schema:
            redescribe(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "description" and isinstance(value, str):
                quoted = json.dumps(value, ensure_ascii=False)  # escapes count in a tool's price
                schema[key] = same_length("tools", quoted[1:-1])
            else:
                redescribe(value)


def same_length(words: str, text: str) -> str:
    """Neutral words, as long as the text."""
    sentence = NEUTRAL[words]
    return (sentence * (len(text) // len(sentence) + 1))[: len(text)]


def main() -> None:
    """Tell every story and write the logs and what is to be found in them."""
    python = Path(os.environ["DSHC_HARNESS_PYTHON"])
    WORKSPACE.mkdir(parents=True, exist_ok=True)
    expected = json.loads(EXPECTED.read_text("utf-8")) if EXPECTED.exists() else {}
    for name in sys.argv[1:] or STORIES:
        story = STORIES[name]
        root = Path(tempfile.mkdtemp())
        data = tell(name, story, python, root)
        shutil.rmtree(root)
        (LOGS / name).write_bytes(data)
        lines = b"".join(frames(data)) if data.startswith(ZSTD_MAGIC) else data
        expected[name] = explain([json.loads(line) for line in lines.splitlines()])
        print(name, len(data), "bytes, generation", expected[name]["generation"])
    EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
