"""Samplers whose order depends on the seed and the epoch alone.

`EpochSeededRandomSampler` is our own. `SeededIndices` runs a user's sampler under private random
generators: the order of an epoch is what the sampler gives when every generator it can reach is
seeded from (seed, "order", epoch).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from itertools import islice
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from midstep.core.errors import ConfigError, FormatError
from midstep.core.random_streams import stream_key
from midstep.data.order.epoch_cursor import flat_ids
from midstep.data.order.permutation import Order
from midstep.data.random_state import RandomState, find_generators, seed_generators, seed_global

_ID_BLOCK = 8192
"""Ids that `EpochSeededRandomSampler` draws at once. Large enough to hide the cost of a call, and
small in memory."""

_FIRST_BLOCK, _LARGEST_BLOCK = 64, 4096
"""Batches that `SeededIndices` draws at once: few at first, so that the first batch comes soon."""

_COMPARED = 1024
"""Batches of epoch 0 that `is_repeatable` draws twice and compares."""


class EpochSeededRandomSampler:
    """A sampler whose order is a pure function of `(base_seed, epoch)`. It can be resumed.

    The cursor counts trained samples: call `advance` after the optimizer step. Ids that workers
    have prefetched but the loop has not trained on are drawn again after a resume.

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
        """The epoch whose order the sampler gives."""
        return self._order.epoch

    def __len__(self) -> int:
        return self._order.n

    def __iter__(self) -> Iterator[int]:
        order = self._order
        for start in range(self.cursor, order.n, _ID_BLOCK):
            yield from order.ids(start, min(start + _ID_BLOCK, order.n)).tolist()

    def set_epoch(self, epoch: int) -> None:
        """Go to the first sample of `epoch`; setting the current epoch again changes nothing."""
        if epoch != self.epoch:
            self._order = Order(self._order.n, self.base_seed, epoch, self._order.algorithm)
            self.cursor = 0

    def advance(self, count: int) -> None:
        """Record that `count` more samples of this epoch were trained on."""
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
        """Continue where `state` was saved.

        Raises:
            FormatError: if the dataset has another length, or the cursor is outside of it.
        """
        if state["length"] != len(self):
            raise FormatError(
                f"the saved order has {state['length']} samples, the dataset now {len(self)}; "
                "resume with the same data or start a new run"
            )
        if not 0 <= state["cursor"] <= len(self):
            raise FormatError(f"saved cursor {state['cursor']} is outside 0 to {len(self)}")
        self.base_seed, self.cursor = int(state["seed"]), int(state["cursor"])
        # By the saved algorithm, not by "auto": an order once used must stay reproducible even if
        # a later version prefers another algorithm for this length.
        self._order = Order(len(self), self.base_seed, state["epoch"], state["algorithm"])


class SeededIndices:
    """What `sampler` gives in `epoch`, as a pure function of `(seed, epoch)`.

    Indices are drawn in blocks. Around each block the private generators replace the global ones,
    so a sampler without end works too, and the training's generators never move.

    Args:
        sampler: a sampler or batch sampler.
        seed: the run's seed.
        epoch: the epoch; samplers with `set_epoch` get it too.
        outside: objects whose generators are not the sampler's, such as the dataset.

    >>> sampler = RandomSampler(range(5))
    >>> list(SeededIndices(sampler, 0, 1)) == list(SeededIndices(sampler, 0, 1))
    True
    """

    def __init__(self, sampler: Any, seed: int, epoch: int, outside: tuple[Any, ...] = ()) -> None:
        self._sampler, self._epoch = sampler, epoch
        # Hashed and not added: seed 0 in epoch 1 must differ from seed 1 in epoch 0.
        self._key = stream_key(seed, "order", epoch)
        self._generators = find_generators(sampler, outside=outside)
        self._private: RandomState | None = None
        self._indices: Iterator[Any] | None = None
        self._block: deque[Any] = deque()
        self._block_size, self._cursor = _FIRST_BLOCK, 0

    def __iter__(self) -> SeededIndices:
        return self

    def __next__(self) -> Any:
        if not self._block:
            with self._private_rng():
                self._block.extend(islice(self._start(), self._block_size))
            self._block_size = min(2 * self._block_size, _LARGEST_BLOCK)
        if not self._block:
            raise StopIteration
        return self._block.popleft()

    def jump(self, cursor: int) -> bool:
        """Begin at sample `cursor` without drawing those before it, if the sampler allows it.

        Returns:
            Whether it does. If not, the caller must draw and drop the samples before the cursor.
        """
        inner = self._sampler.sampler if type(self._sampler) is BatchSampler else self._sampler
        size = self._sampler.batch_size if type(self._sampler) is BatchSampler else 1
        if not isinstance(inner, EpochSeededRandomSampler):
            return False
        # A cursor inside a batch would shift all later batches; the caller then reports an error.
        is_boundary = bool(cursor % size == 0 or cursor == len(inner))
        self._cursor = cursor if is_boundary else 0
        return is_boundary

    def _start(self) -> Iterator[Any]:
        """The sampler's iterator, made at the first call."""
        if self._indices is None:
            for each in nested_samplers(self._sampler):
                if hasattr(each, "set_epoch"):  # a DistributedSampler seeds itself by its epoch
                    each.set_epoch(self._epoch)
                if isinstance(each, EpochSeededRandomSampler):
                    each.cursor = self._cursor
            self._indices = iter(self._sampler)
        return self._indices

    @contextmanager
    def _private_rng(self) -> Iterator[None]:
        """Replace the state of all generators by the private one for the length of the block."""
        # The sampler stays in the middle of its iteration between two blocks, so its random state
        # must be saved and restored as well, not seeded again.
        outer = RandomState.take(self._generators, cuda=False)
        if self._private is None:
            seed_global(self._key)
            seed_generators(self._generators, self._key)
        else:
            self._private.restore(self._generators)
        try:
            yield
            self._private = RandomState.take(self._generators, cuda=False)
        finally:
            outer.restore(self._generators)


def nested_samplers(sampler: Any) -> list[Any]:
    """A batch sampler and the samplers inside it, outermost first."""
    samplers: list[Any] = []
    # A sampler may refer to itself, so stop at one that was seen before.
    while sampler is not None and not any(sampler is each for each in samplers):
        samplers.append(sampler)
        sampler = getattr(sampler, "sampler", None)
    return samplers


_STATELESS = (
    BatchSampler,
    DistributedSampler,
    EpochSeededRandomSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
"""Samplers that are known to begin again in `__iter__`."""


def is_repeatable(sampler: Any, seed: int, *, batched: bool, outside: tuple[Any, ...] = ()) -> bool:
    """Whether epoch 0 has the same order when it is drawn twice.

    If not, the sampler keeps state between passes and cannot be resumed.

    >>> class Counting:
    ...     calls = 0
    ...     def __iter__(self):
    ...         self.calls += 1
    ...         return iter([self.calls])
    >>> is_repeatable(Counting(), 0, batched=False)
    False
    """
    # Known samplers are not drawn: the permutation of a large dataset takes seconds.
    if all(type(each) in _STATELESS for each in nested_samplers(sampler)):
        return True

    def first_batches() -> list[tuple[Any, ...]]:
        indices = islice(SeededIndices(sampler, seed, 0, outside), _COMPARED)
        return [flat_ids(index, batched=batched) for index in indices]

    return first_batches() == first_batches()
