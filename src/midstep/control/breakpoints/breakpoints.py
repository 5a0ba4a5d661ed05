"""The breakpoints of a run: changed from any thread, checked by the training thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from midstep.control.breakpoints.breakpoint import Action, Breakpoint, make_evidence
from midstep.control.breakpoints.conditions import Hit, StepView, make_condition
from midstep.control.breakpoints.layer_report import LayerReport, Measure
from midstep.control.breakpoints.rule import Rule
from midstep.control.capture.captured_data import as_float, as_ids, is_on_device
from midstep.control.command_record import Command
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState


class Breakpoints:
    """Adds, switches, removes and checks breakpoints; hooks report here what rules need.

    `armed`, `scalar_names` and `_needs_sample_ids` are replaced as a whole under the lock, so that
    the training thread reads them without it.
    """

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._by_id: dict[int, Breakpoint] = {}
        self._next_id = 1
        self.armed: tuple[Breakpoint, ...] = ()
        self.scalar_names: frozenset[str] = frozenset()
        """Scalars that the armed breakpoints read."""
        self._needs_sample_ids = False

    # -- any thread's side ------------------------------------------------------------------------

    def add(
        self, kind: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """Add a breakpoint; see `DebugController.add_breakpoint`."""
        condition = make_condition(kind, settings)  # checked before the lock is taken
        _check_action(action)
        with self._state.changing():
            added = Breakpoint(
                id=self._next_id,
                condition=condition,
                enabled=enabled,
                action=action,
                unseen_scalars=condition.scalar_names,
            )
            # Ids are never used twice: a late `remove` of a client must not hit another breakpoint.
            self._next_id += 1
            self._by_id[added.id] = added
            self._rearm()
            return added

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
            removed = self._find(breakpoint_id)
            del self._by_id[breakpoint_id]
            self._rearm()
            return removed

    def enable(self, breakpoint_id: int, enabled: bool) -> Breakpoint:
        """Switch a breakpoint on or off."""
        with self._state.changing():
            changed = self._find(breakpoint_id)
            changed.enabled = enabled
            self._rearm()
            return changed

    def set_action(self, breakpoint_id: int, action: Action) -> Breakpoint:
        """Let a breakpoint stop the run (`pause`), or only record its hits (`mark`)."""
        with self._state.changing():
            changed = self._find(breakpoint_id)
            _check_action(action)
            changed.action = action
            return changed

    def list_all(self) -> list[Breakpoint]:
        """All breakpoints by id."""
        with self._state.lock:
            return list(self._by_id.values())

    def _find(self, breakpoint_id: int) -> Breakpoint:
        try:
            return self._by_id[breakpoint_id]
        except KeyError:
            known = ", ".join(map(str, self._by_id)) or "none"
            raise ConfigError(f"no breakpoint {breakpoint_id}; there are {known}") from None

    def _rearm(self) -> None:
        # After every change, so that a step tests three attributes and no breakpoint.
        self.armed = tuple(each for each in self._by_id.values() if each.enabled)
        self.scalar_names = frozenset().union(*(each.condition.scalar_names for each in self.armed))
        self._needs_sample_ids = any(each.kind == "sample" for each in self.armed)

    # -- the training thread's side ---------------------------------------------------------------

    @property
    def measures_due(self) -> frozenset[Measure]:
        """What rules need measured inside the model in the step in progress."""
        if not self.armed:  # nearly always, and called several times a step
            return frozenset()
        step = self._state.step_index + 1
        return frozenset().union(*(each.condition.measures_at(step) for each in self.armed))

    @property
    def may_stop_step(self) -> bool:
        """Whether a breakpoint may pause the run after the step in progress."""
        step = self._state.step_index + 1
        return any(each.action == "pause" and each.condition.is_due(step) for each in self.armed)

    def report_layers(self, report: LayerReport) -> None:
        """Give the rules what was measured inside the model in this step."""
        self._state.layer_report = report

    def check_step(self) -> list[tuple[Breakpoint, Hit]]:
        """Check every armed condition against the step that has just ended.

        Returns what to record: marks whose condition begins to hold, then the first one that
        pauses the run.
        """
        view = self._step_view()
        # Every condition is checked in every step, also after a hit: windows need all losses.
        hits = [(each, hit) for each in self.armed if (hit := each.condition.check(view))]
        marks = [pair for pair in hits if pair[0].action == "mark" and not pair[0].condition_holds]
        stops = [pair for pair in hits if pair[0].action == "pause"]
        holding = {each.id for each, _ in hits}
        for each, _ in hits:
            each.count_hit(view.step)
        for each in self.armed:
            each.was_checked = True
            each.condition_holds = each.id in holding
            if each.unseen_scalars:
                each.unseen_scalars -= view.scalars.keys()
            if view.on_device:
                each.on_device |= bool(each.condition.scalar_names & view.on_device)
        return marks + stops[:1]

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
        read = {name: known[name] for name in self.scalar_names & known.keys()}
        floats = {name: as_float(value) for name, value in read.items()}
        batch = state.captures.batch_of(state.finished_steps - 1)
        return StepView(
            step=state.finished_steps,
            scalars={name: value for name, value in floats.items() if value is not None},
            sample_ids=as_ids(batch.sample_ids) if batch and self._needs_sample_ids else None,
            on_device=frozenset(name for name, value in read.items() if is_on_device(value)),
            layers=state.layer_report,
        )

    def record_hits(self, hits: list[tuple[Breakpoint, Hit]]) -> None:
        """Send the evidence of every hit to the sinks, and pause the run if one stops it."""
        step = self._state.finished_steps
        batch = self._state.captures.batch_of(step - 1)
        for breakpoint_, hit in hits:
            evidence = make_evidence(breakpoint_, hit, step=step, batch=batch)
            if breakpoint_.action == "mark":
                self._state.send_intervention(kind="mark", who="breakpoint", **evidence)
                self._state.notify()
            else:
                self._pause_at(breakpoint_, evidence)

    def _pause_at(self, stopper: Breakpoint, evidence: dict[str, Any]) -> None:
        """Close the gate, and record that as a `pause` command of the breakpoint."""
        state = self._state
        pause = Command(name="pause", payload={"breakpoint": stopper.id}, who="breakpoint")
        with state.lock:
            state.completed_commands += state.gate.pause()
            state.queue.gate_closed()
            state.breakpoint_evidence = evidence
            # A record like that of any other pause, so that the command log explains the stop.
            record = state.queue.open_record(pause)
        state.send_intervention(kind="breakpoint", who="breakpoint", **evidence)
        state.finish_command(record, "done", result={"breakpoint": stopper.id})


def _check_action(action: str) -> None:
    if action not in get_args(Action):
        raise ConfigError(f"action must be pause or mark, got {action!r}")
