"""Settings of the demo; they can be shown and checked without loading torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from midstep.core.errors import ConfigError
from midstep.loops.settings import bounded

__all__ = ["MAX_SEED", "MAX_STEPS", "DataName", "DemoConfig"]

MAX_STEPS = 100_000_000
MAX_SEED = 2**53 - 1
"""The greatest whole number that every program reads the same from JSON."""
DataName = Literal["digits", "mnist"]


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Settings of the demo.

    >>> DemoConfig(steps=100).batch_size
    128
    """

    steps: int = bounded(10_000, minimum=1, maximum=MAX_STEPS)
    """Optimizer steps in all; about half a minute on two cores."""
    batch_size: int = bounded(128, minimum=1)
    """Digits per step; the last batch of an epoch may be smaller."""
    learning_rate: float = 1e-3
    """Of Adam."""
    hidden: int = bounded(64, minimum=1)
    """Features between encoder and decoder."""
    seed: int = bounded(0, minimum=0, maximum=MAX_SEED)
    """Of the initial weights and of the order; each has a stream of its own."""
    data: DataName = "digits"
    """5,000 digits, or mnist: 70,000, where they were fetched."""

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MAX_STEPS:
            raise ConfigError(f"steps must lie between 1 and {MAX_STEPS:,}, got {self.steps}")
        for name in ("batch_size", "hidden"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        known = get_args(DataName)
        if self.data not in known:
            raise ConfigError(f"data must be one of {', '.join(known)}; got {self.data!r}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"learning_rate must be above 0, got {self.learning_rate}")
