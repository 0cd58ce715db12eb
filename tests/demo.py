# ruff: noqa: E501 - quoted outputs and sentences stay on their lines
"""The session that ships with the package, as data: `python tests/demo.py` writes it anew.

A provider that reports no usage, so that the harness can only estimate; and a conversation of the
kind that an estimate of four characters a token undercounts: numbers, hashes, ids, Chinese. It has
been refused once and was saved by a prune and a summary, a later attempt failed, and by now the
estimate is well below the threshold while the provider counts more than its window holds: the next
request will be refused, and nothing in the log says so.
"""

import random
from pathlib import Path
from typing import Final

from builders import Conversation, call

DATA: Final = Path(__file__).parent.parent / "dsh_compact" / "data" / "session.jsonl"

WINDOW_TOKENS: Final = 8_000

TOOLS: Final = [
    {
        "name": "bash",
        "description": "Runs a command in a shell and returns what it printed.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "the command line"}},
            "required": ["command"],
        },
    },
    {
        "name": "read",
        "description": "Returns the content of a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["path"],
        },
    },
]

SYSTEM: Final = (
    "You are a coding assistant in a terminal. Work in small steps, run the tests after each change,"
    " and say what you found before you change anything."
)

SUMMARY: Final = """\
The user asked why the nightly stock export has 3 rows fewer than the warehouse's own count.
- `jobs/export.py` reads `stock_levels` page by page, 500 rows a page, ordered by `updated_at`.
- The test `tests/test_export.py::test_all_rows` passes on a frozen table and fails while rows are updated: 3 of 12,000 rows are missed.
- Cause: a row that is updated during the export moves behind the cursor. Fix under way: order by `id`, which never changes."""


def demo() -> Conversation:
    """The session, always the same."""
    dice = random.Random(8_000)
    listing = _export(dice, 150)
    log = (
        Conversation(
            session_id="stock-export",
            provider="deepseek-official",
            model="deepseek-v4-flash",
            window=WINDOW_TOKENS,
            tools=TOOLS,
            cwd="/srv/stock",
        )
        .system(SYSTEM)
        .user("Last night's stock export has 3 rows fewer than the warehouse counted. Find out why.")
        .assistant("I'll look at the job first.", calls=[_read("c1", "jobs/export.py")])
        .result("c1", _source())
        .assistant(
            "It pages through `stock_levels` by `updated_at`. Let me compare the two exports.",
            calls=[_bash("c2", "diff <(cut -d, -f1 export.csv) <(cut -d, -f1 warehouse.csv)")],
        )
        .result("c2", listing)
        .refusal(limit=WINDOW_TOKENS, requested=8_463)
        .prune("c2", _head(listing, 12) + "[… the rest of the listing was cut …]")
        .compaction(SUMMARY)
        .assistant(
            "The cursor is the culprit: rows that are updated while the job runs move behind it. I'll"
            " order by `id` instead.",
            calls=[_bash("c3", "sed -i 's/ORDER BY updated_at/ORDER BY id/' jobs/export.py && pytest -q tests/test_export.py")],
        )
        .result("c3", "................                                        [100%]\n16 passed in 3.41s")
        .assistant("Fixed: the job orders by `id` now, and all 16 tests pass.")
        .user("Thanks. Now the warehouse in Suzhou says that some hashes of the manifest differ. Check them.")
        .failed_compaction("the summarizer did not answer within 60 seconds")
        .assistant("I'll hash the files of the last shipment.", calls=[_bash("c4", "sha256sum shipments/2026-11-28/*.csv")])
        .result("c4", _hashes(dice, 96))
        .assistant(
            "Two of them differ from the manifest. Its entries carry notes in Chinese; let me read them.",
            calls=[_read("c5", "shipments/2026-11-28/MANIFEST")],
        )
        .result("c5", _manifest(dice, 60))
        .assistant(
            "The notes say that two files were sent again after a correction (更正后重新发送), so their hashes"
            " changed on purpose. I'll check the timings of the second transfer.",
            calls=[_bash("c6", "grep transfer logs/sync.log | tail -44")],
        )
        .result("c6", _transfers(dice, 44))
    )  # fmt: skip
    return log.assistant(
        "Both files arrived complete on the second transfer. The manifest was not updated: that is"
        " why their hashes differ. Shall I write the new hashes into it?"
    ).end()


def _bash(call_id: str, command: str) -> dict[str, str]:
    import json

    return call(call_id, "bash", json.dumps({"command": command}))


def _read(call_id: str, path: str) -> dict[str, str]:
    return call(call_id, "read", f'{{"path": "{path}"}}')


def _source() -> str:
    return '''\
"""Writes the stock levels of all warehouses to a file, every night."""

PAGE = 500


def export(connection, out):
    seen = None
    while True:
        rows = connection.execute(
            "SELECT id, sku, level, updated_at FROM stock_levels"
            " WHERE updated_at > ? ORDER BY updated_at LIMIT ?",
            (seen or 0, PAGE),
        ).fetchall()
        if not rows:
            return
        for row in rows:
            out.write(",".join(map(str, row)) + "\\n")
        seen = rows[-1][3]
'''


def _export(dice: random.Random, rows: int) -> str:
    """Rows of a table: ids, article numbers, levels, times in milliseconds."""
    return "\n".join(
        f"{100_000 + 7 * row},{dice.randrange(10**12):013d},{dice.randrange(900)},{1_796_046_500_000 + dice.randrange(10**9)}"
        for row in range(rows)
    )


def _head(text: str, lines: int) -> str:
    return "".join(text.splitlines(keepends=True)[:lines])


def _hashes(dice: random.Random, files: int) -> str:
    return "\n".join(
        f"{dice.getrandbits(256):064x}  shipments/2026-11-28/part-{number:04d}.csv"
        for number in range(files)
    )


NOTES: Final = (
    "已核对，数量一致",
    "更正后重新发送",
    "等待仓库确认",
    "箱号有误，已修改",
    "分两批运送",
)


def _manifest(dice: random.Random, entries: int) -> str:
    return "\n".join(
        f"part-{number:04d}.csv  {dice.getrandbits(256):064x}  {dice.randrange(10**6, 10**7)}  # {dice.choice(NOTES)}"
        for number in range(entries)
    )


def _transfers(dice: random.Random, lines: int) -> str:
    return "\n".join(
        f"2026-11-29T04:{minute:02d}:{dice.randrange(60):02d}.{dice.randrange(1000):03d}Z transfer id={dice.getrandbits(128):032x}"
        f" bytes={dice.randrange(10**6, 10**7)} ms={dice.randrange(10**5)}"
        for minute in range(lines)
    )


if __name__ == "__main__":
    demo().write(DATA)
