"""Summaries, and how a summarizer is found by its name; `protocol` says what it is asked.

Rule: a summarizer reads a span and returns text; it never touches a log, and nobody believes that
it helped because it says so (the workbench prices its text against what it is to replace). Only
the one of `extract` works offline and is always there; those of `models` and `command` are imported
when they are asked for, and their keys appear in no error, no log and no representation. `facts`
counts what a summary still tells.
"""

import os
from collections.abc import Mapping
from typing import Final

from dsh_compact.summarizers.errors import (
    SummarizerFailed,
    SummarizerNotReady,
    UnknownSummarizer,
)
from dsh_compact.summarizers.protocol import (
    Options,
    Progress,
    Request,
    Secret,
    Summarizer,
    Summary,
)

__all__ = [
    "NAMES",
    "Options",
    "Progress",
    "Request",
    "Secret",
    "Summarizer",
    "SummarizerFailed",
    "SummarizerNotReady",
    "Summary",
    "UnknownSummarizer",
    "load",
]

NAMES: Final = ("extractive", "openai", "anthropic", "command")
"""Every name that `load` knows; the first works on any machine, without a network."""


def load(
    name: str, options: Options | None = None, environment: Mapping[str, str] | None = None
) -> Summarizer:
    """The summarizer called `name`, one of `NAMES`, set up with `options`.

    `environment` stands in for the process's own. Raises `UnknownSummarizer`, and
    `SummarizerNotReady` where a key, a program or a package is missing.
    """
    options = options or Options()
    environment = os.environ if environment is None else environment
    match name:
        case "extractive":
            from dsh_compact.summarizers.extract import Extractive

            return Extractive()
        case "openai" | "anthropic":
            from dsh_compact.summarizers import models

            return models.load(name, options, environment)
        case "command":
            from dsh_compact.summarizers import command

            return command.load(options)
        case _:
            raise UnknownSummarizer(name, NAMES)
