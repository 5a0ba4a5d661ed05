"""Z-scores of events and tables, computed on the training split alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


class RunningMoments:
    """Mean and variance of the columns of a table that is read in pieces.

    Sums of squares would cancel for a column with a large mean, so pieces are merged by the
    formula of Chan, Golub and LeVeque (1979).

    >>> moments = RunningMoments()
    >>> for piece in ([[0.0], [2.0]], [[4.0]]):
    ...     moments.add(np.array(piece))
    >>> float(moments.zscore.mean[0])
    2.0
    """

    def __init__(self) -> None:
        self._count = 0
        self._mean: Any = 0.0
        self._squares: Any = 0.0

    def add(self, values_NF: Floats) -> None:
        """Include further rows."""
        if not len(values_NF):
            return
        values = values_NF.astype(np.float64)
        count, mean = len(values), values.mean(axis=0)
        total, shift = self._count + count, mean - self._mean
        self._squares += np.square(values - mean).sum(axis=0)
        self._squares += shift**2 * (self._count * count / total)
        self._mean, self._count = self._mean + shift * (count / total), total

    @property
    def zscore(self) -> ZScore:
        """The z-score of all rows so far."""
        std = np.sqrt(np.atleast_1d(self._squares) / max(1, self._count))
        mean = np.atleast_1d(self._mean)
        # A constant column has no spread (apart from rounding); it becomes 0, not infinity.
        flat = std <= 1e-12 * np.maximum(1.0, np.abs(mean))
        return ZScore(mean=mean, std=np.where(flat, 1.0, std))


@dataclass(frozen=True)
class ZScore:
    """Mean and standard deviation of each column; a constant column has the deviation 1."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    def apply(self, values: Floats) -> NDArray[np.float32]:
        """The values in units of their standard deviation, from their mean."""
        return ((values - self.mean) / self.std).astype(np.float32)

    def to_json(self) -> dict[str, list[float]]:
        """As `meta` holds it."""
        return {"mean": self.mean.tolist(), "std": self.std.tolist()}


@dataclass(frozen=True)
class EventNormalisation:
    """Z-scores of the real tokens and of the globals of events."""

    tokens: ZScore
    globals: ZScore

    def apply(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Normalise a batch of events. Padding becomes 0 whatever it held; `label` is kept."""
        ids = columns["tokens_id"].astype(np.int64)
        tokens = self.tokens.apply(columns["tokens_cont"])
        tokens[ids == 0] = 0.0
        return {
            "tokens_cont": tokens,
            "tokens_id": ids,
            "globals": self.globals.apply(columns["globals"]),
            **({"label": columns["label"].astype(np.int64)} if "label" in columns else {}),
        }

    def to_json(self) -> dict[str, Any]:
        """As `meta` holds it."""
        return {
            "kind": "zscore",
            "fitted_on": "train",
            "tokens_cont": self.tokens.to_json(),
            "globals": self.globals.to_json(),
        }


class EventMoments:
    """Collects the z-scores of events piece by piece."""

    def __init__(self) -> None:
        self._tokens, self._globals = RunningMoments(), RunningMoments()

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Include further events; padding is left out."""
        self._tokens.add(columns["tokens_cont"][columns["tokens_id"] != 0])
        self._globals.add(columns["globals"])

    @property
    def normalisation(self) -> EventNormalisation:
        """The normalisation by all events so far."""
        return EventNormalisation(self._tokens.zscore, self._globals.zscore)
