"""`dshc show`: the conversation as the model sees it, now or at an earlier point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import Conversation, call
from footprints import footprints
from plain_reader import message_of, node_tokens
from running import LOGS, dshc

EXPECTED: dict[str, Any] = json.loads((LOGS / "expected.json").read_text("utf-8"))
DAMAGE = "content is a whole number, where a list belongs"
HOSTILE = "\x1b]0;owned\x07\x1b[31m[red]x[/red]\u202e\u2028\x00"


@pytest.mark.parametrize("name", EXPECTED)
def test_the_surface_of_a_real_log_is_shown(name: str, logs: Path) -> None:
    """Every node with seq, role, tokens and content as it stands in the log; nothing touched."""
    before = footprints(logs)
    done = dshc("show", logs / name, "--json")
    assert (0, before) == (done.code, footprints(logs))
    nodes = done.json["nodes"]
    assert EXPECTED[name]["node_seqs"] == [node["seq"] for node in nodes]
    assert EXPECTED[name]["generation"] == done.json["generation"]
    assert EXPECTED[name]["measure_at_end"]["surface_tokens"] == sum(n["tokens"] for n in nodes)


def test_json_is_what_the_log_holds(tmp_path: Path) -> None:
    """Blocks of every kind, byte for byte the same values."""
    picture = {"type": "image", "data": "x", "n": [1, 2.5, None]}
    signed = {"type": "text", "text": "a", "signature": "abc"}
    log = Conversation().system("p").user([signed, picture]).assistant(calls=[call("c1")])
    log.result("c1", "out \ud83d", is_error=True).note("n")
    nodes = dshc("show", log.write(tmp_path / "log"), "--json").json["nodes"]
    assert [
        {
            "seq": record["seq"],
            "role": role,
            "tokens": node_tokens(record),
            "content": message_of(record)["content"],
        }
        for record, role in zip(
            log.nodes, ["system", "user", "assistant", "tool", "user"], strict=True
        )
    ] == nodes


def test_text_shows_the_beginning_of_everything(tmp_path: Path) -> None:
    """Roles, calls and their results, checkpoints; `--full` shows what was cut."""
    log = Conversation().system("You help.").user("old").compaction("It went.")
    log.assistant("Running.", calls=[call("c1", "bash", '{"command":"ls"}')], reasoning="Hm.")
    log.result("c1", "\n".join(f"line {number}" for number in range(1, 99)), is_error=True)
    path = log.write(tmp_path / "log")
    shown = dshc("show", path).out
    for words in (
        "generation 1 · 4 messages", "system", "user · checkpoint", "It went.", "(thinks) Hm.",
        '→ bash (c1) {"command":"ls"}', "tool · answers c1 · error", "line 6", "more characters",
    ):  # fmt: skip
        assert words in shown
    assert "line 7" not in shown
    assert "line 98" in dshc("show", path, "--full").out


def test_an_earlier_point_is_shown(tmp_path: Path) -> None:
    """By generation, by event, and never two ways at once."""
    log = Conversation().user("first").note("second").compaction("sum").note("third")
    path = log.write(tmp_path / "log")
    first, second = [r["seq"] for r in log.records if r["type"] == "user/message"][:2]
    now = dshc("show", path, "--json").json
    assert [now["nodes"], 1] == [
        dshc("show", path, "--generation", "1", "--json").json["nodes"],
        now["generation"],
    ]
    old = dshc("show", path, "--generation", "0", "--json").json
    assert ([first, second], 0) == ([node["seq"] for node in old["nodes"]], old["generation"])
    at = dshc("show", path, "--at", str(first), "--json").json
    assert [first] == [node["seq"] for node in at["nodes"]]
    assert 2 == dshc("show", path, "--generation", "2").code
    assert 2 == dshc("show", path, "--at", str(log.next_seq)).code
    assert 2 == dshc("show", path, "--at", "1", "--generation", "1").code
    assert 2 == dshc("show", path, "--at", "-1").code
    assert 2 == dshc("show", path, "--diff", "-1", "0").code


def test_a_difference_shows_what_left_and_what_came(tmp_path: Path) -> None:
    """Both with their tokens; what stayed is counted."""
    log = Conversation().user("first").note("second").note("third")
    seqs = log.node_seqs
    log.compaction("sum", over=(seqs[0], seqs[1]))
    path = log.write(tmp_path / "log")
    shown = dshc("show", path, "--diff", "0", "1").out
    marks = [row[:2] for row in shown.splitlines() if row[2:3] == "["]
    assert ["- ", "- ", "+ "] == marks
    assert "generation 0 → 1: 2 gone" in shown
    assert "… 1 message kept" in shown
    found = dshc("show", path, "--diff", "0", "1", "--json").json
    assert ([seqs[0], seqs[1]], [seqs[2]]) == (
        [n["seq"] for n in found["gone"]],
        found["kept_seqs"],
    )
    back = dshc("show", path, "--diff", "1", "0", "--json").json
    assert found["gone"] == back["new"]


def test_hostile_texts_never_reach_the_terminal(tmp_path: Path) -> None:
    """Whatever a message, a name or a block's kind holds, whole or cut."""
    log = Conversation().system(HOSTILE).user([HOSTILE, {"type": HOSTILE, "x": HOSTILE}])
    log.assistant(HOSTILE, calls=[call(HOSTILE, HOSTILE, HOSTILE)], reasoning=HOSTILE)
    log.result(HOSTILE, HOSTILE).note(HOSTILE, kind=HOSTILE).compaction(HOSTILE)
    path = log.write(tmp_path / "log")
    for words in (
        [],
        ["--full"],
        ["--generation", "0", "--full"],
        ["--json"],
        ["--diff", "0", "1"],
    ):
        done = dshc("show", path, *words)
        assert 0 == done.code
        assert not set("\x1b\x07\u202e\u2028\x00") & set(done.out)


