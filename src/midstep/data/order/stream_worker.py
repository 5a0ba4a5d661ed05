"""An iterable dataset in a loader's workers: one stream per worker, with a position to save.

`StreamProxy` makes the batches itself, so that one guard covers a batch. Each batch travels with
the number of its worker and with the dataset's state after it; `StreamOrder` unpacks it in the main
process. The loader takes batches from its workers in turn. After a resume, the workers whose turn
was over before the save send an empty batch first, which is dropped. So the turn continues where it
was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from midstep.core.errors import ControlError
from midstep.core.protocols import Stateful
from midstep.core.random_streams import stream_key
from midstep.data.order.loader_patch import Proxy
from midstep.data.order.sample_fetch import single_thread
from midstep.data.random_state import RandomState, preserve_rng, seed_global

_last_start: list[StreamStart] = []
"""In a worker: the `StreamStart` that came last through its index queue. torch's fetcher never
shows an iterable dataset its index, so a `StreamStart` puts itself here when it is unpickled."""


@dataclass(frozen=True)
class StreamPosition:
    """How far the stream of one worker is.

    Args:
        position: samples it gave in this epoch.
        state: what the dataset's `state_dict` returned after them; None before the first.
        ended: whether the stream is at its end.
    """

    position: int = 0
    state: Any = None
    ended: bool = False


@dataclass(frozen=True)
class StreamStart:
    """What a worker receives at the start of a pass."""

    epoch: int
    start_position: StreamPosition
    skips_turn: bool
    """Whether the worker had its turn before the save: then its next batch comes a turn later."""

    def __reduce__(self) -> tuple[Callable[..., StreamStart], tuple[Any, ...]]:
        return _receive, (self.epoch, self.start_position, self.skips_turn)


def _receive(epoch: int, start_position: StreamPosition, skips_turn: bool) -> StreamStart:
    start = StreamStart(epoch, start_position, skips_turn)
    _last_start[:] = [start]
    return start


@dataclass(frozen=True)
class WorkerBatch:
    """What a worker sends to the main process: a batch, and its position after the batch."""

    worker: int
    epoch: int
    end_position: StreamPosition
    count: int = 0
    """Samples of the batch; 0 if there is no batch, only a position."""
    batch: Any = None
    has_drawn: bool = False
    """Whether reading or collating it moved a generator that ends with its worker."""

    def pin_memory(self) -> WorkerBatch:
        """Pin the batch inside; the loader's pinning thread calls this."""
        from torch.utils.data._utils.pin_memory import pin_memory

        return replace(self, batch=pin_memory(self.batch))  # type: ignore[no-untyped-call]


