"""Configuration: who overrules whom, which file is read, and errors that name key and place."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from builders import Conversation
from hypothesis import given
from hypothesis import strategies as st
from running import dshc

from dsh_compact.config import (
    KEYS,
    MOST_BYTES,
    ConfigWrong,
    Resolved,
    is_trusted,
    load,
    resolve,
    unknown_variables,
)
from dsh_compact.policy import DEFAULT

PROVIDER, MODEL = "deepseek-official", "deepseek-v4-flash"


class Place:
    """A working folder and the folder of a log, each with whatever files a test writes there."""

    def __init__(self, root: Path) -> None:
        self.here = root / "here"
        self.there = root / "there"
        for folder in (self.here, self.there):
            folder.mkdir()
        self.log = self.there / "session.jsonl"

    def resolve(
        self,
        flags: dict[str, object] | None = None,
        environment: dict[str, str] | None = None,
        model: str = MODEL,
    ) -> Resolved:
        """What is in force for a log of that model."""
        return resolve(
            str(self.log),
            PROVIDER,
            model,
            flags,
            environment=environment or {},
            folder=str(self.here),
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Two empty folders."""
    return Place(tmp_path)


def origin(resolved: Resolved, key: str) -> tuple[str, str]:
    """Which kind of place said the value, and the place's last part."""
    return resolved.origins[key].kind, resolved.origins[key].where.rpartition("/")[2]


# Who overrules whom -------------------------------------------------------------------------------


def test_without_a_word_the_defaults_are_in_force(place: Place) -> None:
    """Every key has its default, and says so."""
    resolved = place.resolve()
    assert DEFAULT == resolved.policy
    assert {"default"} == {resolved.origins[key].kind for key in KEYS}
    assert (None, ()) == (resolved.file, resolved.unread)


def test_each_place_overrules_the_weaker_ones(place: Place) -> None:
    """File, table of the model, environment, flag; each value says who set it."""
    (place.here / "dshc.toml").write_text(
        "window_tokens = 1\nheadroom_tokens = 1\ncompaction_retries = 1\nmax_overflow_retries = 1\n"
        f'[[models]]\nprovider = "{PROVIDER}"\nmodel = "{MODEL}"\n'
        "window_tokens = 2\nheadroom_tokens = 2\ncompaction_retries = 2\n"
    )
    environment = {"DSHC_WINDOW_TOKENS": "3", "DSHC_HEADROOM_TOKENS": "3"}
    resolved = place.resolve({"window_tokens": 4, "backend": None}, environment)
    policy = resolved.policy
    keys = ("max_overflow_retries", "compaction_retries", "headroom_tokens", "window_tokens")
    assert [1, 2, 3, 4] == [getattr(policy, key) for key in keys]
    assert [
        ("file", "dshc.toml"),
        ("file", "dshc.toml, [[models]] 1"),
        ("environment", "DSHC_HEADROOM_TOKENS"),
        ("flag", "--window"),
    ] == [origin(resolved, key) for key in keys]
    assert ("default", "") == origin(resolved, "backend")


def test_a_models_table_is_for_that_model_alone(place: Place) -> None:
    """Another model of the same provider is not touched by it."""
    (place.here / "dshc.toml").write_text(
        f'[[models]]\nprovider = "{PROVIDER}"\nmodel = "{MODEL}"\nthreshold_ratio = 0.5\n'
        '[[models]]\nprovider = "another"\nmodel = "another"\nthreshold_ratio = 0.6\n'
    )
    assert 0.5 == place.resolve().policy.threshold_ratio
    assert 0.8 == place.resolve(model="another").policy.threshold_ratio


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"DSHC_RETAIN_RATIO": "0.3"}, (0.3, None)),
        ({"DSHC_RETAIN_TOKENS": "7"}, (0.2, 7)),
        ({}, (0.2, 500)),
    ],
)
def test_a_tail_in_one_form_overrules_the_other(
    environment: dict[str, str], wanted: tuple[float, int | None], place: Place
) -> None:
    """A ratio that is said later takes the place of tokens that were said before."""
    (place.here / "dshc.toml").write_text(
        "retain_ratio = 0.2\n"
        f'[[models]]\nprovider = "{PROVIDER}"\nmodel = "{MODEL}"\nretain_tokens = 500\n'
    )
    policy = place.resolve(environment=environment).policy
    assert wanted == (policy.retain_ratio, policy.retain_tokens)


