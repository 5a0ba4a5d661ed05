"""Competitive learning on a linear layer (BCL): attach it, train as before, inspect its forces.

    bcl = BCL(model.encoder, BCLConfig(variant="novelty"))
    ...                                # the loop stays as it is
    bcl.get_step_metrics()["win_rate"]
    bcl.remove()

The formulas are pure functions: `competition` computes which feature wins, `forces` the gradient
mask and the pull that follow, `feature_measures` the state of the features. The names below are
loaded when first used, so that reading `settings` loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.models.competitive.bcl_step import BCL as BCL
    from midstep.models.competitive.settings import VARIANTS as VARIANTS
    from midstep.models.competitive.settings import BCLConfig as BCLConfig
    from midstep.models.competitive.settings import Variant as Variant

__all__, __getattr__, __dir__ = lazy_names(
    __name__, {".bcl_step": "BCL", ".settings": "BCLConfig VARIANTS Variant"}
)
