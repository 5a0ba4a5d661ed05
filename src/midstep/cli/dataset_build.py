"""`midstep dataset build` and `audit`: datasets from tables of texts, and leaks between splits."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from midstep.cli.screen import Screen
from midstep.core import strict_json
from midstep.core.errors import ConfigError

__all__ = ["AUDIT_HELP", "BUILD_HELP", "audit", "build"]

LEAKS_FOUND = 1
SHOWN = 5


class Kind(StrEnum):
    """What is built."""

    steering = "steering"
    cluster = "cluster"
    triplets = "triplets"


class KeptTogether(StrEnum):
    """What a split does not tear apart."""

    question = "question"
    source = "source"
    near_duplicate = "near_duplicate"


class FormName(StrEnum):
    """The three physical forms."""

    memmap = "memmap"
    pt = "pt"
    hdf5 = "hdf5"


class SampleName(StrEnum):
    """Kinds of triplets."""

    positive = "positive"
    contrastive = "contrastive"
    similar = "similar"


BUILD_HELP = """Build a dataset from a table: question, source, relevance (0 to 1), keywords.

\b
  steering  pairs, clusters, steering vectors, hard negatives in four tiers
  cluster   sources labelled by cluster, a folder a split
  triplets  a question and two sources, a file a split

Rows are merged, texts that differ only in writing count once, questions are
split, clusters fitted on the training split, negatives mined from each
split's own sources, everything checked. The folder appears whole or not at
all; an interrupted build goes on where it stood when started again.
"""

AUDIT_HELP = """Look for leaks between the splits: questions, source texts, near duplicates.

