"""The progress of a composed run in the terminal: a line that is redrawn, or a line per epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from midstep.cli.output.status_line import Status
from midstep.cli.output.text_format import format_duration, format_number

if TYPE_CHECKING:
    from midstep.cli.output.screen import Screen
    from midstep.control import DebugController
    from midstep.session.fit.fit_loop import EpochRecord


class EpochLines:
    """Prints one line per epoch.

    Args:
        screen: the terminal.
        epochs: epochs in total; None if the run counts steps.
        clock: monotonic seconds.
    """

    def __init__(
        self, screen: Screen, epochs: int | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._screen, self._epochs, self._clock = screen, epochs, clock
        self._began = clock()
        self._first_epoch: int | None = None
        self.best: float | None = None
        """The lowest validation loss so far."""

    def epoch_ended(self, record: EpochRecord) -> None:
        """Print the line of an epoch."""
        if record.is_best:
            self.best = record.val_loss
        if self._first_epoch is None:  # a resumed run does not start at epoch 0
            self._first_epoch = record.epoch
        self._screen.print_line(self._format(record))

    def _format(self, record: EpochRecord) -> str:
        done = record.epoch + 1
        of = "" if self._epochs is None else f" of {self._epochs:,}"
        words = [f"epoch {done:,}{of}", f"step {record.step:,}"]
        losses = {"loss": record.train_loss, "val": record.val_loss, "best": self.best}
        words += [
            f"{name} {format_number(value)}" for name, value in losses.items() if value is not None
        ]
        if self._epochs is not None and self._first_epoch is not None and done < self._epochs:
            per_epoch_s = (self._clock() - self._began) / (done - self._first_epoch)
            words.append(f"{format_duration(per_epoch_s * (self._epochs - done))} left")
        return " · ".join(words)


@contextmanager
def shown_progress(
    controller: DebugController, screen: Screen, lines: EpochLines
) -> Iterator[None]:
    """Show a redrawn line with the state of the run while the block runs, if it is a terminal."""
    if not screen.is_terminal:
        yield
        return

    def read() -> Mapping[str, Any]:
        state = controller.get_state()
        return state if lines.best is None else {**state, "best_val_loss": lines.best}

    with Status(read, controller.sinks.subscribe, screen, keys=False, full=True):
        yield
