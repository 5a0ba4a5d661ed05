"""Parts that every room uses: errors, ids, files, random streams, JSON, protocols, moments.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.core.seeds import set_all_seeds as set_all_seeds

__all__, __getattr__, __dir__ = lazy_names(__name__, {".seeds": "set_all_seeds"})
