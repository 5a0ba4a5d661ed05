"""Parameters that an optimizer skips are left out, and clipping counts those that do not count."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.true_step import (
    actual_change,
    check_learning_rates,
    error_slope,
    predicted_change,
)
from tests.influence.tiny_models import (
    VOCABULARY,
    SequenceBatch,
    batch_of,
    log_pi,
    relative,
    stepped_optimizer,
    tiny,
)

UPDATE, EVALUATION = batch_of(5, 1), batch_of(4, 2)
WEIGHTS = torch.tensor([0.5, -1.0, 0.0, 0.7, 1.3], dtype=torch.float64)
RATES = [1e-6, 4e-6, 1.6e-5]
ALGORITHMS = [("direction", ("delta",)), ("sweep", ("EU", "delta")), ("resident", ("EU", "delta"))]


def adamw(model: nn.Module, eps: float = 1e-8) -> torch.optim.AdamW:
    """Written the usual way: over all parameters, whichever train."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, eps=eps)
    for seed in range(3):
        optimizer.zero_grad()
        batch = batch_of(4, 90 + seed)
        (-sum(log_pi(model, batch, row) for row in range(4)) / 4).backward()
        optimizer.step()
    optimizer.zero_grad()
    return optimizer


def assert_predicted(model, optimizer, update, evaluation, weights=WEIGHTS, **options) -> None:
    for algorithm, want in ALGORITHMS:
        block = fisher_kernel(
            model, update, evaluation, optimizer=optimizer, weights=weights,
            algorithm=algorithm, want=want, **options,
        )  # fmt: skip
        checks = check_learning_rates(
            model, optimizer, update, weights, evaluation, rates=RATES, block=block
        )
        assert error_slope(checks) == pytest.approx(1, abs=0.1)
        assert checks[0].relative_error <= 0.02


@pytest.mark.parametrize("when", ["from the start", "after some steps"])
def test_a_frozen_layer_is_left_out(when: str) -> None:
    model = tiny("own_learned")
    optimizer = adamw(model) if when == "after some steps" else None
    model.blocks[0].requires_grad_(requires_grad=False)
    optimizer = optimizer or adamw(model)
    assert_predicted(model, optimizer, UPDATE, EVALUATION)


def test_a_parameter_that_never_got_a_gradient_is_left_out() -> None:
    model = tiny("odd")  # its `idle` is used nowhere
    optimizer = adamw(model)
    assert not optimizer.state.get(model.idle)
    assert_predicted(model, optimizer, UPDATE, EVALUATION)
    stepped = actual_change(model, optimizer, UPDATE, WEIGHTS, EVALUATION, lr=0.1)
    assert bool(stepped.isfinite().all())


def test_a_parameter_that_trains_from_now_on_starts_from_zeros() -> None:
    model = tiny("own_learned")
    model.blocks[0].requires_grad_(requires_grad=False)
    optimizer = adamw(model)
    model.blocks[0].requires_grad_(requires_grad=True)
    assert_predicted(model, optimizer, UPDATE, EVALUATION)


