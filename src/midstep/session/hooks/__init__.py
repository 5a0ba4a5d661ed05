"""Hooks for any model: each looks inside a step while somebody watches, and pushes a panel.

    with midstep.attach(model, optimizer, loader, serve=True) as run:
        run.show(midstep.hooks.ActivationStatistics(), midstep.hooks.DeadUnits())

The names below are loaded when they are first used: they need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names
from midstep.session.hooks.base import Hook

if TYPE_CHECKING:
    from midstep.session.hooks.activations import ActivationStatistics, DeadUnits
    from midstep.session.hooks.attention import AttentionEntropy
    from midstep.session.hooks.norms import LayerNorms, LayerNormSeries
    from midstep.session.hooks.rows import Units, WeightCosine

__all__ = [
    "ActivationStatistics",
    "AttentionEntropy",
    "DeadUnits",
    "Hook",
    "LayerNormSeries",
    "LayerNorms",
    "Units",
    "WeightCosine",
]

_HOME = {
    "ActivationStatistics": ".activations",
    "AttentionEntropy": ".attention",
    "DeadUnits": ".activations",
    "LayerNormSeries": ".norms",
    "LayerNorms": ".norms",
    "Units": ".rows",
    "WeightCosine": ".rows",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
