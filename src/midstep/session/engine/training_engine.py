"""`TrainingEngine`: what `attach` and `Session` share at a step boundary.

A driver decides who makes the steps: `FitLoop` makes them itself, under `attach` the user's loop
does. Both call the engine from the training thread. The order at each boundary is fixed:

1. the driver commits the samples to the order and counts the step in the state,
2. the driver reports the step (scalars, batch),
3. `step_finished`: the periodic checkpoint, then the snapshot for going back,
4. the controller's boundary counts the step, runs commands, and parks.

So a snapshot or checkpoint always has the counters of the boundary it was taken at, and a command
finds them up to date.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from midstep.core.errors import ControlError, StorageError
from midstep.core.fault_guard import FaultGuard
from midstep.core.moments import Moment
from midstep.core.standard_streams import print_notice
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
from midstep.session.engine.command_durability import CommandDurability, source_fields
from midstep.session.engine.earlier_snapshots import training_access
from midstep.session.engine.lineage import Lineage
from midstep.session.engine.step_comparisons import StepComparisons
from midstep.session.ranks import why_no_state
from midstep.session.rewind.back import Rewind
from midstep.session.rewind.snapshot_ring import SnapshotRing
from midstep.session.sigchld_guard import sigchld_ignored
from midstep.session.state.state_tree import UnsavableError

if TYPE_CHECKING:
    from pathlib import Path

    from midstep.session.engine.resume import ResumePoint
    from midstep.session.ranks import RankMeeting
    from midstep.session.rewind.back import StepReplay
    from midstep.session.run import Run
    from midstep.session.state.snapshot import Snapshot
    from midstep.session.state.training_state import TrainingState

log = logging.getLogger("midstep.session")
SHARE_OF_FREE = 0.25
"""Share of a device's free memory that a clone may take; the next step needs the rest."""

OnFault = Literal["raise", "disable"]


