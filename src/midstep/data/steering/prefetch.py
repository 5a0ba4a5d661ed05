"""One pass over an epoch, from any sample on: batches are planned, then gathered by threads."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from midstep.data.steering.global_batches import GlobalBatches
from midstep.data.steering.steering_dataset import BatchPlan, JASPERSteeringDataset, NewBuffer

SLOTS = 6
"""Buffers that the ring keeps: one with the user, one in the making, the others filled ahead."""
_FREE_REFERENCES = 3
"""References to a free buffer while it is checked: the list, the local variable and the argument
of `getrefcount`."""


class BufferRing:
    """Buffers that are used again as soon as no tensor refers to them.

    A new buffer for every batch costs more in page faults than the gather itself.

    Args:
        rows: rows of each buffer, float32.
        width: numbers in a row.

    >>> ring = BufferRing(2, 3)
    >>> kept = ring.take()[1:]
    >>> other = ring.take()
    >>> other.data_ptr() == kept.data_ptr() - 12
    False
    >>> del kept, other
    >>> len({ring.take().data_ptr() for _ in range(20)}) <= 2
    True
    """

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width
        self._slots: list[NDArray[Any]] = []
        self._lock = threading.Lock()

    def take(self) -> torch.Tensor:
        """A buffer that nothing else refers to; it holds old values."""
        # The tensor must refer to the buffer before another thread counts the references.
        with self._lock:
            return torch.from_numpy(self._free_slot())

    def _free_slot(self) -> NDArray[Any]:
        for index in range(len(self._slots)):
            slot = self._slots[index]
            if sys.getrefcount(slot) <= _FREE_REFERENCES:
                return slot
        buffer = np.empty((self.rows, self.width), dtype=np.float32)
        self._slots.append(buffer)
        if len(self._slots) > SLOTS:
            del self._slots[0]  # the user holds many batches; the oldest keeps its memory alive
        return buffer


BLOCK = 4096
"""Samples planned at once: enough to hide the cost of the narrow columns, and few enough that a
resume does not wait for them."""
AHEAD = 2
"""Batches gathered before the loop requests them."""
THREADS = 2
"""Threads that gather: one core alone does not use the full bandwidth of the memory."""

T = TypeVar("T")


@dataclass(frozen=True)
class RankBatch:
    """A batch of this rank, and the global batch it is part of."""

    batch: Any
    positions: NDArray[np.int64]
    """Dataset positions of the global batch, in order."""


def iterate_batches(
    batches: GlobalBatches, cursor: int, epoch: int, *, pinned: bool = False
) -> Generator[RankBatch, None, None]:
    """The batches from sample `cursor` of `epoch` on, gathered in this thread."""
    for gather in plan_batches(batches, cursor, epoch, pinned=pinned):
        # Without a variable: a reference from here would keep the user's buffer from being free.
        yield gather()


def plan_batches(
    batches: GlobalBatches, cursor: int, epoch: int, *, pinned: bool = False
) -> Generator[Callable[[], RankBatch], None, None]:
    """For each batch from sample `cursor` of `epoch` on, a call that gathers it in any thread."""
    dataset, size = batches.dataset, batches.batch_size
    new_buffer = _buffer_source(batches, pinned=pinned)
    for start, stop in _blocks(cursor, batches.samples, size):
        positions = batches.positions(start, stop, epoch)
        slices = _rank_slices(batches, len(positions))
        plan = dataset.plan(np.concatenate([positions[part] for _, part in slices]), epoch)
        first = 0
        for whole, part in slices:
            last = first + part.stop - part.start
            yield partial(_gather_batch, dataset, plan, first, last, new_buffer, positions[whole])
            first = last


def _gather_batch(
    dataset: JASPERSteeringDataset,
    plan: BatchPlan,
    start: int,
    stop: int,
    new_buffer: NewBuffer | None,
    positions: NDArray[np.int64],
) -> RankBatch:
    return RankBatch(dataset.gather(plan, start, stop, new_buffer), positions)


def _blocks(cursor: int, samples: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut the epoch into blocks of whole batches: one batch first, so that it comes soon."""
    count = 1
    while cursor < samples:
        stop = min(cursor + count * size, samples)
        yield cursor, stop
        cursor, count = stop, min(2 * count, max(1, BLOCK // size))


def _buffer_source(batches: GlobalBatches, *, pinned: bool) -> NewBuffer | None:
    """What batches are gathered into; None on a device, where torch's allocator reuses memory."""
    dataset = batches.dataset
    if dataset.device.type != "cpu":
        return None
    largest_part = -(-batches.batch_size // batches.ranks.world)
    # Question, source and steering vector of each sample, and its negatives.
    rows, width = largest_part * (3 + dataset.n_neg), dataset.config.embedding_dim
    if pinned:
        # torch's allocator of pinned memory is a ring already. It also knows when a copy to the
        # device has ended, which a count of references does not show.
        return partial(torch.empty, rows, width, pin_memory=True)
    return BufferRing(rows, width).take


def _rank_slices(batches: GlobalBatches, count: int) -> list[tuple[slice, slice]]:
    """Each global batch of a block, and this rank's part of it, as slices of the block."""
    slices = []
    for start in range(0, count, batches.batch_size):
        stop = min(start + batches.batch_size, count)
        part = batches.ranks.rank_slice(stop - start)
        slices.append((slice(start, stop), slice(start + part.start, start + part.stop)))
    return slices


def prefetch(source: Iterator[Callable[[], T]], *, threads: int = THREADS) -> Iterator[T]:
    """Run the calls of `source` in threads, and yield their results in order.

    An error of the source or of a call is raised where its result would come. The threads end with
    the generator.

    Args:
        source: yields the calls; one thread at a time draws from it.
        threads: how many threads run them.

    >>> list(prefetch(iter([lambda: 1, lambda: 2, lambda: 3])))
    [1, 2, 3]
    """
    calls, number = _NumberedCalls(source), 0
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="midstep-prefetch") as pool:
        try:
            # Numbered, because two threads may finish in any order and the results must not.
            for number in range(AHEAD):
                waiting.append(pool.submit(calls.run, number))
            while (item := waiting.popleft().result()) is not _END:
                number += 1
                waiting.append(pool.submit(calls.run, number))
                yield item
                del item  # else its buffer could not be reused while this waits for the next item
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_END: Any = object()


class _NumberedCalls(Generic[T]):
    """The calls of a source by number. Threads may ask in any order; one draws at a time."""

    def __init__(self, source: Iterator[Callable[[], T]]) -> None:
        self._source, self._next = source, 0
        self._waiting: dict[int, Callable[[], T]] = {}
        self._lock = threading.Lock()

    def run(self, number: int) -> T:
        """Run call `number`; the result is `_END` if there are fewer calls."""
        with self._lock:
            while self._next <= number:
                self._waiting[self._next] = self._next_call()
                self._next += 1
            call = self._waiting.pop(number)
        return call()

    def _next_call(self) -> Callable[[], T]:
        try:
            return next(self._source, lambda: _END)
        except BaseException as error:  # noqa: BLE001 - raised where the result would come
            return partial(_raise, error)


def _raise(error: BaseException) -> Any:
    raise error
