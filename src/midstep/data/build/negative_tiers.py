"""What the four tiers of negatives are, how quotas are filled, and a check of the result.

P pairs, Q questions, S sources, N negatives of a pair, C clusters, A adjacent ones, D numbers.

| tier | a source is in it when |
|---|---|
| 1 | its cluster is the pair's |
| 2 | its cluster is adjacent to the pair's |
| 3 | neither, and its cosine with the question reaches the threshold |
| 4 | neither, and its cosine with the question stays below the threshold |

So each source has exactly one tier for a pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.data.build.build_config import TIERS
from midstep.data.ragged import Ragged

Ids = NDArray[np.int64]

ROWS = 4096
"""Pairs scored together: bounds the memory for their vectors."""
LISTED = 10_000
"""Shortages that ledger.json lists one by one; it counts all of them."""
ROUNDING = 1e-5
"""How far one score may differ between two orders of summation."""


@dataclass(frozen=True, kw_only=True)
class MiningInputs:
    """What mining reads, for all splits."""

    questions: NDArray[np.float32]
    """[Q, D] unit vectors."""
    sources: NDArray[np.float32]
    """[S, D] unit vectors."""
    pair_index: Ids
    """[P, 2]: question, source."""
    pair_cluster: Ids
    """[P]: the cluster of each pair."""
    source_cluster: Ids
    """[S]: the cluster of each source."""
    adjacent: Ids
    """[C, A]: the adjacent clusters of each cluster."""
    positives: Ragged
    """All sources that answer each question."""
    threshold: float
    """Cosine with the question from which a source of another cluster is similar."""


# -- the definition of a tier ----------------------------------------------------------------------


def largest_scores(inputs: MiningInputs, pairs: Ids, margin: float) -> NDArray[np.float32]:
    """The largest score that a negative of each pair may have: `margin` times the positive's."""
    score = pair_scores(inputs, pairs, inputs.pair_index[pairs, 1:2])[:, 0].astype(np.float64)
    # A share of a negative score would lie above it, so subtract the same distance instead.
    return np.asarray(score - (1 - margin) * np.abs(score), dtype=np.float32)


def pair_scores(inputs: MiningInputs, pairs: Ids, sources_PN: Ids) -> NDArray[np.float32]:
    """The cosine of each pair's question with some sources: [P, N]."""
    scores = np.empty(sources_PN.shape, dtype=np.float32)
    for start in range(0, len(pairs), ROWS):
        part = slice(start, start + ROWS)
        questions = inputs.questions[inputs.pair_index[pairs[part], 0]]
        scores[part] = np.einsum("pd,pnd->pn", questions, inputs.sources[sources_PN[part]])
    return scores


def assign_tiers(inputs: MiningInputs, pairs: Ids, sources_PN: Ids) -> Ids:
    """The tier of each source for its pair, by definition: [P, N]."""
    pair_cluster = inputs.pair_cluster[pairs]
    source_cluster = inputs.source_cluster[sources_PN]
    adjacent = inputs.adjacent[pair_cluster]
    is_adjacent = (adjacent[:, None, :] == source_cluster[:, :, None]).any(axis=2)
    is_similar = pair_scores(inputs, pairs, sources_PN) >= np.float32(inputs.threshold)
    tiers: Ids = np.where(is_similar, 3, 4).astype(np.int64)
    tiers[is_adjacent] = 2
    tiers[source_cluster == pair_cluster[:, None]] = 1
    return tiers


# -- quotas ----------------------------------------------------------------------------------------


def fill_order(tier: int) -> tuple[int, ...]:
    """The tiers that fill up a tier which runs short: first the easier ones, then the harder.

    >>> fill_order(1), fill_order(3), fill_order(4)
    ((2, 3, 4), (4, 2, 1), (3, 2, 1))
    """
    return (
        *(each for each in TIERS if each > tier),
        *(each for each in TIERS[::-1] if each < tier),
    )


