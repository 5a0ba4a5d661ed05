"""`midstep ctl watch`: record rows of a tensor at every step of a live run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from midstep.cli.ctl.run_option import RunOption, with_run_option

app = typer.Typer(
    help="Record rows of a tensor (a feature, a neuron, a class) at every step.",
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
        typer.Argument(
            help="Rows to watch, at most 64 in all; none and no --source ends all watches."
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Name of the tensor; the run's default if left out.")
    ] = None,
) -> None:
    """Replace the watched rows of one tensor; those of other tensors stay."""
    watches = target.client().watches.replace(*(rows or []), source=source)
    target.answer(watches, _format_watches(watches))


@app.command("ls", epilog="Example: midstep ctl watch ls")
@with_run_option
def list_watches(target: RunOption) -> None:
    """Show the watched rows, and the tensors whose rows can be watched."""
    watches = target.client().watches.list()
    sources = ", ".join(watches["sources"]) or "none"
    target.answer(watches, f"{_format_watches(watches)}\ntensors: {sources}")


@app.command("trajectories", epilog="Example: midstep ctl watch trajectories --json > rows.json")
@with_run_option
def trajectories(
    target: RunOption,
    points: Annotated[int, typer.Option(help="Most points of each row.")] = 2000,
) -> None:
    """Show the newest point of every row that is or was watched; --json gives the points."""
    recorded = target.client().watches.trajectories(points=points)
    lines = _last_points("", recorded)
    for source, other in recorded["others"].items():
        lines += _last_points(f"{source} ", other)
    target.answer(
        recorded, "\n".join(lines) or "no points yet; choose rows with: midstep ctl watch set 3"
    )


@app.command("clear", epilog="Example: midstep ctl watch clear")
@with_run_option
def clear(target: RunOption) -> None:
    """Delete all points; rows stay watched."""
    target.client().watches.clear()
    target.answer({"cleared": True}, "trajectories cleared")


def _format_watches(watches: dict[str, Any]) -> str:
    watched = {watches["source"]: watches["feature_ids"], **watches["others"]}
    lines = [
        f"watching {name}: {', '.join(map(str, rows))}" for name, rows in watched.items() if rows
    ]
    return "\n".join(lines) or "nothing is watched"


def _last_points(prefix: str, recorded: dict[str, Any]) -> list[str]:
    trajectories = recorded["trajectories"].items()
    return [f"{prefix}{row}: {_last_point(points)}" for row, points in trajectories if points]


def _last_point(points: list[dict[str, Any]]) -> str:
    values = "  ".join(f"{name} {value:.4g}" for name, value in points[-1].items())
    return f"{values}  ({len(points)} points)"
