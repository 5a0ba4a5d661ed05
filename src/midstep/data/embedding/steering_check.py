"""Whether stored steering vectors are those that the dataset's definition gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from midstep.data.embedding.layout import Ragged
from midstep.data.embedding.steering import steering_tables

if TYPE_CHECKING:
    from midstep.data.embedding.tables import Tables

__all__ = ["steering_problems"]

COMPARED = 2048
"""Pairs that are computed again, spread evenly over all."""
TOLERANCE = {"float32": 1e-4, "float16": 5e-3}


def steering_problems(tables: Tables) -> Iterator[str]:
    """One line for each table that differs; nothing where nobody knows how they were made.

    The keyword vectors are left out: their weights may have come from elsewhere.
    """
    config = tables.config
    if config.steering_definition == "stored":
        return
    pairs = np.linspace(0, config.n_pairs - 1, min(COMPARED, config.n_pairs)).astype(np.int64)
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
