"""The batches of an epoch: one global order, cut in the same way for any number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import ConfigError
from midstep.core.random_streams import mix_words, stream_key
from midstep.data.order.permutation import Algorithm, Order
from midstep.data.steering.steering_dataset import EpochIds, JASPERSteeringDataset

_MASK = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True)
class RankInfo:
    """The rank of this process, and the number of ranks."""

    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise ConfigError(f"rank must be from 0 to {self.world - 1}, got {self.rank}")

    @classmethod
    def detect(cls, distributed: bool | tuple[int, int] | Literal["auto"]) -> RankInfo:
        """The rank from `torch.distributed` (`auto`, True), from a pair (rank, world), or 0 of 1.

        Raises:
            ConfigError: if `distributed` is True and there is no process group.
        """
        if isinstance(distributed, tuple):
            return cls(rank=distributed[0], world=distributed[1])
        import torch.distributed as group

        has_group = group.is_available() and group.is_initialized()
        if distributed is True and not has_group:
            raise ConfigError(
                "distributed=True needs an initialised process group; call "
                "torch.distributed.init_process_group first, or leave distributed at 'auto'"
            )
        if distributed and has_group:
            return cls(rank=group.get_rank(), world=group.get_world_size())
        return cls()

    def rank_slice(self, count: int) -> slice:
        """This rank's part of a global batch of `count` samples; the parts differ by one at most.

        >>> [RankInfo(rank=rank, world=3).rank_slice(8) for rank in range(3)]
        [slice(0, 2, None), slice(2, 5, None), slice(5, 8, None)]
        """
        return slice(count * self.rank // self.world, count * (self.rank + 1) // self.world)


class GlobalBatches:
    """A batch sampler that gives this rank's part of each batch, as a function of (seed, epoch).

    Args:
        dataset: the dataset; its epoch decides the order.
        batch_size: samples of a global batch, over all ranks.
        shuffle: draw in random order.
        drop_last: leave out a last batch that is not full.
        seed: the seed of the order.
        ranks: this rank, and how many there are.
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
    ) -> None:
        if batch_size < ranks.world:
            raise ConfigError(
                f"batch_size counts the samples of all ranks: {batch_size} is too few for "
                f"{ranks.world} ranks; pass at least {ranks.world}"
            )
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        self.drop_last, self.seed, self.ranks = drop_last, seed, ranks
        self.first_sample = 0
        self._order: Order | None = None
        self.algorithm: Algorithm | Literal["sequential"] = "sequential"
        if shuffle:
            self.algorithm = Order(len(dataset), seed).algorithm

    @property
    def samples(self) -> int:
        """How many samples an epoch has, over all ranks."""
        count = len(self.dataset)
        return count - count % self.batch_size if self.drop_last else count

    def __len__(self) -> int:
        return (self.samples + self.batch_size - 1) // self.batch_size

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the dataset, and so that of the order."""
        self.dataset.set_epoch(epoch)

    def __iter__(self) -> Iterator[EpochIds]:
        return self._from(self.first_sample, self.dataset.epoch)

    def _from(self, cursor: int, epoch: int) -> Iterator[EpochIds]:
        # Batch k is cut from the global order before it is divided among the ranks. So it is the
        # same set for any number of ranks, and a run can resume with more or fewer.
        for start in range(cursor, self.samples, self.batch_size):
            ids = self.positions(start, min(start + self.batch_size, self.samples), epoch)
            yield EpochIds.in_epoch(ids[self.ranks.rank_slice(len(ids))].tolist(), epoch)

    def positions(self, start: int, stop: int, epoch: int) -> NDArray[np.int64]:
        """Dataset positions `start` to `stop` of the global order."""
        if self.algorithm == "sequential":
            return np.arange(start, stop, dtype=np.int64)
        # In a local variable: the thread of an earlier pass may replace `_order` by its epoch's.
        order = self._order
        if order is None or order.epoch != epoch:
            order = self._order = Order(len(self.dataset), self.seed, epoch, self.algorithm)
        ids: NDArray[np.int64] = order.ids(start, stop).numpy()
        return ids


def order_digest(before: int, start: int, ids: NDArray[np.int64]) -> int:
    """A running sum of hashes of (position, id): equal for equal orders, however they were cut.

    >>> ids = np.array([4, 2, 9])
    >>> order_digest(order_digest(0, 0, ids[:1]), 1, ids[1:]) == order_digest(0, 0, ids)
    True
    """
    positions = np.arange(start, start + len(ids), dtype=np.uint64)
    words = mix_words(positions * np.uint64(_POSITION_FACTOR) + ids.view(np.uint64))
    return (before + int(words.sum(dtype=np.uint64))) & _MASK


_POSITION_FACTOR = stream_key(0, "place") | 1
"""An odd number, so that multiplying positions by it modulo 2^64 keeps them distinct."""
