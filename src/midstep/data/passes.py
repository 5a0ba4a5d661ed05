"""Passes over a loader and the epochs they belong to."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from midstep.data.courses import Course, Setting, Source

__all__ = ["BatchListener", "OrderedPass", "Passes"]


class BatchListener(Protocol):
    """Who is told what the loop does with the loader; all calls come from the training thread."""

    def before_batch(self) -> None:
        """The loop asks for its next batch; the step before is over."""
        ...

    def after_batch(self, batch: Any, ids: Sequence[Any] | None) -> None:
        """The loop is given a batch."""
        ...

    def pass_ended(self) -> None:
        """The loader has no further batch."""
        ...


class Passes:
    """Which pass runs, whether it had begun before, and which epoch the next one belongs to.

    An epoch is what `tell_epoch` says. Without it, each pass that was trained on, or came to its
    end, is one.
    """

    def __init__(self, setting: Setting, course: Course, listener: BatchListener | None) -> None:
        self._setting, self._course, self.listener = setting, course, listener
        self._running: weakref.ref[OrderedPass] | None = None
        self._begun = self._again = self._exhausted = self._told = False
        self._first_cursor = 0
        self.started = 0
        """How many passes were begun so far."""

    @property
    def begun(self) -> bool:
        """Whether the present epoch's pass has begun, here or in a process that ended."""
        return self._begun or self._again

    def start(self) -> OrderedPass:
        """What `iter(loader)` gives while the loader is changed."""
        self.started += 1
        if self._begun:
            self._follow()
        again, self._again = self._again, False
        self._begun, self._exhausted = True, False
        self._first_cursor = self._setting.trained.cursor
        running = OrderedPass(self, self._course.open(again=again))
        self._running = weakref.ref(running)
        return running

    def tell_epoch(self, epoch: int) -> None:
        """The next pass belongs to `epoch`; naming the present one changes nothing."""
        self._told = True
        if epoch != self._setting.trained.epoch:
            self.begin_epoch(epoch)

    def begin_epoch(self, epoch: int) -> None:
        """Stand at the first sample of `epoch`."""
        self._setting.trained.place(epoch)
        self._course.begin_epoch()
        self._begun = self._again = False

    def go_on(self, *, again: bool) -> None:
        """From the place just set: at once in a running pass, else with the next one."""
        self._first_cursor, self._exhausted = self._setting.trained.cursor, False
        running = self._running() if self._running is not None else None
        self._begun, self._again = running is not None, again and running is None
        if running is not None:
            running.read_from(None)  # workers that do not live on end before others are made
            running.read_from(self._course.open(again=again))

    def goes_on(self, running: OrderedPass) -> None:
        """A pass asks for its next batch; one beside a later pass leaves the place unknown."""
        if self._running is None or self._running() is not running:
            self._setting.inexact(
                "a pass goes on after another one has begun; end the first before the second, or "
                "use a loader of its own for the second"
            )

    def gave(self, batch: Any, ids: Sequence[Any], settle: Any) -> None:
        """The loop is given a batch."""
        self._setting.trained.hand_out(ids, settle)
        if self.listener is not None:
            self.listener.after_batch(batch, ids)

    def ended(self) -> None:
        """The running pass is over."""
        self._exhausted, self._running = True, None
        if not self._setting.trained.pending:
            self._setting.trained.commit()  # what came after the last batch: streams at their end
        if self.listener is not None:
            self.listener.pass_ended()

    def _follow(self) -> None:
        """A pass follows another; one given up before anything was trained on is no epoch."""
        trained = self._setting.trained
        is_untouched = not self._exhausted and trained.cursor == self._first_cursor
        if is_untouched and (trained.cursor or not self._told):
            trained.place(trained.epoch, trained.cursor, trained.checksum)
            self._again = trained.cursor > 0  # a look at the batch behind a resume moves nothing
        else:
            self.begin_epoch(trained.epoch + (not self._told))


class OrderedPass:
    """One pass, batch by batch; what it reads from may be replaced between two batches."""

    def __init__(self, passes: Passes, source: Source) -> None:
        self._passes, self._source = passes, source
        self._over = False

    def __iter__(self) -> OrderedPass:
        return self

    def __len__(self) -> int:
        return len(self._source.inner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source.inner, name)

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        passes = self._passes
        passes.goes_on(self)
        listener = passes.listener
        if listener is not None:
            listener.before_batch()  # may park, and replace what we read from
        try:
            batch, ids, settle = self._source.__next__()
        except StopIteration:
            self._over = True
            passes.ended()
            raise
        passes.gave(batch, ids, settle)
        return batch

    def read_from(self, source: Source | None) -> None:
        """Go on with the batches of `source`; None lets go of the present one."""
        self._source = source or Source(iter(()), lambda _batch: None)
