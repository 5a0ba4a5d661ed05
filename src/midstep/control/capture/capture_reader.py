"""`CaptureReader`: gives what was captured to other threads than the training thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import CapturedBatch, CapturedSamples, StepData
from midstep.control.capture.subscriptions import Need

if TYPE_CHECKING:
    from midstep.control.capture.captures import Captures
    from midstep.control.control_state import ControlState

FIRST_ANSWER_S = 2.0
"""How long the first request for something waits for the step that captures it."""
MAX_WAITING_READERS = 8
"""Further ones are answered at once: each holds a thread of the server, which has 40."""
_BATCH_FIELDS = ("step", "batch", "loss", "labels", "losses", "sample_ids")


class CaptureReader:
    """Reads the newest captures, and notes what was read, so that it is captured again.

    No lock is needed to read: each capture is built completely and then published by one
    assignment, and a published capture is never changed.

    Args:
        captures: what is read.
        state: of the same controller.
    """

    def __init__(self, captures: Captures, state: ControlState) -> None:
        self._captures, self._state = captures, state
        self._waiting_readers = 0

    def batch(self) -> dict[str, Any] | None:
        """The last batch captured whole, with loss, step, labels and ids; None before the first."""
        batch = self._captures.cloned_batch
        if batch is None:
            return None
        self._captures.subscriptions.note_read(Need(kind="batch"))
        fields = vars(batch.arrived())
        return {name: fields[name] for name in _BATCH_FIELDS}

    def read_samples(
        self, first: int, count: int | None, *, patience_s: float = FIRST_ANSWER_S
    ) -> CapturedBatch | CapturedSamples | None:
        """The newest capture with these samples; the first call waits for the step in progress.

        Args:
            first: the first sample.
            count: how many; None for the whole batch at full resolution.
            patience_s: how long the first call waits.
        """
        need = Need(kind="batch", first=0 if count is None else first, count=count)
        before = self.newest_with(need)

        def is_there() -> bool:
            newest = self.newest_with(need)
            return newest is not None and newest is not before and not newest.is_late

        if self._captures.subscriptions.read(need):
            self._wait_for_step(is_there, patience_s)
        return self.newest_with(need)

    def newest_with(self, need: Need) -> CapturedBatch | CapturedSamples | None:
        """The newest capture that holds the samples of a need; None if there is none."""
        if need.count is None:
            return self._captures.cloned_batch
        recent = self._captures.recent
        return next((each for each in recent if each.holds(need.first, need.count or 0)), None)

    def with_etag(self, etag: str) -> CapturedBatch | CapturedSamples | None:
        """The capture of this name; None if it is no longer held."""
        return next((each for each in self._captures.recent if each.etag == etag), None)

    def read_step_data(
        self, key: str | None = None, *, patience_s: float = FIRST_ANSWER_S
    ) -> StepData:
        """The newest step data; the first call waits for a step that captures the key.

        Args:
            key: which entry is read; None for the list of keys.
            patience_s: how long the first call waits.
        """
        before = self._captures.data.published
        if self._captures.subscriptions.read(Need(kind="step_data", key=key)):
            self._wait_for_step(lambda: self._is_newer(before, key), patience_s)
        return self._captures.data.published.arrived()

    def shown(self) -> StepData:
        """The newest step data of each key, which the page shows."""
        self._captures.subscriptions.note_read(Need(kind="step_data"))
        return self._captures.data.published.arrived()

    def _is_newer(self, before: StepData, key: str | None) -> bool:
        now = self._captures.data.published
        if key is None:
            return now.etag != before.etag
        return now.etag_of(key) != before.etag_of(key)

    def _wait_for_step(self, is_there: Callable[[], bool], patience_s: float) -> None:
        """Wait until a running loop has captured what a reader needs, or time is over."""
        state, until = self._state, time.monotonic() + patience_s
        with state.lock:
            if self._waiting_readers >= MAX_WAITING_READERS:
                return
            self._waiting_readers += 1
            try:
                while not (state.is_parked or state.end or is_there()):
                    left_s = until - time.monotonic()
                    # Before the first step a run may still load its data for a long time.
                    if left_s <= 0 or not (state.has_started or state.step_index):
                        return
                    state.changed.wait(min(left_s, 0.1))
            finally:
                self._waiting_readers -= 1
