"""Hooks on the norms of each parameter around the optimizer step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.panels import Field, Level, Panel, Status
from midstep.session.hooks.hook import Hook
from midstep.session.metrics import tensor_norms
from midstep.session.metrics.step_norms import StepNorms

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import nn

Quantity = Literal["weight_norm", "grad_norm", "update_norm", "update_ratio"]


class LayerNorms(Hook):
    """A table: per parameter the norms of weight, gradient and update, and update ÷ weight.

    Gradients are those that the optimizer gets, after clipping. The update of a parameter whose
    optimizer did not step, or is not known, is unknown (NaN). `attach` and `Session` add this hook
    by themselves.

    >>> LayerNorms().key
    'layers'
    """

    key = "layers"
    panel = Panel(
        kind="table",
        title="Layers",
        label="name",
        fields={
            "weight_norm": Field(label="Weight norm", precision=4),
            "grad_norm": Field(label="Gradient norm", precision=4),
            "update_norm": Field(label="Update norm", precision=4),
            "update_ratio": Field(label="Update ÷ weight", precision=3),
        },
        status=Status(
            field="update_ratio",
            levels=(
                Level(above=0.3, word="large", tone="bad"),
                Level(above=0.03, word="high", tone="warn"),
                Level(below=1e-7, word="still", tone="bad"),
                Level(below=1e-5, word="low", tone="warn"),
            ),
            otherwise=Level(word="usual", tone="good"),
        ),
    )

    def __init__(self) -> None:
        self._norms: StepNorms | None = None

    def before_step(self, model: nn.Module) -> None:
        """Begin to measure a step."""
        self._norms = StepNorms(model.named_parameters())

    def before_optimizer(self, model: nn.Module, held: frozenset[int]) -> None:
        """Measure the gradients of one optimizer, and clone its weights for comparison."""
        if self._norms is not None:
            self._norms.before(held)

    def after_optimizer(self, model: nn.Module) -> None:
        """Measure what this optimizer has changed."""
        if self._norms is not None:
            self._norms.after()

    def after_step(self, model: nn.Module) -> Mapping[str, Any] | None:
        """The table. The norms stay on the device; a reader makes the columns from their copy."""
        norms, self._norms = self._norms, None
        if norms is None:
            return None
        measured = norms.measure()
        return self._columns(norms.names, measured)

    def _columns(self, names: list[str], norms: torch.Tensor) -> DeferredColumns:
        return DeferredColumns(tensor_norms.norm_columns, names=names, norms=norms)


def norms_at_end(model: nn.Module) -> tuple[Panel, dict[str, object]] | None:
    """The table of layers outside a step: weights, and gradients if they are still there.

    None for a model with tensors that are spread over processes: each would wait for the others.
    """
    import torch

    named = list(model.named_parameters())
    if any(type(value.data) is not torch.Tensor for _, value in named):
        return None
    measured = tensor_norms.ParameterNorms(named, updates=False)
    norms = measured.measure()
    with torch.no_grad():  # a gradient of zero was cleared, and is not that of the last step
        norms[1][norms[1] == 0] = torch.nan
    table = tensor_norms.norm_columns(measured.names, norms)
    names = (
        ["name", "weight_norm"] if norms[1].isnan().all() else ["name", "weight_norm", "grad_norm"]
    )
    fields = {name: LayerNorms.panel.fields[name] for name in names[1:]}
    panel = replace(LayerNorms.panel, fields=fields, status=None)
    return panel, {name: table[name] for name in names}


class LayerNormSeries(LayerNorms):
    """A chart: one of the norms of each parameter over the steps.

    Args:
        quantity: grad_norm, weight_norm, update_norm or update_ratio.
        layers: only parameters whose name contains this.

    >>> LayerNormSeries("update_ratio").key
    'update_ratio by layer'
    """

    def __init__(self, quantity: Quantity = "grad_norm", layers: str = "") -> None:
        super().__init__()
        self.key = f"{quantity} by layer"
        self.panel = Panel(kind="series", title=quantity.replace("_", " "), log_y=True)
        self._quantity, self._layers = quantity, layers

    def _columns(self, names: list[str], norms: torch.Tensor) -> DeferredColumns:
        """One number per parameter."""
        column = partial(_one_column, quantity=self._quantity, layers=self._layers)
        return DeferredColumns(column, names=names, norms=norms)


def _one_column(
    names: list[str], norms: torch.Tensor, *, quantity: Quantity, layers: str
) -> dict[str, float]:
    values: Any = tensor_norms.norm_columns(names, norms)[quantity]
    pairs = zip(names, values.tolist(), strict=True)
    return {name: value for name, value in pairs if layers in name}
