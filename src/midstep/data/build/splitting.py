"""Training, validation and test: by question, in the same shares in every stratum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from midstep.core.errors import DatasetError
from midstep.core.streams import RandomStream
from midstep.data.embedding.draws import bits_at
from midstep.data.embedding.layout import SPLITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_split", "split_groups"]


def split_groups(
    groups: NDArray[np.int64],
    strata: NDArray[np.int64],
    ratios: Mapping[str, float],
    seed: int,
) -> NDArray[np.int64]:
    """The split of each question: 0 train, 1 val, 2 test; a group is never torn apart.

    The strata are gone through one after another. A group goes to the split that is farthest below
    its share of all questions so far, large groups first, so that the small ones even it out. The
    order within a stratum is drawn from the seed.

    Args:
        groups: of each question.
        strata: of each question; a group has the one most of its questions have.
        ratios: shares of train, val, test.
        seed: of the order.

    >>> ratios = {"train": 0.8, "val": 0.1, "test": 0.1}
    >>> made = split_groups(np.arange(40), np.arange(40) % 2, ratios, seed=0)
    >>> np.bincount(made).tolist(), np.bincount(made[::2]).tolist()
    ([32, 4, 4], [16, 2, 2])
    """
    labels, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    stratum = _majority(member, strata, len(labels))
    chance = bits_at(RandomStream(seed, "split"), labels)
    order = np.lexsort((chance, -sizes, stratum))
    share = np.array([ratios[name] for name in SPLITS])
    taken = np.zeros(len(SPLITS))
    owner = np.zeros(len(labels), dtype=np.int64)
    seen = 0
    for each in np.unique(stratum):
        inside = order[stratum[order] == each]
        seen += int(sizes[inside].sum())
        for group in inside:
            missing = np.where(share > 0, share * seen - taken, -np.inf)
            owner[group] = int(np.argmax(missing))
            taken[owner[group]] += sizes[group]
    return owner[member]


def _majority(
    member: NDArray[np.int64], strata: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """The stratum of most questions of each group; of equally many the lowest."""
    width = int(strata.max()) + 1
    pairs, counts = np.unique(member * width + strata, return_counts=True)
    order = np.lexsort((pairs % width, -counts, pairs // width))
    first = np.searchsorted((pairs // width)[order], np.arange(count))
    return np.asarray((pairs % width)[order][first], dtype=np.int64)


def check_split(
    split: NDArray[np.int64], groups: NDArray[np.int64], ratios: Mapping[str, float]
) -> None:
    """A `DatasetError` if a split that should have questions has none."""
    empty = [
        name
        for number, name in enumerate(SPLITS)
        if ratios[name] > 0 and not np.any(split == number)
    ]
    if not empty:
        return
    largest = int(np.bincount(np.unique(groups, return_inverse=True)[1]).max())
    raise DatasetError(
        f"{' and '.join(empty)} would be empty: {len(split)} questions, of which the largest group "
        f"has {largest}. A group shares a source or has near duplicates and is kept together; keep "
        "less together (keep_together, --keep-together question), raise near_duplicate "
        "(--near-duplicate), or set the ratio of that split to 0 (ratios, --ratios)"
    )
