"""Going back: restore the nearest snapshot of the ring, then repeat the steps after it.

Who repeats the steps depends on the driver: a session makes them itself, under `attach` the user's
own loop runs through them again. Both are a `StepReplay`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from midstep.core.errors import ControlError
from midstep.session.rewind.repeated_steps import Circumstances, RepeatedSteps

if TYPE_CHECKING:
    from midstep.core.commands.catalog import BackPayload
    from midstep.session.rewind.repeated_steps import StepComparison
    from midstep.session.rewind.snapshot_ring import SnapshotRing
    from midstep.session.state.snapshot import Snapshot
    from midstep.session.state.training_state import StepMark, TrainingState

log = logging.getLogger("midstep.session")


class StepReplay(Protocol):
    """How a driver repeats steps. All but `obstacle` runs on the training thread."""

    @property
    def is_active(self) -> bool:
        """Whether steps are being repeated now: nothing is reported or saved meanwhile."""

    def obstacle(self) -> str | None:
        """Why no step can be repeated now, in words; None if one can. Called by any thread."""

    def check(self, base: Snapshot | None, target: int) -> None:
        """Raise `ControlError` if the driver cannot get from `base` to step `target`."""

    def run(self, rewind: Rewind, base: Snapshot, target: int) -> Any:
        """Go to `base`, repeat the steps up to `target`; the result of the command `back`."""

    def forget_before(self, step: int) -> None:
        """The ring no longer reaches back to `step`: drop what was noted up to there."""

    def restart(self) -> None:
        """The state was changed or moved from outside: drop the earlier notes."""


class Moved(Protocol):
    """Called when the training continues from another step: starts a new timeline, as a fact."""

    def __call__(self, from_step: int, *, cause: str, step: int | None = None) -> None:
        """`step` is where the old timeline ends, if not at the step of the state."""


class Rewind:
    """Fills the ring while a training runs, and goes back with it.

    Args:
        state: of the training.
        ring: snapshots in host memory.
        replay: how the driver repeats steps.
        moved: called once the training is at another step.
        show_phase: shows what takes time; None when it is over.
        on_compared: called with the result when repeated steps were compared; with None when `back`
            begins, whose result is not known yet.
    """

    def __init__(
        self,
        state: TrainingState,
        ring: SnapshotRing,
        replay: StepReplay,
        *,
        moved: Moved,
        show_phase: Callable[[str | None], object],
        on_compared: Callable[[StepComparison | None], object] = lambda _result: None,
    ) -> None:
        self._state, self.ring, self._replay = state, ring, replay
        self._moved, self.show_phase = moved, show_phase
        self._on_compared = on_compared
        self.following: RepeatedSteps | None = None
        """Compares the steps that a resume, or a run that went back, repeats."""
        self.circumstances: Callable[[], Circumstances] = Circumstances
        """What explains that a repeated step differs."""

    def take_snapshot(self) -> None:
        """Take a snapshot of this boundary; called when `ring.is_due`."""
        state = self._state
        try:
            take, size_bytes = self._ways_to_take()
            if self.ring.take(take, state.step, size_bytes):
                self._replay.forget_before(self.ring.first_step or 0)
        except Exception as error:  # noqa: BLE001
            # A fault of midstep must not end the training: going back is off, training continues.
            self._switch_off(error)

    def state_changed(self) -> None:
        """The state was changed at this boundary, so later steps do not follow from earlier ones.

        A snapshot is taken here. If it does not fit, the ring is cleared: repeating steps from an
        older snapshot would miss the change.
        """
        self.stop_following()  # the recorded steps were made without this change
        try:
            if self._replay.obstacle() is not None or not self.keep_here():
                self.ring.clear()
            self._replay.restart()
        except Exception as error:  # noqa: BLE001
            # As above. The change itself has been made and stays.
            self._switch_off(error)

    def restart(self) -> None:
        """The state was moved from outside, such as to a checkpoint: start again from here."""
        self.ring.clear()
        self.state_changed()

    def keep_here(self, *, beside: Snapshot | None = None) -> bool:
        """Take a snapshot now, whatever it costs; True if it fits into the ring."""
        take, size_bytes = self._ways_to_take()
        return self.ring.keep(take, self._state.step, size_bytes, beside=beside)

    def _ways_to_take(self) -> tuple[Callable[[], Snapshot], Callable[[], int]]:
        """Takes a snapshot, and tells how large it would be; both compare large arrays once."""
        state = self._state
        large = self.ring.copies_before(state.step)
        return lambda: state.take(to_host=True, large=large), lambda: state.state_bytes(large)

    def _switch_off(self, error: Exception) -> None:
        log.exception("taking a snapshot raised; going back is off, training continues")
        self.ring.clear(f"taking a snapshot failed: {type(error).__name__}: {error}")

    # -- back -------------------------------------------------------------------------------------

    def back(self, payload: BackPayload) -> Any:
        """Go back; what the replay returns is the result of the command.

        Raises:
            ControlError: there is no snapshot, or no way, to the step.
        """
        step = self._state.step
        target = payload.target(step)
        if target >= step:
            raise ControlError(f"Step {target:,} is not before step {step:,}, where the run is.")
        if target < 0:
            raise ControlError(f"There are only {step:,} steps to go back.")
        if self.ring.off is not None:
            raise ControlError(f"There is no way back: {self.ring.off}.")
        # Every refusal comes before the first change: the present state may have no snapshot.
        base = self.ring.nearest(target)
        self._replay.check(base, target)
        if base is not None:
            self._state.check_fits(base)
        return self._replay.run(self, self._checked(base, target), target)

    def arrived(self, from_step: int, *, step: int | None = None) -> None:
        """The training is at an earlier step: later snapshots belong to the old timeline.

        The steps after it are compared, too, when they are repeated.
        """
        # Under `attach` the state is at the snapshot: the user's loop has yet to run to `step`.
        arrived_at = self._state.step if step is None else step
        self.ring.forget_after(self._state.step)
        self.follow(self.marks_between(arrived_at, from_step), cause="back")
        self._state.keep_marks(lambda at: at <= arrived_at)
        self._moved(from_step, cause="back", step=step)

    # -- comparing --------------------------------------------------------------------------------

    def marks_between(self, start: int, stop: int) -> dict[int, StepMark]:
        """The marks of the steps after `start`, up to `stop`."""
        return {at: mark for at, mark in self._state.marks if start < at <= stop}

    def compare_repeated(self, start: int, target: int) -> RepeatedSteps:
        """Compare the steps that going back repeats, from `start` to `target`."""
        self._on_compared(None)
        return RepeatedSteps(
            self.marks_between(start, target),
            cause="back",
            on_result=self._on_compared,
            circumstances=self.circumstances(),
        )

    def follow(
        self,
        expected: Mapping[int, StepMark],
        *,
        cause: str,
        circumstances: Circumstances | None = None,
        is_recorded: bool = True,
    ) -> None:
        """Compare the next steps with these marks; see `RepeatedSteps`."""
        self.stop_following()
        if expected:
            known = self.circumstances() if circumstances is None else circumstances
            self.following = RepeatedSteps(
                expected,
                cause=cause,
                on_result=self._on_compared,
                circumstances=known,
                is_recorded=is_recorded,
            )

    def step_made(self) -> None:
        """A step was made: compare it. Called while there is something to follow."""
        following = self.following
        if following is not None:
            following.compare(self._state.step, self._state.last_mark)
            if following.result is not None:
                self.following = None

    def stop_following(self) -> None:
        """Compare no further: the training is changed, moved or over."""
        following, self.following = self.following, None
        if following is not None:
            following.end()

    def check_reachable(self, snapshot: Snapshot) -> None:
        """Raise `ControlError` if the driver cannot continue from this snapshot."""
        self._replay.check(snapshot, snapshot.step)
        self._state.check_fits(snapshot)

    def _checked(self, base: Snapshot | None, target: int) -> Snapshot:
        if base is not None:
            return base
        if self.ring.first_step is None:
            raise ControlError("There is no way back: no snapshot fits into rewind_bytes.")
        raise ControlError(
            f"Step {target:,} is too far back; the oldest reachable step is "
            f"{self.ring.first_step:,}."
        )

    # -- read by any thread -----------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Every field of `GET /debug/rewind`."""
        step = self._state.step
        ring = self.ring.describe(step)
        first = ring["first_step"]
        reason = self.ring.off or self._replay.obstacle()
        if reason is None and (first is None or first >= step):
            reason = "no snapshot before this step is held"
        return {
            "available": reason is None,
            "reason": None if reason is None else f"There is no way back: {reason}.",
            "step": step,
            "timeline": self._state.timeline,
            **ring,
        }
