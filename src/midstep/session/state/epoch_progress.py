"""Counters of the running epoch, the position in the data, and the time an epoch took."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import as_float
from midstep.core.errors import FormatError

if TYPE_CHECKING:
    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.data.order.step_order import StepOrder
    from midstep.data.random_state import RandomState


@dataclass
class EpochProgress:
    """Sums over the running epoch, and the best validation loss so far. Part of every snapshot.

    >>> progress = EpochProgress()
    >>> progress.step_finished(2.0, batches=1)
    >>> progress.train_loss
    2.0
    """

    first_step: int = 0
    """Steps that were finished when this epoch began."""
    batches: int = 0
    """Batches of this epoch that were trained on."""
    loss_sum: Any = 0.0
    """Over the steps of this epoch that were not skipped; a tensor if the loss is on a device."""
    loss_count: int = 0
    skipped: int = 0
    """Steps of this epoch that were skipped."""
    best_val_loss: float | None = None

    @property
    def train_loss(self) -> float | None:
        """Mean loss of this epoch so far. A sum on a device is waited for, so ask once an epoch."""
        total = as_float(self.loss_sum)
        return total / self.loss_count if total is not None and self.loss_count else None

    def step_finished(self, loss: Any, *, batches: int, skipped: bool = False) -> None:
        """Add a step. A loss that is neither a number nor a scalar tensor is left out."""
        self.batches += batches
        if skipped:
            self.skipped += 1
        elif type(loss) is float:  # nearly always, so it is tested first
            self.loss_sum += loss
            self.loss_count += 1
        elif isinstance(loss, int | float) or getattr(loss, "ndim", None) == 0:
            # In double precision: a sum of bfloat16 losses would stop growing within an epoch.
            self.loss_sum = self.loss_sum + (loss.double() if hasattr(loss, "double") else loss)
            self.loss_count += 1

    def batches_of_step(self, step: int) -> int:
        """Batches that a step took, by those of this epoch up to `step`, rounded up."""
        return -(-self.batches // max(1, step - self.first_step))

    def is_best(self, validation: Mapping[str, float] | None) -> bool:
        """Whether this validation loss is below all earlier ones; it is remembered if so."""
        if validation is None or not math.isfinite(validation["loss"]):
            return False
        if self.best_val_loss is not None and validation["loss"] >= self.best_val_loss:
            return False
        self.best_val_loss = validation["loss"]
        return True

    def begin_epoch(self, step: int) -> None:
        """Start the sums of an epoch that begins after `step` finished steps."""
        self.first_step = step
        self.batches = self.loss_count = self.skipped = 0
        self.loss_sum = 0.0

    def state_dict(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the fields that `state` has; older checkpoints hold only some of them."""
        for name, value in state.items():
            setattr(self, name, value)


class DataPosition:
    """The position in the data as a part of a snapshot.

    `load_state_dict` only remembers the position. `seek` moves the loader there, after all
    generators are restored: the user's own order is repeated from the random state at the start of
    the epoch.
    """

    def __init__(self, order: OrderedLoader | StepOrder) -> None:
        self._order = order
        self._loaded: Mapping[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Epoch, cursor, and what the order policy needs."""
        return self._order.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Remember the position for `seek`."""
        self._loaded = state

    def seek(self, epoch_random: RandomState | None) -> None:
        """Move the loader to the position that was loaded last."""
        if self._loaded is None:
            raise FormatError(
                "the snapshot has no position in the data; no session and no attached loop took it"
            )
        self._order.load_random_state(epoch_random)
        self._order.load_state_dict(self._loaded)
        self._loaded = None


class EpochMeter:
    """Measures the time and the throughput of an epoch.

    >>> now = iter([0.0, 2.0])
    >>> meter = EpochMeter(clock=lambda: next(now))
    >>> meter.add(100)
    >>> meter.end()["throughput"]
    50.0
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._samples = 0

    def begin(self) -> None:
        """Start an epoch."""
        self._began, self._samples = self._clock(), 0

    def add(self, samples: int) -> None:
        """Count samples that were trained on."""
        self._samples += samples

    def end(self) -> dict[str, float | None]:
        """Seconds since `begin`, pauses included; samples per second; peak memory so far."""
        took_s = self._clock() - self._began
        known = self._samples > 0 and took_s > 0
        return {
            "epoch_time_s": took_s,
            "throughput": self._samples / took_s if known else None,
            "max_memory_mib": _peak_memory_mib(),
        }


def _peak_memory_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts kibibytes here, macOS bytes.
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)
