"""A debugger for PyTorch training: pause between two steps, look inside, step forward or back.

The names below are loaded when they are first used, so that `import midstep` costs neither torch
nor numpy.

    with midstep.attach(model, optimizer, loader, serve=True) as run:
        ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names
from midstep.core.version import __version__ as __version__

if TYPE_CHECKING:
    from midstep.client import Client as Client
    from midstep.control import Breakpoint as Breakpoint
    from midstep.control import Command as Command
    from midstep.control import DebugController as DebugController
    from midstep.control import Panel as Panel
    from midstep.control.samples.view import view as view
    from midstep.core.errors import ClientError as ClientError
    from midstep.core.errors import ConfigError as ConfigError
    from midstep.core.errors import ControlError as ControlError
    from midstep.core.errors import MidstepError as MidstepError
    from midstep.core.errors import StopTraining as StopTraining
    from midstep.core.errors import StorageError as StorageError
    from midstep.core.media.given_values import histogram as histogram
    from midstep.core.media.given_values import table as table
    from midstep.live.attach import attach as attach
    from midstep.live.serve import serve as serve
    from midstep.session import Run as Run
    from midstep.session import hooks as hooks
    from midstep.session.config import SessionConfig as SessionConfig
    from midstep.session.hooks import Hook as Hook
    from midstep.session.session import Session as Session
    from midstep.session.state.env_state import env_state as env_state

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "midstep.client": "Client",
        "midstep.control": "Breakpoint Command DebugController Panel",
        "midstep.control.samples.view": "view",
        "midstep.core.errors": "ClientError ConfigError ControlError MidstepError StopTraining "
        "StorageError",
        "midstep.core.media.given_values": "histogram table",
        "midstep.live.attach": "attach",
        "midstep.live.serve": "serve",
        "midstep.session": "Run hooks",
        "midstep.session.config": "SessionConfig",
        "midstep.session.hooks": "Hook",
        "midstep.session.session": "Session",
        "midstep.session.state.env_state": "env_state",
    },
    loaded=["__version__"],
)
