"""`LoopReplay`: resuming and going back in a loop that only the user can run.

Nothing here can run the body of the user's loop. To repeat steps, the loop itself runs through them
again, without any report, until it reaches the requested step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.control.command_record import StepsToPass
from midstep.core.errors import ConfigError, ControlError
from midstep.session.engine.resume import restore_resume_point

if TYPE_CHECKING:
    from midstep.control import DebugController
    from midstep.session.engine.resume import ResumePoint
    from midstep.session.rewind.back import Rewind
    from midstep.session.rewind.repeated_steps import RepeatedSteps
    from midstep.session.state.snapshot import Snapshot
    from midstep.session.state.training_state import StepMark, TrainingState


class LoopReplay:
    """The `StepReplay` of an attached loop. Runs on the training thread.

    A resume restores in three places. When the run starts, without moving the loader: the script
    may read the model before its first epoch. When `run.epochs` begins, with the position in the
    data. At the first batch once more, without moving the loader: what the script does at the head
    of an epoch was done before the checkpoint, too, and must not count twice.

    Args:
        state: of the training.
        controller: shows the phase; the boundary moves with repeated steps.
        resume_point: the checkpoint to continue from.
    """

    def __init__(
        self, state: TrainingState, controller: DebugController, resume_point: ResumePoint | None
    ) -> None:
        resumed = None if resume_point is None else resume_point.snapshot
        # Kept only if parts have changed, since it holds the whole state.
        is_other = resume_point is not None and bool(resume_point.changed)
        self._changed_point = resume_point if is_other else None
        self._state, self._controller = state, controller
        self._unplaced = resumed  # until `run.epochs` moves the loader
        self.restored = resumed
        """The snapshot of the resume, until the first step after it."""
        self.in_pass = False
        """Whether the loop is inside a pass over its loader, so that it can return within it."""
        self.is_active = False
        """Whether the running step repeats an earlier one."""
        self._target = 0
        self._repeated: RepeatedSteps | None = None
        if resumed is not None:
            self._load(resumed, seek_data=False)
            state.kept.resume(resumed.states.get("kept", {}))

    # -- resume -----------------------------------------------------------------------------------

    @property
    def is_resuming(self) -> bool:
        """Whether the loader has still to be moved to the position of the checkpoint."""
        return self._unplaced is not None

    def first_epoch(self) -> int:
        """The epoch to begin with; moves a resumed loop to its position in the data."""
        snapshot, self._unplaced = self._unplaced, None
        if snapshot is None:
            return 0
        self._restore(snapshot, seek_data=True)
        has_begun = snapshot.states["order"]["begun"] or snapshot.states.get("steps")
        self.restored = snapshot
        if not has_begun:
            self.forget_resume()
        return snapshot.epoch

    def begin_pass(self) -> None:
        """The first batch of a pass is requested."""
        if self._unplaced is not None:
            raise ConfigError(
                "a resumed loop needs `for epoch in run.epochs(n)` around its passes, to know "
                "which epoch to continue with"
            )
        if self.restored is not None:
            self._restore(self.restored, seek_data=False)
        self.in_pass = True

    def begin_steps(self, call: int) -> bool:
        """The `call`-th loop over `run.steps` begins; False if a resume is beyond it.

        The loop that the checkpoint was taken in continues at its index.
        """
        snapshot = self._unplaced or self.restored
        position = self._state.steps
        saved = {} if snapshot is None else snapshot.states.get("steps", {})
        saved_loop = int(saved.get("loop", 0))
        if snapshot is not None and call < saved_loop:
            return False
        position.loop, position.index = call, 0
        self._unplaced = self.restored = None
        if snapshot is not None:
            self._restore(snapshot, seek_data=True)
            if call != saved_loop:  # the checkpoint was taken before this loop
                position.loop, position.index = call, 0
            self.forget_resume()
        return True

    def forget_resume(self) -> None:
        """Free the checkpoint of the resume: nothing is restored from it any more."""
        self.restored = None
        if self._unplaced is None:
            self._changed_point = None

    def _restore(self, snapshot: Snapshot, *, seek_data: bool) -> None:
        """Restore without changing the timeline, which the open run has chosen."""
        timeline = self._state.timeline
        self._load(snapshot, seek_data=seek_data)
        self._state.timeline = timeline

    def _load(self, snapshot: Snapshot, *, seek_data: bool) -> None:
        point = self._changed_point
        if point is None or snapshot is not point.snapshot:
            self._state.restore(snapshot, seek_data=seek_data)
        else:
            restore_resume_point(self._state, point, seek_data=seek_data)

    # -- going back -------------------------------------------------------------------------------

    def obstacle(self) -> str | None:
        """Why the loop cannot return to an earlier step now; None if it can."""
        if self._state.in_step:
            return "the loop is inside a step"
        return None if self.in_pass else "the loop is not inside a pass over its loader"

    def check(self, base: Snapshot | None, target: int) -> None:
        """Refuse a step that the user's own `for` loops cannot return to."""
        epoch, position = self._state.epoch, self._state.steps
        if self._state.in_step:
            raise ControlError(
                "the run cannot go back in the middle of a step; let the step finish first"
            )
        if position and self.in_pass:
            if base is not None and base.states.get("steps", {}).get("loop") != position.loop:
                raise ControlError("that step is not in the running loop over run.steps")
            return
        if not self.in_pass:
            raise ControlError(
                "the loop has left its pass over the loader, so the run cannot go back into it; go "
                "back inside an epoch, or train with midstep.Session"
            )
        if base is None or base.epoch != epoch:
            raise ControlError(
                f"no snapshot of epoch {epoch + 1} reaches step {target:,}; under attach a run "
                "can go back inside the running epoch, beyond it with midstep.Session"
            )

    def run(self, rewind: Rewind, base: Snapshot, target: int) -> Any:
        """Continue from `base`; the loop then repeats its steps up to `target`, and parks there."""
        from_step = self._state.step
        repeated = self._repeated = rewind.compare_repeated(base.step, target)
        # Before anything is shown: a parked loop must not be saved on its way to the target.
        self.is_active = base.step < target
        self._target = target
        self._state.restore(base)
        rewind.arrived(from_step, step=target)
        if not self.is_active:
            return {"step": target, **repeated.answer(0)}
        rewind.show_phase(f"repeating steps up to {target:,}")
        return StepsToPass(1, lambda: self._answer(rewind, repeated, target - base.step))

    def _answer(self, rewind: Rewind, repeated: RepeatedSteps, steps: int) -> dict[str, Any]:
        answer = repeated.answer(steps)
        if answer["exact"] is False:
            rewind.following = None  # it is known that later steps differ, too
        return answer

    def step_repeated(self, mark: StepMark | None) -> bool:
        """A repeated step is over; True at the target, where the loop meets its boundary again."""
        if self._repeated is not None:
            self._repeated.compare(self._state.step, mark)
        if self._state.step < self._target:
            self._controller.boundary.move_to(self._state.step)
            return False
        self.is_active = False
        self._controller.status.describe(phase=None, **self._state.parts.describe_rate())
        return True

    def forget_before(self, step: int) -> None:
        """Drop the marks up to `step`."""
        self._state.keep_marks(lambda at: at > step)

    def restart(self) -> None:
        """Drop all marks: later steps do not follow from earlier ones."""
        self._state.marks.clear()
