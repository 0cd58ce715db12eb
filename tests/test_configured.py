"""Configured backends: what is in force is made ready, and a file names foreign code in vain."""

from pathlib import Path
from typing import Any

import pytest

from dsh_compact.backends import configured
from dsh_compact.backends.standard import Standard
from dsh_compact.config import Resolved, resolve
from dsh_compact.errors import UsageError
from dsh_compact.summarizers import SummarizerNotReady
from dsh_compact.trial import AtMost


def resolved(folder: Path, settings: str = "", **flags: Any) -> Resolved:
    """What is in force with those settings in a file, and those flags."""
    (folder / "dshc.toml").write_text(settings)
    return resolve("-", flags=flags, environment={}, folder=str(folder))


def test_without_a_word_it_is_the_standard_backend_offline(tmp_path: Path) -> None:
    """Nothing that runs or is shown anything needs trust, so none is asked for."""
    backend = configured.load(resolved(tmp_path), is_trusted=False)
    assert isinstance(backend, Standard)
    assert "extractive" == configured.summarizer(resolved(tmp_path), is_trusted=False).name


def test_a_summarizer_may_be_handed_in(tmp_path: Path) -> None:
    """Then the configured one is not even made ready, whatever it would need."""
    found = resolved(tmp_path, 'summarizer = "openai"')
    backend = configured.load(found, is_trusted=False, make_summarizer=AtMost)
    assert "standard" == backend.name


@pytest.mark.parametrize("name", ["lying", "drop-oldest", "prune-only"])
def test_what_ships_needs_no_trust(name: str, tmp_path: Path) -> None:
    """A file may name any backend of the package."""
    found = configured.load(resolved(tmp_path, f'backend = "{name}"'), is_trusted=False)
    assert name == found.name


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ('backend = "json:loads"', "backend"),
        ('backend = "nobody-ships-it"', "backend"),
        ('summarizer = "anthropic"', "summarizer"),
        ('summarizer_base_url = "http://127.0.0.1:1"', "summarizer_base_url"),
        ('summarizer_command = "true"', "summarizer_command"),
    ],
)
def test_a_file_needs_trust_for_what_runs_or_is_shown_the_conversation(
    settings: str, key: str, tmp_path: Path
) -> None:
    """The error names the file and the key, also where only a part of it came from a file."""
    flags = {} if key in ("backend", "summarizer") else {"summarizer": "openai"}
    with pytest.raises(UsageError, match=f"dshc.toml: {key}: .* --trust"):
        configured.load(resolved(tmp_path, settings, **flags), is_trusted=False)


def test_what_is_typed_is_meant(tmp_path: Path) -> None:
    """A flag needs no trust: the error is then the summarizer's own, or there is none."""
    command = configured.summarizer(
        resolved(tmp_path, summarizer="command", summarizer_command="cat"), is_trusted=False
    )
    assert "command" == command.name
    with pytest.raises(SummarizerNotReady):
        configured.summarizer(resolved(tmp_path, summarizer="command"), is_trusted=False)


def test_an_unused_setting_needs_no_trust(tmp_path: Path) -> None:
    """Where the offline summarizer is in force, nobody is shown anything, whatever a file says."""
    found = resolved(tmp_path, 'summarizer_base_url = "http://127.0.0.1:1"')
    assert "extractive" == configured.summarizer(found, is_trusted=False).name
