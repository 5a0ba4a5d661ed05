"""`ScriptModules`: what a script trains, as one module with the names of the script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn


class ScriptModules(nn.Module):
    """Several modules, and tensors that no module owns, under their names in the script.

    >>> trained = ScriptModules({"net": nn.Linear(1, 1, bias=False)}, {"scale": torch.ones(2)})
    >>> [name for name, _ in trained.named_parameters()]
    ['net.weight', 'scale']
    """

    def __init__(self, roots: Mapping[str, nn.Module], tensors: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._modules.update(roots)
        self._tensors = dict(tensors)

    def named_parameters(self, *arguments: Any, **named: Any) -> Iterator[tuple[str, Any]]:
        """The parameters of the modules, then the tensors."""
        yield from super().named_parameters(*arguments, **named)
        yield from self._tensors.items()

    def get_parameter(self, target: str) -> Any:
        """A parameter or a tensor by name."""
        return self._tensors[target] if target in self._tensors else super().get_parameter(target)


def as_one_module(roots: Mapping[str, nn.Module], tensors: Mapping[str, torch.Tensor]) -> nn.Module:
    """The only module itself, so that its parameters have the names of the model."""
    if len(roots) == 1 and not tensors:
        return next(iter(roots.values()))
    return ScriptModules(roots, tensors)


def parameters_of(optimizers: Sequence[Any]) -> list[torch.Tensor]:
    """Every parameter that these optimizers train, once."""
    parameters = {
        id(each): each
        for optimizer in optimizers
        for group in optimizer.param_groups
        for each in group["params"]
    }
    return list(parameters.values())


def not_owned(
    parameters: Sequence[torch.Tensor], roots: Mapping[str, nn.Module]
) -> list[torch.Tensor]:
    """The parameters that belong to none of the modules."""
    owned = {id(each) for module in roots.values() for each in module.parameters()}
    return [each for each in parameters if id(each) not in owned]
