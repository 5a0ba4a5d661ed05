"""The breakpoints of a run, for callers on any thread."""

from __future__ import annotations

from typing import Any

from midstep.control.breakpoints.breakpoint import Action, Breakpoint
from midstep.control.breakpoints.conditions import make_condition
from midstep.control.breakpoints.layer_report import LayerReport, Measure
from midstep.control.breakpoints.rule import Rule
from midstep.control.control_state import ControlState


class Breakpoints:
    """Adds, switches and removes breakpoints; hooks report here what rules need."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

    def add(
        self, kind: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """Add a breakpoint; see `DebugController.add_breakpoint`."""
        condition = make_condition(kind, settings)
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

    @property
    def measures_due(self) -> frozenset[Measure]:
        """What rules need measured inside the model in the step in progress."""
        state = self._state
        return state.breakpoint_list.measures_at(state.step_index + 1)

    def report_layers(self, report: LayerReport) -> None:
        """Give the rules what was measured inside the model in this step."""
        self._state.layer_report = report
