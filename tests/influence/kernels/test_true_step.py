"""Predicted against actual change after a true AdamW step."""

from __future__ import annotations

import pytest
import torch

from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.true_step import (
    actual_change,
    check_learning_rates,
    error_slope,
    predicted_change,
)
from tests.influence.tiny_models import batch_of, relative, stepped_optimizer, tiny

WEIGHTS = torch.tensor([0.5, -1.0, 0.0, 0.7, 1.3], dtype=torch.float64)
RATES = [1e-5, 4e-5, 1.6e-4]


@pytest.mark.parametrize("family", ["gpt2", "own_rotary", "lora"])
@pytest.mark.parametrize(
    ("decay", "clip", "steps"), [(0.0, None, 1), (0.1, None, 1), (0.0, 0.5, 4), (0.1, 0.5, 4)]
)
def test_error_falls_in_proportion_to_the_rate(family: str, decay, clip, steps) -> None:
    model = tiny(family)
    optimizer = stepped_optimizer(model, decay=decay, steps=steps)
    checks = check_learning_rates(
        model, optimizer, batch_of(5, 1), WEIGHTS, batch_of(6, 2), rates=RATES, max_grad_norm=clip
    )
    assert error_slope(checks) == pytest.approx(1, abs=0.1)
    assert checks[0].correlation >= 0.999
    assert checks[0].relative_error <= 0.02


def test_float32_model_is_predicted_too() -> None:
    model = tiny("own_rotary").float()
    optimizer = stepped_optimizer(model)
    check, *_ = check_learning_rates(
        model, optimizer, batch_of(5, 1), WEIGHTS, batch_of(6, 2), rates=[1e-4]
    )
    assert check.correlation >= 0.999
    assert check.relative_error <= 0.02


def test_swept_block_with_clipping_predicts_the_same() -> None:
    model = tiny("own_rotary")
    optimizer = stepped_optimizer(model)
    update, evaluation = batch_of(5, 1), batch_of(6, 2)
    block = fisher_kernel(
        model, update, evaluation, optimizer=optimizer, weights=WEIGHTS, max_grad_norm=0.5,
        algorithm="sweep",
    )  # fmt: skip
    assert block.clip_factor == pytest.approx(0.5 / (block.gradient_norm + 1e-6))
    actual = actual_change(
        model, optimizer, update, WEIGHTS, evaluation, lr=1e-5, max_grad_norm=0.5
    )
    assert relative(predicted_change(block, lr=1e-5), actual) <= 0.02


def test_first_step_of_a_fresh_optimizer_is_predicted() -> None:
    model = tiny("own_rotary")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    checks = check_learning_rates(
        model, optimizer, batch_of(5, 1), WEIGHTS, batch_of(6, 2), rates=[1e-7], fresh_state=True
    )
    assert checks[0].relative_error <= 0.02


def test_plain_gradient_descent_is_predicted() -> None:
    model = tiny("own_learned")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, weight_decay=0.1)
    checks = check_learning_rates(
        model, optimizer, batch_of(5, 1), WEIGHTS, batch_of(6, 2), rates=[1e-6, 4e-6, 1.6e-5]
    )
    assert error_slope(checks) == pytest.approx(1, abs=0.1)
    assert checks[0].relative_error <= 0.02
