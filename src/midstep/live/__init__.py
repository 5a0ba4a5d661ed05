"""`attach` for plain loops, `serve` for any run."""

from midstep.live.attach import AttachedRun, attach
from midstep.live.serve import ServedRun, serve

__all__ = ["AttachedRun", "ServedRun", "attach", "serve"]
