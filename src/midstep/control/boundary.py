"""The boundary between two steps, where the training thread runs commands and parks.

All but the properties runs on the training thread. The lock is held for moments only, and never
while code of others is called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import GeneratorType
from typing import Any

from midstep.control.breakpoints.breakpoint import Breakpoint, BreakpointHits, make_evidence
from midstep.control.breakpoints.conditions import Hit, StepView
from midstep.control.capture.capture_store import as_float, as_ids, is_on_device
from midstep.control.capture.weight_changes import WeightChanges
from midstep.control.command_queue import FAILED, RUNNING, STEPPING, VERBS, CommandQueue
from midstep.control.command_record import Command, CommandRecord, Status, StepsToPass
from midstep.control.control_state import ControlState, End
from midstep.control.run_status import is_moving
from midstep.control.watches.row_tracker import Watches
from midstep.core.commands.catalog import RunUntilPayload, StepPayload
from midstep.core.errors import ControlError

log = logging.getLogger("midstep.control")
HOLD_POLL_S = 0.25
PARK_POLL_S = 1.0


class StepBoundary:
    """What the training thread does between two steps, and at a capture."""

    def __init__(
        self,
        state: ControlState,
        queue: CommandQueue,
        watches: Watches,
        weight_changes: WeightChanges,
    ) -> None:
        self._state = state
        self._queue = queue
        self._watches = watches
        self._weight_changes = weight_changes
        # Whether the last step began with no viewer and no request.
        self._last_step_unobserved = False
        # Whether it began with viewers at most.
        self._has_no_request = False

    # -- called by the loop -----------------------------------------------------------------------

    def begin_step(self, step: int) -> None:
        """Set the index of the step that begins; only for loops that number steps themselves."""
        self._state.step_index = step

    def log(self, values: Mapping[str, Any]) -> None:
        """Add scalars of the step in progress: for charts, breakpoints and the facts."""
        if self._state.step_is_recorded:
            self._state.step_scalars.update(values)
            self._state.loss = values.get("loss", self._state.loss)

    def log_outside_step(self, values: Mapping[str, Any]) -> None:
        """Add scalars of something that is finished, such as a validation: for breakpoints.

        Conditions see them once, at the next boundary. Sinks do not get them.
        """
        if self._state.breakpoint_list.armed:
            self._state.scalars_outside_step.update(values)

    def wait_if_paused(self) -> bool:
        """End a step, run the queued commands, park if paused. False once the run is stopped."""
        state = self._state
        state.step_index = state.finished_steps = state.step_index + 1
        return self._end_step() if state.boundary_has_work else True

    def enter(self) -> bool:
        """The boundary before the first step: runs the queued commands without counting a step."""
        self._state.finished_steps = self._state.step_index
        return self._pass_through() if self._state.boundary_has_work else True

    def move_to(self, step: int) -> None:
        """At a boundary: the loop is at another step now, as after going back.

        Captured and watched values of later steps are dropped; the facts keep them.
        """
        state = self._state
        with state.lock:
            state.step_index = state.finished_steps = step
            state.loss = state.breakpoint_evidence = None
            state.loss_readout.forget()
            state.capture_store.forget_after(step)
            state.watch_list.forget_after(step)
            self._weight_changes.forget_after(step)
            state.wake()

    def hold(self, reason: str, until: Callable[[], bool]) -> None:
        """Park at the next boundary because of `reason`; continue when `until()` is true."""
        with self._state.changing():
            self._state.active_hold = (reason, until)

    def run_now(self, command: Command) -> Future[Any]:
        """Run a command and those queued before it: for the thread of a loop that is not running.

        Nothing changes the training state meanwhile, so commands that need a pause are admitted.
        """
        commands = self._state.command_table
        commands.loop_is_idle = True
        try:
            future = self._queue.submit(command)
            self.drain()
        finally:
            commands.loop_is_idle = False
        return future

    def finish(self) -> None:
        """The training is over: refuse the queued commands and all later ones."""
        state = self._state
        self._send_scalars()
        state.loss_readout.read_now(state.loss)
        state.close("stopped" if self.is_stopping else "finished")

    def close_as(self, end: End, reason: str | None = None) -> None:
        """Show a run that is elsewhere, or over: every command is refused from now on.

        For whoever shows a run from its facts; a loop calls `finish` or `fail`.
        """
        self._state.reason = reason
        self._state.close(end)

    def fail(self, reason: str, *, park: bool = False) -> None:
        """The training raised. With `park`, wait here until a viewer resumes or stops the run."""
        state = self._state
        self._send_scalars()
        with state.lock:
            state.end, state.reason, state.is_parked = "failed", reason, False
            state.completed_commands += state.gate.pause()
            moves = state.command_table.fail()
            state.refresh_flags()
        for record in moves:
            state.finish_command(record, "refused", reason=FAILED)
        try:
            if park:
                self._run_commands()
        finally:  # also when Ctrl-C ends the wait
            state.capture_store.held_batch = None
            state.close("failed")

    def on_step_begin(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on the training thread as a step begins; returns how to end that.

        It is called while anybody looks or asks, and once more when the last of them has gone.
        In between it costs nothing, because it is not called.
        """
        state = self._state
        with state.lock:
            state.step_listeners = (*state.step_listeners, listener)

        def forget() -> None:
            with state.lock:
                state.step_listeners = tuple(
                    held for held in state.step_listeners if held is not listener
                )

        return forget

    def set_gradient_norm(self, read: Callable[[], Any]) -> None:
        """How to read the gradient norm: called after backward, only if a breakpoint needs it."""
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
    def is_paused(self) -> bool:
        """Whether a pause is requested."""
        return self._state.pause_requested

    @property
    def is_parked(self) -> bool:
        """Whether the training thread waits at the boundary."""
        return self._state.is_parked

    @property
    def is_stopping(self) -> bool:
        """Whether a stop is requested or done."""
        return bool(self._state.stop_commands) or self._state.end == "stopped"

    @property
    def is_moving(self) -> bool:
        """Whether the next boundary is due, so that a loop which does not reach it hangs.

        False while the run is parked, before its first step, during a command, or in a phase that
        the loop has declared.
        """
        return is_moving(self._state)

    # -- the end of a step ------------------------------------------------------------------------

    def _end_step(self) -> bool:
        """A step is finished: record it, ask the breakpoints, then obey. False to stop."""
        state = self._state
        if self._last_step_unobserved and not state.is_observed:
            return self._pass_quietly()
        unshown = state.viewer_count and not state.capture_store.clones_step
        if self._has_no_request and unshown and not state.has_requests:
            return self._pass_unshown()
        with state.lock:
            state.has_started = True
            state.completed_commands += state.gate.step_ended(state.finished_steps)
            if state.gate.mode == "pause" and not state.gate.grants:
                state.command_table.gate_closed()
        self._watches.record()
        verdict = (
            state.breakpoint_list.check(self._step_view())
            if state.breakpoint_list.armed
            else BreakpointHits()
        )
        state.layer_report = None
        self._send_scalars()
        state.capture_store.step_ended(state.finished_steps)
        if state.capture_store.clones_step:
            self._weight_changes.end()
        for marker, hit in verdict.marks:
            self._record_mark(marker, hit)
        if verdict.stop is not None:
            self._pause_at(*verdict.stop)
        return self._pass_through()

    def _pass_quietly(self) -> bool:
        """The boundary when only sinks attend, which is nearly always: it takes no lock."""
        state = self._state
        state.has_started = True
        if state.step_scalars:
            self._send_scalars()
            if state.is_observed:  # the disk refused
                return self._pass_through()
        state.capture_store.held_batch = None
        state.boundaries += 1
        return True

    def _pass_unshown(self) -> bool:
        """The boundary while somebody only looks, behind a step that is not among those shown."""
        state = self._state
        state.layer_report = None
        self._send_scalars()
        with state.lock:
            going = bool(state.viewer_count and not state.has_requests)
            if going:
                state.capture_store.step_begins(every_step=False, viewers=True)
        if not going:  # somebody came with a wish, or the last viewer left
            return self._pass_through()
        state.boundaries += 1
        if (
            state.capture_store.clones_step
        ):  # else nothing can stop the loop there: no wish is pressing
            self._weight_changes.begin(by_hand=False)
        state.call_step_listeners()
        return True

    def _send_scalars(self) -> None:
        """Send this step's scalars to the sinks."""
        state = self._state
        if state.step_scalars:
            scalars, state.step_scalars = state.step_scalars, {}
            state.send_scalars(scalars)
            if type(state.loss) is not float:
                state.loss_readout.note(state.loss)

    def _pass_through(self) -> bool:
        """Obey the queue, stand if asked to, then let the next step begin. False to stop."""
        going = self._run_commands()
        state = self._state
        state.boundaries += 1
        with state.lock:
            state.breakpoint_evidence = None
            by_hand = state.pause_requested or state.gate.target == state.finished_steps + 1
            state.capture_store.step_begins(every_step=by_hand, viewers=state.viewer_count > 0)
            state.refresh_flags()
            self._last_step_unobserved, self._has_no_request = (
                not state.is_observed,
                not state.has_requests,
            )
        self._weight_changes.begin(by_hand=by_hand)
        state.call_step_listeners()
        return going

    def drain(self) -> None:
        """Carry out what waits in the queue; neither go nor stand."""
        while True:
            with self._state.lock:
                if not self._state.command_table.queue:
                    return
                record = self._state.command_table.queue.popleft()
            self._run_command(record)

    def _run_commands(self) -> bool:
        """Empty the queue, then go on, stop, or stand until one of them is asked for."""
        while True:
            self._watches.begin()  # before anything moves, so that the start is right
            self._weight_changes.serve()
            record, going = self._next_action()
            if record is not None:
                self._run_command(record)
            elif going is None:
                self._park()
            else:
                return self._leave(going=going)

    def _next_action(self) -> tuple[CommandRecord | None, bool | None]:
        """The next command, or whether to go (True), stop (False) or stand (None)."""
        state = self._state
        with state.lock:
            if state.stop_commands or state.end == "stopped":
                return None, False
            if state.command_table.queue:
                return state.command_table.queue.popleft(), None
            return None, self._may_continue()

    def _may_continue(self) -> bool | None:
        state = self._state
        if state.end == "finished":
            return True
        if state.active_hold is not None:
            return None
        if state.end == "failed":
            return True if state.gate.mode == "run" else None
        opens, complete = state.gate.check_open(state.finished_steps)
        state.completed_commands += complete
        if complete:
            state.command_table.gate_closed()
        return True if opens else None

    def _leave(self, *, going: bool) -> bool:
        """Leave the boundary; once stopped, everything that waits is refused."""
        state = self._state
        stops = not going and state.end != "failed"
        if (
            state.is_parked and not stops
        ):  # before the answers: they tell the state after the effect
            with state.lock:
                state.is_parked, state.has_started = False, True
            state.notify()
        self._answer_completed()
        if stops:
            state.close("stopped")
        return going

    def _park(self) -> None:
        """Park: clone what is to be looked at, answer who asked for this, wait for a wish."""
        state = self._state
        if not state.is_parked:
            state.capture_store.publish(state.finished_steps)
            state.loss_readout.read_now(state.loss)
            self._weight_changes.end()
            with state.lock:
                state.is_parked = True
            state.notify()
        self._answer_completed()
        with state.lock:
            waited_for = state.watch_list.has_new_rows or self._weight_changes.has_waiting_reader
            if not (state.command_table.queue or state.stop_commands or waited_for):
                # Never for ever: a signal that reached another thread is handled at the next look.
                state.changed.wait(PARK_POLL_S if state.active_hold is None else HOLD_POLL_S)
            hold = state.active_hold
        if hold is not None and hold[1]():
            with state.lock:
                state.active_hold = None

    def _answer_completed(self) -> None:
        state = self._state
        with state.lock:
            complete, state.completed_commands = state.completed_commands, []
        for record in complete:
            state.finish_command(record, "done", result={"step": state.finished_steps})

    # -- commands ---------------------------------------------------------------------------------

    def _run_command(self, record: CommandRecord) -> None:
        record.status, record.step = "running", self._state.finished_steps
        refusal = self._refusal_now(record)
        if refusal is not None:
            self._state.finish_command(record, "refused", reason=refusal)
        elif record.command.name in VERBS:
            with self._state.lock:
                self._run_verb(record)
        else:
            self._run_handler(record)

    def _refusal_now(self, record: CommandRecord) -> str | None:
        """Why a command that was admitted cannot be carried out now; None when it can."""
        gate, table = self._state.gate, self._state.command_table
        name = record.command.name
        moves = table.registry[name].moves_training
        if gate.mode == "run" and (name == "step" or (moves and not table.loop_is_idle)):
            return RUNNING  # the pause it was admitted after has been cancelled
        return STEPPING if moves and gate.grants else None

    def _run_verb(self, record: CommandRecord) -> None:
        """Under the lock: carry out a verb. It is answered once its effect is there."""
        gate, complete = self._state.gate, self._state.completed_commands
        if isinstance(record.payload, StepPayload):
            gate.grant(record, record.payload.n)
        elif isinstance(record.payload, RunUntilPayload):
            complete += gate.run_until(record, record.payload.step)
        else:
            turn = gate.pause if record.command.name == "pause" else gate.resume
            complete += [*turn(), record]

    def _run_handler(self, record: CommandRecord) -> None:
        state = self._state
        with state.lock:
            state.command_table.running_record = record
            handler = state.command_table.handlers[record.command.name]
        state.notify()
        status: Status = "done"
        result: Any = None
        reason: str | None = None
        try:
            result = self._run_slices(handler(record.payload), record)
        except Exception as error:
            # Whatever a command raises is its result; the training goes on.
            log.info("command %s failed", record.command.name, exc_info=True)
            own = isinstance(error, ControlError)  # made to be read as it is
            status, reason = "failed", str(error) if own else f"{type(error).__name__}: {error}"
        with state.lock:
            state.command_table.running_record = None
            if isinstance(result, StepsToPass):
                state.gate.grant(record, result.n)
                return
        state.finish_command(record, status, reason=reason, result=result)

    def _run_slices(self, returned: Any, record: CommandRecord) -> Any:
        """Run a generator command to its end, slice by slice; anything else is the result."""
        if not isinstance(returned, GeneratorType):
            return returned
        while True:
            try:
                record.progress = next(returned)
            except StopIteration as end:
                return end.value
            if record.cancelled or self._state.stop_commands:
                returned.close()
                raise ControlError("cancelled" if record.cancelled else "the run was stopped")
            self._state.notify()

    # -- breakpoints ------------------------------------------------------------------------------

    def _step_view(self) -> StepView:
        """This step's scalars as floats, as far as an armed condition reads them."""
        state = self._state
        known = {
            **state.described_fields,
            **state.scalars_outside_step,
            **state.step_scalars,
            "step": state.finished_steps,
        }
        state.scalars_outside_step = {}
        read = {name: known[name] for name in state.breakpoint_list.scalar_names & known.keys()}
        floats = {name: as_float(value) for name, value in read.items()}
        batch = state.capture_store.batch_of(state.finished_steps - 1)
        wants_ids = batch is not None and state.breakpoint_list.needs_sample_ids
        return StepView(
            step=state.finished_steps,
            scalars={name: value for name, value in floats.items() if value is not None},
            sample_ids=as_ids(batch.sample_ids) if batch is not None and wants_ids else None,
            on_device=frozenset(name for name, value in read.items() if is_on_device(value)),
            layers=state.layer_report,
        )

    def _record_mark(self, marker: Breakpoint, hit: Hit) -> None:
        """Write the evidence down, and go on."""
        state = self._state
        batch = state.capture_store.batch_of(state.finished_steps - 1)
        evidence = make_evidence(marker, hit, step=state.finished_steps, batch=batch)
        state.send_intervention(kind="mark", who="breakpoint", **evidence)
        state.notify()

    def _pause_at(self, stopper: Breakpoint, hit: Hit) -> None:
        """Close the gate with the evidence, and put that into the command log."""
        state = self._state
        batch = state.capture_store.batch_of(state.finished_steps - 1)
        evidence = make_evidence(stopper, hit, step=state.finished_steps, batch=batch)
        pause = Command(name="pause", payload={"breakpoint": stopper.id}, who="breakpoint")
        with state.lock:
            state.completed_commands += state.gate.pause()
            state.command_table.gate_closed()
            state.breakpoint_evidence = evidence
            record = state.command_table.open_record(pause, state.finished_steps)
        state.send_intervention(kind="breakpoint", who="breakpoint", **evidence)
        state.finish_command(record, "done", result={"breakpoint": stopper.id})
