"""`midstep runs ls` and `runs show`: which runs there are and how each ended, from facts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.cli.output.text_format import (
    align_columns,
    format_bytes,
    format_duration,
    format_number,
    format_time,
)
from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from midstep.facts.index.run_index import RunIndex
    from midstep.facts.index.run_row import RunRow

SaveDir = Annotated[Path, typer.Option("--save-dir", help="Folder that holds the runs.")]
RunName = Annotated[
    str, typer.Argument(help="Id of the run or its start, its name, or its directory.")
]
DEFAULT_SAVE_DIR = Path("outputs/runs")
MOST_NAMED = 10
"""A refusal names so many of the runs that an ambiguous name may mean."""
ANSWER_WITHIN_S = 1.0
"""A list asks every live run for its state, so one that hangs may cost at most this long."""
COLUMNS = ("id", "name", "state", "step", "started", "directory", "page or reason")
ENVELOPE = frozenset(
    {"schema_version", "seq", "attempt", "rank", "timeline", "wall", "mono", "moment", "run_id"}
) | {"epoch", "step", "split", "name", "metrics", "crc"}
"""Fields of the header that every record has; shown only with --json."""


def list_runs(
    words: Annotated[
        list[str] | None, typer.Argument(help="Only runs with these words in name, tags or note.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Only runs whose process is alive, paused or not.")
    ] = False,
    state: Annotated[
        list[str] | None, typer.Option(help="Only runs in this state; may be repeated.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Only runs with this tag; may be repeated.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="A condition: config.lr=0.1, val_loss<0.5; may be repeated."),
    ] = None,
    sort: Annotated[
        str, typer.Option(help="A field, setting or value; with - the largest first.")
    ] = "-started_at",
    limit: Annotated[int, typer.Option(min=1, help="List at most this many.")] = 1000,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
    as_json: AsJson = False,
) -> None:
    """List the runs of a folder, newest first, and the address of each live run's page."""
    from midstep.facts.index.run_query import RunQuery

    query = RunQuery(
        q=" ".join(words or ()),
        states=tuple(state or ()),
        tags=tuple(tag or ()),
        where=(*(where or ()), *(("live=true",) if live else ())),
        sort=sort,
        limit=limit,
    )
    page = _open_index(save_dir).rows(query)
    runs = [_with_live_state(_summary(row, save_dir / row.directory)) for row in page.rows]
    if as_json:
        print_json(runs)
    elif runs:
        _print_table(Screen(), runs)
        if page.matching > len(runs):
            Screen().print_line(
                f"{len(runs)} of {page.matching} runs; list more with --limit", style="dim"
            )
    elif page.total:
        Screen().print_line(f"none of the {page.total} runs under {save_dir} matches")
    else:
        Screen().print_line(f"no runs under {save_dir} yet; start one with: midstep demo")


def show(run: RunName, save_dir: SaveDir = DEFAULT_SAVE_DIR, as_json: AsJson = False) -> None:
    """Show one run: how it ended, last values, times, directory, and how it was started.

    --json adds the whole header record.
    """
    from midstep.facts.index.run_row import read_row

    directory = find_run(run, save_dir)
    summary = _with_live_state(
        {**_summary(read_row(directory), directory), **_read_all_facts(directory)}
    )
    if as_json:
        print_json(summary)
        return
    Screen().print_table(_flatten("", _select_fields(summary)))


def find_run(run: str, save_dir: Path) -> Path:
    """Return the directory of a run, from a path, an id, a directory, a name or an id's start.

    A path is tried first, then ids and directories, then names. A complete name comes before the
    start of an id, because ids are random: whether one begins with a name is chance.
    """
    from midstep.facts.index.run_query import RunQuery

    if run and (Path(run) / "facts").is_dir():
        return Path(run)
    index = _open_index(save_dir)
    rows = index.rows(RunQuery(limit=sys.maxsize)).rows
    matches = [
        row for row in rows if run in (row.id, row.directory, row.directory.rpartition("/")[2])
    ]
    matches = matches or [row for row in rows if row.name == run]
    matches = matches or [row for row in rows if row.id.startswith(run)]
    if len(matches) == 1:
        _check_one_directory(run, matches[0], index)
        return save_dir / matches[0].directory
    if matches:
        raise ConfigError(_describe_ambiguity(run, matches, save_dir))
    raise ConfigError(f"no run {run} in {save_dir}; list all runs with: midstep runs ls")


def _describe_ambiguity(run: str, matches: Sequence[RunRow], save_dir: Path) -> str:
    """Return the refusal of a name or of a start of an id that several runs have."""
    shown = [f"{row.id} (started {format_time(row.started_at)})" for row in matches[:MOST_NAMED]]
    left = len(matches) - len(shown)
    more = f" and {left} more, see midstep runs ls" if left else ""
    return (
        f"{run} names {len(matches)} runs in {save_dir}: {', '.join(shown)}{more}; "
        "give the id of one of them"
    )


