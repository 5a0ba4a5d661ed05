"""Runs and sessions: the one writer of a run directory, and a loop that can be taken up again."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from midstep.session import hooks
from midstep.session.identity import Existing
from midstep.session.parking import OnError
from midstep.session.run import Run

if TYPE_CHECKING:
    from midstep.session.config import SessionConfig
    from midstep.session.fitting import StepRecord
    from midstep.session.session import Session

__all__ = ["Existing", "OnError", "Run", "Session", "SessionConfig", "StepRecord", "hooks"]

_HOME = {
    "Session": "midstep.session.session",
    "SessionConfig": "midstep.session.config",
    "StepRecord": "midstep.session.fitting",
}


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is first asked for: a run alone does without."""
    if name not in _HOME:
        raise AttributeError(f"module 'midstep.session' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
