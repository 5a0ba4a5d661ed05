"""`midstep runs export`: every scalar of a run as a table, for other programs."""

from __future__ import annotations

import io
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from midstep.cli.runs import RUNS, RunName, SaveDir, find_run
from midstep.core.errors import ConfigError
from midstep.core.storage import replacement

__all__ = ["export"]


class Format(StrEnum):
    """What the table is written as."""

    CSV = "csv"
    PARQUET = "parquet"


def export(
    run: RunName,
    form: Annotated[
        Format, typer.Option("--format", help="Parquet needs the extra of that name.")
    ] = Format.CSV,
    names: Annotated[
        list[str] | None,
        typer.Option("--names", help="Only these series: a,b or given again; all if left out."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; standard output if left out.")
    ] = None,
    timeline: Annotated[
        int | None,
        typer.Option("--timeline", min=0, help="As it was in that timeline, before a rewind."),
    ] = None,
    save_dir: SaveDir = RUNS,
) -> None:
    """Write the scalars of a run as one table: a row a step, a column a name.

    Examples: [bold]midstep runs export k3v9… --out run.csv[/bold] ·
    [bold]midstep runs export k3v9… --names loss,lr --format parquet --out run.parquet[/bold]
    """
    if form is Format.PARQUET and out is None:
        raise ConfigError("Parquet goes to a file; name one with --out run.parquet")
    from midstep.facts.export import WideTable, write_csv, write_parquet

    asked = None if not names else [name for part in names for name in part.split(",") if name]
    table = WideTable(find_run(run, save_dir), asked, timeline=timeline)
    if out is None:
        write_csv(table, sys.stdout)
        return
    with replacement(out) as file:
        if form is Format.PARQUET:
            write_parquet(table, file)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
        write_csv(table, text)
        text.detach()
