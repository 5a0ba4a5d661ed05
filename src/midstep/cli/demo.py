"""`midstep demo`: a real training, live on a page, from one command."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from midstep.cli.output.screen import Screen
from midstep.cli.output.status_line import Status
from midstep.cli.output.terminal_controls import TerminalControls
from midstep.cli.output.text_format import align_columns, format_duration
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
"""Metric: its heading, and how a value is written."""


def comparison(results: Sequence[BclResult]) -> list[str]:
    """A line per run, and per condition the mean over its seeds where there are several."""
    rows = [["condition", "seed", "steps", *(heading for heading, _ in COLUMNS.values())]]
    for condition in dict.fromkeys(each.condition for each in results):
        found = [each for each in results if each.condition == condition]
        rows += [[condition, str(each.seed), f"{each.steps:,}", *_cells([each])] for each in found]
        if len(found) > 1:
            rows.append([condition, "mean", "", *_cells(found)])
    return align_columns(rows, right=range(1, len(rows[0])))


def _cells(results: Sequence[BclResult]) -> list[str]:
    return [
        form.format(math.fsum(each.health.metrics[name] for each in results) / len(results))
        for name, (_, form) in COLUMNS.items()
    ]


QUICK_STEPS = 10_000
"""About half a minute on two cores."""
FULL_STEPS = 25_000


class Recipe(StrEnum):
    """What competes with what; `all` is one run of each."""

    novelty = "novelty"
    control = "control"
    neighborhood = "neighborhood"
    rescue = "rescue"
    balance = "balance"
    all = "all"


class Data(StrEnum):
    """What it is trained on."""

    digits = "digits"
    mnist = "mnist"


def demo(
    condition: Annotated[
        list[Recipe] | None,
        typer.Option(help="How features compete; several or all for a comparison."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train; 10,000 if not given.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="The full setting: 25,000 steps.")] = False,
    data: Annotated[
        Data, typer.Option(help="5,000 digits, or all of MNIST (midstep data fetch mnist).")
    ] = Data.digits,
    start_paused: Annotated[
        bool, typer.Option("--start-paused", help="Stand before the first step until resumed.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Show the run on a page.")
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Of the page; the last one used if not given, 0 for any."
        ),
    ] = None,
    save_dir: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("outputs/runs"),
    name: Annotated[str, typer.Option(help="Name of the run.")] = "demo",
    run_name: Annotated[
        str | None, typer.Option(help="Exact directory under --save-dir, instead of time and name.")
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Of the weights and the order of the digits; several for a comparison."),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in your browser.")
    ] = False,
) -> None:
    """Train a small autoencoder with competing features, to be paused, stepped and looked into.

    Keys in the terminal: [bold]space[/bold] pauses and resumes, [bold]s[/bold] makes one step,
    [bold]q[/bold] stops. At the end the page stays open until [bold]q[/bold]; without a terminal
    the command ends by itself. Several conditions or seeds are trained one after the other and
    compared in a table.

    Examples: [bold]midstep demo[/bold] · [bold]midstep demo --start-paused --open[/bold] ·
    [bold]midstep demo --steps 500 --no-serve[/bold] ·
    [bold]midstep demo --condition all --seed 0 --seed 1 --full[/bold]
    """
    from midstep.session.signals import GracefulStop

    plan = _plan(condition or [Recipe.novelty], seed or [0])
    _check_settings(plan, steps, full=full, run_name=run_name)
    seat = TerminalControls(Screen())
    results: list[BclResult] = []
    with GracefulStop(seat.stop, seat.restore_terminal):
        if serve:
            _check_page(port, save_dir)
        for place, (chosen, number) in enumerate(plan):
            training = _prepare(FULL_STEPS if full else steps, number, chosen, data.value)
            called = name if len(plan) == 1 else f"{name}-{chosen}-seed{number}"
            with (
                training.open_run(name=called, run_name=run_name, save_dir=save_dir) as run,
                seat.taken(run.controller, paused=start_paused),
                _page(run, serve, port, save_dir, open_page and place == 0) as url,
            ):
                results.append(_drive(training, run, seat, url))
                if place == len(plan) - 1 or seat.leaving.is_set():
                    _end(seat, results, url)
                    break


def _plan(conditions: list[Recipe], seeds: list[int]) -> list[tuple[str, int]]:
    """Condition and seed of each run, none twice."""
    every = [each for each in Recipe if each is not Recipe.all]
    chosen = [one for each in conditions for one in (every if each is Recipe.all else [each])]
    return list(dict.fromkeys((one.value, number) for one in chosen for number in seeds))


def _check_settings(
    plan: list[tuple[str, int]], steps: int | None, *, full: bool, run_name: str | None
) -> None:
    if full and steps is not None:
        raise ConfigError("--full means 25,000 steps; give either it or --steps")
    if run_name is not None and len(plan) > 1:
        raise ConfigError(
            f"--run-name names one directory, and these are {len(plan)} runs; use --name instead"
        )


def _prepare(steps: int | None, seed: int, condition: str, data: str) -> BclTraining:
    """Everything that can be wrong with settings and data is found before a run is begun."""
    from midstep.loops.recipes import find_recipe

    made = find_recipe("bcl").prepare(
        {
            "steps": QUICK_STEPS if steps is None else steps,
            "seed": seed,
            "condition": condition,
            "data": data,
        }
    )
    return cast("BclTraining", made)


def _check_page(port: int | None, save_dir: Path) -> None:
    """What would refuse the page is found before torch is loaded and a run is begun.

    A taken port, which `serve` binds again, and a place for the token that cannot be written.
    """
    from midstep.live.mode import current_mode
    from midstep.server.auth.tokens import Tokens
    from midstep.server.transport.ports import bind

    if current_mode() != "live":
        return
    if port:
        bind("127.0.0.1", port).close()
    Tokens.for_root(save_dir)


@contextlib.contextmanager
def _page(
    run: Run, wanted: bool, port: int | None, save_dir: Path, open_browser: bool
) -> Iterator[str | None]:
    """The address of the page while it is served; None when it is not wanted."""
    from midstep.live import serve
    from midstep.live.run_socket import serve_on_socket

    if not wanted:
        with serve_on_socket(run):
            yield None
        return

    with serve(run, port=port, save_dir=save_dir, open_browser=open_browser) as served:
        yield served.url


def _drive(training: BclTraining, run: Run, seat: TerminalControls, url: str | None) -> BclResult:
    """Train, and tell how it ended."""
    screen, controller = seat.screen, run.controller
    screen.print_line(f"run   {_short(run.dir)}")
    if url is not None:
        screen.print_line(f"page  {url}")
    keys = seat.has_keys
    with Status(controller.get_state, controller.sinks.subscribe, screen, keys=keys) as status:
        seat.status = status
        result = training.run_to_end(run)
        seat.status = None
    _summary(screen, run, result, "stopped" if result.stopped else "finished")
    return result


def _end(seat: TerminalControls, results: list[BclResult], url: str | None) -> None:
    """Compare the runs, and keep the page open until `q` if there is a keyboard."""
    if len(results) > 1:
        for line in comparison(results):
            seat.screen.print_line(line)
    if url is not None and seat.has_keys and not seat.leaving.is_set():
        seat.screen.print_line("the page stays open; press q to leave", style="dim")
        seat.leaving.wait()


def _summary(screen: Screen, run: Run, result: BclResult, end: str) -> None:
    """How it ended, and where everything is."""
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
    """How this program is called from here, also where no environment is activated."""
    if shutil.which("midstep") is not None:
        return "midstep"
    called = Path(sys.argv[0])
    if called.name == "midstep":
        return str(_short(called.absolute()))
    return f"{_short(Path(sys.executable))} -m midstep"


def _short(path: Path) -> Path:
    """`path` as the user would type it from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
