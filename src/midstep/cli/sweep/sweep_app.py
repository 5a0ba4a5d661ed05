"""`midstep sweep`: the group of commands for sweeps that were begun with `midstep train -m`."""

from __future__ import annotations

import typer

from midstep.cli.sweep.run_sweep import list_all, run, status, stop

app = typer.Typer(
    help=(
        "List, continue and stop sweeps. [bold]midstep train -m[/bold] begins one, or continues "
        "the one with the same axes."
    ),
    epilog=(
        "Examples: [bold]midstep sweep ls[/bold] · [bold]midstep sweep status exp_…[/bold] · "
        "[bold]midstep sweep run exp_… --jobs 2 --retry-failed[/bold]"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)

app.command("ls", epilog="Example: midstep sweep ls")(list_all)
app.command("status", epilog="Example: midstep sweep status tokenizers --json")(status)
app.command("run", epilog="Example: midstep sweep run tokenizers --jobs 2 --retry-failed")(run)
app.command("stop", epilog="Example: midstep sweep stop tokenizers 7")(stop)
