"""Copies of a user's own optimizer, which step other parameters than the original.

The check of a prediction must not rely on the formulas that made the prediction. So it steps with
the class, the groups and the state of the optimizer that it was given, whichever class that is.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.errors import ConfigError
from midstep.influence.optimizers.described_optimizers import check_has_rate, optimizer_name

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


def check_copyable(optimizer: object) -> None:
    """Raise an error for an optimizer whose step cannot be made on a copy with dense gradients."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(
            f"a true step needs the optimizer itself, got {type(optimizer).__name__}: its class "
            "decides what the step does"
        )
    name = optimizer_name(optimizer)
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise ConfigError(f"{name} needs sparse gradients, which influence does not compute")
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ConfigError(
            f"{name} needs a closure, which it calls several times in a step: influence describes "
            "optimizers that step once on one gradient"
        )
    step = vars(optimizer).get("step")
    # Schedulers of torch replace `step` of the instance by a wrapper that only counts.
    is_own = getattr(step, "__func__", None) is type(optimizer).step
    if step is not None and not is_own and not hasattr(step, "_wrapped_by_lr_sched"):
        raise ConfigError(
            f"the step of this {name} was replaced on the object, so a copy of it would step "
            "differently; pass the optimizer without the replacement"
        )


def copy_optimizer(optimizer: Optimizer, copies: Mapping[int, Tensor]) -> Optimizer:
    """An optimizer of the same class with copied groups, state and attributes, without hooks.

    Args:
        optimizer: the user's; it is not changed.
        copies: the parameter that takes the role of each original, by the original's identity.
            State is converted to its type, since a step on wider copies needs wider state.

    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> optimizer = torch.optim.SGD([weight], lr=0.5)
    >>> twin = torch.nn.Parameter(torch.ones(1))
    >>> twin.grad = torch.ones(1)
    >>> step_without_hooks(copy_optimizer(optimizer, {id(weight): twin}))
    >>> weight.item(), twin.item()
    (1.0, 0.5)
    """
    check_copyable(optimizer)
    attributes = {
        name: value
        for name, value in vars(optimizer).items()
        if name != "step" and not name.endswith("_hooks")
    }
    # The memo of `deepcopy` replaces parameters wherever they are: in groups, as keys of the
    # state, in attributes of a user's own class.
    memo: dict[int, Any] = dict(copies)
    try:
        attributes = copy.deepcopy(attributes, memo)
    except (TypeError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{optimizer_name(optimizer)} cannot be copied, so its step cannot be checked: {error}"
        ) from error
    kind = type(optimizer)
    copied = kind.__new__(kind)
    copied.__setstate__(attributes)
    for parameter, state in copied.state.items():
        for key, value in state.items():
            # Counters are scalars and keep their type.
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim():
                state[key] = value.to(parameter.dtype)
    return copied


def scale_learning_rates(optimizer: Optimizer, lr: float) -> None:
    """Set the rate of the fastest group to `lr`; the other groups keep their ratio to it."""
    rates = [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
    check_has_rate(max(rates))
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * (lr / max(rates))


def step_without_hooks(optimizer: Optimizer) -> None:
    """Make a step, without hooks: a hook for all optimizers would count it as a training step."""
    step: Any = type(optimizer).step
    if getattr(step, "hooked", False):
        step = step.__wrapped__
    step(optimizer)
