"""`midstep runs`: what runs there are and how each ended, from facts alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.screen import Screen
from midstep.cli.wording import aligned, duration_words, number_words, time_words
from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.core.moments import Moment

if TYPE_CHECKING:
    from midstep.facts import FactsReader

__all__ = ["RUNS", "RunName", "SaveDir", "app", "find_run"]

app = typer.Typer(
    help="List runs and how each ended, live or finished. Needs no server and no torch.",
    epilog=(
        "Examples: [bold]midstep runs ls[/bold] · [bold]midstep runs show k3v9…[/bold] · "
        "[bold]midstep runs export k3v9… --out run.csv[/bold]"
    ),
    no_args_is_help=True,
)

SaveDir = Annotated[Path, typer.Option("--save-dir", help="Where the runs lie.")]
RunName = Annotated[str, typer.Argument(help="Id of the run, its start, or its directory.")]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]
RUNS = Path("outputs/runs")
LIVE = ("running", "not responding")
ANSWER_WITHIN_S = 1.0
COLUMNS = ("id", "name", "state", "step", "started", "directory", "page or reason")
ENVELOPE = frozenset(
    {"schema_version", "seq", "attempt", "rank", "timeline", "wall", "mono", "moment", "run_id"}
) | {"epoch", "step", "split", "name", "metrics", "crc"}
"""Fields of the header that every record has; shown with --json."""


@app.command("ls", epilog="Example: midstep runs ls --save-dir outputs/runs")
def list_runs(save_dir: SaveDir = RUNS, as_json: _Json = False) -> None:
    """List the runs under a folder, newest first; a live one with the address of its page."""
    found = [_asked(_summary(directory)) for directory in _directories(save_dir)]
    found.sort(key=lambda run: run["started_at"] or 0.0, reverse=True)
    if as_json:
        typer.echo(strict_json.dumps(found))
    elif found:
        _show_table(Screen(), found)
    else:
        Screen().say(f"no runs under {save_dir} yet; start one with: midstep demo")


@app.command("show", epilog="Example: midstep runs show k3v9")
def show(
    run: RunName,
    save_dir: SaveDir = RUNS,
    as_json: _Json = False,
) -> None:
    """Show one run: how it ended, its last values, its times, where it is, how it was made.

    --json gives the whole header record besides.
    """
    summary = _asked(_summary(find_run(run, save_dir), full=True))
    if as_json:
        typer.echo(strict_json.dumps(summary))
        return
    screen = Screen()
    for line in aligned(_rows("", _shown(summary))):
        screen.say(line)


def _directories(save_dir: Path) -> list[Path]:
    from midstep.facts import discover_runs

    if save_dir == RUNS and not save_dir.exists():
        return []  # nothing has run here yet
    if not save_dir.is_dir():
        raise ConfigError(
            f"{save_dir} is not a folder; name the one your runs are in with --save-dir"
        )
    return discover_runs(sweep_dir=save_dir)


def find_run(run: str, save_dir: Path) -> Path:
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
        "url": None,
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
        ended_at = events[-1].get("wall") if events and end.state not in LIVE else None
        summary |= {
            "ended_at": ended_at,
            "last": _last_values(reader),
            "header": header,
            "problems": reader.problems,
        }
    return summary


def _asked(summary: dict[str, Any]) -> dict[str, Any]:
    """A running run as its own server tells: whether it is paused, at which step, and where."""
    from midstep.client.finding import find_run as find_live

    if summary["state"] not in LIVE:
        return summary
    found = find_live(Path(summary["directory"]), within_s=ANSWER_WITHIN_S)
    if found is None or found.run_id != summary["id"]:
        return summary
    known = {"url": found.url, "step": summary["step"] if found.step is None else found.step}
    if summary["state"] == "running" and found.state is not None:
        known["state"] = found.state
    return {**summary, **known}


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


def _show_table(screen: Screen, found: list[dict[str, Any]]) -> None:
    head, *rows = aligned([COLUMNS, *(_cells(run) for run in found)], right=(3,))
    screen.say(head, style="dim")
    for row in rows:
        screen.say(row)


def _cells(run: dict[str, Any]) -> tuple[str, ...]:
    step = "" if run["step"] is None else number_words(run["step"])
    said = run["url"] or " ".join(str(run["reason"] or "").split())
    started = time_words(run["started_at"])
    return (
        run["id"] or "",
        run["name"],
        run["state"],
        step,
        started,
        Path(run["directory"]).name,
        said,
    )


def _shown(summary: dict[str, Any]) -> dict[str, Any]:
    """What people want to know of a run, in that order; how it was made comes last."""
    started, ended = summary["started_at"], summary.get("ended_at")
    header = summary.get("header", {})
    made = {name: value for name, value in header.items() if name not in ENVELOPE}
    return {
        "name": summary["name"],
        "id": summary["id"],
        "state": summary["state"],
        "reason": summary["reason"],
        "step": None if summary["step"] is None else number_words(summary["step"]),
        "last": {name: number_words(value) for name, value in summary.get("last", {}).items()},
        "started": time_words(started),
        "ended": time_words(ended),
        "took": duration_words(ended - started) if started and ended else None,
        "directory": summary["directory"],
        "page": summary["url"],
        "problems": summary.get("problems") or None,
        "header": made,
    }


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    """A value as lines of text, nested ones with dotted names; what is empty is left out."""
    if isinstance(value, dict):
        return [
            row
            for key, item in value.items()
            for row in _rows(f"{name}.{key}" if name else key, item)
        ]
    if value is None or value == "":
        return []
    return [(name, value if isinstance(value, str) else strict_json.dumps(value))]
