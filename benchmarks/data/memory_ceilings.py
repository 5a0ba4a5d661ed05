"""What memory gives in this process: rows gathered by one thread, and a copy of as many bytes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["one_thread", "random_gather", "told_ceilings"]

ROWS, WIDTH = 80_000, 384
BATCH_ROWS = 256 * 15
"""Of a steering batch: question, source, steering and twelve negatives of 256 pairs."""
BLOCK = 20


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes in one thread inside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def random_gather() -> tuple[Callable[[], float], Callable[[], float]]:
    """Two calls that give batches a second: rows at random by one thread, and a plain copy."""
    chance = np.random.default_rng(2)
    table = torch.from_numpy(chance.standard_normal((ROWS, WIDTH), dtype=np.float32))
    ids = [torch.from_numpy(chance.integers(ROWS, size=BATCH_ROWS)) for _ in range(BLOCK)]
    into, other = torch.empty(BATCH_ROWS, WIDTH), torch.empty(BATCH_ROWS, WIDTH)

    def gather() -> float:
        begun = time.perf_counter()
        for each in ids:
            torch.index_select(table, 0, each, out=into)
        return BLOCK / (time.perf_counter() - begun)

    def copy() -> float:
        begun = time.perf_counter()
        for _ in range(BLOCK):
            other.copy_(into)
        return BLOCK / (time.perf_counter() - begun)

    return gather, copy


def told_ceilings(rounds: int = 15) -> str:
    """Both as words for a note: `gather 1203/s, memcpy 5310/s`."""
    with one_thread():
        gather, copy = random_gather()
        gather(), copy()  # pages are there after the first time
        found = [statistics.median(each() for _ in range(rounds)) for each in (gather, copy)]
    return f"gather {found[0]:.0f}/s, memcpy {found[1]:.0f}/s"
