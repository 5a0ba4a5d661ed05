"""The batch and the step data of a step, captured while the run is observed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from midstep.control.capture.capture_store import CapturedBatch, StepData, resolve
from midstep.control.control_state import ControlState, Viewer
from midstep.control.panels import Panel
from midstep.core.errors import ConfigError

log = logging.getLogger("midstep.control")


class Captures:
    """Takes batches and step data from the training thread, and gives clones to other threads."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

    # -- the training thread's side ---------------------------------------------------------------

    def capture(
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
        """Note the batch and the loss of this step; see `DebugController.capture_batch`.

        Args:
            batch: a tensor, or a mapping or sequence of tensors.
            loss: a number, or a tensor of one element.
            step: index of this batch, counted from 0; the running count when left out.
            labels: one per sample.
            sample_ids: ids of the samples in batch order.
            losses: per-sample losses.
            kept: whether the loop leaves the batch unchanged until the boundary. Then the batch
                is cloned there, and only if no other call captures this step's batch.
        """
        state = self._state
        if step is not None:
            state.step_index = step
        if not state.step_is_recorded:
            return
        # Here the weights are still those from before the step: a row that is newly watched gets
        # its start from them. Tested here, so that other steps save the call.
        if state.watches.has_new_rows:
            state.watches.begin()
        if loss is not None:
            # The tensor itself, detached: `item()` would wait for a GPU in every step (+2 % and
            # +5 % on an H200). The writer thread of the sink converts it.
            state.loss = loss.detach() if hasattr(loss, "detach") else loss
            state.step_scalars["loss"] = state.loss
        # This is the only call between backward and the optimizer step, so gradients are read here.
        if state.read_gradient_norm is not None and "grad_norm" in state.breakpoints.scalar_names:
            self._log_gradient_norm(state.read_gradient_norm)
        captured = CapturedBatch(
            step=state.step_index,
            batch=batch,
            loss=loss,
            labels=labels,
            losses=losses,
            sample_ids=sample_ids,
        )
        if kept:  # a reference is enough until the boundary
            state.capture_store.held_batch = captured
        else:
            state.capture_store.take_batch(captured)

    def _log_gradient_norm(self, read: Callable[[], Any]) -> None:
        try:
            self._state.step_scalars["grad_norm"] = read()
        except Exception:
            # A function of the user: it is not called again, and training continues.
            log.exception("reading the gradient norm raised and is off; training continues")
            self._state.read_gradient_norm = None

    def hold_failed_batch(self, batch: Any, loss: Any = None, **details: Any) -> None:
        """Hold the batch of a step that raised, so that it is shown if the run parks there.

        Nothing is recorded. `details` are labels, sample_ids and losses, as in `capture`.
        """
        step = self._state.step_index
        self._state.capture_store.take_batch(
            CapturedBatch(step=step, batch=batch, loss=loss, **details)
        )

    def push(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Store data of this step under `key`; see `DebugController.capture_step_data`."""
        state = self._state
        if state.watches.active:
            data = resolve(data)  # each point of a watched row holds metrics from the step data
        state.capture_store.push(key, data, panel)
        # Set here without the lock: the boundary must run to publish or clear this data.
        state.boundary_has_work = state.is_observed = True

    def add_step_data(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Add `data` to this step's data while the run is paused; for commands.

        Arguments as in `DebugController.capture_step_data`. The next step clears it.
        """
        self._state.capture_store.add_to_shown(key, data, panel, self._state.finished_steps)

    @property
    def wants_data(self) -> bool:
        """Whether step data pushed now may be shown; hooks may skip their work if not.

        True whenever the loop could park after this step with a viewer connected.
        """
        return self._state.wants_data

    @property
    def is_observed(self) -> bool:
        """Whether there is a viewer, a request or a waiting reader; if not, only facts are written.

        One flag, read without the lock, because it is read several times a step.
        """
        return self._state.is_observed

    @property
    def shows_step(self) -> bool:
        """Whether the step in progress is shown, or may stop the run.

        While running, ten steps a second are shown; expensive hooks may skip the others.
        """
        state = self._state
        return state.capture_store.clones_step or state.breakpoints.may_stop_step

    # -- any thread's side ------------------------------------------------------------------------

    def batch(self) -> dict[str, Any] | None:
        """The last captured batch with loss, step, labels and ids; None before the first."""
        batch = self._state.capture_store.batch
        return None if batch is None else dict(vars(batch))

    def step_data(self, key: str) -> Any:
        """What was pushed under `key` in this step.

        Raises:
            ConfigError: nothing was pushed under `key`; the message lists the keys.
        """
        try:
            return self._state.capture_store.step_data[key]
        except KeyError:
            keys = ", ".join(self.step_data_keys()) or "nothing"
            raise ConfigError(f"no step data {key!r} in this step; there is {keys}") from None

    def step_data_keys(self) -> list[str]:
        """The keys pushed in this step."""
        return list(self._state.capture_store.step_data)

    def shown(self) -> StepData:
        """The last published step data with its step, which the page shows."""
        return self._state.capture_store.shown

    def viewer(self) -> Viewer:
        """Count as a connected viewer until the returned object is closed."""
        return Viewer(self._state)

    @property
    def viewers(self) -> int:
        """How many viewers are connected."""
        return self._state.viewer_count
