"""The boundary between two steps, where the training thread obeys.

Everything here runs on the training thread. It takes the lock for moments, and never while
it calls anybody else's code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import GeneratorType
from typing import Any

from midstep.control.breakpoints import Breakpoint, Verdict, evidence_of
from midstep.control.capture import CapturedBatch, as_float, as_ids, is_on_device
from midstep.control.changes import Changes
from midstep.control.commands import (
    Command,
    CommandRecord,
    CommandSpec,
    Status,
    StepsToPass,
)
from midstep.control.conditions import Hit, StepView
from midstep.control.desk import (
    RUNNING,
    STEPPING,
    VERBS,
    RunUntilPayload,
    StepPayload,
    make_payload,
)
from midstep.control.follower import Follower
from midstep.control.shared import Shared
from midstep.core.errors import ControlError

__all__ = ["Boundary"]

log = logging.getLogger("midstep.control")
HOLD_POLL_S = 0.25
STAND_S = 1.0


class Boundary:
    """What the training thread does between two steps, and at a capture."""

    def __init__(self, shared: Shared, follower: Follower, changes: Changes) -> None:
        self._shared = shared
        self._follower = follower
        self._changes = changes
        self._settled = False  # whether the last step began with nobody there to look or ask
        self._unpressed = False  # whether it began with nobody there but to look

    def capture(self, batch: CapturedBatch, *, kept: bool) -> None:
        """Take in what this step was trained on: for sinks, breakpoints and viewers."""
        shared = self._shared
        self._follower.begin()
        loss = batch.loss
        if loss is not None:
            shared.loss = loss.detach() if hasattr(loss, "detach") else loss
            shared.scalars["loss"] = shared.loss
        if shared.gradient_norm is not None and "grad_norm" in shared.breakpoints.names:
            self._take_gradient_norm(shared.gradient_norm)
        shared.captures.take(batch, kept=kept)

    def _take_gradient_norm(self, read: Callable[[], Any]) -> None:
        try:
            self._shared.scalars["grad_norm"] = read()
        except Exception:
            # Somebody's callable: if it raises, it is asked no more and training goes on.
            log.exception("reading the gradient norm raised and is off; training goes on")
            self._shared.gradient_norm = None

    def end_step(self) -> bool:
        """A step is finished: record it, ask the breakpoints, then obey. False to stop."""
        shared = self._shared
        if self._settled and not shared.busy:
            return self._pass_quietly()
        unshown = shared.viewers and not shared.captures.wanted
        if self._unpressed and unshown and not shared.pressing:
            return self._pass_unshown()
        with shared.lock:
            shared.started = True
            shared.complete += shared.gate.step_ended(shared.finished)
            if shared.gate.mode == "pause" and not shared.gate.grants:
                shared.desk.gate_closed()
        self._follower.record()
        verdict = shared.breakpoints.check(self._view()) if shared.breakpoints.armed else Verdict()
        shared.layer_report = None
        self.flush()
        shared.captures.step_ended(shared.finished)
        if shared.captures.wanted:
            self._changes.end()
        for marker, hit in verdict.marks:
            self._mark(marker, hit)
        if verdict.stop is not None:
            self._stop_at(*verdict.stop)
        return self.pass_through()

    def _pass_quietly(self) -> bool:
        """The boundary when only sinks attend, which is nearly always: it takes no lock."""
        shared = self._shared
        shared.started = True
        if shared.scalars:
            self.flush()
            if shared.busy:  # the disk refused
                return self.pass_through()
        shared.captures.held = None
        shared.boundaries += 1
        return True

    def _pass_unshown(self) -> bool:
        """The boundary while somebody only looks, behind a step that is not among those shown."""
        shared = self._shared
        shared.layer_report = None
        self.flush()
        with shared.lock:
            going = bool(shared.viewers and not shared.pressing)
            if going:
                shared.captures.step_begins(every_step=False, viewers=True)
        if not going:  # somebody came with a wish, or the last viewer left
            return self.pass_through()
        shared.boundaries += 1
        if shared.captures.wanted:  # else nothing can stop the loop there: no wish is pressing
            self._changes.begin(by_hand=False)
        shared.begin_step()
        return True

    def flush(self) -> None:
        """Send this step's scalars to the sinks."""
        shared = self._shared
        if shared.scalars:
            scalars, shared.scalars = shared.scalars, {}
            shared.send_scalars(scalars)
            if type(shared.loss) is not float:
                shared.reading.note(shared.loss)

    def pass_through(self) -> bool:
        """Obey the queue, stand if asked to, then let the next step begin. False to stop."""
        going = self.obey()
        shared = self._shared
        shared.boundaries += 1
        with shared.lock:
            shared.evidence = None
            by_hand = shared.paused or shared.gate.target == shared.finished + 1
            shared.captures.step_begins(every_step=by_hand, viewers=shared.viewers > 0)
            shared.refresh_flags()
            self._settled, self._unpressed = not shared.busy, not shared.pressing
        self._changes.begin(by_hand=by_hand)
        shared.begin_step()
        return going

    def drain(self) -> None:
        """Carry out what waits in the queue; neither go nor stand."""
        while True:
            with self._shared.lock:
                if not self._shared.desk.queue:
                    return
                record = self._shared.desk.queue.popleft()
            self._carry_out(record)

    def obey(self) -> bool:
        """Empty the queue, then go on, stop, or stand until one of them is asked for."""
        while True:
            self._follower.begin()  # before anything moves, so that the start is right
            self._changes.serve()
            record, going = self._next()
            if record is not None:
                self._carry_out(record)
            elif going is None:
                self._stand()
            else:
                return self._depart(going=going)

    def _next(self) -> tuple[CommandRecord | None, bool | None]:
        """The next command, or whether to go (True), stop (False) or stand (None)."""
        shared = self._shared
        with shared.lock:
            if shared.stopping or shared.end == "stopped":
                return None, False
            if shared.desk.queue:
                return shared.desk.queue.popleft(), None
            return None, self._may_go()

    def _may_go(self) -> bool | None:
        shared = self._shared
        if shared.end == "finished":
            return True
        if shared.hold is not None:
            return None
        if shared.end == "failed":
            return True if shared.gate.mode == "run" else None
        opens, complete = shared.gate.opens(shared.finished)
        shared.complete += complete
        if complete:
            shared.desk.gate_closed()
        return True if opens else None

    def _depart(self, *, going: bool) -> bool:
        """Leave the boundary; once stopped, everything that waits is refused."""
        shared = self._shared
        stops = not going and shared.end != "failed"
        if shared.parked and not stops:  # before the answers: they tell the state after the effect
            with shared.lock:
                shared.parked, shared.started = False, True
            shared.notify()
        self._answer_complete()
        if stops:
            shared.close("stopped")
        return going

    def _stand(self) -> None:
        """Park: clone what is to be looked at, answer who asked for this, wait for a wish."""
        shared = self._shared
        if not shared.parked:
            shared.captures.parking(shared.finished)
            shared.reading.settle(shared.loss)
            self._changes.end()
            with shared.lock:
                shared.parked = True
            shared.notify()
        self._answer_complete()
        with shared.lock:
            waited_for = shared.watches.fresh or self._changes.fresh
            if not (shared.desk.queue or shared.stopping or waited_for):
                # Never for ever: a signal that reached another thread is handled at the next look.
                shared.changed.wait(STAND_S if shared.hold is None else HOLD_POLL_S)
            hold = shared.hold
        if hold is not None and hold[1]():
            with shared.lock:
                shared.hold = None

    def _answer_complete(self) -> None:
        shared = self._shared
        with shared.lock:
            complete, shared.complete = shared.complete, []
        for record in complete:
            shared.finish_command(record, "done", result={"step": shared.finished})

    # -- commands ---------------------------------------------------------------------------------

    def _carry_out(self, record: CommandRecord) -> None:
        record.status, record.step = "running", self._shared.finished
        spec = self._shared.desk.registry[record.command.name]
        payload = make_payload(spec, record.command.payload)
        refusal = self._out_of_place(spec)
        if refusal is not None:
            self._shared.finish_command(record, "refused", reason=refusal)
        elif record.command.name in VERBS:
            with self._shared.lock:
                self._turn_gate(record, payload)
        else:
            self._run(spec, payload, record)

    def _out_of_place(self, spec: CommandSpec) -> str | None:
        """Why a command that was admitted cannot be carried out now; None when it can."""
        gate, idle = self._shared.gate, self._shared.desk.idle
        if gate.mode == "run" and (spec.name == "step" or (spec.moves and not idle)):
            return RUNNING  # the pause it was admitted behind has been cancelled
        return STEPPING if spec.moves and gate.grants else None

    def _turn_gate(self, record: CommandRecord, payload: object) -> None:
        """Under the lock: carry out a verb. It is answered once its effect is there."""
        gate, complete = self._shared.gate, self._shared.complete
        if isinstance(payload, StepPayload):
            gate.grant(record, payload.n)
        elif isinstance(payload, RunUntilPayload):
            complete += gate.run_until(record, payload.step)
        else:
            turn = gate.pause if record.command.name == "pause" else gate.resume
            complete += [*turn(), record]

    def _run(self, spec: CommandSpec, payload: object, record: CommandRecord) -> None:
        shared = self._shared
        with shared.lock:
            shared.desk.running = record
        shared.notify()
        status: Status = "done"
        result: Any = None
        reason: str | None = None
        try:
            result = self._in_slices(spec.run(payload), record)
        except Exception as error:
            # Whatever a command raises is its result; the training goes on.
            log.info("command %s failed", record.command.name, exc_info=True)
            own = isinstance(error, ControlError)  # made to be read as it is
            status, reason = "failed", str(error) if own else f"{type(error).__name__}: {error}"
        with shared.lock:
            shared.desk.running = None
            if isinstance(result, StepsToPass):
                shared.gate.grant(record, result.n)
                return
        shared.finish_command(record, status, reason=reason, result=result)

    def _in_slices(self, made: Any, record: CommandRecord) -> Any:
        """Run a generator command to its end, slice by slice; anything else is the result."""
        if not isinstance(made, GeneratorType):
            return made
        while True:
            try:
                record.progress = next(made)
            except StopIteration as end:
                return end.value
            if record.cancelled or self._shared.stopping:
                made.close()
                raise ControlError("cancelled" if record.cancelled else "the run was stopped")
            self._shared.notify()

    # -- breakpoints ------------------------------------------------------------------------------

    def _view(self) -> StepView:
        """This step's scalars as floats, as far as an armed condition reads them."""
        shared = self._shared
        known = {**shared.about, **shared.between, **shared.scalars, "step": shared.finished}
        shared.between = {}
        read = {name: known[name] for name in shared.breakpoints.names & known.keys()}
        floats = {name: as_float(value) for name, value in read.items()}
        batch = shared.captures.batch_of(shared.finished - 1)
        wants_ids = batch is not None and shared.breakpoints.wants_ids
        return StepView(
            step=shared.finished,
            scalars={name: value for name, value in floats.items() if value is not None},
            sample_ids=as_ids(batch.sample_ids) if batch is not None and wants_ids else None,
            on_device=frozenset(name for name, value in read.items() if is_on_device(value)),
            layers=shared.layer_report,
        )

    def _mark(self, marker: Breakpoint, hit: Hit) -> None:
        """Write the evidence down, and go on."""
        shared = self._shared
        batch = shared.captures.batch_of(shared.finished - 1)
        evidence = evidence_of(marker, hit, step=shared.finished, batch=batch)
        shared.send_intervention(kind="mark", who="breakpoint", **evidence)
        shared.notify()

    def _stop_at(self, stopper: Breakpoint, hit: Hit) -> None:
        """Close the gate with the evidence, and put that into the command log."""
        shared = self._shared
        batch = shared.captures.batch_of(shared.finished - 1)
        evidence = evidence_of(stopper, hit, step=shared.finished, batch=batch)
        pause = Command(name="pause", payload={"breakpoint": stopper.id}, who="breakpoint")
        with shared.lock:
            shared.complete += shared.gate.pause()
            shared.desk.gate_closed()
            shared.evidence = evidence
            record = shared.desk.open_record(pause, shared.finished)
        shared.send_intervention(kind="breakpoint", who="breakpoint", **evidence)
        shared.finish_command(record, "done", result={"breakpoint": stopper.id})
