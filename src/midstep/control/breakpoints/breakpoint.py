"""Breakpoints: a condition with a switch and a count of hits, and the evidence of a hit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from midstep.control.breakpoints.conditions import Condition, Hit, LossZ
from midstep.control.capture.captured_data import CapturedBatch, as_float, as_ids

MAX_HIT_STEPS = 100
MAX_SAMPLES = 128
"""Limit of sample ids in the evidence, which goes to the facts and to every viewer."""
OUTLIER_Z = 3.0
"""Losses so many standard deviations above the mean carry a hit."""
Action = Literal["pause", "mark"]
"""Pause the run, or only record a mark in its facts and on its charts."""


@dataclass(kw_only=True)
class Breakpoint:
    """A condition that pauses the run or marks it."""

    id: int
    condition: Condition
    enabled: bool = True
    action: Action = "pause"
    hits: int = 0
    hit_steps: list[int] = field(default_factory=list)
    """Steps of the last 100 hits."""
    on_device: bool = False
    """Whether it reads a scalar that was on a GPU: then every step waits for the device once."""
    unseen_scalars: frozenset[str] = frozenset()
    """Scalars that it reads and that no step has logged so far."""
    was_checked: bool = False
    """Whether it was checked at least once."""
    condition_holds: bool = False
    """Whether its condition held after the last step; a mark is recorded when it begins to hold."""

    @property
    def kind(self) -> str:
        """Kind of the condition."""
        return self.condition.kind

    @property
    def words(self) -> str:
        """The condition in words."""
        return self.condition.words

    def count_hit(self, step: int) -> None:
        """Count a hit at `step`."""
        self.hits += 1
        self.hit_steps = [*self.hit_steps[-(MAX_HIT_STEPS - 1) :], step]

    def describe(self) -> dict[str, Any]:
        """The breakpoint as JSON: condition, words, counts, and the window of `loss_z`."""
        window = self.condition.spread if isinstance(self.condition, LossZ) else None
        return {
            "id": self.id,
            "condition": self.condition.parameters(),
            "words": self.words,
            "enabled": self.enabled,
            "action": self.action,
            "hits": self.hits,
            "hit_steps": list(self.hit_steps),
            "window": window.window if window is not None else None,
            # An empty window is false: it has neither mean nor deviation.
            "mean": window.mean if window else None,
            "std": window.std if window else None,
            "costs_sync": self.on_device,
            "cost_s": self.condition.cost_s,
            "missing": self._missing() if self.was_checked else [],
        }

    def _missing(self) -> list[str]:
        lacks = self.condition.missing_input
        return [*sorted(self.unseen_scalars), *([] if lacks is None else [lacks])]


def make_evidence(
    breakpoint_: Breakpoint, hit: Hit, *, step: int, batch: CapturedBatch | None
) -> dict[str, Any]:
    """The evidence of a hit, as the page shows it: value, limit, samples, explanation."""
    samples, sample_note = _responsible_samples(hit, batch)
    notes = [note for note in (hit.note, sample_note) if note is not None]
    return {
        "breakpoint": breakpoint_.id,
        "condition": breakpoint_.words,
        "value": hit.value,
        "limit": hit.limit,
        "step": step,
        "samples": list(samples[:MAX_SAMPLES]),
        "note": "; ".join(notes) or None,
        "layer": hit.layer,
        "action": breakpoint_.action,
        **breakpoint_.condition.explain(),
    }


def _responsible_samples(hit: Hit, batch: CapturedBatch | None) -> tuple[Sequence[int], str | None]:
    """Ids of the samples that cause the hit, and a note about their share of the loss."""
    if hit.samples:
        return hit.samples, None
    losses = [] if batch is None else _floats(batch.losses)
    if batch is None or not losses:
        return (), None
    # Without ids, or with ids that do not match the losses, samples are named by position.
    known = as_ids(batch.sample_ids)
    ids = known if known is not None and len(known) == len(losses) else range(len(losses))
    # First: one NaN makes mean and standard deviation of all losses NaN.
    broken = [i for i, value in enumerate(losses) if not math.isfinite(value)]
    if broken:
        return [ids[i] for i in broken], f"{len(broken)} of {len(losses)} losses are not finite"
    outliers = _outliers(losses)
    total = sum(losses)
    if not outliers or not 0 < total < math.inf:
        return (), None
    share = sum(losses[i] for i in outliers) / total
    note = f"{len(outliers)} of {len(losses)} samples carry {share:.0%} of the loss"
    return [ids[i] for i in outliers], note.replace("%", " %")


def _floats(values: Any) -> list[float]:
    """Per-sample losses as floats; an empty list if one of them is not a number."""
    flat = values.reshape(-1).tolist() if hasattr(values, "reshape") else values
    numbers = [as_float(value) for value in flat] if isinstance(flat, list | tuple) else []
    floats = [value for value in numbers if value is not None]
    return floats if len(floats) == len(numbers) else []


def _outliers(losses: Sequence[float]) -> list[int]:
    """Positions of the losses more than three standard deviations above the mean, largest first."""
    count = len(losses)
    # `sum`, not `math.fsum`, which raises OverflowError where the sum is infinite.
    mean = sum(losses) / count
    std = math.sqrt(sum((value - mean) * (value - mean) for value in losses) / count)
    far = [i for i, value in enumerate(losses) if value > mean + OUTLIER_Z * std]
    return sorted(far, key=lambda i: -losses[i])
