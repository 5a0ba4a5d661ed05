"""Variants follow their schedule, and depend on (seed, epoch, pair id) alone."""

from __future__ import annotations

import numpy as np
import pytest

from midstep.core.errors import ConfigError
from midstep.core.random_streams import RandomStream
from midstep.data import Bands, DistanceGated, LinearZero
from midstep.data.steering.curriculum import Curriculum, curriculum_from, forced_variant
from midstep.data.steering.steering_dataset import choose_columns

STORED = {"zero": 0.1, "centroid": 0.2, "keyword": 0.3, "residual": 0.4}
PAIRS = np.arange(20_000)
GOLDEN_VARIANTS = [3, 0, 2, 1, 1, 3, 0, 0, 1, 0, 1, 0, 1, 0, 1, 3]
GOLDEN_COLUMNS = [[0, 6, 9], [0, 3, 5], [0, 1, 2], [2, 10, 11]]
LIMIT = 16.27
"""Chi-square with three degrees of freedom stays below it in 999 of 1000 cases."""


def chi_square(found: np.ndarray, shares: np.ndarray) -> float:
    counts = np.bincount(found, minlength=4)
    expected = np.asarray(shares) * len(found)
    assert not counts[expected == 0].any()
    kept = expected > 0
    return float(((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum())


def drawn(schedule: Curriculum, epoch: int, distances: np.ndarray | None = None) -> np.ndarray:
    distances = np.zeros(len(PAIRS), np.float32) if distances is None else distances
    return schedule.variants(11, epoch, PAIRS, distances, STORED)


@pytest.mark.parametrize(
    ("epoch", "zero"), [(0, 0.5), (25, 0.4), (50, 0.3), (100, 0.1), (300, 0.1)]
)
def test_linear_zero_frequencies(epoch: int, zero: float) -> None:
    rest = (1 - zero) / 0.9
    shares = [zero, 0.2 * rest, 0.3 * rest, 0.4 * rest]
    assert chi_square(drawn(LinearZero(), epoch), shares) < LIMIT


@pytest.mark.parametrize(
    ("epoch", "shares"),
    [
        (0, (0.7, 0.2, 0.1, 0.0)),
        (9, (0.7, 0.2, 0.1, 0.0)),
        (10, (0.5, 0.3, 0.15, 0.05)),
        (29, (0.3, 0.3, 0.25, 0.15)),
        (30, (0.1, 0.3, 0.35, 0.25)),
        (40, (0.0, 0.2, 0.4, 0.4)),
        (1000, (0.0, 0.2, 0.4, 0.4)),
    ],
)
def test_bands_frequencies(epoch: int, shares: tuple[float, ...]) -> None:
    assert chi_square(drawn(Bands(), epoch), shares) < LIMIT


@pytest.mark.parametrize(
    ("mode", "epoch", "limit"),
    [
        ("fixed", 0, 0.3),
        ("fixed", 50, 0.3),
        ("linear", 0, 0.3),
        ("linear", 5, 0.5),
        ("linear", 10, 0.7),
        ("cosine", 2, 0.3 + 0.4 * (1 - np.cos(np.pi * 0.2)) / 2),
        ("cosine", 10, 0.7),
        ("cosine", 99, 0.7),
    ],
)
def test_distance_gate_frequencies(mode, epoch: int, limit: float) -> None:
    distances = np.linspace(0, 1, len(PAIRS), dtype=np.float32)
    found = drawn(DistanceGated(mode=mode), epoch, distances)
    near = distances <= limit
    assert chi_square(found[near], list(STORED.values())) < LIMIT
    assert chi_square(found[~near], [0.3, 0.3, 0.4, 0.0]) < LIMIT


def test_variant_does_not_depend_on_who_else_is_asked() -> None:
    whole = drawn(Bands(), 12)
    some = np.array([77, 3, 19_999])
    alone = Bands().variants(11, 12, some, np.zeros(3, np.float32), STORED)
    assert alone.tolist() == whole[some].tolist()


def test_epochs_and_seeds_draw_anew() -> None:
    one = drawn(Bands(), 12)
    assert (drawn(Bands(), 13) != one).mean() > 0.3
    other = Bands().variants(12, 12, PAIRS, np.zeros(len(PAIRS), np.float32), STORED)
    assert (other != one).mean() > 0.3


def test_numbers_equal_those_of_the_stream() -> None:
    stream = RandomStream(5, "steering", epoch=3)
    ids = np.array([0, 1, 7, 10**12])
    assert stream.uniform_at(ids).tolist() == [stream.uniform(int(each)) for each in ids]


def test_chosen_columns_are_distinct_rising_and_even() -> None:
    chosen = choose_columns(RandomStream(0, "negatives"), PAIRS, 6, 2)
    assert (np.diff(chosen, axis=1) > 0).all()
    counts = np.bincount(chosen.ravel(), minlength=6)
    expected = len(PAIRS) * 2 / 6
    assert ((counts - expected) ** 2 / expected).sum() < 20.5  # five degrees of freedom, 0.1 %
    alone = choose_columns(RandomStream(0, "negatives"), PAIRS[500:501], 6, 2)
    assert alone[0].tolist() == chosen[500].tolist()


def test_variants_stay_what_they_were() -> None:
    """Golden: a change here would change every training that is resumed."""
    found = Bands().variants(0, 25, np.arange(16), np.zeros(16, np.float32), STORED)
    assert found.tolist() == GOLDEN_VARIANTS
    chosen = choose_columns(RandomStream(0, "negatives", epoch=25), np.arange(4), 12, 3)
    assert chosen.tolist() == GOLDEN_COLUMNS


def test_only_zero_stored_means_only_zero() -> None:
    stored = {"zero": 1.0, "centroid": 0.0, "keyword": 0.0, "residual": 0.0}
    assert LinearZero().shares(50, stored) == (1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "value",
    [
        "steep",
        {"name": "bands", "table": [[1, 0, 0]]},
        {"name": "bands", "table": [[0.5, 0.5, 0.5, 0]]},
        {"name": "bands", "table": []},
        {"name": "bands", "table": "abc"},
        {"name": "linear_zero", "start": 2},
        {"name": "linear_zero", "epochs": 0},
        {"name": "distance_gated", "mode": "square"},
        {"name": "distance_gated", "end": 3},
        {"mode": "fixed"},
        7,
    ],
)
def test_wrong_schedule_is_refused(value) -> None:
    with pytest.raises(ConfigError):
        curriculum_from(value)


def test_schedule_survives_its_description() -> None:
    for schedule in (LinearZero(end=0.2), DistanceGated(mode="cosine"), Bands(epochs=3)):
        assert curriculum_from(schedule.describe()) == schedule


def test_unknown_forced_variant_is_refused() -> None:
    with pytest.raises(ConfigError, match="force_steering 'other' is unknown"):
        forced_variant("other")
