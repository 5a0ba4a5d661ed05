"""Measures what rules need of a model, in the steps in which a rule is due."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from midstep.control.breakpoints.layer_report import (
    ActivationReading,
    LayerReport,
    Measure,
    ParameterReading,
)
from midstep.session.hooks.hook import Hook
from midstep.session.hooks.hook_measures import (
    alive_units,
    first_tensor,
    leaf_modules,
    rows_by_unit,
    saturated_share,
)
from midstep.session.late_parameters import is_uninitialized
from midstep.session.metrics.step_norms import StepNorms
from midstep.session.metrics.tensor_norms import norm_columns

MASKS_KEPT = 8
"""A unit is dead if it was zero in this many measurements in a row."""
MIN_ROWS = 32
"""Rows that a ReLU must have seen before dead units are reported; fewer give false alarms."""
RELUS = (nn.ReLU, nn.ReLU6)


class RuleProbe(Hook):
    """Norms of parameters and ranges of outputs as one report.

    Args:
        due: returns what must be measured in the step in progress.
        held: returns the `id` of each parameter that a known optimizer holds.
    """

    key = "rules"

    def __init__(
        self, due: Callable[[], frozenset[Measure]], held: Callable[[], frozenset[int]]
    ) -> None:
        self._due, self._held = due, held
        self._norms: StepNorms | None = None
        self._sums: dict[str, float] = {}
        """Sums at the last measurement, of parameters that no known optimizer holds."""
        self._has_gradient: dict[str, bool] = {}
        self._ranges: dict[str, torch.Tensor] = {}
        self._saturated: dict[str, torch.Tensor] = {}
        self._alive: dict[str, deque[tuple[int, torch.Tensor]]] = {}
        self._cost_s = 0.0

    def modules(self, model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
        """Every module without children, if a rule needs outputs."""
        return leaf_modules(model) if "activations" in self._due() else ()

    def begin_step(self, model: nn.Module) -> None:
        """Drop the data of the last step."""
        self._ranges, self._saturated, self._cost_s = {}, {}, 0.0

    def forward(
        self,
        name: str,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> None:
        """Measure the range of an output, and dead or saturated units by kind of module."""
        began, tensor = time.perf_counter(), first_tensor(output)
        if tensor is None or "activations" not in self._due():
            return
        # Called again in this step: it moves to the end of the call order.
        self._ranges.pop(name, None)
        self._ranges[name] = torch.stack(tensor.float().aminmax())
        share = saturated_share(module, tensor)
        if share is not None:
            self._saturated[name] = share
        if isinstance(module, RELUS):
            self._note_alive(name, tensor)
        self._cost_s += time.perf_counter() - began

    def _note_alive(self, name: str, tensor: torch.Tensor) -> None:
        rows, alive = len(rows_by_unit(tensor)), alive_units(tensor)
        past = self._alive.setdefault(name, deque(maxlen=MASKS_KEPT))
        if past and past[-1][1].shape != alive.shape:
            past.clear()
        past.append((rows, alive))

    def before_step(self, model: nn.Module) -> None:
        """Begin to measure a step."""
        named = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
        self._has_gradient = {name: value.grad is not None for name, value in named}
        self._norms = StepNorms(named, updates="updates" in self._due())

    def before_optimizer(self, model: nn.Module, held: frozenset[int]) -> None:
        """Measure gradients, and clone the weights if a rule needs updates."""
        began = time.perf_counter()
        if self._norms is not None:
            self._norms.before(held)
            for name, value in model.named_parameters():
                if id(value) in held and name in self._has_gradient:
                    self._has_gradient[name] = value.grad is not None
        self._cost_s += time.perf_counter() - began

    def after_optimizer(self, model: nn.Module) -> None:
        """Measure what this optimizer has changed."""
        began = time.perf_counter()
        if self._norms is not None:
            self._norms.after()
        self._cost_s += time.perf_counter() - began

    def after_step(self, model: nn.Module) -> LayerReport | None:
        """The report of this step."""
        began, norms = time.perf_counter(), self._norms
        self._norms = None
        if norms is None:
            return None
        measured = norms.measure()
        parameters = self._read_parameters(model, norm_columns(norms.names, measured))
        activations = self._read_activations()
        return LayerReport(
            measures=self._due() if self._ranges else self._due() - {"activations"},
            parameters=parameters,
            activations=activations,
            cost_s=self._cost_s + time.perf_counter() - began,
        )

    def _read_parameters(
        self, model: nn.Module, table: Mapping[str, Any]
    ) -> tuple[ParameterReading, ...]:
        names, columns = table["name"], ("weight_norm", "grad_norm", "update_norm")
        weights, gradients, updates = (table[column].tolist() for column in columns)
        still = self._still_without_optimizer(model) if "updates" in self._due() else frozenset()
        readings = []
        for name, weight, gradient, update in zip(names, weights, gradients, updates, strict=True):
            value = model.get_parameter(name)
            unknown = 0.0 if name in still else None
            readings.append(
                ParameterReading(
                    name=name,
                    elements=max(1, value.numel()),
                    is_matrix=value.dim() >= 2,
                    weight_norm=weight,
                    grad_norm=gradient if self._has_gradient.get(name) else None,
                    update_norm=unknown if math.isnan(update) else update,
                )
            )
        return tuple(readings)

    def _still_without_optimizer(self, model: nn.Module) -> frozenset[str]:
        """Parameters that no known optimizer holds, and that did not change since the last time.

        An optimizer that is not known may change them in steps that are not measured, so their
        update in this one step says nothing.
        """
        held = self._held()
        sums = {
            # In double precision: the sum of many weights would hide a small change.
            name: value.detach().sum(dtype=torch.float64)
            for name, value in model.named_parameters()
            if value.requires_grad
            and id(value) not in held
            and not is_uninitialized(value)
            and value.is_floating_point()
        }
        earlier, self._sums = self._sums, _to_host(sums)
        return frozenset(name for name, each in self._sums.items() if earlier.get(name) == each)

    def _read_activations(self) -> tuple[ActivationReading, ...]:
        if not self._ranges:
            return ()
        ranges = _to_host(self._ranges)
        saturated = _to_host(self._saturated)
        # The last activation of a model, such as the sigmoid of a classifier, is meant to saturate.
        saturated.pop(next(reversed(self._ranges)), None)
        return tuple(
            ActivationReading(
                name=name,
                low=low,
                high=high,
                dead_fraction=self._dead_fraction(name),
                units=len(self._alive[name][-1][1]) if self._alive.get(name) else None,
                saturated_fraction=saturated.get(name),
            )
            for name, (low, high) in ranges.items()
        )

    def _dead_fraction(self, name: str) -> float | None:
        past = self._alive.get(name)
        if not past or sum(rows for rows, _ in past) < MIN_ROWS:
            return None
        return 1.0 - float(torch.stack([alive for _, alive in past]).any(dim=0).float().mean())


def _to_host(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The values of all tensors, with one copy to the host: each copy waits for the device."""
    if not tensors:
        return {}
    device = next(iter(tensors.values())).device
    stacked = torch.stack([value.to(device) for value in tensors.values()])
    return dict(zip(tensors, stacked.tolist(), strict=True))
