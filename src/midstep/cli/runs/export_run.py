"""`midstep runs export`: the scalars of a run as one CSV or Parquet table."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from midstep.cli.output.terminal_escape import VisibleStream
from midstep.cli.runs.list_runs import DEFAULT_SAVE_DIR, RunName, SaveDir, find_run, split_names
from midstep.core.errors import ConfigError
from midstep.core.files.storage import replacement


def export(
    run: RunName,
    form: Annotated[
        Literal["csv", "parquet"],
        typer.Option("--format", help="Parquet needs pip install 'midstep\\[parquet]'."),
    ] = "csv",
    names: Annotated[
        list[str] | None,
        typer.Option(help="Only these series: a,b; may be repeated; all if left out."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; standard output if left out.")
    ] = None,
    timeline: Annotated[
        int | None,
        typer.Option(min=1, help="An older timeline, as it was before a rewind; 1 is the first."),
    ] = None,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
) -> None:
    """Write the scalars of a run as one table: one row per step, one column per name."""
    if form == "parquet" and out is None:
        raise ConfigError(
            "Parquet needs a file, not standard output; name one with --out run.parquet"
        )
    from midstep.facts.read.wide_table import WideTable, write_csv, write_parquet

    directory = find_run(run, save_dir)
    number = None if timeline is None else _timeline_number(directory, timeline)
    table = WideTable(directory, split_names(names), timeline=number)
    if out is None:
        write_csv(table, VisibleStream(sys.stdout))
        return
    with replacement(out) as file:
        if form == "parquet":
            write_parquet(table, file)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
        write_csv(table, text)
        text.detach()  # `replacement` still syncs and closes the file below


def _timeline_number(directory: Path, timeline: int) -> int:
    """The number of a timeline in the files, which count from 0."""
    from midstep.facts import FactsReader

    timelines = 1 + FactsReader(directory).last_timeline
    if timeline > timelines:
        raise ConfigError(f"no timeline {timeline} in this run; it has 1 to {timelines}")
    return timeline - 1
