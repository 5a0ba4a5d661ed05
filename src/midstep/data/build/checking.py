"""The last look at a dataset before it gets its name: every promise about negatives, once more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data.build.tiers import Field, largest_scores, scores_of, tiers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["negative_problems", "validate_dataset"]

ROUNDING = 1e-5
"""How far two orders of summation may put one score apart."""
ROWS = 4096


def negative_problems(
    field: Field, pairs: Ids, pool: Ids, negatives: Ids, tiers: Ids, margin: float
) -> Iterator[str]:
    """What is wrong with the negatives of one split; the first of a kind stands for all.

    Args:
        field: vectors, clusters, positives.
        pairs: of the split.
        pool: its own sources.
        negatives: [P, N], one row a pair of `pairs`.
        tiers: likewise.
        margin: share of the positive's score that they may reach.
    """
    told: set[str] = set()
    for start in range(0, len(pairs), ROWS):
        part = slice(start, start + ROWS)
        wrong = _wrong(field, pairs[part], pool, negatives[part], tiers[part], margin)
        for kind, flags in wrong.items():
            if flags.any() and kind not in told:
                told.add(kind)
                row, column = (int(each) for each in np.argwhere(flags)[0])
                source, pair = int(negatives[part][row, column]), int(pairs[part][row])
                yield f"negative {column} of pair {pair}, source {source}, {kind}"


def _wrong(
    field: Field, pairs: Ids, pool: Ids, negatives: Ids, tiers: Ids, margin: float
) -> dict[str, NDArray[np.bool_]]:
    score = scores_of(field, pairs, negatives)
    order = np.argsort(negatives, axis=1, kind="stable")
    ranked = np.take_along_axis(negatives, order, axis=1)
    twice = np.zeros(negatives.shape, dtype=bool)
    np.put_along_axis(twice, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    edge = np.abs(score - np.float32(field.threshold)) <= ROUNDING
    honest = (tiers_of(field, pairs, negatives) == tiers) | (edge & (tiers >= 3))
    return {
        "answers the question": _answers(field, pairs, negatives),
        "is of another split": ~np.isin(negatives, pool),
        "stands there twice": twice,
        "scores above the margin": score
        > largest_scores(field, pairs, margin)[:, None] + np.float32(ROUNDING),
        "is of another tier": ~honest,
    }


def _answers(field: Field, pairs: Ids, negatives: Ids) -> NDArray[np.bool_]:
    """Which negatives are positives of their question."""
    count = len(field.sources)
    question = np.repeat(np.arange(len(field.positives)), np.diff(field.positives.offsets))
    known = question * count + field.positives.values
    asked = field.pair_index[pairs, 0][:, None] * count + negatives
    return np.asarray(np.isin(asked, known))


def validate_dataset(folder: str | Path) -> dict[str, int]:
    """Check a dataset on disk: hashes, shapes, values, splits, steering, a first batch of each.

    Returns:
        How many pairs each split has; empty ones are left out.

    Raises:
        DatasetError: with everything that is wrong.
    """
    from midstep.data.embedding.dataset import JASPERSteeringDataset
    from midstep.data.embedding.layout import SPLITS
    from midstep.data.embedding.loader import create_loader
    from midstep.data.embedding.steering_check import steering_problems
    from midstep.data.embedding.tables import open_tables
    from midstep.data.embedding.validation import validate_first_batch

    dataset = JASPERSteeringDataset(folder)
    problems = list(steering_problems(open_tables(folder, verify=False)))
    if problems:
        raise DatasetError(f"the steering tables of {folder} are wrong", problems)
    checked = {}
    for split in SPLITS:
        part = dataset.for_split(split)
        if len(part):
            validate_first_batch(create_loader(part, split, min(256, len(part)), distributed=False))
            checked[split] = len(part)
    return checked