def test_a_text_of_10_megabytes_is_shown_in_a_few_lines(tmp_path: Path) -> None:
    """And whole with --full."""
    path = Conversation().user("x\t" * 5_000_000).write(tmp_path / "log")
    done = dshc("show", path)
    assert (0, True) == (done.code, len(done.out) < 2_000)
    assert len(dshc("show", path, "--full").out) > 10_000_000


def test_a_message_that_cannot_be_read_is_told_in_its_place(tmp_path: Path) -> None:
    """The others are shown, before and behind it; then the error comes, and exit code 4."""
    log = Conversation().user("first").note("second").note("third").note("last")
    second, third = log.node_seqs[1:3]
    log.spoil(second, lambda record: record["data"].update(content=5))
    path = log.write(tmp_path / "log")
    done = dshc("show", path)
    problem = f"user/message: {DAMAGE}"
    told = f'dshc: {path} (seq {second}): {problem}; run "dshc verify {path}"\n'
    assert (4, told) == (done.code, done.err)
    assert "4 messages, 1 unreadable" in done.out
    assert f"\n[{second}] user · unreadable\n    {problem}\n" in done.out
    assert "first" in done.out
    assert done.out.endswith("    last\n")
    as_json = dshc("show", path, "--json")
    assert (4, told) == (as_json.code, as_json.err)
    seqs, lost = [node["seq"] for node in as_json.json["nodes"]], as_json.json["nodes"][1]
    assert log.node_seqs == seqs
    nothing = {"role": "user", "tokens": None, "content": None}
    assert {"seq": second, **nothing, "error": problem} == lost
    assert ["error" in node for node in as_json.json["nodes"]] == [False, True, False, False]
    log.spoil(third, lambda record: record["data"].update(content=5))
    assert f"{problem}, nor can 1 more message be read; " in dshc("show", log.write(path)).err


def test_a_difference_goes_on_behind_what_cannot_be_read(tmp_path: Path) -> None:
    """What left and cannot be read is told, what came is shown."""
    log = Conversation().user("first").note("second").note("third")
    seqs = log.node_seqs
    log.compaction("It went.", over=(seqs[0], seqs[1]))
    log.spoil(seqs[0], lambda record: record["data"].update(content=5))
    path = log.write(tmp_path / "log")
    done = dshc("show", path, "--diff", "0", "1")
    assert 4 == done.code
    assert f"\n- [{seqs[0]}] user · unreadable\n" in done.out
    assert "It went." in done.out
    as_json = dshc("show", path, "--diff", "0", "1", "--json")
    assert (4, f"user/message: {DAMAGE}") == (as_json.code, as_json.json["gone"][0]["error"])
