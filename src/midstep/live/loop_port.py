"""The user's loop as seen through its loader and optimizer: windows, boundaries, epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from midstep.core.errors import StopTraining
from midstep.data.batch_structure import Window, join, labels_of
from midstep.data.order.epoch_cursor import IntIds
from midstep.live.epochs import EpochProgress
from midstep.live.plain_loop import disable_on_error
from midstep.session.step_report import as_scalars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import nn
    from torch.optim import Optimizer

    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.session import Run

__all__ = ["LoopPort", "Memory"]


class Memory(Protocol):
    """Who remembers states of the loop; every call comes from the training thread."""

    @property
    def resuming(self) -> bool:
        """Whether the loop has still to be brought to where a checkpoint was taken."""
        ...

    @property
    def repeating(self) -> bool:
        """Whether the step in progress only repeats one of before: nobody is told of it."""
        ...

    def first_epoch(self) -> int:
        """The epoch to begin with; a resume goes to its place in the data here."""
        ...

    def pass_begins(self) -> None:
        """The loop asks for the first batch of a pass."""
        ...

    def step_repeated(self) -> bool:
        """A repeated step is over; True at the one where the loop is to stand."""
        ...

    def boundary(self, *, inside: bool) -> None:
        """A step is over; `inside` a pass over the loader, or behind one that was left."""
        ...

    def epoch_ended(self) -> None:
        """All that belongs to an epoch is done."""
        ...

    def ended(self, status: str) -> None:
        """The training is over: finished or stopped."""
        ...


class LoopPort:
    """Listens to loader, optimizer and loss, and calls the controller at each boundary.

    A window opens with the first batch handed out after a boundary and closes with the loader's
    next batch after an optimizer step. All of it runs on the training thread.
    """

    def __init__(self, run: Run, clock: Optimizer, loader: Any, model: nn.Module) -> None:
        import torch

        from midstep.session.metrics.runtime_metrics import RuntimeMetrics

        self._grad_enabled = torch.is_grad_enabled
        self._run, self._controller, self._clock = run, run.controller, clock
        self.book = EpochProgress(run, loader)
        self.order: OrderedLoader | None = None
        """The loader's order, where it has one."""
        self.memory: Memory | None = None
        """Who takes snapshots, where that is possible."""
        self._window = Window()
        self._entered = self._stepped = self._stopped = self._detached = False
        self._passes = 0
        self._learning_rate: Any = None
        self._logged: set[str] = set()  # names that the user logs: theirs go before ours
        self._report = disable_on_error(self._report_window, "reporting the step")
        self._keep_batch = disable_on_error(self._keep_batch_of_window, "keeping the batch")
        self._watch = RuntimeMetrics(model, clock, self._controller)

    def detach(self) -> None:
        """Listen no more; an iterator that outlives the block goes on without us."""
        self._detached = True
        self._watch.close()
        self._window = Window()
        self.order = self.memory = None
        del self._watch

    # -- the loader -------------------------------------------------------------------------------

    def before_batch(self) -> None:
        """A boundary, if an optimizer step was made since the last one, or before the first."""
        if self._detached:
            return
        if self.memory is not None and self._is_first_of_pass() and self._grad_enabled():
            self.memory.pass_begins()
        if self._stepped:
            self._end_step(inside=True)
        elif not self._entered:
            self._entered = True
            self._tell_learning_rate()
            self._go_on(self._controller.boundary.enter())
        elif self._stopped:
            self._go_on(going=False)
        if self._window.count == 0 and self._grad_enabled() and not self._repeating():
            self._watch.step_begins()

    def _is_first_of_pass(self) -> bool:
        """Whether another pass has begun since this was asked."""
        before, self._passes = self._passes, self.order.passes if self.order is not None else 0
        return self._passes != before

    def _repeating(self) -> bool:
        return self.memory is not None and self.memory.repeating

    def after_batch(self, batch: Any, ids: Sequence[Any] | None) -> None:
        """A micro-batch of the step in progress; one drawn without gradients is none of it."""
        if self._detached or not self._grad_enabled():
            return
        window = self._window
        if window.count == 0:
            self.book.batch_began()
        window.add(batch, ids if type(ids) is IntIds else _numbers(ids))

    def pass_ended(self) -> None:
        """The loader is exhausted."""
        if not self._detached:
            self.book.pass_ended(self._run.step)

    # -- optimizer and loss -----------------------------------------------------------------------

    def before_step(self) -> None:
        """Take norms while the gradients are there, if a breakpoint or a look asks for them."""
        watch = self._watch
        if watch.measuring or watch.wants_norm:
            watch.before_step()

    def after_step(self) -> None:
        """The clock ticked."""
        self._stepped = True
        if self._watch.measuring:
            self._watch.after_step()

    def loss_known(self, arguments: Sequence[Any], output: Any) -> None:
        """The loss module ran; it counts in training, before the step."""
        if self._window.count and not self._stepped and self._grad_enabled():
            self._window.note_loss(output)
            if self._watch.measuring and len(arguments) == 2:
                self._watch.outputs(*arguments)

    # -- what the user calls ----------------------------------------------------------------------

    def log(self, scalars: Mapping[str, Any]) -> None:
        """Scalars of the step in progress, or, between steps, of what is finished."""
        if self._repeating():
            return
        owned = as_scalars(scalars)
        if self._window.count:
            self._window.scalars.update(owned)
            self._logged.update(owned)
        else:
            self._run.log_finished(**owned)
            self.book.note(owned)

    def epochs(self, n: int) -> Iterator[int]:
        """Epochs up to n - 1; each is closed, with a record, when the next is asked for."""
        resuming = self.memory is not None and self.memory.resuming
        first = 0 if self.memory is None else self.memory.first_epoch()
        for epoch in range(first, n):
            self._tell_epoch(epoch)
            resumed, resuming = resuming, False
            self.book.begin(epoch, n, self.book.first_step if resumed else self._run.step)
            yield epoch
            self._end_epoch(epoch)

    def _end_epoch(self, epoch: int) -> None:
        """The loop asks for the next epoch: whatever belongs to this one has been done."""
        if self.order is not None:
            self.order.commit()
            self.order.set_epoch(epoch + 1)
        if self._stepped:  # the loop broke off before the loader's next batch
            self._end_step(inside=False)
        self.book.end(self._run.step)
        if self.memory is not None:
            self.memory.epoch_ended()

    def _tell_epoch(self, epoch: int) -> None:
        if self.order is not None:
            self.order.set_epoch(epoch)

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
                self._end_step(inside=False)
        except StopTraining:
            self._run.finish("stopped")
        else:
            if self.memory is not None:
                self.memory.ended("finished")
            self._run.finish()

    def _keep_open_window(self) -> None:
        """What was logged in a step that never ended is evidence; write it down."""
        if self._window.scalars:
            self._run.facts.log_values(self._run.step + 1, self._window.scalars)

    def _keep_batch_of_window(self, window: Window) -> None:
        """The batch that the failing step was given: there to be looked at if the run parks."""
        if window.batches:
            batch = join(window.batches)
            self._controller.captures.hold_failed_batch(
                batch,
                window.loss(),
                labels=labels_of(batch),
                sample_ids=window.ids,
                losses=window.losses(),
            )

    # -- the boundary -----------------------------------------------------------------------------

    def _end_step(self, *, inside: bool) -> None:
        """Hand the closed window to the controller, and stand there if so asked."""
        window, self._window, self._stepped = self._window, Window(), False
        self._entered = True
        if self.order is not None:
            self.order.commit()
        if self._repeating():
            self._end_repeated(window)
            return
        self._report(window)
        if self.memory is not None:
            self.memory.boundary(inside=inside)
        self._go_on(self._controller.wait_if_paused())

    def _end_repeated(self, window: Window) -> None:
        """A step that was made before: only the last of them meets the controller, and stands."""
        self.book.step_ended(window.loss(), micro_batches=window.count, samples=0)
        if self.memory is not None and self.memory.step_repeated():
            self._keep_batch(window)
            self._go_on(self._controller.wait_if_paused())

    def _report_window(self, window: Window) -> None:
        """Everything the boundary shows or weighs: rate, scalars, loss, batch."""
        loss = window.loss()
        samples = len(window.ids) if window.ids is not None else 0
        self.book.step_ended(loss, micro_batches=window.count, samples=samples)
        scalars = self._measured(samples)
        if scalars.get("lr") != self._learning_rate:
            self._tell_learning_rate()
        scalars.update(window.scalars)
        self._controller.boundary.log(scalars)
        if window.batches:
            self._capture(window, loss)

    def _measured(self, samples: int) -> dict[str, Any]:
        """Runtime metrics of this step; what arrives late goes to the facts under its own."""
        watch, step = self._watch, self._controller.boundary.finished_steps + 1
        found = {} if watch.is_untimed else watch.step_ended(step=step, samples=samples)
        for at, scalars in watch.arrived() if watch.in_transfer else ():
            ours = {name: value for name, value in scalars.items() if name not in self._logged}
            if at == step:
                found.update(ours)
            else:
                self._run.facts.log_values(at, ours)
        return found

    def _capture(self, window: Window, loss: Any) -> None:
        """Hand over the batch; only if somebody might look is it joined and its labels found."""
        control = self._controller
        if not control.captures.is_observed:
            control.capture_batch(window.batches[0], loss, sample_ids=window.ids)
            return
        batch = join(window.batches)
        control.capture_batch(
            batch, loss, labels=labels_of(batch), sample_ids=window.ids, losses=window.losses()
        )

    def _go_on(self, going: bool) -> None:
        if not going:
            if self.memory is not None and not self._stopped:
                self.memory.ended("stopped")
            self._stopped = True
            raise StopTraining(f"stopped after {self._run.step} steps")

    def _tell_learning_rate(self) -> None:
        """Describe the first group's rate when it changed; a tensor on a device is left alone."""
        rate = self._watch.rate()
        if rate is not None and rate != self._learning_rate:
            self._learning_rate = rate
            self._controller.status.describe(lr=rate)


def _numbers(ids: Sequence[Any] | None) -> Sequence[int] | None:
    """Ids that are integers, else None: names and pairs cannot be broken at or looked up."""
    if ids is None or isinstance(ids, range) or set(map(type, ids)) <= {int}:
        return ids
    return None
