"""Counters that move with the steps, and the place in the data: parts of every snapshot."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from midstep.core.errors import FormatError

if TYPE_CHECKING:
    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.data.random_state import RandomState


@dataclass
class Progress:
    """What an epoch has come to so far, and the best validation of all.

    >>> progress = Progress()
    >>> progress.step_ended(2.0, batches=1, skipped=False)
    >>> progress.train_loss
    2.0
    """

    batches: int = 0
    """Of this epoch that were trained on."""
    loss_sum: float = 0.0
    """Over this epoch's steps that were not skipped."""
    loss_count: int = 0
    skipped: int = 0
    """Steps of this epoch that were skipped."""
    best_val_loss: float | None = None

    @property
    def train_loss(self) -> float | None:
        """Mean loss of this epoch so far."""
        return self.loss_sum / self.loss_count if self.loss_count else None

    def step_ended(self, loss: float, *, batches: int, skipped: bool) -> None:
        """A step is done."""
        self.batches += batches
        if skipped:
            self.skipped += 1
        else:
            self.loss_sum, self.loss_count = self.loss_sum + loss, self.loss_count + 1

    def is_best(self, validation: Mapping[str, float] | None) -> bool:
        """Whether this validation beats all before; it is remembered if so."""
        if validation is None or not math.isfinite(validation["loss"]):
            return False
        if self.best_val_loss is not None and validation["loss"] >= self.best_val_loss:
            return False
        self.best_val_loss = validation["loss"]
        return True

    def epoch_ended(self) -> None:
        """Another epoch begins."""
        self.batches = self.loss_count = self.skipped = 0
        self.loss_sum = 0.0

    def state_dict(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        for name, value in state.items():
            setattr(self, name, value)


class DataPosition:
    """The place in the data as a part of a snapshot.

    It is gone to only once all generators are put back, since an order of the user's own is found
    again by going back to how the epoch began.
    """

    def __init__(self, order: OrderedLoader) -> None:
        self._order = order
        self._loaded: Mapping[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Epoch, cursor, and what the policy needs."""
        return self._order.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Remember where to go."""
        self._loaded = state

    def go(self, epoch_random: RandomState | None) -> None:
        """Go to the place that was loaded last."""
        if self._loaded is None:
            raise FormatError("the snapshot has no place in the data; was it taken by a session?")
        self._order.load_random_state(epoch_random)
        self._order.load_state_dict(self._loaded)
        self._loaded = None


class EpochMeter:
    """Counts the samples of an epoch and tells, at its end, what it cost.

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
        """An epoch begins."""
        self._began, self._samples = self._clock(), 0

    def add(self, samples: int) -> None:
        """So many samples were trained on."""
        self._samples += samples

    def end(self) -> dict[str, float | None]:
        """Seconds since it began, pauses included; samples a second; this process's peak so far."""
        took_s = self._clock() - self._began
        known = self._samples > 0 and took_s > 0
        return {
            "epoch_time_s": took_s,
            "throughput": self._samples / took_s if known else None,
            "max_memory_mib": _peak_memory_mib(),
        }


def _peak_memory_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)
