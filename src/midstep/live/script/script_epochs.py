"""`ScriptEpochs`: epochs of a script, as far as its DataLoaders show them."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import as_float
from midstep.live.loop.epoch_loop import BETWEEN_EPOCHS
from midstep.session.state.epoch_progress import EpochProgress
from midstep.session.step_report import fold_names

if TYPE_CHECKING:
    from midstep.session import Run
    from midstep.session.step_report import StepReporter


class ScriptEpochs:
    """Records an epoch for each pass over a DataLoader in which steps were made.

    It is recorded when the next one begins, so that a validation in between belongs to it.

    Args:
        run: receives the records.
        reporter: of its steps.
    """

    def __init__(self, run: Run, reporter: StepReporter) -> None:
        self._run, self._reporter = run, reporter
        self._progress = EpochProgress()
        self._passes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._metrics: dict[str, Any] = {}
        self._cost: Mapping[str, Any] | None = None  # of an epoch that is not recorded yet
        self.number = 0
        """The epoch in progress, counted from 0."""

    def batch_given(self, iterator: Any) -> None:
        """A DataLoader gave a batch; `iterator` is one pass over it."""
        if iterator not in self._passes:
            self._passes[iterator] = self._run.step
            if self._cost is not None:
                self._record()

    def pass_ended(self, iterator: Any) -> None:
        """A pass is over; one without a step, such as a validation, is not an epoch."""
        # The pass of the first step began before there was a run.
        began = self._passes.pop(iterator, self._progress.first_step)
        if self._run.step > began and self._cost is None:
            self._cost = self._reporter.epoch_cost()
            self._run.controller.status.describe(phase=BETWEEN_EPOCHS)

    def step_finished(self, loss: Any, batches: int) -> None:
        """Add a step to the epoch in progress."""
        if self._cost is not None:  # the script trains on without a DataLoader
            self._record()
        self._progress.step_finished(loss, batches=batches)

    def add_metrics(self, values: Mapping[str, Any]) -> None:
        """The script logged these; after a pass they describe its epoch."""
        if self._cost is not None:
            self._metrics.update(fold_names(values))

    def training_began(self, reporter: StepReporter) -> None:
        """Another training begins in the same script."""
        self.close()
        self._reporter = reporter
        reporter.epoch_began()

    def close(self) -> None:
        """Record the epoch that waits for the next one."""
        if self._cost is not None:
            self._record()

    def _record(self) -> None:
        metrics, self._metrics = self._metrics, {}
        cost, self._cost = self._cost or {}, None
        self._reporter.epoch_ended(
            epoch=self.number,
            step=self._run.step,
            train_loss=self._progress.train_loss,
            val_loss=as_float(metrics.pop("val_loss", None)),
            metrics={name: as_float(value) for name, value in metrics.items()},
            cost=cost,
        )
        self.number += 1
        self._progress.begin_epoch(self._run.step)
        self._run.controller.status.describe(epoch=self.number, phase=None)
