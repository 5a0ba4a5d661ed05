"""`midstep dataset`: embedding datasets built, looked at, checked, converted."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from midstep.cli.dataset_build import AUDIT_HELP, BUILD_HELP, FormName, audit, build
from midstep.cli.dataset_kinds import checked_parts, other_kind, say_other_kind
from midstep.cli.screen import Screen
from midstep.cli.wording import aligned
from midstep.core import strict_json

__all__ = ["app"]

app = typer.Typer(
    help=(
        "Embedding datasets for retrieval steering: build one from a table, look at it, check it, "
        "change its form.\n\n"
        "A dataset is a folder with [bold]config.json[/bold] and one table a file: questions, "
        "sources, keywords, centroids, pairs of a question and a source, steering vectors, hard "
        "negatives, splits. docs/datasets tells of each."
    ),
    epilog=(
        "Examples: [bold]midstep dataset build pairs.csv --out data/boolq[/bold] · "
        "[bold]midstep dataset info data/boolq[/bold] · "
        "[bold]midstep dataset validate data/boolq[/bold] · "
        "[bold]midstep dataset audit data/boolq[/bold] · "
        "[bold]midstep dataset convert data/boolq data/boolq-hdf5 --form hdf5[/bold]"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_Folder = Annotated[Path, typer.Argument(help="Folder of the dataset, with config.json.")]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]


class PrecisionName(StrEnum):
    """How wide embeddings are stored."""

    float32 = "float32"
    float16 = "float16"


# Lines of a help text with a list in it are shown as they are: short enough for 80 columns.
_CONVERT_HELP = """Write a dataset anew in another form; its batches stay the same to the byte.

\b
  memmap  a .npy file a table: opens at once, may be larger than memory
  pt      a .pt file a table: for tools that read tensors
  hdf5    one file, dataset.h5, to hand around: pip install 'midstep\\[data]'

