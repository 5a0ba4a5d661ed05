"""What the four tiers are, and how high a negative may score.

P pairs, Q questions, S sources, N negatives of a pair, C clusters, A adjacent ones, D numbers.

| tier | a source is in it when |
|---|---|
| 1 | its cluster is the pair's |
| 2 | its cluster is adjacent to the pair's |
| 3 | neither, and its cosine with the question reaches the threshold |
| 4 | neither, and it does not |

So each source has exactly one tier for a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from midstep.data.embedding.layout import Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["Field", "largest_scores", "scores_of", "tiers_of"]

ROWS = 4096
"""Pairs scored together: bounds the memory of their vectors."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """All that mining looks at, for every split."""

    questions: NDArray[np.float32]
    """[Q, D] unit vectors."""
    sources: NDArray[np.float32]
    """[S, D] unit vectors."""
    pair_index: Ids
    """[P, 2]: question, source."""
    pair_cluster: Ids
    """[P]"""
    source_cluster: Ids
    """[S]"""
    adjacent: Ids
    """[C, A]: neighbours of each cluster."""
    positives: Ragged
    """All sources that answer each question."""
    threshold: float
    """Cosine with the question from which a source outside is similar."""

    @property
    def clusters(self) -> int:
        """How many there are."""
        return len(self.adjacent)


def largest_scores(field: Field, pairs: Ids, margin: float) -> NDArray[np.float32]:
    """The largest score a negative of each pair may have: the margin's share of the positive's.

    Below zero, a share would lie above the positive; there the same distance is kept below it.
    """
    score = scores_of(field, pairs, field.pair_index[pairs, 1:2])[:, 0].astype(np.float64)
    return np.asarray(score - (1 - margin) * np.abs(score), dtype=np.float32)


def scores_of(field: Field, pairs: Ids, sources_PN: Ids) -> NDArray[np.float32]:  # noqa: N803 - shape suffix
    """The cosine of each pair's question with some sources: [P, N]."""
    made = np.empty(sources_PN.shape, dtype=np.float32)
    for start in range(0, len(pairs), ROWS):
        part = slice(start, start + ROWS)
        questions = field.questions[field.pair_index[pairs[part], 0]]
        made[part] = np.einsum("pd,pnd->pn", questions, field.sources[sources_PN[part]])
    return made


def tiers_of(field: Field, pairs: Ids, sources_PN: Ids) -> Ids:  # noqa: N803 - shape suffix
    """The tier of each source for its pair, from the definition: [P, N]."""
    cluster = field.pair_cluster[pairs]
    found = field.source_cluster[sources_PN]
    near = (field.adjacent[cluster][:, None, :] == found[:, :, None]).any(axis=2)
    similar = scores_of(field, pairs, sources_PN) >= np.float32(field.threshold)
    made: Ids = np.where(similar, 3, 4).astype(np.int64)
    made[near] = 2
    made[found == cluster[:, None]] = 1
    return made
