"""Effects of the axes of a sweep: differences of cells that differ in one axis alone.

The other axes are held, so each difference compares two trainings that are equal otherwise. The
interval is a bootstrap over these pairs, with a fixed seed: the same cells give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from midstep.loops.sweep.axes import SweepAxis
from midstep.loops.sweep.cell_states import Cell

FEWEST_SEEDS = 5
"""Seeds below which no level is called better."""
DRAWS = 2_000
BOOTSTRAP_SEED = 20_240_501
LEVEL = 0.95
_HIGHER_IS_BETTER = (
    "acc",
    "auroc",
    "auc",
    "f1",
    "perplexity",
    "usage",
    "throughput",
    "steps_per_s",
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two finished cells that differ in one axis alone."""

    job: int
    """The cell with the level that is compared."""
    against: int
    """The cell with the other level."""
    difference: float
    """Value of `job` minus value of `against`."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What one level of an axis changes against another one."""

    axis: str
    level: str
    against: str
    held: Mapping[str, str]
    """Settings of the other axes that all pairs share; empty when they vary over the pairs."""
    pairs: tuple[Pair, ...]
    mean: float | None
    """Mean difference; None without pairs."""
    low: float | None
    """Lower end of the 95 % interval; None below two pairs."""
    high: float | None
    better: str | None
    """The better level; None when the interval contains 0 or there are too few seeds."""
    seeds: int
    """Different seeds among the pairs."""

    @property
    def is_enough(self) -> bool:
        """Whether there are seeds enough to rank."""
        return self.seeds >= FEWEST_SEEDS


def lower_is_better(name: str) -> bool:
    """Whether a smaller value of a scalar is better, by its name.

    >>> lower_is_better("best_val_loss"), lower_is_better("val_accuracy")
    (True, False)
    """
    return not any(part in name for part in _HIGHER_IS_BETTER)


def axis_effects(axes: Sequence[SweepAxis], cells: Sequence[Cell], value: str) -> list[Effect]:
    """Each level of each axis against the first one, over all pairs with the other axes held."""
    finished = _values(axes, cells, value)
    return [
        _effect(axes, finished, axis, level, axis.values[0], {}, value)
        for axis in axes
        for level in axis.values[1:]
    ]


def held_comparisons(axes: Sequence[SweepAxis], cells: Sequence[Cell], value: str) -> list[Effect]:
    """Every two levels of each axis except the seed, at fixed settings of the others.

    The pairs are those of the seeds.
    """
    finished = _values(axes, cells, value)
    held_by_axis = {
        axis.key: dict.fromkeys(
            tuple(sorted(_others(axes, dict(zip(_keys(axes), levels, strict=True)), axis).items()))
            for levels in finished
        )
        for axis in axes
        if not axis.is_seed
    }
    effects = [
        _effect(axes, finished, axis, level, against, dict(held), value)
        for axis in axes
        if not axis.is_seed
        for held in held_by_axis[axis.key]
        for against, level in combinations(axis.values, 2)
    ]
    return [effect for effect in effects if effect.pairs]


def bootstrap_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean by resampling; None below two values.

    >>> bootstrap_interval([1.0, 1.0, 1.0])
    (1.0, 1.0)
    """
    if len(differences) < 2:
        return None
    import numpy as np

    draws = np.random.default_rng(BOOTSTRAP_SEED)
    values = np.asarray(differences, dtype=np.float64)
    means = values[draws.integers(0, len(values), (DRAWS, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


Levels = tuple[str, ...]


def _keys(axes: Sequence[SweepAxis]) -> list[str]:
    return [axis.key for axis in axes]


def _values(
    axes: Sequence[SweepAxis], cells: Sequence[Cell], value: str
) -> dict[Levels, tuple[int, float]]:
    """Job and value of the finished cells, by their levels."""
    return {
        tuple(cell.choices.get(key, "") for key in _keys(axes)): (cell.job, cell.values[value])
        for cell in cells
        if cell.is_kept and math.isfinite(cell.values.get(value, math.nan))
    }


def _others(
    axes: Sequence[SweepAxis], choices: Mapping[str, str], axis: SweepAxis
) -> dict[str, str]:
    """The settings of the other axes, without seeds."""
    return {each.key: choices[each.key] for each in axes if each != axis and not each.is_seed}


def _effect(
    axes: Sequence[SweepAxis],
    finished: Mapping[Levels, tuple[int, float]],
    axis: SweepAxis,
    level: str,
    against: str,
    held: Mapping[str, str],
    value: str,
) -> Effect:
    at = _keys(axes).index(axis.key)
    pairs, seeds = [], set()
    for levels, (job, number) in finished.items():
        choices = dict(zip(_keys(axes), levels, strict=True))
        partner = finished.get((*levels[:at], against, *levels[at + 1 :]))
        is_held = all(choices[key] == setting for key, setting in held.items())
        if levels[at] == level and partner is not None and is_held:
            pairs.append(Pair(job=job, against=partner[0], difference=number - partner[1]))
            seeds.add(tuple(choices[each.key] for each in axes if each.is_seed))
    differences = [pair.difference for pair in pairs]
    mean = math.fsum(differences) / len(differences) if differences else None
    low, high = bootstrap_interval(differences) or (None, None)
    # Without a seed axis all pairs have one seed; nobody chooses among the levels of a seed axis.
    is_ranked = len(seeds) >= FEWEST_SEEDS and not axis.is_seed
    better = None
    if is_ranked and low is not None and high is not None and (low > 0 or high < 0):
        better = against if (low > 0) == lower_is_better(value) else level
    return Effect(
        axis=axis.key,
        level=level,
        against=against,
        held=held,
        pairs=tuple(pairs),
        mean=mean,
        low=low,
        high=high,
        better=better,
        seeds=len(seeds),
    )