class StreamProxy(Proxy, IterableDataset[Any]):
    """The user's iterable dataset, in batches that carry their position.

    Args:
        inner: the user's dataset.
        batch_size: None where the loader does not batch.
        drop_last: whether an incomplete last batch is left out.
        seed: the run's seed under a seeded policy; None seeds nothing.
    """

    def __init__(
        self, inner: Any, batch_size: int | None, *, drop_last: bool, seed: int | None
    ) -> None:
        super().__init__(
            inner, _batch_size=batch_size, _drop_last=drop_last, _seed=seed, _stream_start=None
        )

    _batch_size: int | None
    _drop_last: bool
    _seed: int | None
    _stream_start: StreamStart | None

    def set_stream_start(self, start: StreamStart) -> None:
        """Set the start of the next pass in the main process, where nothing is pickled."""
        vars(self)["_stream_start"] = start

    def __iter__(self) -> Iterator[WorkerBatch]:
        """A generator, so it begins with the first batch: by then the `StreamStart` has arrived."""
        info = get_worker_info()
        start = _last_start[0] if info is not None else self._stream_start
        if start is None:
            raise ControlError(
                "the dataset of a patched loader has no start position; iterate over the loader"
            )
        first = WorkerBatch(info.id if info is not None else 0, start.epoch, start.start_position)
        if start.skips_turn:
            yield first
        with self._preserve_rng():
            self._seed_at(first)
            samples = self._begin(start)
        if not start.start_position.ended:
            yield from self._batches(samples, first)

    def _begin(self, start: StreamStart) -> Iterator[Any]:
        if self._seed is not None and hasattr(self.inner, "set_epoch"):
            self.inner.set_epoch(start.epoch)
        position = start.start_position
        if position.state is not None:
            # A copy: the dataset may change the object it is given.
            self.inner.load_state_dict(copy.deepcopy(position.state))
        return iter(()) if position.ended else iter(self.inner)

    def _batches(self, samples: Iterator[Any], last: WorkerBatch) -> Iterator[WorkerBatch]:
        """Batch after batch; a stream that ends between two batches sends its position at last."""
        size, ended = self._batch_size or 1, False
        while not ended:
            before = _worker_rng(self._seed)
            with self._preserve_rng():
                batch = self._read_samples(samples, size, last)
            has_drawn = _has_moved(before)
            ended = len(batch) < size
            if ended and self._drop_last:
                batch = []
            end = StreamPosition(last.end_position.position + len(batch), self._state(), ended)
            last = replace(
                last,
                end_position=end,
                count=len(batch),
                batch=batch if self._batch_size is not None else (batch or [None])[0],
                has_drawn=has_drawn,
            )
            yield last

    def _read_samples(self, samples: Iterator[Any], size: int, last: WorkerBatch) -> list[Any]:
        batch: list[Any] = []
        with single_thread() if self._seed is not None else nullcontext():
            for ahead in range(size):
                self._seed_at(last, ahead)
                try:
                    batch.append(next(samples))
                except StopIteration:
                    break
        return batch

    def _seed_at(self, last: WorkerBatch, ahead: int = 0) -> None:
        """Seed by worker and position: `ahead` samples after the end of `last`."""
        if self._seed is not None:
            position = last.end_position.position + ahead
            # At position 0 all workers share a seed: a dataset that shuffles when it begins must
            # do so alike in every worker, or its shards would overlap.
            worker = last.worker if position else 0
            seed_global(stream_key(self._seed, "stream", last.epoch, worker, position))

    def _preserve_rng(self) -> AbstractContextManager[None]:
        return preserve_rng(cuda=False) if self._seed is not None else nullcontext()

    def _state(self) -> Any:
        return copy.deepcopy(self.inner.state_dict()) if isinstance(self.inner, Stateful) else None


class StreamCollate:
    """Collates the batch inside a `WorkerBatch`, in the process that read it."""

    def __init__(self, collate: Callable[[Any], Any], seed: int | None) -> None:
        self.collate, self.seed = collate, seed

    def __call__(self, samples: Any) -> Any:
        """The `WorkerBatch` with its batch collated."""
        worker_batch = samples[0] if isinstance(samples, list) and len(samples) == 1 else samples
        if not isinstance(worker_batch, WorkerBatch):
            return self.collate(samples)  # the user calls the loader's collate_fn directly
        if not worker_batch.count:
            return worker_batch
        before = _worker_rng(self.seed)
        batch = self._collate(worker_batch)
        has_drawn = worker_batch.has_drawn or _has_moved(before)
        return replace(worker_batch, batch=batch, has_drawn=has_drawn)

    def _collate(self, worker_batch: WorkerBatch) -> Any:
        if self.seed is None:
            return self.collate(worker_batch.batch)
        with preserve_rng(cuda=False), single_thread():
            position = worker_batch.end_position.position
            seed_global(
                stream_key(self.seed, "collate", worker_batch.epoch, worker_batch.worker, position)
            )
            return self.collate(worker_batch.batch)


def _worker_rng(seed: int | None) -> RandomState | None:
    """The state of a worker's generators; None in the main process and under a seed.

    In the main process the generators are the training's, and their state is saved anyway.
    """
    return RandomState.take(cuda=False) if seed is None and get_worker_info() is not None else None


def _has_moved(before: RandomState | None) -> bool:
    return before is not None and not before.same(RandomState.take(cuda=False))
