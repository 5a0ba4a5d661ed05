"""`midstep runs`: the group of commands for stored runs and for many runs."""

from __future__ import annotations

import typer

from midstep.cli.runs.draw_figures import figures
from midstep.cli.runs.export_run import export
from midstep.cli.runs.list_runs import list_runs, show
from midstep.cli.runs.list_stops import stops
from midstep.cli.runs.print_console import console
from midstep.cli.runs.remove_runs import remove
from midstep.cli.runs.show_media import media
from midstep.cli.runs.start_runs import list_recipes, start, terminate
from midstep.cli.runs.tail_run import tail

app = typer.Typer(
    help=(
        "List, start, end, read and delete runs, live or finished. No server is needed. "
        "[bold]midstep ctl[/bold] controls one live run."
    ),
    epilog=(
        "Examples: [bold]midstep runs ls --live[/bold] · [bold]midstep runs show k3v9…[/bold] · "
        "[bold]midstep runs start demo --set steps=500[/bold] · "
        "[bold]midstep runs export k3v9… --out run.csv[/bold]"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)

app.command("ls", epilog="Example: midstep runs ls lr --where config.lr=0.1 --sort -val_loss")(
    list_runs
)
app.command("show", epilog="Example: midstep runs show k3v9")(show)
app.command(
    "start",
    epilog="Example: midstep runs start demo --set condition=rescue --set steps=500 --paused",
)(start)
app.command("recipes", epilog="Example: midstep runs recipes")(list_recipes)
app.command("terminate", epilog="Example: midstep runs terminate k3v9 --kill")(terminate)
app.command("rm", epilog="Example: midstep runs rm k3v9 run_b --dry-run")(remove)
app.command(
    "tail", epilog="Example: midstep runs tail k3v9 --lines 50 --names loss,val_loss --no-follow"
)(tail)
app.command("stops", epilog="Example: midstep runs stops k3v9")(stops)
app.command("console", epilog="Example: midstep runs console k3v9 --lines 200")(console)
app.command("export", epilog="Example: midstep runs export k3v9 --names loss,lr --out run.csv")(
    export
)
app.command("media", epilog="Example: midstep runs media k3v9 --key samples --out samples.png")(
    media
)
app.command("figures", epilog="Example: midstep runs figures k3v9 --families losses,recon")(figures)
