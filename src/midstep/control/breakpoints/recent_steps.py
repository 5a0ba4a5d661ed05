"""The last steps before a stop, noted while a breakpoint is armed: what a diagnosis compares."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from midstep.control.breakpoints.layer_report import LayerReport
from midstep.control.capture.captured_data import as_float

GRAD_NORM = "grad_norm"
STEPS_KEPT = 64
"""A diagnosis compares the last 20; the others are for medians."""
NORMS_KEPT = 16
"""Gradient norms from before these steps: they may be measured seldom, and a median needs some."""


@dataclass(frozen=True, kw_only=True)
class StepNote:
    """What is known of one finished step."""

    step: int
    """Finished steps, this one included."""
    scalars: Mapping[str, Any] = field(default_factory=dict)
    """Scalars as they were logged, perhaps on a device; nobody changes them any more."""
    samples: int = 0
    """Samples of its batch; 0 if unknown."""
    grad_norm: float | None = None
    """Norm of all gradients, if a rule measured them in this step."""
    dead_shares: Mapping[str, float] = field(default_factory=dict)
    """Share of dead units by ReLU layer in call order, if a rule measured them in this step."""
    dead_counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Dead units and all units of the same layers."""

    def number(self, name: str) -> float | None:
        """A scalar as a float. On a GPU this waits for the device."""
        return as_float(self.scalars[name]) if name in self.scalars else None

    def measured_norm(self) -> float | None:
        """The norm that was logged, else the one that a rule measured."""
        logged = self.number(GRAD_NORM)
        return self.grad_norm if logged is None else logged


class RecentSteps:
    """Notes on the last steps of the present timeline. Only the training thread uses it.

    >>> recent = RecentSteps()
    >>> for step in (1, 2, 3, 2):
    ...     recent.note(step, {"loss": 0.5}, samples=4, report=None)
    >>> [each.step for each in recent.notes()]
    [1, 2]
    """

    def __init__(self) -> None:
        self._notes: deque[StepNote] = deque()
        self._older_norms: deque[StepNote] = deque(maxlen=NORMS_KEPT)
        """Notes that were dropped, with the gradient norm alone."""

    def note(
        self, step: int, scalars: Mapping[str, Any], *, samples: int, report: LayerReport | None
    ) -> None:
        """Note a finished step; notes of this step or of later ones were of another timeline."""
        for notes in (self._notes, self._older_norms):
            while notes and notes[-1].step >= step:
                notes.pop()
        if len(self._notes) == STEPS_KEPT:
            self._drop(self._notes.popleft())
        scalars = scalars or {}  # an empty dict of the controller is used again in the next step
        if report is None:
            self._notes.append(StepNote(step=step, scalars=scalars, samples=samples))
            return
        relus = [each for each in report.activations if each.dead_fraction is not None]
        self._notes.append(
            StepNote(
                step=step,
                scalars=scalars,
                samples=samples,
                grad_norm=_total_norm(report),
                dead_shares={each.name: each.dead_fraction or 0.0 for each in relus},
                dead_counts={
                    each.name: (round((each.dead_fraction or 0.0) * each.units), each.units)
                    for each in relus
                    if each.units
                },
            )
        )

    def _drop(self, note: StepNote) -> None:
        """Keep the norm of a note that is too old, if one was measured."""
        scalars = {name: note.scalars[name] for name in (GRAD_NORM,) if name in note.scalars}
        if scalars or note.grad_norm is not None:
            kept = StepNote(step=note.step, scalars=scalars, grad_norm=note.grad_norm)
            self._older_norms.append(kept)

    def older_norms(self) -> list[float]:
        """Gradient norms from before the first note. On a GPU this waits for the device."""
        norms = (note.measured_norm() for note in self._older_norms)
        return [norm for norm in norms if norm is not None]

    def notes(self) -> list[StepNote]:
        """The notes, the oldest first."""
        return list(self._notes)


def _total_norm(report: LayerReport) -> float | None:
    norms = [each.grad_norm for each in report.parameters if each.grad_norm is not None]
    if "gradients" not in report.measures or not norms:
        return None
    # Not `math.hypot` of all: it raises nothing, but hides NaN behind infinity.
    return math.sqrt(sum(norm * norm for norm in norms))
