"""Every example runs as its first lines say, and as the README shows it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import readme
import yaml
from endpoints import JSON, Endpoint, Refused, Reply, Whole
from running import DSHC, LOGS, Ran, dshc

from dsh_compact import tokenizers
from dsh_compact.wall import Wall, in_words_of
from dsh_compact.wall.apis import ChatCompletions

EXAMPLES: Final = readme.ROOT / "examples"
LIMIT: Final = 1500
LONG: Final = " ".join(map(str, range(300)))
"""Some 600 tokens: two fit into the wall, three don't."""

LANGCHAIN: Final = importlib.util.find_spec("langchain") and importlib.util.find_spec(
    "langchain_openai"
)
AGENTS: Final = [
    "agent.py",
    pytest.param(
        "langchain_agent.py",
        marks=pytest.mark.skipif(
            not LANGCHAIN, reason="needs LangChain: pip install '.[examples]'"
        ),
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The examples beside recorded sessions, as in a repository of one's own."""
    place = tmp_path / "mine"
    shutil.copytree(EXAMPLES, place, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "sessions").mkdir()
    for name in ("v4-overflow.jsonl", "v4-stuck.jsonl", "v0-stuck.jsonl"):
        (place / "sessions" / name).write_bytes((LOGS / name).read_bytes())
    return place


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Ran:
    """Run a program with `dshc` and this Python first on its path."""
    path = f"{DSHC.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PATH": path, **(env or {})},
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


# Agents -------------------------------------------------------------------------------------------


class Model:
    """A model behind a wall: it reads the file that it is asked about, then answers."""

    def __init__(self) -> None:
        self.wall = Wall(limit_tokens=LIMIT, refuse=in_words_of("openai"))
        self.tokenizer = tokenizers.load("o200k_base")
        self.refused = 0
        self.read: list[str] = []

    def __call__(self, body: JSON) -> Reply:
        tokens = ChatCompletions().asked(json.dumps(body).encode()).count(self.tokenizer)
        failure = self.wall.request(tokens).failure
        if failure is not None:
            self.refused += 1
            error = {"message": failure.message, "code": failure.code}
            return Refused(failure.status or 400, {"error": error})
        last = body["messages"][-1]
        if last["role"] == "tool":
            self.read.append(last["content"])
        wanted = re.search(r"read (\S+)", last["content"] or "") if last["role"] == "user" else None
        return Whole(self._answer(tokens, wanted[1] if wanted else None))

    def _answer(self, tokens: int, path: str | None) -> JSON:
        message: JSON = {"role": "assistant", "content": None if path else "Read and done."}
        if path:
            call = {"name": "read_file", "arguments": json.dumps({"path": path})}
            message["tool_calls"] = [{"id": "call_0", "type": "function", "function": call}]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if path else "stop"}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": {
                "prompt_tokens": tokens,
                "completion_tokens": 9,
                "total_tokens": tokens + 9,
            },
        }


def ask(example: str, folder: Path, url: str, words: str, **env: str) -> Ran:
    """One call of an agent, against an endpoint."""
    endpoint = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "any", **env}
    return run(sys.executable, example, "talk.jsonl", words, cwd=folder, env=endpoint)


@pytest.mark.parametrize("example", AGENTS)
def test_an_agent_reads_files_and_passes_the_wall(example: str, folder: Path) -> None:
    """Its tool runs, a refused request is shortened and sent again, and its log is sound."""
    model = Model()
    for name in "ab":
        (folder / f"{name}.txt").write_text(f"file {name}: {LONG} {LONG}")
    with Endpoint(model) as server:
        for name in "ab":
            done = ask(example, folder, server.url, f"read {name}.txt")
            assert (0, "Read and done.\n") == (done.code, done.out), done.err
    assert 2 == len(model.read)
    assert "file a: 0 1 2" in model.read[0]
    assert model.refused
    told = dshc("history", "talk.jsonl", "--json", cwd=folder).json
    assert told["replacements"]
    assert 0 == dshc("verify", "--strict", "talk.jsonl", cwd=folder).code