class Experts(nn.Module):
    """Tokens below a border use one expert, the others another."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 6)
        self.low, self.high = nn.Linear(6, 6), nn.Linear(6, 6)
        self.head = nn.Linear(6, VOCABULARY)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids)
        for expert, chosen in ((self.low, input_ids < 10), (self.high, input_ids >= 10)):
            if bool(chosen.any()):
                x = x + chosen[..., None] * torch.tanh(expert(x))
        return self.head(x)


def low_tokens(batch: SequenceBatch) -> SequenceBatch:
    return SequenceBatch(batch.input_ids % 10, batch.response_mask, batch.attention_mask)


def experts() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(2)
    model = Experts().double()
    return model, adamw(model)


def real_change(model: nn.Module, optimizer: torch.optim.Optimizer, update) -> Tensor:
    """What a trainer does: backward, then step; on copies, by torch alone."""
    twin, trainer = copy.deepcopy((model, optimizer))
    (-sum(WEIGHTS[row] * log_pi(twin, update, row) for row in range(5))).backward()
    trainer.step()
    with torch.no_grad():
        before, after = (
            torch.stack([log_pi(each, EVALUATION, row) for row in range(4)])
            for each in (model, twin)
        )
    return after - before


def test_an_expert_that_the_update_does_not_use_keeps_its_momentum_and_decay() -> None:
    model, optimizer = experts()
    update = low_tokens(UPDATE)
    assert_predicted(model, optimizer, update, EVALUATION)
    change = actual_change(model, optimizer, update, WEIGHTS, EVALUATION)
    assert relative(change, real_change(model, optimizer, update)) <= 1e-9


def test_an_expert_of_a_sequence_of_weight_zero_is_stepped_as_a_trainer_does() -> None:
    model, optimizer = experts()
    ids = low_tokens(UPDATE).input_ids
    ids[2] = UPDATE.input_ids[2] % 10 + 10
    update = SequenceBatch(ids, UPDATE.response_mask, UPDATE.attention_mask)
    assert WEIGHTS[2] == 0
    assert_predicted(model, optimizer, update, EVALUATION)
    change = actual_change(model, optimizer, update, WEIGHTS, EVALUATION)
    assert relative(change, real_change(model, optimizer, update)) <= 1e-9


@pytest.mark.parametrize(("algorithm", "want"), ALGORITHMS)
def test_parts_of_the_parameters_are_clipped_by_the_norm_of_all(algorithm, want) -> None:
    model = tiny("own_learned")
    optimizer = stepped_optimizer(model)
    step = {
        "optimizer": optimizer,
        "weights": WEIGHTS,
        "max_grad_norm": 0.5,
        "algorithm": algorithm,
        "want": want,
    }
    whole = fisher_kernel(model, UPDATE, EVALUATION, **step)
    parts = [
        fisher_kernel(model, UPDATE, EVALUATION, parameters=names, **step)
        for names in (["blocks.*"], ["embedding.*", "places.*", "norm.*", "head.*"])
    ]
    for part in parts:
        assert part.clip_factor == pytest.approx(whole.clip_factor, rel=1e-12)
        assert part.gradient_norm == pytest.approx(whole.gradient_norm, rel=1e-12)
    total = parts[0].delta_logpi + parts[1].delta_logpi
    assert relative(total, whole.delta_logpi) <= 1e-10
    change = actual_change(
        model, optimizer, UPDATE, WEIGHTS, EVALUATION, lr=1e-6, max_grad_norm=0.5
    )
    assert relative(predicted_change(whole, lr=1e-6), change) <= 0.02


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_half_precision_models_are_checked_on_float32_copies(dtype, kind: str) -> None:
    model = tiny("own_learned").to(dtype)
    if kind == "AdamW":
        optimizer: torch.optim.Optimizer = adamw(model, eps=1e-4)  # 1e-8 is 0 in float16
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, weight_decay=0.1)
    rates = [2e-4, 4e-4, 8e-4] if kind == "AdamW" else [4e-5, 8e-5, 1.6e-4]
    batches = (UPDATE, WEIGHTS, batch_of(8, 4))
    checks = check_learning_rates(model, optimizer, *batches, rates=rates)
    assert {each.dtype for each in checks} == {"float32"}
    assert error_slope(checks) == pytest.approx(1, abs=0.1)
    assert checks[0].relative_error <= 0.02
    assert next(model.parameters()).dtype == dtype
    block = fisher_kernel(
        model, UPDATE, batches[2], optimizer=optimizer, weights=WEIGHTS,
        preconditioner="adam_post" if kind == "AdamW" else "sgd",
    )  # fmt: skip
    (given,) = check_learning_rates(model, optimizer, *batches, rates=rates[:1], block=block)
    assert given.relative_error <= 0.2  # the rounding of the block itself


def test_a_float64_model_is_checked_in_float64() -> None:
    model = tiny("own_learned")
    (check,) = check_learning_rates(
        model, stepped_optimizer(model), UPDATE, WEIGHTS, EVALUATION, rates=[1e-6]
    )
    assert check.dtype == "float64"


def test_the_check_needs_the_optimizer_itself_and_its_state() -> None:
    from midstep.influence.optimizers.adam_state import AdamState

    model = tiny("own_learned")
    state = AdamState.from_optimizer(stepped_optimizer(model), model)
    with pytest.raises(ConfigError, match="needs the optimizer itself, got AdamState"):
        actual_change(model, state, UPDATE, WEIGHTS, EVALUATION)
    with pytest.raises(ConfigError, match="fresh_state=True"):
        actual_change(model, torch.optim.AdamW(model.parameters()), UPDATE, WEIGHTS, EVALUATION)


def test_a_parameter_outside_of_plain_descent_is_refused_by_name() -> None:
    model = tiny("own_learned")
    optimizer = torch.optim.SGD(list(model.parameters())[:-1], lr=0.1)
    with pytest.raises(ConfigError, match=r"does not train 'head.weight'"):
        fisher_kernel(model, UPDATE, optimizer=optimizer, preconditioner="sgd", weights=WEIGHTS)
