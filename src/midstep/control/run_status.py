"""The state of a run, as the page and the terminal show it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from midstep.control.capture.captured_data import StepData
from midstep.control.control_state import ControlState, Park

RATE_WINDOW_S = 5.0
MIN_INTERVAL_S = 0.2
NO_SNAPSHOTS = "This loop keeps no snapshots; train with a Session, or attach with a loader."


class StepRate:
    """Steps per second, computed from (time, step) pairs that readers of the state observe.

    The loop itself measures nothing, so that an unobserved step does not pay for a clock.

    >>> now = iter([0.0, 1.0])
    >>> rate = StepRate(lambda: next(now))
    >>> _ = rate.observe(0, makes_steps=True)
    >>> rate.observe(50, makes_steps=True)
    (50.0, 0.0)
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._observations: deque[tuple[float, int]] = deque()
        self._changed_at: float | None = None
        self._last_position: tuple[int, int] | None = None
        self._rate: float | None = None

    def observe(
        self, step: int, *, makes_steps: bool, boundaries: int = 0
    ) -> tuple[float | None, float]:
        """Note that `step` is reached now.

        Args:
            step: finished steps.
            boundaries: how many boundaries were passed, those without a finished step included.
            makes_steps: False while the run is parked or has ended; such time does not count.

        Returns:
            Steps per second over the last few seconds of movement, None before two observations;
            and the seconds since the counts were last seen to change.
        """
        now = self._clock()
        position = (step, boundaries)
        if position != self._last_position or not makes_steps or self._changed_at is None:
            self._last_position, self._changed_at = position, now
        if makes_steps:
            self._measure(now, step)
        else:
            self._observations.clear()
        return self._rate, now - self._changed_at

    def _measure(self, now: float, step: int) -> None:
        # A step below the oldest one means that the run went back: older pairs are void.
        while self._observations and (
            now - self._observations[0][0] > RATE_WINDOW_S or step < self._observations[0][1]
        ):
            self._observations.popleft()
        # Several viewers read within milliseconds; a rate over so short a time is noise.
        if self._observations and now - self._observations[0][0] >= MIN_INTERVAL_S:
            since, first = self._observations[0]
            self._rate = (step - first) / (now - since)
        if not self._observations or now - self._observations[-1][0] >= MIN_INTERVAL_S:
            self._observations.append((now, step))


PHASE_S = 600.0
"""A phase that the loop has named may take so long, unless it says otherwise."""
_MOVING = frozenset({"running", "stepping", "pausing"})


