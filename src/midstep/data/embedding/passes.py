"""One pass over an epoch from a given sample on, its batches made ahead by a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from midstep.data.embedding.batches import GlobalBatches
from midstep.data.embedding.ring import BufferRing, PinnedBuffers

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Drawn", "ahead", "gathered"]

BLOCK = 4096
"""Samples planned at once: hides the cost of the small gathers, small beside a resume."""
AHEAD = 2
"""Batches made before they are asked for."""

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
    dataset, size = batches.dataset, batches.batch_size
    buffers = _buffers(batches, pinned=pinned)
    for start, stop in _blocks(cursor, batches.samples, size):
        positions = batches.positions(start, stop, epoch)
        cuts = _cuts(batches, len(positions))
        plan, at = dataset.plan(np.concatenate([positions[mine] for _, mine in cuts]), epoch), 0
        for whole, mine in cuts:
            count = mine.stop - mine.start
            # Not held here while it is with the user, or its buffer would never be free.
            yield Drawn(dataset.fill(plan, at, at + count, buffers), positions[whole])
            at += count


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


def ahead(source: Iterator[T], count: int = AHEAD) -> Iterator[T]:
    """The same items, each drawn by a thread while the caller still works on an earlier one.

    An error of the source comes out where its item would. The thread ends with the generator.
    """
    end = object()
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="midstep-prefetch") as thread:
        try:
            for _ in range(count):
                waiting.append(thread.submit(next, source, end))
            while (item := waiting.popleft().result()) is not end:
                waiting.append(thread.submit(next, source, end))
                yield item
                del item  # or its buffer would be held while the next is waited for
        finally:
            thread.shutdown(wait=True, cancel_futures=True)
