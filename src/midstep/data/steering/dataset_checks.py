"""A look at the first batch before hours of training: everything that can be told from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from midstep.core.errors import DatasetError
from midstep.data.steering.global_batches import RankInfo
from midstep.data.steering.steering_dataset import Batch, JASPERSteeringDataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]


# B samples, N negatives, D numbers in an embedding
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
INTEGER_KEYS = ("cluster_id", "steering_variant", "negative_tiers", "pair_id")
RANGES: dict[str, tuple[float, float]] = {
    "steering_variant": (0, 3),
    "relevance": (0, 1),
    "centroid_distance": (-1e-3, 2.001),
    "negative_tiers": (1, 4),
}


def validate_first_batch(loader: Any) -> Batch:
    """Check the first batch of a loader, and give it back.

    Keys, shapes, types, NaN, ranges of cluster ids, relevance, distance, variants and tiers, and
    that no true source is among its negatives. With several ranks also that their batches have no
    pair in common and that all stand in the same epoch; every rank must call it then.

    Args:
        loader: of `create_loader`, whose place stays as it is; or any loader of such batches, from
            which one batch is drawn.

    Raises:
        DatasetError: (also an `AssertionError`) naming key, index and value.
    """
    first = getattr(loader, "first_batch", None)
    batch: Batch = first() if callable(first) else next(iter(loader))
    dataset = getattr(loader, "dataset_obj", getattr(loader, "dataset", None))
    known = dataset if isinstance(dataset, JASPERSteeringDataset) else None
    problems = list(batch_problems(batch, known))
    ranks = getattr(loader, "ranks", RankInfo())
    if ranks.world > 1:  # also with problems: the others wait for us
        problems += _rank_problems(batch, loader, problems)
    if problems:
        raise DatasetError("the first batch is not what it should be", problems)
    return batch


def batch_problems(batch: Any, dataset: JASPERSteeringDataset | None = None) -> Iterator[str]:
    """What is wrong with a batch; with its dataset at hand, ids are checked against it too."""
    if not isinstance(batch, Mapping):
        yield f"the batch is a {type(batch).__name__}, expected a mapping of tensors"
        return
    missing = [f"{key} is missing" for key in SHAPES if key not in batch]
    yield from missing
    if missing:
        return
    shapes = list(_shape_problems(batch))
    yield from shapes
    if shapes:
        return
    for key in SHAPES:
        yield from _value_problems(key, batch[key])
    if dataset is not None:
        yield from _dataset_problems(batch, dataset)
    else:
        yield from _equal_sources(batch)


def _shape_problems(batch: Mapping[str, Any]) -> Iterator[str]:
    sizes: dict[str, int] = {}
    for key, letters in SHAPES.items():
        value = batch[key]
        if not isinstance(value, torch.Tensor) or value.dim() != len(letters):
            found = list(getattr(value, "shape", ())) or type(value).__name__
            yield f"{key} is {found}, expected a tensor [{', '.join(letters)}]"
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
        said = f"{round(low)} to {round(high)}"
        yield from _first_wrong(key, value, (value < low) | (value > high), said)


def _first_wrong(
    key: str, value: torch.Tensor, wrong: torch.Tensor, expected: str
) -> Iterator[str]:
    if bool(wrong.any()):
        at = [int(each) for each in torch.nonzero(wrong)[0]]
        yield f"{key}{at} is {value[tuple(at)].item()}, expected {expected}"


def _dataset_problems(batch: Mapping[str, Any], dataset: JASPERSteeringDataset) -> Iterator[str]:
    """Against the dataset: widths, clusters, pairs of the split, true sources."""
    config = dataset.config
    found, wanted = list(batch["negative_embs"].shape[1:]), [dataset.n_neg, config.embedding_dim]
    if found != wanted:
        yield f"negative_embs has [N, D] = {found}, expected {wanted}"
    clusters, pairs = batch["cluster_id"], batch["pair_id"].cpu()
    wrong = (clusters < 0) | (clusters >= config.n_clusters)
    yield from _first_wrong("cluster_id", clusters, wrong, f"0 to {config.n_clusters - 1}")
    strange = ~np.isin(pairs.numpy(), dataset.pair_ids)
    yield from _first_wrong(
        "pair_id", pairs, torch.from_numpy(strange), f"a pair of {dataset.split}"
    )
    if strange.any():
        return
    ids = pairs.numpy()
    among = dataset.stored_negatives(ids) == dataset.true_sources(ids)[:, None]
    if among.any():
        row, column = (int(each) for each in np.argwhere(among)[0])
        source = dataset.true_sources(ids)[row]
        yield f"negative_embs[{row}, {column}] is source {source}, the true one of pair {ids[row]}"


def _equal_sources(batch: Mapping[str, Any]) -> Iterator[str]:
    """Without ids, a negative that equals the true source in every number is taken for it."""
    same = (batch["negative_embs"] == batch["target_source_emb"][:, None]).all(dim=2)
    if bool(same.any()):
        row, column = (int(each) for each in torch.nonzero(same)[0])
        yield f"negative_embs[{row}, {column}] equals target_source_emb[{row}]"


def _rank_problems(batch: Any, loader: Any, own: list[str]) -> list[str]:
    """Compare with the other ranks: the same epoch, order and number of problems, other pairs."""
    import torch.distributed as group

    if not (group.is_available() and group.is_initialized()):
        return []  # ranks given by hand have no one to ask
    pairs = batch["pair_id"].tolist() if isinstance(batch, Mapping) and "pair_id" in batch else []
    mine = {"epoch": loader.epoch, "seed": loader.batches.seed, "pairs": pairs, "wrong": len(own)}
    reports: list[Any] = [None] * group.get_world_size()
    group.all_gather_object(reports, mine)
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
        if each["wrong"]:
            yield f"rank {rank} found {each['wrong']} problems of its own"


ROWS = 4096


def validate_dataset(folder: str | Path) -> dict[str, int]:
    """Check a dataset on disk: hashes, shapes, values, splits, steering, a first batch of each.

    Returns:
        How many pairs each split has; empty ones are left out.

    Raises:
        DatasetError: with everything that is wrong.
    """
    from midstep.data.steering.steering_dataset import JASPERSteeringDataset
    from midstep.data.steering.steering_loader import create_loader
    from midstep.data.steering.storage.layout import SPLITS
    from midstep.data.steering.storage.tables import open_tables
    from midstep.data.steering.vectors import steering_problems

    dataset = JASPERSteeringDataset(folder)
    problems = list(steering_problems(open_tables(folder, verify=False)))
    if problems:
        raise DatasetError(f"the steering tables of {folder} are wrong", problems)
    checked = {}
    for split in SPLITS:
        part = dataset.for_split(split)
        if len(part):
            validate_first_batch(create_loader(part, split, min(256, len(part)), distributed=False))
            checked[split] = len(part)
    return checked
