"""The user's own sampler, run under random generators that nobody else can touch.

The order of an epoch is what the sampler gives when every generator it can reach is seeded from
(seed, "order", epoch). It is drawn in blocks: around each the private generators are put in place
of the global ones and taken out again, so a sampler without end works as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
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

from midstep.core.streams import stream_key
from midstep.data.order import EpochSeededRandomSampler
from midstep.data.randomness import RandomState, generators_of, seed_generators, seed_global
from midstep.data.trained import ids_of

__all__ = ["SeededDraws", "draws_alike", "samplers_of"]

_FIRST_BLOCK, _LARGEST_BLOCK = 64, 4096
"""Batches drawn at once: few at first, so that the first batch is there soon, then more."""

_COMPARED = 1024
"""Batches of epoch 0 that are drawn twice and compared."""

_STATELESS = (
    BatchSampler,
    DistributedSampler,
    EpochSeededRandomSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


class SeededDraws:
    """What `sampler` gives in `epoch`, as a pure function of `(seed, epoch)`.

    Args:
        sampler: a sampler or batch sampler.
        seed: the run's seed.
        epoch: the epoch, also told to samplers with `set_epoch`.
        outside: objects whose generators are not the sampler's, such as the dataset.

    >>> sampler = RandomSampler(range(5))
    >>> list(SeededDraws(sampler, 0, 1)) == list(SeededDraws(sampler, 0, 1))
    True
    """

    def __init__(self, sampler: Any, seed: int, epoch: int, outside: tuple[Any, ...] = ()) -> None:
        self._sampler, self._epoch = sampler, epoch
        self._key = stream_key(seed, "order", epoch)
        self._generators = generators_of(sampler, outside=outside)
        self._private: RandomState | None = None
        self._source: Iterator[Any] | None = None
        self._block: deque[Any] = deque()
        self._size, self._cursor = _FIRST_BLOCK, 0

    def __iter__(self) -> SeededDraws:
        return self

    def __next__(self) -> Any:
        if not self._block:
            with self._own_random():
                self._block.extend(islice(self._started(), self._size))
            self._size = min(2 * self._size, _LARGEST_BLOCK)
        if not self._block:
            raise StopIteration
        return self._block.popleft()

    def jump(self, cursor: int) -> bool:
        """Begin at sample `cursor` without drawing those before it, where the sampler can."""
        inner = self._sampler.sampler if type(self._sampler) is BatchSampler else self._sampler
        size = self._sampler.batch_size if type(self._sampler) is BatchSampler else 1
        if not isinstance(inner, EpochSeededRandomSampler):
            return False
        can = cursor % size == 0 or cursor == len(inner)
        self._cursor = cursor if can else 0
        return bool(can)

    def _started(self) -> Iterator[Any]:
        if self._source is None:
            for each in samplers_of(self._sampler):
                if hasattr(each, "set_epoch"):
                    each.set_epoch(self._epoch)
                if isinstance(each, EpochSeededRandomSampler):
                    each.cursor = self._cursor
            self._source = iter(self._sampler)
        return self._source

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        """The private generators in place of everybody's."""
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


def samplers_of(sampler: Any) -> list[Any]:
    """A batch sampler and the samplers inside it, outermost first."""
    found: list[Any] = []
    while sampler is not None and not any(sampler is each for each in found):
        found.append(sampler)
        sampler = getattr(sampler, "sampler", None)
    return found


def draws_alike(sampler: Any, seed: int, *, batched: bool, outside: tuple[Any, ...] = ()) -> bool:
    """Whether epoch 0 comes out the same twice; if not, the sampler keeps state of its own.

    >>> class Counting:
    ...     calls = 0
    ...     def __iter__(self):
    ...         self.calls += 1
    ...         return iter([self.calls])
    >>> draws_alike(Counting(), 0, batched=False)
    False
    """
    if all(type(each) in _STATELESS for each in samplers_of(sampler)):
        return True  # torch's own are known; drawing a large one twice takes its time

    def head() -> list[tuple[Any, ...]]:
        drawn = islice(SeededDraws(sampler, seed, 0, outside), _COMPARED)
        return [ids_of(index, batched=batched) for index in drawn]

    return head() == head()
