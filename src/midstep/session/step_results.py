"""`StepResults`: losses and predictions of single samples, for both drivers.

While anything of the run is in view it notes what the loss of each micro-batch was computed from.
If the calls of the loss cannot be seen, it notes the forward passes of the model instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from midstep.control.capture.sample_results import TOO_LATE
from midstep.core.fault_guard import FaultGuard
from midstep.data.batch_structure import count_samples
from midstep.explore.step_losses import StepLosses
from midstep.session.hidden_hooks import add_hidden_hook

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from midstep.control import DebugController
    from midstep.control.capture.sample_results import Results

log = logging.getLogger("midstep.session")


class Position(Protocol):
    """Knows which micro-batch is in training."""

    def position(self) -> tuple[int, Any] | None:
        """Its number, from 1, and the batch; None outside of the forward passes of a step."""


class StepResults:
    """Notes the calls of a step, and gives what is known of its samples.

    Args:
        controller: knows whether the batch is in view.
        loss_fn: the declared loss; None if there is none.
        how_to: a sentence that says how to declare it.
        step: returns the step in progress.
        hooked: the module whose calls are seen by a hook, which is put on it while anything is in
            view: the loss itself, or the model; None if the driver tells each call of the loss.
    """

    def __init__(
        self,
        controller: DebugController,
        loss_fn: Any,
        how_to: str,
        step: Callable[[], Position | None],
        hooked: nn.Module | None,
    ) -> None:
        boundary, self._captures = controller.boundary, controller.captures
        self._step = step
        self._losses = StepLosses(loss_fn, how_to, is_pausing=lambda: boundary.is_pausing)
        self._guard = FaultGuard("noting the loss of samples", log, lambda _error: self.close())
        self._hooked = hooked if hooked is not None and _can_be_hooked(hooked) else None
        self._called = self._loss_called if hooked is loss_fn else self._model_called
        self._handle: RemovableHandle | None = None
        self._how_to, self._is_closed = how_to, False
        self._is_whole = False  # whether the step in progress was observed from its begin
        self.sizes: Sequence[int | None] = ()
        """Samples of each micro-batch of the step that was taken last."""
        self._unsubscribe = controller.sinks.on_step_begin(self._begin_step)

    def _begin_step(self) -> None:
        """Put the hook on while anything is in view, and take it off afterwards."""
        self._losses.clear()
        self._is_whole = self._captures.is_observed and not self._guard.is_off
        if not self._is_whole:
            self._take_off()
        elif self._hooked is not None and self._handle is None:
            self._handle = add_hidden_hook(self._hooked, "forward", self._called)

    def _take_off(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()

    def loss_called(
        self,
        inputs: Sequence[Any],
        named: Mapping[str, Any],
        output: Any,
        *,
        is_named: bool = False,
    ) -> None:
        """Note a call of the loss, in training and while anything is in view."""
        if self._captures.is_observed and not torch.compiler.is_compiling():
            self._guard.run(
                self._note, self._losses.loss_called, inputs, named, output, is_named=is_named
            )

    def _loss_called(self, _module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.loss_called(args, kwargs, output)

    def _model_called(self, _module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._guard.run(self._note, self._losses.model_called, args, kwargs, output)

    def _note(self, note: Callable[..., None], *call: Any, **how: Any) -> None:
        step = self._step() if torch.is_grad_enabled() else None
        position = None if step is None else step.position()
        if position is not None:
            number, batch = position
            is_shown = self._captures.plan.takes_batch
            with torch.no_grad():
                note(number, *call, batch=batch, is_shown=is_shown, **how)

    def take(self, batches: Sequence[Any], logged: Any = None) -> Results | str | None:
        """The results of the step that ends. Called while anything is in view.

        Args:
            batches: its micro-batches.
            logged: the loss of the step as it is known to the loop.
        """
        if self._is_closed:
            return self._how_to
        was_whole, self._is_whole = self._is_whole, False
        self.sizes = [count_samples(each) for each in batches]
        results: Results | str | None = self._guard.run(self._losses.take, batches, logged)
        return TOO_LATE if isinstance(results, str) and not was_whole else results

    def clear(self) -> None:
        """Drop what was noted of a step that is not shown."""
        self._losses.clear()

    def close(self) -> None:
        """Note nothing more, and remove the hook."""
        self._is_closed = True
        self._unsubscribe()
        self._take_off()
        self._losses.clear()


def _can_be_hooked(model: nn.Module) -> bool:
    """Whether the module itself is called, and a hook on it is not compiled with it."""
    is_container = isinstance(model, nn.ModuleDict | nn.ModuleList)
    is_compiled = getattr(model, "_compiled_call_impl", None) is not None
    return not (is_container or is_compiled or isinstance(model, torch.jit.ScriptModule))
