"""Hooks on the norms of each parameter around the optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from midstep.control.panels import Field, Level, Panel, Status
from midstep.session.hooks.hook import Hook
from midstep.session.metrics import tensor_norms

if TYPE_CHECKING:
    from torch import nn

Quantity = Literal["weight_norm", "grad_norm", "update_norm", "update_ratio"]


class LayerNorms(Hook):
    """A table: per parameter the norms of weight, gradient and update, and update ÷ weight.

    Gradients are those that the optimizer gets, after clipping. `attach` and `Session` add this
    hook by themselves.

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
        self._norms: tensor_norms.ParameterNorms | None = None

    def before_step(self, model: nn.Module) -> None:
        """Measure the gradients, and clone the weights for comparison."""
        self._norms = tensor_norms.ParameterNorms(model.named_parameters())

    def after_step(self, model: nn.Module) -> dict[str, Any] | None:
        """The table."""
        norms, self._norms = self._norms, None
        return None if norms is None else norms.table()


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

    def after_step(self, model: nn.Module) -> dict[str, float] | None:
        """One number per parameter."""
        table = super().after_step(model)
        if table is None:
            return None
        pairs = zip(table["name"], table[self._quantity].tolist(), strict=True)
        return {name: value for name, value in pairs if self._layers in name}