@given(
    ratio=st.floats(0.2, 1),
    tokens=st.integers(0, 10**9),
    name=st.sampled_from(["standard", "./x.py:B"]),
)
def test_the_environment_says_what_a_file_would(ratio: float, tokens: int, name: str) -> None:
    """Numbers and texts come out of variables as they went in."""
    environment = {
        "DSHC_THRESHOLD_RATIO": repr(ratio),
        "DSHC_HEADROOM_TOKENS": str(tokens),
        "DSHC_BACKEND": name,
    }
    policy = resolve("-", environment=environment, folder="/nowhere").policy
    assert (ratio, tokens, name) == (policy.threshold_ratio, policy.headroom_tokens, policy.backend)


# Which file ---------------------------------------------------------------------------------------


def test_the_file_beside_the_log_comes_first(place: Place) -> None:
    """Then the one in the working folder, then the project's; the others are named as unread."""
    (place.there / "dshc.toml").write_text("headroom_tokens = 1")
    (place.here / "dshc.toml").write_text("headroom_tokens = 2")
    (place.here / "pyproject.toml").write_text("[tool.dshc]\nheadroom_tokens = 3")
    for tokens, unread in ((1, 2), (2, 1), (3, 0)):
        resolved = place.resolve()
        assert (tokens, unread) == (resolved.policy.headroom_tokens, len(resolved.unread))
        assert resolved.file is not None
        Path(resolved.file).unlink()


def test_a_sessions_folder_is_beside_its_log(place: Place) -> None:
    """A log may be named by its folder; the file in it is the log's."""
    (place.there / "dshc.toml").write_text("headroom_tokens = 1")
    assert 1 == resolve(str(place.there), folder=str(place.here)).policy.headroom_tokens


def test_one_file_is_not_named_twice(place: Place) -> None:
    """Where the log lies in the working folder, its file is not its own rival."""
    (place.here / "dshc.toml").write_text("headroom_tokens = 1")
    resolved = resolve("session.jsonl", folder=str(place.here), environment={})
    assert (1, ()) == (resolved.policy.headroom_tokens, resolved.unread)


@pytest.mark.parametrize("content", ["", "[tool.dsh]\nx = 1", "[tool.ruff]\n# dshc", "tool = 1"])
def test_a_project_without_our_table_is_nobodys_file(content: str, place: Place) -> None:
    """Most projects say nothing to us, whatever else their file holds."""
    (place.here / "pyproject.toml").write_text(content)
    assert None is place.resolve().file


def test_standard_input_has_no_folder(place: Place) -> None:
    """The working folder's file is in force for a log that comes through a pipe."""
    (place.here / "dshc.toml").write_text("headroom_tokens = 1")
    assert 1 == resolve("-", folder=str(place.here), environment={}).policy.headroom_tokens


@pytest.mark.parametrize(("word", "wanted"), [("1", True), ("True", True), ("false", False)])
def test_a_variable_says_yes_or_no(word: str, wanted: bool) -> None:
    """A switch is a digit or a word there, in any case."""
    environment = {"DSHC_SUMMARIZER_SENDS_REASONING": word}
    policy = resolve("-", environment=environment, folder="/nowhere").policy
    assert wanted is policy.summarizer_sends_reasoning


# Errors -------------------------------------------------------------------------------------------

TABLE = f'[[models]]\nprovider = "{PROVIDER}"\nmodel = "{MODEL}"\n'