def _check_one_directory(run: str, row: RunRow, index: RunIndex) -> None:
    """Refuse an id that several directories have: a copy must not stand for the original."""
    copies = index.copies(row.id)
    is_directory = run in (row.directory, row.directory.rpartition("/")[2])
    if copies and not is_directory:
        names = ", ".join((row.directory, *copies))
        raise ConfigError(
            f"{len(copies) + 1} directories have the id {row.id}: {names}; name the directory"
        )


def split_names(names: list[str] | None) -> list[str] | None:
    """Split the values of a repeated option at commas; None when it was not given.

    >>> split_names(["loss,lr", "epoch"])
    ['loss', 'lr', 'epoch']
    """
    return [name for part in names for name in part.split(",") if name] if names else None


def _open_index(save_dir: Path) -> RunIndex:
    """Return the index of a folder, refreshed now."""
    from midstep.facts.index.run_index import RunIndex

    if not save_dir.is_dir() and save_dir != DEFAULT_SAVE_DIR:
        raise ConfigError(
            f"{save_dir} is not a folder; name the one your runs are in with --save-dir"
        )
    index = RunIndex(save_dir)
    # Before the first run the default folder does not exist. That is an empty list, no error.
    if save_dir.is_dir():
        index.refresh()
        index.close()
    return index


def _summary(row: RunRow, directory: Path) -> dict[str, Any]:
    """Return the fields of a run for --json; a damaged run has its reason."""
    fields = row.as_wire()
    return {**fields, "reason": fields.pop("why"), "directory": str(directory), "url": None}


def _read_all_facts(directory: Path) -> dict[str, Any]:
    """Return what is not in the index: last value of every series, header, damage."""
    from midstep.facts import FactsReader

    reader = FactsReader(directory)
    try:
        series = reader.series().items()
        last = {name: float(each.high[-1]) for name, each in series if each.count}
        return {"last": last, "header": reader.header(), "problems": reader.problems}
    except (FormatError, StorageError) as error:
        return {"last": {}, "header": {}, "problems": [str(error)]}


def _with_live_state(summary: dict[str, Any]) -> dict[str, Any]:
    """Add the state, step and address that a live run's own server reports."""
    from midstep.client.run_finder import find_run as find_live

    if not summary["live"]:
        return summary
    live = find_live(Path(summary["directory"]), within_s=ANSWER_WITHIN_S)
    if live is None or live.run_id != summary["id"]:
        return summary
    reported = {"url": live.url, "step": summary["step"] if live.step is None else live.step}
    # The server thread of a hung run still answers, so its word must not hide "not responding".
    if summary["state"] != "not responding" and live.state is not None:
        reported["state"] = live.state
    return {**summary, **reported}


def _print_table(screen: Screen, runs: list[dict[str, Any]]) -> None:
    head, *rows = align_columns([COLUMNS, *(_table_row(run) for run in runs)], right=(3,))
    screen.print_line(head, style="dim")
    for row in rows:
        screen.print_line(row)


def _table_row(run: dict[str, Any]) -> tuple[str, ...]:
    return (
        run["id"] or "",
        run["name"],
        run["state"],
        "" if run["step"] is None else format_number(run["step"]),
        format_time(run["started_at"]),
        Path(run["directory"]).name,
        run["url"] or " ".join(str(run["reason"] or "").split()),
    )


def _select_fields(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that `show` prints, in order: the end first, the header last."""
    started, ended = summary["started_at"], summary.get("ended_at")
    header = summary.get("header", {})
    return {
        "name": summary["name"],
        "id": summary["id"],
        "state": summary["state"],
        "reason": summary["reason"],
        "step": None if summary["step"] is None else format_number(summary["step"]),
        "last": {name: format_number(value) for name, value in summary.get("last", {}).items()},
        "started": format_time(started),
        "ended": format_time(ended),
        "took": format_duration(ended - started) if started and ended else None,
        "directory": summary["directory"],
        "bytes": format_bytes(summary["bytes"]),
        "tags": ", ".join(summary["tags"]),
        "note": summary["note"],
        "page": summary["url"],
        "problems": summary.get("problems") or None,
        "header": {name: value for name, value in header.items() if name not in ENVELOPE},
    }


def _flatten(name: str, value: Any) -> list[tuple[str, str]]:
    """Return a value as (name, text) rows, nested ones with dotted names, without empty ones."""
    if isinstance(value, dict):
        return [
            row
            for key, item in value.items()
            for row in _flatten(f"{name}.{key}" if name else key, item)
        ]
    if value is None or value == "":
        return []
    return [(name, value if isinstance(value, str) else strict_json.dumps(value))]
