"""Random numbers for many ids at once: those of a `RandomStream`, without a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from midstep.core.streams import RandomStream

__all__ = ["bits_at", "chosen_columns", "mixed", "uniform_at"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 of each word; as in `core.streams`."""
    words = (words ^ (words >> _SHIFTS[0])) * _FACTORS[0]
    words = (words ^ (words >> _SHIFTS[1])) * _FACTORS[1]
    return words ^ (words >> _SHIFTS[2])


def bits_at(stream: RandomStream, at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """`stream.bits(i)` for every position i, which must not be negative.

    >>> from midstep.core.streams import RandomStream
    >>> stream = RandomStream(3, "steering")
    >>> int(bits_at(stream, np.array([5]))[0]) == stream.bits(5)
    True
    """
    positions = np.ascontiguousarray(at, dtype=np.int64).view(np.uint64) + np.uint64(1)
    return mixed(positions * _GOLDEN + np.uint64(stream.key))


def uniform_at(stream: RandomStream, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """`stream.uniform(i)` for every position i."""
    return (bits_at(stream, at) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def chosen_columns(
    stream: RandomStream, ids: NDArray[np.int64], columns: int, count: int
) -> NDArray[np.int64]:
    """For every id, `count` of `columns` columns, none twice, in rising order: [ids, count].

    >>> from midstep.core.streams import RandomStream
    >>> chosen_columns(RandomStream(0, "negatives"), np.array([7, 8]), 4, 2).shape
    (2, 2)
    """
    at = ids[:, None] * columns + np.arange(columns)
    keys = bits_at(stream, at)
    first = (
        np.argpartition(keys, count - 1, axis=1)[:, :count] if count < columns else np.argsort(keys)
    )
    return np.sort(first, axis=1).astype(np.int64)
