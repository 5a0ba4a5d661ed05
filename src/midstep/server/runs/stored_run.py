"""A run read from its directory: ended, killed, on another host, or live without a socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from midstep.control import (
    CommandRecord,
    DebugController,
    StepData,
    Viewer,
)
from midstep.control.capture.notices import CaptureNotice
from midstep.control.capture.weight_changes import WeightChange
from midstep.control.command_queue import VERBS
from midstep.control.watches.watches import TrackedRows
from midstep.core.errors import ConfigError, ControlError
from midstep.facts import FactsReader, FactsTail
from midstep.facts.format.stop_files import list_stops
from midstep.facts.index.run_row import ACTIVE_STATES
from midstep.facts.liveness.lease import read_lease
from midstep.facts.liveness.run_liveness import EndState, HeartbeatWatch, end_state, written_bytes
from midstep.server.forward.live_sockets import SILENT_S, find_live_socket, heartbeat_age_s
from midstep.server.problems import Refusal, damaged_files
from midstep.server.runs.kept_step import KeptStops
from midstep.server.runs.run_view import ENDED, RunView, ShownBreakpoint
from midstep.server.runs.stored_step import StoredStep, copy_tracked, read_stored_step

END_EVERY_S = 0.5
"""Whether and how the run ended is read from disk at most this often."""
STEP_EVERY_S = 5.0
"""The last step is read again at most this often: it needs a pass over all facts."""
HELD = frozenset({"running", "not responding"})
"""States of a run whose lock a process still holds."""
NO_REWIND = "This loop keeps no snapshots; train with a Session, or attach with a loader."
"""Snapshots are in the memory of the training process, so a stored run has none."""
WEIGHTS_NOTE = (
    "as the facts and the newest checkpoint tell: how the last step moved each row, "
    "and whether its forces agreed, was not kept"
)
_watch = HeartbeatWatch()


class StoredStop:
    """The last stop of a stored run, from its records.

    Args:
        read: returns what the files say now.
    """

    def __init__(self, read: Callable[[], StoredStep]) -> None:
        self._read = read

    @property
    def diagnosis(self) -> Mapping[str, Any] | None:
        """The last record of a diagnosis."""
        return self._read().diagnosis

    @property
    def failure(self) -> Mapping[str, Any] | None:
        """The record of the error that ended the last attempt."""
        return self._read().failure


class StoredRunView(RunView):
    """A run read from its facts, its artifacts and its newest checkpoint; nothing is written.

    Args:
        run_id: the id under which the run is listed.
        run_dir: the run directory.
    """

    def __init__(self, run_id: str, run_dir: Path) -> None:
        with damaged_files():
            header = FactsReader(run_dir).header()
        super().__init__(
            run_id,
            str(header.get("name") or run_dir.name),
            run_dir,
            float(header.get("wall") or 0.0),
            int(header.get("attempt") or 1),
        )
        self._tail, self._timeline = FactsTail(run_dir), 0
        self._tail_lock = threading.Lock()
        self._end, self._end_read_at = EndState("lost"), float("-inf")
        self._last_step: StoredStep | None = None
        self._step_read_at, self._stamp = float("-inf"), (0, "", 0)
        self._step_lock = threading.Lock()
        self.last_stop = StoredStop(self._step)
        self.kept = KeptStops(run_dir, lambda: self._step().kept)

    @property
    def timeline(self) -> int:
        """How often the run went back to an earlier step."""
        _ = self.seq  # reads what is new on disk
        return self._timeline

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        with self._tail_lock, damaged_files():
            self._timeline = max(self._timeline, self._tail.advance())
            return self._tail.last_seq

    @property
    def is_live(self) -> bool:
        """Whether a process still holds the run, here or elsewhere."""
        return self._current_end().state in HELD

    def _current_end(self) -> EndState:
        """Whether and how the run ended, at most half a second old."""
        # No lock: at worst two threads read the disk at the same time.
        if time.monotonic() - self._end_read_at >= END_EVERY_S:
            self._end, self._end_read_at = _read_end(self.dir), time.monotonic()
            self.has_moved = self._end.state == "running" and find_live_socket(self.dir) is not None
        return self._end

    def _step(self) -> StoredStep:
        """The last step, read at the first call and again when the files have grown."""
        with self._step_lock:
            end = self._current_end()
            is_due = time.monotonic() - self._step_read_at >= STEP_EVERY_S
            # Facts are append-only, so their size tells whether there is anything new.
            stamp = self._stamp
            if is_due:  # a stop that was kept at the end is not in the facts
                stamp = (written_bytes(self.dir), end.state, len(list_stops(self.dir)))
            if self._last_step is None or stamp != self._stamp:
                lease = read_lease(self.dir) if end.state not in ENDED else None
                with damaged_files():
                    self._last_step = read_stored_step(self.dir, lease or {})
                self._step_read_at, self._stamp = time.monotonic(), stamp
            return self._last_step

    @property
    def paused_at(self) -> None:
        """None: a stored run is not paused."""

    def _read_state(self) -> dict[str, Any]:
        """The state of the last step, with how the run ended."""
        end, step = self._current_end(), self._step()
        data, kept = step.step_data, step.kept
        state: dict[str, Any] = {
            "state": end.state,
            "paused": False,
            "parked": False,
            "stopped": end.state == "stopped",
            "step": step.step,
            "total_steps": step.total_steps,
            "epoch": step.epoch,
            "total_epochs": step.total_epochs,
            "loss": step.loss,
            "lr": step.lr,
            "steps_per_s": None,
            "timeline": step.timeline,
            "has_batch": False,
            "batch_step": None,
            "step_data_keys": list(data.values),
            "step_data_offered": [],
            "step_data_step": data.step if data.values else None,
            "step_data_additions": data.additions,
            "step_data_panels": {key: panel.kind for key, panel in data.panels.items()},
            "breakpoint": None,
            "diagnosed_step": step.diagnosed_step,
            "repeated": None,
            "phase": None,
            "phase_s": None,
            "waiting_for": None,
            "reason": end.reason,
            "busy_with": None,
            "steps_left": None,
            "run_until": None,
            "boundary_age_s": 0.0,
            "offers": [],
            "checkpoints_off": None,
        }
        if kept is not None:
            state |= _with_table(kept.state_fields(), data)
        if end.state in HELD:
            state |= _read_lease_state(self.dir, end)
        return state

    def captured_batch(self, first: int, count: int | None) -> None:
        """None: what was kept of a batch is not a capture, see `kept`."""

    def capture_named(self, etag: str) -> None:
        """None, as above."""

    def step_data(self, key: str | None = None) -> StepData:  # noqa: ARG002 - all is read
        """The last feature table, where the facts hold one."""
        return self._step().step_data

    def weight_names(self) -> list[str]:
        """Tensors of the newest checkpoint; first those that the feature table describes."""
        return self._step().weight_names()

    def weight_change(self, tensor: str | None, *, whole: bool = True) -> WeightChange:
        """The weights of the newest checkpoint; before and after are the same tensor."""
        step = self._step()
        names = step.weight_names()
        if not names:
            raise ControlError(
                "The run has ended and left no checkpoint, so there are no weights to look at. "
                "Its series and events are in the facts."
            )
        name = names[0] if tensor is None else tensor
        if name not in names:
            raise ConfigError(f"no tensor {name!r}; there are {', '.join(names[:20])}")
        after = step.weights.read(name)
        return WeightChange(
            step=step.weights.step,
            source=name,
            before=after if whole else None,
            after=after,
            metrics=dict(step.features) if step.feature_rows == len(after) else {},
            note=WEIGHTS_NOTE,
        )

    def rewind(self) -> dict[str, Any]:
        """The fields of `RewindOut`: a stored run cannot go back."""
        step = self._step()
        return {
            "available": False,
            "reason": NO_REWIND,
            "first_step": None,
            "step": step.step,
            "snapshot_steps": [],
            "bytes": 0,
            "budget_bytes": 0,
            "replay_cost_s": None,
            "timeline": step.timeline,
        }

    def breakpoints(self) -> Sequence[ShownBreakpoint]:
        """The breakpoints with their hits, as they were kept last."""
        kept = self._step().kept
        return [] if kept is None else kept.breakpoints()

    def watches(self) -> dict[str, Any]:
        """The fields of `WatchOut`: the rows that were watched when something was kept last."""
        step = self._step()
        source = step.tracked[0].source if step.tracked else None
        watched = {} if step.kept is None else step.kept.watched()
        if source is not None and watched.get("source") != source:
            watched = {}
        return {
            "feature_ids": [],
            "others": {},
            **watched,
            "source": watched.get("source") or source,
            "sources": step.weight_names(),
        }

    def trajectories(self, *, points: int, in_all: int) -> list[TrackedRows]:
        """Copies of the points that the run saved as an artifact."""
        return copy_tracked(self._step().tracked, points, in_all)

    def commands(self, limit: int) -> list[CommandRecord]:
        """The last commands, newest last."""
        return list(self._step().commands.values())[-limit:]

    def command(self, command_id: str) -> CommandRecord | None:
        """The record of a command; None for an unknown id."""
        return self._step().commands.get(command_id)

    def command_names(self) -> list[str]:
        """The verbs that every run has; the other commands end with their process."""
        return sorted(VERBS)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Never calls back: a stored run changes only on disk."""
        del callback
        return lambda: None

    def viewer(self) -> AbstractContextManager[Viewer | None]:
        """Counts nothing: a stored run captures no steps."""
        return nullcontext()

    def subscriptions(self) -> None:
        """None: a stored run captures no steps."""

    def capture_notices(self, stream: str) -> list[CaptureNotice]:  # noqa: ARG002 - there is none
        """None: a stored run captures no steps."""
        return []

    def control(self) -> DebugController:
        """Raise `Refusal`: the run has ended, or its process cannot be reached from here."""
        end = self._current_end()
        if end.state in HELD:
            raise Refusal(
                409,
                "out_of_reach",
                "The run cannot be reached from here: it runs on another host, under another "
                "user, or without a socket. It is shown from its facts, read-only.",
            )
        reason = "" if end.reason is None else f": {end.reason}"
        raise Refusal(409, end.state, f"The run has ended ({end.state}{reason}).")


