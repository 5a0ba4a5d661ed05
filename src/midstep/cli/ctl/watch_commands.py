"""`midstep ctl watch`: follow rows of a tensor over the steps of a live run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from midstep.cli.ctl.run_option import RunOption, with_run_option

__all__ = ["app"]

app = typer.Typer(
    help="Follow rows of a tensor (a feature, a neuron, a class) from step to step.",
    epilog=(
        "Examples: [bold]midstep ctl watch set 3 17 --source encoder.weight[/bold] · "
        "[bold]midstep ctl watch ls[/bold] · [bold]midstep ctl watch trajectories --json[/bold]"
    ),
    no_args_is_help=True,
)


@app.command("set", epilog="Example: midstep ctl watch set 3 17 --source encoder.weight")
@with_run_option
def choose(
    target: RunOption,
    rows: Annotated[
        list[int] | None,
        typer.Argument(help="Rows to watch, at most 64 in all; none and no --source: nothing."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Name of the tensor; the run's default when left out.")
    ] = None,
) -> None:
    """Replace the watch list of one tensor; rows of others are watched on."""
    found = target.client().watches.replace(*(rows or []), source=source)
    target.answer(found, _words(found))


@app.command("ls", epilog="Example: midstep ctl watch ls")
@with_run_option
def list_watches(target: RunOption) -> None:
    """Show what is watched, and which tensors could be."""
    found = target.client().watches.list()
    target.answer(found, f"{_words(found)}\ntensors: {', '.join(found['sources']) or 'none'}")


@app.command("trajectories", epilog="Example: midstep ctl watch trajectories --json > rows.json")
@with_run_option
def trajectories(
    target: RunOption,
    points: Annotated[int, typer.Option(help="Most points of a row; beyond, thinned.")] = 2000,
) -> None:
    """Show the newest point of every row that is or was watched; --json gives the points."""
    found = target.client().watches.trajectories(points=points)
    lines = _last_points("", found)
    for source, other in found["others"].items():
        lines += _last_points(f"{source} ", other)
    target.answer(
        found, "\n".join(lines) or "no points yet; choose rows with: midstep ctl watch set 3"
    )


@app.command("clear", epilog="Example: midstep ctl watch clear")
@with_run_option
def clear(target: RunOption) -> None:
    """Forget all points; what is watched goes on from here."""
    target.client().watches.clear()
    target.answer({"cleared": True}, "trajectories cleared")


def _words(found: dict[str, Any]) -> str:
    watched = {found["source"]: found["feature_ids"], **found["others"]}
    lines = [
        f"watching {name}: {', '.join(map(str, rows))}" for name, rows in watched.items() if rows
    ]
    return "\n".join(lines) or "nothing is watched"


def _last_points(prefix: str, found: dict[str, Any]) -> list[str]:
    paths = found["trajectories"].items()
    return [f"{prefix}{row}: {_last_point(points)}" for row, points in paths if points]


def _last_point(points: list[dict[str, Any]]) -> str:
    values = "  ".join(f"{name} {_short(value)}" for name, value in points[-1].items())
    return f"{values}  ({len(points)} points)"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)
