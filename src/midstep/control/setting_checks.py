"""Checks of numbers and text that a user gives to breakpoints, rules and panels."""

from __future__ import annotations

import math
from typing import Any

from midstep.core.errors import ConfigError


def check_number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf
) -> None:
    """Raise ConfigError unless `value` is a finite number above `above` and at least `least`."""
    # A bool is an int in Python, but as a setting it is a mistake.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{name} must be a finite number, got {value!r}")
    if not value > above:
        raise ConfigError(f"{name} must be above {above:g}, got {value!r}")
    if value < least:
        raise ConfigError(f"{name} must be at least {least:g}, got {value!r}")


def check_integer(name: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Raise ConfigError unless `value` is an integer from `least` to `most`."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} must be a whole number {limits}, got {value!r}")


def check_text(name: str, value: Any) -> None:
    """Raise ConfigError unless `value` is text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} must be text that is not empty, got {value!r}")
