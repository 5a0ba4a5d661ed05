"""The one permutation of samples: the order of an epoch is a pure function of (seed, epoch).

Up to a million samples it is torch's `randperm` from a generator of its own. Above, where drawing
the whole permutation would take seconds, a Feistel network gives any slice in time proportional to
the slice. The algorithm's id is stored with every state, so that an order once used stays readable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from midstep.core.errors import ConfigError, FormatError
from midstep.core.streams import RandomStream
from midstep.data.feistel import Feistel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sized

__all__ = ["RANDPERM_LIMIT", "Algorithm", "EpochSeededRandomSampler", "Order"]

Algorithm = Literal["randperm-1", "feistel-1"]
"""Ids of the algorithms; the number rises when the same seed would give another order."""

RANDPERM_LIMIT = 1_000_000
"""Up to this many samples `auto` means `randperm-1`, above `feistel-1`."""

_BLOCK = 8192
"""Ids a sampler draws at once: large enough to hide the cost of a call, small beside a batch."""


class Order:
    """The order of `n` samples in one epoch; any slice of it, and the way back.

    Args:
        n: number of samples.
        seed: the run's seed.
        epoch: epoch, counted from 0. Hashed with the seed, never added to it.
        algorithm: `auto`, or the id stored with an earlier state.

    >>> Order(8, seed=0, epoch=0).ids(2, 5)
    tensor([4, 3, 1])
    >>> Order(100_000_000, seed=0, epoch=3).ids(50_000_000, 50_000_002).shape
    torch.Size([2])
    """

    def __init__(
        self, n: int, seed: int, epoch: int = 0, algorithm: Algorithm | Literal["auto"] = "auto"
    ) -> None:
        if n < 0 or epoch < 0:
            raise ConfigError(f"an order needs n >= 0 and epoch >= 0, got n={n}, epoch={epoch}")
        self.n, self.seed, self.epoch = int(n), int(seed), int(epoch)
        self.algorithm: Algorithm = _choose(algorithm, self.n)
        self._stream = RandomStream(seed, "order", epoch=epoch)
        self._feistel = Feistel(self.n, self._stream) if self.algorithm == "feistel-1" else None
        self._drawn: torch.Tensor | None = None
        self._inverse: torch.Tensor | None = None

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Order(n={self.n}, seed={self.seed}, epoch={self.epoch}, {self.algorithm})"

    def ids(self, start: int = 0, stop: int | None = None) -> torch.Tensor:
        """Sample ids at positions `start` to `stop` (int64), without drawing those before."""
        stop = self.n if stop is None else stop
        if not 0 <= start <= stop <= self.n:
            raise ConfigError(f"positions {start} to {stop} do not lie in an order of {self.n}")
        if self._feistel is None:
            return self._permutation()[start:stop].clone()
        positions = np.arange(start, stop, dtype=np.uint64)
        return torch.from_numpy(self._feistel.forward(positions).view(np.int64))

    def positions(self, ids: torch.Tensor) -> torch.Tensor:
        """Where in the epoch these samples come (int64); the inverse of `ids`."""
        self._check_ids(ids)
        if self._feistel is None:
            if self._inverse is None:
                self._inverse = torch.argsort(self._permutation())
            return self._inverse[ids.long()]
        numbers = ids.long().numpy().view(np.uint64).ravel()
        return torch.from_numpy(self._feistel.backward(numbers).view(np.int64)).view(ids.shape)

    def _check_ids(self, ids: torch.Tensor) -> None:
        low, high = (int(ids.min()), int(ids.max())) if ids.numel() else (0, -1)
        if low < 0 or high >= self.n:
            raise ConfigError(f"ids must lie in [0, {self.n}); got {low} to {high}")

    def _permutation(self) -> torch.Tensor:
        """The whole order, drawn once from a generator of its own."""
        if self._drawn is None:
            self._drawn = torch.randperm(self.n, generator=self._stream.torch_generator())
        return self._drawn


def _choose(algorithm: Algorithm | Literal["auto"], n: int) -> Algorithm:
    """The algorithm behind `auto`, or the named one if it is known."""
    if algorithm == "auto":
        return "randperm-1" if n <= RANDPERM_LIMIT else "feistel-1"
    if algorithm not in get_args(Algorithm):
        known = ", ".join(map(repr, get_args(Algorithm)))
        raise ConfigError(f"order algorithm {algorithm!r} is unknown; use 'auto' or one of {known}")
    return algorithm


class EpochSeededRandomSampler:
    """A sampler whose order is a pure function of `(base_seed, epoch)` and that can be resumed.

    The cursor counts trained samples: call `advance` after the optimizer step. Ids that prefetching
    workers have drawn but nobody has trained on are drawn again after a resume.

    Args:
        data_source: anything with a length.
        base_seed: the run's seed.

    >>> sampler = EpochSeededRandomSampler(range(6), base_seed=1)
    >>> ids = list(sampler)
    >>> sampler.advance(4)
    >>> list(sampler) == ids[4:]
    True
    """

    def __init__(self, data_source: Sized, base_seed: int) -> None:
        self.data_source, self.base_seed = data_source, int(base_seed)
        self.cursor = 0
        self._order = Order(len(data_source), self.base_seed, 0)

    @property
    def epoch(self) -> int:
        """The epoch whose order is given out."""
        return self._order.epoch

    def __len__(self) -> int:
        return self._order.n

    def __iter__(self) -> Iterator[int]:
        order = self._order
        for start in range(self.cursor, order.n, _BLOCK):
            yield from order.ids(start, min(start + _BLOCK, order.n)).tolist()

    def set_epoch(self, epoch: int) -> None:
        """Begin `epoch` at its first sample; naming the current epoch again changes nothing."""
        if epoch != self.epoch:
            self._order = Order(self._order.n, self.base_seed, epoch, self._order.algorithm)
            self.cursor = 0

    def advance(self, count: int) -> None:
        """Note that `count` further samples of this epoch have been trained on."""
        if not 0 <= count <= len(self) - self.cursor:
            raise ConfigError(f"cannot advance by {count} at {self.cursor} of {len(self)} samples")
        self.cursor += count

    def state_dict(self) -> dict[str, Any]:
        """Epoch, cursor, length, seed and the id of the algorithm."""
        order = self._order
        return {
            "epoch": order.epoch,
            "cursor": self.cursor,
            "length": order.n,
            "seed": self.base_seed,
            "algorithm": order.algorithm,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken; another length or a damaged cursor is refused."""
        if state["length"] != len(self):
            raise FormatError(
                f"the saved order has {state['length']} samples, the dataset now {len(self)}; "
                "resume with the same data or start a new run"
            )
        if not 0 <= state["cursor"] <= len(self):
            raise FormatError(f"saved cursor {state['cursor']} is outside 0 to {len(self)}")
        self.base_seed, self.cursor = int(state["seed"]), int(state["cursor"])
        self._order = Order(len(self), self.base_seed, state["epoch"], state["algorithm"])
