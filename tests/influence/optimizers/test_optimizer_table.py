"""Every optimizer of `torch.optim`: predicted to first order, or refused by its name.

The step that predictions and checks are compared with is made here, by the optimizer itself.
"""

from __future__ import annotations

import copy
import inspect
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.batch_influence import batch_influence
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.true_step import (
    RateCheck,
    actual_change,
    check_learning_rates,
    error_slope,
    predicted_change,
)
from tests.influence.tiny_models import batch_of, log_pi, relative, tiny

KINDS = {
    name: kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind)
    and issubclass(kind, torch.optim.Optimizer)
    and kind is not torch.optim.Optimizer
}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "AdamW": {
        "plain": {"weight_decay": 0.1},
        "amsgrad": {"amsgrad": True},
        "maximize": {"maximize": True},
        "foreach": {"foreach": True},
    },
    "Adam": {
        "plain": {},
        "decay": {"weight_decay": 0.1},
        "amsgrad": {"amsgrad": True},
        "maximize": {"maximize": True},
    },
    "SGD": {
        "plain": {},
        "decay": {"weight_decay": 0.1},
        "momentum": {"momentum": 0.9},
        "nesterov": {"momentum": 0.9, "nesterov": True},
        "maximize": {"maximize": True},
    },
}
SUPPORTED = {
    ("AdamW", "plain", "adam_post"),
    ("AdamW", "foreach", "adam_post"),
    ("Adam", "plain", "adam_post"),
    ("SGD", "plain", "sgd"),
    ("SGD", "decay", "sgd"),
}
"""Predicted to first order. Adam with `sgd` is an inner product, which no check confirms."""
CASES = [(name, variant) for name in KINDS for variant in VARIANTS.get(name, {"plain": {}})]
WITHOUT_STEP = ("LBFGS", "SparseAdam")
UPDATE, EVALUATION = batch_of(5, 1), batch_of(4, 2)
WEIGHTS = torch.tensor([0.5, -1.0, 0.0, 0.7, 1.3], dtype=torch.float64)
RATES = [1e-6, 4e-6, 1.6e-5]


def backward(model: nn.Module, batch, weights: Tensor) -> None:
    (-sum(weights[row] * log_pi(model, batch, row) for row in range(len(batch)))).backward()