@dataclass(kw_only=True)
class MinedNegatives:
    """Negatives of some pairs, with their tiers and shortages."""

    negatives: Ids
    """[P, N]: source ids; −1 where there were not enough."""
    tiers: Ids
    """[P, N]: 1 to 4; 0 where there is no negative."""
    available: Ids
    """[P, 4]: how many negatives of its quota each tier had."""
    filled: Ids
    """[P, 4, 4]: for tier t + 1, how many came from tier u + 1 instead."""
    quotas: Mapping[int, int]
    """How many negatives of each tier were wanted."""

    @classmethod
    def empty(cls, pairs: int, quotas: Mapping[int, int]) -> MinedNegatives:
        """No negatives yet; `set_rows` sets them block by block."""
        wanted = sum(quotas.values())
        return cls(
            negatives=np.full((pairs, wanted), -1, dtype=np.int64),
            tiers=np.zeros((pairs, wanted), dtype=np.int64),
            available=np.zeros((pairs, len(TIERS)), dtype=np.int64),
            filled=np.zeros((pairs, len(TIERS), len(TIERS)), dtype=np.int64),
            quotas=dict(quotas),
        )

    @classmethod
    def from_stage(
        cls, stage: Mapping[str, Any], quotas: Mapping[int, int], pairs: Ids
    ) -> MinedNegatives:
        """The rows of some pairs from what `to_stage` returned."""
        return cls(
            negatives=stage["negatives"][pairs],
            tiers=stage["tiers"][pairs],
            available=stage["found"][pairs],
            filled=stage["filled"][pairs],
            quotas=quotas,
        )

    def to_stage(self) -> dict[str, Ids]:
        """The arrays under the names that the stage cache stores."""
        return {
            "negatives": self.negatives,
            "tiers": self.tiers,
            "found": self.available,
            "filled": self.filled,
        }

    def set_rows(self, rows: Ids, block: MinedNegatives) -> None:
        """Set the negatives of some rows."""
        arrays = self.to_stage()
        for name, values in block.to_stage().items():
            arrays[name][rows] = values

    def ledger(self) -> dict[str, Any]:
        """The content of ledger.json, with an entry for each pair and tier that ran short."""
        is_short = self.available < np.array([self.quotas[tier] for tier in TIERS])
        shortages = [
            {
                "pair": pair,
                "tier": TIERS[column],
                "wanted": int(self.quotas[TIERS[column]]),
                "found": int(self.available[pair, column]),
                "filled_from": {
                    str(tier): int(count)
                    for tier, count in zip(TIERS, self.filled[pair, column], strict=True)
                    if count
                },
            }
            for pair, column in np.argwhere(is_short)[:LISTED].tolist()
        ]
        return {
            "format": 1,
            "quotas": {str(tier): int(self.quotas[tier]) for tier in TIERS},
            "made": {str(tier): int(np.count_nonzero(self.tiers == tier)) for tier in TIERS},
            "shortages": shortages,
            "short_pairs": int(np.count_nonzero(is_short.any(axis=1))),
        }


def fill_quotas(candidates: Mapping[int, Ids], quotas: Mapping[int, int]) -> MinedNegatives:
    """Take the quota of each tier, then fill up tiers that run short from other tiers.

    Args:
        candidates: for each tier [P, ≥ N] sources, best first, −1 after the last. No source is in
            two tiers of a pair.
        quotas: of each tier.

    >>> some = {1: [[5, -1]], 2: [[7, 8]], 3: [[-1, -1]], 4: [[-1, -1]]}
    >>> candidates = {tier: np.array(ids) for tier, ids in some.items()}
    >>> mined = fill_quotas(candidates, {1: 2, 2: 0, 3: 0, 4: 0})
    >>> mined.negatives.tolist(), mined.tiers.tolist()
    ([[5, 7]], [[1, 2]])
    """
    pairs, wanted = len(candidates[1]), sum(quotas.values())
    mined = MinedNegatives.empty(pairs, quotas)
    counts = np.stack([(candidates[tier] >= 0).sum(axis=1) for tier in TIERS], axis=1)
    mined.available[:] = np.minimum(counts, [quotas[tier] for tier in TIERS])
    # First every tier takes its own quota, so that no tier loses candidates to another's shortage.
    taken = mined.available.copy()
    for tier in TIERS:
        short = quotas[tier] - mined.available[:, tier - 1]
        for other in fill_order(tier):
            given = np.minimum(short, counts[:, other - 1] - taken[:, other - 1])
            mined.filled[:, tier - 1, other - 1] = given
            taken[:, other - 1] += given
            short = short - given
    # All candidates side by side; the first `taken` of each tier are chosen. A stable sort by
    # "not chosen" moves them to the front without changing their order.
    ids = np.concatenate([candidates[tier] for tier in TIERS], axis=1)
    tier_of = np.repeat(TIERS, [candidates[tier].shape[1] for tier in TIERS])
    rank = np.concatenate([np.arange(candidates[tier].shape[1]) for tier in TIERS])
    is_chosen = rank[None, :] < taken[:, tier_of - 1]
    order = np.argsort(~is_chosen, axis=1, kind="stable")[:, :wanted]
    width = order.shape[1]
    is_chosen = np.take_along_axis(is_chosen, order, axis=1)
    mined.negatives[:, :width] = np.where(is_chosen, np.take_along_axis(ids, order, 1), -1)
    mined.tiers[:, :width] = np.where(is_chosen, tier_of[order], 0)
    return mined


