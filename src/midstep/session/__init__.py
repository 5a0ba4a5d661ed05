"""Runs: the one writer of a run directory, and what a loop needs of it."""

from midstep.session.identity import Existing
from midstep.session.parking import OnError
from midstep.session.run import Run

__all__ = ["Existing", "OnError", "Run"]
