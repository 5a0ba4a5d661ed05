"""Split the last optimizer step into the part of the batch's gradient and the rest.

For a step on the gradient G (after clipping) the weights changed by

    Δθ = −scale · G + rest        scale = η (1−β₁)/(1−β₁ᵗ) D for Adam, η for plain descent

`scale`, `rest` and the weights before the step follow from the optimizer's state after the step:
Adam's v is the one that the step used, and its m contains G and the momentum of earlier steps. G
must be taken at the weights before the step, where v was computed: a weight whose gradient was
zero so far has D = 1/ε, so a gradient taken elsewhere would be multiplied by 1/ε.

Shapes: P trained parameters in one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

from midstep.core.errors import ConfigError
from midstep.influence.optimizers.described_optimizers import is_adam, is_sgd, optimizer_name


def parameter_owners(
    optimizers: Sequence[Optimizer],
) -> dict[int, tuple[Optimizer, dict[str, Any]]]:
    """Optimizer and group of each trained parameter, by identity."""
    for optimizer in optimizers:
        if not is_adam(optimizer) and not is_sgd(optimizer):
            raise ConfigError(
                f"influence supports the steps of SGD, Adam and AdamW; this run trains with "
                f"{optimizer_name(optimizer)}"
            )
    return {
        id(parameter): (optimizer, group)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad
    }


def weights_before(
    optimizers: Sequence[Optimizer], parameters: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The weights before the last step, as far as the optimizer's state allows.

    Plain descent and Nesterov momentum do not keep the last step. There the present weights are
    returned, which differ to first order in the learning rate.
    """
    owners = parameter_owners(optimizers)
    before = {}
    for name, parameter in parameters.items():
        optimizer, group = owners[id(parameter)]
        state = optimizer.state.get(parameter, {})
        value = parameter.detach()
        if "exp_avg" in state:
            scale, _, decay = _adam_parts(state, _group_settings(optimizer, group))
            # AdamW first decays, θ(1−ηλ), then subtracts scale · m: both are undone in reverse.
            value = (value + scale * state["exp_avg"]) / (1 - decay)
        elif state.get("momentum_buffer") is not None and not group["nesterov"]:
            value = value + float(group["lr"]) * state["momentum_buffer"]
        before[name] = value.to(parameter.dtype)
    return before


def last_step_parts(
    optimizers: Sequence[Optimizer],
    parameters: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    gradient_P: Tensor,
) -> tuple[Tensor, Tensor]:
    """`scale` and `rest` of the last step, [P] each; zeros for a parameter that has no state.

    Args:
        optimizers: the optimizers that made the step.
        parameters: the parameters that they changed, by name.
        weights: values of the parameters before the step.
        gradient_P: gradient of the batch, as the optimizers received it.
    """
    owners = parameter_owners(optimizers)
    scales, rests, first = [], [], 0
    for name, parameter in parameters.items():
        part = gradient_P[first : first + parameter.numel()]
        first += parameter.numel()
        optimizer, group = owners[id(parameter)]
        # The gradient is one row over all parameters, in the order of `parameters`.
        step = _sgd_step_parts if isinstance(optimizer, SGD) else _adam_step_parts
        state = {
            key: each.detach().flatten().to(part) if isinstance(each, Tensor) else each
            for key, each in optimizer.state.get(parameter, {}).items()
        }
        scale, rest = step(
            state, _group_settings(optimizer, group), weights[name].flatten().to(part), part
        )
        scales.append(scale)
        rests.append(rest)
    return torch.cat(scales), torch.cat(rests)


def _group_settings(optimizer: Optimizer, group: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a group, with `decoupled_weight_decay`, which older versions of torch lack."""
    return {"decoupled_weight_decay": isinstance(optimizer, AdamW), **group}


def _adam_parts(state: Mapping[str, Any], group: Mapping[str, Any]) -> tuple[Tensor, float, float]:
    """The factor of m, β₁, and the share of a weight that decoupled decay removes."""
    beta_1, beta_2 = (float(beta) for beta in group["betas"])
    steps, lr = float(state["step"]), float(group["lr"])
    second = state["max_exp_avg_sq"] if group.get("amsgrad") else state["exp_avg_sq"]
    divisor = (second / (1 - beta_2**steps)).sqrt() + float(group["eps"])
    decay = lr * float(group["weight_decay"]) if group["decoupled_weight_decay"] else 0.0
    return lr / (1 - beta_1**steps) / divisor, beta_1, decay


def _adam_step_parts(
    state: Mapping[str, Any], group: Mapping[str, Any], weight_P: Tensor, gradient_P: Tensor
) -> tuple[Tensor, Tensor]:
    if "exp_avg" not in state:
        return torch.zeros_like(weight_P), torch.zeros_like(weight_P)
    scale, beta_1, decay = _adam_parts(state, group)
    sign = -1.0 if group.get("maximize") else 1.0
    # m = β₁ m_before + (1−β₁) G: what is left without G is momentum of earlier steps.
    rest = -scale * (state["exp_avg"] - (1 - beta_1) * sign * gradient_P)
    return sign * (1 - beta_1) * scale, rest - decay * weight_P


def _sgd_step_parts(
    state: Mapping[str, Any], group: Mapping[str, Any], weight_P: Tensor, gradient_P: Tensor
) -> tuple[Tensor, Tensor]:
    lr, momentum = float(group["lr"]), float(group["momentum"])
    sign = -1.0 if group.get("maximize") else 1.0
    decay = float(group["weight_decay"]) * weight_P
    buffer = state.get("momentum_buffer")
    if not momentum or buffer is None:
        return torch.full_like(weight_P, sign * lr), -lr * decay
    share = 1 - float(group["dampening"])
    # Nesterov steps by g + μ · buffer, and the buffer contains (1 − dampening) g.
    if group["nesterov"]:
        share = 1 + momentum * share
        buffer = sign * gradient_P + decay + momentum * buffer
    return (
        torch.full_like(weight_P, sign * lr * share),
        -lr * (buffer - share * sign * gradient_P),
    )
