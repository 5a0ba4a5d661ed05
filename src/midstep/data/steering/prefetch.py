"""One pass over an epoch from a given sample on, its batches made ahead by threads."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from midstep.data.steering.global_batches import GlobalBatches
from midstep.data.steering.steering_dataset import BatchPlan, JASPERSteeringDataset

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


SLOTS = 6
"""Held by the ring: one with the user, one being asked for, the rest filled ahead."""
_FREE_REFERENCES = 3
"""References to a free buffer while it is looked at: list, variable, and the call itself."""


class BufferRing:
    """Buffers of `rows` rows of float32.

    Args:
        rows: of each buffer.
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
        """A buffer that nobody else holds; its content is whatever was there before."""
        import torch

        with self._lock:  # a tensor must hold the buffer before another thread looks
            return torch.from_numpy(self._free_slot())

    def _free_slot(self) -> NDArray[Any]:
        for index in range(len(self._slots)):
            slot = self._slots[index]
            if sys.getrefcount(slot) <= _FREE_REFERENCES:
                return slot
        made = np.empty((self.rows, self.width), dtype=np.float32)
        self._slots.append(made)
        if len(self._slots) > SLOTS:
            del self._slots[0]  # the oldest is left to whoever holds it
        return made


class PinnedBuffers:
    """Buffers of pinned memory, fresh for every batch: torch keeps a ring of them by itself, and
    knows, as we do not, when a copy to the device that is under way has been made.

    Args:
        rows: of each buffer.
        width: numbers in a row.
    """

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width

    def take(self) -> torch.Tensor:
        """A pinned buffer."""
        import torch

        return torch.empty(self.rows, self.width, pin_memory=True)


BLOCK = 4096
"""Samples planned at once: hides the cost of the small gathers, small beside a resume."""
AHEAD = 2
"""Batches made before they are asked for."""
THREADS = 2
"""Which make them: one core alone cannot ask for rows as fast as memory gives them."""

T = TypeVar("T")


@dataclass(frozen=True)
class RankBatch:
    """A batch of this rank, and the global batch it is part of."""

    batch: Any
    positions: NDArray[np.int64]
    """Of the global batch, in order."""


def iterate_batches(
    batches: GlobalBatches, cursor: int, epoch: int, *, pinned: bool = False
) -> Generator[RankBatch, None, None]:
    """The batches from sample `cursor` of `epoch` on, made in this thread."""
    for make in plan_batches(batches, cursor, epoch, pinned=pinned):
        # Not held here while it is with the user, or its buffer would never be free.
        yield make()


def plan_batches(
    batches: GlobalBatches, cursor: int, epoch: int, *, pinned: bool = False
) -> Generator[Callable[[], RankBatch], None, None]:
    """For each batch from sample `cursor` of `epoch` on, a call that makes it, in any thread."""
    dataset, size = batches.dataset, batches.batch_size
    buffers = _buffers(batches, pinned=pinned)
    for start, stop in _blocks(cursor, batches.samples, size):
        positions = batches.positions(start, stop, epoch)
        cuts = _rank_slices(batches, len(positions))
        plan, at = dataset.plan(np.concatenate([positions[mine] for _, mine in cuts]), epoch), 0
        for whole, mine in cuts:
            count = mine.stop - mine.start
            yield partial(_gather_batch, dataset, plan, at, at + count, buffers, positions[whole])
            at += count


def _gather_batch(
    dataset: JASPERSteeringDataset,
    plan: BatchPlan,
    start: int,
    stop: int,
    buffers: BufferRing | PinnedBuffers | None,
    positions: NDArray[np.int64],
) -> RankBatch:
    return RankBatch(dataset.gather(plan, start, stop, buffers), positions)


def _blocks(cursor: int, samples: int, size: int) -> Iterator[tuple[int, int]]:
    """Runs of whole batches: one at first, so that it is there soon, then more at once."""
    count = 1
    while cursor < samples:
        stop = min(cursor + count * size, samples)
        yield cursor, stop
        cursor, count = stop, min(2 * count, max(1, BLOCK // size))


def _buffers(batches: GlobalBatches, *, pinned: bool) -> BufferRing | PinnedBuffers | None:
    """What batches are gathered into; None on a device, whose allocator is a ring by itself."""
    dataset = batches.dataset
    if dataset.device.type != "cpu":
        return None
    most = -(-batches.batch_size // batches.ranks.world)
    kind = PinnedBuffers if pinned else BufferRing
    return kind(most * (3 + dataset.n_neg), dataset.config.embedding_dim)


def _rank_slices(batches: GlobalBatches, count: int) -> list[tuple[slice, slice]]:
    """Each global batch of a block, and this rank's part of it, as slices of the block."""
    cuts = []
    for start in range(0, count, batches.batch_size):
        stop = min(start + batches.batch_size, count)
        mine = batches.ranks.rank_slice(stop - start)
        cuts.append((slice(start, stop), slice(start + mine.start, start + mine.stop)))
    return cuts


def prefetch(
    source: Iterator[Callable[[], T]], *, count: int = AHEAD, threads: int = THREADS
) -> Iterator[T]:
    """What the calls of `source` give, in their order, made while the caller works on earlier ones.

    An error of the source or of a call comes out where its item would. The threads end with the
    generator.

    >>> list(prefetch(iter([lambda: 1, lambda: 2, lambda: 3])))
    [1, 2, 3]
    """
    calls, number = _NumberedCalls(source), 0
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="midstep-prefetch") as pool:
        try:
            for number in range(count):
                waiting.append(pool.submit(calls.run, number))
            while (item := waiting.popleft().result()) is not _END:
                number += 1
                waiting.append(pool.submit(calls.run, number))
                yield item
                del item  # or its buffer would be held while the next is waited for
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_END: Any = object()


class _NumberedCalls(Generic[T]):
    """Calls by their number, whichever thread asks first: one draws from the source at a time."""

    def __init__(self, source: Iterator[Callable[[], T]]) -> None:
        self._source, self._next = source, 0
        self._waiting: dict[int, Callable[[], T]] = {}
        self._lock = threading.Lock()

    def run(self, number: int) -> T:
        """What call `number` gives; the end where there are fewer."""
        with self._lock:
            while self._next <= number:
                self._waiting[self._next] = self._next_call()
                self._next += 1
            call = self._waiting.pop(number)
        return call()

    def _next_call(self) -> Callable[[], T]:
        try:
            return next(self._source, _give_end)
        except BaseException as error:  # noqa: BLE001 - raised where its item would come
            return partial(_raise, error)


def _give_end() -> Any:
    return _END


def _raise(error: BaseException) -> Any:
    raise error
