"""`midstep`: the command line app, and how it prints errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from midstep.cli import demo, influence, run_script, serve
from midstep.cli.ctl import ctl_app
from midstep.cli.data import data_app
from midstep.cli.output.terminal_escape import escape_log_messages, visible
from midstep.cli.runs import runs_app
from midstep.cli.sweep import sweep_app
from midstep.cli.train import train_command
from midstep.core.errors import DatasetError, MidstepError, UnclearRunError
from midstep.core.version import __version__

EXPECTED_FAILURE = 2
"""Exit code of an error that midstep reports in one line, like a usage error of typer."""

app = typer.Typer(
    name="midstep",
    help=(
        "A debugger for PyTorch training: pause between two steps, look inside, step forward or "
        "back.\n\nStart with [bold]midstep demo[/bold], then try [bold]midstep ctl pause[/bold] "
        "in a second terminal."
    ),
    epilog=(
        "Examples: [bold]midstep run train.py[/bold] · [bold]midstep ctl step 5[/bold] · "
        "[bold]midstep ctl break add 'loss > 0.05'[/bold] · [bold]midstep runs ls[/bold]"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# The modules of the commands import torch, numpy and the server inside their functions, so that
# `midstep --help` and `midstep ctl` start fast.
app.command("demo")(demo.demo)
app.command("run", context_settings=run_script.CONTEXT)(run_script.run)
app.command("serve")(serve.serve)
app.command("train")(train_command.train)
app.command("resume")(train_command.resume)
app.add_typer(ctl_app.app, name="ctl")
app.add_typer(data_app.app, name="data")
app.add_typer(influence.app, name="influence")
app.add_typer(runs_app.app, name="runs")
app.add_typer(sweep_app.app, name="sweep")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"midstep {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options of `midstep` itself; the help text is in `app`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. An expected error is one line and code 2."""
    escape_log_messages()
    try:
        app(args=arguments, prog_name="midstep")
    except SystemExit as end:  # typer always exits, also after a usage error
        return end.code if isinstance(end.code, int) else 0
    except MidstepError as error:
        typer.echo(visible(f"midstep: {_message(error)}"), err=True)
        return EXPECTED_FAILURE
    return 0


def _message(error: MidstepError) -> str:
    if isinstance(error, UnclearRunError):
        return "\n  ".join([error.message, *error.choices])
    # A dataset error keeps its line breaks: it may list many problems.
    return str(error) if isinstance(error, DatasetError) else " ".join(str(error).split())
