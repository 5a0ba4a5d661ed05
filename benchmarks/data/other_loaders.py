"""Steering batches of one other library beside ours, in the environment where this runs.

python -m benchmarks.data.other_loaders grain

`make bench ARGS=loaders` makes an environment for each library and runs this in it. Everybody gets
the same samples, in memory or in the library's own form on disk, and gives batches of tensors in
random order. Block by block they take turns with ours; each row has the ceilings that memory sets
in this very process. Torch computes in one thread, which suits the others best.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from benchmarks.data.bench_datasets import (
    BATCH,
    Endless,
    PerSample,
    small_config,
    tables_of,
    times_as_fast,
)
from benchmarks.data.memory_ceilings import one_thread, told_ceilings
from benchmarks.figures import Figure
from midstep.data import JASPERSteeringDataset, create_loader, write_dataset

__all__ = ["BAR", "OTHERS", "Other", "measure"]

BAR = 10.0
"""How many times as fast as one sample at a time ours must be."""
PAIRS = 8192
"""Few enough for the forms that store the negatives of every pair."""
BLOCK = 4
"""Batches of theirs in a block that is timed; ten times as many of ours."""


def _rows(dataset: JASPERSteeringDataset) -> dict[str, torch.Tensor]:
    """Every sample written out, negatives and all, as flat rows."""
    batch = dataset.batch(range(len(dataset)))
    return {name: value.flatten(1) if value.dim() > 2 else value for name, value in batch.items()}


def stateful(dataset: JASPERSteeringDataset, folder: Path) -> Any:
    """The loader of torchdata around a per-sample dataset."""
    del folder
    library = importlib.import_module("torchdata.stateful_dataloader")
    return library.StatefulDataLoader(PerSample(dataset), batch_size=BATCH, shuffle=True)


def _arrow(dataset: JASPERSteeringDataset) -> Any:
    library = importlib.import_module("datasets")
    rows = {name: value.numpy() for name, value in _rows(dataset).items()}
    return library.Dataset.from_dict(rows).with_format("torch")


def hugging_face(dataset: JASPERSteeringDataset, folder: Path) -> Any:
    """A Hugging Face dataset (Arrow) in torch's DataLoader, which collates samples."""
    del folder
    return DataLoader(_arrow(dataset), batch_size=BATCH, shuffle=True)


def hugging_face_by_batch(dataset: JASPERSteeringDataset, folder: Path) -> Any:
    """The same asked for whole batches of rows, so that there is nothing to collate."""
    del folder
    stored = _arrow(dataset)
    batches = BatchSampler(RandomSampler(stored), BATCH, drop_last=True)
    return DataLoader(stored, batch_size=None, sampler=batches)


def lit(dataset: JASPERSteeringDataset, folder: Path) -> Any:
    """Chunks of litdata on disk, streamed.

    By default (`batch_decode="auto"`) it decodes neighbours along with each item, and took over ten
    times as long with these samples; item by item is as good as any other setting of it.
    """
    library = importlib.import_module("litdata")
    cache = importlib.import_module("litdata.streaming.cache").Cache(
        str(folder / "chunks"), chunk_bytes="64MB"
    )
    rows = _rows(dataset)
    for index in range(len(dataset)):
        cache[index] = {name: value[index].clone() for name, value in rows.items()}
    cache.done()
    cache.merge()
    stored = library.StreamingDataset(str(folder / "chunks"), shuffle=True, batch_decode=False)
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


@dataclass(frozen=True, kw_only=True)
class Other:
    """A library that is compared with."""

    package: str
    """Its name for pip."""
    ways: dict[str, Callable[[JASPERSteeringDataset, Path], Any]]
    """How it may be asked, by what a row calls it; the bar is for the first."""
    required: bool = True
    """Whether its row is missed when it cannot be measured."""


OTHERS = {
    "stateful": Other(
        package="torchdata", ways={"torchdata's StatefulDataLoader, per sample": stateful}
    ),
    "huggingface": Other(
        package="datasets",
        ways={
            "Hugging Face datasets in torch's DataLoader": hugging_face,
            "Hugging Face datasets asked by batch": hugging_face_by_batch,
        },
    ),
    "grain": Other(package="grain", ways={"grain, per sample": grain}, required=False),
    "litdata": Other(package="litdata", ways={"litdata, item by item": lit}, required=False),
}


def measure(name: str) -> Iterator[Figure]:
    """A row for each way to ask this library."""
    config = small_config(n_pairs=PAIRS, n_sources=PAIRS, n_questions=PAIRS // 2)
    with tempfile.TemporaryDirectory() as root, one_thread():
        folder = write_dataset(Path(root) / "dataset", tables_of(config), config)
        dataset = JASPERSteeringDataset(folder)
        bar: float | None = BAR
        for way, make in OTHERS[name].ways.items():
            loader = make(dataset, Path(root))
            _same_samples(dataset, next(iter(loader)))
            version = metadata.version(OTHERS[name].package)
            yield _against(dataset, loader, f"{way} ({version})", bar)
            bar = None


def _same_samples(dataset: JASPERSteeringDataset, batch: dict[str, torch.Tensor]) -> None:
    """Theirs are the rows that ours are; the variant of the steering is drawn anew."""
    ours = dataset.batch(batch["pair_id"].tolist())
    for key in ("question_emb", "target_source_emb", "negative_embs", "relevance"):
        if not torch.equal(batch[key].reshape(ours[key].shape), ours[key]):
            raise AssertionError(f"{key} of its batch differs from ours: no fair comparison")


def _against(dataset: JASPERSteeringDataset, loader: Any, who: str, bar: float | None) -> Figure:
    ours, theirs = Endless(create_loader(dataset, "train", BATCH)), Endless(loader)
    name = f"steering loader against {who}"
    found = times_as_fast(ours, theirs, BLOCK, name=name, bar=bar, told=told_ceilings())
    ours.close()
    theirs.close()
    return found


def main(name: str, answer: Path | None = None) -> int:
    """Print the rows of a library, or write them to a file as JSON."""
    found = []
    for figure in measure(name):
        print(figure.row(), flush=True)
        found.append(dataclasses.asdict(figure))
    if answer is not None:
        answer.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in OTHERS:
        sys.exit(f"name a library: {', '.join(OTHERS)}")
    sys.exit(main(sys.argv[1], *map(Path, sys.argv[2:3])))