@pytest.mark.parametrize("example", AGENTS)
def test_an_agent_reports_any_other_error_as_it_came(example: str, folder: Path) -> None:
    """A wrong key is no overflow: nothing is folded, the turn ends, and the next one works."""
    error = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    with Endpoint(Refused(401, error), Model()) as server:
        done = ask(example, folder, server.url, "hello")
        assert 1 == done.code
        assert "Incorrect API key provided" in done.err
        assert 0 == ask(example, folder, server.url, "hello").code
    assert 0 == dshc("measure", "talk.jsonl", "--json", cwd=folder).json["generation"]
    assert 0 == dshc("verify", "--strict", "talk.jsonl", cwd=folder).code


def test_the_agent_packs_before_the_wall(folder: Path) -> None:
    """Told the window, its pressure path makes room, and nothing is ever refused."""
    model = Model()
    told = {"DSHC_WINDOW_TOKENS": str(LIMIT), "DSHC_THRESHOLD_RATIO": "0.5"}
    with Endpoint(model) as server:
        runs = [
            ask("agent.py", folder, server.url, f"{number}: {LONG}", **told) for number in range(2)
        ]
    assert [0, 0] == [done.code for done in runs]
    assert 0 == model.refused
    assert "packed" in runs[-1].err


@pytest.mark.parametrize(
    ("arguments", "is_error"),
    [
        ('{"path": "notes.txt"}', False),
        ('{"path": "../outside.txt"}', True),
        ('{"path": "missing.txt"}', True),
        ('{"path": "\\u0000"}', True),
        ('{"file": "notes.txt"}', True),
        ('{"path": ', True),
        ("[]", True),
    ],
)
def test_the_agents_tool_stays_in_its_folder(
    arguments: str, is_error: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the model asks for: a file in the folder, or an error as the result."""
    agent = imported("agent.py")
    (tmp_path / "here").mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "here" / "notes.txt").write_text("a note")
    monkeypatch.chdir(tmp_path / "here")
    text, failed = agent.run(agent.ToolCall(id="c1", name="read_file", arguments=arguments))
    assert is_error == failed
    assert "secret" not in text


def imported(example: str) -> Any:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(Path(example).stem, EXAMPLES / example)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# A backend of one's own ---------------------------------------------------------------------------


def test_the_backend_keeps_what_was_asked(folder: Path) -> None:
    """Its minutes name what the user said."""
    log = folder / "sessions" / "v4-stuck.jsonl"
    words = ["--backend", "own_backend.py:Minutes", "--force"]
    assert 0 == dshc("compact", log, *words, cwd=folder).code
    assert "- RUN: seq 1 2000" in dshc("show", log, "--full").out


# Scripts and the workflow -------------------------------------------------------------------------


def test_check_sessions_speaks_only_when_there_is_something(folder: Path) -> None:
    """`check_sessions.sh` is quiet over sessions with room, and names those without."""
    done = run("./check_sessions.sh", "sessions", cwd=folder)
    assert 1 == done.code
    assert "v4-stuck.jsonl" in done.out
    (folder / "sessions" / "v4-stuck.jsonl").unlink()
    (folder / "sessions" / "v0-stuck.jsonl").unlink()
    assert Ran(code=0, out="", err="") == run("./check_sessions.sh", "sessions", cwd=folder)
    assert 4 == run("./check_sessions.sh", "nowhere.jsonl", cwd=folder).code


@pytest.mark.parametrize("name", ["v4-stuck.jsonl", "v0-stuck.jsonl"])
def test_unstick_makes_a_stuck_session_fit(name: str, folder: Path) -> None:
    """`unstick.sh` folds it, tells what went, and ends with a session below its threshold."""
    done = run("./unstick.sh", f"sessions/{name}", cwd=folder)
    assert 0 == done.code, done.out + done.err
    assert "folded" in done.out
    assert "below the threshold" in done.out


def test_unstick_tells_why_nothing_went(folder: Path) -> None:
    """Where all that is left belongs to the tail, it ends with that reason and exit code 1."""
    done = run("./unstick.sh", "sessions/v4-overflow.jsonl", cwd=folder)
    assert 1 == done.code
    assert "Nothing was done.\neverything behind the head" in done.out


def test_unstick_touches_no_damaged_log(folder: Path) -> None:
    """What is damaged is mended first."""
    log = folder / "sessions" / "v4-stuck.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:9], *lines[10:]]))
    before = log.read_bytes()
    assert 1 == run("./unstick.sh", "sessions/v4-stuck.jsonl", cwd=folder).code
    assert before == log.read_bytes()


def test_rehearse_tells_the_good_from_the_bad(folder: Path) -> None:
    """`rehearse.sh` passes an honest backend on every session, and no liar."""
    logs = ["sessions/v4-stuck.jsonl", "sessions/v4-overflow.jsonl"]
    done = run("./rehearse.sh", "./own_backend.py:Minutes", *logs, cwd=folder)
    assert (0, "".join(f"ok      {log}\n" for log in logs)) == (done.code, done.out)
    done = run("./rehearse.sh", "lying", *logs, cwd=folder)
    assert 1 == done.code
    assert 2 == done.out.count("failed  sessions/")


def steps() -> list[JSON]:
    """The workflow's steps, by a real parser of its language."""
    workflow = yaml.safe_load((EXAMPLES / "ci.yml").read_text("utf-8"))
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_workflow_has_what_github_asks_of_one() -> None:
    """Each step of `ci.yml` either runs something or uses an action of a stated version."""
    workflow = yaml.safe_load((EXAMPLES / "ci.yml").read_text("utf-8"))
    assert {"name", "env", "jobs", True} == set(workflow)  # `on` is a boolean to YAML 1.1
    for step in steps():
        assert ("run" in step) != ("uses" in step)
        assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])


