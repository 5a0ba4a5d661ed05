"""Every formula of competitive learning against a slow twin in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from midstep.models.competitive import BCL, VARIANTS, BCLConfig, Variant
from midstep.models.competitive.competition import compete, find_neighbours
from tests.models import reference_competitive as slow

METRICS = [
    "win_rate",
    "grad_magnitude",
    "som_magnitude",
    "feature_novelty",
    "effective_win",
    "gradient_weight",
    "contender_weight",
    "attraction_weight",
    "mean_activation",
]
TENSORS = [
    "rank_score",
    "grad_mask",
    "som_weight",
    "strength",
    "in_nbr",
    "feature_novelty",
    "som_targets",
    "som_delta",
]


def close(found: Tensor, expected: Any, name: str = "") -> None:
    torch.testing.assert_close(
        found,
        torch.tensor(expected, dtype=found.dtype),
        rtol=1e-6,
        atol=1e-9,
        msg=lambda text: f"{name}: {text}",
    )


def made_layer(seed: int, batch: int, features: int, inputs: int) -> tuple[nn.Linear, Tensor]:
    """A float64 layer and a batch for it, with no two values alike."""
    draw = torch.Generator().manual_seed(seed)
    layer = nn.Linear(inputs, features, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(layer.weight.shape, generator=draw, dtype=torch.float64))
        layer.bias.copy_(torch.randn(features, generator=draw, dtype=torch.float64))
    return layer, torch.randn(batch, inputs, generator=draw, dtype=torch.float64)


def twin_of(layer: nn.Linear, x: Tensor, config: BCLConfig) -> slow.Twin:
    rows, weights = x.tolist(), layer.weight.tolist()
    twin = slow.compete(
        rows,
        layer(x).tolist(),
        weights,
        neighborhood_k=config.neighborhood_k,
        temperature=config.temperature,
    )
    if config.variant == "novelty":
        return slow.novelty(twin, rows, weights, config.som_lr)
    if config.variant == "rescue":
        return slow.rescue(twin, rows, weights, config.som_lr, config.rescue_k)
    if config.variant == "balance":
        return slow.balance(twin, rows, weights, config.som_lr, config.neighborhood_k)
    return slow.neighborhood(twin, rows, weights)


@given(
    variant=st.sampled_from(VARIANTS),
    seed=st.integers(0, 2**32 - 1),
    batch=st.integers(1, 7),
    features=st.integers(1, 7),
    inputs=st.integers(2, 5),
    neighborhood_k=st.integers(1, 9),
    temperature=st.floats(0.1, 20),
    som_lr=st.floats(0, 1),
    rescue_k=st.integers(1, 9),
)
@settings(max_examples=120, deadline=None)
def test_one_step_equals_the_slow_twin(
    variant: Variant, seed: int, batch: int, features: int, inputs: int, **given_settings: Any
) -> None:
    layer, x = made_layer(seed, batch, features, inputs)
    config = BCLConfig(variant=variant, **given_settings)
    twin = twin_of(layer, x, config)
    before = layer.weight.detach().clone()
    bcl = BCL(layer, config, wants_tensors=True)
    gradient = torch.randn(
        batch, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    layer(x).backward(gradient)

    metrics, tensors = bcl.get_step_metrics(), bcl.last_tensors()
    assert list(metrics) == METRICS
    assert list(tensors) == TENSORS
    for name, value in {**metrics, **tensors}.items():
        close(value, getattr(twin, name), name)
    # What came of it: the masked gradient, and the weights after the pull.
    masked = gradient * torch.tensor(twin.grad_mask, dtype=torch.float64)
    torch.testing.assert_close(layer.weight.grad, masked.T @ x)
    torch.testing.assert_close(layer.bias.grad, masked.sum(dim=0))
    close(layer.weight.detach() - before, twin.som_delta, "weight")


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradient_magnitudes_add_up_to_the_mask(variant: Variant) -> None:
    layer, x = made_layer(3, 64, 16, 9)
    bcl = BCL(layer.float(), BCLConfig(variant=variant), wants_tensors=True)
    layer(x.float()).sum().backward()
    metrics, tensors = bcl.get_step_metrics(), bcl.last_tensors()
    torch.testing.assert_close(metrics["grad_magnitude"].sum(), tensors["grad_mask"].sum())
    torch.testing.assert_close(metrics["som_magnitude"], tensors["som_weight"].sum(dim=0))


@given(
    seed=st.integers(0, 2**32 - 1),
    batch=st.integers(1, 6),
    features=st.integers(2, 8),
    k=st.integers(1, 8),
    scale=st.sampled_from([1e-6, 1.0, 1e3]),
)
@settings(max_examples=60, deadline=None)
def test_every_sample_is_covered_once_at_least(
    seed: int, batch: int, features: int, k: int, scale: float
) -> None:
    """The strongest feature and its strongest rival share a win, so novelty stays within 1."""
    layer, x = made_layer(seed, batch, features, 3)
    neighbours = find_neighbours(layer.weight.detach(), k)
    won = compete(layer(x).detach() * scale, neighbours, 5.0)
    assert (won.coverage_B >= 1 - 1e-12).all()
    assert (won.feature_novelty_D <= 1 + 1e-12).all()


@given(seed=st.integers(0, 2**32 - 1), features=st.integers(1, 9), k=st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_neighbours_are_the_nearest_others(seed: int, features: int, k: int) -> None:
    layer, _ = made_layer(seed, 1, features, 3)
    found = find_neighbours(layer.weight.detach(), k)
    assert found.ids_DK.tolist() == slow.nearest(layer.weight.tolist(), k)
    for feature, row in enumerate(found.adjacency_DD.tolist()):
        assert {g for g, one in enumerate(row) if one} == set(found.ids_DK[feature].tolist())


@pytest.mark.parametrize("weight", [torch.zeros(5, 3), torch.ones(5, 3), torch.full((5, 3), 1e-30)])
def test_rows_that_do_not_differ_have_neighbours_other_than_themselves(weight: Tensor) -> None:
    ids = find_neighbours(weight, 3).ids_DK
    assert all(feature not in row for feature, row in enumerate(ids.tolist()))
    assert all(len(set(row)) == 3 for row in ids.tolist())


@pytest.mark.parametrize("variant", VARIANTS)
def test_single_precision_stays_near_double(variant: Variant) -> None:
    layer, x = made_layer(8, 32, 12, 20)
    twin = twin_of(layer, x, BCLConfig(variant=variant))
    bcl = BCL(layer.float(), BCLConfig(variant=variant), wants_tensors=True)
    layer(x.float()).sum().backward()
    for name, value in bcl.last_tensors().items():
        expected = torch.tensor(getattr(twin, name))
        torch.testing.assert_close(value, expected, rtol=1e-3, atol=1e-5, msg=name)
