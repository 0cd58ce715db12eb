"""Options of the commands that put up a wall, spelt and explained once."""

from typing import Annotated, TypeAlias

import typer

from dsh_compact.wall import WORDINGS

ErrorLike: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"Refuse as one of these does: {', '.join(WORDINGS)}."),
]

Silent: TypeAlias = Annotated[
    bool,
    typer.Option("--silent", help="Answer always, and drop without a word what doesn't fit."),
]
