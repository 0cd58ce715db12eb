"""`dshc append`: messages into a log, all or nothing, where a harness opens them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import plain_reader
import pytest
from builders import Conversation, call
from footprints import footprints
from running import dshc
from test_session import locked_by_another

USER = {"type": "user/message", "data": {"role": "user", "content": [], "source": {"kind": "user"}}}
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def json_lines(*records: dict[str, Any]) -> bytes:
    """Events as somebody gives them on stdin."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def said(path: Path) -> list[tuple[str, str]]:
    """Role and text of every message on the surface, by the plain reader; the log must be sound."""
    reading = plain_reader.read(path.read_bytes())
    assert (None, None, False) == (reading.broken, reading.refused, reading.torn)
    return [
        (
            node.type.partition("/")[0],
            "".join(block.get("text", "") for block in node.message["content"]),
        )
        for node in reading.nodes
    ]


def talk(version: int = 4) -> Conversation:
    """A short conversation."""
    return Conversation(format=version).system("p").user("a").assistant("b").end()


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_message_is_appended(version: int, framed: bool, tmp_path: Path) -> None:
    """To logs of every format, plain and framed; no byte before it changes."""
    log = talk(version)
    path = log.write(tmp_path / "log", framed=framed)
    old = path.read_bytes()
    done = dshc("append", path, "--user", "go on", "--json")
    assert (0, "") == (done.code, done.err)
    assert {
        "schema": 1, "command": "append", "log": str(path), "format": version,
        "session_id": "session-1", "created": False, "seqs": [log.next_seq],
        "events": log.next_seq + 1, "generation": 0, "kept_aside": None,
    } == done.json  # fmt: skip
    assert old == path.read_bytes()[: len(old)]
    assert ("user", "go on") == said(path)[-1]
    record = plain_reader.read(path.read_bytes()).records[-1]
    assert re.fullmatch(UUID, record["data"]["id"])


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_order_of_the_options_is_the_order_of_the_messages(
    version: int, tmp_path: Path
) -> None:
    """Users and answers mixed; answers get their turns, and the log's own provider and model."""
    path = talk(version).write(tmp_path / "log")
    words = [
        "--user",
        "1",
        "--assistant",
        "2",
        "--assistant=3",
        "--user",
        "4",
        "--user=5",
        "--assistant",
        "6",
        "--user",
        "7",
    ]
    assert 0 == dshc("append", path, *words).code
    roles = ["user", "assistant", "assistant", "user", "user", "assistant", "user"]
    assert [*zip(roles, "1234567", strict=True)] == said(path)[-7:]
    answers = [
        node
        for node in plain_reader.read(path.read_bytes()).nodes
        if node.type == "assistant/message"
    ]
    source = answers[-1].message["source"]
    assert ("deepseek-official", "deepseek-v4-flash") == (source["provider"], source["model"])
    assert 0 == dshc("append", path, "--assistant", "8", "--provider", "x", "--model", "y").code
    assert 2 == dshc("append", path, "--assistant", "8", "--provider", "x").code


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_new_log_is_begun(version: int, framed: bool, tmp_path: Path) -> None:
    """With a system message at its head where the format has one, and a header of its own."""
    path = tmp_path / "log"
    words = ["--new", "--format", str(version), *(["--framed"] if framed else [])]
    done = dshc("append", path, *words, "--user", "hi", "--assistant", "hello", "--json")
    assert (0, True) == (done.code, done.json["created"])
    assert framed == path.read_bytes().startswith(plain_reader.ZSTD_MAGIC)
    head = [] if version == 0 else [("system", "")]
    assert [*head, ("user", "hi"), ("assistant", "hello")] == said(path)
    again = dshc("append", path, *words, "--user", "hi")
    assert (4, True) == (again.code, "exists" in again.err)


def test_a_new_log_knows_its_place(tmp_path: Path) -> None:
    """In a session's folder it bears the folder's id; the working directory is noted."""
    folder = tmp_path / "my-session"
    folder.mkdir()
    path = folder / "session.v4.jsonl"
    assert 0 == dshc("append", path, "--new", cwd=tmp_path).code
    header = plain_reader.read(path.read_bytes()).header
    assert ("my-session", str(tmp_path)) == (header["id"], header["cwd"])
    other = tmp_path / "other"
    assert 0 == dshc("append", other, "--new", "--cwd", "/srv", "--system", "be brief").code
    header = plain_reader.read(other.read_bytes()).header
    assert re.fullmatch(UUID, header["id"])
    assert "/srv" == header["cwd"]
    assert [("system", "be brief")] == said(other)


def test_what_shapes_a_new_log_shapes_no_old_one(tmp_path: Path) -> None:
    """Asked for without --new it is a mistake, and nothing is written."""
    path = talk().write(tmp_path / "log")
    for words in (["--format", "4"], ["--framed"], ["--cwd", "/srv"]):
        assert 2 == dshc("append", path, "--user", "x", *words).code
    assert talk().bytes() == path.read_bytes()


