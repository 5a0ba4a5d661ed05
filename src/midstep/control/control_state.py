"""The state that the training thread shares with all other threads: one lock, flags, and the parts.

Other threads change it under the lock and then recompute the flags. The training thread reads the
flags without the lock, so a step that is not observed costs two attribute tests. A flag that is
read a moment too early is not an error: the request is then seen at the next boundary.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from midstep.control.breakpoints.breakpoints import Breakpoints
from midstep.control.breakpoints.layer_report import LayerReport
from midstep.control.capture.captures import Captures
from midstep.control.capture.loss_readout import LossReadout
from midstep.control.command_queue import CommandQueue
from midstep.control.command_record import CommandRecord, Status
from midstep.control.gate import Gate
from midstep.control.watches.watches import Watches
from midstep.core.errors import ControlError
from midstep.core.moments import Moment
from midstep.core.protocols import Sink

log = logging.getLogger("midstep.control")
End = Literal["stopped", "finished", "failed"]
Item = TypeVar("Item")


def _without(items: tuple[Item, ...], removed: Item) -> tuple[Item, ...]:
    """The items except `removed`, compared by identity: sinks may define their own equality."""
    return tuple(item for item in items if item is not removed)


@dataclass(frozen=True, kw_only=True)
class Park:
    """Why the training thread parks."""

    cause: str
    """`breakpoint`, `exception`, `hold`, or the command that led here: pause, step, run_until."""
    who: str | None = None
    """Who submitted that command."""
    reason: str | None = None
    breakpoint: Mapping[str, Any] | None = None
    """The evidence of the hit."""


class ControlState:
    """The state of a controller. Every change happens under `lock`, unless said otherwise."""

    step_samples: int = 0
    """How many samples the step in progress has; 0 if unknown."""
    end_listeners: tuple[Callable[[], None], ...] = ()
    """Called by the training thread when a step ends."""
    diagnosis: dict[str, Any] | None = None
    """Why the run stopped last, replaced as a whole; see `midstep.session.diagnosis`."""
    failure: dict[str, Any] | None = None
    """What ended the run, if an error did; replaced as a whole."""
    park_listeners: tuple[Callable[[], None], ...] = ()
    """Called by the training thread when it has parked."""
    park: Park | None = None
    """Why the training thread parked last."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.queue = CommandQueue(self, wall)
        self.gate = Gate()
        self.captures = Captures(self)
        self.watches = Watches(self)
        self.breakpoints = Breakpoints(self)
        # The four flags, set by `refresh_flags`.
        self.step_is_recorded = False
        """Whether scalars and batch of this step are wanted by a sink, a viewer or a breakpoint."""
        self.boundary_has_work = False
        """Whether there is anything to do at the boundary."""
        self.is_observed = False
        """Whether there is more to do there than to send scalars to the sinks."""
        self.has_requests = False
        """Whether there is more to do there than to show steps to viewers."""
        # Written by the training thread alone, without the lock.
        self.step_index = 0
        """Index of the step in progress, counted from 0."""
        self.finished_steps = 0
        self.boundaries = 0
        """Boundaries with anything to do so far."""
        self.step_scalars: dict[str, Any] = {}
        """Scalars of the step in progress."""
        self.scalars_outside_step: dict[str, Any] = {}
        """Scalars logged since the last boundary outside a step, such as those of a validation."""
        self.layer_report: LayerReport | None = None
        """What was measured inside the model in this step."""
        self.loss: Any = None
        """The loss as the loop gave it, perhaps on a device; other threads read `loss_readout`."""
        self.loss_readout = LossReadout(clock)
        # Written under the lock.
        self.has_started = self.is_parked = False
        self.stop_commands: list[CommandRecord] = []
        self.end: End | None = None
        self.reason: str | None = None
        self.active_hold: tuple[str, Callable[[], bool]] | None = None
        """Why the run is held, and the function that says when the hold ends."""
        self.completed_commands: list[CommandRecord] = []
        """Commands that are answered once their effect is visible."""
        self.breakpoint_evidence: dict[str, Any] | None = None
        self.holds_weights = False
        """Whether clones of weights are held; they are dropped when none is in view any more."""
        self.described_fields: dict[str, Any] = {}
        self.read_gradient_norm: Callable[[], Any] | None = None
        self.read_rewind: Callable[[], dict[str, Any]] | None = None
        """Returns how far back the training can go; called from any thread."""
        self.viewer_count = 0
        # Tuples that are replaced as a whole, so that they are read without the lock.
        self.sinks: tuple[Sink, ...] = ()
        self.subscribers: tuple[Callable[[], None], ...] = ()
        self.step_listeners: tuple[Callable[[], None], ...] = ()
        """Called by the training thread when a step begins."""

    def renew_locks(self) -> None:
        """Make new locks in a forked child, where the thread that holds a lock does not exist."""
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)

    @property
    def pause_requested(self) -> bool:
        """Whether a pause is requested, or the run is held because of a fault."""
        # The intended mode, not the gate's: a queued pause counts from the moment of its submit.
        return self.queue.intended_mode == "pause" or self.active_hold is not None

    def refresh_flags(self) -> None:
        """Recompute the flags. Called under the lock after each change."""
        is_followed = bool(
            self.breakpoints.armed
            or self.watches.active
            or self.pause_requested
            or self.stop_commands
        )
        has_requests = bool(
            is_followed
            or self.queue.waiting
            or self.gate.mode == "pause"
            or self.gate.target is not None
            or self.captures.next_plan
        )
        # The last three are left over from an observed step: one more full boundary clears them.
        is_observed = bool(
            has_requests
            or self.captures.subscriptions.active
            or self.captures.data.pushed
            or self.captures.clones_step
            or self.holds_weights
        )
        # These need the full boundary, but do not make a boundary necessary by themselves: new
        # rows come with an active watch, and after the end no step follows.
        needs_full_boundary = self.watches.has_new_rows or self.end is not None
        # A connected viewer sees the loss in the state; nothing else is captured for it alone.
        self.step_is_recorded = is_followed or bool(
            self.captures.subscriptions.active or self.viewer_count or self.sinks
        )
        self.boundary_has_work = is_observed or self.step_is_recorded or self.end == "stopped"
        self.has_requests = has_requests or needs_full_boundary
        self.is_observed = is_observed or needs_full_boundary

    def wake(self) -> None:
        """Recompute the flags and wake a parked training thread. Called under the lock."""
        self.refresh_flags()
        self.changed.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make a change from any thread: under the lock, then wake the loop and the subscribers."""
        with self.lock:
            yield
            self.wake()
        self.notify()

    def notify(self) -> None:
        """Call the subscribers after a change. From any thread, without the lock."""
        for subscriber in self.subscribers:
            try:
                subscriber()
            except Exception:
                # A subscriber that fails (a server that shuts down) must not end the training.
                log.exception("a subscriber raised and is off; training continues")
                with self.lock:
                    self.subscribers = _without(self.subscribers, subscriber)

    def call_step_listeners(self) -> None:
        """Call who installs something for the step that begins. On the training thread."""
        for listener in self.step_listeners:
            try:
                listener()
            except Exception:
                # An error of ours while measuring must not end the training.
                log.exception("a step listener raised and is off; training continues")
                self.step_listeners = _without(self.step_listeners, listener)

    def call_end_listeners(self) -> None:
        """Call who adds something to the step that ends. On the training thread."""
        for listener in self.end_listeners:
            try:
                listener()
            except Exception:
                # As above.
                log.exception("a listener raised at the end of a step and is off")
                self.end_listeners = _without(self.end_listeners, listener)

    def call_park_listeners(self) -> None:
        """Call who looks into a run that has just parked. On the training thread."""
        for listener in self.park_listeners:
            try:
                listener()
            except Exception:
                # As above; the run stays parked.
                log.exception("a listener raised when the run parked, and is off")
                self.park_listeners = _without(self.park_listeners, listener)

    def describe_park(self) -> Park:
        """Why the training thread parks now. Before the commands that led here are answered."""
        if self.end is not None:
            return Park(cause="exception", reason=self.reason)
        if self.breakpoint_evidence is not None:
            evidence = self.breakpoint_evidence
            return Park(cause="breakpoint", who="breakpoint", breakpoint=evidence)
        if self.active_hold is not None:
            return Park(cause="hold", who="system", reason=self.active_hold[0])
        records = [*self.completed_commands][-1:]
        command = records[0].command if records else None
        return Park(
            cause="pause" if command is None else command.name,
            who=None if command is None else command.who,
        )

    # -- sinks: called without the lock -----------------------------------------------------------

    def send_intervention(self, **fields: Any) -> None:
        """Send a record of a command, a breakpoint or a mark to every sink."""
        for sink in self.sinks:
            try:
                sink.event(Moment.INTERVENTION, **fields)
            except Exception:  # noqa: BLE001 - logged in remove_failed_sink
                self.remove_failed_sink(sink)

    def remove_failed_sink(self, sink: Sink) -> None:
        """Call a sink no more after it raised; called from the `except` block."""
        # A sink that fails must not end the training of the user.
        log.exception("a sink raised and is off; training continues")
        with self.lock:
            self.sinks = _without(self.sinks, sink)
            self.refresh_flags()

    def finish_command(
        self,
        record: CommandRecord,
        status: Status,
        *,
        reason: str | None = None,
        result: Any = None,
    ) -> None:
        """Record the end of a command, then answer its future."""
        record.status, record.reason, record.result = status, reason, result
        record.step = self.finished_steps if record.step is None else record.step
        # Monotonic: the wall clock may be set while a command runs.
        record.duration_s = self.clock() - record.submitted_mono
        # The fact comes first: an answer that a client has seen is never missing on disk.
        self.send_intervention(kind="command", **record.describe())
        if status == "done":
            record.future.set_result(result)
        else:
            record.future.set_exception(ControlError(reason or status))
        self.notify()

    def close(self, end: End) -> None:
        """End the run: refuse the commands that wait, and all later ones."""
        with self.lock:
            self.end, self.is_parked = end, False
            waiting = [*self.queue.close(end), *self.gate.pause(), *self.completed_commands]
            stops, self.stop_commands, self.completed_commands = self.stop_commands, [], []
            self.refresh_flags()
        # Without the lock: callbacks of a future run in this thread, and may submit commands.
        for record in waiting:
            self.finish_command(record, "refused", reason=f"The run is {end}.")
        for record in stops:
            self.finish_command(record, "done")
        self.notify()


class Sinks:
    """The sinks of a run, and the callbacks on a change and on the begin of a step.

    Each list is a tuple that is replaced as a whole, so that it is read without the lock.
    """

    def __init__(self, state: ControlState) -> None:
        self._state = state

    def add(self, sink: Sink) -> None:
        """Send every step's scalars and every intervention to `sink`."""
        with self._state.lock:
            self._state.sinks = (*self._state.sinks, sink)
            self._state.refresh_flags()

    def remove(self, sink: Sink) -> None:
        """Send nothing more to `sink`."""
        with self._state.lock:
            self._state.sinks = _without(self._state.sinks, sink)
            self._state.refresh_flags()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the state, a command, a breakpoint or a watch changes.

        The callback is called from any thread and must return at once. Returns a function that
        ends the subscription.
        """
        state = self._state
        with state.lock:
            state.subscribers = (*state.subscribers, callback)

        def unsubscribe() -> None:
            with state.lock:
                state.subscribers = _without(state.subscribers, callback)

        return unsubscribe

    def on_step_begin(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on the training thread when a step begins.

        It is called while the run is observed, and once more when the last subscription or request
        has ended, so that the listener can remove what it installed. After that it is not called
        and costs nothing. Returns a function that removes the listener.
        """
        state = self._state
        with state.lock:
            state.step_listeners = (*state.step_listeners, listener)

        def remove() -> None:
            with state.lock:
                state.step_listeners = _without(state.step_listeners, listener)

        return remove

    def on_step_end(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on the training thread when an observed step ends.

        It is called before watches and breakpoints read the step, so that it can add step data.
        Returns a function that removes the listener.
        """
        state = self._state
        with state.lock:
            state.end_listeners = (*state.end_listeners, listener)

        def remove() -> None:
            with state.lock:
                state.end_listeners = _without(state.end_listeners, listener)

        return remove

    def on_park(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on the training thread when it has parked, once for each park.

        The run already shows that it is paused, and its commands wait until the listener returns.
        Returns a function that removes the listener.
        """
        state = self._state
        with state.lock:
            state.park_listeners = (*state.park_listeners, listener)

        def remove() -> None:
            with state.lock:
                state.park_listeners = _without(state.park_listeners, listener)

        return remove
