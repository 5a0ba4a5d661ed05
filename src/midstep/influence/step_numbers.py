"""Numbers of an optimizer step that have to be above zero."""

from __future__ import annotations

import math
from numbers import Real

from midstep.core.errors import ConfigError

__all__ = ["check_step_numbers"]

_WITHOUT = {
    "lr": "the optimizer's own rate",
    "max_grad_norm": "no clipping",
    "clip_factor": "no clipping",
}


def check_step_numbers(**numbers: float | None) -> None:
    """Refuse what would turn or wipe out the step; None is not given.

    >>> check_step_numbers(lr=1e-4, max_grad_norm=None)
    >>> check_step_numbers(max_grad_norm=-1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    midstep.core.errors.ConfigError: max_grad_norm must be a number above 0, got -1.0; ...
    """
    for name, value in numbers.items():
        if value is None:
            continue
        fits = isinstance(value, Real) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or value <= 0:
            raise ConfigError(
                f"{name} must be a number above 0, got {value!r}; leave it out for "
                f"{_WITHOUT.get(name, 'the default')}"
            )
