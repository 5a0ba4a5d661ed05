"""Steering batches of an embedding dataset: a question, its source, a steering vector, negatives.

A batch is planned first (which rows of which table), for many samples at once, and then filled by
one gather a table. Both are pure functions of (seed, epoch, pair id).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from midstep.core.errors import ConfigError, DatasetError
from midstep.core.random_streams import RandomStream
from midstep.data.steering.curriculum import Curriculum, curriculum_from, forced_variant
from midstep.data.steering.loaded_tables import LoadedTables
from midstep.data.steering.storage.layout import VARIANTS, Form, split_table
from midstep.data.steering.storage.tables import data_fingerprint

if TYPE_CHECKING:
    from numpy.typing import NDArray

Batch = dict[str, torch.Tensor]


class EpochIds(list[int]):
    """Positions of a batch together with their epoch, which so reaches workers that live on."""

    epoch: int | None = None

    @classmethod
    def of(cls, positions: Sequence[int], epoch: int) -> EpochIds:
        """The positions, of this epoch."""
        ids = cls(positions)
        ids.epoch = epoch
        return ids


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """What a run of samples is made of, row by row; slices of it make batches."""

    columns: Batch
    """`pair_id`, `cluster_id`, `steering_variant`, `relevance`, `centroid_distance`,
    `negative_tiers`: given out as they are."""
    question: torch.Tensor
    """[N] rows of question_embs."""
    source: torch.Tensor
    """[N] rows of source_embs."""
    steering: torch.Tensor
    """[N] rows of the steering tables, stacked."""
    negatives: torch.Tensor
    """[N, n_neg] rows of source_embs."""

    def __len__(self) -> int:
        return len(self.question)


class JASPERSteeringDataset(Dataset[Batch]):
    """A split of an embedding dataset, ready to give batches without touching a file.

    Args:
        dataset_dir: the folder with config.json.
        split: `train`, `val` or `test`.
        epoch: where the curriculum begins; see `set_epoch`.
        device: where tables are kept and batches are made. With `cuda` everything is copied there.
        storage_format: `memmap`, `pt`, `hdf5`, or `auto` for what is there.
        force_steering: `zero`, `centroid`, `keyword` or `residual` for every pair, in place of the
            curriculum.
        curriculum: a schedule or its name; the dataset's own when left out.
        n_neg: how many negatives to give; all that are stored when left out, in stored order. Fewer
            are chosen anew each epoch.
        seed: of variants and chosen negatives; `random_seed` of config.json when left out.
        mapped: leave the tables in their files and read them through memory mapping, for datasets
            larger than memory (form `memmap` only).
        verify: compare files with their hashes and look at every value. Shapes are always checked.

    Raises:
        DatasetError: naming file, index and value, for everything that is wrong at once.
    """

    def __init__(
        self,
        dataset_dir: str | Path,
        split: str = "train",
        *,
        epoch: int = 0,
        device: str | torch.device = "cpu",
        storage_format: Form | Literal["auto"] = "auto",
        force_steering: str | None = None,
        curriculum: Curriculum | str | Mapping[str, Any] | None = None,
        n_neg: int | None = None,
        seed: int | None = None,
        mapped: bool = False,
        verify: bool = True,
    ) -> None:
        split_table(split)
        self._tables = LoadedTables.load(
            Path(dataset_dir), storage_format, torch.device(device), mapped=mapped, verify=verify
        )
        config = self._tables.config
        self.split = split
        self.curriculum = curriculum_from(config.curriculum if curriculum is None else curriculum)
        self.seed = config.random_seed if seed is None else int(seed)
        self.n_neg = _check_n_neg(n_neg, config.n_neg)
        self._forced_variant = forced_variant(force_steering)
        self._epoch = _in_shared_memory(torch.zeros(2, dtype=torch.int64))
        self.set_epoch(epoch)

    # -- what it is -------------------------------------------------------------------------------

    @property
    def config(self) -> Any:
        """The dataset's config.json."""
        return self._tables.config

    @property
    def device(self) -> torch.device:
        """Where the batches are made."""
        return self._tables.device

    @property
    def mapped(self) -> bool:
        """Whether the tables are read from their files."""
        return self._tables.mapped

    @property
    def pair_ids(self) -> NDArray[np.int64]:
        """The pairs of this split; position i of the dataset is pair `pair_ids[i]`."""
        return self._tables.splits[self.split]

    @property
    def epoch(self) -> int:
        """The epoch whose variants are given."""
        return int(self._epoch[0])

    @property
    def epoch_changes(self) -> int:
        """How often an epoch was set, by which a loader knows that its user counts epochs."""
        return int(self._epoch[1])

    def set_epoch(self, epoch: int) -> None:
        """Move the curriculum to `epoch`; reaches workers that live already."""
        if epoch < 0:
            raise ConfigError(f"epochs count from 0, got {epoch}")
        self._epoch[0] = epoch
        self._epoch[1] += 1

    @property
    def force_steering(self) -> str | None:
        """The variant every pair gets, or None for the curriculum's choice."""
        return None if self._forced_variant is None else VARIANTS[self._forced_variant]

    def __len__(self) -> int:
        return len(self.pair_ids)

    def for_split(self, split: str, *, force_steering: str | None = None) -> JASPERSteeringDataset:
        """Another split over the same tables in memory, with an epoch of its own."""
        split_table(split)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.split, other._forced_variant = split, forced_variant(force_steering)
        other._epoch = _in_shared_memory(self._epoch.clone())
        return other

    def fingerprint(self) -> dict[str, str]:
        """By what the data is known again: a short digest for every table and setting."""
        settings = {
            "split": self.split,
            "curriculum": self.curriculum.describe(),
            "force_steering": self.force_steering,
            "n_neg": self.n_neg,
            "seed": self.seed,
            "steering_probabilities": dict(self.config.steering_probabilities),
        }
        memory = self._tables
        return data_fingerprint(memory.digests, settings, whole=memory.digested_whole)

    def stored_negatives(self, pair_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """All stored negatives (source ids) of these pairs: [N, stored n_neg]."""
        return np.asarray(self._tables.columns["hard_negatives"][pair_ids])

    def true_sources(self, pair_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The true source of each of these pairs."""
        return np.asarray(self._tables.columns["pair_index"][pair_ids][:, 1])

    # -- batches ----------------------------------------------------------------------------------

    def __getitem__(self, index: int) -> Batch:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return {key: value[0] for key, value in self.batch([index % len(self)]).items()}

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """A whole batch at once: what a `DataLoader` calls; its collate function passes it on."""
        return self.batch(indices, epoch=getattr(indices, "epoch", None))

    def batch(
        self, positions: Sequence[int] | NDArray[np.int64] | torch.Tensor, epoch: int | None = None
    ) -> Batch:
        """The samples at these positions of the split, in an epoch (the present one).

        >>> dataset = JASPERSteeringDataset("data/boolq", "train")  # doctest: +SKIP
        >>> dataset.batch([0, 5])["negative_embs"].shape  # doctest: +SKIP
        torch.Size([2, 12, 384])
        """
        plan = self.plan(np.asarray(positions, dtype=np.int64), epoch)
        return self.gather(plan, 0, len(plan))

    def plan(self, positions: NDArray[np.int64], epoch: int | None = None) -> BatchPlan:
        """Which rows these samples are made of, their variants and chosen negatives included."""
        epoch = self.epoch if epoch is None else epoch
        memory, pairs = self._tables, self.pair_ids[positions]
        read = memory.column
        distances = read("centroid_distances", pairs)
        variants = self.variants(pairs, epoch, distances)
        ends, negatives, tiers = (
            read(name, pairs) for name in ("pair_index", "hard_negatives", "negative_tiers")
        )
        if self.n_neg < negatives.shape[1]:
            stream = RandomStream(self.seed, "negatives", epoch=epoch)
            chosen = choose_columns(stream, pairs, negatives.shape[1], self.n_neg)
            negatives, tiers = (np.take_along_axis(t, chosen, axis=1) for t in (negatives, tiers))
        memory.check_rows(ends, negatives)
        columns = {
            "cluster_id": read("pair_cluster_id", pairs),
            "steering_variant": variants,
            "relevance": read("pair_relevance", pairs),
            "centroid_distance": distances,
            "negative_tiers": tiers,
            "pair_id": pairs,
        }
        return BatchPlan(
            columns={name: memory.to_device(value) for name, value in columns.items()},
            question=memory.to_device(ends[:, 0]),
            source=memory.to_device(ends[:, 1]),
            steering=memory.to_device(memory.steering_rows(pairs, variants)),
            negatives=memory.to_device(negatives),
        )

    def variants(
        self, pair_ids: NDArray[np.int64], epoch: int, distances: NDArray[np.float32] | None = None
    ) -> NDArray[np.int64]:
        """The steering variant of each pair in an epoch."""
        if self._forced_variant is not None:
            return np.full(len(pair_ids), self._forced_variant, dtype=np.int64)
        if distances is None:
            distances = self._tables.column("centroid_distances", pair_ids)
        stored = self.config.steering_probabilities
        return self.curriculum.variants(self.seed, epoch, pair_ids, distances, stored)

    def gather(
        self, plan: BatchPlan, start: int, stop: int, buffers: Buffers | None = None
    ) -> Batch:
        """Samples `start` to `stop` of a plan as a batch, gathered into one of the buffers."""
        count, memory = stop - start, self._tables
        rows = count * (3 + self.n_neg)
        if buffers is None:
            width = self.config.embedding_dim
            buffer = torch.empty(rows, width, device=memory.device)
        else:
            buffer = buffers.take()[:rows]
        question, source, steering = (buffer[at : at + count] for at in (0, count, 2 * count))
        negatives = buffer[3 * count :]
        memory.questions.gather(plan.question[start:stop], question)
        memory.sources.gather(plan.source[start:stop], source)
        memory.steering.gather(plan.steering[start:stop], steering)
        memory.sources.gather(plan.negatives[start:stop].view(-1), negatives)
        return {
            "question_emb": question,
            "target_source_emb": source,
            "steering": steering,
            "negative_embs": negatives.view(count, self.n_neg, -1),
            **{name: value[start:stop] for name, value in plan.columns.items()},
        }


def _in_shared_memory(tensor: Any) -> torch.Tensor:
    """In shared memory, so that workers which live already see a change."""
    shared: torch.Tensor = tensor.share_memory_()
    return shared


def _check_n_neg(asked: int | None, stored: int) -> int:
    if asked is None:
        return stored
    if not 1 <= asked <= stored:
        raise DatasetError(f"n_neg is {asked}, the dataset has 1 to {stored} negatives a pair")
    return asked


def choose_columns(
    stream: RandomStream, ids: NDArray[np.int64], columns: int, count: int
) -> NDArray[np.int64]:
    """For every id, `count` of `columns` columns, none twice, in rising order: [ids, count].

    >>> from midstep.core.random_streams import RandomStream
    >>> choose_columns(RandomStream(0, "negatives"), np.array([7, 8]), 4, 2).shape
    (2, 2)
    """
    at = ids[:, None] * columns + np.arange(columns)
    keys = stream.bits_at(at)
    first = (
        np.argpartition(keys, count - 1, axis=1)[:, :count] if count < columns else np.argsort(keys)
    )
    return np.sort(first, axis=1).astype(np.int64)


class Buffers(Protocol):
    """Where a batch is gathered into."""

    def take(self) -> torch.Tensor:
        """A buffer that nobody else holds."""
        ...
