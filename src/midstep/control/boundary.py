"""The boundary between two steps, where the training thread runs commands and parks.

All methods except the properties run on the training thread.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from midstep.control.capture.weight_changes import WeightChanges
from midstep.control.command_queue import FAILED
from midstep.control.command_record import Command, CommandRecord
from midstep.control.command_runner import CommandRunner
from midstep.control.control_state import ControlState

log = logging.getLogger("midstep.control")
HOLD_POLL_S = 0.25
PARK_POLL_S = 1.0


class StepBoundary:
    """What the training thread does between two steps.

    `wait_if_paused` takes one of four ways, the cheapest first:

    - nothing to do: one flag test;
    - only sinks listen: `_pass_quietly`, which takes no lock;
    - something is in view, and this step does not capture it: `_pass_unshown`;
    - anything else: `_end_step` and `_pass_through`.

    The lock is held for moments only. No code of others (sinks, subscribers, sources of watches,
    commands) is called while it is held, because that code may call the controller.
    """

    def __init__(self, state: ControlState, weight_changes: WeightChanges) -> None:
        self._state = state
        self._weight_changes = weight_changes
        self._commands = CommandRunner(state)
        # Both flags describe how the step in progress began. A cheap way is taken only if it was
        # allowed at the beginning of the step and still is at its end: a request that came in
        # between needs the full way, and so does what was prepared at the beginning.
        self._last_step_unobserved = False  # nothing in view and no request
        self._has_no_request = False  # subscriptions at most
        self._read_park_limit: Callable[[], tuple[float, str] | None] = lambda: None
        self._park_until: float | None = None  # by the clock, while parked with a limit

    # -- called by the loop -----------------------------------------------------------------------

    def begin_step(self, step: int) -> None:
        """Set the index of the step that begins; only for loops that number steps themselves."""
        self._state.step_index = step

    def log(self, values: Mapping[str, Any]) -> None:
        """Add scalars of the step in progress: for charts, breakpoints and the facts."""
        if self._state.step_is_recorded:
            self._state.step_scalars.update(values)
            self._state.loss = values.get("loss", self._state.loss)

    def note_samples(self, samples: int) -> None:
        """Note how many samples the step in progress has; 0 if unknown. For breakpoints."""
        self._state.step_samples = samples

    def log_outside_step(self, values: Mapping[str, Any]) -> None:
        """Add scalars of something that is finished, such as a validation: for breakpoints.

        Conditions see them once, at the next boundary. Sinks do not get them.
        """
        if self._state.breakpoints.armed:
            self._state.scalars_outside_step.update(values)

    def wait_if_paused(self) -> bool:
        """End a step, run the queued commands, park if paused. False once the run is stopped."""
        # 0.14 µs a step with nothing to do. A call or a lock here would double that.
        state = self._state
        if state.end_listeners and state.boundary_has_work:
            state.call_end_listeners()  # before the count: what they add belongs to this step
        state.step_index = state.finished_steps = state.step_index + 1
        return self._end_step() if state.boundary_has_work else True

    def enter(self) -> bool:
        """The boundary before the first step: runs the queued commands without counting a step."""
        self._state.finished_steps = self._state.step_index
        return self._pass_through() if self._state.boundary_has_work else True

    def pass_without_step(self, scalars: Mapping[str, Any], *, in_step: bool) -> bool:
        """A boundary at which no step ends: runs the queued commands. False once stopped.

        Args:
            scalars: logged since the last boundary; breakpoints see them.
            in_step: whether a step is in progress, whose captures go on.
        """
        state = self._state
        state.has_started = True
        if not state.has_requests:
            state.boundaries += 1
            return True
        if state.breakpoints.armed and (hits := state.breakpoints.check_between(scalars)):
            state.breakpoints.record_hits(hits)
        if not in_step:
            return self._pass_through()
        may_continue = self._run_commands()
        state.boundaries += 1
        self._last_step_unobserved = self._has_no_request = False  # the step ends in full
        return may_continue

    def move_to(self, step: int) -> None:
        """Continue at another step, as after going back. Called at a boundary.

        Captured and watched values of later steps are dropped; the facts keep them.
        """
        state = self._state
        with state.lock:
            state.step_index = state.finished_steps = step
            state.loss = state.breakpoint_evidence = None
            state.loss_readout.forget()
            state.captures.forget_after(step)
            state.watches.forget_after(step)
            self._weight_changes.forget_after(step)
            state.wake()

    def show_loss(self, loss: Any) -> None:
        """Show this loss as that of the last finished step, after the run was taken to it."""
        state = self._state
        state.loss = loss
        state.loss_readout.read_now(loss)

    def hold(self, reason: str, until: Callable[[], bool]) -> None:
        """Park at the next boundary because of `reason`; continue when `until()` is true."""
        with self._state.changing():
            self._state.active_hold = (reason, until)

    def limit_park(self, limit: Callable[[], tuple[float, str] | None]) -> None:
        """Continue by itself if parked for longer than `limit` says; it is read at each park.

        Args:
            limit: returns seconds and the reason in words, or None for no limit.
        """
        self._read_park_limit = limit

    def run_now(self, command: Command) -> Future[Any]:
        """Run a command and those queued before it: for the thread of a loop that is not running.

        Nothing else changes the training state meanwhile, so commands that need a pause are
        admitted.
        """
        queue = self._state.queue
        queue.loop_is_idle = True
        try:
            future = queue.submit(command)
            self.drain()
        finally:
            queue.loop_is_idle = False
        return future

    def finish(self) -> None:
        """End the run: refuse the queued commands and all later ones."""
        state = self._state
        self._send_scalars()
        state.loss_readout.read_now(state.loss)
        state.close("stopped" if self.is_stopping else "finished")

    def fail(self, reason: str, *, park: bool = False) -> None:
        """End the run after an error. With `park`, wait until a viewer resumes or stops the run."""
        state = self._state
        self._send_scalars()
        with state.lock:
            state.end, state.reason, state.is_parked = "failed", reason, False
            # The step that raised never ends, so granted steps and `run_until` end here.
            state.completed_commands += state.gate.pause()
            moves = state.queue.fail()
            state.refresh_flags()
        for record in moves:
            state.finish_command(record, "refused", reason=FAILED)
        try:
            if park:
                self._run_commands()
        finally:  # also when Ctrl-C ends the wait
            state.captures.held_batch = None
            state.close("failed")

    def set_gradient_norm(self, read: Callable[[], Any]) -> None:
        """Set how to read the gradient norm; called after backward if a breakpoint needs it."""
        self._state.read_gradient_norm = read

    # -- read from any thread, without the lock ---------------------------------------------------

    @property
    def finished_steps(self) -> int:
        """How many steps are finished."""
        return self._state.finished_steps

    @property
    def boundaries(self) -> int:
        """How many boundaries were passed; exact while there is a sink, else it may lag."""
        return self._state.boundaries

    @property
    def is_pausing(self) -> bool:
        """Whether a pause is requested, begun or due to a hit, or steps are made one by one."""
        state = self._state
        return state.gate.mode == "pause" or state.pause_requested or state.breakpoints.will_pause

    @property
    def is_stopping(self) -> bool:
        """Whether a stop is requested or done."""
        return bool(self._state.stop_commands) or self._state.end == "stopped"

    # -- the end of a step ------------------------------------------------------------------------

    def _end_step(self) -> bool:
        """Record the finished step, check the breakpoints, run commands. False to stop."""
        state = self._state
        if self._last_step_unobserved and not state.is_observed:
            return self._pass_quietly()
        is_unshown = state.captures.subscriptions.active and not state.captures.clones_step
        if self._has_no_request and is_unshown and not state.has_requests:
            return self._pass_unshown()
        with state.lock:
            state.has_started = True
            state.completed_commands += state.gate.step_ended(state.finished_steps)
            if state.gate.mode == "pause" and not state.gate.grants:
                state.queue.gate_closed()
        # Watches and breakpoints read this step's scalars and step data, so they come before
        # these are sent and cleared. A hit is recorded last: its evidence holds the cloned batch,
        # and its fact follows the scalars of the step.
        state.watches.record()
        hits = state.breakpoints.check_step() if state.breakpoints.armed else []
        state.layer_report = None
        self._send_scalars()
        if state.captures.clones_step:
            state.captures.publish()
            self._weight_changes.end()
        if hits:
            state.breakpoints.record_hits(hits)
        return self._pass_through()

    def _pass_quietly(self) -> bool:
        """Pass a boundary at which only sinks listen, as nearly always. Takes no lock."""
        state = self._state
        state.has_started = True
        if state.step_scalars:
            self._send_scalars()
            if state.is_observed:  # a sink failed (disk full) and has requested a hold
                return self._pass_through()
        state.captures.held_batch = None
        state.boundaries += 1
        return True

    def _pass_unshown(self) -> bool:
        """Pass a boundary with subscriptions and no request, after a step that is not shown."""
        state = self._state
        state.layer_report = None
        self._send_scalars()
        with state.lock:
            # Tested again under the lock: a request may have come while the scalars were sent.
            has_no_request = state.captures.subscriptions.active and not state.has_requests
            if has_no_request:
                state.captures.begin_step(every_step=False)
        if not has_no_request:
            return self._pass_through()
        state.boundaries += 1
        # In other steps no clone is needed: without a request nothing can stop the loop there.
        if state.captures.clones_step:
            self._weight_changes.begin(is_requested=False)
        state.call_step_listeners()
        return True

    def _send_scalars(self) -> None:
        """Send this step's scalars to the sinks."""
        state = self._state
        if state.step_scalars:
            # A new dict each step: sinks keep the one that they get.
            scalars, state.step_scalars = state.step_scalars, {}
            for sink in state.sinks:
                try:
                    sink.log_values(state.finished_steps, scalars)
                except Exception:  # noqa: BLE001 - logged there
                    state.remove_failed_sink(sink)
            if type(state.loss) is not float:
                state.loss_readout.note(state.loss)

    def _pass_through(self) -> bool:
        """Run commands, park if paused, then begin the next step. False to stop."""
        may_continue = self._run_commands()
        state = self._state
        state.boundaries += 1
        with state.lock:
            state.breakpoint_evidence = None
            # A step made by `step`, or the last one of `run_until`, ends in a pause: show it.
            is_requested = state.pause_requested or state.gate.target == state.finished_steps + 1
            state.captures.begin_step(every_step=is_requested)
            state.refresh_flags()
            self._last_step_unobserved = not state.is_observed
            self._has_no_request = not state.has_requests
        # Last, when nothing changes the weights or the flags any more.
        self._weight_changes.begin(is_requested=is_requested)
        state.call_step_listeners()
        return may_continue

    # -- running commands and parking -------------------------------------------------------------

    def drain(self) -> None:
        """Run the queued commands; neither park nor continue the training."""
        while True:
            with self._state.lock:
                if not self._state.queue.waiting:
                    return
                record = self._state.queue.waiting.popleft()
            self._commands.run(record)

    def _run_commands(self) -> bool:
        """Run the queued commands; park until the run may continue (True) or stops (False)."""
        while True:
            # Before each command: a watch records its start before a command moves the weights.
            self._state.watches.begin()
            self._weight_changes.serve()
            record, may_continue = self._next_action()
            if record is not None:
                self._commands.run(record)
            elif may_continue is None:
                self._park()
            else:
                return self._leave(may_continue=may_continue)

    def _next_action(self) -> tuple[CommandRecord | None, bool | None]:
        """The next command, or whether to continue (True), stop (False) or park (None)."""
        state = self._state
        with state.lock:
            # A stop is never queued: it overtakes every command that waits.
            if state.stop_commands or state.end == "stopped":
                return None, False
            if state.queue.waiting:
                return state.queue.waiting.popleft(), None
            return None, self._may_continue()

    def _may_continue(self) -> bool | None:
        """Under the lock: True to begin the next step, None to park."""
        state = self._state
        if state.end == "finished":
            return True
        if state.active_hold is not None:
            return None
        if state.end == "failed":
            return True if state.gate.mode == "run" else None
        is_open, complete = state.gate.check_open(state.finished_steps)
        state.completed_commands += complete
        if complete:
            state.queue.gate_closed()
        return True if is_open else None

    def _leave(self, *, may_continue: bool) -> bool:
        """Leave the boundary. After a stop, refuse every command that waits."""
        state = self._state
        stops = not may_continue and state.end != "failed"
        # Before the answers are sent: who gets one reads a state that shows its effect.
        if state.is_parked and not stops:
            with state.lock:
                state.is_parked, state.has_started = False, True
                self._set_park_limit(None)
            state.notify()
        self._answer_completed()
        if stops:
            state.close("stopped")
        return may_continue

    def _park(self) -> None:
        """Park: clone what viewers may read, answer the commands that led here, then wait."""
        state = self._state
        if not state.is_parked:
            # All clones are complete before `is_parked` is visible to readers.
            state.captures.publish_everything()
            state.loss_readout.read_now(state.loss)
            self._weight_changes.end(is_parking=True)
            state.park = state.describe_park()
            self._begin_park()
            state.notify()
            self._answer_completed()
            state.call_park_listeners()
        self._answer_completed()
        with state.lock:
            is_needed = state.watches.has_new_rows or self._weight_changes.has_waiting_reader
            if not (state.queue.waiting or state.stop_commands or is_needed):
                # With a timeout: Python handles a signal that reached another thread only when
                # the main thread runs again. A hold is polled, because nothing wakes it.
                state.changed.wait(PARK_POLL_S if state.active_hold is None else HOLD_POLL_S)
            hold = state.active_hold
        self._end_limited_park()
        if hold is not None and hold[1]():  # called without the lock, as all code of others
            with state.lock:
                state.active_hold = None

    def _begin_park(self) -> None:
        """Show that the loop is parked, and say when it continues by itself, if it does."""
        state, limit = self._state, self._read_park_limit()
        with state.lock:
            state.is_parked = True
            self._set_park_limit(limit)
        if limit is not None:
            log.warning("%s", limit[1])
            state.send_intervention(
                kind="park_limit", who="system", step=state.finished_steps, reason=limit[1]
            )

    def _end_limited_park(self) -> None:
        """Continue if the loop has been parked for as long as it may be."""
        if self._park_until is not None and self._state.clock() >= self._park_until:
            self._park_until = math.inf  # once; `_leave` clears what the state shows
            self._state.queue.submit(Command(name="resume", who="system"))

    def _set_park_limit(self, limit: tuple[float, str] | None) -> None:
        """Under the lock: the state shows the reason of the limit."""
        if limit is None and self._park_until is None:
            return
        state = self._state
        self._park_until = None if limit is None else state.clock() + limit[0]
        words = None if limit is None else limit[1]
        state.described_fields = {**state.described_fields, "park_limit": words}

    def _answer_completed(self) -> None:
        state = self._state
        with state.lock:
            complete, state.completed_commands = state.completed_commands, []
        for record in complete:
            result = {"step": state.finished_steps, **record.answer()}
            state.finish_command(record, "done", result=result)
