"""Labels of samples as shares of clusters. Pure functions of arrays.

N samples, C clusters, D numbers in an embedding, T suggestion terms. Everything is computed in
float64 and returned as float32. Every row sums to 1.

| label | definition |
|---|---|
| source | the probabilities given, else softmax(−mean cosine distance of the terms to c / T) |
| steering | softmax(−cosine distance of the steering vector to c / T); uniform when it is zero |
| combined | (1 − w) · source + w · steering, over its sum |

Cosine distance is 1 − cos. The source label of a sample with neither probabilities nor terms is
uniform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import ConfigError
from midstep.core.field_checks import require, within
from midstep.data.exact_search import unit
from midstep.data.ragged import Ragged
from midstep.data.steering.vectors import BLOCK_PAIRS

Floats = NDArray[np.float64]
Labels = NDArray[np.float32]


def steering_labels(
    steering_ND: NDArray[Any], centroids_CD: NDArray[Any], *, temperature: float = 0.1
) -> Labels:
    """The steering label of each steering vector: [N, C].

    >>> steering_labels(np.array([[5.0, 0.0], [0.0, 0.0]]), np.eye(2)).round(4).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    check_temperature(temperature)
    toward = unit(centroids_CD)
    labels = np.empty((len(steering_ND), len(toward)), dtype=np.float32)
    for start in range(0, len(steering_ND), BLOCK_PAIRS):
        vectors = unit(steering_ND[start : start + BLOCK_PAIRS])
        block = _softmax(-(1 - vectors @ toward.T) / temperature)
        block[~vectors.any(axis=1)] = 1 / len(toward)
        labels[start : start + BLOCK_PAIRS] = block
    return labels


def source_labels(
    centroids_CD: NDArray[Any],
    term_embs_TD: NDArray[Any],
    term_ids: Ragged,
    *,
    given_NC: NDArray[Any] | None = None,
    temperature: float = 0.1,
) -> Labels:
    """The source label of each sample, from given probabilities or its suggestion terms: [N, C].

    Args:
        centroids_CD: the centroids of the clusters.
        term_embs_TD: all suggestion terms.
        term_ids: the terms of each sample.
        given_NC: given probabilities; a row that begins with NaN is not given.
        temperature: T of the softmax.

    >>> terms, ids = np.array([[1.0, 0.0], [0.0, 1.0]]), Ragged.from_lists([[0], [0, 1], []])
    >>> source_labels(np.eye(2), terms, ids).round(4).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]
    """
    check_temperature(temperature)
    toward = unit(centroids_CD)
    labels = np.empty((len(term_ids), len(toward)), dtype=np.float32)
    for start in range(0, len(term_ids), BLOCK_PAIRS):
        rows = slice(start, min(start + BLOCK_PAIRS, len(term_ids)))
        mean, counts = _mean_direction(term_embs_TD, term_ids, rows)
        # The distance is linear in the terms' directions, so the mean is taken before the product.
        block = _softmax(-(1 - mean @ toward.T) / temperature)
        block[counts == 0] = 1 / len(toward)
        labels[rows] = block
    if given_NC is not None:
        known = ~np.isnan(given_NC[:, 0])
        labels[known] = _scale_to_one(np.asarray(given_NC[known], dtype=np.float64))
    return labels


def combined_labels(
    source_NC: NDArray[Any], steering_NC: NDArray[Any], *, weight: float = 0.5
) -> Labels:
    """(1 − w) · source + w · steering; each row sums to 1.

    >>> combined_labels(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), weight=0.25).tolist()
    [[0.75, 0.25]]
    """
    check_weight(weight)
    source, steering = (np.asarray(each, dtype=np.float64) for each in (source_NC, steering_NC))
    return _scale_to_one((1 - weight) * source + weight * steering).astype(np.float32)


def check_temperature(temperature: float) -> None:
    """Raise if the temperature T is not above 0."""
    if not temperature > 0 or not np.isfinite(temperature):
        raise ConfigError(f"temperature must be a number above 0, got {temperature!r}")


def check_weight(weight: float) -> None:
    """Raise if the weight w is not from 0 to 1."""
    require(within("combined_weight", float(weight), 0, 1))


def _mean_direction(
    term_embs_TD: NDArray[Any], term_ids: Ragged, rows: slice
) -> tuple[Floats, NDArray[np.int64]]:
    """The mean of the unit vectors of each sample's terms, and how many terms it has."""
    offsets = term_ids.offsets[rows.start : rows.stop + 1]
    counts = np.diff(offsets)
    sample_of_term = np.repeat(np.arange(len(counts)), counts)
    total = np.zeros((len(counts), term_embs_TD.shape[1]))
    terms = term_ids.values[offsets[0] : offsets[-1]]
    np.add.at(total, sample_of_term, unit(term_embs_TD[terms]))
    return total / np.maximum(counts, 1)[:, None], counts


def _softmax(scores_NC: Floats) -> Floats:
    shares: Floats = np.exp(scores_NC - scores_NC.max(axis=1, keepdims=True))
    return _scale_to_one(shares)


def _scale_to_one(shares_NC: Floats) -> Floats:
    scaled: Floats = shares_NC / shares_NC.sum(axis=1, keepdims=True)
    return scaled
