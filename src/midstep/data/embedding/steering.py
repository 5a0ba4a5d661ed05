"""Steering vectors: which way a question should be moved. Pure functions of arrays.

P pairs, D numbers in an embedding, K keywords. Everything is computed in float64 and given as
float32; a vector too short to have a direction stays zero.

| variant | `standard` | `legacy` |
|---|---|---|
| centroid | unit(c) | unit(c − q) |
| keyword_weighted | unit(Σ w k / Σ w), w = max(cos(q, k), 0) | unit(mean k) |
| residual | unit(q − (q·ĉ) ĉ) | q − c |

Where a pair has no keyword, or none with weight, keyword_weighted is the centroid's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import ConfigError
from midstep.data.embedding.layout import Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["centroid_distances", "steering_tables", "unit"]

SHORTEST = 1e-12
ROWS = 16_384
"""Pairs computed together: bounds the memory for float64."""


def unit(vectors_PD: NDArray[Any]) -> Floats:  # noqa: N803 - shape suffix
    """Each row at length 1; rows of no length stay zero.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    wide = np.asarray(vectors_PD, dtype=np.float64)
    length = np.linalg.norm(wide, axis=-1, keepdims=True)
    made: Floats = np.zeros_like(wide)
    np.divide(wide, length, out=made, where=length > SHORTEST)
    return made


def centroid_distances(
    questions_PD: NDArray[Any],  # noqa: N803 - shape suffix
    centroids_PD: NDArray[Any],  # noqa: N803 - shape suffix
) -> NDArray[np.float32]:
    """1 − cos(q, c) for each pair, in [0, 2]."""
    cosine = np.einsum("pd,pd->p", unit(questions_PD), unit(centroids_PD))
    return np.asarray(np.clip(1 - cosine, 0, 2), dtype=np.float32)


def steering_tables(
    questions_PD: NDArray[Any],  # noqa: N803 - shape suffix
    centroids_PD: NDArray[Any],  # noqa: N803 - shape suffix
    keyword_embs_KD: NDArray[Any],  # noqa: N803 - shape suffix
    keyword_ids: Ragged,
    *,
    definition: str = "standard",
    keyword_weights: NDArray[Any] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """The three steering tables and the distances, under the names of the layout.

    Args:
        questions_PD: the question of each pair.
        centroids_PD: the centroid of each pair's cluster.
        keyword_embs_KD: all keywords.
        keyword_ids: the keywords of each pair.
        definition: `standard` or `legacy`; see the top of this module.
        keyword_weights: one for each of `keyword_ids.values`, in place of the cosine.

    >>> q, c, k = np.array([[1.0, 1.0]]), np.array([[2.0, 0.0]]), np.array([[0.0, 5.0]])
    >>> made = steering_tables(q, c, k, Ragged.of([[0]]))
    >>> [made[f"steering_{name}"][0].tolist() for name in ("centroid", "residual")]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if definition not in ("standard", "legacy"):
        raise ConfigError(f"steering definition {definition!r} is unknown; use standard or legacy")
    pairs, width = questions_PD.shape
    made = {
        name: np.zeros((pairs, width), dtype=np.float32)
        for name in ("steering_centroid", "steering_keyword_weighted", "steering_residual")
    }
    for start in range(0, pairs, ROWS):
        rows = slice(start, min(start + ROWS, pairs))
        q, c = (np.asarray(each[rows], dtype=np.float64) for each in (questions_PD, centroids_PD))
        mean = _keyword_mean(q, keyword_embs_KD, keyword_ids, rows, definition, keyword_weights)
        centroid, residual = _standard(q, c) if definition == "standard" else _legacy(q, c)
        keyword = unit(mean)
        none = ~keyword.any(axis=1)
        keyword[none] = centroid[none]
        for name, block in zip(made, (centroid, keyword, residual), strict=True):
            made[name][rows] = block
    return {**made, "centroid_distances": centroid_distances(questions_PD, centroids_PD)}


def _standard(q_PD: Floats, c_PD: Floats) -> tuple[Floats, Floats]:  # noqa: N803 - shape suffix
    toward = unit(c_PD)
    along = np.einsum("pd,pd->p", q_PD, toward)[:, None] * toward
    rest = q_PD - along
    # A question on the line of its centroid leaves rounding only, which has no direction.
    tiny = np.linalg.norm(rest, axis=1) <= 1e-7 * np.linalg.norm(q_PD, axis=1)
    rest[tiny] = 0
    return toward, unit(rest)


def _legacy(q_PD: Floats, c_PD: Floats) -> tuple[Floats, Floats]:  # noqa: N803 - shape suffix
    return unit(c_PD - q_PD), q_PD - c_PD


def _keyword_mean(
    q_PD: Floats,  # noqa: N803 - shape suffix
    keyword_embs_KD: NDArray[Any],  # noqa: N803 - shape suffix
    keyword_ids: Ragged,
    rows: slice,
    definition: str,
    weights: NDArray[Any] | None,
) -> Floats:
    """The weighted sum of each pair's keywords; its length does not matter."""
    offsets = keyword_ids.offsets[rows.start : rows.stop + 1]
    values = slice(offsets[0], offsets[-1])
    owner = np.repeat(np.arange(len(q_PD)), np.diff(offsets))
    keywords = np.asarray(keyword_embs_KD, dtype=np.float64)[keyword_ids.values[values]]
    if definition == "legacy":
        weight = np.ones(len(owner))
    elif weights is not None:
        weight = np.maximum(np.asarray(weights[values], dtype=np.float64), 0)
    else:
        weight = np.maximum(np.einsum("kd,kd->k", unit(q_PD)[owner], unit(keywords)), 0)
    total = np.zeros_like(q_PD)
    np.add.at(total, owner, keywords * weight[:, None])
    return total
