"""The state of a run, as the page and the terminal show it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from midstep.control.control_state import ControlState

RATE_WINDOW_S = 5.0
MIN_INTERVAL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class StepRateView:
    """The pace at one look."""

    steps_per_s: float | None
    """Over the last few seconds of movement; None before two looks."""
    boundary_age_s: float
    """Seconds since the step count was last seen to change; 0 while it stands on purpose."""


class StepRate:
    """Looks are samples of (time, step); the loop itself notes nothing.

    >>> now = iter([0.0, 1.0])
    >>> pace = StepRate(lambda: next(now))
    >>> _ = pace.observe(0, moving=True)
    >>> pace.observe(50, moving=True).steps_per_s
    50.0
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._observations: deque[tuple[float, int]] = deque()
        self._changed_at: float | None = None
        self._last_step: int | None = None
        self._rate: float | None = None

    def observe(self, step: int, *, moving: bool) -> StepRateView:
        """Note that `step` is reached now; standing on purpose does not count against the pace."""
        now = self._clock()
        if step != self._last_step or not moving or self._changed_at is None:
            self._last_step, self._changed_at = step, now
        if moving:
            self._measure(now, step)
        else:
            self._observations.clear()
        return StepRateView(steps_per_s=self._rate, boundary_age_s=now - self._changed_at)

    def _measure(self, now: float, step: int) -> None:
        while self._observations and (
            now - self._observations[0][0] > RATE_WINDOW_S or step < self._observations[0][1]
        ):
            self._observations.popleft()
        if self._observations and now - self._observations[0][0] >= MIN_INTERVAL_S:
            since, first = self._observations[0]
            self._rate = (step - first) / (now - since)
        if not self._observations or now - self._observations[-1][0] >= MIN_INTERVAL_S:
            self._observations.append((now, step))


_MOVING = frozenset({"running", "stepping", "pausing"})


def describe_state(state: ControlState, pace_seen: StepRate) -> dict[str, Any]:
    """Every field of `server.models.StateOut`."""
    loss = state.loss_readout.read(state.loss)  # whoever asks, nobody waits for a device
    with state.lock:
        batch, shown, about = (
            state.capture_store.batch,
            state.capture_store.shown,
            state.described_fields,
        )
        moving = not state.is_parked and state.end is None
        pace = pace_seen.observe(state.finished_steps, moving=moving)
        return {
            "state": name_state(state),
            "paused": state.pause_requested,
            "parked": state.is_parked,
            "stopped": bool(state.stop_commands) or state.end == "stopped",
            "step": state.finished_steps,
            "total_steps": about.get("total_steps"),
            "epoch": about.get("epoch"),
            "total_epochs": about.get("total_epochs"),
            "loss": loss,
            "lr": about.get("lr"),
            "steps_per_s": pace.steps_per_s,
            "timeline": about.get("timeline", 0),
            "has_batch": batch is not None,
            "batch_step": None if batch is None else batch.step,
            "step_data_keys": list(shown.values),
            "step_data_step": shown.step if shown.values else None,
            "step_data_additions": shown.additions,
            "step_data_panels": {key: panel.kind for key, panel in shown.panels.items()},
            "breakpoint": state.breakpoint_evidence,
            "waiting_for": _waiting_for(state),
            "reason": state.reason if state.active_hold is None else state.active_hold[0],
            "busy_with": state.command_table.running_record.command.id
            if state.command_table.running_record
            else None,
            "steps_left": state.gate.steps_left or None,
            "run_until": state.gate.target,
            "boundary_age_s": pace.boundary_age_s,
            "offers": sorted(state.command_table.registry),
        }


def describe_rewind(state: ControlState) -> dict[str, Any]:
    """Every field of `server.models_rewind.RewindOut`."""
    nothing = {
        "available": False,
        "reason": "This loop keeps no snapshots; train with a Session, or attach with a loader.",
        "first_step": None,
        "step": state.finished_steps,
        "snapshot_steps": [],
        "bytes": 0,
        "budget_bytes": 0,
        "replay_cost_s": None,
        "timeline": state.described_fields.get("timeline", 0),
    }
    told = nothing if state.read_rewind is None else {**nothing, **state.read_rewind()}
    if told["available"] and state.end is not None:
        told |= {"available": False, "reason": f"The run is {state.end}."}
    return told


def name_state(state: ControlState) -> str:
    """One word for it."""
    if state.end is not None:
        return state.end
    if state.command_table.running_record is not None:
        return "rewinding" if state.command_table.running_record.command.name == "back" else "busy"
    if state.is_parked:
        return "paused"
    if state.gate.grants:
        return "stepping"
    if state.stop_commands or state.pause_requested:
        return "pausing"
    return "running" if state.has_started or state.step_index else "starting"


def is_moving(state: ControlState) -> bool:
    """Whether the next boundary is due, so that a loop which does not reach it hangs."""
    return name_state(state) in _MOVING and state.described_fields.get("phase") is None


def _waiting_for(state: ControlState) -> str | None:
    if (
        state.is_parked
        or state.end is not None
        or not (state.pause_requested or state.stop_commands)
    ):
        return None
    return str(state.described_fields.get("phase") or "the step in progress")


class RunStatus:
    """What a run shows of itself: its state, its phase, how far back it can go."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._rate = StepRate(state.clock)

    def describe(self, **fields: Any) -> None:
        """Set what the state shows: total_steps, epoch, total_epochs, lr, phase, timeline."""
        with self._state.lock:
            self._state.described_fields = {**self._state.described_fields, **fields}

    def get_state(self) -> dict[str, Any]:
        """The state as the page shows it; `server.schema_base.StateOut` explains each field."""
        return describe_state(self._state, self._rate)

    @property
    def state_name(self) -> str:
        """One word for the state. Takes no lock, so that a heartbeat can read it at any time."""
        return name_state(self._state)

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
        """Set the function that tells how far back the training can go; any thread may call it."""
        self._state.read_rewind = describe

    def get_rewind(self) -> dict[str, Any]:
        """How far back the run can go; `server.debug.command_schemas.RewindOut` has each field.

        >>> from midstep.control import DebugController
        >>> DebugController().status.get_rewind()["available"]
        False
        """
        return describe_rewind(self._state)
