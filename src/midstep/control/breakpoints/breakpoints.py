"""The breakpoints of a run: changed from any thread, checked by the training thread."""

from __future__ import annotations

from typing import Any

from midstep.control.breakpoints.breakpoint import (
    Action,
    Breakpoint,
    BreakpointHits,
    make_evidence,
)
from midstep.control.breakpoints.conditions import Hit, StepView, make_condition
from midstep.control.breakpoints.layer_report import LayerReport, Measure
from midstep.control.breakpoints.rule import Rule
from midstep.control.capture.capture_store import as_float, as_ids, is_on_device
from midstep.control.command_record import Command
from midstep.control.control_state import ControlState


class Breakpoints:
    """Adds, switches, removes and checks breakpoints; hooks report here what rules need."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

    # -- any thread's side ------------------------------------------------------------------------

    def add(
        self, kind: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """Add a breakpoint; see `DebugController.add_breakpoint`."""
        condition = make_condition(kind, settings)  # checked before the lock is taken
        with self._state.changing():
            return self._state.breakpoint_list.add(condition, enabled=enabled, action=action)

    def add_rule(
        self, rule: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """Add a ready-made breakpoint.

        Args:
            rule: a name of `midstep.control.breakpoints.rule_catalog.RULES`.
            enabled: whether the rule is checked from now on.
            action: `pause` stops the run, `mark` only records the hit.
            **settings: limit, low, window, every, layers, metric, as far as the rule takes them.

        >>> from midstep.control import DebugController
        >>> DebugController().breakpoints.add_rule("dead_relus", action="mark").condition.every
        10
        """
        return self.add(Rule.kind, enabled=enabled, action=action, rule=rule, **settings)

    def remove(self, breakpoint_id: int) -> Breakpoint:
        """Remove a breakpoint and return it."""
        with self._state.changing():
            return self._state.breakpoint_list.remove(breakpoint_id)

    def enable(self, breakpoint_id: int, enabled: bool) -> Breakpoint:
        """Switch a breakpoint on or off."""
        with self._state.changing():
            return self._state.breakpoint_list.enable(breakpoint_id, enabled=enabled)

    def set_action(self, breakpoint_id: int, action: Action) -> Breakpoint:
        """Let a breakpoint stop the run (`pause`), or only record its hits (`mark`)."""
        with self._state.changing():
            return self._state.breakpoint_list.set_action(breakpoint_id, action)

    def list_all(self) -> list[Breakpoint]:
        """All breakpoints by id."""
        with self._state.lock:
            return self._state.breakpoint_list.list_all()

    # -- the training thread's side ---------------------------------------------------------------

    @property
    def measures_due(self) -> frozenset[Measure]:
        """What rules need measured inside the model in the step in progress."""
        state = self._state
        return state.breakpoint_list.measures_at(state.step_index + 1)

    def report_layers(self, report: LayerReport) -> None:
        """Give the rules what was measured inside the model in this step."""
        self._state.layer_report = report

    def check_step(self) -> BreakpointHits:
        """Check every armed condition against the step that has just ended."""
        return self._state.breakpoint_list.check(self._step_view())

    def _step_view(self) -> StepView:
        """This step's scalars as floats, as far as an armed condition reads them.

        On a GPU every scalar that is read waits for the device, so no others are converted.
        """
        state = self._state
        known = {
            **state.described_fields,
            **state.scalars_outside_step,
            **state.step_scalars,
            "step": state.finished_steps,
        }
        state.scalars_outside_step = {}  # conditions see a validation once, not until the next one
        read = {name: known[name] for name in state.breakpoint_list.scalar_names & known.keys()}
        floats = {name: as_float(value) for name, value in read.items()}
        batch = state.capture_store.batch_of(state.finished_steps - 1)
        reads_ids = batch is not None and state.breakpoint_list.needs_sample_ids
        return StepView(
            step=state.finished_steps,
            scalars={name: value for name, value in floats.items() if value is not None},
            sample_ids=as_ids(batch.sample_ids) if batch is not None and reads_ids else None,
            on_device=frozenset(name for name, value in read.items() if is_on_device(value)),
            layers=state.layer_report,
        )

    def record_hits(self, hits: BreakpointHits) -> None:
        """Send the evidence of every hit to the sinks, and pause the run if one stops it."""
        for marker, hit in hits.marks:
            self._state.send_intervention(
                kind="mark", who="breakpoint", **self._evidence(marker, hit)
            )
            self._state.notify()
        if hits.stop is not None:
            self._pause_at(*hits.stop)

    def _evidence(self, breakpoint_: Breakpoint, hit: Hit) -> dict[str, Any]:
        step = self._state.finished_steps
        batch = self._state.capture_store.batch_of(step - 1)
        return make_evidence(breakpoint_, hit, step=step, batch=batch)

    def _pause_at(self, stopper: Breakpoint, hit: Hit) -> None:
        """Close the gate, and record that as a `pause` command of the breakpoint."""
        state, evidence = self._state, self._evidence(stopper, hit)
        pause = Command(name="pause", payload={"breakpoint": stopper.id}, who="breakpoint")
        with state.lock:
            state.completed_commands += state.gate.pause()
            state.command_table.gate_closed()
            state.breakpoint_evidence = evidence
            # A record like that of any other pause, so that the command log explains the stop.
            record = state.command_table.open_record(pause, state.finished_steps)
        state.send_intervention(kind="breakpoint", who="breakpoint", **evidence)
        state.finish_command(record, "done", result={"breakpoint": stopper.id})
