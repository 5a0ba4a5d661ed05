"""The loss that was declared to `attach`: a module has a hook, a function is called by the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from midstep.core.errors import ConfigError
from midstep.core.fault_guard import FaultGuard

if TYPE_CHECKING:
    from torch import nn

    from midstep.control import DebugController
    from midstep.session.step_results import Position, StepResults

log = logging.getLogger("midstep.live")
CALL = "To see the loss of each sample, compute it with run.loss(output, target)."
DECLARE = (
    "To see the loss of each sample, give midstep.attach your loss module or function as loss_fn, "
    "and compute the loss with run.loss(output, target)."
)


class LossListener(Protocol):
    """Gets each call of the loss in training."""

    def loss_computed(
        self, arguments: Any, named: Any, output: Any, *, is_named: bool = False
    ) -> None:
        """The loss was called with these arguments; `is_named`: by `run.loss`."""


class DeclaredLoss:
    """The declared loss of a loop.

    Args:
        loss_fn: a module or a function; None if there is none.
        listener: gets its calls.
    """

    def __init__(self, loss_fn: Any, listener: LossListener) -> None:
        self._loss_fn, self._listener = loss_fn, listener
        self._guard = FaultGuard("reading the loss", log)
        self._is_named = False
        self.is_hooked = hasattr(loss_fn, "register_forward_hook")

    def results(
        self, controller: DebugController, model: nn.Module, step: Callable[[], Position]
    ) -> StepResults:
        """Collects the calls of the loss, or else the forward passes of the model."""
        from midstep.session.step_results import StepResults

        how_to = DECLARE if self._loss_fn is None else CALL
        hooked = None if self.is_hooked else model
        return StepResults(controller, self._loss_fn, how_to, step, hooked)

    def hook(self) -> Callable[[], None]:
        """Note the calls of a loss module; returns how to remove the hook."""
        if not self.is_hooked:
            return lambda: None
        handle = self._loss_fn.register_forward_hook(
            lambda _module, given, named, output: self._note(given, named, output),
            with_kwargs=True,
        )
        remove: Callable[[], None] = handle.remove
        return remove

    def call(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The loss of the samples of the running batch, computed by the declared function."""
        self._is_named = True
        try:
            output = self._loss_fn(*inputs, **named)
            if not self.is_hooked:
                self._note(inputs, named, output)
        finally:
            self._is_named = False
        return output

    def _note(self, inputs: Any, named: Any, output: Any) -> None:
        note = self._listener.loss_computed
        self._guard.run(note, inputs, named, output, is_named=self._is_named)


def check_declared(loss_fn: Callable[..., Any] | None) -> Callable[..., Any]:
    """The declared loss; raises an error if there is none."""
    if loss_fn is None:
        raise ConfigError("run.loss calls the loss of midstep.attach(…, loss_fn=…); declare it")
    return loss_fn
