"""MIDSTEP_MODE: one switch for every script, without touching the code."""

from __future__ import annotations

import os
from typing import Literal, cast, get_args

from midstep.core.errors import ConfigError

__all__ = ["Mode", "current_mode"]

Mode = Literal["live", "record", "off"]
"""As the calls say, facts without a page, or nothing at all."""


def current_mode() -> Mode:
    """What MIDSTEP_MODE says; `live` when it is not set."""
    value = os.environ.get("MIDSTEP_MODE") or "live"
    if value not in get_args(Mode):
        raise ConfigError(f"MIDSTEP_MODE is {value!r}; set it to live, record or off, or unset it")
    return cast("Mode", value)
