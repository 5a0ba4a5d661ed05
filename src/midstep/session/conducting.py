"""One call of `fit` from outside its loop: signals that end it, and how its end is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from midstep.core.errors import StopTraining
from midstep.session.signals import stop_at_signals

if TYPE_CHECKING:
    from midstep.session.fitting import Fit
    from midstep.session.helm import Helm
    from midstep.session.run import Run

__all__ = ["conduct"]


def conduct(helm: Helm, fit: Fit, *, finished: Callable[[], object], ends_run: bool) -> bool:
    """Train to the end, to a stop or to an error; True if a signal ended it.

    Args:
        helm: of the open session.
        fit: the loop.
        finished: called if the total was reached, before that is told.
        ends_run: whether the run ends with it.
    """
    run, helm.fit = helm.run, fit
    with stop_at_signals(run.controller, lambda cause: _note(run, cause)) as signals:
        try:
            if reached := fit.go():
                finished()
            if ends_run:
                run.finish("finished" if reached else "stopped")
        except BaseException as error:
            # To the whole group: then a loader's worker dies of it first, and the loader raises.
            by_signal = signals.caused(error)
            _fail(helm, fit, StopTraining("stopped by a signal") if by_signal else error)
            if not by_signal:
                raise
        finally:
            helm.fit = None
    return signals.asked


def _note(run: Run, cause: str) -> None:
    run.stop_reason = cause


def _fail(helm: Helm, fit: Fit, error: BaseException) -> None:
    """Name the last good checkpoint in the error, then stand with it if somebody looks."""
    if isinstance(error, Exception) and not isinstance(error, StopTraining):
        if helm.keeper.last is not None:
            error.add_note(f"midstep: the last checkpoint is {helm.keeper.last}")
        fit.keep_batch()
    helm.run.fail(error)
