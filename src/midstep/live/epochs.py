"""The book of epochs: how far the run is, and the record at the end of each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from midstep.control.capture.capture_store import as_float
from midstep.core.moments import Moment
from midstep.session.state.epoch_progress import EpochMeter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from midstep.session import Run

__all__ = ["EpochProgress"]

BETWEEN = "the work between two epochs"


class EpochProgress:
    """Counts epochs and estimates the steps to come.

    An epoch is what `run.epochs` says; without it, one pass over the loader.
    """

    def __init__(self, run: Run, loader: Any) -> None:
        self._run = run
        self._epoch = 0
        self._total: int | None = None  # epochs that `run.epochs` was asked for
        self._first_step = 0  # steps finished when this epoch began
        self._steps_per_epoch = _length(loader)
        self._measured = False
        self._loss_sum: Any = 0.0  # a tensor where the loss lives on a device
        self._loss_count = 0
        self._metrics: dict[str, Any] = {}
        self._between = True
        self._meter = EpochMeter()

    def begin(self, epoch: int, total: int, step: int) -> None:
        """`run.epochs` begins an epoch."""
        self._epoch, self._total, self._first_step = epoch, total, step
        self._meter.begin()
        self._run.controller.status.describe(epoch=epoch, total_epochs=total, phase=None)
        self._tell_total_steps()

    @property
    def first_step(self) -> int:
        """Steps that were finished when this epoch began."""
        return self._first_step

    def state_dict(self) -> dict[str, Any]:
        """What an epoch has come to so far, for a snapshot."""
        return {
            "first_step": self._first_step,
            "loss_sum": self._loss_sum,
            "loss_count": self._loss_count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        self._first_step = int(state["first_step"])
        self._loss_sum, self._loss_count = state["loss_sum"], int(state["loss_count"])

    def batch_began(self) -> None:
        """A window opens: training goes on."""
        if self._between:
            self._between = False
            self._run.controller.status.describe(epoch=self._epoch, phase=None)

    def step_ended(self, loss: Any, *, micro_batches: int, samples: int) -> None:
        """A step is over: note its loss, and by the first one how many batches a step takes."""
        self._meter.add(samples)
        if type(loss) is float:  # nearly always
            self._loss_sum += loss
            self._loss_count += 1
        elif isinstance(loss, int | float) or getattr(loss, "ndim", None) == 0:
            loss = loss.double() if hasattr(loss, "double") else loss
            self._loss_sum, self._loss_count = self._loss_sum + loss, self._loss_count + 1
        if not self._measured and self._steps_per_epoch is not None:
            self._measured = True
            self._steps_per_epoch = math.ceil(self._steps_per_epoch / max(1, micro_batches))
            self._tell_total_steps()

    def note(self, scalars: Mapping[str, Any]) -> None:
        """Scalars logged between steps; they belong to the epoch that is being closed."""
        self._metrics.update(scalars)

    def pass_ended(self, step: int) -> None:
        """The loader is exhausted; a pass without a step, such as an evaluation, is no epoch."""
        if step == self._first_step:
            return
        self._between = True
        self._run.controller.status.describe(phase=BETWEEN)
        if self._total is None:
            self.end(step)

    def end(self, step: int) -> None:
        """Close the epoch with a record."""
        metrics, self._metrics = self._metrics, {}
        total = as_float(self._loss_sum)  # on a device this waits for it, once an epoch
        train_loss = total / self._loss_count if total is not None and self._loss_count else None
        self._loss_sum, self._loss_count = 0.0, 0
        self._run.event(
            Moment.EPOCH_END,
            epoch=self._epoch,
            step=step,
            split="train",
            train_loss=train_loss,
            val_loss=as_float(metrics.pop("val_loss", None)),
            metrics={name: as_float(value) for name, value in metrics.items()},
            **self._meter.end(),
        )
        self._meter.begin()
        if step > self._first_step:
            self._steps_per_epoch = step - self._first_step
        self._epoch, self._first_step = self._epoch + 1, step

    def _tell_total_steps(self) -> None:
        if self._total is not None and self._steps_per_epoch is not None:
            left = (self._total - self._epoch) * self._steps_per_epoch
            self._run.controller.status.describe(total_steps=self._first_step + left)


def _length(loader: Any) -> int | None:
    """Batches in a pass; None for a loader without a length, and no total is shown."""
    asked = getattr(loader, "_IterableDataset_len_called", None)
    try:
        return len(loader)
    except TypeError:
        return None
    finally:
        # A DataLoader remembers that it was asked, and would warn of a wrong length later on.
        if hasattr(loader, "_IterableDataset_len_called"):
            loader._IterableDataset_len_called = asked