The exit code is 1 when something is found, 2 when the dataset cannot be compared, as with vectors
that are not finite. docs/datasets/splitting.md tells what to do about leaks.
"""

_Tables = Annotated[
    list[Path], typer.Argument(help="CSV, TSV or Parquet files with the same columns.")
]
_Out = Annotated[Path, typer.Option("--out", "-o", help="The new folder; must not exist.")]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]


def build(
    tables: _Tables,
    out: _Out,
    kind: Annotated[Kind, typer.Option("--kind", help="What to build.")] = Kind.steering,
    encoder: Annotated[
        str, typer.Option("--encoder", help="hashing, hashing:WIDTH, or sentence:FOLDER.")
    ] = "hashing",
    embeddings: Annotated[
        Path | None,
        typer.Option(
            "--embeddings",
            help="Folder with questions.npy, sources.npy of the tables' rows, for no encoder.",
        ),
    ] = None,
    question_column: Annotated[str, typer.Option(help="Column of questions.")] = "question",
    source_column: Annotated[str, typer.Option(help="Column of sources.")] = "source",
    relevance_column: Annotated[str, typer.Option(help="Column of relevance.")] = "relevance",
    no_relevance: Annotated[
        bool, typer.Option("--no-relevance", help="No such column: every row counts 1.")
    ] = False,
    keywords_column: Annotated[str, typer.Option(help="Column of keywords.")] = "keywords",
    split_column: Annotated[
        str | None, typer.Option(help="Column that says train, val or test, in place of --ratios.")
    ] = None,
    ratios: Annotated[str, typer.Option(help="Shares of train, val, test.")] = "0.8,0.1,0.1",
    keep_together: Annotated[
        KeptTogether, typer.Option(help="What the split does not tear apart.")
    ] = KeptTogether.near_duplicate,
    near_duplicate: Annotated[
        float, typer.Option(help="Cosine from which texts are nearly the same.")
    ] = 0.95,
    clusters: Annotated[
        int | None, typer.Option(help="How many; √(pairs / 2) if left out.")
    ] = None,
    negatives: Annotated[int, typer.Option(help="Negatives of a pair.")] = 12,
    quotas: Annotated[
        str | None,
        typer.Option(help="Of tiers 1 to 4, of sum --negatives; as 4,3,3,2 if left out."),
    ] = None,
    margin: Annotated[
        float, typer.Option(help="Share of the answer's score a negative may reach.")
    ] = 0.95,
    samples: Annotated[
        SampleName, typer.Option(help="Kind of triplets, for --kind triplets.")
    ] = SampleName.contrastive,
    k: Annotated[
        int, typer.Option("--k", help="Wrong or similar sources of a question, likewise.")
    ] = 5,
    seed: Annotated[int, typer.Option(help="Of split, clusters, random negatives.")] = 0,
    form: Annotated[FormName, typer.Option(help="Physical form; see convert.")] = FormName.memmap,
    as_json: _Json = False,
) -> None:
    """Build a dataset; see `BUILD_HELP` for what the user reads."""
    from midstep.data.build.config import BuildConfig

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
        ratios=dict(zip(("train", "val", "test"), _numbers("--ratios", ratios, 3), strict=True)),
        keep_together=keep_together.value,
        near_duplicate=near_duplicate,
        n_clusters=clusters,
        n_neg=negatives,
        quotas=_quotas(quotas),
        margin=margin,
        seed=seed,
        form=form.value,
    )
    screen = Screen()
    try:
        with _Bar(screen, quiet=as_json) as bar:
            made = _builder(kind, samples, k)(config, bar.tell)
    except KeyboardInterrupt:
        typer.echo("midstep: interrupted; the same command goes on where this one stood", err=True)
        raise
    told = strict_json.loads((made / "build.json").read_bytes())
    if as_json:
        typer.echo(strict_json.dumps({"folder": str(made), **_outcome(made, kind, told)}))
        return
    _say_made(screen, made, kind, told)


def _builder(kind: Kind, samples: SampleName, k: int) -> Callable[[Any, Any], Path]:
    from midstep.data.build.building import build_dataset

    if kind is Kind.steering:
        return lambda config, tell: build_dataset(config, progress=tell)
    from midstep.data.build.other_kinds import build_cluster_dataset, build_triplets

    if kind is Kind.cluster:
        return lambda config, tell: build_cluster_dataset(config, progress=tell)
    return lambda config, tell: build_triplets(config, samples=samples.value, k=k, progress=tell)


def _numbers(option: str, text: str, count: int) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != count:
        example = "0.8,0.1,0.1" if count == 3 else "4,3,3,2"
        raise ConfigError(
            f"{option} takes {count} numbers with commas, got {text!r}; write for example {example}"
        )
    return found


def _quotas(text: str | None) -> dict[int, int]:
    if text is None:
        return {}
    found = _numbers("--quotas", text, 4)
    if any(not each.is_integer() for each in found):
        raise ConfigError(f"--quotas takes whole numbers, got {text!r}")
    return {tier: int(each) for tier, each in enumerate(found, start=1)}


class _Bar:
    """Progress: a bar in a terminal, a line for each finished stage elsewhere."""

    def __init__(self, screen: Screen, *, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._screen, self._quiet = screen, quiet
        self._bar = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=screen,
            disable=quiet or not screen.is_terminal,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def tell(self, progress: Any) -> None:
        """One step; see `Progress` of the builder."""
        name = progress.stage
        if self._bar.disable:
            if progress.done == progress.total and not self._quiet:
                self._screen.say(f"{name}{' (was done)' if progress.reused else ''}")
            return
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=progress.total)
        task = self._bar.tasks[self._tasks[name]]
        # The last word on a stage counts 1 of 1; the bar keeps the total it had.
        finished = progress.done == progress.total
        total = max(progress.total, int(task.total or 1))
        done = total if finished else progress.done
        self._bar.update(self._tasks[name], total=total, completed=done)


def _outcome(made: Path, kind: Kind, told: dict[str, Any]) -> dict[str, Any]:
    brief: dict[str, Any] = {}
    brief |= {
        name: told[name]
        for name in ("kind", "encoder", "splits", "samples", "triplets")
        if name in told
    }
    if kind is Kind.steering:
        ledger = strict_json.loads((made / "ledger.json").read_bytes())
        audit = strict_json.loads((made / "audit.json").read_bytes())
        brief["negatives"] = ledger["made"]
        brief["short_pairs"], brief["dropped"] = ledger["short_pairs"], ledger["dropped"]
        brief["clean"] = audit["clean"]
    return brief


def _say_made(screen: Screen, made: Path, kind: Kind, told: dict[str, Any]) -> None:
    brief = _outcome(made, kind, told)
    screen.say(f"{made}  {kind.value}, encoder {told['encoder']['name']}")
    if kind is Kind.triplets:
        counts = ", ".join(f"{split} {count:,}" for split, count in told["triplets"].items())
        screen.say(f"triplets: {counts}")
    if kind is Kind.cluster:
        counts = ", ".join(f"{split} {count:,}" for split, count in told["samples"].items())
        screen.say(f"samples: {counts}; {told['fitted']['n_clusters']:,} clusters")
    if kind is not Kind.steering:
        return
    counts = ", ".join(f"{split} {each['pairs']:,}" for split, each in told["splits"].items())
    screen.say(f"pairs: {counts}; dropped {brief['dropped']:,}")
    tiers = ", ".join(f"tier {tier}: {count:,}" for tier, count in brief["negatives"].items())
    screen.say(f"negatives: {tiers}; {brief['short_pairs']:,} pairs with a shortage (ledger.json)")
    verdict = "clean" if brief["clean"] else f"leaks found: midstep dataset audit {made}"
    screen.say(f"audit: {verdict}")
    screen.say(f"look at it with: midstep dataset info {made}")


def audit(
    folder: Annotated[Path, typer.Argument(help="Folder of the dataset, with config.json.")],
    near_duplicate: Annotated[
        float | None,
        typer.Option(
            help="Cosine (0 to 1) from which texts are nearly the same; as built if left out."
        ),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Put audit.json into the folder.")] = False,
    as_json: _Json = False,
) -> None:
    """Look for leaks between splits; see `AUDIT_HELP` for what the user reads."""
    from midstep.data.build.audit import audit_dataset

    report = audit_dataset(folder, near_duplicate=near_duplicate, write=write)
    if as_json:
        typer.echo(strict_json.dumps(report.to_json()))
    else:
        _say_report(Screen(), folder, report)
    if not report.clean:
        raise typer.Exit(LEAKS_FOUND)


def _say_report(screen: Screen, folder: Path, report: Any) -> None:
    verdict = "no leak between its splits" if report.clean else "its splits know of each other"
    screen.say(f"{folder}  {verdict}")
    for name, level in report.levels.items():
        at = "" if level.threshold is None else f" (cosine ≥ {level.threshold:g})"
        screen.say(f"{name.replace('_', ' ')}{at}: {level.leaks:,}")
        for each in level.examples[:SHOWN]:
            similar = f", {each['similarity']:.3f}" if "similarity" in each else ""
            text = f"  {each['text'][:60]!r}" if "text" in each else ""
            screen.say(
                f"  {each['kind']} {each['row_a']} of {each['split_a']} = "
                f"{each['row_b']} of {each['split_b']}{similar}{text}"
            )