class RunStatus:
    """What a run shows of itself: its state, its phase, how far back it can go."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._rate = StepRate(state.clock)

    def describe(self, **fields: Any) -> None:
        """Set what the state shows: total_steps, epoch, total_epochs, lr, phase, timeline."""
        # A new dict, so that readers without the lock see either all of the old or all of the new.
        with self._state.lock:
            self._state.described_fields = {**self._state.described_fields, **fields}
            if "total_steps" in fields:
                self._state.captures.last_step = fields["total_steps"]

    def begin_phase(self, name: str, expect_s: float | None = None) -> dict[str, Any]:
        """Show long work between two steps under its name; returns the fields to describe after it.

        Args:
            name: of the work.
            expect_s: after so many seconds a loop in this phase hangs; 10 minutes if None.
        """
        before = self._state.described_fields
        limit_s = PHASE_S if expect_s is None else expect_s
        self.describe(phase=name, phase_began=self._state.clock(), phase_limit_s=limit_s)
        self._state.notify()
        return {field: before.get(field) for field in ("phase", "phase_began", "phase_limit_s")}

    @property
    def phase_s(self) -> float | None:
        """For how long the phase that the loop has named lasts; None outside of one."""
        described = self._state.described_fields
        began = described.get("phase_began")
        return None if began is None or described.get("phase") is None else self._since(began)

    def _since(self, began: float) -> float:
        return max(0.0, self._state.clock() - began)

    @property
    def is_overdue(self) -> bool:
        """Whether a named phase takes longer than was expected of it."""
        limit_s, phase_s = self._state.described_fields.get("phase_limit_s"), self.phase_s
        return phase_s is not None and limit_s is not None and phase_s > float(limit_s)

    def get_state(self) -> dict[str, Any]:
        """The state as the page shows it; the fields of `server.debug.command_schemas.StateOut`."""
        state = self._state
        # Before the lock: it may read a device, and the training thread needs the lock.
        loss = state.loss_readout.read(state.loss)
        with state.lock:
            batch = state.captures.recent[0] if state.captures.recent else None
            shown, keys, panels = self._step_data()
            described, running = state.described_fields, state.queue.running_record
            steps_per_s, boundary_age_s = self._rate.observe(
                state.finished_steps,
                boundaries=state.boundaries,
                makes_steps=self.makes_steps,
            )
            return {
                "state": self.state_name,
                "paused": state.pause_requested,
                "parked": state.is_parked,
                "stopped": bool(state.stop_commands) or state.end == "stopped",
                "step": state.finished_steps,
                "total_steps": described.get("total_steps"),
                "epoch": described.get("epoch"),
                "total_epochs": described.get("total_epochs"),
                "loss": loss,
                "lr": described.get("lr"),
                "steps_per_s": steps_per_s,
                "timeline": described.get("timeline", 0),
                "has_batch": batch is not None,
                "batch_step": None if batch is None else batch.step,
                "step_data_keys": keys,
                "step_data_offered": list(state.captures.data.offered),
                "step_data_step": shown.step if shown.values else None,
                "step_data_additions": shown.additions,
                "step_data_panels": panels,
                "breakpoint": state.breakpoint_evidence,
                "diagnosed_step": None if state.diagnosis is None else state.diagnosis["step"],
                "repeated": described.get("repeated"),
                "phase": self.phase,
                "phase_s": self.phase_s,
                "waiting_for": self._waiting_for(),
                "reason": self._reason(),
                "busy_with": None if running is None else running.command.id,
                "steps_left": state.gate.steps_left or None,
                "run_until": state.gate.target,
                "boundary_age_s": boundary_age_s,
                "offers": sorted(state.queue.registry),
                "checkpoints_off": described.get("checkpoints_off"),
            }

    @property
    def evidence(self) -> dict[str, Any] | None:
        """Why the run is paused, if a breakpoint paused it."""
        return self._state.breakpoint_evidence

    @property
    def diagnosis(self) -> dict[str, Any] | None:
        """Where the last stop came from; None before the first one."""
        return self._state.diagnosis

    @property
    def failure(self) -> dict[str, Any] | None:
        """What ended the run: error, traceback and step; None if no error did."""
        return self._state.failure

    def note_failure(self, error: str, traceback: str, step: int, *, in_model: bool) -> None:
        """Note the error that ends the run, before it is shown as failed.

        Args:
            error: its last line.
            traceback: all of it.
            step: finished steps.
            in_model: whether it came out of a call of a module.
        """
        self._state.failure = {
            "error": error,
            "traceback": traceback,
            "step": step,
            "in_model": in_model,
        }

    def diagnosed(self, diagnosis: Mapping[str, Any]) -> None:
        """Show and record where the present stop came from. On the training thread."""
        state = self._state
        with state.changing():
            state.diagnosis = {**diagnosis, "timeline": self.timeline}
            if state.breakpoint_evidence is not None:
                shown = {"title": diagnosis["title"], "cause": diagnosis["cause"]}
                if diagnosis["samples"]:
                    shown |= {name: diagnosis[name] for name in ("samples", "positions")}
                state.breakpoint_evidence = {**state.breakpoint_evidence, **shown}
        state.send_intervention(kind="diagnosis", who="system", **diagnosis)

    def _step_data(self) -> tuple[StepData, list[str], dict[str, str]]:
        """The newest step data; the keys that can be shown; the kinds of their panels.

        While the run moves, also keys that nobody has subscribed to: the next step may show them.
        """
        data = self._state.captures.data
        shown = data.published
        offered = data.offered if self.makes_steps and self._state.finished_steps else {}
        panels = {key: panel for key, panel in offered.items() if panel is not None}
        panels |= shown.panels
        keys = list(dict.fromkeys([*shown.values, *offered]))
        return shown, keys, {key: panel.kind for key, panel in panels.items() if key in keys}

    def _reason(self) -> str | None:
        """Why the run is paused or has ended, or when it continues by itself."""
        state = self._state
        if state.active_hold is not None:
            return state.active_hold[0]
        return state.reason or state.described_fields.get("park_limit")

    def _waiting_for(self) -> str | None:
        """What a requested pause or stop waits for; None if there is no such request."""
        state = self._state
        is_requested = state.pause_requested or state.stop_commands
        if state.is_parked or state.end is not None or not is_requested:
            return None
        return self.phase or "the step in progress"

    @property
    def state_name(self) -> str:
        """One word for the state. Takes no lock, so that a heartbeat can read it at any time."""
        state = self._state
        # In this order: a failed run is parked too, and commands run while the run is parked.
        running = state.queue.running_record
        if state.end is not None:
            return state.end
        if running is not None:
            return "rewinding" if running.command.name == "back" else "busy"
        if state.is_parked:
            return "paused"
        if state.gate.grants:
            return "stepping"
        if state.stop_commands or state.pause_requested:
            return "pausing"
        return "running" if state.has_started or state.step_index else "starting"

    @property
    def boundary_is_due(self) -> bool:
        """Whether the next boundary is due, so that a loop which does not reach it hangs.

        False while the run is parked, before its first step, during a command, or in a phase that
        the loop has declared, until that is overdue.
        """
        return self.state_name in _MOVING and (self.phase is None or self.is_overdue)

    @property
    def makes_steps(self) -> bool:
        """Whether further steps come without a command: the run is neither paused nor ended."""
        return not self._state.is_parked and self._state.end is None

    @property
    def timeline(self) -> int:
        """How often the run went back to an earlier step."""
        return int(self._state.described_fields.get("timeline", 0))

    @property
    def park(self) -> Park | None:
        """Why the training thread parked last; None before the first time."""
        return self._state.park

    @property
    def phase(self) -> str | None:
        """What the loop does between two boundaries, such as a validation."""
        phase = self._state.described_fields.get("phase")
        return None if phase is None else str(phase)

    @property
    def progress(self) -> dict[str, Any]:
        """The last described epoch, total_epochs and total_steps. Takes no lock."""
        described = self._state.described_fields
        return {name: described.get(name) for name in ("epoch", "total_epochs", "total_steps")}

    def offer_rewind(self, describe: Callable[[], dict[str, Any]] | None) -> None:
        """Set the function that returns how far back the run can go; any thread calls it."""
        self._state.read_rewind = describe

    def get_rewind(self) -> dict[str, Any]:
        """How far back the run can go; `server.debug.command_schemas.RewindOut` has each field.

        >>> from midstep.control import DebugController
        >>> DebugController().status.get_rewind()["available"]
        False
        """
        state = self._state
        rewind: dict[str, Any] = {
            "available": False,
            "reason": NO_SNAPSHOTS,
            "first_step": None,
            "step": state.finished_steps,
            "snapshot_steps": [],
            "bytes": 0,
            "budget_bytes": 0,
            "replay_cost_s": None,
            "timeline": state.described_fields.get("timeline", 0),
        }
        if state.read_rewind is not None:
            rewind |= state.read_rewind()
        if rewind["available"] and state.end is not None:
            rewind |= {"available": False, "reason": f"The run is {state.end}."}
        return rewind
