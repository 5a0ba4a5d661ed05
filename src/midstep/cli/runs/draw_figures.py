"""`midstep runs figures`: draws the figures of a run from its facts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from midstep.cli.output.terminal_escape import visible
from midstep.cli.runs.list_runs import DEFAULT_SAVE_DIR, RunName, SaveDir, find_run, split_names
from midstep.core.errors import ConfigError


def figures(
    run: RunName,
    families: Annotated[
        list[str] | None,
        typer.Option(help="Only these: losses,recon; may be repeated; all if left out."),
    ] = None,
    moments: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these: on_validation_end,on_epoch_end,on_test_end,on_train_end; "
            "the epoch and the training if left out."
        ),
    ] = None,
    epoch: Annotated[
        int | None, typer.Option(min=0, help="Draw the run as it was after this epoch.")
    ] = None,
    dpi: Annotated[int, typer.Option(min=20, max=1200, help="Resolution of PNG files.")] = 120,
    form: Annotated[
        Literal["png", "svg", "pdf"], typer.Option("--format", help="File format.")
    ] = "png",
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
) -> None:
    """Draw the figures of a run from its facts, into its folder figures."""
    from midstep.monitoring import LoggingConfig, draw_run_figures

    folder = find_run(run, save_dir)
    given = {"families": split_names(families), "moments": split_names(moments)}
    wanted: dict[str, Any] = {
        key: tuple(names) for key, names in given.items() if names is not None
    }
    config = LoggingConfig(dpi=dpi, fig_format=form, **wanted)
    drawn = draw_run_figures(folder, config, epoch=epoch)
    for family, error in drawn.failures.items():
        typer.echo(visible(f"{family} failed: {error}"), err=True)
    for path in drawn.files:
        typer.echo(visible(str(path)))
    if not drawn.files:
        raise ConfigError(f"{folder.name} has no epoch to draw; see: midstep runs show {run}")
