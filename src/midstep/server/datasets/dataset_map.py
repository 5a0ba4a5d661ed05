"""The 2-D map of questions and centroids, and the shares of variants over epochs."""

# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from midstep.server.array_json import numbers
from midstep.server.datasets.data_roots import DataRoots, StoredDataset
from midstep.server.datasets.dataset_views import MOST_CACHED, checked_ids, owners, split_name

if TYPE_CHECKING:
    import numpy as np

    from midstep.data.steering.curriculum import Curriculum
    from midstep.data.steering.storage.tables import Tables

    Floats = np.ndarray[Any, np.dtype[np.float64]]


def principal_plane(rows_ND: Any) -> tuple[Floats, Floats, Floats]:
    """Mean [D], two orthonormal axes [2, D], and the share of the variance along each [2].

    The largest number of each axis is positive, because the sign of an SVD is arbitrary and the map
    must not flip between calls. Rows that are not finite are left out; without variance an axis is
    zero.

    >>> import numpy as np
    >>> mean, axes, shares = principal_plane(np.array([[0.0, 1.0], [4.0, 1.0], [8.0, 1.0]]))
    >>> mean.tolist(), axes.tolist(), shares.round(6).tolist()
    ([4.0, 1.0], [[1.0, 0.0], [0.0, 0.0]], [1.0, 0.0])
    """
    import numpy as np

    rows = np.asarray(rows_ND, dtype=np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    width = rows.shape[1]
    mean = rows.mean(axis=0) if len(rows) else np.zeros(width)
    axes, shares = np.zeros((2, width)), np.zeros(2)
    centred = rows - mean
    total = float(np.square(centred).sum())
    # Equal rows differ by rounding only, far below this share of their squares.
    if total <= 1e-24 * max(1.0, float(np.square(rows).sum())):
        return mean, axes, shares
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    for at, (size, axis) in enumerate(zip(sizes[:2], directions[:2], strict=True)):
        if size * size > 1e-12 * total:
            axes[at] = axis * np.sign(axis[np.argmax(np.abs(axis))]) + 0.0  # no negative zeros
            shares[at] = size * size / total
    return mean, axes, shares


def on_plane(rows_ND: Any, mean_D: Floats, axes_2D: Floats) -> Floats:
    """Coordinates of each row [N, 2]."""
    import numpy as np

    points_N2: Floats = (np.asarray(rows_ND, dtype=np.float64) - mean_D) @ axes_2D.T
    return points_N2


MOST_CENTROIDS = 10_000
"""Centroids on the map."""
DECIMALS = 5
"""Decimals of a coordinate: far below a pixel."""


@lru_cache(MOST_CACHED)
def map_json(roots: DataRoots, stored: StoredDataset, points: int) -> dict[str, Any]:
    """The fields of `DatasetMapOut`."""
    tables = roots.tables(stored)
    pairs = _sample(tables, points)
    config, owner = tables.config, owners(roots, stored)
    questions = checked_ids(
        stored, tables, "pair_index", tables["pair_index"][pairs, 0], config.n_questions
    )
    clusters = checked_ids(
        stored, tables, "pair_cluster_id", tables["pair_cluster_id"][pairs], config.n_clusters
    )
    rows = tables["question_embs"][questions]
    mean, axes, shares = principal_plane(rows)
    centroids = tables["centroid_embs"][:MOST_CENTROIDS]
    return {
        "shares": shares.tolist(),
        "centroids": _columns(on_plane(centroids, mean, axes)),
        "questions": {
            **_columns(on_plane(rows, mean, axes)),
            "pair": pairs.tolist(),
            "question": questions.tolist(),
            "cluster": clusters.tolist(),
            "split": [split_name(int(each)) for each in owner[pairs]],
        },
        "of": config.n_pairs,
    }


def _sample(tables: Tables, points: int) -> Any:
    """Pairs of different questions, drawn with the seed of the dataset, sorted by id."""
    import numpy as np

    from midstep.core.random_streams import stream_key

    count = tables.config.n_pairs
    chance = np.random.default_rng(stream_key(tables.config.random_seed, "map"))
    drawn = np.sort(chance.choice(count, size=min(points, count), replace=False))
    _, first = np.unique(tables["pair_index"][drawn, 0], return_index=True)
    return drawn[np.sort(first)]


def _columns(points: Any) -> dict[str, Any]:
    rounded = points.round(DECIMALS)
    return {"x": numbers(rounded[:, 0]), "y": numbers(rounded[:, 1])}


@lru_cache(MOST_CACHED)
def curriculum_json(roots: DataRoots, stored: StoredDataset, epochs: int) -> dict[str, Any]:
    """The fields of `CurriculumOut`: all schedules, the one of the dataset first."""
    from midstep.data.steering.curriculum import Bands, DistanceGated, LinearZero, curriculum_from
    from midstep.data.steering.storage.layout import VARIANTS

    tables = roots.tables(stored)
    own = curriculum_from(tables.config.curriculum)
    schedules = [
        own,
        *(kind() for kind in (LinearZero, DistanceGated, Bands) if kind is not type(own)),
    ]
    distances = _train_distances(stored, tables)
    return {
        "variants": list(VARIANTS),
        "epochs": epochs,
        "schedules": [
            {"own": each is own, **_schedule(each, tables, distances, epochs)} for each in schedules
        ],
    }


def _train_distances(stored: StoredDataset, tables: Tables) -> Any:
    """Centroid distances of the training pairs, ascending."""
    import numpy as np

    ids = checked_ids(stored, tables, "train_idx", tables["train_idx"], tables.config.n_pairs)
    return np.sort(tables["centroid_distances"][ids].astype(np.float32))


def _schedule(schedule: Curriculum, tables: Tables, distances: Any, epochs: int) -> dict[str, Any]:
    stored = tables.config.steering_probabilities
    gates = [schedule.largest_distance(epoch) for epoch in range(epochs)]
    beyond = [beyond_gate(distances, gate) for gate in gates]
    shares = [_gated(schedule.shares(at, stored), far) for at, far in enumerate(beyond)]
    has_gate = any(gate is not None for gate in gates)
    return {
        "name": schedule.name,
        "settings": {name: value for name, value in schedule.describe().items() if name != "name"},
        "shares": shares,
        "largest_distance": gates if has_gate else None,
        "beyond": beyond if has_gate else None,
    }


def beyond_gate(ascending: np.ndarray[Any, Any], gate: float | None) -> float:
    """Share of the distances above a gate.

    >>> import numpy as np
    >>> beyond_gate(np.array([0.1, 0.2, 0.4, 0.5], np.float32), 0.2)
    0.5
    """
    import numpy as np

    if gate is None or not len(ascending):
        return 0.0
    # In float32, as a batch compares: in float64 a distance equal to the gate could be above it.
    return float(1 - np.searchsorted(ascending, np.float32(gate), side="right") / len(ascending))


def _gated(shares: Any, far: float) -> list[float]:
    """Shares under a gate: pairs beyond it get the next easier variant."""
    zero, centroid, keyword, residual = shares
    easier = (zero + centroid, keyword, residual, 0.0)
    return [
        (1 - far) * within + far * beyond for within, beyond in zip(shares, easier, strict=True)
    ]