@pytest.mark.parametrize(
    ("content", "key", "words"),
    [
        ("threshold = 1", "threshold", "no such key; did you mean threshold_ratio?"),
        ("xyzzy = 1", "xyzzy", 'no such key; see "dshc config"'),
        ("model = 'x'", "model", "no such key"),
        ("threshold_ratio = '0.8'", "threshold_ratio", "'0.8' is no number"),
        ("threshold_ratio = nan", "threshold_ratio", "nan is not between 0 and 1"),
        ("threshold_ratio = true", "threshold_ratio", "True is no number"),
        ("retain_tokens = 1.5", "retain_tokens", "1.5 is no whole number"),
        ("retain_tokens = 99999999999999999999", "retain_tokens", "is not between 0 and"),
        ("backend = 3", "backend", "3 is no text"),
        ("backend = ''", "backend", "is empty"),
        ("retain_ratio = 0.9", "retain_ratio", "0.9 is not below threshold_ratio 0.8"),
        ("threshold_ratio = 0.1", "retain_ratio", "0.16 is not below threshold_ratio 0.1"),
        ("retain_tokens = 800\nwindow_tokens = 1000", "retain_tokens", "not below the threshold"),
        ("retain_tokens = 1\nretain_ratio = 0.1", "retain_tokens", "retain_ratio is set there too"),
        ("summarizer_window_tokens = 0", "summarizer_window_tokens", "holds no request"),
        ("summarizer_timeout_seconds = 0", "summarizer_timeout_seconds", "0 is not above 0"),
        ("summarizer_timeout_seconds = inf", "summarizer_timeout_seconds", "at most 86400"),
        ("summarizer_timeout_seconds = '5 s'", "summarizer_timeout_seconds", "'5 s' is no number"),
        ("summarizer_sends_reasoning = 1", "summarizer_sends_reasoning", "1 is neither true nor"),
        ("prune_head_characters = 9999", "prune_threshold_characters", "leaves no room"),
        ("models = 3", "models", "is no list of tables"),
        ("models = [3]", "models", "is no list of tables"),
        ("[[models]]\nmodel = 'x'", "provider", "names a provider and a model"),
        ("[[models]]\nprovider = 'x'\nmodel = ''", "model", "names a provider and a model"),
        (TABLE + TABLE, "models", "deepseek-official/deepseek-v4-flash stands there twice"),
        (TABLE + "window = 3", "window", "no such key; did you mean window_tokens?"),
        (TABLE + "retain_ratio = 0.9", "retain_ratio", "0.9 is not below"),
        (TABLE + "retain_tokens = 1\nretain_ratio = 0.1", "retain_tokens", "set there too"),
        ("retain_ratio = 0.3\n" + TABLE + "threshold_ratio = 0.2", "retain_ratio", "0.3 is not"),
        ("this is not toml", "", "is no TOML"),
        ("a = " + "[" * 5000, "", "is no TOML"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("file", ["dshc.toml", "pyproject.toml"])
def test_a_wrong_value_is_named_with_its_file(
    file: str, content: str, key: str, words: str, place: Place
) -> None:
    """Whatever model is asked for: a wrong value anywhere in the file is an error of usage."""
    if file == "pyproject.toml":
        content = "[tool.dshc]\n" + content.replace("[[models]]", "[[tool.dshc.models]]")
    (place.here / file).write_text(content)
    with pytest.raises(ConfigWrong) as caught:
        place.resolve(model="another")
    assert (key, 2) == (caught.value.key, caught.value.exit_code)
    assert str(place.here / file) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"DSHC_THRESHOLD_RATIO": "much"}, "DSHC_THRESHOLD_RATIO: threshold_ratio: 'much' is no"),
        ({"DSHC_THRESHOLD_RATIO": "nan"}, "DSHC_THRESHOLD_RATIO: threshold_ratio: nan is not"),
        ({"DSHC_RETAIN_TOKENS": "1.5"}, "DSHC_RETAIN_TOKENS: retain_tokens: 1.5 is no whole"),
        ({"DSHC_BACKEND": ""}, "DSHC_BACKEND: backend: is empty"),
        (
            {"DSHC_RETAIN_TOKENS": "1", "DSHC_RETAIN_RATIO": "0.1"},
            "DSHC_RETAIN_TOKENS: retain_tokens: DSHC_RETAIN_RATIO is set too",
        ),
        ({"DSHC_RETAIN_RATIO": "0.9"}, "DSHC_RETAIN_RATIO: retain_ratio: 0.9 is not below"),
        ({"DSHC_SUMMARIZER_SENDS_REASONING": "maybe"}, "'maybe' is neither true nor false"),
        ({"DSHC_SUMMARIZER_TIMEOUT_SECONDS": "true"}, "'true' is no number"),
    ],
)
def test_a_wrong_variable_is_named(environment: dict[str, str], words: str, place: Place) -> None:
    """The variable stands where otherwise the file stands."""
    with pytest.raises(ConfigWrong, match=words.replace("(", r"\(")):
        place.resolve(environment=environment)


def test_a_wrong_flag_is_named(place: Place) -> None:
    """A flag that does not fit what the file says is told by its own name."""
    (place.here / "dshc.toml").write_text("window_tokens = 1000")
    with pytest.raises(ConfigWrong, match="--retain-tokens: retain_tokens: 900 is not below"):
        place.resolve({"retain_tokens": 900})


def test_a_tail_is_checked_once_the_window_is_known(place: Place) -> None:
    """Where only the log knows the window, the check comes with it, and names the file."""
    (place.here / "dshc.toml").write_text("retain_tokens = 6400")
    resolved = place.resolve()
    resolved.check_window(8002)
    with pytest.raises(ConfigWrong, match=r"dshc\.toml: retain_tokens: 6400 is not below"):
        resolved.check_window(8001)


