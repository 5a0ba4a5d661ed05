"""What is done to an open session at its boundaries, beside its steps: kept, moved, changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.moments import Moment
from midstep.session.engine.lineage import Lineage

if TYPE_CHECKING:
    from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
    from midstep.session.fit.fit_loop import FitLoop
    from midstep.session.fit.trainer import Trainer
    from midstep.session.rewind.back import Rewind
    from midstep.session.run import Run
    from midstep.session.state.snapshot import Snapshot

__all__ = ["Helm"]


class Helm:
    """An open session in the hands of its commands; all on the training thread.

    Args:
        training: what is moved.
        run: where that is told.
        keeper: who writes its checkpoints.
        rewinder: has to know of every move and change.
        first: the state before step 0.
    """

    def __init__(
        self,
        training: Trainer,
        run: Run,
        keeper: CheckpointWriter,
        rewinder: Rewind,
        first: Snapshot,
    ) -> None:
        self.training, self.run, self.keeper, self.first = training, run, keeper, first
        self.fit: FitLoop | None = None
        """The loop, while it is on."""
        self._rewinder, self._lineage = rewinder, Lineage(run.dir)

    def checkpoint(self, reason: str = "asked") -> Path:
        """Write a checkpoint of this boundary; its path, once it is on the disk."""
        return self.keeper.write_now(self.training.take(), reason)

    def go_to(self, snapshot: Snapshot, *, cause: str) -> None:
        """Stand where a snapshot was taken, in a new timeline, as a fact."""
        left = self.training.step
        self.training.restore(snapshot)
        self.arrived(left, cause=cause)
        self._rewinder.moved()

    def tell_refused(self, problems: Iterable[str]) -> None:
        """Checkpoints were passed over: a fact each."""
        for problem in problems:
            self._tell(kind="checkpoint_refused", reason=problem)

    def arrived(self, left: int, *, cause: str) -> None:
        """The training was put to another step, from step `left`: a new timeline, as a fact."""
        training, run, control = self.training, self.run, self.run.controller
        parent = run.facts.timeline
        training.timeline = run.facts.timeline = max(training.timeline, parent) + 1
        control.boundary.move_to(training.step)
        control.status.describe(epoch=training.epoch, timeline=training.timeline)
        self._state_changed()
        self._tell(
            kind="rewind",
            cause=cause,
            from_step=left,
            step=training.step,
            epoch=training.epoch,
            parent=parent,
        )

    def hparams_changed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Hyperparameters were changed by hand: a fact, and a checkpoint that has them."""
        training, changed = self.training, {"old": dict(old), "new": dict(new)}
        step = training.step
        self._tell(kind="hparams", **changed, step=step)
        self._state_changed()
        self._rewinder.changed()
        self._lineage.changed(timeline=training.timeline, step=step, kind="hparams", **changed)
        if rate := new.get("lr"):
            self.run.controller.status.describe(lr=float(rate[0]))
        self.keeper.write_soon(training.take(), "hparams")

    def _tell(self, **fields: Any) -> None:
        """A fact, with who asked for it."""
        who = self.run.controller.queue.asked_by or "python"
        self.run.event(Moment.INTERVENTION, who=who, **fields)

    def _state_changed(self) -> None:
        """What was kept of this step is out of date."""
        if self.fit is not None:
            self.fit.changed()