class TrainingEngine:
    """Checkpoints, going back, timelines and their facts, for one open run.

    Args:
        run: receives the facts.
        state: of the training.
        replay: how the driver repeats steps.
        on_fault: `raise` if a checkpoint cannot be taken. `disable` takes no more of them, since
            a fault of midstep must not end the user's loop.
        meeting: of the ranks of this run; None without a process group.
    """

    def __init__(
        self,
        run: Run,
        state: TrainingState,
        replay: StepReplay,
        *,
        on_fault: OnFault,
        meeting: RankMeeting | None = None,
    ) -> None:
        self.run, self.state, self._replay = run, state, replay
        self._config, self._controller = state.config, run.controller
        store = CheckpointStore(run.dir, keep=self._config.checkpoint_keep)
        store.remove_leftovers()
        self.writer = CheckpointWriter(
            store, record=self._record, park=self._controller.boundary.hold
        )
        self.comparisons = StepComparisons(run, state, makes_steps=on_fault == "raise")
        """Compares repeated steps with their records."""
        self.rewind = Rewind(
            state,
            SnapshotRing(self._config.rewind_bytes, self._config.rewind_steps),
            replay,
            moved=self.moved,
            show_phase=lambda phase: self._controller.status.describe(phase=phase),
            on_compared=self.comparisons.report,
        )
        self.rewind.circumstances = self.comparisons.circumstances
        run.explain_with(training_access(state, self.rewind.ring, self.writer))
        self.report_moved: Callable[[str], object] = print_notice
        """Called with what no declared part holds and has changed, in words."""
        self.training_thread: int | None = None
        """Id of the thread that makes steps; a pause of it takes a checkpoint."""
        self._lineage = Lineage(run.dir)
        self._guard = (
            FaultGuard("taking a checkpoint", log, self._switch_off)
            if on_fault == "disable"
            else None
        )
        self.checkpoints_off: str | None = None
        """Why no more checkpoints are taken, in words; None while they are."""
        self._has_boundaries = True
        self.notices: list[str] = []
        """What the user should read when the run begins; the driver prints it."""
        self._may_be_lazy = state.is_lazy()
        self._meeting = meeting
        self._durability = CommandDurability(
            run, state, self.writer, record=self._record, meeting=meeting
        )
        self._checkpointed: tuple[int, ...] | None = None
        self._unsubscribe = self._controller.sinks.subscribe(self._checkpoint_if_parked)

    def open(self, resume_point: ResumePoint | None, inexact: Iterable[str] = ()) -> None:
        """Show where the training is, and record how it began.

        Args:
            resume_point: the checkpoint that was restored.
            inexact: what a resume or a step back cannot repeat exactly, in words.
        """
        state, run = self.state, self.run
        state.timeline = run.facts.timeline = max(state.timeline, run.facts.timeline)
        self._controller.boundary.move_to(state.step)
        self._controller.status.describe(epoch=state.epoch, timeline=state.timeline)
        for words in inexact:
            self._record(kind="inexact", reason=words)
        for fact in resume_point.facts() if resume_point is not None else ():
            self._record(**fact)
        if (reason := why_no_state(state.parts.model)) is not None:
            self._take_no_state(reason)
        if self._config.resume != "never":
            if run.attempt > 1:
                self.notices += self._durability.continue_run(resume_point)
            if self._meeting is not None:
                self._meeting.wait_for_runs(run.run_id)
        if resume_point is not None:
            self.comparisons.name_unsaved()
            self.comparisons.follow_record(resume_point, self.rewind)

    def name_untracked(self) -> None:
        """Name the tensors that are saved although no declared part holds them."""
        for words in self.state.untracked_words():
            self._record(kind="untracked_tensors", reason=words)
            print_notice(words)

    def close(self) -> None:
        """Take nothing more; returns when the last checkpoint is on disk."""
        self._unsubscribe()
        self.run.explain_with(None)
        self.writer.wait()

    # -- called by the driver ---------------------------------------------------------------------

    def step_finished(self, *, can_go_back: bool = True) -> None:
        """A step is counted in the state: take the checkpoint and the snapshot that are due.

        Args:
            can_go_back: False if the driver cannot return to this boundary.
        """
        if self.rewind.following is not None:
            self.rewind.step_made()
        every = self._config.checkpoint_every_steps
        is_due = every is not None and self.state.step % every == 0
        others = self.state.other_modules
        if others.watched and (is_due or others.are_new):
            self._report_moved_modules()
        if is_due:
            self.checkpoint("every")
        self.reapply_due()
        if can_go_back:
            self.take_due_snapshot()

    def _report_moved_modules(self) -> None:
        for words in self.state.other_modules.moved():
            self.report_moved(words)

    def reapply_due(self) -> None:
        """Repeat the recorded changes of this step that the restored state does not have."""
        reapplied = self._durability.reapplied
        if not reapplied.pending:
            return
        for change, old in reapplied.apply_due(self.state.step):
            self._record(
                kind="hparams_reapplied",
                step=self.state.step,
                old=old,
                new=change.new,
                of=list(change.identity),
            )
            self._checkpointed = None
            self.rewind.state_changed()

    def take_due_snapshot(self) -> None:
        """Take a snapshot if one is due; also before the first step of `fit`, or of a pass."""
        if self._may_be_lazy and not self._has_shapes():
            return
        if self.rewind.ring.is_due(self.state.step):
            self.rewind.take_snapshot()

    def _has_shapes(self) -> bool:
        """Whether the first forward pass has given the lazy parameters their shapes."""
        if self.state.step == 0 and self.state.is_lazy():
            return False
        self._may_be_lazy = False
        self.run.offer_tensors(self.state.parts.model)
        return True

    def epoch_finished(self, *, best: bool = False) -> None:
        """An epoch with all that belongs to it is over."""
        if self.state.other_modules.watched:
            self._report_moved_modules()
        if self._config.checkpoint_epochs:
            self.checkpoint("epoch", best=best)

    def ended(self, status: Literal["finished", "stopped"]) -> None:
        """The training is over; its last state is on disk when this returns.

        Raises:
            StorageError: the disk refuses it, with `on_fault="raise"` only. In any case
                `run.unsaved` says what is not on disk.
        """
        self.rewind.stop_following()
        self.run.unsaved = None
        try:
            self.checkpoint("stop" if status == "stopped" else "end", wait=True)
        except StorageError as error:
            self.run.unsaved = str(error)
            raise
        self.run.unsaved = self.run.unsaved or self.checkpoints_off

    def stopped_in_step(self) -> None:
        """A stop came in the middle of a step: keep the last boundary that can be restored."""
        snapshot = self.rewind.ring.nearest(self.state.step)
        saved_step = -1 if self._checkpointed is None else self._checkpointed[1]
        try:
            if snapshot is not None and snapshot.step > saved_step:
                self.writer.write_now(snapshot, "stop")
            elif not self.writer.checkpoints.names():
                self.run.unsaved = (
                    f"step {self.state.step + 1} was interrupted, and there is no checkpoint"
                )
        except StorageError as error:
            self.run.unsaved = str(error)
        self.run.unsaved = self.run.unsaved or self.checkpoints_off

    # -- checkpoints ------------------------------------------------------------------------------

    def checkpoint(self, reason: str, *, best: bool = False, wait: bool = False) -> None:
        """Take a checkpoint, unless this very state has one.

        Args:
            reason: for the fact.
            best: whether it has the best validation loss so far.
            wait: return when it is on disk.

        Raises:
            StorageError: the disk refuses it, with `wait` and `on_fault="raise"` only.
        """
        if not self._has_boundaries or (self._guard is not None and self.state.in_step):
            return  # there is no state here to continue from
        if self._guard is None:
            self._checkpoint(reason, best=best, wait=wait)
        else:
            self._guard.run(self._checkpoint_or_warn, reason, best=best, wait=wait)

    def save(self) -> Path:
        """Write a checkpoint now, even if this state has one; returns its path."""
        if not self._has_boundaries:
            raise ControlError(str(self.checkpoints_off))
        return self.writer.write_now(self.state.take(), "asked")

    def _checkpoint_or_warn(self, reason: str, *, best: bool, wait: bool) -> None:
        try:
            self._checkpoint(reason, best=best, wait=wait)
        except StorageError as error:  # only with `wait`, where the user's loop ends anyway
            self.run.unsaved = str(error)
            log.warning("%s", error)

    def take_no_checkpoints(self, words: str) -> None:
        """Take none from now on: the loop meets no boundary whose state could be continued."""
        self._has_boundaries = False
        self.checkpoints_off = self.checkpoints_off or f"no checkpoints are taken: {words}"
        self._controller.status.describe(checkpoints_off=self.checkpoints_off)

    def _take_no_state(self, reason: str) -> None:
        """Neither checkpoints nor snapshots: record why, and tell the user."""
        self.take_no_checkpoints(reason)
        self.rewind.ring.clear(reason)
        self._record(kind="checkpoints_off", reason=reason, step=self.state.step)
        self.notices.append(str(self.checkpoints_off))

    def _switch_off(self, error: Exception) -> None:
        """No further checkpoint can be taken: record why, and show it in the state."""
        if self.checkpoints_off is None:
            self.checkpoints_off = f"no checkpoints are taken: {error}"
            self._controller.status.describe(checkpoints_off=self.checkpoints_off)
            self._record(kind="checkpoints_off", reason=str(error), step=self.state.step)

    def _checkpoint(self, reason: str, *, best: bool, wait: bool) -> None:
        # A loader worker that dies now would raise in here, since torch raises from its SIGCHLD
        # handler wherever the main thread is; the loader notices the death at its next batch.
        with sigchld_ignored():
            if self._checkpointed == self.state.position and not best:
                if wait:
                    self.writer.wait_or_raise()
                return
            snapshot = self.state.take(to_host=self._is_short_of_memory() or None)
            if wait:
                self.writer.write_now(snapshot, reason)
            else:
                self.writer.write_soon(snapshot, reason, best=best)
            self._checkpointed = self.state.position

    def _is_short_of_memory(self) -> bool:
        """Whether a clone might not fit on the device; then it goes to host memory at once."""
        weight = next(self.state.parts.model.parameters(), None)
        if weight is None or weight.device.type != "cuda":
            return False
        import torch

        free, _ = torch.cuda.mem_get_info(weight.device)
        reserved = torch.cuda.memory_reserved(weight.device)
        unused = free + reserved - torch.cuda.memory_allocated(weight.device)
        return self.state.state_bytes() > SHARE_OF_FREE * unused

    def _checkpoint_if_parked(self) -> None:
        """Called on every change of the controller: a training thread that parks is saved.

        Not while steps are repeated: the state is then on its way to another step.
        """
        if threading.get_ident() != self.training_thread or not self._controller.is_parked:
            return
        if self._replay.is_active or self.run.ended:
            return
        if self._may_be_lazy and not self._has_shapes():
            return
        if self._config.deterministic_pauses:
            try:
                self.checkpoint("pause")
            except UnsavableError as error:  # the caller is a callback, which cannot raise it
                log.warning("%s", error)
                self._switch_off(error)

    # -- called by commands, at a boundary --------------------------------------------------------

    def go_to(self, snapshot: Snapshot, *, cause: str) -> None:
        """Restore a snapshot of this run and continue from it in a new timeline."""
        from_step = self.state.step
        self.state.restore(snapshot)
        self.moved(from_step, cause=cause, source=snapshot)
        self.rewind.restart()

    def moved(
        self,
        from_step: int,
        *,
        cause: str,
        step: int | None = None,
        source: Snapshot | None = None,
    ) -> None:
        """The state is at another step than `from_step`: begin a new timeline, as a fact.

        Args:
            from_step: the step it was at.
            cause: the command.
            step: where the old timeline ends; the step of the state if left out.
            source: the snapshot that was loaded from elsewhere; None after going back.
        """
        self.comparisons.unchecked_resume = None
        state, facts = self.state, self.run.facts
        parent = facts.timeline
        target = state.step if step is None else step
        state.timeline = facts.timeline = max(state.timeline, parent) + 1
        self._checkpointed = None
        self._controller.boundary.move_to(state.step)
        self._show_position(is_on_path=cause == "back")
        self._record_request(
            kind="rewind",
            cause=cause,
            from_step=from_step,
            step=target,
            epoch=state.epoch,
            parent=parent,
            **({} if source is None else source_fields(source)),
        )
        self._durability.moved(target, cause, source)
        self.comparisons.name_unsaved()

    def _show_position(self, *, is_on_path: bool) -> None:
        """Show epoch, rate and loss of the step that the state is at now.

        Args:
            is_on_path: whether the losses of earlier steps belong to this state; those of another
                checkpoint do not, so its loss is unknown.
        """
        state = self.state
        self._controller.status.describe(
            epoch=state.epoch, timeline=state.timeline, **state.parts.describe_rate()
        )
        if not is_on_path:
            state.losses.clear()
        loss = next((loss for at, loss in reversed(state.losses) if at == state.step), None)
        if loss is not None:
            self._controller.boundary.show_loss(loss)

    def not_kept(self) -> dict[str, Any]:
        """A field of a command's result that says why its effect does not survive a kill.

        Empty if it does, as nearly always.
        """
        return self._durability.confirm(self.checkpoints_off)

    def hparams_changed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Hyperparameters were changed: record it, and save a state that has them."""
        step, change = self.state.step, {"old": dict(old), "new": dict(new)}
        self._record_request(kind="hparams", **change, step=step)
        self._durability.changed(new)
        self._checkpointed = self.comparisons.unchecked_resume = None
        self.rewind.state_changed()
        self._lineage.changed(timeline=self.state.timeline, step=step, kind="hparams", **change)
        self.checkpoint("hparams")

    def record_refused(self, problems: Iterable[str]) -> None:
        """Record checkpoints that were skipped because they are damaged."""
        for problem in problems:
            self._record_request(kind="checkpoint_refused", reason=problem)

    def _record(self, **fields: Any) -> None:
        """Record what the engine does by itself."""
        self.run.event(Moment.INTERVENTION, who="system", **fields)

    def _record_request(self, **fields: Any) -> None:
        """Record what a command did, with who submitted it."""
        who = self._controller.queue.submitted_by or "python"
        self.run.event(Moment.INTERVENTION, who=who, **fields)
