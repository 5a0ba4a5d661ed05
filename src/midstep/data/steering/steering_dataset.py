"""Steering batches: for each sample a question, its source, a steering vector and negatives.

A batch is planned first (which rows of which table, for many samples at once) and then filled by
one gather per table. Both are pure functions of (seed, epoch, pair id).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from midstep.core.errors import ConfigError, DatasetError
from midstep.core.random_streams import RandomStream
from midstep.data.steering.curriculum import Curriculum, curriculum_from, forced_variant
from midstep.data.steering.loaded_tables import LoadedTables
from midstep.data.steering.storage.layout import VARIANTS, Form, split_table
from midstep.data.steering.storage.tables import data_fingerprint

Batch = dict[str, torch.Tensor]
NewBuffer = Callable[[], torch.Tensor]
"""Returns a buffer for one batch; the buffer may have more rows than the batch needs."""


class EpochIds(list[int]):
    """Positions of a batch with their epoch, so that persistent workers learn the epoch too."""

    epoch: int | None = None

    @classmethod
    def in_epoch(cls, positions: Sequence[int], epoch: int) -> EpochIds:
        """The positions of a batch in this epoch."""
        ids = cls(positions)
        ids.epoch = epoch
        return ids


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """Which rows a run of samples is gathered from; a slice of it becomes a batch."""

    columns: Batch
    """`pair_id`, `cluster_id`, `steering_variant`, `relevance`, `centroid_distance`,
    `negative_tiers`: part of the batch as they are."""
    question: torch.Tensor
    """[N] rows of question_embs."""
    source: torch.Tensor
    """[N] rows of source_embs."""
    steering: torch.Tensor
    """[N] rows of `SteeringRows`."""
    negatives: torch.Tensor
    """[N, n_neg] rows of source_embs."""

    def __len__(self) -> int:
        return len(self.question)


class JASPERSteeringDataset(Dataset[Batch]):
    """One split of a steering dataset. Its tables are in memory unless `mapped` is set.

    Args:
        dataset_dir: the folder with config.json.
        split: `train`, `val` or `test`.
        epoch: the first epoch of the curriculum; see `set_epoch`.
        device: where tables are kept and batches are gathered. `cuda` copies all tables there.
        storage_format: `memmap`, `pt`, `hdf5`, or `auto` for the form that is present.
        force_steering: `zero`, `centroid`, `keyword` or `residual` for every pair, instead of the
            curriculum.
        curriculum: a schedule or its name; by default the one in config.json.
        n_neg: negatives of a sample; by default all that are stored, in stored order. If fewer,
            each epoch chooses others.
        seed: seed of variants and chosen negatives; by default `random_seed` of config.json.
        mapped: leave the tables in their files and read them by memory mapping, for datasets
            larger than memory (form `memmap` only).
        verify: compare files with their hashes and check every value. Shapes are always checked.

    Raises:
        DatasetError: if anything is wrong; it lists every problem with file, index and value.
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
        self.n_neg = config.n_neg if n_neg is None else n_neg
        if not 1 <= self.n_neg <= config.n_neg:
            raise DatasetError(f"n_neg must be from 1 to {config.n_neg}, as stored; got {n_neg}")
        self._forced_variant = forced_variant(force_steering)
        # Epoch and number of changes, in shared memory: a plain attribute never reaches workers
        # that already run.
        self._epoch = _in_shared_memory(torch.zeros(2, dtype=torch.int64))
        self.set_epoch(epoch)

    # -- description ------------------------------------------------------------------------------

    @property
    def config(self) -> Any:
        """The dataset's config.json."""
        return self._tables.config

    @property
    def device(self) -> torch.device:
        """The device on which batches are gathered."""
        return self._tables.device

    @property
    def mapped(self) -> bool:
        """Whether the tables are mapped from their files."""
        return self._tables.mapped

    @property
    def pair_ids(self) -> NDArray[np.int64]:
        """The pairs of this split; position i of the dataset is pair `pair_ids[i]`."""
        return self._tables.splits[self.split]

    @property
    def epoch(self) -> int:
        """The epoch whose variants and negatives a batch has."""
        return int(self._epoch[0])

    @property
    def epoch_changes(self) -> int:
        """How often an epoch was set: a loader sees by it that the user sets epochs."""
        return int(self._epoch[1])

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the curriculum, also in workers that already run."""
        if epoch < 0:
            raise ConfigError(f"epochs count from 0, got {epoch}")
        self._epoch[0] = epoch
        self._epoch[1] += 1

    @property
    def force_steering(self) -> str | None:
        """The variant that every pair gets; None if the curriculum chooses."""
        return None if self._forced_variant is None else VARIANTS[self._forced_variant]

    def __len__(self) -> int:
        return len(self.pair_ids)

    def for_split(self, split: str, *, force_steering: str | None = None) -> JASPERSteeringDataset:
        """Another split over the same loaded tables; its epoch is set separately."""
        split_table(split)
        other = object.__new__(type(self))  # not `__init__`, which would load the tables again
        other.__dict__.update(self.__dict__)
        other.split, other._forced_variant = split, forced_variant(force_steering)
        other._epoch = _in_shared_memory(self._epoch.clone())
        return other

    def fingerprint(self) -> dict[str, str]:
        """Short digests of every table and setting, to recognise the same data at a resume."""
        settings = {
            "split": self.split,
            "curriculum": self.curriculum.describe(),
            "force_steering": self.force_steering,
            "n_neg": self.n_neg,
            "seed": self.seed,
            "steering_probabilities": dict(self.config.steering_probabilities),
        }
        tables = self._tables
        return data_fingerprint(tables.digests, settings, whole=tables.digested_whole)

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
        """A whole batch at once; a `DataLoader` calls this, and must not collate the result."""
        return self.batch(indices, epoch=getattr(indices, "epoch", None))

    def batch(
        self, positions: Sequence[int] | NDArray[np.int64] | torch.Tensor, epoch: int | None = None
    ) -> Batch:
        """The samples at these positions of the split, in an epoch (by default the current one).

        >>> dataset = JASPERSteeringDataset("data/boolq", "train")  # doctest: +SKIP
        >>> dataset.batch([0, 5])["negative_embs"].shape  # doctest: +SKIP
        torch.Size([2, 12, 384])
        """
        plan = self.plan(np.asarray(positions, dtype=np.int64), epoch)
        return self.gather(plan, 0, len(plan))

    def plan(self, positions: NDArray[np.int64], epoch: int | None = None) -> BatchPlan:
        """Decide the rows of these samples, with their variants and chosen negatives."""
        epoch = self.epoch if epoch is None else epoch
        tables, pairs = self._tables, self.pair_ids[positions]
        read = tables.column
        distances = read("centroid_distances", pairs)
        if self._forced_variant is not None:
            variants = np.full(len(pairs), self._forced_variant, dtype=np.int64)
        else:
            stored = self.config.steering_probabilities
            variants = self.curriculum.variants(self.seed, epoch, pairs, distances, stored)
        pair_index, negatives, tiers = (
            read(name, pairs) for name in ("pair_index", "hard_negatives", "negative_tiers")
        )
        if self.n_neg < negatives.shape[1]:
            # By pair id and not in the order of access, so that workers, ranks and a resume get
            # the same negatives.
            stream = RandomStream(self.seed, "negatives", epoch=epoch)
            chosen = choose_columns(stream, pairs, negatives.shape[1], self.n_neg)
            negatives, tiers = (np.take_along_axis(t, chosen, axis=1) for t in (negatives, tiers))
        tables.check_rows(pair_index, negatives)
        columns = {
            "cluster_id": read("pair_cluster_id", pairs),
            "steering_variant": variants,
            "relevance": read("pair_relevance", pairs),
            "centroid_distance": distances,
            "negative_tiers": tiers,
            "pair_id": pairs,
        }
        return BatchPlan(
            columns={name: tables.to_device(value) for name, value in columns.items()},
            question=tables.to_device(pair_index[:, 0]),
            source=tables.to_device(pair_index[:, 1]),
            steering=tables.to_device(tables.steering.rows(pairs, variants)),
            negatives=tables.to_device(negatives),
        )

    def gather(
        self, plan: BatchPlan, start: int, stop: int, new_buffer: NewBuffer | None = None
    ) -> Batch:
        """Gather samples `start` to `stop` of a plan into one buffer; a batch is views of it."""
        count, tables = stop - start, self._tables
        rows = count * (3 + self.n_neg)
        if new_buffer is None:
            buffer = torch.empty(rows, self.config.embedding_dim, device=tables.device)
        else:
            buffer = new_buffer()[:rows]
        question, source, steering = (buffer[at : at + count] for at in (0, count, 2 * count))
        negatives = buffer[3 * count :]
        tables.questions.gather(plan.question[start:stop], question)
        tables.sources.gather(plan.source[start:stop], source)
        tables.steering.gather(plan.steering[start:stop], steering)
        tables.sources.gather(plan.negatives[start:stop].view(-1), negatives)
        return {
            "question_emb": question,
            "target_source_emb": source,
            "steering": steering,
            "negative_embs": negatives.view(count, self.n_neg, -1),
            **{name: value[start:stop] for name, value in plan.columns.items()},
        }


def _in_shared_memory(tensor: Any) -> torch.Tensor:
    """Move a tensor to shared memory, so that workers that already run see a change."""
    shared: torch.Tensor = tensor.share_memory_()
    return shared


def choose_columns(
    stream: RandomStream, ids: NDArray[np.int64], columns: int, count: int
) -> NDArray[np.int64]:
    """For every id, choose `count` of `columns` columns, none twice, sorted: [ids, count].

    >>> from midstep.core.random_streams import RandomStream
    >>> choose_columns(RandomStream(0, "negatives"), np.array([7, 8]), 4, 2).shape
    (2, 2)
    """
    keys = stream.bits_at(ids[:, None] * columns + np.arange(columns))
    chosen = np.argpartition(keys, count - 1, axis=1)[:, :count]
    return np.sort(chosen, axis=1).astype(np.int64)
