"""Loaders of steering batches: resumable at every batch, the same batches for any rank count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader

from midstep.core.errors import ConfigError, DatasetError, FormatError
from midstep.core.random_streams import RandomStream
from midstep.data.steering.global_batches import GlobalBatches, RankInfo, order_digest
from midstep.data.steering.prefetch import (
    THREADS,
    RankBatch,
    iterate_batches,
    plan_batches,
    prefetch,
)
from midstep.data.steering.steering_dataset import Batch, JASPERSteeringDataset
from midstep.data.steering.storage.tables import check_fingerprint

_FORMAT = 1
_COMPARED = 256
"""Samples before the cursor whose order `load_state_dict` compares. Comparing all of them would
take time proportional to the epoch."""


def create_loader(
    dataset_dir: str | Path | JASPERSteeringDataset,
    split: str = "train",
    batch_size: int = 32,
    num_workers: int = 0,
    shuffle: bool | None = None,
    drop_last: bool | None = None,
    distributed: bool | tuple[int, int] | Literal["auto"] = "auto",
    prefetch: bool = True,
    pin_memory: bool | None = None,
    seed: int | None = None,
    worker_options: Mapping[str, Any] | None = None,
    **dataset_options: Any,
) -> SteeringLoader:
    """A loader of one split.

    Args:
        dataset_dir: folder of the dataset, or an open dataset whose tables the loader shares.
        split: `train`, `val` or `test`.
        batch_size: samples of a step **over all ranks**; each rank gets its part of them.
        num_workers: processes that gather batches. The default 0 is fastest for tables in memory:
            two threads gather batches ahead.
        shuffle: draw in random order; by default only for `train`.
        drop_last: leave out a last batch that is not full; by default only for `train`.
        distributed: `auto` takes the rank from `torch.distributed` if it is initialised; False
            means one rank; or a pair (rank, world).
        prefetch: gather batches ahead in threads, if there are no workers.
        pin_memory: pin batches; by default if there is a GPU and the tables are on the CPU.
        seed: seed of the order; by default that of the dataset.
        worker_options: further settings of `DataLoader`, such as `persistent_workers`.
        **dataset_options: settings of `JASPERSteeringDataset`: `epoch`, `device`,
            `force_steering`, …

    >>> loader = create_loader("data/boolq", "train", batch_size=256)  # doctest: +SKIP
    >>> for epoch in range(100):  # doctest: +SKIP
    ...     loader.set_epoch(epoch)
    ...     for batch in loader:
    ...         train(batch)
    """
    dataset = _dataset(dataset_dir, split, dataset_options)
    on_cpu = dataset.device.type == "cpu"
    if num_workers and not on_cpu:
        raise ConfigError(
            f"tables on {dataset.device} need no workers, got num_workers={num_workers}; leave it 0"
        )
    if pin_memory and not on_cpu:
        raise ConfigError(f"batches are gathered on {dataset.device}; leave pin_memory out")
    is_training = split == "train"
    batches = GlobalBatches(
        dataset,
        batch_size,
        shuffle=is_training if shuffle is None else shuffle,
        drop_last=is_training if drop_last is None else drop_last,
        seed=dataset.seed if seed is None else seed,
        ranks=RankInfo.detect(distributed),
    )
    return SteeringLoader(
        batches,
        num_workers=num_workers,
        prefetch=prefetch,
        pin_memory=pin_memory is not False and on_cpu and torch.cuda.is_available(),
        **(worker_options or {}),
    )


def _dataset(
    given: str | Path | JASPERSteeringDataset, split: str, options: Mapping[str, Any]
) -> JASPERSteeringDataset:
    if not isinstance(given, JASPERSteeringDataset):
        return JASPERSteeringDataset(given, split, **options)
    unknown = sorted(set(options) - {"force_steering"})
    if unknown:
        raise ConfigError(
            f"the dataset is open already; pass {unknown[0]} when you open it, not to the loader"
        )
    is_same = given.split == split and not options
    return given if is_same else given.for_split(split, **options)


class SteeringLoader(DataLoader[Batch]):
    """Batches of one split. `create_loader` creates it.

    A pass over it is an epoch. Set the epoch with `set_epoch`, here or on `dataset_obj`; if you
    never do, a shuffled loader goes to the next epoch after each complete pass. A pass that was
    broken off starts again; after `load_state_dict` the next pass continues where the state was
    saved.

    A batch is a view of a buffer. The loader uses the buffer again once nothing refers to it.
    """

    def __init__(self, batches: GlobalBatches, *, prefetch: bool, **options: Any) -> None:
        self.batches, dataset = batches, batches.dataset
        if not len(dataset):
            raise DatasetError(
                f"split {dataset.split!r} has no pairs; use another split, or build the dataset "
                "with a share for it"
            )
        if not batches.samples:
            raise DatasetError(
                f"split {dataset.split!r} has {len(dataset)} pairs, fewer than one batch of "
                f"{batches.batch_size}; use a smaller batch_size, or drop_last=False"
            )
        self.dataset_obj, self._prefetches = dataset, prefetch
        self._cursor = self._digest = 0
        self._epoch, self._epoch_changes = dataset.epoch, dataset.epoch_changes
        self._resumes = self._is_finished = False
        self._pass_number = 0
        super().__init__(
            dataset,
            batch_sampler=batches,
            collate_fn=_keep_batch,
            generator=RandomStream(batches.seed, "workers").torch_generator(),
            **options,
        )

    # -- position ---------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch of the current or next pass."""
        return self.dataset_obj.epoch

    @property
    def cursor(self) -> int:
        """How many samples of this epoch the loop has received, over all ranks."""
        return self._cursor if self._epoch == self.epoch else 0

    @property
    def ranks(self) -> RankInfo:
        """Which part of each global batch this process gets."""
        return self.batches.ranks

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; setting the epoch of a loaded state keeps its cursor."""
        self.dataset_obj.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position as plain data, under 1 KB, the same on every rank."""
        digest = self._digest if self._epoch == self.epoch else 0
        return {
            "format": _FORMAT,
            "epoch": self.epoch,
            "cursor": self.cursor,
            **self._order_settings(),
            "digest": f"{digest:016x}",
            "last": f"{self._recent_digest(self.cursor, self.epoch):016x}",
            "data": self.dataset_obj.fingerprint(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was saved, with any number of ranks and workers.

        Raises:
            DatasetError: if the data has changed; it names the tables and settings.
            FormatError: if the state is damaged or belongs to another order.
        """
        if state.get("format") != _FORMAT:
            raise FormatError(f"loader state of format {state.get('format')}, expected {_FORMAT}")
        check_fingerprint(state["data"], self.dataset_obj.fingerprint())
        for name, now in self._order_settings().items():
            if state[name] != now:
                raise FormatError(
                    f"the order was saved with {name} {state[name]!r}, it is now {now!r}; resume "
                    "with the same or start a new run"
                )
        epoch, cursor = int(state["epoch"]), int(state["cursor"])
        if not 0 <= cursor <= len(self.dataset_obj) or epoch < 0:
            raise FormatError(
                f"the saved position, epoch {epoch} and sample {cursor}, does not lie in the data"
            )
        if f"{self._recent_digest(cursor, epoch):016x}" != state["last"]:
            raise FormatError(
                f"the samples before sample {cursor} of epoch {epoch} come in another order now; "
                "resume with the version of midstep that saved the state, or start a new run"
            )
        self.dataset_obj.set_epoch(epoch)
        self._epoch, self._cursor, self._digest = epoch, cursor, int(state["digest"], 16)
        self._resumes, self._is_finished = True, False
        self._pass_number += 1

    def _order_settings(self) -> dict[str, Any]:
        """What the order of an epoch depends on."""
        batches = self.batches
        return {
            "length": len(self.dataset_obj),
            "seed": batches.seed,
            "algorithm": batches.algorithm,
        }

    def _recent_digest(self, cursor: int, epoch: int) -> int:
        """Digest of the order of the last samples before the cursor."""
        start = max(0, cursor - _COMPARED)
        return order_digest(0, start, self.batches.positions(start, cursor, epoch))

    # -- batches ----------------------------------------------------------------------------------

    def first_batch(self) -> Batch:
        """The first batch of the current epoch. The cursor does not move."""
        with closing(iterate_batches(self.batches, 0, self.epoch)) as source:
            batch: Batch = next(source).batch
        return batch

    def __iter__(self) -> Any:
        # Under an order policy of `attach` the loader has another sampler, and only torch's own
        # loop draws from it.
        if self.batch_sampler is not self.batches:
            return super().__iter__()
        epoch, cursor = self._begin_pass()
        gather = self._gather_in_workers if self.num_workers else self._gather_here
        return self._track(gather(epoch, cursor), self._pass_number)

    def _begin_pass(self) -> tuple[int, int]:
        """The epoch and the first sample of a new pass."""
        dataset = self.dataset_obj
        if dataset.epoch != self._epoch or not self._resumes:
            self._cursor = self._digest = 0
        user_sets_epochs = dataset.epoch_changes != self._epoch_changes
        if self._is_finished and self.batches.shuffle and not user_sets_epochs:
            dataset.set_epoch(dataset.epoch + 1)
        self._epoch, self._epoch_changes = dataset.epoch, dataset.epoch_changes
        self._resumes = self._is_finished = False
        self._pass_number += 1
        return self._epoch, self._cursor

    def _track(self, source: Iterator[RankBatch], number: int) -> Iterator[Batch]:
        """Count the samples of a pass. If several passes run, only the latest one counts."""
        for drawn in source:
            if number == self._pass_number:
                self._digest = order_digest(self._digest, self._cursor, drawn.positions)
                self._cursor += len(drawn.positions)
                self._is_finished = self._cursor >= self.batches.samples
            # No reference may stay here while the loop has the batch: its buffer is used again
            # only when the loop alone has referred to it.
            batch = drawn.batch
            del drawn
            yield batch
            del batch
        if number == self._pass_number:
            self._is_finished = True

    def _gather_here(self, epoch: int, cursor: int) -> Iterator[RankBatch]:
        pinned = bool(self.pin_memory)
        if not self._prefetches:
            return iterate_batches(self.batches, cursor, epoch, pinned=pinned)
        # One thread for mapped tables, because two would hold twice the pages in memory; and one
        # for a device, which runs one gather at a time.
        uses_threads = not self.dataset_obj.mapped and self.dataset_obj.device.type == "cpu"
        source = plan_batches(self.batches, cursor, epoch, pinned=pinned)
        return prefetch(source, threads=THREADS if uses_threads else 1)

    def _gather_in_workers(self, epoch: int, cursor: int) -> Iterator[RankBatch]:
        """Batches gathered by workers, which get the epoch together with the positions."""
        self.batches.first_sample = cursor
        try:
            inner = super().__iter__()
        finally:
            self.batches.first_sample = 0
        return self._with_positions(inner, epoch, cursor)

    def _with_positions(
        self, inner: Iterator[Batch], epoch: int, cursor: int
    ) -> Iterator[RankBatch]:
        size, samples = self.batches.batch_size, self.batches.samples
        for batch in inner:
            stop = min(cursor + size, samples)
            yield RankBatch(batch, np.asarray(self.batches.positions(cursor, stop, epoch)))
            cursor = stop


def _keep_batch(batch: Any) -> Any:
    """Collate nothing: the dataset gives whole batches."""
    return batch
