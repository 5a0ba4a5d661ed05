"""Adam's state by parameter name, with checked shapes.

Positions in an optimizer's groups depend on how a trainer sorted the parameters. Names do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.influence.optimizers.described_optimizers import check_described

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


@dataclass(frozen=True, kw_only=True)
class ParameterState:
    """The state and settings of AdamW for one parameter before a step."""

    step: int
    """Steps taken so far."""
    exp_avg: Tensor
    exp_avg_sq: Tensor
    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float


@dataclass(frozen=True)
class AdamState:
    """The state of every trained parameter, by name.

    Args:
        parameters: a `ParameterState` for each name.

    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    >>> model(torch.ones(1, 2)).sum().backward(); optimizer.step()
    >>> AdamState.from_optimizer(optimizer, model).parameters["weight"].step
    1
    """

    parameters: Mapping[str, ParameterState]

    @classmethod
    def from_optimizer(
        cls, optimizer: Optimizer, model: nn.Module, *, fresh: bool = False
    ) -> AdamState:
        """From a `torch.optim.AdamW` (or `Adam`); `fresh` accepts one that has made no step yet.

        Frozen parameters are left out, as the optimizer does. A trained parameter that never got a
        gradient has no state; its first step would start from zeros.
        """
        check_described(optimizer, "adam_post")
        names = {
            id(parameter): name
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
        has_stepped = any(optimizer.state.values())
        states: dict[str, ParameterState] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in names:
                    name = names[id(parameter)]
                    state = optimizer.state.get(parameter) or {}
                    states[name] = _bind_state(
                        name, parameter, state, group, fresh=fresh or has_stepped
                    )
        return cls(states)

    @cached_property
    def has_stepped(self) -> bool:
        """Whether the optimizer has made a step."""
        return any(each.step for each in self.parameters.values())

    def require(self, names: Sequence[str]) -> None:
        """Raise an error when a trained parameter has no state."""
        missing = [name for name in names if name not in self.parameters]
        if missing:
            raise ConfigError(
                f"the optimizer holds no state for {missing[0]!r} and {len(missing) - 1} more: "
                "give the optimizer that trains them, freeze them (requires_grad_(False)), or "
                "name the parameters that count with parameters=[…]"
            )


def decay_groups(model: nn.Module) -> list[list[str]]:
    """Names of the parameters with and without decay, in the order of the Hugging Face trainer."""
    from torch import nn

    plain = {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
        if isinstance(module, nn.LayerNorm)
        or name == "bias"
        or "norm" in type(module).__name__.lower()
    }
    names = [name for name, each in model.named_parameters() if each.requires_grad]
    return [[n for n in names if n not in plain], [n for n in names if n in plain]]


def _bind_state(
    name: str,
    parameter: Tensor,
    state: Mapping[str, Any],
    group: Mapping[str, Any],
    *,
    fresh: bool,
) -> ParameterState:
    import torch

    if not state and not fresh:
        raise ConfigError(
            f"the optimizer has no state for {name!r}: load the state saved with this checkpoint, "
            "make a step first, or pass fresh_state=True to predict the first step"
        )
    moments = {}
    for key in ("exp_avg", "exp_avg_sq"):
        value = state.get(key) if state else torch.zeros_like(parameter)
        if value is None or value.shape != parameter.shape:
            given = "nothing" if value is None else str(list(value.shape))
            raise ConfigError(
                f"{key} of {name!r} has shape {given}, the parameter {list(parameter.shape)}: "
                "this state belongs to another model"
            )
        moments[key] = value.detach()
    return ParameterState(
        step=int(state["step"]) if state else 0,
        lr=float(group["lr"]),
        beta1=float(group["betas"][0]),
        beta2=float(group["betas"][1]),
        eps=float(group["eps"]),
        weight_decay=float(group["weight_decay"]),
        **moments,
    )
