"""Options of the commands that run a backend, spelt and explained once.

They stand apart from `options`, so that a command that only looks at a log need not know the names
of the summarizers.
"""

from typing import Annotated, TypeAlias

import typer

from dsh_compact import summarizers

Backend: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A backend's name, FILE.py:NAME or MODULE:NAME."),
]

Summarizer: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"Who summarises: {', '.join(summarizers.NAMES)}."),
]

Trust: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Run what a configuration file names, too.")
]
