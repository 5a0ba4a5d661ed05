"""Standing still on an error, so that somebody can look: when, and what is said about it."""

from __future__ import annotations

import sys
import traceback
from typing import Literal

__all__ = ["OnError", "at_terminal", "tell_parked"]

OnError = Literal["park", "raise"]


def at_terminal() -> bool:
    """Whether somebody may sit there."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def tell_parked(error: BaseException, page_url: str | None) -> None:
    """The traceback first, then in one line what the run waits for and how to release it.

    Args:
        error: what the training raised.
        page_url: where the run can be looked at; None when it is not served.
    """
    traceback.print_exception(error)
    if page_url is None:
        where, release = "", "controller.resume()"
    else:
        where, release = f" at {page_url}", "`midstep ctl resume` or `midstep ctl stop`"
    sys.stderr.write(
        f"midstep: the run stands at this error to be looked at{where}; {release} or Ctrl-C "
        'lets it end, and with on_error="raise" it does not wait\n'
    )
    sys.stderr.flush()
