"""What the training thread and everybody else share: one lock, three flags, and the parts.

The flags are written under the lock and read without it, so that an unwatched loop pays
for two attribute tests a step.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from midstep.control.breakpoints import BreakpointBoard
from midstep.control.capture import CaptureStore
from midstep.control.commands import CommandRecord, Status
from midstep.control.desk import Desk
from midstep.control.gate import Gate
from midstep.control.layer_report import LayerReport
from midstep.control.loss_reading import LossReading
from midstep.control.watches import WatchBoard
from midstep.core.errors import ControlError
from midstep.core.moments import Moment
from midstep.core.protocols import Sink

__all__ = ["End", "Shared"]

log = logging.getLogger("midstep.control")
End = Literal["stopped", "finished", "failed", "killed", "lost", "out of reach"]


class Shared:
    """The state of a controller. Every change happens under `lock`, unless said otherwise."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.desk = Desk(clock, wall)
        self.gate = Gate()
        self.captures = CaptureStore(clock)
        self.watches = WatchBoard()
        self.breakpoints = BreakpointBoard()
        self.interest = False
        """Does anybody want to know what this step was trained on."""
        self.attention = False
        """Is there anything to do at the boundary."""
        self.busy = False
        """Is there more to do there than to tell the sinks: does anybody look, ask or wait."""
        self.pressing = False
        """Is there more to do there than to let somebody look."""
        self.index = 0
        """Index of the step in progress; written by the training thread alone."""
        self.finished = 0
        """Finished steps; written by the training thread alone."""
        self.boundaries = 0
        """Boundaries with anything to do so far; written by the training thread alone."""
        self.started = self.parked = False
        self.stopping: list[CommandRecord] = []
        self.end: End | None = None
        self.reason: str | None = None
        self.hold: tuple[str, Callable[[], bool]] | None = None
        self.complete: list[CommandRecord] = []
        """Commands to be answered once their effect is there."""
        self.evidence: dict[str, Any] | None = None
        self.scalars: dict[str, Any] = {}
        """This step's; touched by the training thread alone."""
        self.between: dict[str, Any] = {}
        """What was measured since the last boundary outside a step; the training thread's alone."""
        self.holds_weights = False
        """Whether clones of weights are held, to be dropped once nobody watches any more."""
        self.loss: Any = None
        """As the loop gave it; the training thread's, others ask `reading`."""
        self.reading = LossReading(clock)
        self.about: dict[str, Any] = {}
        self.gradient_norm: Callable[[], Any] | None = None
        self.sinks: tuple[Sink, ...] = ()
        self.rewind: Callable[[], dict[str, Any]] | None = None
        """Tells how far back the training can be taken; any thread asks."""
        self.step_listeners: tuple[Callable[[], None], ...] = ()
        """Called by the training thread when a step begins."""
        self.layer_report: LayerReport | None = None
        """What was measured inside the model in this step; the training thread's alone."""
        self.viewers = 0
        self.listeners: tuple[Callable[[], None], ...] = ()

    def renew_locks(self) -> None:
        """In a forked child: a lock may be held by a thread that is not there any more."""
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)

    @property
    def paused(self) -> bool:
        """Whether a pause is asked for, by anybody or by a fault."""
        return self.desk.intended == "pause" or self.hold is not None

    @property
    def wants_data(self) -> bool:
        """Whether this step could be the one that the loop parks at with somebody there."""
        return bool(
            self.captures.wanted
            or self.viewers
            or self.watches.active
            or self.breakpoints.may_stop(self.index + 1)
        )

    def refresh_flags(self) -> None:
        """Under the lock, after each change: is there anything to capture, anything to do."""
        followed = bool(
            self.breakpoints.armed or self.watches.active or self.paused or self.stopping
        )
        pressing = bool(
            followed or self.desk.queue or self.gate.mode == "pause" or self.gate.target is not None
        )
        asked = bool(
            pressing
            or self.viewers
            or self.captures.step_data
            or self.captures.wanted
            or self.holds_weights
        )
        elsewhere = self.watches.fresh or self.end is not None
        self.interest = followed or bool(self.viewers or self.sinks)
        self.attention = asked or self.interest or self.end == "stopped"
        self.pressing, self.busy = pressing or elsewhere, asked or elsewhere

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
        for listener in self.listeners:
            try:
                listener()
            except Exception:
                # A listener that breaks (a server going down) must not end the training.
                log.exception("a listener raised and is off; training goes on")
                with self.lock:
                    self.listeners = tuple(held for held in self.listeners if held is not listener)

    def begin_step(self) -> None:
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
                sink.log(self.finished, scalars)
            except Exception:  # noqa: BLE001 - said there
                self._switch_off(sink)

    def send_intervention(self, **fields: Any) -> None:
        """Something that was done to the run, to every sink."""
        for sink in self.sinks:
            try:
                sink.event(Moment.INTERVENTION, **fields)
            except Exception:  # noqa: BLE001 - said there
                self._switch_off(sink)

    def _switch_off(self, sink: Sink) -> None:
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
        record.step = self.finished if record.step is None else record.step
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
            self.end, self.parked = end, False
            waiting = [*self.desk.close(end), *self.gate.pause(), *self.complete]
            stops, self.stopping, self.complete = self.stopping, [], []
            self.refresh_flags()
        for record in waiting:
            self.finish_command(record, "refused", reason=f"The run is {end}.")
        for record in stops:
            self.finish_command(record, "done")
        self.notify()
