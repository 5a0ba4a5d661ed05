"""A run of this process, read from its controller."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from midstep.control import (
    Breakpoint,
    CapturedBatch,
    CommandRecord,
    DebugController,
    StepData,
    Viewer,
)
from midstep.control.capture.captured_data import CapturedSamples
from midstep.control.capture.notices import CaptureNotice, CaptureNotices
from midstep.control.capture.subscriptions import Subscriptions
from midstep.control.capture.weight_changes import WeightChange
from midstep.control.watches.watches import TrackedRows
from midstep.server.runs.kept_step import KeptStep, KeptStops, newest_step, read_stops
from midstep.server.runs.run_view import ENDED, RunView

if TYPE_CHECKING:
    from midstep.session import Run

NOT_RESPONDING_S = 10.0
"""A run that should train but reaches no step boundary for this long is shown as not responding."""

MOST_ROWS = 16_384
"""Rows of scalars that the process of a training keeps for its page: about 2 MB. Without a limit a
training of ten million steps would keep more than a gigabyte of them."""


class LiveRunView(RunView):
    """A run of this process, read from its controller.

    Args:
        run: the run.
    """

    most_rows = MOST_ROWS

    def __init__(self, run: Run) -> None:
        super().__init__(run.run_id, run.name, run.dir, run.started_at, run.facts.attempt)
        self._controller, self._facts = run.controller, run.facts
        self.last_stop = run.controller.status
        self.kept = KeptStops(run.dir, self._kept_last)
        self._notices = CaptureNotices(run.controller)
        self._kept_end: KeptStep | None = None

    @property
    def timeline(self) -> int:
        """How often the run went back to an earlier step."""
        return self._facts.timeline

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        return self._facts.seq

    @property
    def is_live(self) -> bool:
        """Whether the run has not ended."""
        return self._controller.status.state_name not in ENDED

    @property
    def paused_at(self) -> int | None:
        """Finished steps of a run that is paused; None while it moves, and after its end."""
        controller = self._controller
        return controller.boundary.finished_steps if controller.is_parked else None

    def _read_state(self) -> dict[str, Any]:
        """The controller's state; "not responding" after 10 s without a step boundary."""
        state = self._controller.get_state()
        is_training = state["state"] in ("running", "stepping", "pausing")
        # A phase that the loop declared between boundaries, such as a validation, may take longer.
        status = self._controller.status
        in_phase = status.phase is not None and not status.is_overdue
        if is_training and not in_phase and state["boundary_age_s"] >= NOT_RESPONDING_S:
            state["state"] = "not responding"
        kept = self._kept_last() if state["state"] in ENDED else None
        return state if kept is None else {**state, **kept.state_fields()}

    def _kept_last(self) -> KeptStep | None:
        """What was kept of the end, once the loop has left: its captures are of earlier steps."""
        if self.is_live or self._controller.is_parked:
            return None
        if self._kept_end is None:
            ends = [stop for stop in read_stops(self.dir) if stop.name.is_end]
            ends = [stop for stop in ends if stop.manifest.get("attempt") == self.attempt]
            self._kept_end = newest_step(ends, self.timeline, ())
        return self._kept_end

    def captured_batch(
        self, first: int, count: int | None
    ) -> CapturedBatch | CapturedSamples | None:
        """The newest capture with these samples; the first call waits up to 2 s for a step."""
        return self._controller.captures.reader.read_samples(first, count)

    def capture_named(self, etag: str) -> CapturedBatch | CapturedSamples | None:
        """The capture of a batch with this etag; None if it is not held."""
        return self._controller.captures.reader.with_etag(etag)

    def step_data(self, key: str | None = None) -> StepData:
        """The newest step data; the first call for a key waits up to 2 s for a step."""
        return self._controller.captures.reader.read_step_data(key)

    def weight_names(self) -> list[str]:
        """Tensors whose change by a step can be read, the default one first."""
        return self._controller.weight_changes.sources

    def weight_change(self, tensor: str | None, *, whole: bool = True) -> WeightChange:
        """One tensor before and after the last shown step. Waits up to 2 s for a step."""
        return self._controller.weight_changes.get(tensor, whole=whole)

    def rewind(self) -> dict[str, Any]:
        """The fields of `RewindOut`: how far back the run can go."""
        return self._controller.status.get_rewind()

    def breakpoints(self) -> list[Breakpoint]:
        """All breakpoints by id."""
        return self._controller.list_breakpoints()

    def watches(self) -> dict[str, Any]:
        """The fields of `WatchOut`: which rows are watched, and which could be."""
        watches = self._controller.watches
        source, others = watches.source, dict(watches.watched_by_source())
        return {
            "source": source,
            "feature_ids": others.pop(source or "", []),
            "others": others,
            "sources": watches.sources,
        }

    def trajectories(self, *, points: int, in_all: int) -> list[TrackedRows]:
        """Copies of the points of all watched rows; the tensor chosen last comes first."""
        return self._controller.watches.copy(points=points, in_all=in_all)

    def commands(self, limit: int) -> list[CommandRecord]:
        """The last commands, newest last."""
        return self._controller.queue.latest(limit=limit)

    def command(self, command_id: str) -> CommandRecord | None:
        """The record of a command, among the last 10,000."""
        return self._controller.queue.find(command_id)

    def command_names(self) -> list[str]:
        """Names of the commands that the run accepts, sorted."""
        return sorted(self._controller.queue.registry)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at every change, from any thread. The result unsubscribes it."""
        return self._controller.sinks.subscribe(callback)

    def viewer(self) -> AbstractContextManager[Viewer | None]:
        """Count one more viewer inside the block."""
        return self._controller.captures.viewer()

    def subscriptions(self) -> Subscriptions | None:
        """What is in view of this run."""
        return self._controller.captures.subscriptions

    def capture_notices(self, stream: str) -> list[CaptureNotice]:
        """The captures of a stream that can be read now."""
        return self._notices.list_notices(stream)

    def control(self) -> DebugController:
        """The controller of the run. A run of this process never refuses here."""
        return self._controller
