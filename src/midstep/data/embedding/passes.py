"""One pass over an epoch from a given sample on, its batches made ahead by threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from midstep.data.embedding.batches import GlobalBatches
from midstep.data.embedding.dataset import JASPERSteeringDataset, Plan
from midstep.data.embedding.ring import BufferRing, PinnedBuffers

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Drawn", "ahead", "gathered", "planned"]

BLOCK = 4096
"""Samples planned at once: hides the cost of the small gathers, small beside a resume."""
AHEAD = 2
"""Batches made before they are asked for."""
THREADS = 2
"""Which make them: one core alone cannot ask for rows as fast as memory gives them."""

T = TypeVar("T")


@dataclass(frozen=True)
class Drawn:
    """A batch of this rank, and the global batch it is part of."""

    batch: Any
    positions: NDArray[np.int64]
    """Of the global batch, in order."""


def gathered(
    batches: GlobalBatches, cursor: int, epoch: int, *, pinned: bool = False
) -> Generator[Drawn, None, None]:
    """The batches from sample `cursor` of `epoch` on, made in this thread."""
    for make in planned(batches, cursor, epoch, pinned=pinned):
        # Not held here while it is with the user, or its buffer would never be free.
        yield make()


def planned(
    batches: GlobalBatches, cursor: int, epoch: int, *, pinned: bool = False
) -> Generator[Callable[[], Drawn], None, None]:
    """For each batch from sample `cursor` of `epoch` on, a call that makes it, in any thread."""
    dataset, size = batches.dataset, batches.batch_size
    buffers = _buffers(batches, pinned=pinned)
    for start, stop in _blocks(cursor, batches.samples, size):
        positions = batches.positions(start, stop, epoch)
        cuts = _cuts(batches, len(positions))
        plan, at = dataset.plan(np.concatenate([positions[mine] for _, mine in cuts]), epoch), 0
        for whole, mine in cuts:
            count = mine.stop - mine.start
            yield partial(_drawn, dataset, plan, at, at + count, buffers, positions[whole])
            at += count


def _drawn(
    dataset: JASPERSteeringDataset,
    plan: Plan,
    start: int,
    stop: int,
    buffers: BufferRing | PinnedBuffers | None,
    positions: NDArray[np.int64],
) -> Drawn:
    return Drawn(dataset.fill(plan, start, stop, buffers), positions)


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


def _cuts(batches: GlobalBatches, count: int) -> list[tuple[slice, slice]]:
    """Each global batch of a block, and this rank's part of it, as slices of the block."""
    cuts = []
    for start in range(0, count, batches.batch_size):
        stop = min(start + batches.batch_size, count)
        mine = batches.ranks.slice_of(stop - start)
        cuts.append((slice(start, stop), slice(start + mine.start, start + mine.stop)))
    return cuts


def ahead(
    source: Iterator[Callable[[], T]], *, count: int = AHEAD, threads: int = THREADS
) -> Iterator[T]:
    """What the calls of `source` give, in their order, made while the caller works on earlier ones.

    An error of the source or of a call comes out where its item would. The threads end with the
    generator.

    >>> list(ahead(iter([lambda: 1, lambda: 2, lambda: 3])))
    [1, 2, 3]
    """
    calls, number = _Numbered(source), 0
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="midstep-prefetch") as pool:
        try:
            for number in range(count):
                waiting.append(pool.submit(calls.make, number))
            while (item := waiting.popleft().result()) is not _END:
                number += 1
                waiting.append(pool.submit(calls.make, number))
                yield item
                del item  # or its buffer would be held while the next is waited for
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_END: Any = object()


class _Numbered(Generic[T]):
    """Calls by their number, whichever thread asks first: one draws from the source at a time."""

    def __init__(self, source: Iterator[Callable[[], T]]) -> None:
        self._source, self._next = source, 0
        self._kept: dict[int, Callable[[], T]] = {}
        self._lock = threading.Lock()

    def make(self, number: int) -> T:
        """What call `number` gives; the end where there are fewer."""
        with self._lock:
            while self._next <= number:
                self._kept[self._next] = self._draw()
                self._next += 1
            call = self._kept.pop(number)
        return call()

    def _draw(self) -> Callable[[], T]:
        try:
            return next(self._source, _ended)
        except BaseException as error:  # noqa: BLE001 - raised where its item would come
            return partial(_raise, error)


def _ended() -> Any:
    return _END


def _raise(error: BaseException) -> Any:
    raise error
