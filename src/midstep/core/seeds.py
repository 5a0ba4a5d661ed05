"""Seeds every global random generator. Only training loops call this."""

from __future__ import annotations

import random

from midstep.core.field_checks import at_least, require


def set_all_seeds(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch, on the CPU and on every GPU.

    >>> set_all_seeds(7)
    >>> first = random.random()
    >>> set_all_seeds(7)
    >>> random.random() == first
    True

    Args:
        seed: a whole number of at least 0. NumPy takes its lowest 32 bits.
    """
    require(at_least("seed", seed, 0))
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    # Covers CUDA and other devices too; a device that is not initialised yet is seeded later.
    torch.manual_seed(seed)
