"""Which layers can compete, and in which precision."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from midstep.core.errors import ConfigError

__all__ = ["checked_linear", "working_type"]


def checked_linear(module: nn.Module) -> nn.Linear:
    """The module itself, if it is a linear layer with real weights of its own."""
    given = type(module).__name__
    if not isinstance(module, nn.Linear):
        raise ConfigError(
            f"BCL attaches to an nn.Linear, got {given}; give it the linear layer itself, "
            "such as model.encoder"
        )
    weight = module.weight
    if isinstance(weight, UninitializedParameter):
        raise ConfigError(f"the weights of this {given} have no shape yet; run a batch through it")
    if not isinstance(weight, nn.Parameter) or not weight.is_floating_point():
        raise ConfigError(
            f"BCL moves the weights of a layer, and those of this {given} are computed or no "
            "real numbers; give it a layer without a parametrization"
        )
    return module


def working_type(weight: Tensor) -> torch.dtype:
    """Type of the formulas: at least float32, since ε vanishes in half precision."""
    return torch.promote_types(weight.dtype, torch.float32)
