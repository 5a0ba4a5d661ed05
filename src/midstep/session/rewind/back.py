"""Going back: restore the nearest snapshot of the ring, then repeat the steps behind it.

A repeated step calls no hook of the user, writes no fact and trips no breakpoint. What each step
came to the first time is remembered, so that a repetition that comes to something else is seen.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from midstep.core.commands.catalog import BackPayload
from midstep.core.errors import ControlError
from midstep.session.rewind.snapshot_ring import SnapshotRing
from midstep.session.state.snapshot import Snapshot

log = logging.getLogger("midstep.session")
_TELL_EVERY_S = 0.05
_MOST_WITNESSES = 1 << 16
"""Steps whose outcome is remembered; further ones are repeated without being compared."""


class StepReplay(Protocol):
    """What can be taken back: a `Trainer`."""

    step: int

    def take(self, *, to_host: bool = False) -> Snapshot:
        """The whole state at this boundary."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Stand where the snapshot was taken."""
        ...

    def advance(self) -> Any:
        """One step."""
        ...

    def replay(self) -> AbstractContextManager[None]:
        """Steps inside the block are repeated ones."""
        ...

    def state_bytes(self) -> int:
        """What the tensors of a snapshot would take."""
        ...

    def witness(self) -> tuple[tuple[Any, ...], ...]:
        """What the steps so far came to, cheaply and by name: a repetition has the same."""
        ...


class Rewind:
    """Fills a ring while a training goes on, and takes the training back with it.

    All but `describe` is the training thread's.

    Args:
        training: what is taken back.
        ring: where its snapshots are.
        arrived: told where the training came from, once it stands elsewhere: `arrived(left)`.
        tell: told what is going on, None when it is over.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        training: StepReplay,
        ring: SnapshotRing,
        *,
        arrived: Callable[[int], object] = lambda _left: None,
        tell: Callable[[str | None], object] = lambda _phase: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._training, self.ring = training, ring
        self._arrived, self._tell, self._clock = arrived, tell, clock
        self._witnesses: dict[int, tuple[tuple[Any, ...], ...]] = {}

    # -- while the training goes on ---------------------------------------------------------------

    def boundary(self) -> None:
        """A step is done: remember what it came to, and take a snapshot if one is due."""
        training, ring = self._training, self.ring
        if ring.off is not None:
            return
        try:
            if ring.offer(self._take, training.step, size_bytes=training.state_bytes):
                self._forget_witnesses()
            if ring.first_step is not None:
                self._witnesses[training.step] = training.witness()
            if len(self._witnesses) > _MOST_WITNESSES:
                del self._witnesses[next(iter(self._witnesses))]
        except Exception as error:  # noqa: BLE001
            # Ours, not the user's: one cannot go back any more, but the training goes on.
            self._fail(error)

    def changed(self) -> None:
        """Somebody changed the state at this boundary: what follows does not follow from before."""
        training, ring = self._training, self.ring
        try:
            if not ring.keep(self._take, training.step, training.state_bytes):
                ring.clear()  # from an older snapshot a replay would miss the change
            self._witnesses = {training.step: training.witness()}
        except Exception as error:  # noqa: BLE001
            # As above: the change itself has been made.
            self._fail(error)

    def _take(self) -> Snapshot:
        return self._training.take(to_host=True)

    def _fail(self, error: Exception) -> None:
        log.exception("taking a snapshot raised; going back is off, training goes on")
        self.ring.clear(f"taking a snapshot failed: {type(error).__name__}: {error}")

    def _forget_witnesses(self) -> None:
        first = self.ring.first_step or 0
        self._witnesses = {step: seen for step, seen in self._witnesses.items() if step > first}

    # -- back -------------------------------------------------------------------------------------

    def back(self, payload: BackPayload) -> Generator[float, None, dict[str, Any]]:
        """Go back, in slices that yield how much is done; gives where it stands and how.

        Closed before its end, or by an error in a step, it returns to where it came from. Where
        memory allowed no snapshot of that, it stays at the step it has reached.
        """
        training, left = self._training, self._training.step
        target = payload.target(left)
        base = self._base(target, left)
        here = self._keep_here(base) if base.step < target else None
        reached = False
        self._tell(f"rewinding to step {target:,}")
        try:
            with training.replay():
                training.restore(base)
                difference = yield from self._repeat(base, target)
            reached = True
        finally:
            self._tell(None)
            if not reached and here is not None:
                training.restore(here)
            else:
                self._stand(left)
        return {
            "from_step": left,
            "replayed": target - base.step,
            "exact": difference is None,
            "first_difference": difference,
        }

    def _base(self, target: int, left: int) -> Snapshot:
        ring = self.ring
        if target >= left:
            raise ControlError(f"Step {target:,} is not behind; the run is at step {left:,}.")
        if target < 0:
            raise ControlError(f"There are only {left:,} steps to take back.")
        base = ring.nearest(target)
        if base is not None:
            return base
        if ring.off is not None:
            raise ControlError(f"There is no way back: {ring.off}.")
        if ring.first_step is None:
            raise ControlError("There is no way back: no snapshot fits into rewind_bytes.")
        raise ControlError(
            f"Step {target:,} is too far back; the oldest that can be reached is step "
            f"{ring.first_step:,}."
        )

    def _keep_here(self, base: Snapshot) -> Snapshot | None:
        """A way to return, inside the ring's memory, if both fit."""
        training, ring = self._training, self.ring
        if not ring.keep(self._take, training.step, training.state_bytes, beside=base):
            return None
        return ring.nearest(training.step)

    def _repeat(self, base: Snapshot, target: int) -> Generator[float, None, dict[str, Any] | None]:
        """Repeat steps up to the target; gives the first that came out otherwise."""
        training, difference, told = self._training, None, self._clock()
        for step in range(base.step + 1, target + 1):
            training.advance()
            expected = self._witnesses.get(step)
            seen = training.witness()
            if difference is None and expected is not None and seen != expected:
                difference = {"step": step, "what": _what_differs(expected, seen)}
            if self._clock() - told >= _TELL_EVERY_S:
                told = self._clock()
                yield (step - base.step) / (target - base.step)
        return difference

    def _stand(self, left: int) -> None:
        """The training stands at an earlier step: what lay behind it is another timeline's."""
        step = self._training.step
        self.ring.forget_after(step)
        self._witnesses = {at: seen for at, seen in self._witnesses.items() if at <= step}
        self._arrived(left)

    def moved(self) -> None:
        """The training was put elsewhere by others, as to a checkpoint: begin anew from there."""
        self.ring.clear()
        self._witnesses.clear()
        self.changed()

    # -- read by anybody --------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Every field of `GET /debug/rewind` but the timeline."""
        step, ring = self._training.step, self.ring
        told = ring.describe(step)
        first = told["first_step"]
        if first is None or first >= step:
            reason = ring.off or "no snapshot behind this step is held"
            return {
                "available": False,
                "reason": f"There is no way back: {reason}.",
                "step": step,
                **told,
            }
        return {"available": True, "reason": None, "step": step, **told}


def _what_differs(expected: tuple[tuple[Any, ...], ...], seen: tuple[tuple[Any, ...], ...]) -> str:
    """The name that the first differing entry of a witness begins with."""
    pairs = zip(expected, seen, strict=True)
    return str(next(one[0] for one, other in pairs if one != other))
