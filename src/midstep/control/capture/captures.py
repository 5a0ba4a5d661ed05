"""The batch and the step data of a step, captured while the run is observed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import (
    CapturedBatch,
    StepData,
    clone_or_reason,
    resolve,
)
from midstep.control.panels import Panel
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState

log = logging.getLogger("midstep.control")
RESERVED_KEYS = frozenset({"keys", "force_detail"})
"""Keys that are routes of the server beside the step data."""
RUNNING_INTERVAL_S = 0.1
"""While running, a step is cloned at most ten times a second for the viewers."""


class Captures:
    """Takes batches and step data from the training thread, and gives clones to other threads.

    Readers need no lock: each object is built completely and then published by one assignment.
    What is published is never changed afterwards.
    """

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._cloned_at = -1.0
        self.clones_step = False
        """Whether the step in progress is cloned as it is captured."""
        self.cloned_batch: CapturedBatch | None = None
        self.held_batch: CapturedBatch | None = None
        """A reference to this step's batch; it is cloned only if the loop parks after the step."""
        self.pushed: dict[str, Any] = {}
        """The data of this step, by key."""
        self.panels: dict[str, Panel] = {}
        """Panels of this step's data, by key."""
        self._uncloned_keys: set[str] = set()
        """Keys whose data is still the object that the caller pushed, not a clone."""
        self.published = StepData(step=0, values={})
        """The last step data that was published for readers."""

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
            self.held_batch = captured
        else:
            self._take_batch(captured)

    def _take_batch(self, batch: CapturedBatch) -> None:
        """Clone `batch` if this step is shown; else hold a reference until the next step begins."""
        # Cloned here and not at the boundary: a loop may write into the batch before it gets there.
        if self.clones_step:
            self.cloned_batch, self.held_batch = batch.clone(), None
        else:
            self.held_batch = batch

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
        self._take_batch(CapturedBatch(step=step, batch=batch, loss=loss, **details))

    def push(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Store data of this step under `key`; see `DebugController.capture_step_data`."""
        state = self._state
        if state.watches.active:
            data = resolve(data)  # each point of a watched row holds metrics from the step data
        self._store(key, data, panel)
        # Set here without the lock: the boundary must run to publish or clear this data.
        state.boundary_has_work = state.is_observed = True

    def add_step_data(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Add `data` to this step's data while the run is paused; for commands.

        Arguments as in `DebugController.capture_step_data`. The next step clears it.
        """
        step = self._state.finished_steps
        # New dicts, because readers hold the published ones.
        # The count tells viewers of a paused run that a key has new data.
        before = self.published.additions if self.published.step == step else 0
        self.pushed, self.panels = dict(self.pushed), dict(self.panels)
        self._store(key, data, panel)
        self._publish_step_data(additions=before + 1)

    def _store(self, key: str, data: Any, panel: Panel | None) -> None:
        if not isinstance(key, str) or not key or key in RESERVED_KEYS:
            raise ConfigError(
                f"a key of step data is text and not {' or '.join(sorted(RESERVED_KEYS))}; "
                f"got {key!r}. Choose another name."
            )
        if isinstance(panel, Panel):
            self.panels[key] = panel
        elif panel is None:
            self.panels.pop(key, None)
        else:
            raise ConfigError(f"panel must be a midstep.Panel, got {type(panel).__name__}")
        if self.clones_step:
            self.pushed[key] = clone_or_reason(resolve(data))
            self._uncloned_keys.discard(key)
        else:
            self.pushed[key] = data
            self._uncloned_keys.add(key)

    # -- at the boundary, on the training thread --------------------------------------------------

    def publish(self) -> None:
        """Publish this step; what was only held by reference is cloned now."""
        if self.held_batch is not None:
            self.cloned_batch, self.held_batch = self.held_batch.clone(), None
        self._publish_step_data()

    def _publish_step_data(self, *, additions: int = 0) -> None:
        """Publish this step's data; entries that are not clones yet are cloned now."""
        # Without data of its own a step leaves the last published data in place.
        if not self.pushed or self.published.values is self.pushed:
            return
        if self._uncloned_keys:
            self.pushed = {
                key: clone_or_reason(resolve(data)) if key in self._uncloned_keys else data
                for key, data in self.pushed.items()
            }
            self._uncloned_keys = set()
        step = self._state.finished_steps
        self.published = StepData(
            step=step, values=self.pushed, panels=self.panels, additions=additions
        )

    def begin_step(self, *, every_step: bool) -> None:
        """Clear the last step's data and decide whether the next step is cloned.

        Called under the lock. While viewers are connected, ten steps a second are cloned.

        Args:
            every_step: whether it is cloned in any case, as while stepping.
        """
        self.held_batch = None
        if self.pushed:
            self._clear_step_data()
        self.clones_step = every_step
        if self._state.viewer_count and not every_step:
            now = self._state.clock()
            # Clones take time of the training, and the page draws five times a second.
            if now - self._cloned_at >= RUNNING_INTERVAL_S:
                self.clones_step, self._cloned_at = True, now

    def _clear_step_data(self) -> None:
        # Replaced, not cleared: the old dicts may be published.
        self.pushed, self.panels, self._uncloned_keys = {}, {}, set()

    def forget_after(self, step: int) -> None:
        """Drop what was captured after `step`: the loop went back to another timeline.

        Called under the lock, with the other changes of a move to another step.
        """
        self.held_batch = None
        if self.cloned_batch is not None and self.cloned_batch.step >= step:
            self.cloned_batch = None
        if self.published.step > step:
            self.published = StepData(step=0, values={})
        self._clear_step_data()

    def batch_of(self, index: int) -> CapturedBatch | None:
        """The batch of step `index`, held or cloned."""
        for batch in (self.held_batch, self.cloned_batch):
            if batch is not None and batch.step == index:
                return batch
        return None

    # -- whether hooks have anything to do --------------------------------------------------------

    @property
    def wants_data(self) -> bool:
        """Whether step data pushed now may be shown; hooks may skip their work if not.

        True whenever the loop could park after this step with a viewer connected.
        """
        state = self._state
        return bool(self.shows_step or state.viewer_count or state.watches.active)

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
        return self.clones_step or self._state.breakpoints.may_stop_step

    # -- any thread's side ------------------------------------------------------------------------

    def batch(self) -> dict[str, Any] | None:
        """The last captured batch with loss, step, labels and ids; None before the first."""
        batch = self.cloned_batch
        return None if batch is None else dict(vars(batch))

    def step_data(self, key: str) -> Any:
        """What was pushed under `key` in this step.

        Raises:
            ConfigError: nothing was pushed under `key`; the message lists the keys.
        """
        try:
            return self.pushed[key]
        except KeyError:
            keys = ", ".join(self.step_data_keys()) or "nothing"
            raise ConfigError(f"no step data {key!r} in this step; there is {keys}") from None

    def step_data_keys(self) -> list[str]:
        """The keys pushed in this step."""
        return list(self.pushed)

    def shown(self) -> StepData:
        """The last published step data with its step, which the page shows."""
        return self.published

    def viewer(self) -> Viewer:
        """Count as a connected viewer until the returned object is closed."""
        return Viewer(self._state)

    @property
    def viewers(self) -> int:
        """How many viewers are connected."""
        return self._state.viewer_count


class Viewer:
    """A connected viewer of one run (a browser tab or a client); a context manager.

    Steps are captured while at least one viewer is open. `Captures.viewer` makes one.
    """

    def __init__(self, state: ControlState) -> None:
        self._state: ControlState | None = state
        self._count(state, +1)

    @staticmethod
    def _count(state: ControlState, by: int) -> None:
        with state.lock:
            state.viewer_count += by
            state.refresh_flags()

    def close(self) -> None:
        """Disconnect; a second call changes nothing."""
        state, self._state = self._state, None
        if state is not None:
            self._count(state, -1)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
