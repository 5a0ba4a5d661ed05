"""`EpochLoop`: the epochs of an attached loop, declared by `run.epochs` or seen by its passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import as_float
from midstep.session.state.epoch_progress import EpochProgress

if TYPE_CHECKING:
    from midstep.control import DebugController
    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.data.order.step_order import StepOrder
    from midstep.session.step_report import StepReporter

BETWEEN_EPOCHS = "the work between two epochs"


class EpochLoop:
    """Counts and records epochs. Runs on the training thread.

    Args:
        controller: shows epoch and totals.
        reporter: records epochs.
        order: of the loader; None if it has none.
        batches: in a pass over the loader; None if unknown.
        total_steps: of the training, if the user knows it.
    """

    def __init__(
        self,
        controller: DebugController,
        reporter: StepReporter,
        order: OrderedLoader | StepOrder | None,
        batches: int | None,
        total_steps: int | None,
    ) -> None:
        self._controller, self._reporter, self._order = controller, reporter, order
        self._boundary = controller.boundary
        self._batches, self._knows_total = batches, total_steps is not None
        self._steps: int | None = None
        self.needs_batches = batches is not None
        """Whether the total follows from how many batches the first step takes."""
        self.progress = EpochProgress()
        """Counters of the running epoch."""
        self.number = 0
        """The running epoch."""
        self.total: int | None = None
        """How many there will be; None unless `run.epochs` said so."""
        self._metrics: dict[str, Any] = {}
        self.is_between = True
        """Whether no batch of the running epoch came yet."""
        if total_steps is not None:
            controller.status.describe(total_steps=total_steps)

    def iterate(
        self, first: int, n: int, end: Callable[[int], object], *, is_resumed: bool
    ) -> Iterator[int]:
        """Epochs from `first` up to `n - 1`; `end` is called when the next one is requested."""
        for epoch in range(first, n):
            if self._order is not None:
                self._order.set_epoch(epoch)
            self.number, self.total = epoch, n
            if not is_resumed:  # a resumed epoch began at a step before the checkpoint
                self.progress.first_step = self._boundary.finished_steps
            is_resumed = False
            self._reporter.epoch_began()
            self._controller.status.describe(epoch=epoch, total_epochs=n, phase=None)
            self._describe_total()
            yield epoch
            end(epoch)

    def batch_came(self) -> None:
        """The first batch of an epoch came."""
        self.is_between = False
        self._controller.status.describe(epoch=self.number, phase=None)

    def pass_ended(self) -> None:
        """The loader is exhausted after at least one step."""
        self.is_between = True
        self._controller.status.describe(phase=BETWEEN_EPOCHS)
        if self.total is None:
            self.record()

    def set_batches_per_step(self, batches: int) -> None:
        """Note how many batches the first step took; the others are expected to take as many."""
        self.needs_batches = False
        if self._steps is None and self._batches is not None:
            self._steps = math.ceil(self._batches / max(1, batches))
            self._describe_total()
            self._expect_end()

    def _expect_end(self) -> None:
        """Without a known total, the training may end with any pass."""
        if self.total is None and not self._knows_total and self._steps is not None:
            self._controller.captures.last_step = self.progress.first_step + self._steps

    def usual_batches(self, step: int) -> int:
        """Micro-batches of a step, by those of this epoch up to `step`.

        Not up to the boundary's count: it does not count a repeated step.
        """
        return self.progress.batches_of_step(step)

    def add_metrics(self, values: Mapping[str, Any]) -> None:
        """Add values that were logged between two steps to the epoch that has ended."""
        self._metrics.update(values)

    def record(self) -> None:
        """Record the running epoch; the next one begins."""
        metrics, self._metrics = self._metrics, {}
        step, progress = self._boundary.finished_steps, self.progress
        self._reporter.epoch_ended(
            epoch=self.number,
            step=step,
            train_loss=progress.train_loss,
            val_loss=as_float(metrics.pop("val_loss", None)),
            metrics={name: as_float(value) for name, value in metrics.items()},
            cost=self._reporter.epoch_cost(),
        )
        if step > progress.first_step:
            self._steps = step - progress.first_step
        progress.begin_epoch(step)
        self.number += 1
        self._expect_end()

    def _describe_total(self) -> None:
        per_epoch = self._steps or self._batches
        if self.total is not None and per_epoch is not None and not self._knows_total:
            left = (self.total - self.number) * per_epoch
            self._controller.status.describe(total_steps=self.progress.first_step + left)
