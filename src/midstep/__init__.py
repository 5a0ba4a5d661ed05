"""midstep: a workbench for PyTorch training. Stop between any two steps, look inside, step on.

The names below are loaded when they are first used, so that `import midstep` costs neither torch
nor numpy.

    with midstep.attach(model, optimizer, loader, serve=True) as run:
        ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names
from midstep.core.version import __version__

if TYPE_CHECKING:
    from midstep.client import Client
    from midstep.control import Breakpoint, Command, DebugController, Panel
    from midstep.core.errors import (
        ClientError,
        ConfigError,
        ControlError,
        MidstepError,
        StopTraining,
        StorageError,
    )
    from midstep.live.attach import attach
    from midstep.live.serve import serve
    from midstep.session import Run, hooks
    from midstep.session.config import SessionConfig
    from midstep.session.hooks import Hook
    from midstep.session.session import Session

__all__ = [
    "Breakpoint",
    "Client",
    "ClientError",
    "Command",
    "ConfigError",
    "ControlError",
    "DebugController",
    "Hook",
    "MidstepError",
    "Panel",
    "Run",
    "Session",
    "SessionConfig",
    "StopTraining",
    "StorageError",
    "__version__",
    "attach",
    "hooks",
    "serve",
]

_HOME = {
    "Breakpoint": "midstep.control",
    "Client": "midstep.client",
    "ClientError": "midstep.core.errors",
    "Command": "midstep.control",
    "ConfigError": "midstep.core.errors",
    "ControlError": "midstep.core.errors",
    "DebugController": "midstep.control",
    "Hook": "midstep.session.hooks",
    "MidstepError": "midstep.core.errors",
    "Panel": "midstep.control",
    "Run": "midstep.session",
    "Session": "midstep.session.session",
    "SessionConfig": "midstep.session.config",
    "StopTraining": "midstep.core.errors",
    "StorageError": "midstep.core.errors",
    "attach": "midstep.live.attach",
    "hooks": "midstep.session",
    "serve": "midstep.live.serve",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
