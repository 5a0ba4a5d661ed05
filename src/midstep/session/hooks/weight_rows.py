"""Hooks on rows of weights: the units of one layer, and how similar rows are."""
# ruff: noqa: N806 - names end in their shape

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.panels import Field, Level, Panel, Sort, Status
from midstep.core.errors import ConfigError
from midstep.session.hooks.hook import Hook
from midstep.session.hooks.hook_measures import (
    MAX_ROWS,
    can_be_hooked,
    first_tensor,
    row_cosines,
    rows_by_unit,
    weights_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch import nn


class WeightCosine(Hook):
    """A table: per weight the mean and the largest cosine between two of its rows.

    Of more than 1,024 rows an even selection is used. A mean near 1 says that the rows have become
    equal.

    Args:
        layers: only parameters whose name contains this.

    >>> WeightCosine().key
    'weight cosine'
    """

    key = "weight cosine"
    panel = Panel(
        kind="table",
        title="Weight cosine",
        label="name",
        fields={
            "mean_cosine": Field(label="Mean cosine", precision=3),
            "max_cosine": Field(label="Largest cosine", precision=3),
        },
        status=Status(
            field="mean_cosine",
            levels=(
                Level(above=0.9, word="alike", tone="bad"),
                Level(above=0.5, word="close", tone="warn"),
            ),
            otherwise=Level(word="different", tone="good"),
        ),
        sort=Sort(field="mean_cosine"),
    )

    def __init__(self, layers: str = "") -> None:
        self._layers = layers

    def after_step(self, model: nn.Module) -> Callable[[], Mapping[str, Any]] | None:
        """The table as a function, so that it is computed only if the step is shown."""
        # The weights do not change until the boundary, where the function is called.
        named = dict(weights_of(model, self._layers))
        return partial(_cosine_table, named) if named else None


def _cosine_table(named: Mapping[str, torch.Tensor]) -> DeferredColumns:
    """One row per weight; the cosines stay on the device until a reader has their copy."""
    device = next(iter(named.values())).device
    cosines = torch.stack([row_cosines(weight).to(device) for weight in named.values()])
    rows = [len(weight) for weight in named.values()]
    return DeferredColumns(_cosine_columns, names=list(named), rows=rows, cosines=cosines)


def _cosine_columns(names: list[str], rows: list[int], cosines: torch.Tensor) -> dict[str, Any]:
    mean, largest = cosines.cpu().unbind(dim=1)
    return {
        "name": names,
        "rows": rows,
        "rows_used": [min(count, MAX_ROWS) for count in rows],
        "mean_cosine": mean,
        "max_cosine": largest,
    }


class Units(Hook):
    """A table of one layer: per unit its activation, and the norms of its row of weights.

    The rows are those of the layer's weight: click a row on the page to watch it.

    Args:
        layer: name of a module with a weight of one row per unit, such as a Linear.
        activation: name of the module whose output is measured; the layer itself by default.
        key: name of the step data; `units of LAYER` when left out.

    >>> Units("encoder").key
    'units of encoder'
    """

    def __init__(self, layer: str, *, activation: str | None = None, key: str | None = None):
        self._layer, self._activation = layer, activation or layer
        self.key = key or f"units of {layer}"
        self.panel = Panel(
            kind="table",
            title=f"Units of {layer}",
            fields={
                "mean_activation": Field(label="Mean activation", precision=4),
                "fraction_active": Field(label="Active", precision=3),
                "grad_norm": Field(label="Gradient norm", precision=4),
                "weight_norm": Field(label="Weight norm", precision=4),
            },
            status=Status(
                field="fraction_active",
                levels=(
                    Level(below=0.001, word="dead", tone="bad"),
                    Level(below=0.01, word="rare", tone="warn"),
                ),
                otherwise=Level(word="active", tone="good"),
            ),
            sort=Sort(field="fraction_active", descending=False),
            source=f"{layer}.weight",
        )
        self._outputs: list[torch.Tensor] = []
        self._gradient: torch.Tensor | None = None

    def modules(self, model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
        """The module whose output is measured."""
        names = dict(model.named_modules())
        for wanted in (self._layer, self._activation):
            if wanted not in names:
                raise ConfigError(f"no module {wanted!r}; there are {', '.join(names)[:500]}")
        return [(self._activation, names[self._activation])] if can_be_hooked(model) else []

    def begin_step(self, model: nn.Module) -> None:
        """Drop the data of the last step."""
        self._outputs = []

    def forward(
        self,
        name: str,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> None:
        """Measure mean and share of positive outputs of one pass, [2, U]."""
        tensor = first_tensor(output)
        if tensor is not None:
            rows_NU = rows_by_unit(tensor).float()
            active_U = (rows_NU > 0).float().mean(dim=0)
            self._outputs.append(torch.stack([rows_NU.mean(dim=0), active_U]))

    def before_step(self, model: nn.Module) -> None:
        """Measure the norm of each row's gradient, [U]."""
        gradient = model.get_parameter(f"{self._layer}.weight").grad
        self._gradient = None if gradient is None else gradient.flatten(1).norm(dim=1)

    def after_step(self, model: nn.Module) -> dict[str, Any] | None:
        """The table."""
        outputs, self._outputs = self._outputs, []
        if not outputs:
            return None
        weight = model.get_parameter(f"{self._layer}.weight").detach()
        norms = weight.flatten(1).norm(dim=1)
        mean_U, active_U = torch.stack(outputs).mean(dim=0).unbind()
        return {
            "mean_activation": mean_U,
            "fraction_active": active_U,
            "grad_norm": torch.zeros_like(norms) if self._gradient is None else self._gradient,
            "weight_norm": norms,
        }
