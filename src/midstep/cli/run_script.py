"""`midstep run`: a training script, without an edit, with a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from midstep.cli.serve import Port
from midstep.core.errors import ConfigError, StorageError

CONTEXT = {"allow_interspersed_args": False}
"""Options end at the script: everything after it is the script's, `-h` included."""


def run(
    target: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="The script, or with -m the module.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Arguments of the script, passed on as they are."),
    ] = None,
    is_module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is the name of a module, as in python -m.")
    ] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Pause before the first step.")] = False,
    breakpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--break", metavar="EXPR", help="Pause when this holds, as 'loss > 2'; repeatable."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the run; that of the script if left out.")
    ] = None,
    save_dir: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("outputs/runs"),
    port: Port = None,
    no_page: Annotated[bool, typer.Option("--no-page", help="Record the run only.")] = False,
    park: Annotated[
        bool, typer.Option("--park", help="If the script raises, park the run to inspect it.")
    ] = False,
    no_console: Annotated[
        bool, typer.Option("--no-console", help="Do not keep what the script prints.")
    ] = False,
    no_evidence: Annotated[
        bool, typer.Option("--no-evidence", help="Keep no samples of stops and of the end.")
    ] = False,
) -> None:
    """Run a training script as it is, and show it on a page.

    Optimizers, models, batches, losses, learning rates, settings and logged scalars are found
    while the script runs. Options of midstep stand before SCRIPT. Batches, losses and weights are
    those of [bold]python SCRIPT ARGS[/bold], bit for bit.

    Examples: [bold]midstep run train.py --lr 0.1[/bold] ·
    [bold]midstep run --paused --break 'loss > 2' train.py[/bold] ·
    [bold]midstep run -m package.train epochs=3[/bold]
    """
    from midstep.live.script.program.script_command import ScriptCommand

    if not is_module and not Path(target).exists():
        raise ConfigError(
            f"there is no script {target}; write midstep run [OPTIONS] SCRIPT [ARGS…], or -m MODULE"
        )
    _check_breakpoints(breakpoints or [])
    _check_folder(save_dir.absolute())
    if port and not no_page:
        _check_port(port)
    ScriptCommand(
        target=target,
        arguments=tuple(arguments or ()),
        is_module=is_module,
        run_name=name,
        save_dir=str(save_dir.absolute()),
        port=port,
        has_page=not no_page,
        starts_paused=paused,
        parks=park,
        keeps_console=not no_console,
        keeps_evidence=not no_evidence,
        breakpoints=tuple(breakpoints or ()),
    ).start()


def _check_breakpoints(expressions: list[str]) -> None:
    """Refuse a wrong expression now, not at the first step."""
    from midstep.control import DebugController

    controller = DebugController()
    for expression in expressions:
        controller.add_breakpoint("expression", expression=expression)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written; it is made at the first step."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise StorageError(f"no run can be saved in {folder}: {existing} cannot be written")


def _check_port(port: int) -> None:
    """Refuse a port that another program listens on, as `midstep serve` does."""
    from midstep.server.transport.ports import bind

    bind("127.0.0.1", port).close()
