"""Ends a run of `start()` when the interpreter exits, as the end of a `with` block would."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable


def call_at_exit(end: Callable[[], None]) -> None:
    """Call `end` when the interpreter exits, before threads are joined.

    Functions of `atexit` come too late: by then executors take no more work, so a server that still
    runs fills the terminal with errors of asyncio.
    """
    register = getattr(threading, "_register_atexit", None)
    if register is None:
        atexit.register(end)
        return
    try:
        register(end)
    except RuntimeError:  # the interpreter exits already
        atexit.register(end)


def error_of_script() -> BaseException | None:
    """The error that ended the script; None if it ended well, or if a person types its lines.

    In an interactive session the last error says nothing about how the run ended.
    """
    if sys.flags.interactive or hasattr(sys, "ps1"):
        return None
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None
