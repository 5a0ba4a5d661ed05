"""`attach` for plain loops, `serve` for any run, `midstep run` for a script without an edit.

The names are loaded when they are first used: `midstep run` begins a script without torch or numpy.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.live.attach import attach as attach
    from midstep.live.attached_run import AttachedRun as AttachedRun
    from midstep.live.serve import ServedRun as ServedRun
    from midstep.live.serve import serve as serve


class _Package(ModuleType):
    """Keeps the functions `attach` and `serve` when Python binds their modules of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("attach", "serve") and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {".attach": "attach", ".attached_run": "AttachedRun", ".serve": "ServedRun serve"},
)
