"""Numbers measured inside a model in one step, which the rules check.

The controller knows no model. Who knows it (an attached run, a session) measures it in the steps in
which a rule is due, and reports the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Measure = Literal["gradients", "updates", "activations"]
"""Kinds of measurements, by what they cost: norms, clones of the weights, hooks on modules."""


@dataclass(frozen=True, kw_only=True)
class ParameterReading:
    """One parameter around an optimizer step."""

    name: str
    elements: int
    """Number of elements."""
    is_matrix: bool
    """Whether it has two or more dimensions, unlike a bias or a scale."""
    weight_norm: float
    grad_norm: float | None
    """The norm that the optimizer gets, after clipping; None without a gradient."""
    update_norm: float | None = None
    """Norm of the change by the step; None if it was not measured."""


@dataclass(frozen=True, kw_only=True)
class ActivationReading:
    """The output of one module in the forward pass."""

    name: str
    low: float
    """Smallest element; NaN if any element is NaN."""
    high: float
    dead_fraction: float | None = None
    """Share of the units of a ReLU that were zero for all samples of the last measurements."""
    units: int | None = None
    """Units of a ReLU, of which `dead_fraction` is a share."""
    saturated_fraction: float | None = None
    """Share of the elements of a sigmoid or tanh that are close to its limits."""


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """All measurements of one step."""

    measures: frozenset[Measure]
    """What was measured."""
    parameters: tuple[ParameterReading, ...] = ()
    activations: tuple[ActivationReading, ...] = ()
    """Readings in the order of the calls."""
    cost_s: float = 0.0
    """Seconds that the measurements took in this step."""
