"""The user's loop as seen through its loader and optimizer: windows, boundaries, epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.core.errors import StopTraining
from midstep.live.batches import Window, join, labels_of
from midstep.live.epochs import EpochBook
from midstep.live.hooks import gradient_norm, once_safe
from midstep.session.recorder import as_scalars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import nn
    from torch.optim import Optimizer

    from midstep.session import Run
    from midstep.session.layers import Layers

__all__ = ["Loop"]


class Loop:
    """Listens to loader, optimizer and loss, and calls the controller at each boundary.

    A window opens with the first batch handed out after a boundary and closes with the loader's
    next batch after an optimizer step. All of it runs on the training thread.
    """

    def __init__(self, run: Run, clock: Optimizer, loader: Any, model: nn.Module) -> None:
        import torch

        self._grad_enabled = torch.is_grad_enabled
        self._run, self._controller, self._clock = run, run.controller, clock
        self._book = EpochBook(run, loader)
        self._window = Window()
        self._entered = self._stepped = self._stopped = self._detached = False
        self._learning_rate: Any = None
        self._armed = self._wants_norm = False
        self._report = once_safe(self._report_window, "reporting the step")
        self._keep_batch = once_safe(self._keep_batch_of_window, "keeping the batch")
        self._model: nn.Module | None = model
        self._layers: Layers | None = None
        self._read_gradients = once_safe(self._begin_layers, "reading the layers")
        self._push_layers = once_safe(self._end_layers, "reading the layers")
        self._unsubscribe = self._controller.subscribe(self._look_at_breakpoints)
        self._look_at_breakpoints()

    def detach(self) -> None:
        """Listen no more; an iterator that outlives the block goes on without us."""
        self._detached = True
        self._unsubscribe()
        self._window = Window()
        self._model = self._layers = None

    def _look_at_breakpoints(self) -> None:
        """Called when anything changed: note what the armed breakpoints need of this loop."""
        armed = [each for each in self._controller.list_breakpoints() if each.enabled]
        self._armed = bool(armed)
        self._wants_norm = any("grad_norm" in each.condition.names for each in armed)

    # -- the loader -------------------------------------------------------------------------------

    def before_batch(self) -> None:
        """A boundary, if an optimizer step was made since the last one, or before the first."""
        if self._detached:
            return
        if self._stepped:
            self._end_step()
        elif not self._entered:
            self._entered = True
            self._tell_learning_rate()
            self._go_on(self._controller.enter())
        elif self._stopped:
            self._go_on(going=False)

    def after_batch(self, batch: Any, ids: Sequence[int] | None) -> None:
        """A micro-batch of the step in progress; one drawn without gradients is none of it."""
        if self._detached or not self._grad_enabled():
            return
        if self._window.count == 0:
            self._book.batch_began()
        self._window.add(batch, ids)

    def pass_ended(self) -> None:
        """The loader is exhausted."""
        if not self._detached:
            self._book.pass_ended(self._run.step)

    # -- optimizer and loss -----------------------------------------------------------------------

    def before_step(self) -> None:
        """Take norms while the gradients are there, if a breakpoint or a look asks for them."""
        self._layers = None
        if self._wants_norm:
            self._window.scalars.setdefault("grad_norm", gradient_norm(self._clock))
        if self._controller.wants_data:
            self._read_gradients()

    def after_step(self) -> None:
        """The clock ticked."""
        self._stepped = True
        if self._layers is not None:
            self._push_layers()

    def _begin_layers(self) -> None:
        from midstep.session.layers import Layers

        if self._model is not None:
            self._layers = Layers(self._model.named_parameters())

    def _end_layers(self) -> None:
        """The table of this step's parameters, unless the user pushes one of that name."""
        layers, self._layers = self._layers, None
        if layers is not None and "layers" not in self._controller.list_step_data_keys():
            self._controller.capture_step_data("layers", layers.table())

    def loss_known(self, output: Any) -> None:
        """The loss module ran; it counts in training, before the step."""
        if self._window.count and not self._stepped and self._grad_enabled():
            self._window.note_loss(output)

    # -- what the user calls ----------------------------------------------------------------------

    def log(self, scalars: Mapping[str, Any]) -> None:
        """Scalars of the step in progress, or, between steps, of what is finished."""
        owned = as_scalars(scalars)
        if self._window.count:
            self._window.scalars.update(owned)
        else:
            self._run.log_finished(**owned)
            self._book.note(owned)

    def epochs(self, n: int) -> Iterator[int]:
        """Epochs 0 to n - 1; each is closed, with a record, when the next is asked for."""
        for epoch in range(n):
            self._book.begin(epoch, n, self._run.step)
            yield epoch
            if self._stepped:  # the loop broke off before the loader's next batch
                self._end_step()
            self._book.end(self._run.step)

    def end(self, error: BaseException | None) -> None:
        """The block is left: the last step is closed, and the end goes on record."""
        if error is not None:
            self._keep_open_window()
            if isinstance(error, Exception) and not isinstance(error, StopTraining):
                self._keep_batch(self._window)
            self._run.fail(error)
            return
        try:
            if self._stepped:
                self._end_step()
        except StopTraining:
            self._run.finish("stopped")
        else:
            self._run.finish()

    def _keep_open_window(self) -> None:
        """What was logged in a step that never ended is evidence; write it down."""
        if self._window.scalars:
            self._run.facts.log_values(self._run.step + 1, self._window.scalars)

    def _keep_batch_of_window(self, window: Window) -> None:
        """The batch that the failing step was given: there to be looked at if the run parks."""
        if window.batches:
            batch = join(window.batches)
            self._controller.keep_batch(
                batch,
                window.loss(),
                labels=labels_of(batch),
                sample_ids=window.ids,
                losses=window.losses(),
            )

    # -- the boundary -----------------------------------------------------------------------------

    def _end_step(self) -> None:
        """Hand the closed window to the controller, and stand there if so asked."""
        window, self._window, self._stepped = self._window, Window(), False
        self._entered = True
        self._report(window)
        self._go_on(self._controller.wait_if_paused())

    def _report_window(self, window: Window) -> None:
        """Everything the boundary shows or weighs: rate, scalars, loss, batch."""
        self._tell_learning_rate()
        loss = window.loss()
        samples = len(window.ids) if window.ids is not None else 0
        self._book.step_ended(loss, micro_batches=window.count, samples=samples)
        self._controller.log(window.scalars)
        if window.batches:
            self._capture(window, loss)

    def _capture(self, window: Window, loss: Any) -> None:
        """Hand over the batch; only if somebody might look is it joined and its labels found."""
        control = self._controller
        if not (self._armed or control.viewers or control.wants_data or control.is_paused):
            control.capture_batch(window.batches[0], loss, sample_ids=window.ids)
            return
        batch = join(window.batches)
        control.capture_batch(
            batch, loss, labels=labels_of(batch), sample_ids=window.ids, losses=window.losses()
        )

    def _go_on(self, going: bool) -> None:
        if not going:
            self._stopped = True
            raise StopTraining(f"stopped after {self._run.step} steps")

    def _tell_learning_rate(self) -> None:
        """Describe the first group's rate when it changed; a tensor on a device is left alone."""
        rate: Any = self._clock.param_groups[0].get("lr")
        if hasattr(rate, "device") and rate.device.type != "cpu":
            return
        rate = None if rate is None else float(rate)
        if rate != self._learning_rate:
            self._learning_rate = rate
            self._controller.describe(lr=rate)