def _with_table(fields: dict[str, Any], data: StepData) -> dict[str, Any]:
    """Fields of what was kept, together with the table of features from the facts."""
    panels = {key: panel.kind for key, panel in data.panels.items()}
    fields["step_data_keys"] = list(dict.fromkeys([*data.values, *fields["step_data_keys"]]))
    fields["step_data_panels"] = panels | fields["step_data_panels"]
    fields["step_data_step"] = fields["step_data_step"] or (data.step if data.values else None)
    return fields


def _read_end(run_dir: Path) -> EndState:
    """Whether and how a run ended, read from disk now."""
    end = end_state(run_dir, watch=_watch)
    age_s = heartbeat_age_s(run_dir) if end.state == "running" else None
    if age_s is not None and age_s > SILENT_S:
        return EndState("not responding", f"no heartbeat for {age_s:.0f} s")
    return end


def _read_lease_state(run_dir: Path, end: EndState) -> dict[str, Any]:
    """Step and state that the process of a live run last wrote into its lease."""
    lease = read_lease(run_dir) or {}
    fields: dict[str, Any] = {}
    if lease.get("step"):
        fields["step"] = lease["step"]
    if end.state == "running" and lease.get("state") in ACTIVE_STATES:
        fields["state"] = lease["state"]
    return fields
