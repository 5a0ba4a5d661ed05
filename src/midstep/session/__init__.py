"""Runs and sessions: the one writer of a run directory, and a loop that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names
from midstep.session import hooks as hooks

if TYPE_CHECKING:
    from midstep.session.config import SessionConfig as SessionConfig
    from midstep.session.fit.fit_loop import StepRecord as StepRecord
    from midstep.session.run import OnError as OnError
    from midstep.session.run import Run as Run
    from midstep.session.run_directory import Existing as Existing
    from midstep.session.session import Session as Session

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".config": "SessionConfig",
        ".fit.fit_loop": "StepRecord",
        ".run": "OnError Run",
        ".run_directory": "Existing",
        ".session": "Session",
    },
    loaded=["hooks"],
)