The new folder appears whole or not at all, with the hash of every file in
its config.json. Older folders of .pt files, with keyword ids as lists of
lists, are read too. float16 halves the size of embeddings and steering
vectors and rounds them; batches are float32 in any case.
"""


app.command(
    "build",
    help=BUILD_HELP,
    epilog="Example: midstep dataset build pairs.csv --out data/boolq --encoder sentence:minilm",
)(build)
app.command("audit", help=AUDIT_HELP, epilog="Example: midstep dataset audit data/boolq")(audit)


@app.command(
    "convert",
    help=_CONVERT_HELP,
    epilog="Example: midstep dataset convert old/ new/ --form memmap --precision float16",
)
def convert(
    source: _Folder,
    target: Annotated[Path, typer.Argument(help="The new folder; must not exist.")],
    form: Annotated[FormName, typer.Option("--form", help="Form of the new one.")] = (
        FormName.memmap
    ),
    precision: Annotated[
        PrecisionName | None,
        typer.Option("--precision", help="Of embeddings and steering; as it is if left out."),
    ] = None,
) -> None:
    """Write a dataset in another form; see `_CONVERT_HELP` for what the user reads."""
    from midstep.data.embedding.writing import convert as write

    made = write(
        source, target, form.value, precision=None if precision is None else precision.value
    )
    screen = Screen()
    screen.say(f"{made}  {form.value}, {_size(_bytes(made))}")
    screen.say(f"check it with: midstep dataset validate {made}")


@app.command("info", epilog="Example: midstep dataset info data/boolq --json")
def info(folder: _Folder, as_json: _Json = False) -> None:
    """Show what a dataset holds: counts, splits, curriculum, tables; of any kind."""
    from midstep.data.embedding.tables import open_tables

    other = other_kind(folder)
    told = other or {"kind": "steering", **_described(open_tables(folder, verify=False))}
    if as_json:
        typer.echo(strict_json.dumps(told))
    elif other:
        say_other_kind(Screen(), folder, other)
    else:
        _say_steering(Screen(), folder, told)


def _say_steering(screen: Screen, folder: Path, told: dict[str, Any]) -> None:
    counts = told["counts"]
    screen.say(
        f"{folder}  {told['form']}, {_size(told['bytes'])}, "
        f"{'with' if told['hashed'] else 'without'} hashes"
    )
    screen.say(
        f"{counts['n_pairs']:,} pairs of {counts['n_questions']:,} questions and "
        f"{counts['n_sources']:,} sources, {counts['n_neg']} negatives each, "
        f"{counts['n_clusters']:,} clusters, {counts['n_keywords']:,} keywords, "
        f"D = {counts['embedding_dim']}"
    )
    splits = ", ".join(f"{name} {count:,}" for name, count in told["splits"].items())
    screen.say(f"splits: {splits}; seed {told['random_seed']}")
    screen.say(f"steering: {told['steering_definition']}; curriculum {told['curriculum']['name']}")
    epochs = [
        (str(each["epoch"]), *(f"{share:.2f}" for share in each["shares"]), _limit(each))
        for each in told["schedule"]
    ]
    head = ("epoch", "zero", "centroid", "keyword", "residual", "distance ≤")
    _say_table(screen, head, epochs)
    _say_table(
        screen,
        ("table", "shape", "type", "size"),
        [
            (each["name"], " × ".join(map(str, each["shape"])), each["type"], _size(each["bytes"]))
            for each in told["tables"]
        ],
    )


@app.command("validate", epilog="Example: midstep dataset validate data/boolq")
def validate(folder: _Folder, as_json: _Json = False) -> None:
    """Check a dataset: hashes, shapes, every id and value, splits, steering, a first batch.

    Of cluster labels every checksum and label is checked, of triplets every line.

    Everything that is wrong is told, with file, index and value; the exit code is 2 then.
    """
    from midstep.data.build.checking import validate_dataset
    from midstep.data.embedding.config import read_config

    other = other_kind(folder)
    found = checked_parts(folder, other["kind"]) if other else validate_dataset(folder)
    if as_json:
        typer.echo(strict_json.dumps({"valid": True, "splits": found}))
        return
    if other:
        Screen().say(f"{folder} is whole: every file of {', '.join(found)} checked")
        return
    hashed = "every hash, shape and value" if read_config(folder).files else "every shape and value"
    Screen().say(f"{folder} is whole: {hashed} checked, first batches of {', '.join(found)}")


def _described(tables: Any) -> dict[str, Any]:
    from midstep.data.embedding.curriculum import curriculum_from
    from midstep.data.embedding.layout import SPLITS, Ragged, split_table

    config = tables.config
    schedule = curriculum_from(config.curriculum)
    rows = []
    for name, table in tables.items():
        parts = [table.offsets, table.values] if isinstance(table, Ragged) else [table]
        rows.append(
            {
                "name": name,
                "shape": ["ragged"] if len(parts) > 1 else list(table.shape),
                "type": str(parts[-1].dtype),
                "bytes": sum(part.nbytes for part in parts),
            }
        )
    return {
        "form": tables.form,
        "bytes": _bytes(tables.folder),
        "hashed": bool(config.files),
        "counts": config.counts,
        "splits": {split: len(tables[split_table(split)]) for split in SPLITS},
        "random_seed": config.random_seed,
        "steering_definition": config.steering_definition,
        "curriculum": schedule.describe(),
        "schedule": [
            {
                "epoch": epoch,
                "shares": list(schedule.shares(epoch, config.steering_probabilities)),
                "distance": schedule.largest_distance(epoch),
            }
            for epoch in (0, 5, 10, 20, 30, 40, 100)
        ],
        "tables": rows,
        "extra": dict(config.extra),
    }


def _say_table(screen: Screen, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    screen.say("")
    for line in aligned([head, *rows], right=range(1, len(head))):
        screen.say(line)


def _limit(each: dict[str, Any]) -> str:
    return "any" if each["distance"] is None else f"{each['distance']:.2f}"


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
