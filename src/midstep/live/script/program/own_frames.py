"""Tracebacks without the frames of midstep, as the script alone would have printed them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).parents[3]) + "/"


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without our frames, and without the waiting that we called.

    >>> without_own_frames(None) is None
    True
    """
    kept: list[TracebackType] = []
    follows_ours = False
    while trace is not None:
        # Ctrl-C in a parked run is raised inside `threading`, which the script did not call.
        is_wait = follows_ours and trace.tb_frame.f_globals.get("__name__") == "threading"
        follows_ours = _is_ours(trace) or is_wait
        if not follows_ours:
            kept.append(trace)
        trace = trace.tb_next
    following: TracebackType | None = None
    for each in reversed(kept):
        following = TracebackType(following, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return following


def strip_own_frames(error: BaseException) -> None:
    """Remove our frames from the traceback of an error and of those that led to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = without_own_frames(each.__traceback__)
        waiting += [each.__cause__, each.__context__]


def hide_own_frames(error: BaseException) -> None:
    """Let the interpreter print the error that ends the program with its present traceback.

    Called when the script is over, so nothing replaces the hook after us.
    """
    user_hook, trace = sys.excepthook, error.__traceback__

    def print_error(
        kind: type[BaseException], raised: BaseException, longer: TracebackType | None
    ) -> None:
        if raised is error:  # it has passed through our frames again
            error.__traceback__ = longer = trace
        user_hook(kind, raised, longer)

    sys.excepthook = print_error
