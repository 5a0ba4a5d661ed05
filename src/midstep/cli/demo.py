"""`midstep demo`: a real training with a page, from one command."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from midstep.cli.output.screen import Screen
from midstep.cli.output.status_line import Status
from midstep.cli.output.terminal_controls import TerminalControls
from midstep.cli.output.text_format import format_duration
from midstep.cli.serve import Port
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.loops.bcl import BclResult, BclTraining
    from midstep.session import Run


COLUMNS = {
    "l1": ("L1", "{:.4f}"),
    "psnr": ("PSNR", "{:.2f}"),
    "weight_cosine": ("cosine", "{:.3f}"),
    "effective_rank": ("rank", "{:.1f}"),
    "dead": ("dead", "{:g}"),
    "winners": ("winners", "{:g}"),
    "unreachable": ("unreachable", "{:g}"),
    "gini": ("Gini", "{:.3f}"),
}
"""Heading and number format of each metric."""


def comparison(results: Sequence[BclResult]) -> list[list[str]]:
    """One line per run, and for each condition the mean over its seeds if there are several."""
    rows = [["condition", "seed", "steps", *(heading for heading, _ in COLUMNS.values())]]
    for condition in dict.fromkeys(each.condition for each in results):
        runs = [each for each in results if each.condition == condition]
        rows += [[condition, str(each.seed), f"{each.steps:,}", *_cells([each])] for each in runs]
        if len(runs) > 1:
            rows.append([condition, "mean", "", *_cells(runs)])
    return rows


def _cells(results: Sequence[BclResult]) -> list[str]:
    return [
        form.format(math.fsum(each.health.metrics[name] for each in results) / len(results))
        for name, (_, form) in COLUMNS.items()
    ]


QUICK_STEPS = 10_000
"""About half a minute on two cores."""
FULL_STEPS = 25_000


class Recipe(StrEnum):
    """How features compete; `all` is one run of each."""

    novelty = "novelty"
    control = "control"
    neighborhood = "neighborhood"
    rescue = "rescue"
    balance = "balance"
    all = "all"


def demo(
    condition: Annotated[
        list[Recipe] | None,
        typer.Option(help="How features compete; repeat it, or give all, to compare."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train; 10,000 if left out.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Train 25,000 steps.")] = False,
    data: Annotated[
        Literal["digits", "mnist"],
        typer.Option(help="5,000 digits, or all of MNIST (midstep data fetch mnist)."),
    ] = "digits",
    start_paused: Annotated[
        bool, typer.Option("--start-paused", help="Pause before the first step.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Show the run on a page.")
    ] = True,
    port: Port = None,
    save_dir: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("outputs/runs"),
    name: Annotated[str, typer.Option(help="Name of the run.")] = "demo",
    run_name: Annotated[
        str | None, typer.Option(help="Directory under --save-dir, instead of time and name.")
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Seed of the weights and the order of the digits; repeat it to compare."),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in your browser.")
    ] = False,
) -> None:
    """Train a small autoencoder with competing features, and show the run on a page.

    Keys in the terminal: [bold]space[/bold] pauses and resumes, [bold]s[/bold] makes one step,
    [bold]q[/bold] stops. At the end the page stays open until [bold]q[/bold]; without a terminal
    the command ends by itself. Several conditions or seeds are trained one after another and
    compared in a table.

    Examples: [bold]midstep demo[/bold] · [bold]midstep demo --start-paused --open[/bold] ·
    [bold]midstep demo --steps 500 --no-serve[/bold] ·
    [bold]midstep demo --condition all --seed 0 --seed 1 --full[/bold]
    """
    from midstep.session.signals import GracefulStop

    plan = _plan(condition or [Recipe.novelty], seed or [0])
    _check_settings(plan, steps, full=full, run_name=run_name)
    controls = TerminalControls(Screen())
    results: list[BclResult] = []
    with GracefulStop(controls.stop, controls.restore_terminal):
        if serve:
            _check_page(port, save_dir)
        # The page of the last run stays open, so it is ended inside the block of that run.
        for index, (chosen, number) in enumerate(plan):
            training = _prepare(FULL_STEPS if full else steps, number, chosen, data)
            title = name if len(plan) == 1 else f"{name}-{chosen}-seed{number}"
            with (
                training.open_run(name=title, run_name=run_name, save_dir=save_dir) as run,
                controls.control(run.controller, paused=start_paused),
                _page(run, serve, port, save_dir, open_page and index == 0) as url,
            ):
                results.append(_train(training, run, controls, url))
                if index == len(plan) - 1 or controls.leaving.is_set():
                    _end(controls, results, url)
                    break
    if run.unsaved is not None:
        controls.screen.print_line(run.unsaved, style="red")
        raise typer.Exit(1)


def _plan(conditions: list[Recipe], seeds: list[int]) -> list[tuple[str, int]]:
    """Condition and seed of each run, without repetitions."""
    every = [each for each in Recipe if each is not Recipe.all]
    chosen = [one for each in conditions for one in (every if each is Recipe.all else [each])]
    return list(dict.fromkeys((each.value, seed) for each in chosen for seed in seeds))


def _check_settings(
    plan: list[tuple[str, int]], steps: int | None, *, full: bool, run_name: str | None
) -> None:
    if full and steps is not None:
        raise ConfigError("--full means 25,000 steps; give --full or --steps, not both")
    if run_name is not None and len(plan) > 1:
        raise ConfigError(
            f"--run-name names one directory, but these are {len(plan)} runs; use --name instead"
        )


def _prepare(steps: int | None, seed: int, condition: str, data: str) -> BclTraining:
    """The training; wrong settings and missing data raise here, before a run directory exists."""
    from midstep.loops.recipes import find_recipe

    training = find_recipe("demo").prepare(
        {
            "steps": QUICK_STEPS if steps is None else steps,
            "seed": seed,
            "condition": condition,
            "data": data,
        }
    )
    return cast("BclTraining", training)


def _check_page(port: int | None, save_dir: Path) -> None:
    """Raise if the port is taken or the token cannot be saved, before torch is loaded."""
    from midstep.live.mode import current_mode
    from midstep.server.auth.tokens import Tokens
    from midstep.server.transport.ports import bind

    if current_mode() != "live":
        return
    if port:
        bind("127.0.0.1", port).close()  # `serve` binds it again
    Tokens.for_root(save_dir)


@contextlib.contextmanager
def _page(
    run: Run, serves: bool, port: int | None, save_dir: Path, open_browser: bool
) -> Iterator[str | None]:
    """The address of the page while it is served; None with --no-serve."""
    from midstep.live import serve
    from midstep.live.run_socket import serve_on_socket

    if not serves:
        with serve_on_socket(run):
            yield None
        return

    with serve(run, port=port, save_dir=save_dir, open_browser=open_browser) as served:
        yield served.url


def _train(
    training: BclTraining, run: Run, controls: TerminalControls, url: str | None
) -> BclResult:
    """Train and print how it ended."""
    screen, controller = controls.screen, run.controller
    screen.print_line(f"run   {_short(run.dir)}")
    if url is not None:
        screen.print_line(f"page  {url}")
    keys = controls.has_keys
    with Status(controller.get_state, controller.sinks.subscribe, screen, keys=keys) as status:
        controls.status = status
        result = training.run_to_end(run)
        controls.status = None
    _print_summary(screen, run, result)
    return result


def _end(controls: TerminalControls, results: list[BclResult], url: str | None) -> None:
    """Compare the runs, and keep the page open until `q` if there is a keyboard."""
    if len(results) > 1:
        rows = comparison(results)
        controls.screen.print_table(rows, right=range(1, len(rows[0])))
    if url is not None and controls.has_keys and not controls.leaving.is_set():
        controls.screen.print_line("the page stays open; press q to leave", style="dim")
        controls.leaving.wait()


def _print_summary(screen: Screen, run: Run, result: BclResult) -> None:
    """Print how the run ended, and where its files are."""
    end = "stopped" if result.stopped else "finished"
    loss = "" if result.loss is None else f"loss {result.loss:.5g}, "
    screen.print_line(
        f"{end} after {result.steps:,} steps in {format_duration(result.duration_s)}: "
        f"{loss}validation loss {result.validation_loss:.5g}",
        style="bold",
    )
    directory = _short(run.dir)
    screen.print_line(f"run   {directory}")
    screen.print_line(f"facts {directory / 'facts'}")
    screen.print_line(f"again {_program()} runs show {directory}")


def _program() -> str:
    """The command with which the user can call midstep again, also without its environment."""
    if shutil.which("midstep") is not None:
        return "midstep"
    script = Path(sys.argv[0])
    if script.name == "midstep":
        return str(_short(script.absolute()))
    return f"{_short(Path(sys.executable))} -m midstep"


def _short(path: Path) -> Path:
    """`path` as the user would type it from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