def test_what_is_no_file_is_refused(place: Place) -> None:
    """A pipe in the file's place is not waited for, a huge file is not read."""
    os.mkfifo(place.here / "dshc.toml")
    with pytest.raises(ConfigWrong, match="is no regular file"):
        place.resolve()
    (place.here / "dshc.toml").unlink()
    (place.here / "dshc.toml").write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(ConfigWrong, match=f"more than {MOST_BYTES} bytes"):
        place.resolve()


def test_a_file_that_is_not_text_is_an_error(place: Place) -> None:
    """Bytes that are no UTF-8 end in a sentence, not in a traceback."""
    (place.here / "dshc.toml").write_bytes(b"backend = '\xff'")
    with pytest.raises(ConfigWrong, match="is no TOML"):
        place.resolve()


@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_no_content_ends_in_a_traceback(content: bytes) -> None:
    """Whatever stands in the file: values, or an error of usage."""
    with TemporaryDirectory() as folder:
        Path(folder, "dshc.toml").write_bytes(content)
        with suppress(ConfigWrong):
            assert () == load("-", environment={}, folder=folder).flags


# Trust --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "variable", "trusted"),
    [(False, None, False), (True, None, True), (False, "1", True), (False, "0", False)],
)
def test_trust_is_said_by_flag_or_variable(flag: bool, variable: str | None, trusted: bool) -> None:
    """`--trust` or `DSHC_TRUST=1`."""
    environment = {} if variable is None else {"DSHC_TRUST": variable}
    assert trusted == is_trusted(flag, environment)


def test_a_slip_of_the_pen_is_told(place: Place) -> None:
    """A variable that sets nothing but looks like ours; others are nobody's business."""
    found = unknown_variables(
        {"DSHC_TRUST": "1", "DSHC_RETAIN_TOKEN": "3", "DSHC_HARNESS": "1", "DSHC_BACKEND": "x"}
    )
    assert ["DSHC_RETAIN_TOKEN sets nothing; did you mean DSHC_RETAIN_TOKENS?"] == found


# The command --------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of the model, with a window of 8,000 tokens."""
    story = Conversation(window=8_000).user("hello").assistant("hello").end()
    return story.write(tmp_path / "session.jsonl")


def test_the_command_tells_every_value_and_its_place(log: Path) -> None:
    """What is in force for the log's model, and what it comes to in tokens."""
    log.with_name("dshc.toml").write_text(TABLE + "retain_tokens = 1000\n")
    ran = dshc("config", log, "--json", env={"DSHC_HEADROOM_TOKENS": "2000"})
    found: dict[str, Any] = ran.json
    assert (0, "config", str(log)) == (ran.code, found["command"], found["log"])
    assert [*KEYS] == [*found["values"]]
    where = f"{log.with_name('dshc.toml')}, [[models]] 1"
    assert {"value": 1000, "source": "file", "where": where} == found["values"]["retain_tokens"]
    assert "environment" == found["values"]["headroom_tokens"]["source"]
    wanted = (8000, 6000, 1000)
    assert wanted == tuple(found[k] for k in ("window_tokens", "threshold_tokens", "retain_tokens"))
    text = dshc("config", log, env={"DSHC_HEADROOM_TOKENS": "2000"}).out
    assert "Window 8,000 tokens: threshold 6,000, kept tail 1,000." in text
    assert "overruled by retain_tokens" in text


def test_the_command_needs_no_log(tmp_path: Path) -> None:
    """Without one it tells what is in force for any."""
    (tmp_path / "dshc.toml").write_text("window_tokens = 1000")
    found = dshc("config", "--json", cwd=tmp_path).json
    assert (None, 1000, 800) == (found["log"], found["window_tokens"], found["threshold_tokens"])
    assert "The window is not known" in dshc("config").out


@pytest.mark.parametrize("words", [(), ("config",), ("measure",), ("compact",)])
def test_a_wrong_file_stops_every_command_that_needs_it(words: tuple[str, ...], log: Path) -> None:
    """Exit code 2 and the key; a command that needs no policy does not look."""
    log.with_name("dshc.toml").write_text("threshold_ration = 1")
    ran = dshc(*words, log) if words else dshc("show", log)
    assert (2 if words else 0) == ran.code
    assert ("threshold_ration" in ran.err) == bool(words)


def test_a_hostile_name_reaches_no_terminal(tmp_path: Path) -> None:
    """What a file or a log holds is shown as text, never obeyed."""
    (tmp_path / "dshc.toml").write_text('backend = "\\u001b[31mred"')
    assert "\x1b" not in dshc("config", cwd=tmp_path).out
    (tmp_path / "dshc.toml").write_text('"\\u001b[31mred" = 1')
    assert "\x1b" not in dshc("config", cwd=tmp_path).err
