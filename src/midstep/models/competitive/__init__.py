"""Competitive learning on a linear layer (BCL): attach it, train as before, look at its forces.

    bcl = BCL(model.encoder, BCLConfig(variant="novelty"))
    ...                                # the loop stays as it is
    bcl.get_step_metrics()["win_rate"]
    bcl.remove()

The formulas are pure functions: `competition` says who wins, `forces` what follows from it, and
`health` measures what becomes of the features.
"""

from midstep.models.competitive.config import VARIANTS, BCLConfig, Variant
from midstep.models.competitive.layer import BCL

__all__ = ["BCL", "VARIANTS", "BCLConfig", "Variant"]
