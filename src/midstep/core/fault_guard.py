"""One rule for faults of our own: the part that raised is switched off, and training continues.

Only code of midstep runs under a guard. An error of the user's own code passes through untouched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any


class FaultGuard:
    """Switches one part of midstep off at its first error. Its functions share one guard.

    Args:
        words: what the part does, for the log: "reading the loss".
        log: receives the error once, with its traceback.
        on_fault: receives the error after the part is off, to undo what it had installed.
    """

    def __init__(
        self,
        words: str,
        log: logging.Logger,
        on_fault: Callable[[Exception], object] | None = None,
    ) -> None:
        self._words, self._log, self._on_fault = words, log, on_fault
        self.is_off = False
        """Whether something raised; nothing runs under this guard any more."""

    def run(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """The result of `work(*arguments, **named)`; None if it raises, and after any error."""
        if self.is_off:
            return None
        try:
            return work(*arguments, **named)
        except Exception as error:  # noqa: BLE001
            # Broad on purpose: a fault of ours must not end a training that may have run for days.
            # KeyboardInterrupt and SystemExit are not faults; they pass through.
            self.switch_off(error)
            return None

    def switch_off(self, error: Exception) -> None:
        """Run nothing more, and log the error; called in its `except` block."""
        self.is_off = True
        self._log.exception("%s failed and is off; training continues", self._words)
        if self._on_fault is not None:
            self._on_fault(error)


def disable_on_error(
    work: Callable[..., Any],
    words: str,
    log: logging.Logger,
    on_fault: Callable[[Exception], object] | None = None,
) -> Callable[..., Any]:
    """`work` under a guard of its own: after its first error a call does nothing and gives None.

    >>> quiet = logging.getLogger("midstep.example")
    >>> quiet.disabled = True
    >>> inverse = disable_on_error(lambda number: 1 / number, "inverting", quiet)
    >>> [inverse(number) for number in (2, 0, 4)]
    [0.5, None, None]
    """
    return partial(FaultGuard(words, log, on_fault).run, work)