# -- a check of the result -------------------------------------------------------------------------


def negative_problems(
    inputs: MiningInputs, pairs: Ids, pool: Ids, negatives: Ids, tiers: Ids, margin: float
) -> Iterator[str]:
    """What is wrong with the negatives of one split: the first example of each kind of problem.

    Args:
        inputs: vectors, clusters, positives.
        pairs: the pairs of the split.
        pool: the sources of the split.
        negatives: [P, N], one row for each of `pairs`.
        tiers: [P, N], likewise.
        margin: share of the positive's score that a negative may reach.
    """
    seen: set[str] = set()
    for start in range(0, len(pairs), ROWS):
        part = slice(start, start + ROWS)
        flags = _flag_problems(inputs, pairs[part], pool, negatives[part], tiers[part], margin)
        for kind, flag in flags.items():
            if flag.any() and kind not in seen:
                seen.add(kind)
                row, column = (int(each) for each in np.argwhere(flag)[0])
                source, pair = int(negatives[part][row, column]), int(pairs[part][row])
                yield f"negative {column} of pair {pair}, source {source}, {kind}"


def _flag_problems(
    inputs: MiningInputs, pairs: Ids, pool: Ids, negatives: Ids, tiers: Ids, margin: float
) -> dict[str, NDArray[np.bool_]]:
    """For each kind of problem, which negatives have it: [P, N]."""
    score = pair_scores(inputs, pairs, negatives)
    limit = largest_scores(inputs, pairs, margin)[:, None] + np.float32(ROUNDING)
    order = np.argsort(negatives, axis=1, kind="stable")
    ranked = np.take_along_axis(negatives, order, axis=1)
    is_repeated = np.zeros(negatives.shape, dtype=bool)
    np.put_along_axis(is_repeated, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    # A score at the threshold may fall on either side, because mining sums in another order.
    at_threshold = np.abs(score - np.float32(inputs.threshold)) <= ROUNDING
    is_right_tier = assign_tiers(inputs, pairs, negatives) == tiers
    return {
        "answers the question": _is_positive(inputs, pairs, negatives),
        "is of another split": ~np.isin(negatives, pool),
        "is listed twice": is_repeated,
        "scores above the margin": score > limit,
        "is of another tier": ~(is_right_tier | (at_threshold & (tiers >= 3))),
    }


def _is_positive(inputs: MiningInputs, pairs: Ids, negatives: Ids) -> NDArray[np.bool_]:
    """Which negatives are positives of their question."""
    # One number for a question and a source, so that one `isin` compares them all.
    count = len(inputs.sources)
    question = np.repeat(np.arange(len(inputs.positives)), np.diff(inputs.positives.offsets))
    positives = question * count + inputs.positives.values
    pairs_of_negatives = inputs.pair_index[pairs, 0][:, None] * count + negatives
    return np.asarray(np.isin(pairs_of_negatives, positives))
