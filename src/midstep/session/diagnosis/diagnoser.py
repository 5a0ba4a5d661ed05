"""`Diagnoser`: after a stop by a breakpoint or an error, says where it came from.

It runs once the loop has parked, on the training thread, and changes nothing of the training: what
it runs again are copies, under the guard of the random generators.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from midstep.core.fault_guard import FaultGuard
from midstep.data.random_state import Generator, preserve_rng
from midstep.session.diagnosis.held_step import HeldStep
from midstep.session.diagnosis.weights import SnapshotSource
from midstep.session.hooks.installed_hook import hooks_paused

if TYPE_CHECKING:
    from torch import nn

    from midstep.control import DebugController

log = logging.getLogger("midstep.session")
MOST_LARGE = 50
"""How many diagnoses of a run have layers, pictures and dead units. Later ones have only words and
changes, so that a breakpoint at every step neither fills the facts nor runs every step twice."""


@dataclass(frozen=True, kw_only=True)
class TrainingAccess:
    """What a diagnosis reads of a training with snapshots."""

    snapshots: SnapshotSource
    """Weights from before the stop."""
    current_step: Callable[[], int]
    """Finished steps, also while steps are repeated."""
    generators: Callable[[], Sequence[Generator]] = tuple
    """Generators of the user that the model may draw from."""


class Diagnoser:
    """Looks for the cause of each stop of one run.

    Args:
        controller: says why the run stopped, and shows the diagnosis.
        model: the module in training.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        controller: DebugController,
        model: nn.Module,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller, self._clock = controller, clock
        self._access: TrainingAccess | None = None
        self.held = HeldStep(controller, model)
        """What the step in progress is computed from."""
        self._guard = FaultGuard("looking for the cause of a stop", log)
        self._made = 0
        self._unsubscribe = controller.sinks.on_park(self._parked)

    def use(self, access: TrainingAccess) -> None:
        """Run stopped steps again with the weights of these snapshots."""
        self._access = access
        self.held.current_step = access.current_step

    def close(self) -> None:
        """Stop looking; a second call changes nothing."""
        self._unsubscribe()
        self.held.close()

    def _parked(self) -> None:
        """The run has parked: find out why, if a breakpoint or an error stopped it."""
        status = self._controller.status
        has_failed = status.state_name == "failed"
        if status.evidence is not None or has_failed:
            diagnosis = self._guard.run(self._diagnose, status.evidence, has_failed=has_failed)
            if diagnosis is not None:
                status.diagnosed(diagnosis)

    def _diagnose(
        self, evidence: Mapping[str, Any] | None, *, has_failed: bool
    ) -> dict[str, Any] | None:
        from midstep.session.diagnosis.stop_diagnosis import (
            StopDiagnosis,  # most runs never need it
        )

        began, self._made = self._clock(), self._made + 1
        access = self._access
        with preserve_rng([] if access is None else access.generators()), hooks_paused():
            stop = StopDiagnosis(self._controller, self.held, evidence, has_failed=has_failed)
            is_large = self._made <= MOST_LARGE
            stop.look(None if access is None else access.snapshots, is_large=is_large)
        if has_failed and stop.origin is None and not stop.inputs.broken:
            return None
        diagnosis = stop.describe(is_large=is_large)
        return {**diagnosis, "took_s": self._clock() - began}
