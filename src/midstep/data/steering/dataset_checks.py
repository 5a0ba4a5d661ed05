"""Checks of a steering dataset before training: the first batch of a loader, and a whole folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from midstep.core.errors import DatasetError
from midstep.data.steering.global_batches import RankInfo
from midstep.data.steering.steering_dataset import Batch, JASPERSteeringDataset
from midstep.data.steering.steering_loader import create_loader
from midstep.data.steering.storage.layout import SPLITS
from midstep.data.steering.storage.tables import open_tables
from midstep.data.steering.vectors import steering_problems

SHAPES: dict[str, str] = {
    "question_emb": "BD",
    "target_source_emb": "BD",
    "steering": "BD",
    "negative_embs": "BND",
    "cluster_id": "B",
    "steering_variant": "B",
    "relevance": "B",
    "centroid_distance": "B",
    "negative_tiers": "BN",
    "pair_id": "B",
}
"""Dimensions of each entry of a batch: B samples, N negatives, D numbers in an embedding."""
INTEGER_KEYS = ("cluster_id", "steering_variant", "negative_tiers", "pair_id")
RANGES: dict[str, tuple[float, float]] = {
    "steering_variant": (0, 3),
    "relevance": (0, 1),
    "centroid_distance": (-1e-3, 2.001),
    "negative_tiers": (1, 4),
}


def validate_first_batch(loader: Any) -> Batch:
    """Check the first batch of a loader, and return it.

    Checked are keys, shapes, types, finite values, the ranges of cluster ids, relevance, distance,
    variants and tiers, and that no negative is the true source. With several ranks also that their
    batches share no pair and that all ranks are in the same epoch; then every rank must call this.

    Args:
        loader: a loader of `create_loader`, whose cursor does not move; or any loader of such
            batches, from which one batch is drawn.

    Raises:
        DatasetError: (also an `AssertionError`) with the key, index and value of each problem.
    """
    first = getattr(loader, "first_batch", None)
    batch: Batch = first() if callable(first) else next(iter(loader))
    dataset = getattr(loader, "dataset_obj", getattr(loader, "dataset", None))
    problems = _batch_problems(
        batch, dataset if isinstance(dataset, JASPERSteeringDataset) else None
    )
    ranks = getattr(loader, "ranks", RankInfo())
    if ranks.world > 1:  # also if there are problems: the other ranks wait for this one
        problems += _rank_problems(batch, loader, problems)
    DatasetError.raise_if("the first batch is wrong", problems)
    return batch


def _batch_problems(batch: Any, dataset: JASPERSteeringDataset | None) -> list[str]:
    """What is wrong with a batch; ids are checked against the dataset if it is known."""
    if not isinstance(batch, Mapping):
        return [f"the batch is a {type(batch).__name__}, expected a mapping of tensors"]
    # Each check relies on the one before: no shapes without keys, no values without shapes.
    problems = [f"{key} is missing" for key in SHAPES if key not in batch]
    problems = problems or list(_shape_problems(batch))
    if problems:
        return problems
    for key in SHAPES:
        problems += _value_problems(key, batch[key])
    problems += _equal_sources(batch) if dataset is None else _dataset_problems(batch, dataset)
    return problems


def _shape_problems(batch: Mapping[str, Any]) -> Iterator[str]:
    sizes: dict[str, int] = {}
    for key, letters in SHAPES.items():
        value = batch[key]
        if not isinstance(value, torch.Tensor) or value.dim() != len(letters):
            given = list(getattr(value, "shape", ())) or type(value).__name__
            yield f"{key} is {given}, expected a tensor [{', '.join(letters)}]"
            continue
        for letter, size in zip(letters, value.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                yield f"{key} is {list(value.shape)}, expected {letter} = {sizes[letter]}"
        wanted = torch.int64 if key in INTEGER_KEYS else torch.float32
        if value.dtype != wanted:
            yield f"{key} has the type {value.dtype}, expected {wanted}"


def _value_problems(key: str, value: torch.Tensor) -> Iterator[str]:
    if value.is_floating_point():
        yield from _first_wrong(key, value, ~torch.isfinite(value), "a finite number")
    if key in RANGES:
        low, high = RANGES[key]
        expected = f"{round(low)} to {round(high)}"
        yield from _first_wrong(key, value, (value < low) | (value > high), expected)


def _first_wrong(
    key: str, value: torch.Tensor, wrong: torch.Tensor, expected: str
) -> Iterator[str]:
    if bool(wrong.any()):
        index = [int(each) for each in torch.nonzero(wrong)[0]]
        yield f"{key}{index} is {value[tuple(index)].item()}, expected {expected}"


def _dataset_problems(batch: Mapping[str, Any], dataset: JASPERSteeringDataset) -> Iterator[str]:
    """What does not fit the dataset: widths, clusters, pairs of the split, true sources."""
    config = dataset.config
    shape, wanted = list(batch["negative_embs"].shape[1:]), [dataset.n_neg, config.embedding_dim]
    if shape != wanted:
        yield f"negative_embs has [N, D] = {shape}, expected {wanted}"
    clusters, pairs = batch["cluster_id"], batch["pair_id"].cpu()
    wrong = (clusters < 0) | (clusters >= config.n_clusters)
    yield from _first_wrong("cluster_id", clusters, wrong, f"0 to {config.n_clusters - 1}")
    ids = pairs.numpy()
    unknown = torch.from_numpy(~np.isin(ids, dataset.pair_ids))
    yield from _first_wrong("pair_id", pairs, unknown, f"a pair of {dataset.split}")
    if unknown.any():
        return
    sources = dataset.true_sources(ids)
    for row, column in np.argwhere(dataset.stored_negatives(ids) == sources[:, None])[:1]:
        yield (
            f"negative_embs[{row}, {column}] is source {sources[row]}, the true source of pair "
            f"{ids[row]}"
        )


def _equal_sources(batch: Mapping[str, Any]) -> Iterator[str]:
    """Without a dataset there are no source ids: compare the vectors, number by number."""
    same = (batch["negative_embs"] == batch["target_source_emb"][:, None]).all(dim=2)
    for row, column in torch.nonzero(same)[:1].tolist():
        yield f"negative_embs[{row}, {column}] equals target_source_emb[{row}]"


def _rank_problems(batch: Any, loader: Any, local_problems: list[str]) -> list[str]:
    """Compare with the other ranks: the same epoch and seed, other pairs, no problems."""
    import torch.distributed as group

    if not (group.is_available() and group.is_initialized()):
        return []  # a pair (rank, world) was given: there is no process group to compare with
    pairs = batch["pair_id"].tolist() if isinstance(batch, Mapping) and "pair_id" in batch else []
    report = {
        "epoch": loader.epoch,
        "seed": loader.batches.seed,
        "pairs": pairs,
        "problems": len(local_problems),
    }
    reports: list[Any] = [None] * group.get_world_size()
    group.all_gather_object(reports, report)
    return list(_compare_ranks(reports))


def _compare_ranks(reports: list[dict[str, Any]]) -> Iterator[str]:
    for key in ("epoch", "seed"):
        for rank, each in enumerate(reports):
            if each[key] != reports[0][key]:
                yield f"{key} is {each[key]} on rank {rank}, {reports[0][key]} on rank 0"
                return
    owner: dict[int, int] = {}
    for rank, each in enumerate(reports):
        for index, pair in enumerate(each["pairs"]):
            if owner.setdefault(pair, rank) != rank:
                yield f"pair_id[{index}] is {pair} on rank {rank} and on rank {owner[pair]}"
                return
        if each["problems"]:
            yield f"rank {rank} reports {each['problems']} problems"


def validate_dataset(folder: str | Path) -> dict[str, int]:
    """Check a dataset on disk: hashes, shapes, values, splits, steering, first batch of each split.

    Returns:
        How many pairs each split has; empty splits are left out.

    Raises:
        DatasetError: if anything is wrong, with every problem.
    """
    dataset = JASPERSteeringDataset(folder)
    problems = steering_problems(open_tables(folder, verify=False))
    DatasetError.raise_if(f"the steering tables of {folder} are wrong", problems)
    checked = {}
    for split in SPLITS:
        part = dataset.for_split(split)
        if len(part):
            validate_first_batch(create_loader(part, split, min(256, len(part)), distributed=False))
            checked[split] = len(part)
    return checked