def test_the_workflows_commands_pass(folder: Path) -> None:
    """Every command of `ci.yml` but the installation, in a shell as GitHub starts it."""
    commands = [step["run"] for step in steps() if "run" in step]
    assert 'pip install "$DSHC"' == commands[0]
    for command in commands[1:]:
        done = run("bash", "-eo", "pipefail", "-c", command, cwd=folder)
        assert 0 == done.code, f"{command}\n{done.out}{done.err}"
    for name in ("rehearsal.xml", "conformance.xml"):
        assert (folder / name).read_text().startswith("<?xml")


# The README's own snippets ------------------------------------------------------------------------


def snippet(language: str, words: str) -> str:
    """The README's one block in that language in which the words stand."""
    blocks = readme.blocks(readme.README.read_text("utf-8"), language)
    (found,) = (block for _, block in blocks if words in block)
    return found


def test_the_readmes_agent_talks(folder: Path) -> None:
    """The snippet as it stands, against a model."""
    (folder / "snippet.py").write_text(snippet("python", "open_conversation("))
    with Endpoint(Model()) as server:
        env = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "any"}
        done = run(sys.executable, "snippet.py", cwd=folder, env=env)
    assert Ran(code=0, out="Read and done.\n", err="") == done
    assert 0 == dshc("verify", "--strict", "talk.jsonl", cwd=folder).code


def test_the_readmes_two_paths_run(folder: Path) -> None:
    """The snippet as it stands, on a stuck session: what it prints is what its comments say."""
    script = snippet("python", "before_step(")
    (folder / "snippet.py").write_text(script)
    (folder / "sessions" / "v4-stuck.jsonl").rename(folder / "v4-stuck.jsonl")
    done = run(sys.executable, "snippet.py", cwd=folder)
    assert (0, "") == (done.code, done.err)
    assert re.findall(r"print\(.*  # (.*)", script) == done.out.splitlines()
    assert done.out.endswith("True 1\n")


def test_the_readmes_agent_runs_into_the_wall(folder: Path) -> None:
    """The commands as they stand, but for the port: it passes the wall, and its log tells how."""
    script = snippet("sh", "examples/agent.py")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        script = script.replace("8765", str(free.getsockname()[1]))
    (folder / "examples").mkdir()
    (folder / "agent.py").rename(folder / "examples" / "agent.py")
    done = run("bash", "-m", "-c", script, cwd=folder)
    assert 3 == done.out.count("is within the wall of 1500")
    assert "(refused, shortened, sent again)" in done.err
    assert re.search(r"summary +\d+ +[\d,]+ → [\d,]+", done.out)


def test_the_readmes_rehearsal_runs(folder: Path) -> None:
    """The commands as they stand, on a folder of sessions."""
    examples = folder / "examples"
    examples.mkdir()
    for name in ("rehearse.sh", "own_backend.py"):
        (folder / name).rename(examples / name)
    done = run("bash", "-c", snippet("sh", "examples/rehearse.sh"), cwd=folder)
    assert (0, 3) == (done.code, done.out.count("ok      sessions/"))
