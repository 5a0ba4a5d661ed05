"""Counts dead units in the passes of a stopped step that are run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.session.hooks.hook_measures import alive_units, first_tensor, rows_by_unit
from midstep.session.hooks.rule_probe import MIN_ROWS, RELUS

if TYPE_CHECKING:
    import torch
    from torch import nn


def has_relus(model: nn.Module) -> bool:
    """Whether any module of the model is a ReLU."""
    return any(isinstance(module, RELUS) for module in model.modules())


class DeadUnitCounter:
    """Finds the units of each ReLU that are zero in every row of a step.

    >>> import torch
    >>> counter = DeadUnitCounter()
    >>> counter.observe("relu", torch.nn.ReLU(), torch.tensor([[0.0, 1.0]]).repeat(40, 1))
    >>> counter.counts()
    {'relu': (1, 2)}
    """

    def __init__(self) -> None:
        self._alive: dict[str, torch.Tensor] = {}
        self._rows: dict[str, int] = {}

    def observe(self, name: str, module: nn.Module, output: Any) -> None:
        """Take one output of a module."""
        tensor = first_tensor(output)
        if tensor is None or not isinstance(module, RELUS):
            return
        alive, before = alive_units(tensor), self._alive.get(name)
        if before is not None and before.shape != alive.shape:
            return  # called with several widths, so that units have no meaning
        self._alive[name] = alive if before is None else before | alive
        self._rows[name] = self._rows.get(name, 0) + len(rows_by_unit(tensor))

    def counts(self) -> dict[str, tuple[int, int]]:
        """Dead units and all units by module, in call order; fewer rows give false alarms."""
        return {
            name: (int((~alive).sum()), len(alive))
            for name, alive in self._alive.items()
            if self._rows[name] >= MIN_ROWS
        }
