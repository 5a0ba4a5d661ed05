"""Hooks for any model: each reads the steps that show its data, and fills a panel.

    with midstep.attach(model, optimizer, loader, serve=True) as run:
        run.show(midstep.hooks.ActivationStatistics(), midstep.hooks.DeadUnits())

The names below are loaded when they are first used: they need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.session.hooks.activations import ActivationStatistics as ActivationStatistics
    from midstep.session.hooks.activations import DeadUnits as DeadUnits
    from midstep.session.hooks.attention import AttentionEntropy as AttentionEntropy
    from midstep.session.hooks.hook import Hook as Hook
    from midstep.session.hooks.layer_norms import LayerNorms as LayerNorms
    from midstep.session.hooks.layer_norms import LayerNormSeries as LayerNormSeries
    from midstep.session.hooks.weight_rows import Units as Units
    from midstep.session.hooks.weight_rows import WeightCosine as WeightCosine

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".activations": "ActivationStatistics DeadUnits",
        ".attention": "AttentionEntropy",
        ".hook": "Hook",
        ".layer_norms": "LayerNormSeries LayerNorms",
        ".weight_rows": "Units WeightCosine",
    },
)
