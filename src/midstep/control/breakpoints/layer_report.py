"""What was measured inside a model in one step, as plain numbers: what rules look at.

The controller knows no model; whoever does (an attached run, a session) measures when asked to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Measure = Literal["gradients", "updates", "activations"]
"""What costs time: norms, clones of the weights, hooks on the modules."""


@dataclass(frozen=True, kw_only=True)
class ParameterReading:
    """One parameter around an optimizer step."""

    name: str
    elements: int
    """How many numbers it holds."""
    is_matrix: bool
    """Whether it has two dimensions or more, unlike a bias or a scale."""
    weight_norm: float
    grad_norm: float | None
    """As the optimizer got it, after clipping; None when it had no gradient."""
    update_norm: float | None = None
    """Of the change that the step made; None when it was not measured."""


@dataclass(frozen=True, kw_only=True)
class ActivationReading:
    """What one module gave in the forward pass, in the order of the calls."""

    name: str
    low: float
    """Smallest element; NaN if any is."""
    high: float
    dead_fraction: float | None = None
    """Of the units of a ReLU: those that were zero for all samples of late."""
    saturated_fraction: float | None = None
    """Of the elements of a sigmoid or a tanh: those on the flat ends."""


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """All readings of one step."""

    measures: frozenset[Measure]
    """What was measured."""
    parameters: tuple[ParameterReading, ...] = ()
    activations: tuple[ActivationReading, ...] = ()
    cost_s: float = 0.0
    """Time that the measuring took in this step."""
