"""Steering vectors: the direction in which to move a question. Pure functions of arrays.

P pairs, D numbers in an embedding, K keywords. Everything is computed in float64 and returned as
float32. A vector that is too short to have a direction stays zero.

| variant | `standard` | `legacy` |
|---|---|---|
| centroid | unit(c) | unit(c − q) |
| keyword_weighted | unit(Σ w k / Σ w), w = max(cos(q, k), 0) | unit(mean k) |
| residual | unit(q − (q·ĉ) ĉ) | q − c |

If a pair has no keyword, or none with a weight above 0, keyword_weighted is the centroid's vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import ConfigError
from midstep.data.exact_search import unit
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.tables import Tables

Floats = NDArray[np.float64]

BLOCK_PAIRS = 16_384
"""Pairs computed together: bounds the memory for float64."""


def centroid_distances(
    questions_PD: NDArray[Any], centroids_PD: NDArray[Any]
) -> NDArray[np.float32]:
    """1 − cos(q, c) for each pair, in [0, 2]."""
    cosine = np.einsum("pd,pd->p", unit(questions_PD), unit(centroids_PD))
    return np.asarray(np.clip(1 - cosine, 0, 2), dtype=np.float32)


def steering_tables(
    questions_PD: NDArray[Any],
    centroids_PD: NDArray[Any],
    keyword_embs_KD: NDArray[Any],
    keyword_ids: Ragged,
    *,
    definition: str = "standard",
    keyword_weights: NDArray[Any] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """The three steering tables and the centroid distances, under the names of the layout.

    Args:
        questions_PD: the question of each pair.
        centroids_PD: the centroid of each pair's cluster.
        keyword_embs_KD: all keywords.
        keyword_ids: the keywords of each pair.
        definition: `standard` or `legacy`; see the top of this module.
        keyword_weights: one for each of `keyword_ids.values`, instead of the cosine.

    >>> q, c, k = np.array([[1.0, 1.0]]), np.array([[2.0, 0.0]]), np.array([[0.0, 5.0]])
    >>> tables = steering_tables(q, c, k, Ragged.from_lists([[0]]))
    >>> [tables[f"steering_{name}"][0].tolist() for name in ("centroid", "residual")]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if definition not in ("standard", "legacy"):
        raise ConfigError(f"steering definition {definition!r} is unknown; use standard or legacy")
    pairs, width = questions_PD.shape
    tables = {
        name: np.zeros((pairs, width), dtype=np.float32)
        for name in ("steering_centroid", "steering_keyword_weighted", "steering_residual")
    }
    for start in range(0, pairs, BLOCK_PAIRS):
        rows = slice(start, min(start + BLOCK_PAIRS, pairs))
        q, c = (np.asarray(each[rows], dtype=np.float64) for each in (questions_PD, centroids_PD))
        mean = _keyword_mean(q, keyword_embs_KD, keyword_ids, rows, definition, keyword_weights)
        centroid, residual = _standard(q, c) if definition == "standard" else _legacy(q, c)
        keyword = unit(mean)
        none = ~keyword.any(axis=1)
        keyword[none] = centroid[none]
        for name, block in zip(tables, (centroid, keyword, residual), strict=True):
            tables[name][rows] = block
    return {**tables, "centroid_distances": centroid_distances(questions_PD, centroids_PD)}


def _standard(q_PD: Floats, c_PD: Floats) -> tuple[Floats, Floats]:
    toward = unit(c_PD)
    along = np.einsum("pd,pd->p", q_PD, toward)[:, None] * toward
    rest = q_PD - along
    # If the question lies on the line of its centroid, the rest is rounding error: no direction.
    tiny = np.linalg.norm(rest, axis=1) <= 1e-7 * np.linalg.norm(q_PD, axis=1)
    rest[tiny] = 0
    return toward, unit(rest)


def _legacy(q_PD: Floats, c_PD: Floats) -> tuple[Floats, Floats]:
    return unit(c_PD - q_PD), q_PD - c_PD


def _keyword_mean(
    q_PD: Floats,
    keyword_embs_KD: NDArray[Any],
    keyword_ids: Ragged,
    rows: slice,
    definition: str,
    weights: NDArray[Any] | None,
) -> Floats:
    """The weighted sum of each pair's keywords. The caller scales it to length 1."""
    offsets = keyword_ids.offsets[rows.start : rows.stop + 1]
    values = slice(offsets[0], offsets[-1])
    pair_of_keyword = np.repeat(np.arange(len(q_PD)), np.diff(offsets))
    keywords = np.asarray(keyword_embs_KD, dtype=np.float64)[keyword_ids.values[values]]
    if definition == "legacy":
        weight = np.ones(len(keywords))
    elif weights is not None:
        weight = np.maximum(np.asarray(weights[values], dtype=np.float64), 0)
    else:
        cosine = np.einsum("kd,kd->k", unit(q_PD)[pair_of_keyword], unit(keywords))
        weight = np.maximum(cosine, 0)
    total = np.zeros_like(q_PD)
    np.add.at(total, pair_of_keyword, keywords * weight[:, None])
    return total


CHECKED_PAIRS = 2048
"""Pairs that `steering_problems` computes again, spread evenly over all pairs."""
TOLERANCE = {"float32": 1e-4, "float16": 5e-3}


def steering_problems(tables: Tables) -> Iterator[str]:
    """One line for each stored steering table that differs from its definition.

    A dataset whose definition is unknown (`stored`) has no problems. The keyword vectors are not
    checked, because their weights may have been given.
    """
    config = tables.config
    if config.steering_definition == "stored":
        return
    pairs = np.linspace(0, config.n_pairs - 1, min(CHECKED_PAIRS, config.n_pairs)).astype(np.int64)
    expected = steering_tables(
        tables["question_embs"][tables["pair_index"][pairs, 0]],
        tables["centroid_embs"][tables["pair_cluster_id"][pairs]],
        tables["keyword_embs"],
        Ragged.from_lists([[] for _ in pairs]),
        definition=config.steering_definition,
    )
    for name in ("steering_centroid", "steering_residual", "centroid_distances"):
        stored = tables[name][pairs]
        is_half = any(tables[each].dtype == np.float16 for each in (name, "question_embs"))
        limit = TOLERANCE["float16" if is_half else "float32"]
        error = np.abs(stored.astype(np.float64) - expected[name])
        worst = np.unravel_index(int(error.argmax()), error.shape)
        if error[worst] > limit * max(1.0, float(np.abs(expected[name][worst]))):
            index = [int(pairs[worst[0]]), *(int(each) for each in worst[1:])]
            yield (
                f"{tables.label(name)}{index} is {stored[worst]:.6g}, by the definition "
                f"{config.steering_definition!r} it is {expected[name][worst]:.6g}"
            )
