"""What an attached loop can return to: checkpoints on disk, and a ring of states in memory.

Nothing here can run the user's loop body. To repeat steps, the loop itself goes through them once
more, with nobody told, until it stands at the step that was asked for.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, ControlError, StorageError
from midstep.core.moments import Moment
from midstep.live.plain_loop import disable_on_error
from midstep.session.engine.lineage import Lineage
from midstep.session.sigchld_guard import sigchld_ignored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from midstep.session import Run
    from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
    from midstep.session.config import SessionConfig
    from midstep.session.engine.resume import ResumePoint
    from midstep.session.rewind.snapshot_ring import SnapshotRing
    from midstep.session.state.snapshot import Snapshot
    from midstep.session.state.training_state import TrainingState

__all__ = ["LoopMemory"]

log = logging.getLogger("midstep.live")


class LoopMemory:
    """Takes snapshots of an attached loop at its boundaries, and brings it back to them.

    Args:
        state: what a snapshot holds.
        run: where it is told.
        keeper: who writes checkpoints.
        ring: states in memory.
        config: when checkpoints are taken.
        resumed: the checkpoint to go on from.
    """

    def __init__(
        self,
        state: TrainingState,
        run: Run,
        keeper: CheckpointWriter,
        ring: SnapshotRing,
        config: SessionConfig,
        resumed: ResumePoint | None,
    ) -> None:
        self._state, self._run, self.keeper, self.ring = state, run, keeper, ring
        self._config, self._controller = config, run.controller
        self._resumed = None if resumed is None else resumed.snapshot
        self._unplaced = self._resumed
        """The snapshot that was gone on from, until a step is made behind it."""
        self._lineage = Lineage(run.dir)
        self._kept: tuple[int, ...] | None = None
        self._inside = False
        self._over = False
        self._thread = threading.get_ident()
        self._target = 0
        self._repeated = 0
        self._keep = disable_on_error(self._take_checkpoint, "taking a checkpoint")
        self._offer = disable_on_error(self._offer_to_ring, "keeping states to go back to")
        self._unsubscribe = self._controller.sinks.subscribe(self._look_whether_parked)
        if self._resumed is not None:
            state.restore(
                self._resumed, place=False
            )  # so that the model is what it was, from now on
            state.timeline = max(self._resumed.timeline, run.facts.timeline)
            self._controller.boundary.move_to(self._resumed.step)
            self._controller.status.describe(timeline=state.timeline, epoch=self._resumed.epoch)
        state.timeline = run.facts.timeline = max(state.timeline, run.facts.timeline)

    def close(self) -> None:
        """Take nothing more."""
        self._over = True
        self._unsubscribe()

    # -- the loop ---------------------------------------------------------------------------------

    @property
    def resuming(self) -> bool:
        """Whether the loop has still to be brought to where the checkpoint was taken."""
        return self._resumed is not None

    def first_epoch(self) -> int:
        """The epoch to begin with; a resumed loop goes to its place in the data here."""
        snapshot, self._resumed = self._resumed, None
        if snapshot is None:
            return 0
        self._state.restore(snapshot)
        begun = bool(snapshot.states["order"]["begun"])
        self._unplaced = snapshot if begun else None
        return snapshot.epoch

    def pass_begins(self) -> None:
        """The first batch of a pass is asked for."""
        if self._resumed is not None:
            raise ConfigError(
                "a resumed loop needs `for epoch in run.epochs(n)` around its passes, to know "
                "which epoch it goes on with"
            )
        if self._unplaced is not None:
            # What the script does at the head of an epoch was done before the checkpoint, too.
            self._state.restore(self._unplaced, place=False)
        self._inside = True
        self._offer(self._run.step)

    @property
    def repeating(self) -> bool:
        """Whether the step in progress repeats one of before: nobody is told of it."""
        return self._target > 0

    def step_repeated(self) -> bool:
        """A repeated step is over; True at the one where the loop is to stand."""
        self._repeated += 1
        if self._repeated < self._target:
            self._controller.boundary.move_to(self._repeated)
            return False
        self._target = 0  # the boundary that comes counts this step
        self._controller.status.describe(phase=None)
        return True

    def boundary(self, *, inside: bool) -> None:
        """A step is over, but not counted yet."""
        step = self._run.step + 1
        self._inside, self._unplaced = inside, None
        every = self._config.checkpoint_every_steps
        if every is not None and step % every == 0:
            self._keep(step, "every")
        if inside:
            self._offer(step)

    def epoch_ended(self) -> None:
        """All that belongs to an epoch is done."""
        self._inside, self._unplaced = False, None
        self.ring.clear()  # nothing of an epoch that is over can be reached
        self._keep(self._run.step, "epoch")

    def ended(self, status: str) -> None:
        """The training is over; its last state is on the disk when this returns."""
        self._over = True
        self._keep(self._run.step, "stop" if status == "stopped" else "end", wait=True)

    # -- taking -----------------------------------------------------------------------------------

    def _take_checkpoint(self, step: int, reason: str, *, wait: bool = False) -> None:
        """Have this state written, unless it was."""
        order = self._state.order
        place = (self._state.timeline, step, order.epoch, order.cursor)
        try:
            # A worker that dies now would raise in here; the loader notices it at its next batch.
            with sigchld_ignored():
                if place == self._kept:
                    if wait:
                        self.keeper.wait()
                elif wait:
                    self.keeper.write_now(self._state.take(step), reason)
                else:
                    self.keeper.write_soon(self._state.take(step), reason)
            self._kept = place
        except StorageError as error:
            log.warning("%s", error)  # the run ends all the same, and this is all it can say

    def _offer_to_ring(self, step: int) -> None:
        self.ring.offer(lambda: self._state.take(step), step)

    def _look_whether_parked(self) -> None:
        """Called when anything changed: the training thread that parks takes a checkpoint."""
        if threading.get_ident() != self._thread or not self._controller.is_parked or self._over:
            return
        if not self._run.ended and self._run.step > 0:
            self._keep(self._run.step, "pause")

    # -- going back: commands, on the training thread at a boundary -------------------------------

    def save(self) -> dict[str, Any]:
        """Write a checkpoint of this boundary."""
        path = self.keeper.write_now(self._state.take(self._run.step), "asked")
        return {"step": self._run.step, "checkpoint": f"checkpoints/{path.name}"}

    def load(self, step: int | None, timeline: int | None) -> dict[str, Any]:
        """Go to a checkpoint of this epoch."""
        self.keeper.wait()
        found = self.keeper.checkpoints.load(step, timeline=timeline)
        snapshot = self._reachable(found.step, found)
        self.ring.clear()  # its states lead to where the loop was, not to where it goes now
        return self._go_to(snapshot, cause="load_checkpoint")

    def back(self, step: int) -> int:
        """Go to `step`, or before it; gives back how many steps are to be repeated."""
        now = self._run.step
        if not 0 <= step < now:
            raise ControlError(f"back goes to a step before {now:,}; step {step:,} is none")
        if self.ring.off is not None:
            raise ControlError(f"no states are kept to go back to: {self.ring.off}")
        snapshot = self._reachable(step, self.ring.nearest(step))
        self._go_to(snapshot, cause="back", step=step)
        if snapshot.step < step:
            self._target, self._repeated = step, snapshot.step
            self._controller.status.describe(phase=f"repeating steps up to {step:,}")
        return step - snapshot.step

    def _reachable(self, step: int, snapshot: Snapshot | None) -> Snapshot:
        """The snapshot, if the user's own `for` loops can be taken back to it."""
        epoch = self._state.order.epoch
        if not self._inside:
            raise ControlError(
                "the loop has left its pass over the loader, and nothing can bring it back into "
                "it; step back inside an epoch, or train with midstep.Session"
            )
        if snapshot is None or snapshot.epoch != epoch:
            raise ControlError(
                f"step {step:,} is not in what is kept of epoch {epoch}; under attach one can go "
                "back inside the epoch that runs, beyond it with midstep.Session"
            )
        return snapshot

    def _go_to(self, snapshot: Snapshot, *, cause: str, step: int | None = None) -> dict[str, Any]:
        """Stand where a snapshot was taken, in a new timeline that leaves the old one at `step`."""
        state, run, left = self._state, self._run, self._run.step
        state.restore(snapshot)
        parent = run.facts.timeline
        state.timeline = run.facts.timeline = max(state.timeline, parent) + 1
        self._controller.boundary.move_to(snapshot.step)
        self._controller.status.describe(epoch=snapshot.epoch, timeline=state.timeline)
        self._kept = None
        self.ring.forget_after(snapshot.step)
        where = {"step": snapshot.step if step is None else step, "epoch": snapshot.epoch}
        self._tell(kind="rewind", cause=cause, from_step=left, parent=parent, **where)
        return {**where, "cursor": snapshot.cursor, "timeline": state.timeline}

    def _tell(self, **fields: Any) -> None:
        who = self._controller.queue.asked_by or "python"
        self._run.event(Moment.INTERVENTION, who=who, **fields)

    def changed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Hyperparameters were changed by hand: what follows does not follow from before."""
        step = self._run.step
        self._lineage.changed(
            timeline=self._state.timeline, step=step, kind="hparams", old=dict(old), new=dict(new)
        )
        self._kept = None
        self._keep(step, "hparams")
        if not (self._inside and self.ring.keep(lambda: self._state.take(step), step)):
            self.ring.clear()  # from an older state the steps repeated would miss the change

    def describe(self) -> dict[str, Any]:
        """How far back one can go, as `GET /debug/rewind` tells it; asked by any thread."""
        step = self._run.step
        told = self.ring.describe(step)
        reason = self.ring.off
        if reason is None and not self._inside:
            reason = "the loop is not inside a pass over its loader"
        if reason is None and (told["first_step"] is None or told["first_step"] >= step):
            reason = "no state of this epoch behind this step is kept"
        return {
            "available": reason is None,
            "reason": None if reason is None else f"There is no way back: {reason}.",
            "step": step,
            "timeline": self._state.timeline,
            **told,
        }
