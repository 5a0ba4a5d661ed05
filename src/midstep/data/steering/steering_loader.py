"""Loaders of steering batches: resumable at every batch, the same batches for any world size."""

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
"""Samples before the cursor whose order is compared when a state is loaded."""


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
        dataset_dir: folder of the dataset; or a dataset whose tables are to be shared.
        split: `train`, `val` or `test`.
        batch_size: samples of a step **over all ranks**; each rank gets its part of them.
        num_workers: processes that make batches. The default, none, is fastest for tables in
            memory: two threads make batches ahead.
        shuffle: draw in random order; only for `train` when left out.
        drop_last: leave out a last batch that is not full; only for `train` when left out.
        distributed: `auto` asks `torch.distributed`; False is alone; or a pair (rank, world).
        prefetch: make batches ahead in threads, without workers.
        pin_memory: of the batches, where there is a GPU and the tables are on the CPU; False for
            never.
        seed: of the order; that of the dataset when left out.
        worker_options: further settings of `DataLoader`, such as `persistent_workers`.
        **dataset_options: for `JASPERSteeringDataset`: `epoch`, `device`, `force_steering`, …

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
        raise ConfigError(f"batches are made on {dataset.device}; leave pin_memory out")
    training = split == "train"
    return SteeringLoader(
        dataset,
        batch_size,
        shuffle=training if shuffle is None else shuffle,
        drop_last=training if drop_last is None else drop_last,
        seed=dataset.seed if seed is None else seed,
        ranks=RankInfo.detect(distributed),
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
        raise ConfigError(f"the dataset is open already; {unknown[0]} must be said when opening it")
    same = given.split == split and not options
    return given if same else given.for_split(split, **options)


class SteeringLoader(DataLoader[Batch]):
    """Batches of a split; made by `create_loader`.

    A pass over it is an epoch. Name the epoch with `set_epoch` (here or on `dataset_obj`); without,
    a shuffled loader moves on by itself after each complete pass. A pass that was broken off
    begins anew; after `load_state_dict` it goes on where the state was saved.

    A batch is a view of a buffer that is used again once nobody holds the batch any more.
    """

    def __init__(
        self,
        dataset: JASPERSteeringDataset,
        batch_size: int,
        *,
        shuffle: bool,
        drop_last: bool,
        seed: int,
        ranks: RankInfo,
        num_workers: int = 0,
        prefetch: bool = True,
        pin_memory: bool = False,
        **options: Any,
    ) -> None:
        self.batches = GlobalBatches(
            dataset, batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed, ranks=ranks
        )
        if not len(dataset):
            raise DatasetError(
                f"split {dataset.split!r} has no pairs; take another, or build the dataset with a "
                "share for it"
            )
        if not self.batches.samples:
            raise DatasetError(
                f"split {dataset.split!r} has {len(dataset)} pairs, not one batch of {batch_size}; "
                "take a smaller batch_size, or drop_last=False"
            )
        self.dataset_obj, self._prefetches = dataset, prefetch
        self._cursor = self._digest = 0
        self._epoch, self._epoch_changes = dataset.epoch, dataset.epoch_changes
        self._resumes = self._is_finished = False
        self._pass_number = 0
        super().__init__(
            dataset,
            batch_sampler=self.batches,
            collate_fn=_keep_batch,
            num_workers=num_workers,
            pin_memory=pin_memory,
            generator=RandomStream(seed, "workers").torch_generator(),
            **options,
        )

    # -- the place --------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch of the present or next pass."""
        return self.dataset_obj.epoch

    @property
    def cursor(self) -> int:
        """Samples of this epoch that were handed out, over all ranks."""
        return self._cursor if self._epoch == self.epoch else 0

    @property
    def ranks(self) -> RankInfo:
        """Which part of each global batch is given here."""
        return self.batches.ranks

    def set_epoch(self, epoch: int) -> None:
        """The next pass is `epoch`; after `load_state_dict`, naming its epoch keeps the place."""
        self.dataset_obj.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The place as plain data, under 1 KB, the same on every rank."""
        same = self._epoch == self.epoch
        return {
            "format": _FORMAT,
            "epoch": self.epoch,
            "cursor": self.cursor,
            **self._order_settings(),
            "digest": f"{self._digest if same else 0:016x}",
            "last": f"{self._recent_digest(self.cursor, self.epoch):016x}",
            "data": self.dataset_obj.fingerprint(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was saved, with any number of ranks and workers.

        Raises:
            DatasetError: if the data is other than it was; says which table or setting changed.
            FormatError: if the state is damaged or of another order.
        """
        if state.get("format") != _FORMAT:
            raise FormatError(f"loader state of format {state.get('format')}, expected {_FORMAT}")
        check_fingerprint(state["data"], self.dataset_obj.fingerprint())
        for name, now in self._order_settings().items():
            if state[name] != now:
                raise FormatError(
                    f"the order was saved with {name} {state[name]!r}, it is now {now!r}; resume "
                    "with the same or start anew"
                )
        epoch, cursor = int(state["epoch"]), int(state["cursor"])
        if not 0 <= cursor <= len(self.dataset_obj) or epoch < 0:
            raise FormatError(f"saved place {epoch}, {cursor} is outside of the data")
        if f"{self._recent_digest(cursor, epoch):016x}" != state["last"]:
            raise FormatError(f"the samples before {cursor} of epoch {epoch} come in another order")
        self.dataset_obj.set_epoch(epoch)
        self._epoch, self._cursor, self._digest = epoch, cursor, int(state["digest"], 16)
        self._resumes, self._is_finished = True, False
        self._pass_number += 1

    def _order_settings(self) -> dict[str, Any]:
        """What the order of an epoch is a function of."""
        batches = self.batches
        return {
            "length": len(self.dataset_obj),
            "seed": batches.seed,
            "algorithm": batches.algorithm,
        }

    def _recent_digest(self, cursor: int, epoch: int) -> int:
        """Digest of the order just before the cursor."""
        start = max(0, cursor - _COMPARED)
        return order_digest(0, start, self.batches.positions(start, cursor, epoch))

    # -- batches ----------------------------------------------------------------------------------

    def first_batch(self) -> Batch:
        """The first batch of the present epoch, without moving the place."""
        with closing(iterate_batches(self.batches, 0, self.epoch)) as source:
            drawn = next(source)
        batch: Batch = drawn.batch
        return batch

    def __iter__(self) -> Any:
        # Under an order policy of ours the sampler is another: then torch's own loop is right.
        if self.batch_sampler is not self.batches:
            return super().__iter__()
        return self._pass_from(*self._begin_pass())

    def _begin_pass(self) -> tuple[int, int]:
        """Epoch and first sample of a new pass."""
        dataset = self.dataset_obj
        counted = dataset.epoch_changes != self._epoch_changes
        if dataset.epoch == self._epoch and not self._resumes:
            if self._is_finished and self.batches.shuffle and not counted:
                dataset.set_epoch(dataset.epoch + 1)
            self._cursor = self._digest = 0
        elif dataset.epoch != self._epoch:
            self._cursor = self._digest = 0
        self._epoch, self._epoch_changes = dataset.epoch, dataset.epoch_changes
        self._resumes = self._is_finished = False
        self._pass_number += 1
        return self._epoch, self._cursor

    def _pass_from(self, epoch: int, cursor: int) -> Iterator[Batch]:
        number = self._pass_number
        source = (
            self._made_by_workers(epoch, cursor)
            if self.num_workers
            else self._made_here(epoch, cursor)
        )
        return self._track(source, number)

    def _track(self, source: Iterator[RankBatch], number: int) -> Iterator[Batch]:
        for drawn in source:
            if number == self._pass_number:  # of several passes the latest has the place
                self._digest = order_digest(self._digest, self._cursor, drawn.positions)
                self._cursor += len(drawn.positions)
                self._is_finished = self._cursor >= self.batches.samples
            batch = drawn.batch
            del drawn
            yield batch
            del batch
        if number == self._pass_number:
            self._is_finished = True

    def _made_here(self, epoch: int, cursor: int) -> Iterator[RankBatch]:
        pinned = bool(self.pin_memory)
        if not self._prefetches:
            return iterate_batches(self.batches, cursor, epoch, pinned=pinned)
        # What is mapped stays small only while one thread reads it; a device makes one at a time.
        several = not self.dataset_obj.mapped and self.dataset_obj.device.type == "cpu"
        source = plan_batches(self.batches, cursor, epoch, pinned=pinned)
        return prefetch(source, threads=THREADS if several else 1)

    def _made_by_workers(self, epoch: int, cursor: int) -> Iterator[RankBatch]:
        """Batches made by workers; the epoch goes to them with the positions."""
        self.batches.first_sample = cursor
        try:
            inner = super().__iter__()
        finally:
            self.batches.first_sample = 0
        return self._with_positions(inner, epoch, cursor)

    def _with_positions(
        self, inner: Iterator[Batch], epoch: int, cursor: int
    ) -> Iterator[RankBatch]:
        size, most = self.batches.batch_size, self.batches.samples
        for batch in inner:
            stop = min(cursor + size, most)
            yield RankBatch(batch, np.asarray(self.batches.positions(cursor, stop, epoch)))
            cursor = stop


def _keep_batch(batch: Any) -> Any:
    """The dataset makes whole batches; there is nothing to collate."""
    return batch
