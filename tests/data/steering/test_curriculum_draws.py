"""What a dataset hands out, epoch by epoch and pair by pair, has the frequencies of its schedule.

The variant is read off the steering vector itself. Expected shares are written out here once more,
from the contract, and not asked from the schedules. Seeds are fixed: nothing here is left to luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from midstep.data import JASPERSteeringDataset, create_loader, write_dataset
from tests.data.steering.table_samples import sample_config, sample_tables

PAIRS, EPOCHS = 2500, 80
STORED = {"zero": 0.1, "centroid": 0.2, "keyword": 0.3, "residual": 0.4}
ALARM = 1e-3
"""How often a right dataset would fail a test, were the seed another."""
BANDS = (
    (0.7, 0.2, 0.1, 0.0),
    (0.5, 0.3, 0.15, 0.05),
    (0.3, 0.3, 0.25, 0.15),
    (0.1, 0.3, 0.35, 0.25),
    (0.0, 0.2, 0.4, 0.4),
)


def linear_zero(epoch: int, distances: np.ndarray) -> np.ndarray:
    zero = 0.5 - 0.4 * epoch / 100
    row = [zero, *((1 - zero) * share / 0.9 for share in (0.2, 0.3, 0.4))]
    return np.tile(row, (len(distances), 1))


def bands(epoch: int, distances: np.ndarray) -> np.ndarray:
    return np.tile(BANDS[min(epoch // 10, 4)], (len(distances), 1))


def gated(way: Callable[[float], float]) -> Callable[[int, np.ndarray], np.ndarray]:
    def shares(epoch: int, distances: np.ndarray) -> np.ndarray:
        limit = 0.3 + 0.4 * way(min(epoch / 10, 1.0))
        beyond = (distances > limit)[:, None]
        return np.where(beyond, [0.3, 0.3, 0.4, 0.0], [0.1, 0.2, 0.3, 0.4])

    return shares


SCHEDULES: dict[str, tuple[dict[str, Any], Callable[[int, np.ndarray], np.ndarray]]] = {
    "linear_zero": ({"name": "linear_zero"}, linear_zero),
    "bands": ({"name": "bands"}, bands),
    "gated, fixed": ({"name": "distance_gated", "mode": "fixed"}, gated(lambda way: 0.0)),
    "gated, linear": ({"name": "distance_gated", "mode": "linear"}, gated(lambda way: way)),
    "gated, cosine": (
        {"name": "distance_gated", "mode": "cosine"},
        gated(lambda way: (1 - math.cos(math.pi * way)) / 2),
    ),
}


@dataclass(frozen=True)
class Drawn:
    """What came out of a dataset, and what should have."""

    folder: Path
    distances: np.ndarray
    """[pair]"""
    variants: np.ndarray
    """[epoch, pair]"""
    shares: np.ndarray
    """[epoch, pair, variant]"""


def tables() -> dict[str, Any]:
    """Each steering table holds its own number, so a vector says which one it was taken from."""
    made = sample_tables(sample_config(n_pairs=PAIRS))
    for number, name in enumerate(("centroid", "keyword_weighted", "residual"), start=1):
        made[f"steering_{name}"] = np.full_like(made[f"steering_{name}"], number)
    made["centroid_distances"] = np.random.default_rng(5).random(PAIRS, dtype=np.float32)
    nothing = np.zeros(0, np.int64)
    return {**made, "train_idx": np.arange(PAIRS), "val_idx": nothing, "test_idx": nothing}


def told_variants(batch: dict[str, torch.Tensor]) -> np.ndarray:
    """By the vectors handed out."""
    steering = batch["steering"]
    assert torch.equal(steering, steering[:, :1].expand_as(steering))
    assert torch.equal(steering[:, 0].long(), batch["steering_variant"])
    return steering[:, 0].long().numpy()


@pytest.fixture(scope="module", params=SCHEDULES)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    curriculum, expected = SCHEDULES[request.param]
    config = sample_config(n_pairs=PAIRS, steering_probabilities=STORED, curriculum=curriculum)
    folder = write_dataset(tmp_path_factory.mktemp("drawn") / "dataset", tables(), config)
    dataset = JASPERSteeringDataset(folder)
    variants, shares = [], []
    for epoch in range(EPOCHS):
        dataset.set_epoch(epoch)
        batch = dataset.batch(range(PAIRS))
        assert torch.equal(batch["pair_id"], torch.arange(PAIRS))
        variants.append(told_variants(batch))
        shares.append(expected(epoch, batch["centroid_distance"].numpy()))
    distances = batch["centroid_distance"].numpy()
    return Drawn(folder, distances, np.stack(variants), np.stack(shares))


def tail(statistic: float, freedom: int) -> float:
    """Probability that a chi-square is larger."""
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def pearson(found: np.ndarray, shares: np.ndarray) -> tuple[float, int]:
    """Chi-square and its degrees of freedom, for draws that share their probabilities."""
    counts, expected = np.bincount(found, minlength=4), shares * len(found)
    assert not counts[shares == 0].any(), "a variant of probability 0 was drawn"
    kept = shares > 0
    statistic = ((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    return float(statistic), int(kept.sum()) - 1


def test_frequencies_of_each_epoch_on_both_sides_of_the_gate(drawn: Drawn) -> None:
    parts = []
    for found, shares in zip(drawn.variants, drawn.shares, strict=True):
        for row in np.unique(shares, axis=0):
            side = (shares == row).all(axis=1)
            parts.append(pearson(found[side], row))
    least = min(tail(*part) for part in parts)
    assert least > ALARM / len(parts)
    whole = tail(sum(part[0] for part in parts), sum(part[1] for part in parts))
    assert ALARM / 2 < whole < 1 - ALARM / 2  # frequencies too even are no chance either


def test_frequencies_over_all_epochs_together(drawn: Drawn) -> None:
    """So many draws show what is too small to be seen in one epoch."""
    counts = np.bincount(drawn.variants.ravel(), minlength=4)
    shares = drawn.shares.reshape(-1, 4)
    spread = np.sqrt((shares * (1 - shares)).sum(axis=0))
    assert (np.abs(counts - shares.sum(axis=0)) / spread < 3.7).all()  # 0.1 % for all four


def test_the_gate_stands_where_it_should(drawn: Drawn) -> None:
    """The pairs next to it on either side, over the epochs in which it moves."""
    order = np.argsort(drawn.distances)
    sides: dict[tuple[float, ...], list[np.ndarray]] = {}
    for found, shares in zip(drawn.variants[:12, order], drawn.shares[:12, order], strict=True):
        near = int((shares == shares[0]).all(axis=1).sum())
        if near < PAIRS:
            sides.setdefault(tuple(shares[0]), []).append(found[near - 40 : near])
            sides.setdefault(tuple(shares[-1]), []).append(found[near : near + 40])
    for row, found in sides.items():
        assert tail(*pearson(np.concatenate(found), np.array(row))) > ALARM / 2


def test_frequencies_of_each_pair_over_all_epochs(drawn: Drawn) -> None:
    """A pair's shares change from epoch to epoch: its counts are held against their covariance."""
    hits = np.eye(4)[drawn.variants][:, :, 1:]
    shares = drawn.shares[:, :, 1:]
    excess = (hits - shares).sum(axis=0)
    diagonal = np.einsum("epv,vw->pvw", shares, np.eye(3))
    covariance = diagonal - np.einsum("epv,epw->pvw", shares, shares)
    # Beyond a fixed gate there are only three variants: the pseudo-inverse leaves out the fourth.
    each = np.einsum("pv,pvw,pw->p", excess, np.linalg.pinv(covariance), excess)
    freedom = np.linalg.matrix_rank(covariance)
    least = min(tail(*pair) for pair in zip(each, freedom, strict=True))
    assert least > ALARM / PAIRS
    whole = tail(each.sum(), int(freedom.sum()))
    assert ALARM / 2 < whole < 1 - ALARM / 2


def test_an_epoch_says_nothing_about_the_next(drawn: Drawn) -> None:
    """Products of what is above expectation in two epochs in a row; their mean is zero."""
    excess = np.eye(4)[drawn.variants] - drawn.shares
    products = (excess[:-1] * excess[1:]).sum(axis=2).ravel()
    score = products.mean() / (products.std() / math.sqrt(len(products)))
    assert abs(score) < 3.3  # 0.1 % of normal scores lie beyond


def test_a_pair_gets_the_same_however_it_is_asked(drawn: Drawn) -> None:
    dataset = JASPERSteeringDataset(drawn.folder)
    chance = np.random.default_rng(8)
    for epoch in (79, 0, 11):
        dataset.set_epoch(epoch)
        for index in chance.integers(PAIRS, size=40).tolist():
            assert int(dataset[index]["steering_variant"]) == drawn.variants[epoch, index]
        loader = create_loader(dataset, "train", 96, seed=epoch, drop_last=False)
        loader.set_epoch(epoch)
        for batch in loader:
            pairs = batch["pair_id"].numpy()
            assert np.array_equal(told_variants(batch), drawn.variants[epoch, pairs])
