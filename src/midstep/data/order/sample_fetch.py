"""How a sample is read: proxies for a loader's dataset and collate function.

`SamplerProxy` sends a `FetchRequest` (epoch, ids) through the index queue, so that the epoch
reaches persistent workers too. `DatasetProxy` answers it with a `PendingFetch` and reads nothing
yet. The proxy of the collate function reads and collates, so one guard covers both, in whichever
process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils.data import Subset

from midstep.core.random_streams import RandomStream, stream_key
from midstep.data.order.epoch_cursor import flat_ids
from midstep.data.order.loader_patch import Proxy
from midstep.data.random_state import RandomState, preserve_rng, seed_global

Collate = Callable[[Any], Any]


class FetchRequest(NamedTuple):
    """What to read: an epoch, and a batch of ids or one id."""

    epoch: int
    index: Any
    batched: bool


@dataclass(frozen=True)
class PendingFetch:
    """A request and the dataset to read it from."""

    dataset: Any
    request: FetchRequest


class DatasetProxy(Proxy):
    """Replaces the user's dataset: it answers a `FetchRequest` without reading a sample yet.

    >>> proxy = DatasetProxy(["a", "b"])
    >>> len(proxy), proxy[1]
    (2, 'b')
    """

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, FetchRequest):
            return PendingFetch(self.inner, index)
        return self.inner[index]

    def __getitems__(self, index: Any) -> Any:
        if isinstance(index, FetchRequest):
            return PendingFetch(self.inner, index)
        return _read_batch(self.inner, index)


class SeededFetch:
    """Reads and collates a request; every random number derives from (seed, epoch, id).

    A dataset that reads whole batches (`__getitems__`) is seeded once per batch, from all its ids.
    """

    def __init__(self, collate: Collate, seed: int) -> None:
        self.collate, self.seed = collate, seed

    def __call__(self, pending: Any) -> Any:
        """The collated batch."""
        if not isinstance(pending, PendingFetch):
            return self.collate(pending)  # the user calls the loader's collate_fn directly
        request = pending.request
        # The states are saved once per batch and not once per sample: measured, 7 µs a sample
        # against 95. Devices are left out, because datasets draw on the CPU.
        with preserve_rng(cuda=False), single_thread():
            samples = self._read_samples(pending.dataset, request)
            seed_global(self._batch_key("collate", request))
            return self.collate(samples)

    def _read_samples(self, dataset: Any, request: FetchRequest) -> Any:
        """The samples of a request, each read under its own seed."""
        dataset, index = _unwrap_subsets(dataset, request)
        if request.batched and _reads_batches(dataset):
            seed_global(self._batch_key("batch", request))
            return dataset.__getitems__(index)
        stream = RandomStream(self.seed, "sample", epoch=request.epoch)
        if not request.batched:
            return _read_sample(dataset, stream, index)
        return [_read_sample(dataset, stream, each) for each in index]

    def _batch_key(self, name: str, request: FetchRequest) -> int:
        ids = flat_ids(request.index, batched=request.batched)
        return stream_key(self.seed, name, request.epoch, _hash_ids(ids))


def _read_sample(dataset: Any, stream: RandomStream, index: Any) -> Any:
    ids = flat_ids(index, batched=False)
    is_integer = len(ids) == 1 and isinstance(ids[0], int)
    seed_global(stream.bits(ids[0] if is_integer else _hash_ids(ids)))
    return dataset[index]


class WatchedFetch:
    """Reads and collates like the loader itself, and sets a flag if that moves a generator."""

    def __init__(self, collate: Collate, drew_flag: Any) -> None:
        self.collate, self.drew_flag = collate, drew_flag

    def __call__(self, pending: Any) -> Any:
        """The collated batch."""
        if not isinstance(pending, PendingFetch):
            return self.collate(pending)
        dataset, request = pending.dataset, pending.request
        # Once the flag is set, the loader has been reported: further comparisons would cost time.
        before = None if self.drew_flag.value else RandomState.take(cuda=False)
        samples = _read_batch(dataset, request.index) if request.batched else dataset[request.index]
        batch = self.collate(samples)
        if before is not None and not before.same(RandomState.take(cuda=False)):
            # In shared memory, so the main process sees it before it receives the batch.
            self.drew_flag.value = 1
        return batch


def _read_batch(dataset: Any, index: Any) -> Any:
    """A batch of samples, by the same rule as torch's own fetcher."""
    if _reads_batches(dataset):
        return dataset.__getitems__(index)
    return [dataset[each] for each in index]


def _reads_batches(dataset: Any) -> bool:
    return bool(getattr(dataset, "__getitems__", None))


def _unwrap_subsets(dataset: Any, request: FetchRequest) -> tuple[Any, Any]:
    """The dataset inside nested subsets, and the index there.

    A sample is seeded by its original id, so it gets the same random numbers through any subset.
    """
    index: Any = list(request.index) if request.batched else request.index
    # Exactly `Subset`: a subclass may change how it reads. `Subset` has `__getitems__`, so without
    # this a subset would be seeded per batch and not per sample.
    while type(dataset) is Subset:
        indices: Any = dataset.indices
        index = [indices[each] for each in index] if request.batched else indices[index]
        dataset = dataset.dataset
    return dataset, index


def _hash_ids(ids: Any) -> int:
    """A 64-bit number for ids of any type. Python's own `hash` differs between processes."""
    return int.from_bytes(hashlib.blake2b(repr(ids).encode(), digest_size=8).digest(), "little")


@contextmanager
def single_thread() -> Iterator[None]:
    """Run torch on one thread, as in a worker: float sums differ between one thread and several."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
