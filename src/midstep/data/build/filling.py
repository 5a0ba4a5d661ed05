"""Quotas of the tiers, what is found, and who fills in where a tier runs short.

A tier that runs short is filled from the next harder to come by: later tiers first, nearest first,
then earlier ones. What fills in keeps its own label, and the shortage is written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.data.build.config import TIERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["Filled", "fill", "fillers"]

LISTED = 10_000
"""Shortages that the ledger lists one by one; all are counted."""


def fillers(tier: int) -> tuple[int, ...]:
    """The tiers that fill in for one, in order.

    >>> fillers(1), fillers(3), fillers(4)
    ((2, 3, 4), (4, 2, 1), (3, 2, 1))
    """
    return (
        *(each for each in TIERS if each > tier),
        *(each for each in TIERS[::-1] if each < tier),
    )


@dataclass(kw_only=True)
class Filled:
    """Negatives of some pairs, with their tiers and what was short."""

    negatives: Ids
    """[P, N]: source ids; −1 where not enough could be found."""
    tiers: Ids
    """[P, N]: 1 to 4, and 0 where there is none."""
    found: Ids
    """[P, 4]: of each tier, how many of its quota there were."""
    filled: Ids
    """[P, 4, 4]: for the tier t + 1, how many came from the tier u + 1."""
    quotas: Mapping[int, int]
    """What was wanted."""

    @classmethod
    def empty(cls, pairs: int, quotas: Mapping[int, int]) -> Filled:
        """For so many pairs, to be `put` block by block."""
        wanted = sum(quotas.values())
        return cls(
            negatives=np.full((pairs, wanted), -1, dtype=np.int64),
            tiers=np.zeros((pairs, wanted), dtype=np.int64),
            found=np.zeros((pairs, len(TIERS)), dtype=np.int64),
            filled=np.zeros((pairs, len(TIERS), len(TIERS)), dtype=np.int64),
            quotas=dict(quotas),
        )

    def put(self, rows: Ids, block: Filled) -> None:
        """The answers for some rows."""
        for name in ("negatives", "tiers", "found", "filled"):
            getattr(self, name)[rows] = getattr(block, name)

    def whole(self) -> NDArray[np.bool_]:
        """Which pairs have all their negatives."""
        return np.asarray((self.negatives >= 0).all(axis=1))

    def shortages(self) -> Iterator[dict[str, Any]]:
        """One entry for each pair and tier that ran short, as in ledger.json."""
        wanted = np.array([self.quotas[tier] for tier in TIERS])
        for pair, column in np.argwhere(self.found < wanted).tolist():
            sources = self.filled[pair, column]
            yield {
                "pair": pair,
                "tier": TIERS[column],
                "wanted": int(wanted[column]),
                "found": int(self.found[pair, column]),
                "filled_from": {str(TIERS[at]): int(n) for at, n in enumerate(sources) if n},
            }

    def ledger(self) -> dict[str, Any]:
        """What ledger.json says."""
        wanted = np.array([self.quotas[tier] for tier in TIERS])
        short = (self.found < wanted).any(axis=1)
        listed = [each for _, each in zip(range(LISTED), self.shortages(), strict=False)]
        return {
            "format": 1,
            "quotas": {str(tier): int(self.quotas[tier]) for tier in TIERS},
            "made": {str(tier): int(np.count_nonzero(self.tiers == tier)) for tier in TIERS},
            "shortages": listed,
            "short_pairs": int(np.count_nonzero(short)),
        }


def fill(candidates: Mapping[int, Ids], quotas: Mapping[int, int]) -> Filled:
    """Take each tier's quota, then fill up what is short.

    Args:
        candidates: of each tier [P, ≥ N] sources, best first, −1 behind the last; no source is in
            two tiers of a pair.
        quotas: of each tier.

    >>> one = {1: [[5, -1]], 2: [[7, 8]], 3: [[-1, -1]], 4: [[-1, -1]]}
    >>> made = fill({tier: np.array(ids) for tier, ids in one.items()}, {1: 2, 2: 0, 3: 0, 4: 0})
    >>> made.negatives.tolist(), made.tiers.tolist()
    ([[5, 7]], [[1, 2]])
    """
    pairs, wanted = len(candidates[1]), sum(quotas.values())
    made = Filled.empty(pairs, quotas)
    there = np.stack([(candidates[tier] >= 0).sum(axis=1) for tier in TIERS], axis=1)
    made.found[:] = np.minimum(there, [quotas[tier] for tier in TIERS])
    taken = made.found.copy()
    for tier in TIERS:
        short = quotas[tier] - made.found[:, tier - 1]
        for other in fillers(tier):
            given = np.minimum(short, there[:, other - 1] - taken[:, other - 1])
            made.filled[:, tier - 1, other - 1] = given
            taken[:, other - 1] += given
            short = short - given
    ids = np.concatenate([candidates[tier] for tier in TIERS], axis=1)
    label = np.repeat(TIERS, [candidates[tier].shape[1] for tier in TIERS])
    rank = np.concatenate([np.arange(candidates[tier].shape[1]) for tier in TIERS])
    chosen = rank[None, :] < taken[:, label - 1]
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :wanted]
    held = np.take_along_axis(chosen, order, axis=1)
    made.negatives[:, : order.shape[1]] = np.where(held, np.take_along_axis(ids, order, 1), -1)
    made.tiers[:, : order.shape[1]] = np.where(held, label[order], 0)
    return made
