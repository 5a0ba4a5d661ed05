"""Steering batches beside other loaders, whichever of them is installed where this runs.

python -m benchmarks.other_loaders

They have conflicting requirements, so each is measured in an environment of its own, for example

    python -m venv env-grain
    env-grain/bin/python -m pip install -c constraints.txt -e . psutil grain
    env-grain/bin/python -m benchmarks.other_loaders

and `make bench` does without. Everybody gets the same samples, in memory or in the library's own
form on disk, and gives batches of tensors in random order. Block by block they take turns with
ours; each row has the ceilings that memory sets in this very process.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks.bench_datasets import BATCH, Endless, PerSample, small_config, tables_of
from benchmarks.figures import Figure, alternating_ratio
from benchmarks.memory_ceilings import one_thread, told_ceilings
from midstep.data import JASPERSteeringDataset, create_loader, write_dataset

PAIRS = 8192
"""Few enough for the forms that store the negatives of every pair."""
FEW = 3


def _rows(dataset: JASPERSteeringDataset) -> dict[str, Any]:
    """Every sample written out, negatives and all, as flat rows."""
    batch = dataset.batch(range(len(dataset)))
    return {name: value.flatten(1) if value.dim() > 2 else value for name, value in batch.items()}


def stateful(dataset: JASPERSteeringDataset, folder: Path) -> Any:
    """The loader of torchdata around a per-sample dataset."""
    del folder
    library = importlib.import_module("torchdata.stateful_dataloader")
    return library.StatefulDataLoader(PerSample(dataset), batch_size=BATCH, shuffle=True)


def hugging_face(dataset: JASPERSteeringDataset, folder: Path) -> Any:
    """A Hugging Face dataset (Arrow) in torch's DataLoader."""
    del folder
    library = importlib.import_module("datasets")
    rows = {name: value.numpy() for name, value in _rows(dataset).items()}
    stored = library.Dataset.from_dict(rows).with_format("torch")
    return DataLoader(stored, batch_size=BATCH, shuffle=True)


def lit(dataset: JASPERSteeringDataset, folder: Path) -> Any:
    """Chunks of litdata on disk, streamed."""
    library = importlib.import_module("litdata")
    cache = importlib.import_module("litdata.streaming.cache").Cache(
        str(folder / "chunks"), chunk_bytes="64MB"
    )
    rows = _rows(dataset)
    for index in range(len(dataset)):
        cache[index] = {name: value[index].clone() for name, value in rows.items()}
    cache.done()
    cache.merge()
    stored = library.StreamingDataset(str(folder / "chunks"), shuffle=True)
    return library.StreamingDataLoader(stored, batch_size=BATCH)


def grain(dataset: JASPERSteeringDataset, folder: Path) -> Any:
    """Google's grain over rows in memory."""
    del folder
    library = importlib.import_module("grain.python")
    rows = {name: value.numpy() for name, value in _rows(dataset).items()}

    class Source:
        def __len__(self) -> int:
            return len(dataset)

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {name: value[index] for name, value in rows.items()}

    made = library.MapDataset.source(Source()).shuffle(seed=1).batch(BATCH, drop_remainder=True)
    # Its threads would work through our turns; without them each draws in its own.
    alone = library.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    return made.map(_tensors).to_iter_dataset(read_options=alone)


def _tensors(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(value) for name, value in batch.items()}


OTHERS: dict[str, tuple[str, Callable[[JASPERSteeringDataset, Path], Any]]] = {
    "StatefulDataLoader (torchdata), per sample": ("torchdata", stateful),
    "Hugging Face datasets in DataLoader": ("datasets", hugging_face),
    "litdata": ("litdata", lit),
    "grain": ("grain", grain),
}


def main() -> int:
    """Print a row for each library that is there."""
    config = small_config(n_pairs=PAIRS, n_sources=PAIRS, n_questions=PAIRS // 2)
    with tempfile.TemporaryDirectory() as root, one_thread():
        folder = write_dataset(Path(root) / "dataset", tables_of(config), config)
        dataset = JASPERSteeringDataset(folder)
        ours = Endless(create_loader(dataset, "train", BATCH))
        for name, (library, make) in OTHERS.items():
            if importlib.util.find_spec(library) is None:
                print(f"{name}: not installed here (pip install {library})")
                continue
            theirs = Endless(make(dataset, Path(root)))
            value, low, high = alternating_ratio(
                lambda: ours.draw(FEW * 10) / 10,
                lambda theirs=theirs: theirs.draw(FEW),  # type: ignore[misc]
                pairs=10,
            )
            speeds = f"{FEW / theirs.draw(FEW):.0f}/s, ours {30 / ours.draw(30):.0f}/s"
            note = f"{speeds}; {told_ceilings()}"
            figure = Figure(
                name=f"steering loader against {name} {metadata.version(library)}",
                value=value,
                unit="×",
                low=low,
                high=high,
                note=note,
            )
            print(figure.row(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
