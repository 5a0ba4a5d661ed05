"""`midstep data import-events` reads ROOT files; `midstep data info FILE` describes a data file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from midstep.cli.data.build_dataset import parse_numbers
from midstep.cli.output.progress_bar import ProgressBar
from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.cli.output.text_format import format_bytes
from midstep.core.errors import ConfigError

IMPORT_HELP = """Import real collision events from ROOT files, for data.name=h5.

\b
  tokens   four-momentum and type of each particle, the 18 with the largest
           transverse momentum; ordered by type, then by momentum
  globals  values of the event as a whole, such as its missing momentum

A branch is PREFIX_COMPONENT, for example Jet_Px; in a prefix with {}, the
component takes its place: jet=jets.{}. Values keep their unit. A run computes
the z-scores on its training split.
"""


def import_events(
    files: Annotated[list[Path], typer.Argument(help="ROOT files with the same tree.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The new .h5 file; must not exist.")],
    tree: Annotated[str, typer.Option(help="Name of the tree.")] = "events",
    particles: Annotated[
        str, typer.Option(help="Types of tokens and prefixes of their branches.")
    ] = "jet=Jet,muon=Muon,electron=Electron,photon=Photon",
    components: Annotated[
        str, typer.Option(help="Names of px, py, pz and energy in the branches.")
    ] = "Px,Py,Pz,E",
    global_branches: Annotated[
        str, typer.Option("--globals", help="Branches with one value for each event.")
    ] = "MET_px,MET_py",
    label: Annotated[
        str | None, typer.Option(help="Branch with a class, or 1 for an anomaly.")
    ] = None,
    tokens: Annotated[int, typer.Option(help="Tokens of an event.")] = 18,
    ratios: Annotated[str, typer.Option(help="Shares of train, val, test.")] = "0.7,0.15,0.15",
    seed: Annotated[int, typer.Option(help="Seed of the division into splits.")] = 42,
    unit: Annotated[str, typer.Option(help="Unit of momenta and energies.")] = "GeV",
    as_json: AsJson = False,
) -> None:
    """Import events; `IMPORT_HELP` is what the user reads."""
    from midstep.data.sources.root_events import ImportConfig
    from midstep.data.sources.root_events import import_events as write

    splits = parse_numbers("--ratios", ratios, 3)
    config = ImportConfig(
        tree=tree,
        particles=_parse_particles(particles),
        components=tuple(components.split(",")),
        globals=tuple(global_branches.split(",")),
        label=label,
        n_tokens=tokens,
        ratios=dict(zip(("train", "val", "test"), splits, strict=True)),
        seed=seed,
        unit=unit,
    )
    screen = Screen()
    with ProgressBar(screen, quiet=as_json) as bar:
        result = write(files, out, config, progress=bar.show)
    if as_json:
        print_json({"file": str(out), **result.to_json()})
        return
    screen.print_line(f"{out}  {_format_counts(result.splits)}")
    screen.print_line(
        f"left out: {result.empty_events:,} events without a particle, "
        f"{result.dropped_particles:,} particles beyond {tokens} of an event"
    )
    screen.print_line(f"look at it with: midstep data info {out}")


def _parse_particles(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and equals and prefix for name, equals, prefix in pairs):
        raise ConfigError(
            f"--particles takes TYPE=PREFIX with commas, got {text!r}; write for example "
            "jet=Jet,muon=Muon"
        )
    return {name: prefix for name, _, prefix in pairs}


def print_file_info(path: Path, *, as_json: bool) -> None:
    """Print what a file of events or a table holds."""
    from midstep.data.sources.file_summary import summarize_file

    summary = summarize_file(path)
    if as_json:
        print_json(summary)
        return
    screen = Screen()
    what = "events" if summary["kind"] == "events" else "table of rows, 1 in y is an anomaly"
    screen.print_line(f"{path}  {what}, {format_bytes(summary['bytes'])}")
    if summary["kind"] == "events":
        _print_events(screen, summary)
    else:
        seed, anomalies = summary["seed"], summary["anomalies"]["test"]
        screen.print_line(f"{summary['rows']:,} rows of {summary['features']} features")
        screen.print_line(
            f"splits with data.seed={seed}: {_format_counts(summary['splits'])}; "
            f"{anomalies:,} anomalies in test"
        )
    screen.print_line(f"fingerprint: {summary['data_fingerprint']}")
    screen.print_line("")
    screen.print_table([("value", "unit", "min", "max"), *_range_rows(summary)], right=(2, 3))


def _print_events(screen: Screen, summary: dict[str, Any]) -> None:
    types = summary.get("type_names", [])
    names = f": {', '.join(types)}" if types else ""
    screen.print_line(
        f"{summary['n_tokens']} tokens of {summary['cont_dim']} values, {summary['globals']} "
        f"globals, {summary['num_types']} types{names}"
    )
    screen.print_line(f"splits: {_format_counts(summary['splits'])}")


def _range_rows(summary: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """A row for each value, with its name and unit where the file has them."""
    names = {"tokens_cont": "token_features", "globals": "global_features"}
    rows = []
    for table, ranges in summary["ranges"].items():
        count = len(ranges["min"])
        columns = summary.get(names.get(table, ""), [str(index) for index in range(count)])
        units = summary.get("units", {}).get(table, [""] * count)
        for name, unit, low, high in zip(columns, units, ranges["min"], ranges["max"], strict=True):
            rows.append((f"{table} {name}", unit, f"{low:.6g}", f"{high:.6g}"))
    return rows


def _format_counts(counts: Any) -> str:
    return ", ".join(f"{split} {count:,}" for split, count in counts.items())
