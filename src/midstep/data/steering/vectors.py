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

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import ConfigError
from midstep.data.exact_search import unit
from midstep.data.ragged import Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    from midstep.data.steering.storage.tables import Tables


BLOCK_PAIRS = 16_384
"""Pairs computed together: bounds the memory for float64."""


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


CHECKED_PAIRS = 2048
"""Pairs that are computed again, spread evenly over all."""
TOLERANCE = {"float32": 1e-4, "float16": 5e-3}


def steering_problems(tables: Tables) -> Iterator[str]:
    """One line for each table that differs; nothing where nobody knows how they were made.

    The keyword vectors are left out: their weights may have come from elsewhere.
    """
    config = tables.config
    if config.steering_definition == "stored":
        return
    pairs = np.linspace(0, config.n_pairs - 1, min(CHECKED_PAIRS, config.n_pairs)).astype(np.int64)
    expected = steering_tables(
        tables["question_embs"][tables["pair_index"][pairs, 0]],
        tables["centroid_embs"][tables["pair_cluster_id"][pairs]],
        tables["keyword_embs"],
        Ragged.of([[] for _ in pairs]),
        definition=config.steering_definition,
    )
    for name in ("steering_centroid", "steering_residual", "centroid_distances"):
        stored = tables[name][pairs]
        rough = max(tables[each].dtype.itemsize == 2 for each in (name, "question_embs"))
        limit = TOLERANCE["float16" if rough else "float32"]
        off = np.abs(stored.astype(np.float64) - expected[name])
        worst = np.unravel_index(int(off.argmax()), off.shape)
        if off[worst] > limit * max(1.0, float(np.abs(expected[name][worst]))):
            at = [int(pairs[worst[0]]), *(int(each) for each in worst[1:])]
            yield (
                f"{tables.label(name)}{at} is {stored[worst]:.6g}, by the definition "
                f"{config.steering_definition!r} it is {expected[name][worst]:.6g}"
            )
