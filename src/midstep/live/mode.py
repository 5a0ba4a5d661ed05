"""The environment variable MIDSTEP_MODE: switches midstep off without a change of the script."""

from __future__ import annotations

import os
from typing import Literal, cast, get_args

from midstep.core.errors import ConfigError

Mode = Literal["live", "record", "off"]
"""`live`: as the calls request; `record`: facts without a page; `off`: nothing at all."""


def current_mode() -> Mode:
    """The value of MIDSTEP_MODE; `live` if it is not set."""
    value = os.environ.get("MIDSTEP_MODE") or "live"
    if value not in get_args(Mode):
        raise ConfigError(f"MIDSTEP_MODE is {value!r}; set it to live, record or off, or unset it")
    return cast("Mode", value)
