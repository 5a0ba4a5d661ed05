"""`midstep runs`: what runs there are and how each ended, from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from midstep.cli.screen import Screen
from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.core.moments import Moment

if TYPE_CHECKING:
    from midstep.facts import FactsReader

__all__ = ["app"]

app = typer.Typer(
    help="List runs and how each ended, live or finished. Needs no server and no torch.",
    epilog="Examples: [bold]midstep runs ls[/bold] · [bold]midstep runs show k3v9…[/bold]",
    no_args_is_help=True,
)

_SaveDir = Annotated[Path, typer.Option("--save-dir", help="Where the runs lie.")]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]
RUNS = Path("outputs/runs")


@app.command("ls")
def list_runs(save_dir: _SaveDir = RUNS, as_json: _Json = False) -> None:
    """List the runs under a folder, newest first."""
    found = [_summary(directory) for directory in _directories(save_dir)]
    found.sort(key=lambda run: run["started_at"] or 0.0, reverse=True)
    if as_json:
        typer.echo(strict_json.dumps(found))
    elif found:
        Screen().print(_table(found))
    else:
        Screen().say(f"no runs in {save_dir} yet; start one with: midstep demo")


@app.command("show")
def show(
    run: Annotated[str, typer.Argument(help="Id of the run, its start, or its directory.")],
    save_dir: _SaveDir = RUNS,
    as_json: _Json = False,
) -> None:
    """Show one run: its end, its header, its last values, where its files are."""
    summary = _summary(_find(run, save_dir), full=True)
    if as_json:
        typer.echo(strict_json.dumps(summary))
        return
    screen = Screen()
    for name, value in summary.items():
        for key, text in _rows(name, value):
            screen.say(f"{key:<24} {text}")


def _directories(save_dir: Path) -> list[Path]:
    from midstep.facts import discover_runs

    if not save_dir.is_dir():
        raise ConfigError(
            f"{save_dir} is not a folder; name the one your runs are in with --save-dir"
        )
    return discover_runs(sweep_dir=save_dir)


def _find(run: str, save_dir: Path) -> Path:
    """The run directory that `run` names: a path, a directory name, or the start of an id."""
    if (Path(run) / "facts").is_dir():
        return Path(run)
    named = [
        directory
        for directory in _directories(save_dir)
        if directory.name == run or str(_summary(directory)["id"]).startswith(run)
    ]
    if len(named) == 1:
        return named[0]
    if named:
        raise ConfigError(f"{run} names {len(named)} runs in {save_dir}; give more of the id")
    raise ConfigError(f"no run {run} in {save_dir}; list what there is with: midstep runs ls")


def _summary(directory: Path, *, full: bool = False) -> dict[str, Any]:
    """What a list shows of a run; a damaged one is listed with the reason."""
    from midstep.facts import FactsReader, end_state

    end = end_state(directory)
    summary: dict[str, Any] = {
        "id": None,
        "name": directory.name,
        "state": end.state,
        "reason": end.reason,
        "step": None,
        "started_at": None,
        "directory": str(directory),
    }
    reader = FactsReader(directory)
    try:
        events = reader.events()
    except (FormatError, StorageError) as error:
        return {**summary, "state": "damaged", "reason": str(error)}
    header = next((event for event in events if event["moment"] == Moment.START), {})
    summary |= {
        "id": header.get("run_id"),
        "name": header.get("name") or directory.name,
        "step": _last_step(directory, events),
        "started_at": header.get("wall"),
    }
    if full:
        summary |= {"last": _last_values(reader), "header": header, "problems": reader.problems}
    return summary


def _last_step(directory: Path, events: list[dict[str, Any]]) -> int | None:
    """Finished steps: as the end record says, else as the last heartbeat did."""
    from midstep.facts import read_lease

    known = [event.get("step") for event in events[-1:]] + [
        (read_lease(directory) or {}).get("step")
    ]
    return max((step for step in known if isinstance(step, int)), default=None)


def _last_values(reader: FactsReader) -> dict[str, float]:
    """The newest value of every series."""
    return {
        name: float(series.high[-1]) for name, series in reader.series().items() if series.count
    }


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("id", "name", "state", "step", "started"):
        table.add_column(column, justify="right" if column == "step" else "left", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for run in found:
        step = "" if run["step"] is None else f"{run['step']:,}"
        cells = (
            run["id"],
            run["name"],
            run["state"],
            step,
            _when(run["started_at"]),
            run["reason"],
        )
        table.add_row(*(str(cell or "") for cell in cells))
    return table


def _when(wall: float | None) -> str:
    return "" if wall is None else f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M:%S}Z"


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    """A value as lines of text, nested ones with dotted names."""
    if isinstance(value, dict):
        return [row for key, item in value.items() for row in _rows(f"{name}.{key}", item)]
    if name == "started_at":
        return [(name, _when(value))]
    return (
        []
        if value is None
        else [(name, value if isinstance(value, str) else strict_json.dumps(value))]
    )
