"""The use of a codebook from counts that are summed over an epoch and over ranks.

A mean over batches would be wrong: a batch of 128 samples cannot use 512 codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


def codebook_statistics(counts: Any) -> dict[str, float]:
    """Perplexity and usage of counts [codebooks, codes]; means over the codebooks.

    >>> codebook_statistics([[2, 2, 0, 0]])
    {'perplexity': 2.0, 'usage': 0.5, 'dead_codes': 2.0}
    """
    array = as_counts(counts)
    shares = array / np.maximum(1, array.sum(1, keepdims=True))
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    perplexity = np.exp(-(shares * logs).sum(1))
    return {
        "perplexity": float(perplexity.mean()),
        "usage": float((array > 0).mean()),
        "dead_codes": float((array == 0).sum()),
    }


def as_counts(counts: Any) -> Counts:
    """Counts as an array [codebooks, codes].

    Raises:
        ValueError: there is no code, or a count is negative or not a number.
    """
    try:
        array = np.atleast_2d(np.asarray(counts, np.int64))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"codebook counts must be whole numbers: {error}") from None
    if array.ndim != 2 or not array.size or (array < 0).any():
        raise ValueError(
            "codebook counts need the shape [codebooks, codes] and no negative number, got "
            f"{list(array.shape)}"
        )
    return array


class CodebookTruth:
    """Counts of each epoch, as the ranks of a run recorded them.

    >>> truth = CodebookTruth()
    >>> truth.add(0, [[1, 0]], rank=0)
    >>> truth.add(0, [[0, 1]], rank=1)
    >>> truth.of_epoch(0)["perplexity"]
    2.0
    """

    def __init__(self) -> None:
        self._counts: dict[int, dict[int, tuple[int, Counts]]] = {}

    @property
    def epochs(self) -> list[int]:
        """Epochs with counts."""
        return sorted(self._counts)

    def add(self, epoch: int, counts: Any, *, rank: int = 0, timeline: int = 0) -> None:
        """The counts of a rank; those of a higher timeline replace them.

        Raises:
            ValueError: see `as_counts`.
        """
        array = as_counts(counts)
        by_rank = self._counts.setdefault(epoch, {})
        known = by_rank.get(rank)
        if known is None or known[0] <= timeline:
            by_rank[rank] = (timeline, array)

    def counts(self, epoch: int) -> Counts:
        """The counts of an epoch, summed over ranks.

        Ranks whose codebook has another size are left out: they are of a timeline that was left.
        """
        by_rank = self._counts[epoch].values()
        _, newest = max(by_rank, key=lambda each: each[0])
        per_rank = [counts for _, counts in by_rank if counts.shape == newest.shape]
        total: Counts = np.sum(per_rank, axis=0)
        return total

    def ages(self, epoch: int) -> Counts:
        """Epochs since each code was used; 0 if it was used in this one."""
        ages = np.zeros_like(self.counts(epoch))
        for each in self.epochs:
            if each > epoch:
                break
            counts = self.counts(each)
            if counts.shape == ages.shape:  # a resumed run may have a codebook of another size
                ages = np.where(counts > 0, 0, ages + 1)
        return ages

    def of_epoch(self, epoch: int) -> Mapping[str, Any]:
        """The field `codebook` of a `FigurePayload`."""
        counts, ages = self.counts(epoch), self.ages(epoch)
        return {
            **codebook_statistics(counts),
            "counts": counts.tolist(),
            "ages": ages.tolist(),
            "oldest_dead_epochs": int(ages.max()),
            "epoch": epoch,
        }
