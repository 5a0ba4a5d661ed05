"""Runs and sessions: the one writer of a run directory, and a loop that can be taken up again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names
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


__getattr__, __dir__ = lazy_names(__name__, _HOME)
