"""`midstep runs`: what runs there are and how each ended, from facts alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.recipes import add_commands
from midstep.cli.screen import Screen
from midstep.cli.wording import (
    aligned,
    bytes_words,
    duration_words,
    number_words,
    time_words,
)
from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, StorageError

if TYPE_CHECKING:
    from midstep.facts import FactsReader
    from midstep.facts.index import RunIndex
    from midstep.facts.run_row import RunRow

__all__ = ["RUNS", "RunName", "SaveDir", "app", "find_run"]

app = typer.Typer(
    help="List runs and how each ended, live or finished. Needs no server and no torch.",
    epilog=(
        "Examples: [bold]midstep runs ls[/bold] · [bold]midstep runs show k3v9…[/bold] · "
        "[bold]midstep runs export k3v9… --out run.csv[/bold]"
    ),
    no_args_is_help=True,
)

add_commands(app)

SaveDir = Annotated[Path, typer.Option("--save-dir", help="Where the runs lie.")]
RunName = Annotated[str, typer.Argument(help="Id of the run, its start, or its directory.")]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]
RUNS = Path("outputs/runs")
ANSWER_WITHIN_S = 1.0
COLUMNS = ("id", "name", "state", "step", "started", "directory", "page or reason")
ENVELOPE = frozenset(
    {"schema_version", "seq", "attempt", "rank", "timeline", "wall", "mono", "moment", "run_id"}
) | {"epoch", "step", "split", "name", "metrics", "crc"}
"""Fields of the header that every record has; shown with --json."""


@app.command("ls", epilog="Example: midstep runs ls lr --where config.lr=0.1 --sort -val_loss")
def list_runs(
    words: Annotated[
        list[str] | None, typer.Argument(help="Only runs in whose name, tags or note these stand.")
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only runs in this state; may be repeated.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only runs with this tag; may be repeated.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="A condition: config.lr=0.1, val_loss<0.5; may be repeated."),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", help="A field, setting or value; with - the largest first.")
    ] = "-started_at",
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most to list.")] = 1000,
    save_dir: SaveDir = RUNS,
    as_json: _Json = False,
) -> None:
    """List the runs under a folder, newest first; a live one with the address of its page."""
    from midstep.facts.run_query import RunQuery

    query = RunQuery(
        q=" ".join(words or ()),
        states=tuple(state or ()),
        tags=tuple(tag or ()),
        where=tuple(where or ()),
        sort=sort,
        limit=limit,
    )
    page = _index(save_dir).rows(query)
    found = [_asked(_summary(row, save_dir / row.directory)) for row in page.rows]
    if as_json:
        typer.echo(strict_json.dumps(found))
    elif found:
        _show_table(Screen(), found)
        if page.matching > len(found):
            Screen().say(f"{len(found)} of {page.matching} runs; more with --limit", style="dim")
    elif page.total:
        Screen().say(f"none of the {page.total} runs under {save_dir} is like that")
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
    from midstep.facts.run_row import read_row

    directory = find_run(run, save_dir)
    summary = _asked({**_summary(read_row(directory), directory), **_read_through(directory)})
    if as_json:
        typer.echo(strict_json.dumps(summary))
        return
    screen = Screen()
    for line in aligned(_rows("", _shown(summary))):
        screen.say(line)


def _index(save_dir: Path) -> RunIndex:
    """The index of a folder, looked at now."""
    from midstep.facts.index import RunIndex

    if not save_dir.is_dir() and save_dir != RUNS:
        raise ConfigError(
            f"{save_dir} is not a folder; name the one your runs are in with --save-dir"
        )
    index = RunIndex(save_dir)
    if save_dir.is_dir():  # else nothing has run here yet
        index.refresh()
        index.close()
    return index


def find_run(run: str, save_dir: Path) -> Path:
    """The run directory that `run` names: a path, an id, a directory name, or an id's start.

    A whole name goes before a start: which ids begin with a directory's name is chance.
    """
    if run and (Path(run) / "facts").is_dir():
        return Path(run)
    rows = _index(save_dir).rows().rows
    named = [row for row in rows if run in _names(row)]
    named = named or [row for row in rows if row.id.startswith(run)]
    if len(named) == 1:
        return save_dir / named[0].directory
    if named:
        raise ConfigError(f"{run} names {len(named)} runs in {save_dir}; give more of the id")
    raise ConfigError(f"no run {run} in {save_dir}; list what there is with: midstep runs ls")


def _names(row: RunRow) -> tuple[str, str, str]:
    return row.id, row.directory, row.directory.rpartition("/")[2]


def _summary(row: RunRow, directory: Path) -> dict[str, Any]:
    """What is told of a run; a damaged one with the reason."""
    told = row.as_wire()
    return {**told, "reason": told.pop("why"), "directory": str(directory), "url": None}


def _read_through(directory: Path) -> dict[str, Any]:
    """What only reading all of a run tells: last values of every series, header, damage."""
    from midstep.facts import FactsReader

    reader = FactsReader(directory)
    try:
        return {
            "last": _last_values(reader),
            "header": reader.header(),
            "problems": reader.problems,
        }
    except (FormatError, StorageError) as error:
        return {"last": {}, "header": {}, "problems": [str(error)]}


def _asked(summary: dict[str, Any]) -> dict[str, Any]:
    """A running run as its own server tells: whether it is paused, at which step, and where."""
    from midstep.client.finding import find_run as find_live

    if not summary["live"]:
        return summary
    found = find_live(Path(summary["directory"]), within_s=ANSWER_WITHIN_S)
    if found is None or found.run_id != summary["id"]:
        return summary
    known = {"url": found.url, "step": summary["step"] if found.step is None else found.step}
    if summary["state"] != "not responding" and found.state is not None:
        known["state"] = found.state
    return {**summary, **known}


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
        "bytes": bytes_words(summary["bytes"]),
        "tags": ", ".join(summary["tags"]),
        "note": summary["note"],
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