@cache
def trained(name: str, variant: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model and its optimizer after three steps of its own; no test may change them."""
    model = tiny("own_learned").eval()
    # Muon takes matrices only.
    parameters = [each for each in model.parameters() if name != "Muon" or each.dim() == 2]
    settings = VARIANTS.get(name, {}).get(variant, {})
    optimizer = KINDS[name](parameters, lr=1e-3, **settings)
    for seed in range(3) if name not in WITHOUT_STEP else ():
        optimizer.zero_grad()
        backward(model, batch_of(5, 10 + seed), torch.full((5,), 0.2))
        optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


@torch.no_grad()
def scores(model: nn.Module) -> Tensor:
    return torch.stack([log_pi(model, EVALUATION, row) for row in range(len(EVALUATION))])


def real_change(model: nn.Module, optimizer: torch.optim.Optimizer, lr: float) -> Tensor:
    """What `optimizer.step()` does after `backward()`; made on copies of both, by torch alone."""
    model, optimizer = copy.deepcopy((model, optimizer))
    for group in optimizer.param_groups:
        group["lr"] = lr
    before = scores(model)
    backward(model, UPDATE, WEIGHTS)
    optimizer.step()
    return scores(model) - before


def test_the_table_holds_all_of_torch_optim() -> None:
    assert {"AdamW", "Adam", "SGD", "NAdam", "RAdam", "Muon", "LBFGS", "SparseAdam"} <= set(KINDS)
    assert set(VARIANTS) <= set(KINDS)


@pytest.mark.parametrize("preconditioner", ["adam_post", "sgd"])
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_a_step_is_predicted_to_first_order_or_refused_by_name(
    name: str, variant: str, preconditioner
) -> None:
    model, optimizer = trained(name, variant)
    step = {"optimizer": optimizer, "weights": WEIGHTS, "fresh_state": True}
    if (name, variant, preconditioner) in SUPPORTED:
        block = fisher_kernel(model, UPDATE, EVALUATION, preconditioner=preconditioner, **step)
        checks = [
            RateCheck.compare(lr, predicted_change(block, lr=lr), real_change(model, optimizer, lr))
            for lr in RATES
        ]
        assert error_slope(checks) == pytest.approx(1, abs=0.1)
        assert checks[0].relative_error <= 0.02
    elif name in ("Adam", "AdamW") and preconditioner == "sgd":
        block = fisher_kernel(model, UPDATE, EVALUATION, preconditioner="sgd", **step)
        checks = check_learning_rates(
            model, optimizer, UPDATE, WEIGHTS, EVALUATION, rates=RATES, block=block
        )
        assert all(each.relative_error > 0.5 for each in checks)
    else:
        with pytest.raises(ConfigError, match=name):
            fisher_kernel(model, UPDATE, EVALUATION, preconditioner=preconditioner, **step)


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_the_check_makes_the_step_of_the_optimizer_itself(name: str, variant: str) -> None:
    model, optimizer = trained(name, variant)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    if name in WITHOUT_STEP:
        with pytest.raises(ConfigError, match=rf"{name} needs (a closure|sparse gradients)"):
            actual_change(model, optimizer, UPDATE, WEIGHTS, EVALUATION)
        return
    change = actual_change(model, optimizer, UPDATE, WEIGHTS, EVALUATION, lr=1e-4)
    # Muon computes in bfloat16 inside: the last bits of a gradient change its step.
    close = 0.05 if name == "Muon" else 1e-6
    assert relative(change, real_change(model, optimizer, 1e-4)) <= close
    torch.testing.assert_close((model.state_dict(), optimizer.state_dict()), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "variant"), [case for case in CASES if case[0] not in WITHOUT_STEP]
)
def test_no_check_passes_where_the_real_step_disagrees(name: str, variant: str) -> None:
    """Predictions for AdamW and for plain descent, held against the step of every optimizer."""
    model, optimizer = trained(name, variant)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-3)
    true = real_change(model, optimizer, 1e-6)
    for preconditioner, described in (("sgd", None), ("adam_post", adamw)):
        block = fisher_kernel(
            model, UPDATE, EVALUATION, preconditioner=preconditioner, optimizer=described,
            weights=WEIGHTS, want=("delta",), fresh_state=True,
        )  # fmt: skip
        (check,) = check_learning_rates(
            model, optimizer, UPDATE, WEIGHTS, EVALUATION, rates=[1e-6], block=block
        )
        real = RateCheck.compare(1e-6, predicted_change(block, lr=1e-6), true)
        assert check.relative_error == pytest.approx(real.relative_error, rel=0.05)


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("SGD", "Adam", "AdamW")])
def test_influence_in_a_paused_run_refuses_other_optimizers_by_name(name: str) -> None:
    weight = nn.Linear(2, 2, bias=False)
    optimizer = KINDS[name](weight.parameters(), lr=0.1)

    def loss_of(model, batch):
        return model(batch).square().mean()

    with pytest.raises(ConfigError, match=name):
        batch_influence(weight, [optimizer], loss_of, torch.ones(3, 2))


class Halved(torch.optim.AdamW):
    """A user's AdamW that makes half a step."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] *= 0.5
        super().step(closure)
        for group in self.param_groups:
            group["lr"] *= 2


def test_a_subclass_that_steps_differently_is_refused_and_stepped_as_itself() -> None:
    model, plain = trained("AdamW", "plain")
    halved = Halved(model.parameters(), lr=1e-3, weight_decay=0.1)
    halved.load_state_dict(plain.state_dict())
    with pytest.raises(ConfigError, match=r"Halved \(a subclass of AdamW\)"):
        fisher_kernel(model, UPDATE, optimizer=halved, weights=WEIGHTS)
    with pytest.raises(ConfigError, match="Halved"):
        batch_influence(model, [halved], lambda model, batch: model(batch).mean(), torch.ones(2, 3))
    change = actual_change(model, halved, UPDATE, WEIGHTS, EVALUATION, lr=1e-6)
    whole = actual_change(model, plain, UPDATE, WEIGHTS, EVALUATION, lr=1e-6)
    assert relative(2 * change, whole) <= 1e-3


def test_hooks_and_schedulers_see_nothing_of_the_check() -> None:
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    model, optimizer = copy.deepcopy(trained("AdamW", "plain"))
    true = real_change(model, optimizer, 1e-4)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    optimizer._opt_called = False
    calls: list[object] = []
    handle = register_optimizer_step_pre_hook(lambda *_: calls.append(1))
    try:
        change = actual_change(model, optimizer, UPDATE, WEIGHTS, EVALUATION, lr=1e-4)
    finally:
        handle.remove()
    assert relative(change, true) <= 1e-6
    assert not calls
    assert optimizer._opt_called is False


def test_a_step_hook_or_a_replaced_step_is_refused() -> None:
    model, optimizer = copy.deepcopy(trained("AdamW", "plain"))

    def halve_gradients(optimizer, *_):
        for group in optimizer.param_groups:
            for each in group["params"]:
                each.grad.mul_(0.5)

    handle = optimizer.register_step_pre_hook(halve_gradients)
    with pytest.raises(ConfigError, match=r"AdamW has a step hook \(.*halve_gradients\)"):
        fisher_kernel(model, UPDATE, optimizer=optimizer, weights=WEIGHTS)
    handle.remove()
    optimizer.step = lambda: None
    with pytest.raises(ConfigError, match="was replaced on the object"):
        actual_change(model, optimizer, UPDATE, WEIGHTS, EVALUATION)


def test_groups_of_plain_descent_keep_their_own_rates() -> None:
    model = tiny("own_learned").eval()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(
        [
            {"params": parameters[:4], "lr": 4e-5, "weight_decay": 0.3},
            {"params": parameters[4:9], "lr": 1e-5},
            {"params": parameters[9:], "lr": 0.0},
        ],
        lr=1.0,
    )
    for want, algorithm in ((("delta",), "direction"), (("EU", "delta"), "sweep")):
        block = fisher_kernel(
            model, UPDATE, EVALUATION, optimizer=optimizer, preconditioner="sgd",
            weights=WEIGHTS, want=want, algorithm=algorithm,
        )  # fmt: skip
        checks = check_learning_rates(
            model, optimizer, UPDATE, WEIGHTS, EVALUATION, rates=RATES, block=block
        )
        assert error_slope(checks) == pytest.approx(1, abs=0.1)
        assert checks[0].relative_error <= 0.02


@pytest.mark.parametrize("name", ["NAdam", "RAdam", "Adamax"])
def test_state_of_another_optimizer_is_not_read_as_that_of_adamw(name: str, tmp_path) -> None:
    from midstep.influence.optimizers.optimizer_files import load_optimizer, serialize_optimizer

    model, optimizer = trained(name, "plain")
    with pytest.raises(ConfigError, match=name):
        serialize_optimizer(optimizer, model)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    with pytest.raises(ConfigError, match="not the state of a plain"):
        load_optimizer(tmp_path / "optimizer.pt", model, order="model")


@pytest.mark.parametrize(
    ("name", "variant", "message"),
    [("Adam", "decay", "adds its weight decay"), ("AdamW", "maximize", "maximize=True")],
)
def test_variants_in_a_file_are_refused_too(name, variant, message, tmp_path) -> None:
    from midstep.influence.optimizers.optimizer_files import load_optimizer

    model, optimizer = trained(name, variant)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    with pytest.raises(ConfigError, match=message):
        load_optimizer(tmp_path / "optimizer.pt", model, order="model")
