"""Every family, every algorithm, against a backward pass a sequence in float64."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from midstep.core.errors import ConfigError
from midstep.influence.kernels.fisher import fisher_kernel, per_sequence_gradients
from tests.influence.tiny_models import (
    FAMILIES,
    Twin,
    batch_of,
    gradients,
    relative,
    stepped_optimizer,
    tiny,
    tolerance,
)

# PyTorch scripts its own rules for forward-mode derivatives when the first one is asked for.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
WEIGHTS = torch.tensor([0.5, -1.0, 0.0, 0.7, 1.3], dtype=torch.float64)


@cache
def case(family: str, kind: str = "adam_post"):
    model = tiny(family)
    optimizer = stepped_optimizer(model)
    update, evaluation = batch_of(5, 1), batch_of(4, 2)
    twin = Twin(model, optimizer, update, evaluation, WEIGHTS, kind=kind)
    return model, optimizer, update, evaluation, twin


WAYS = [
    (family, algorithm, mode)
    for family in FAMILIES
    for algorithm, mode in (("sweep", "resident"), ("sweep", "bounded"), ("resident", "auto"))
    if (family, mode) != ("odd", "bounded")  # it has no blocks: that it is refused is tested below
]


@pytest.mark.parametrize(("family", "algorithm", "mode"), WAYS)
def test_kernel_equals_brute_force(family: str, algorithm, mode) -> None:
    model, optimizer, update, evaluation, twin = case(family)
    block = fisher_kernel(
        model, update, evaluation, optimizer=optimizer, weights=WEIGHTS,
        algorithm=algorithm, mode=mode, microbatch=2,
    )  # fmt: skip
    assert relative(block.k_eu, twin.eu) <= tolerance(family)
    assert relative(block.k_uu, twin.uu) <= tolerance(family)
    assert relative(block.terms.kernel, twin.delta) <= tolerance(family)
    assert relative(block.terms.momentum + block.terms.decay, twin.beta) <= tolerance(family)
    assert relative(block.delta_logpi, twin.delta + twin.beta) <= tolerance(family)
    assert relative(block.norms_u**2, twin.uu.diag()) <= tolerance(family)
    assert sum(block.coverage.values()) == pytest.approx(1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ["direction", "jvp"])
def test_change_alone_equals_the_kernel_times_weights(family: str, algorithm) -> None:
    model, optimizer, update, evaluation, twin = case(family)
    block = fisher_kernel(
        model, update, evaluation, optimizer=optimizer, weights=WEIGHTS,
        algorithm=algorithm, want=("delta",), microbatch=3,
    )  # fmt: skip
    assert relative(block.terms.kernel, twin.delta) <= tolerance(family)
    assert relative(block.delta_logpi, twin.delta + twin.beta) <= tolerance(family)
    summed = fisher_kernel(
        model, update, evaluation, optimizer=optimizer, weights=WEIGHTS,
        algorithm=algorithm, want=("delta",), terms=False,
    )  # fmt: skip
    assert relative(summed.delta_logpi, block.delta_logpi) <= tolerance(family)


@pytest.mark.parametrize("kind", ["adam_state", "sgd"])
def test_other_preconditioners_equal_brute_force(kind) -> None:
    model, optimizer, update, evaluation, twin = case("gpt2", kind)
    block = fisher_kernel(
        model, update, evaluation, optimizer=optimizer, weights=WEIGHTS, preconditioner=kind
    )
    assert relative(block.k_eu, twin.eu) <= 1e-10
    assert relative(block.k_uu, twin.uu) <= 1e-10


def test_groups_of_several_rates_and_betas_give_the_true_change() -> None:
    model, _, update, evaluation, _ = case("own_learned")
    optimizer = stepped_optimizer(model)
    try:
        optimizer.param_groups[0].update(lr=3e-4, betas=(0.8, 0.95), weight_decay=0.3)
        twin = Twin(model, optimizer, update, evaluation, WEIGHTS)
        block = fisher_kernel(model, update, evaluation, optimizer=optimizer, weights=WEIGHTS)
    finally:
        case.cache_clear()
    assert relative(block.terms.kernel, twin.delta) <= 1e-10
    assert relative(block.delta_logpi, twin.delta + twin.beta) <= 1e-10


def test_token_changes_sum_to_the_sequence_and_are_zero_elsewhere() -> None:
    model, optimizer, update, evaluation, twin = case("own_rotary")
    block = fisher_kernel(
        model, update, evaluation, optimizer=optimizer, weights=WEIGHTS,
        algorithm="jvp", want=("delta",),
    )  # fmt: skip
    assert relative(block.token_delta.sum(1), twin.delta + twin.beta) <= 1e-10
    assert not block.token_delta[~evaluation.response_mask].any()


def test_kernel_is_symmetric_and_positive() -> None:
    model, optimizer, update, _, _ = case("gpt2")
    block = fisher_kernel(model, update, optimizer=optimizer, weights=WEIGHTS)
    assert torch.equal(block.k_uu, block.k_uu.T)
    values = torch.linalg.eigvalsh(block.k_uu)
    assert values.min() >= -1e-10 * values.max()
    assert block.cosines().diag().allclose(torch.ones(5, dtype=torch.float64))


def test_what_no_hook_sees_is_named_and_still_right() -> None:
    model, optimizer, update, _, _ = case("odd")
    block = fisher_kernel(model, update, optimizer=optimizer, weights=WEIGHTS)
    assert set(block.slow_parameters) == {"shift", "table.weight"}
    assert block.unused_parameters == ["idle"]
    with pytest.raises(ConfigError, match="bounded"):
        fisher_kernel(
            model, update, optimizer=optimizer, weights=WEIGHTS, algorithm="sweep", mode="bounded"
        )


def test_some_parameters_alone_count_when_named() -> None:
    model, _, update, _, _ = case("gpt2")
    block = fisher_kernel(
        model, update, preconditioner="sgd", parameters=["*.mlp.*weight"], weights=WEIGHTS
    )
    made = gradients(model, update)
    true = sum(g @ g.T for name, g in made.items() if ".mlp." in name and "weight" in name)
    assert relative(block.k_uu, true) <= 1e-10


def test_per_sequence_gradients_equal_autograd() -> None:
    model, _, update, _, _ = case("own_learned")
    found = per_sequence_gradients(model, update, microbatch=2)
    for name, true in gradients(model, update).items():
        assert (found[name].flatten(1) - true).abs().max() <= 1e-12


def test_weights_a_token_give_the_weighted_score() -> None:
    model, optimizer, update, evaluation, _ = case("own_rotary")
    wide = WEIGHTS[:, None] * update.response_mask
    by_token = fisher_kernel(model, update, evaluation, optimizer=optimizer, weights=wide)
    by_sequence = fisher_kernel(model, update, evaluation, optimizer=optimizer, weights=WEIGHTS)
    assert relative(by_token.delta_logpi, by_sequence.delta_logpi) <= 1e-10
    assert relative(by_token.k_eu, by_sequence.k_eu * WEIGHTS) <= 1e-10


def test_model_is_left_as_it_was() -> None:
    model, optimizer, update, evaluation, _ = case("gpt2")
    model.train()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    needs = {name: each.requires_grad for name, each in model.named_parameters()}
    for algorithm, want in (("sweep", ("EU",)), ("direction", ("delta",)), ("jvp", ("delta",))):
        fisher_kernel(
            model, update, evaluation, optimizer=optimizer, weights=WEIGHTS,
            algorithm=algorithm, want=want,
        )  # fmt: skip
    assert model.training
    assert list(model.state_dict()) == list(before)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert {name: each.requires_grad for name, each in model.named_parameters()} == needs
    assert all(each.grad is None for each in model.parameters())
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())
