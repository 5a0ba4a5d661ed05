"""The controller: what any training loop calls, and what a debugger needs.

The training thread owns the training state. Other threads submit commands to one ordered queue;
the training thread runs them at the boundary between two steps.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from midstep.control.boundary import StepBoundary
from midstep.control.breakpoints.breakpoints import Action, Breakpoint
from midstep.control.capture.weight_changes import WeightChanges
from midstep.control.command_record import Command
from midstep.control.control_state import ControlState, Sinks
from midstep.control.panels import Panel
from midstep.control.run_status import RunStatus
from midstep.control.samples.view_check import checked_view
from midstep.core.media.given_values import own_value


class DebugController:
    """Pause, step and look into any training loop.

    Two calls are enough: `capture_batch` after `backward()` and `wait_if_paused` after
    `optimizer.step()`, and `log` adds values. The parts below offer more: `status.describe` shows
    epoch and learning rate, `breakpoints.add_rule` adds a ready-made breakpoint,
    `watches.add_source` offers a tensor, `queue.register` adds a command, and `boundary.finish`
    ends the run.

    Args:
        view: how samples are shown, as in `midstep.attach`.
        clock: seconds that only grow.
        wall: seconds since 1970.

    Attributes:
        boundary: the end of a step, called by the training thread.
        queue: commands, submitted from any thread.
        captures: the batch and the step data of a step.
        breakpoints: conditions that stop or mark the run.
        watches: rows of tensors that are recorded at every step.
        weight_changes: a tensor before and after a step.
        status: what the run shows of itself.
        sinks: receivers of scalars and events, and callbacks on a change.

    >>> controller = DebugController()
    >>> controller.capture_batch([0.5], loss=0.1, step=0)
    >>> controller.wait_if_paused()
    True
    >>> controller.get_state()["step"]
    1
    """

    def __init__(
        self,
        *,
        view: Any = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._state = state = ControlState(clock, wall)
        self.queue = state.queue
        self.watches = state.watches
        self.weight_changes = WeightChanges(state)
        self.breakpoints = state.breakpoints
        self.boundary = StepBoundary(state, self.weight_changes)
        self.captures = state.captures
        self.captures.view = checked_view(view)
        self.status = RunStatus(state)
        self.sinks = Sinks(state)
        _ALIVE.add(self)

    # -- called by the loop, on the training thread -----------------------------------------------

    def begin_step(self, step: int) -> None:
        """Set the index of the step that begins; only for loops that number steps themselves."""
        self.boundary.begin_step(step)

    def capture_batch(
        self,
        batch: Any,
        loss: Any,
        step: int | None = None,
        *,
        labels: Any = None,
        sample_ids: Any = None,
        losses: Any = None,
        kept: bool = False,
    ) -> None:
        """Give the batch and the loss of this step; the batch is copied only if it is in view.

        Args:
            batch: a tensor, or a mapping or sequence of tensors. Readers get a copy: of the shown
                samples while the batch is in view, of all of it when the run is paused.
            loss: the loss as a number or a tensor of one element.
            step: index of this batch, counted from 0; the running count when left out.
            labels: one per sample, for the page.
            sample_ids: ids of the samples in batch order.
            losses: per-sample losses, where the loop knows them.
            kept: whether the loop leaves the batch unchanged until the boundary. Then it is cloned
                there instead of here, and only if no other call captures this step's batch.
        """
        # Tested here too: an idle loop then saves the second call, a third of an idle step.
        if self._state.step_is_recorded:
            self.captures.capture(
                batch, loss, step, labels=labels, sample_ids=sample_ids, losses=losses, kept=kept
            )
        elif step is not None:
            self._state.step_index = step

    def log(self, **values: Any) -> None:
        """Log values of this step: numbers, pictures, texts, lists of numbers, or tables."""
        if self._state.step_is_recorded:
            self.boundary.log({name: own_value(name, value) for name, value in values.items()})

    def capture_step_data(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Store data of this step under `key`; it is cleared when the next step begins.

        It is copied in the steps that are shown: while running, as often as a page or a client
        reads this key, at most ten times a second; every step while stepping; and the step at
        which the loop parks. Do not change a tensor after pushing it.

        Args:
            key: its name on the page; `keys` and `force_detail` are reserved.
            data: numbers, text, tensors, or mappings and sequences of them. Or a function that
                returns them: it is called only in steps that are shown or watched.
            panel: how the page shows it; without a panel the page chooses by the type of the data.
        """
        self.captures.push(key, data, panel=panel)

    def wait_if_paused(self) -> bool:
        """End a step, run the queued commands, park if paused. False once the run is stopped."""
        return self.boundary.wait_if_paused()

    # -- commands: called from any thread ---------------------------------------------------------

    def pause(self) -> None:
        """Park at the next boundary."""
        self.queue.request("pause")

    def resume(self) -> None:
        """Continue."""
        self.queue.request("resume")

    def step(self, n: int = 1) -> None:
        """While paused: make exactly `n` steps, then park again."""
        self.queue.request("step", n=n)

    def run_until(self, step: int) -> None:
        """Continue, and park when `step` steps are finished."""
        self.queue.request("run_until", step=step)

    def stop(self) -> None:
        """End the training at the next boundary, before any queued pause or step."""
        self.queue.request("stop")

    def submit(self, command: Command) -> Future[Any]:
        """Put a command into the queue; the future ends when the command ends.

        The future of a command that is refused at once holds `ControlError`. A repeated id gets
        the future of the first command with that id.
        """
        return self.queue.submit(command)

    # -- what is shown ----------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether a pause is requested."""
        return self._state.pause_requested

    @property
    def is_parked(self) -> bool:
        """Whether the training thread waits at the boundary."""
        return self._state.is_parked

    def get_state(self) -> dict[str, Any]:
        """The state as the page shows it."""
        return self.status.get_state()

    def get_batch(self) -> dict[str, Any] | None:
        """The last batch captured whole, as at a pause; None before the first.

        With loss, step, labels and ids. While running, `captures.viewer` with a need of the whole
        batch captures it.
        """
        return self.captures.reader.batch()

    def get_step_data(self, key: str) -> Any:
        """What was pushed under `key` in this step."""
        return self.captures.data.get(key)

    def list_step_data_keys(self) -> list[str]:
        """The keys pushed in this step."""
        return list(self.captures.data.pushed)

    # -- breakpoints and watches ------------------------------------------------------------------

    def add_breakpoint(
        self, kind: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """Stop when a condition holds, with the evidence captured.

        Args:
            kind: step, every, loss_nonfinite, loss_z, grad_norm, metric, sample, expression or
                rule.
            enabled: whether it is checked from now on.
            action: `pause` stops the run, `mark` only records when the condition begins to hold.
            **settings: what the condition takes; see `midstep.control.breakpoints.conditions`.

        >>> DebugController().add_breakpoint("expression", expression="loss > 2").words
        'loss > 2'
        """
        return self.breakpoints.add(kind, enabled=enabled, action=action, **settings)

    def remove_breakpoint(self, breakpoint_id: int) -> Breakpoint:
        """Remove a breakpoint and return it."""
        return self.breakpoints.remove(breakpoint_id)

    def list_breakpoints(self) -> list[Breakpoint]:
        """All breakpoints by id."""
        return self.breakpoints.list_all()

    def add_watch(self, feature_id: int, *, source: str | None = None) -> None:
        """Record one row of a named tensor at every step from now on.

        Args:
            feature_id: the row.
            source: a name of `watches.sources`; the default one when left out. Rows of several
                tensors can be watched together, at most 64 in all.
        """
        self.watches.add(feature_id, source)

    def remove_watch(self, feature_id: int, *, source: str | None = None) -> None:
        """Stop watching a row, in one source or in all; its trajectory stays until cleared."""
        self.watches.remove(feature_id, source)

    def get_watched(self, source: str | None = None) -> list[int]:
        """The watched rows of a source; of the one chosen last when left out."""
        return self.watches.watched(source)

    def get_trajectories(self, source: str | None = None) -> dict[int, list[dict[str, float]]]:
        """Points of every row of one source that is or was watched.

        A point holds step, weight_cos_to_init and metrics. Without `source`: the one chosen last.
        """
        return self.watches.trajectories(source)

    def clear_trajectories(self) -> None:
        """Drop all points; watched rows are recorded from here on."""
        self.watches.clear()


# Weak, so that a controller is freed with its run.
_ALIVE: weakref.WeakSet[DebugController] = weakref.WeakSet()


def _renew_locks() -> None:
    for controller in _ALIVE:
        controller._state.renew_locks()


# A fork copies a lock in the state in which another thread left it, perhaps locked for ever: the
# workers of a DataLoader would hang on it. So a child process gets new locks.
os.register_at_fork(after_in_child=_renew_locks)
