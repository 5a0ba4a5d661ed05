"""Cluster-labelled datasets: samples a second by batch and one by one, and what memory gives."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

from benchmarks.figures import Figure, spread_of
from midstep.data import ClusterLabeledDataset, ClusterSamples, write_cluster_dataset

__all__ = ["figures"]

SAMPLES, CLUSTERS, WIDTH, BATCH = 50_000, 50, 384, 256
BLOCK = 60
"""Batches in a block that is timed."""


def _written(folder: Path) -> Path:
    chance = np.random.default_rng(0)

    def floats(rows: int) -> np.ndarray:
        return chance.standard_normal((rows, WIDTH), dtype=np.float32)

    probabilities = chance.random((SAMPLES, CLUSTERS))
    return write_cluster_dataset(
        folder / "clusters",
        ClusterSamples(
            base_embeddings=floats(SAMPLES),
            steering_embeddings=floats(SAMPLES),
            centroids=floats(CLUSTERS),
            source_probabilities=probabilities / probabilities.sum(axis=1, keepdims=True),
        ),
    )


def _rates(draw: Callable[[], int], blocks: int = 25) -> list[float]:
    """Samples a second of every block; the first, which warms up, is left out."""
    rates = []
    for _ in range(blocks + 1):
        begun = time.perf_counter()
        count = draw()
        rates.append(count / (time.perf_counter() - begun))
    return rates[1:]


def _batches(dataset: ClusterLabeledDataset) -> Callable[[], int]:
    chance = np.random.default_rng(1)
    plans = [chance.integers(len(dataset), size=BATCH).tolist() for _ in range(BLOCK)]

    def draw() -> int:
        for plan in plans:
            dataset.batch(plan)
        return BLOCK * BATCH

    return draw


def _loader(dataset: ClusterLabeledDataset) -> Callable[[], int]:
    loader = DataLoader(dataset, BATCH, shuffle=True, collate_fn=dataset.collate)
    return lambda: sum(len(batch[0]) for batch in loader)


def _one_by_one(dataset: ClusterLabeledDataset) -> Callable[[], int]:
    places = np.random.default_rng(2).integers(len(dataset), size=BATCH).tolist()

    def draw() -> int:
        for place in places:
            dataset[place]
        return BATCH

    return draw


def _ceilings(dataset: ClusterLabeledDataset) -> str:
    """The two gathers and the same bytes copied in one piece, in this process, right now."""
    tables = [torch.randn(len(dataset), WIDTH) for _ in range(2)]
    ids = [torch.randint(len(dataset), (BATCH,)) for _ in range(BLOCK)]
    into, other = torch.empty(2 * BATCH, WIDTH), torch.empty(2 * BATCH, WIDTH)

    def gather() -> int:
        for each in ids:
            torch.index_select(tables[0], 0, each, out=into[:BATCH])
            torch.index_select(tables[1], 0, each, out=into[BATCH:])
        return BLOCK * BATCH

    def copy() -> int:
        for _ in ids:
            other.copy_(into)
        return BLOCK * BATCH

    gathers, copies = (statistics.median(_rates(each, 9)) for each in (gather, copy))
    return f"gather {gathers:,.0f}/s, memcpy {copies:,.0f}/s"


def figures() -> Iterator[Figure]:
    """Samples a second in every way of reading, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            dataset = ClusterLabeledDataset(_written(Path(folder)))
            yield from _measured(dataset)
    finally:
        torch.set_num_threads(threads)


def _measured(dataset: ClusterLabeledDataset) -> Iterator[Figure]:
    note = _ceilings(dataset)
    for name, draw, bar in (
        ("cluster-labelled samples by batch of 256, mapped", _batches(dataset), 200_000),
        ("the same through `DataLoader` with `dataset.collate`", _loader(dataset), None),
        ("the same one sample at a time", _one_by_one(dataset), None),
    ):
        value, low, high = spread_of(_rates(draw, 9 if bar is None else 25))
        yield Figure(
            name=name,
            value=value,
            unit="samples/s",
            low=low,
            high=high,
            bar=bar,
            at_least=True,
            note=note if bar else "",
        )
