"""What the training thread and everybody else share: one lock, three flags, and the parts.

The flags are written under the lock and read without it, so that an unwatched loop pays
for two attribute tests a step.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal

from midstep.control.breakpoints.breakpoint import BreakpointList
from midstep.control.breakpoints.layer_report import LayerReport
from midstep.control.capture.capture_store import CaptureStore
from midstep.control.capture.loss_readout import LossReadout
from midstep.control.command_record import CommandRecord, Status
from midstep.control.command_table import CommandTable
from midstep.control.gate import Gate
from midstep.control.watches.watch_list import WatchList
from midstep.core.errors import ControlError
from midstep.core.moments import Moment
from midstep.core.protocols import Sink

log = logging.getLogger("midstep.control")
End = Literal["stopped", "finished", "failed", "killed", "lost", "out of reach"]


class ControlState:
    """The state of a controller. Every change happens under `lock`, unless said otherwise."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.command_table = CommandTable(clock, wall)
        self.gate = Gate()
        self.capture_store = CaptureStore(clock)
        self.watch_list = WatchList()
        self.breakpoint_list = BreakpointList()
        self.step_is_recorded = False
        """Does anybody want to know what this step was trained on."""
        self.boundary_has_work = False
        """Is there anything to do at the boundary."""
        self.is_observed = False
        """Is there more to do there than to tell the sinks: does anybody look, ask or wait."""
        self.has_requests = False
        """Is there more to do there than to let somebody look."""
        self.step_index = 0
        """Index of the step in progress; written by the training thread alone."""
        self.finished_steps = 0
        """Finished steps; written by the training thread alone."""
        self.boundaries = 0
        """Boundaries with anything to do so far; written by the training thread alone."""
        self.has_started = self.is_parked = False
        self.stop_commands: list[CommandRecord] = []
        self.end: End | None = None
        self.reason: str | None = None
        self.active_hold: tuple[str, Callable[[], bool]] | None = None
        self.completed_commands: list[CommandRecord] = []
        """Commands to be answered once their effect is there."""
        self.breakpoint_evidence: dict[str, Any] | None = None
        self.step_scalars: dict[str, Any] = {}
        """This step's; touched by the training thread alone."""
        self.scalars_outside_step: dict[str, Any] = {}
        """What was measured since the last boundary outside a step; the training thread's alone."""
        self.holds_weights = False
        """Whether clones of weights are held, to be dropped once nobody watches any more."""
        self.loss: Any = None
        """As the loop gave it; the training thread's, others ask `reading`."""
        self.loss_readout = LossReadout(clock)
        self.described_fields: dict[str, Any] = {}
        self.read_gradient_norm: Callable[[], Any] | None = None
        self.sinks: tuple[Sink, ...] = ()
        self.read_rewind: Callable[[], dict[str, Any]] | None = None
        """Tells how far back the training can be taken; any thread asks."""
        self.step_listeners: tuple[Callable[[], None], ...] = ()
        """Called by the training thread when a step begins."""
        self.layer_report: LayerReport | None = None
        """What was measured inside the model in this step; the training thread's alone."""
        self.viewer_count = 0
        self.subscribers: tuple[Callable[[], None], ...] = ()

    def renew_locks(self) -> None:
        """In a forked child: a lock may be held by a thread that is not there any more."""
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)

    @property
    def pause_requested(self) -> bool:
        """Whether a pause is asked for, by anybody or by a fault."""
        return self.command_table.intended_mode == "pause" or self.active_hold is not None

    @property
    def wants_data(self) -> bool:
        """Whether this step could be the one that the loop parks at with somebody there."""
        return bool(
            self.capture_store.clones_step
            or self.viewer_count
            or self.watch_list.active
            or self.breakpoint_list.may_stop(self.step_index + 1)
        )

    def refresh_flags(self) -> None:
        """Under the lock, after each change: is there anything to capture, anything to do."""
        followed = bool(
            self.breakpoint_list.armed
            or self.watch_list.active
            or self.pause_requested
            or self.stop_commands
        )
        pressing = bool(
            followed
            or self.command_table.queue
            or self.gate.mode == "pause"
            or self.gate.target is not None
        )
        asked = bool(
            pressing
            or self.viewer_count
            or self.capture_store.step_data
            or self.capture_store.clones_step
            or self.holds_weights
        )
        elsewhere = self.watch_list.has_new_rows or self.end is not None
        self.step_is_recorded = followed or bool(self.viewer_count or self.sinks)
        self.boundary_has_work = asked or self.step_is_recorded or self.end == "stopped"
        self.has_requests, self.is_observed = pressing or elsewhere, asked or elsewhere

    def wake(self) -> None:
        """Under the lock: something changed that the training thread should see."""
        self.refresh_flags()
        self.changed.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A change from any thread: under the lock, seen by the training thread, told to all."""
        with self.lock:
            yield
            self.wake()
        self.notify()

    def notify(self) -> None:
        """Tell the listeners that something changed. Without the lock, from any thread."""
        for listener in self.subscribers:
            try:
                listener()
            except Exception:
                # A listener that breaks (a server going down) must not end the training.
                log.exception("a listener raised and is off; training goes on")
                with self.lock:
                    self.subscribers = tuple(
                        held for held in self.subscribers if held is not listener
                    )

    def call_step_listeners(self) -> None:
        """Tell who installs something for a step that one begins. The training thread's."""
        for listener in self.step_listeners:
            try:
                listener()
            except Exception:
                # Whoever measures must not end the training: it is asked no more.
                log.exception("a step listener raised and is off; training goes on")
                self.step_listeners = tuple(h for h in self.step_listeners if h is not listener)

    # -- sinks: called without the lock -----------------------------------------------------------

    def send_scalars(self, scalars: Mapping[str, Any]) -> None:
        """This step's scalars to every sink."""
        for sink in self.sinks:
            try:
                sink.log_values(self.finished_steps, scalars)
            except Exception:  # noqa: BLE001 - said there
                self._remove_failed_sink(sink)

    def send_intervention(self, **fields: Any) -> None:
        """Something that was done to the run, to every sink."""
        for sink in self.sinks:
            try:
                sink.event(Moment.INTERVENTION, **fields)
            except Exception:  # noqa: BLE001 - said there
                self._remove_failed_sink(sink)

    def _remove_failed_sink(self, sink: Sink) -> None:
        """A sink of ours that breaks must not end somebody's training."""
        log.exception("a sink raised and is off; training goes on")
        with self.lock:
            self.sinks = tuple(held for held in self.sinks if held is not sink)
            self.refresh_flags()

    def finish_command(
        self,
        record: CommandRecord,
        status: Status,
        *,
        reason: str | None = None,
        result: Any = None,
    ) -> None:
        """Write the end of a command down, then answer who asked."""
        record.status, record.reason, record.result = status, reason, result
        record.step = self.finished_steps if record.step is None else record.step
        record.duration_s = self.clock() - record.submitted_mono
        self.send_intervention(kind="command", **record.describe())
        if status == "done":
            record.future.set_result(result)
        else:
            record.future.set_exception(ControlError(reason or status))
        self.notify()

    def close(self, end: End) -> None:
        """The training is over: what waits is refused, and so is what comes."""
        with self.lock:
            self.end, self.is_parked = end, False
            waiting = [*self.command_table.close(end), *self.gate.pause(), *self.completed_commands]
            stops, self.stop_commands, self.completed_commands = self.stop_commands, [], []
            self.refresh_flags()
        for record in waiting:
            self.finish_command(record, "refused", reason=f"The run is {end}.")
        for record in stops:
            self.finish_command(record, "done")
        self.notify()


class Viewer:
    """Somebody looks: captures are made while at least one viewer is open.

    Made by `DebugController.viewer`; a context manager.
    """

    def __init__(self, state: ControlState) -> None:
        self._state: ControlState | None = state
        self._count(state, +1)

    @staticmethod
    def _count(state: ControlState, by: int) -> None:
        with state.lock:
            state.viewer_count += by
            state.refresh_flags()

    def close(self) -> None:
        """Look away; closing twice is fine."""
        state, self._state = self._state, None
        if state is not None:
            self._count(state, -1)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
