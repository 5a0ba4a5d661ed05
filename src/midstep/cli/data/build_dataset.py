"""`midstep data build` makes datasets from tables of texts; `data audit` finds leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from midstep.cli.output.progress_bar import ProgressBar
from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.core import strict_json
from midstep.core.errors import ConfigError

LEAKS_FOUND = 1
"""Exit code of `audit`, so that a script can stop on it; 2 means that the audit failed."""
SHOWN_LEAKS = 5


Kind = Literal["steering", "cluster", "triplets"]
"""Kinds of datasets to build."""
Form = Literal["memmap", "pt", "hdf5"]
"""The three storage forms of a dataset."""

BUILD_HELP = """Build a dataset from a table: question, source, relevance (0 to 1), keywords.

\b
  steering  pairs, clusters, steering vectors, hard negatives in four tiers
  cluster   sources labelled by cluster, one folder per split
  triplets  a question and two sources, one file per split

The build merges rows, counts texts that differ only in case or spacing once,
splits the questions, fits clusters on the training split, mines negatives
from each split's own sources, and checks everything. The folder appears only
when it is complete. An interrupted build continues when the same command is
started again.
"""

AUDIT_HELP = """Look for leaks between the splits: questions, source texts, near duplicates.

The exit code is 1 when there is a leak, and 2 when the dataset cannot be compared, for example
because vectors are not finite. docs/how-to/datasets/split-and-audit.md says what to do about leaks.
"""

_Tables = Annotated[
    list[Path], typer.Argument(help="CSV, TSV or Parquet files with the same columns.")
]
_Out = Annotated[Path, typer.Option("--out", "-o", help="The new folder; must not exist.")]
DatasetFolder = Annotated[Path, typer.Argument(help="Folder of the dataset, with config.json.")]


def build(
    tables: _Tables,
    out: _Out,
    kind: Annotated[Kind, typer.Option(help="Kind of dataset.")] = "steering",
    encoder: Annotated[
        str, typer.Option(help="hashing, hashing:WIDTH, or sentence:FOLDER.")
    ] = "hashing",
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="Folder with questions.npy and sources.npy, one row per table row; no encoder."
        ),
    ] = None,
    question_column: Annotated[str, typer.Option(help="Column of questions.")] = "question",
    source_column: Annotated[str, typer.Option(help="Column of sources.")] = "source",
    relevance_column: Annotated[str, typer.Option(help="Column of relevance.")] = "relevance",
    no_relevance: Annotated[
        bool, typer.Option("--no-relevance", help="There is no such column; it is 1 for all.")
    ] = False,
    keywords_column: Annotated[str, typer.Option(help="Column of keywords.")] = "keywords",
    split_column: Annotated[
        str | None, typer.Option(help="Column with train, val or test, instead of --ratios.")
    ] = None,
    ratios: Annotated[str, typer.Option(help="Shares of train, val, test.")] = "0.8,0.1,0.1",
    keep_together: Annotated[
        Literal["question", "source", "near_duplicate"],
        typer.Option(help="Rows that stay in one split."),
    ] = "near_duplicate",
    near_duplicate: Annotated[
        float, typer.Option(help="Cosine from which texts are near duplicates.")
    ] = 0.95,
    clusters: Annotated[
        int | None, typer.Option(help="Number of clusters; √(pairs / 2) if left out.")
    ] = None,
    negatives: Annotated[int, typer.Option(help="Negatives per pair.")] = 12,
    quotas: Annotated[
        str | None,
        typer.Option(help="Negatives of tiers 1 to 4; in proportion 4,3,3,2 if left out."),
    ] = None,
    margin: Annotated[
        float, typer.Option(help="A negative scores at most this share of the answer.")
    ] = 0.95,
    samples: Annotated[
        Literal["positive", "contrastive", "similar"],
        typer.Option(help="Kind of triplets; with --kind triplets."),
    ] = "contrastive",
    k: Annotated[
        int, typer.Option(help="Wrong or similar sources per question; with triplets.")
    ] = 5,
    seed: Annotated[int, typer.Option(help="Seed of split, clusters and random negatives.")] = 0,
    form: Annotated[Form, typer.Option(help="Storage form; see convert.")] = "memmap",
    as_json: AsJson = False,
) -> None:
    """Build a dataset; `BUILD_HELP` is what the user reads."""
    from midstep.data.build.build_config import BuildConfig
    from midstep.data.build.builders import build_cluster_dataset, build_dataset, build_triplets

    shares = parse_numbers("--ratios", ratios, 3)
    config = BuildConfig(
        tables=tables,
        out=out,
        encoder=encoder,
        embeddings=embeddings,
        question_column=question_column,
        source_column=source_column,
        relevance_column=None if no_relevance else relevance_column,
        keywords_column=keywords_column,
        split_column=split_column,
        ratios=dict(zip(("train", "val", "test"), shares, strict=True)),
        keep_together=keep_together,
        near_duplicate=near_duplicate,
        n_clusters=clusters,
        n_neg=negatives,
        quotas=_parse_quotas(quotas),
        margin=margin,
        seed=seed,
        form=form,
    )
    screen = Screen()
    try:
        with ProgressBar(screen, quiet=as_json) as bar:
            if kind == "triplets":
                folder = build_triplets(config, samples=samples, k=k, progress=bar.show)
            else:
                make = build_dataset if kind == "steering" else build_cluster_dataset
                folder = make(config, progress=bar.show)
    except KeyboardInterrupt:
        typer.echo("midstep: interrupted; the same command continues this build", err=True)
        raise
    record = strict_json.loads((folder / "build.json").read_bytes())
    outcome = _summarize(folder, kind, record)
    if as_json:
        print_json({"folder": str(folder), **outcome})
    else:
        _print_outcome(screen, folder, kind, record, outcome)


def parse_numbers(option: str, text: str, count: int) -> list[float]:
    """The numbers of an option that takes several, with commas between them."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        example = "0.8,0.1,0.1" if count == 3 else "4,3,3,2"
        raise ConfigError(
            f"{option} takes {count} numbers with commas, got {text!r}; write for example {example}"
        )
    return numbers


