"""`attach` for plain loops, `serve` for any run."""

from midstep.live.attach import attach
from midstep.live.attached_run import AttachedRun
from midstep.live.serve import ServedRun, serve

__all__ = ["AttachedRun", "ServedRun", "attach", "serve"]
