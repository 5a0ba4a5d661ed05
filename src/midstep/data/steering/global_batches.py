"""The batches of an epoch: one global order, cut the same way whatever the number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from midstep.core.errors import ConfigError
from midstep.core.random_streams import mix_words, stream_key
from midstep.data.order.permutation import Algorithm, Order
from midstep.data.steering.steering_dataset import EpochIds, JASPERSteeringDataset

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MASK = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True)
class RankInfo:
    """Which of how many processes this one is."""

    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise ConfigError(f"rank must lie in 0 to {self.world - 1}, got {self.rank}")

    @classmethod
    def detect(cls, distributed: bool | tuple[int, int] | Literal["auto"]) -> RankInfo:
        """From `torch.distributed` (`auto`, True), a pair (rank, world), or alone (False)."""
        if isinstance(distributed, tuple):
            return cls(rank=distributed[0], world=distributed[1])
        import torch.distributed as group

        begun = group.is_available() and group.is_initialized()
        if distributed is True and not begun:
            raise ConfigError(
                "distributed=True needs an initialised process group; call "
                "torch.distributed.init_process_group before, or leave distributed at 'auto'"
            )
        if distributed and begun:
            return cls(rank=group.get_rank(), world=group.get_world_size())
        return cls()

    def rank_slice(self, count: int) -> slice:
        """This rank's part of a global batch: the ranks' parts in a row are the batch.

        >>> [RankInfo(rank=rank, world=3).rank_slice(8) for rank in range(3)]
        [slice(0, 2, None), slice(2, 5, None), slice(5, 8, None)]
        """
        return slice(count * self.rank // self.world, count * (self.rank + 1) // self.world)


class GlobalBatches:
    """A batch sampler: position lists of this rank, a pure function of (seed, epoch).

    Args:
        dataset: whose positions are drawn, and whose epoch is followed.
        batch_size: of the global batch, over all ranks.
        shuffle: draw in random order.
        drop_last: leave out a last batch that is not full.
        seed: of the order.
        ranks: who we are.
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
                f"batch_size is the global one: {batch_size} is too few for {ranks.world} ranks"
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
        """Samples of an epoch, over all ranks."""
        count = len(self.dataset)
        return count - count % self.batch_size if self.drop_last else count

    def __len__(self) -> int:
        return (self.samples + self.batch_size - 1) // self.batch_size

    def set_epoch(self, epoch: int) -> None:
        """Move the dataset, and with it the order, to an epoch."""
        self.dataset.set_epoch(epoch)

    def __iter__(self) -> Iterator[EpochIds]:
        return self._from(self.first_sample, self.dataset.epoch)

    def _from(self, cursor: int, epoch: int) -> Iterator[EpochIds]:
        for start in range(cursor, self.samples, self.batch_size):
            ids = self.positions(start, min(start + self.batch_size, self.samples), epoch)
            yield EpochIds.of(ids[self.ranks.rank_slice(len(ids))].tolist(), epoch)

    def positions(self, start: int, stop: int, epoch: int) -> NDArray[np.int64]:
        """Dataset positions `start` to `stop` of the global order."""
        if self.algorithm == "sequential":
            return np.arange(start, stop, dtype=np.int64)
        order = self._order  # a local one: the thread of an earlier pass may ask for its epoch
        if order is None or order.epoch != epoch:
            order = self._order = Order(len(self.dataset), self.seed, epoch, self.algorithm)
        found: NDArray[np.int64] = order.ids(start, stop).numpy()
        return found


def order_digest(before: int, start: int, ids: NDArray[np.int64]) -> int:
    """A running sum of hashes of (place, id): equal for equal orders, however they were cut.

    >>> ids = np.array([4, 2, 9])
    >>> order_digest(order_digest(0, 0, ids[:1]), 1, ids[1:]) == order_digest(0, 0, ids)
    True
    """
    positions = np.arange(start, start + len(ids), dtype=np.uint64)
    words = mix_words(positions * np.uint64(_POSITION_FACTOR) + ids.view(np.uint64))
    return (before + int(words.sum(dtype=np.uint64))) & _MASK


_POSITION_FACTOR = stream_key(0, "place") | 1
"""Any odd number: it keeps places and ids apart."""
