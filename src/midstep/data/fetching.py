"""How a sample is read: stand-ins for a loader's dataset and collate function.

The sampler's stand-in sends tickets (epoch, ids) through the index queue, so that the epoch reaches
persistent workers too. The dataset's stand-in answers a ticket with a promise, and the collate
function's redeems it: so reading and collating lie under one guard, whichever process does it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils.data import Subset

from midstep.core.streams import RandomStream, stream_key
from midstep.data.randomness import RandomState, kept_random, seed_global
from midstep.data.trained import ids_of

__all__ = ["DatasetStandIn", "SeededFetch", "Ticket", "WatchedFetch", "one_thread"]

Collate = Callable[[Any], Any]


class Ticket(NamedTuple):
    """What is to be read: an epoch, and a batch of ids or one id."""

    epoch: int
    index: Any
    batched: bool


@dataclass(frozen=True)
class _Promise:
    """A ticket and the dataset it is for."""

    dataset: Any
    ticket: Ticket


class DatasetStandIn:
    """The user's dataset to everybody who looks at it; to the loader, one that takes tickets.

    >>> stand_in = DatasetStandIn(["a", "b"])
    >>> len(stand_in), stand_in[1]
    (2, 'b')
    """

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)

    inner: Any

    def __getitem__(self, index: Any) -> Any:
        return _Promise(self.inner, index) if isinstance(index, Ticket) else self.inner[index]

    def __getitems__(self, index: Any) -> Any:
        if isinstance(index, Ticket):
            return _Promise(self.inner, index)
        return _read(self.inner, index)

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)  # a worker's init function sets its dataset up so

    def __reduce__(self) -> tuple[type[DatasetStandIn], tuple[Any]]:
        return DatasetStandIn, (self.inner,)


class SeededFetch:
    """Reads and collates a ticket with every random number derived from (seed, epoch, id).

    A dataset that reads whole batches (`__getitems__`) is seeded once per batch, from all its ids.
    """

    def __init__(self, collate: Collate, seed: int) -> None:
        self.collate, self.seed = collate, seed

    def __call__(self, promise: Any) -> Any:
        """The collated batch."""
        if not isinstance(promise, _Promise):
            return self.collate(promise)  # the user calls the loader's collate_fn
        ticket = promise.ticket
        with kept_random(cuda=False), one_thread():
            samples = self._samples(promise.dataset, ticket)
            seed_global(self._batch_key("collate", ticket))
            return self.collate(samples)

    def _samples(self, dataset: Any, ticket: Ticket) -> Any:
        """The samples of a ticket, each read under its own seed."""
        dataset, index = _unwrap(dataset, ticket)
        if ticket.batched and _reads_batches(dataset):
            seed_global(self._batch_key("batch", ticket))
            return dataset.__getitems__(index)
        stream = RandomStream(self.seed, "sample", epoch=ticket.epoch)
        if not ticket.batched:
            return _one(dataset, stream, index)
        return [_one(dataset, stream, each) for each in index]

    def _batch_key(self, name: str, ticket: Ticket) -> int:
        ids = ids_of(ticket.index, batched=ticket.batched)
        return stream_key(self.seed, name, ticket.epoch, _number(ids))


def _one(dataset: Any, stream: RandomStream, index: Any) -> Any:
    ids = ids_of(index, batched=False)
    known = len(ids) == 1 and isinstance(ids[0], int)
    seed_global(stream.bits(ids[0] if known else _number(ids)))
    return dataset[index]


class WatchedFetch:
    """Reads and collates as the loader itself would, and notes if that moves a generator."""

    def __init__(self, collate: Collate, drew: Any) -> None:
        self.collate, self.drew = collate, drew

    def __call__(self, promise: Any) -> Any:
        """The collated batch."""
        if not isinstance(promise, _Promise):
            return self.collate(promise)
        dataset, ticket = promise.dataset, promise.ticket
        before = None if self.drew.value else RandomState.take(cuda=False)
        samples = _read(dataset, ticket.index) if ticket.batched else dataset[ticket.index]
        batch = self.collate(samples)
        if before is not None and not before.same(RandomState.take(cuda=False)):
            self.drew.value = 1  # shared memory: set before the batch arrives
        return batch


def _read(dataset: Any, index: Any) -> Any:
    """A batch of samples, by the rule of the loader's own fetcher."""
    if _reads_batches(dataset):
        return dataset.__getitems__(index)
    return [dataset[each] for each in index]


def _reads_batches(dataset: Any) -> bool:
    return bool(getattr(dataset, "__getitems__", None))


def _unwrap(dataset: Any, ticket: Ticket) -> tuple[Any, Any]:
    """Through nested subsets to the data themselves: a sample's seed is that of its original id."""
    index: Any = list(ticket.index) if ticket.batched else ticket.index
    while type(dataset) is Subset:
        indices: Any = dataset.indices
        index = [indices[each] for each in index] if ticket.batched else indices[index]
        dataset = dataset.dataset
    return dataset, index


def _number(value: Any) -> int:
    """A number for ids that are none, the same in every process."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread, as in a worker: sums over an image differ between one and two."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