def _parse_quotas(text: str | None) -> dict[int, int]:
    if text is None:
        return {}
    numbers = parse_numbers("--quotas", text, 4)
    if any(not each.is_integer() for each in numbers):
        raise ConfigError(f"--quotas takes whole numbers, got {text!r}; write for example 4,3,3,2")
    return {tier: int(each) for tier, each in enumerate(numbers, start=1)}


def _summarize(folder: Path, kind: Kind, record: dict[str, Any]) -> dict[str, Any]:
    names = ("kind", "encoder", "splits", "samples", "triplets")
    outcome = {name: record[name] for name in names if name in record}
    if kind == "steering":
        ledger = strict_json.loads((folder / "ledger.json").read_bytes())
        report = strict_json.loads((folder / "audit.json").read_bytes())
        outcome["negatives"] = ledger["made"]
        outcome["short_pairs"], outcome["dropped"] = ledger["short_pairs"], ledger["dropped"]
        outcome["clean"] = report["clean"]
    return outcome


def _print_outcome(
    screen: Screen, folder: Path, kind: Kind, record: dict[str, Any], outcome: dict[str, Any]
) -> None:
    screen.print_line(f"{folder}  {kind}, encoder {record['encoder']['name']}")
    if kind == "triplets":
        screen.print_line(f"triplets: {_format_counts(record['triplets'])}")
        return
    if kind == "cluster":
        clusters = record["fitted"]["n_clusters"]
        screen.print_line(f"samples: {_format_counts(record['samples'])}; {clusters:,} clusters")
        return
    pairs = {split: each["pairs"] for split, each in record["splits"].items()}
    screen.print_line(f"pairs: {_format_counts(pairs)}; dropped {outcome['dropped']:,}")
    tiers = ", ".join(f"tier {tier}: {count:,}" for tier, count in outcome["negatives"].items())
    screen.print_line(
        f"negatives: {tiers}; {outcome['short_pairs']:,} pairs with a shortage (ledger.json)"
    )
    verdict = "clean" if outcome["clean"] else f"leaks found: midstep data audit {folder}"
    screen.print_line(f"audit: {verdict}")
    screen.print_line(f"look at it with: midstep data info {folder}")


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{split} {count:,}" for split, count in counts.items())


def audit(
    folder: DatasetFolder,
    near_duplicate: Annotated[
        float | None,
        typer.Option(
            help="Cosine (0 to 1) from which texts are near duplicates; as built if left out."
        ),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Put audit.json into the folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for leaks between splits; `AUDIT_HELP` is what the user reads."""
    from midstep.data.build.leak_audit import audit_dataset

    report = audit_dataset(folder, near_duplicate=near_duplicate, write=write)
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(Screen(), folder, report)
    if not report.clean:
        raise typer.Exit(LEAKS_FOUND)


def _print_report(screen: Screen, folder: Path, report: Any) -> None:
    verdict = "no leak between its splits" if report.clean else "leaks between its splits"
    screen.print_line(f"{folder}  {verdict}")
    for name, level in report.levels.items():
        threshold = "" if level.threshold is None else f" (cosine ≥ {level.threshold:g})"
        screen.print_line(f"{name.replace('_', ' ')}{threshold}: {level.leaks:,}")
        for each in level.examples[:SHOWN_LEAKS]:
            similarity = f", {each['similarity']:.3f}" if "similarity" in each else ""
            text = f"  {each['text'][:60]!r}" if "text" in each else ""
            screen.print_line(
                f"  {each['kind']} {each['row_a']} of {each['split_a']} = "
                f"{each['row_b']} of {each['split_b']}{similarity}{text}"
            )
