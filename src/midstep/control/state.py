"""The state of a run, as the page and the terminal show it."""

from __future__ import annotations

from typing import Any

from midstep.control.pace import Pace
from midstep.control.shared import Shared

__all__ = ["describe_rewind", "describe_state", "is_moving", "name_of_state"]

_MOVING = frozenset({"running", "stepping", "pausing"})


def describe_state(shared: Shared, pace_seen: Pace) -> dict[str, Any]:
    """Every field of `server.models.StateOut`."""
    loss = shared.reading.of(shared.loss)  # whoever asks, nobody waits for a device
    with shared.lock:
        batch, shown, about = shared.captures.batch, shared.captures.shown, shared.about
        moving = not shared.parked and shared.end is None
        pace = pace_seen.look(shared.finished, moving=moving)
        return {
            "state": name_of_state(shared),
            "paused": shared.paused,
            "parked": shared.parked,
            "stopped": bool(shared.stopping) or shared.end == "stopped",
            "step": shared.finished,
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
            "breakpoint": shared.evidence,
            "waiting_for": _what_a_pause_waits_for(shared),
            "reason": shared.reason if shared.hold is None else shared.hold[0],
            "busy_with": shared.desk.running.command.id if shared.desk.running else None,
            "steps_left": shared.gate.steps_left or None,
            "run_until": shared.gate.target,
            "boundary_age_s": pace.boundary_age_s,
            "offers": sorted(shared.desk.registry),
        }


def describe_rewind(shared: Shared) -> dict[str, Any]:
    """Every field of `server.models_rewind.RewindOut`."""
    nothing = {
        "available": False,
        "reason": "This loop keeps no snapshots; train with a Session, or attach with a loader.",
        "first_step": None,
        "step": shared.finished,
        "snapshot_steps": [],
        "bytes": 0,
        "budget_bytes": 0,
        "replay_cost_s": None,
        "timeline": shared.about.get("timeline", 0),
    }
    told = nothing if shared.rewind is None else {**nothing, **shared.rewind()}
    if told["available"] and shared.end is not None:
        told |= {"available": False, "reason": f"The run is {shared.end}."}
    return told


def name_of_state(shared: Shared) -> str:
    """One word for it."""
    if shared.end is not None:
        return shared.end
    if shared.desk.running is not None:
        return "rewinding" if shared.desk.running.command.name == "back" else "busy"
    if shared.parked:
        return "paused"
    if shared.gate.grants:
        return "stepping"
    if shared.stopping or shared.paused:
        return "pausing"
    return "running" if shared.started or shared.index else "starting"


def is_moving(shared: Shared) -> bool:
    """Whether the next boundary is due, so that a loop which does not reach it hangs."""
    return name_of_state(shared) in _MOVING and shared.about.get("phase") is None


def _what_a_pause_waits_for(shared: Shared) -> str | None:
    if shared.parked or shared.end is not None or not (shared.paused or shared.stopping):
        return None
    return str(shared.about.get("phase") or "the step in progress")