def test_a_system_prompt_comes_first_or_not_at_all(tmp_path: Path) -> None:
    """Once the conversation has begun it comes too late; format 0 keeps it elsewhere."""
    path = talk().write(tmp_path / "log")
    assert 2 == dshc("append", path, "--system", "x").code
    before = footprints(tmp_path)
    assert 2 == dshc("append", tmp_path / "new", "--new", "--format", "0", "--system", "x").code
    assert 2 == dshc("append", tmp_path / "new", "--new", "--format", "2").code
    assert (before, talk().bytes()) == (footprints(tmp_path), path.read_bytes())


def test_events_are_taken_from_standard_input(tmp_path: Path) -> None:
    """A line each, all of them or none; blank lines are no events."""
    path = talk().write(tmp_path / "log")
    marker = {"type": "my/own", "data": {"x": 1}, "ignorable": True}
    done = dshc("append", path, stdin=json_lines(USER, marker) + b"\n")
    assert (0, 2) == (done.code, int(done.out.split(" event")[0].split()[-1]))
    assert "user" == said(path)[-1][0]
    before = path.read_bytes()
    for wrong in (b"nonsense\n", json_lines({"type": "nobody/knows", "data": {}}),
                  json_lines({"type": "turn/start", "data": {"turn": 9}}),
                  json_lines({**USER, "data": {"content": 5}}),
                  json_lines({**USER, "surfaceOp": {"op": "replace", "startSeq": 9, "endSeq": 99},
                              "sourceEventSeqs": [9]})):  # fmt: skip
        done = dshc("append", path, stdin=json_lines(USER) + wrong)
        assert (2, "") == (done.code, done.out)
        assert before == path.read_bytes()
    assert 2 == dshc("append", path).code


def test_a_new_log_of_events_is_all_or_nothing(tmp_path: Path) -> None:
    """No header is left behind, and a headless conversation is warned of."""
    path = tmp_path / "log"
    done = dshc("append", path, "--new", stdin=json_lines(USER, {"type": "turn/end", "data": {}}))
    assert (2, []) == (done.code, [*tmp_path.iterdir()])
    done = dshc("append", path, "--new", stdin=json_lines(USER))
    assert (0, True) == (done.code, "system message" in done.err)


def test_a_replacement_can_be_appended(tmp_path: Path) -> None:
    """An event that replaces moves the generation, as in any log."""
    log = talk()
    path = log.write(tmp_path / "log")
    seq = log.node_seqs[-1]
    operation = {"op": "replace", "startSeq": seq, "endSeq": seq}
    event = {**USER, "surfaceOp": operation, "sourceEventSeqs": [seq]}
    done = dshc("append", path, "--json", stdin=json_lines(event))
    assert (0, 1) == (done.code, done.json["generation"])


def test_an_answer_waits_for_a_calls_result(tmp_path: Path) -> None:
    """A message from the user is taken, an answer is not, and nothing is written."""
    log = Conversation().system("p").user("a").assistant(calls=[call("c1")]).call("c1")
    path = log.write(tmp_path / "log")
    done = dshc("append", path, "--user", "x", "--assistant", "y")
    assert (2, log.bytes()) == (done.code, path.read_bytes())
    assert "c1" in done.err
    assert 0 == dshc("append", path, "--user", "x").code


def test_nothing_is_written_to_what_is_not_ours(tmp_path: Path) -> None:
    """Owned, linked, a pipe, missing, damaged: exit 4, and no byte changes."""
    path = talk().write(tmp_path / "session.v4.jsonl")
    with locked_by_another(tmp_path / "session.lock"):
        done = dshc("append", path, "--user", "x")
        assert (4, True) == (done.code, "holds" in done.err)
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "damaged").write_bytes(path.read_bytes() + b"nonsense\n")
    for name in ("link", "pipe", "nowhere", "damaged"):
        data = path.read_bytes()
        assert 4 == dshc("append", tmp_path / name, "--user", "x").code
        assert data == path.read_bytes()
    assert 2 != dshc("append", "-", "--user", "x").code


def test_a_torn_tail_is_kept_and_told(tmp_path: Path) -> None:
    """What was cut off lies beside the log."""
    path = talk().write(tmp_path / "log")
    path.write_bytes(path.read_bytes() + b'{"type":"user')
    done = dshc("append", path, "--user", "x", "--json")
    assert (0, b'{"type":"user') == (done.code, Path(done.json["kept_aside"]).read_bytes())
    assert "torn" in done.err
    assert ("user", "x") == said(path)[-1]


def test_hostile_text_is_kept_to_the_letter(tmp_path: Path) -> None:
    """What was said is what stands in the log, whatever a terminal would make of it."""
    path = talk().write(tmp_path / "log")
    words = "\x1b[31m[red]\u202e\u2028 é 🚀"
    assert 0 == dshc("append", path, "--user", words).code
    assert ("user", words) == said(path)[-1]
