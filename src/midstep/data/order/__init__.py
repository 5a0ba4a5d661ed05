"""The order of samples: permutation, order policies, and a loader that can be resumed.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.data.order.permutation import RANDPERM_LIMIT as RANDPERM_LIMIT
    from midstep.data.order.permutation import Order as Order
    from midstep.data.order.samplers import EpochSeededRandomSampler as EpochSeededRandomSampler

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".permutation": "Order RANDPERM_LIMIT",
        ".samplers": "EpochSeededRandomSampler",
    },
)
