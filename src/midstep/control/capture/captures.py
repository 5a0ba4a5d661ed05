"""The batch and the step data of a step, captured while they are in view."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from midstep.control.capture.capture_reader import CaptureReader
from midstep.control.capture.captured_data import CapturedBatch, CapturedSamples, resolve
from midstep.control.capture.sample_results import Results
from midstep.control.capture.step_data_store import StepDataStore
from midstep.control.capture.subscriptions import (
    EVERYTHING,
    NOTHING,
    Need,
    StepPlan,
    Subscriptions,
    join_plans,
)
from midstep.control.panels import Panel
from midstep.control.samples.view import SampleView

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState

log = logging.getLogger("midstep.control")
CAPTURES_HELD = 2
"""A reader that has read the geometry of a capture can still get its picture after the next one."""


class Captures:
    """Takes batches and step data from the training thread; `reader` gives copies to other threads.

    `subscriptions` says what is in view; `plan` is what the step in progress captures of it.
    """

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self.subscriptions = Subscriptions(state)
        self.plan: StepPlan = NOTHING
        """What the step in progress captures. Replaced under the lock."""
        self.view: SampleView | None = None
        """What the user says about the samples. Replaced as a whole, by any thread."""
        self.recent: tuple[CapturedBatch | CapturedSamples, ...] = ()
        """The newest captures of batches, the newest first; at most one of them is whole."""
        self.held_batch: CapturedBatch | None = None
        """A reference to this step's batch; it is copied whole if the loop parks after the step."""
        self.last_batch: CapturedBatch | None = None
        """A reference to the batch of the last reported step, until its driver begins the next one:
        what is kept when the run ends. Only of batches that the loop leaves unchanged."""
        self.last_step: Any = None
        """Finished steps at the end of the training, or else where it may end, if that is known."""
        self.next_plan: StepPlan = NOTHING
        """What the step after the next boundary captures besides what is in view."""
        self._has_samples = False
        """Whether samples of this step's batch were copied."""
        self._is_complete = False
        """Whether all hooks run in this step: it was planned for all keys when it began."""
        self._serial = 0
        self.data = StepDataStore(state, self._new_etag)
        """The step data."""
        self.reader = CaptureReader(self, state)
        """Gives batches and step data to other threads."""

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
        results: Results | str | None = None,
        kept: bool = False,
    ) -> None:
        """Note the batch and the loss of this step; see `DebugController.capture_batch`.

        Args:
            batch: a tensor, or a mapping or sequence of tensors, or a function that returns them.
            loss: a number, or a tensor of one element.
            step: index of this batch, counted from 0; the running count when left out.
            labels: one per sample.
            sample_ids: ids of the samples in batch order.
            losses: per-sample losses.
            results: computes the losses and predictions of samples when the batch is copied, or
                says why they are not known.
            kept: whether the loop leaves the batch unchanged until the boundary. Then the batch
                is copied there, and only if no other call captures this step's batch.
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
            results=results,
            sample_ids=sample_ids,
            view=self.view,
        )
        self.last_batch = captured if kept else None
        # A copy of another call of this step stays: the loop's own call has more to show.
        if not (kept and self._has_samples):
            self._hold(captured)
        if not kept:  # a reference is enough until the boundary
            self._copy_batch(self.plan)

    def _hold(self, batch: CapturedBatch) -> None:
        self.held_batch, self._has_samples = batch, False

    def _copy_batch(self, plan: StepPlan) -> None:
        """Copy what the plan takes of this step's batch, once.

        A reference is held also after samples were copied: the loop may still park after the step,
        and then the batch is shown whole.
        """
        batch = self.held_batch
        if batch is None or not plan.takes_batch:
            return
        if plan.takes_whole_batch:
            self.held_batch = None
            self._publish_batch(batch.copy(self._new_etag(batch.step + 1)))
        elif not self._has_samples:
            self._publish_batch(batch.copy_samples(plan.ranges, self._new_etag(batch.step + 1)))
        self._has_samples = True

    def _publish_batch(self, captured: CapturedBatch | CapturedSamples) -> None:
        # At most one whole batch is held: it may be large.
        is_whole = isinstance(captured, CapturedBatch)
        older = [e for e in self.recent if not (is_whole and isinstance(e, CapturedBatch))]
        self.recent = (captured, *older)[:CAPTURES_HELD]

    def _new_etag(self, step: int) -> str:
        """A name for what is captured of a step; `step` is the number of finished steps."""
        self._serial += 1
        return f"{step}.{self._state.described_fields.get('timeline', 0)}.{self._serial}"

    def _log_gradient_norm(self, read: Callable[[], Any]) -> None:
        try:
            self._state.step_scalars["grad_norm"] = read()
        except Exception:
            # A function of the user: it is not called again, and training continues.
            log.exception("reading the gradient norm raised and is off; training continues")
            self._state.read_gradient_norm = None

    def hold_failed_batch(self, batch: Any, loss: Any = None, **details: Any) -> None:
        """Hold the batch of a step that raised, so that it is shown if the run parks there.

        Nothing is recorded. `details` are labels, sample_ids, losses and results, as in `capture`.
        """
        step = self._state.step_index
        self._hold(CapturedBatch(step=step, batch=batch, loss=loss, view=self.view, **details))
        self._copy_batch(self.plan)

    def push(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Store data of this step under `key`; see `DebugController.capture_step_data`."""
        state = self._state
        if state.watches.active:
            data = resolve(data)  # each point of a watched row holds metrics from the step data
        self.data.push(key, data, panel, self.plan)
        # Set here without the lock: the boundary must run to publish or clear this data.
        state.boundary_has_work = state.is_observed = True

    def add_step_data(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Add `data` to this step's data while the run is paused; for commands.

        Arguments as in `DebugController.capture_step_data`. The next step clears it.
        """
        self.data.add(key, data, panel)

    # -- at the boundary, on the training thread --------------------------------------------------

    def publish(self) -> None:
        """Publish what the plan takes of this step; what was only held by reference is copied."""
        plan, step = self.plan, self._state.finished_steps
        self._copy_batch(plan)
        self.data.publish(plan, is_complete=self._is_complete)
        if plan.needs:
            captured = [need for need in plan.needs if self._has_captured(need, step)]
            with self._state.lock:
                self.subscriptions.note_captured(captured, step)
                if self.recent and self.recent[0].step == step - 1 and self.recent[0].is_late:
                    self.subscriptions.repeat(captured)
                self._state.changed.notify_all()  # readers wait for this step

    def publish_everything(self) -> None:
        """Publish all of this step: the loop parks."""
        self._copy_batch(EVERYTHING)
        self.data.publish(EVERYTHING, is_complete=self._is_complete)

    def _has_captured(self, need: Need, step: int) -> bool:
        if need.kind == "batch":
            newest = self.reader.newest_with(need)
            return newest is not None and newest.step == step - 1
        if need.is_data and need.data_key is not None:
            return need.data_key in self.data.published.of_step(step)
        return True

    def begin_step(self, *, every_step: bool) -> None:
        """Clear the last step's data and decide what the next step captures.

        Called under the lock.

        Args:
            every_step: whether everything is captured, as while stepping.
        """
        self.held_batch, self._has_samples = None, False
        self.data.clear()
        if every_step:
            self.plan = EVERYTHING
        else:
            self.plan = self.subscriptions.plan() if self.subscriptions.active else NOTHING
        self.plan, self.next_plan = join_plans(self.plan, self.next_plan), NOTHING
        self._is_complete = self.plan.everything or self.plan.all_keys

    def extend_plan(self, plan: StepPlan) -> None:
        """Capture this too in the step in progress. Called under the lock, from any thread."""
        self.plan = join_plans(self.plan, plan)

    def forget_after(self, step: int) -> None:
        """Drop what was captured of other steps than the last one: the loop went back to `step`.

        An older batch would be taken for that of the step which the run shows now. Called under the
        lock, with the other changes of a move to another step.
        """
        self.held_batch = self.last_batch = None
        self._has_samples = False
        self.recent = tuple(each for each in self.recent if each.step == step - 1)
        self.data.forget_after(step)

    def batch_of(self, index: int) -> CapturedBatch | None:
        """The batch of step `index`, held or copied whole."""
        for batch in (self.held_batch, self.cloned_batch):
            if batch is not None and batch.step == index:
                return batch
        return None

    # -- whether hooks have anything to do --------------------------------------------------------

    @property
    def clones_step(self) -> bool:
        """Whether anything of the step in progress is captured."""
        return bool(self.plan)

    def wants(self, *keys: str) -> bool:
        """Whether step data of one of these keys, pushed now, may be shown or watched."""
        return self._state.watches.active or self.shows(*keys)

    def shows(self, *keys: str) -> bool:
        """Whether the step in progress shows one of these keys, or may stop the run."""
        plan = self.plan
        return any(map(plan.takes_key, keys)) or self._state.breakpoints.may_stop_step

    @property
    def wants_data(self) -> bool:
        """Whether step data of any key, pushed now, may be shown; `wants` asks for one key."""
        return self.shows_step or self._state.watches.active

    @property
    def is_observed(self) -> bool:
        """Whether anything is in view, or requested; if not, only facts are written.

        One flag, read without the lock, because it is read several times a step.
        """
        return self._state.is_observed

    @property
    def shows_step(self) -> bool:
        """Whether step data of the step in progress is shown, or the step may stop the run."""
        return self.plan.takes_any_data or self._state.breakpoints.may_stop_step

    # -- any thread's side ------------------------------------------------------------------------

    @property
    def cloned_batch(self) -> CapturedBatch | None:
        """The last batch that was captured whole."""
        return next((each for each in self.recent if isinstance(each, CapturedBatch)), None)

    def viewer(self, *needs: Need) -> Viewer:
        """Count as a connected viewer, who shows `needs`, until the returned object is closed."""
        return Viewer(self._state, needs)

    @property
    def viewers(self) -> int:
        """How many viewers are connected."""
        return self._state.viewer_count


class Viewer:
    """A connected viewer of one run (a browser tab or a client); a context manager.

    `Captures.viewer` makes one. Connected and subscribed are two things: a viewer without
    subscriptions decides whether a run parks at an error, and nothing is captured for it.
    """

    def __init__(self, state: ControlState, needs: Iterable[Need] = ()) -> None:
        self.id = secrets.token_urlsafe(16)
        """Names its stream, under which it may change what it shows."""
        self._state: ControlState | None = state
        state.captures.subscriptions.open(self.id, needs)
        self._count(state, +1)

    @staticmethod
    def _count(state: ControlState, by: int) -> None:
        with state.lock:
            state.viewer_count += by
            state.refresh_flags()

    def close(self) -> None:
        """Disconnect, and end its subscriptions; a second call changes nothing."""
        state, self._state = self._state, None
        if state is not None:
            state.captures.subscriptions.close(self.id)
            self._count(state, -1)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
