"""`midstep serve`: one page over all runs of an outputs folder."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midstep.cli.output.screen import Screen

if TYPE_CHECKING:
    from midstep.server.root_server import RootServer


Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help="Port of the page; the last one used if left out, 0 for any."
    ),
]


def serve(
    outputs: Annotated[
        Path, typer.Argument(metavar="OUTPUTS", help="The folder that holds your runs.")
    ] = Path("outputs"),
    port: Port = None,
    host: Annotated[
        str, typer.Option(help="Address to bind; one that other machines reach needs --allow-host.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT", help="Host and port in the address of the page; may be repeated."
        ),
    ] = None,
    uds: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Serve on a Unix socket instead of a port, for shared hosts."
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show everything, change nothing.")
    ] = False,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Replace the tokens; old links stop working.")
    ] = False,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="A folder with embedding datasets; may be repeated."),
    ] = None,
    allow_script: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMAND",
            help="A script with its arguments that the page may start, as 'train.py --epochs 3'; "
            "may be repeated.",
        ),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-browser", help="Open the page in your browser.")
    ] = False,
) -> None:
    """Show all runs of a folder on one page. Live runs can be controlled.

    Live runs continue when this server ends, and appear again when it starts. Ctrl-C ends it.

    Examples: [bold]midstep serve outputs[/bold] · [bold]midstep serve outputs --read-only[/bold] ·
    [bold]midstep serve outputs --data data --open[/bold] ·
    [bold]midstep serve outputs --allow-script "train.py --epochs 3"[/bold] ·
    [bold]midstep serve outputs --uds ~/midstep.sock[/bold]
    """
    from midstep.server.root_server import RootServer, RootServerConfig
    from midstep.session.signals import GracefulStop

    config = RootServerConfig(
        outputs=outputs,
        port=port,
        host=host,
        allowed_hosts=tuple(allow_host or ()),
        uds=None if uds is None else uds.expanduser(),
        read_only=read_only,
        new_token=new_token,
        data=tuple(data or ()),
        scripts=tuple(allow_script or ()),
    )
    leaving = threading.Event()
    with GracefulStop(lambda _cause: leaving.set()), RootServer(config) as server:
        _print_addresses(server, Screen())
        if open_page and uds is None:
            typer.launch(server.url)
        leaving.wait()


def _print_addresses(server: RootServer, screen: Screen) -> None:
    """Print where the page is and how to reach it."""
    config = server.config
    screen.print_line(f"runs  {config.outputs}")
    if config.uds is not None:
        # A browser cannot open a Unix socket; SSH forwards a local port to it.
        screen.print_line(f"page  ssh -L 8765:{config.uds.absolute()} HOST, then")
        screen.print_line(f"      http://127.0.0.1:8765/#{server.url.partition('#')[2]}")
    else:
        screen.print_line(f"page  {server.url}")
    for script in server.scripts.values():
        screen.print_line(f"start {script.title}", style="dim")
    if not config.read_only and config.uds is None:
        screen.print_line(f"look  {server.viewer_url}", style="dim")
    screen.print_line("Ctrl-C ends the server; live runs continue", style="dim")
