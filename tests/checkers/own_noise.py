"""A module as users write one: its function draws from a generator of the module."""

from __future__ import annotations

import numpy as np

rng = np.random.default_rng(77)


def draw() -> float:
    return float(rng.random())
