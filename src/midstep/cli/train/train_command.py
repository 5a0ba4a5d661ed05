"""`midstep train`: compose the settings of a run, and train it here; `midstep resume`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from midstep.cli.output.screen import Screen
from midstep.cli.output.text_format import format_number
from midstep.cli.runs.list_runs import DEFAULT_SAVE_DIR, RunName, SaveDir, find_run
from midstep.cli.sweep.run_sweep import AcceptCode, Detach, Jobs, RetryFailed, Threads, run_multirun
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.loops.composed.loop_training import RunLocation
    from midstep.loops.config.composed_config import ComposedConfig

ConfigDir = Annotated[
    Path | None, typer.Option("--config-dir", help="A folder with further options of the groups.")
]


def train(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP=OPTION|KEY=VALUE]...", help="What to change."),
    ] = None,
    multirun: Annotated[
        bool, typer.Option("--multirun", "-m", help="One run for each combination of values.")
    ] = False,
    cfg: Annotated[
        Literal["job"] | None, typer.Option("--cfg", help="job: print the settings, train nothing.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With -m: list the runs, train nothing.")
    ] = False,
    config_dir: ConfigDir = None,
    save_dir: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("outputs/runs"),
    paused: Annotated[bool, typer.Option("--paused", help="Pause before the first step.")] = False,
    jobs: Jobs = 2,
    retry_failed: RetryFailed = False,
    accept_code: AcceptCode = False,
    detach: Detach = False,
    is_new: Annotated[
        bool, typer.Option("--new", help="With -m: begin a new sweep, do not continue one.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Train a loop with settings that Hydra composes.

    Other terminals control the run with [bold]midstep ctl[/bold]; [bold]midstep serve[/bold] shows
    its page. Ctrl-C stops it with a checkpoint; [bold]midstep resume[/bold] continues it.

    Examples: [bold]midstep train loop=mlp[/bold] · [bold]midstep train loop=ae
    phase1/latent_space=vq trainer.epochs=5[/bold] · [bold]midstep train loop=ae --cfg job[/bold]
    """
    from midstep.loops import compose

    if multirun:
        from midstep.server.sweeps.sweep_pool import PoolOptions

        options = PoolOptions(
            jobs=jobs,
            retry_failed=retry_failed,
            accept_code=accept_code,
            detach=detach,
            threads=threads,
        )
        run_multirun(
            overrides or [],
            options,
            config_dir=config_dir,
            root=save_dir.parent / "multiruns",
            is_new=is_new,
            dry_run=dry_run,
        )
        return
    if dry_run:
        raise ConfigError("--dry-run lists the runs of a sweep; add -m, or use --cfg job")
    composed = compose(overrides or [], config_dir)
    if cfg is not None:
        typer.echo(composed.hydra_texts["config.yaml"], nl=False)
        return
    from midstep.loops.composed.loop_training import RunLocation

    _train(composed, RunLocation.from_settings(composed, save_dir=save_dir), paused=paused)


def resume(
    run: RunName,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
    paused: Annotated[bool, typer.Option("--paused", help="Pause before the first step.")] = False,
) -> None:
    """Continue a run of [bold]midstep train[/bold] from its newest checkpoint.

    Settings come from its folder [bold].hydra[/bold]. The result is the same as without the
    interruption, bit for bit.

    Example: [bold]midstep resume run_20260101T120000Z_ae[/bold]
    """
    from midstep.facts.liveness.run_liveness import end_state
    from midstep.loops.composed.loop_training import RunLocation
    from midstep.loops.config.recorded_config import read_recorded

    directory = find_run(run, save_dir).absolute()
    composed = read_recorded(directory)
    state = end_state(directory).state
    if state == "finished":
        raise ConfigError(f"{directory.name} is finished; start another run with midstep train")
    name = composed.folders.job.name or composed.config.loop.name
    location = RunLocation(
        name=name, save_dir=directory.parent, run_name=directory.name, resume="auto"
    )
    _train(composed, location, paused=paused)


def _train(composed: ComposedConfig, location: RunLocation, *, paused: bool = False) -> None:
    """Train in this process, with the run's socket open for other terminals."""
    from midstep.cli.train.epoch_lines import EpochLines, shown_progress
    from midstep.live.run_socket import serve_on_socket
    from midstep.loops.composed.loop_training import LoopTraining

    screen = Screen()
    training = LoopTraining(composed)
    run = training.open(location)
    counts_epochs = training.parts.total_steps is None
    lines = EpochLines(screen, training.trainer.epochs if counts_epochs else None)
    training.on_epoch(lines.epoch_ended)
    screen.print_line(f"run   {run.dir}")
    if paused:
        run.controller.pause()
    try:
        with run, serve_on_socket(run), shown_progress(run.controller, screen, lines):
            result = training.run_to_end(run)
    except KeyboardInterrupt:
        screen.print_line(f"stopped after {_steps(run.step)}", style="bold")
        _print_resume(screen, run.dir)
        raise
    _print_end(screen, result)


def _print_end(screen: Screen, result: dict[str, Any]) -> None:
    words = [f"{result['status']} after {_steps(result['steps'])}"]
    words += [
        f"{label} {format_number(result[name])}"
        for label, name in (("best validation loss", "best_val_loss"), ("test loss", "test_loss"))
        if result[name] is not None
    ]
    screen.print_line(" · ".join(words), style="bold")
    if result["status"] == "stopped":
        _print_resume(screen, result["run_dir"])
    else:
        screen.print_line(f"run   {result['run_dir']}")


def _steps(count: int) -> str:
    return f"{count:,} step{'' if count == 1 else 's'}"


def _print_resume(screen: Screen, run_dir: str | Path) -> None:
    screen.print_line(f"continue with: midstep resume {shlex.quote(str(run_dir))}")
