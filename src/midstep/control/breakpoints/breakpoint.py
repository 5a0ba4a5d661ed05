"""Breakpoints: a condition with a switch and a count of hits, and the evidence of a hit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from midstep.control.breakpoints.conditions import Condition, Hit, LossZ, StepView
from midstep.control.breakpoints.layer_report import Measure
from midstep.control.capture.capture_store import CapturedBatch, as_float, as_ids
from midstep.core.errors import ConfigError

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
        filled = window is not None and len(window) > 0
        return {
            "id": self.id,
            "condition": self.condition.parameters(),
            "words": self.words,
            "enabled": self.enabled,
            "action": self.action,
            "hits": self.hits,
            "hit_steps": list(self.hit_steps),
            "window": window.window if window is not None else None,
            "mean": window.mean if window is not None and filled else None,
            "std": window.std if window is not None and filled else None,
            "costs_sync": self.on_device,
            "cost_s": self.condition.cost_s,
            "missing": self._missing() if self.was_checked else [],
        }

    def _missing(self) -> list[str]:
        lacks = self.condition.missing_input
        return [*sorted(self.unseen_scalars), *([] if lacks is None else [lacks])]


@dataclass(frozen=True, kw_only=True)
class BreakpointHits:
    """The breakpoints whose conditions hold after one step."""

    stop: tuple[Breakpoint, Hit] | None = None
    """The first one that pauses the run."""
    marks: tuple[tuple[Breakpoint, Hit], ...] = ()
    """Those that only mark it and begin to hold at this step."""


class BreakpointList:
    """All breakpoints of a run. Not thread-safe: its owner locks, except for `check`.

    `armed`, `scalar_names` and `needs_sample_ids` are replaced as a whole, so that the training
    thread reads them without the lock.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, Breakpoint] = {}
        self._next_id = 1
        self.armed: tuple[Breakpoint, ...] = ()
        self.scalar_names: frozenset[str] = frozenset()
        """Scalars that the armed breakpoints read."""
        self.needs_sample_ids = False

    def add(self, condition: Condition, *, enabled: bool, action: Action = "pause") -> Breakpoint:
        """Add a breakpoint; its id was never used before in this run."""
        added = Breakpoint(
            id=self._next_id,
            condition=condition,
            enabled=enabled,
            action=_check_action(action),
            unseen_scalars=condition.scalar_names,
        )
        # Ids are never used twice: a late `remove` of a client must not hit another breakpoint.
        self._next_id += 1
        self._by_id[added.id] = added
        self._rearm()
        return added

    def remove(self, breakpoint_id: int) -> Breakpoint:
        """Remove a breakpoint."""
        removed = self._find(breakpoint_id)
        del self._by_id[breakpoint_id]
        self._rearm()
        return removed

    def enable(self, breakpoint_id: int, *, enabled: bool) -> Breakpoint:
        """Switch a breakpoint on or off."""
        changed = self._find(breakpoint_id)
        changed.enabled = enabled
        self._rearm()
        return changed

    def set_action(self, breakpoint_id: int, action: Action) -> Breakpoint:
        """Set what a breakpoint does when it is hit."""
        changed = self._find(breakpoint_id)
        changed.action = _check_action(action)
        return changed

    def measures_at(self, step: int) -> frozenset[Measure]:
        """What the armed breakpoints need measured inside the model in that step."""
        if not self.armed:  # nearly always, and called several times a step
            return frozenset()
        return frozenset().union(*(each.condition.measures_at(step) for each in self.armed))

    def may_stop(self, step: int) -> bool:
        """Whether a breakpoint may pause the run after that step."""
        return any(each.action == "pause" and each.condition.is_due(step) for each in self.armed)

    def list_all(self) -> list[Breakpoint]:
        """Every breakpoint by id."""
        return list(self._by_id.values())

    def check(self, view: StepView) -> BreakpointHits:
        """Check every armed condition; the first one that holds and pauses stops the run."""
        # Every condition is checked in every step, also after a hit: windows need all losses.
        hits = [(each, hit) for each in self.armed if (hit := each.condition.check(view))]
        marks = tuple(
            pair for pair in hits if pair[0].action == "mark" and not pair[0].condition_holds
        )
        stop = next((pair for pair in hits if pair[0].action == "pause"), None)
        holding = {each.id for each, _ in hits}
        for each, _ in hits:
            each.count_hit(view.step)
        for each in self.armed:
            each.was_checked = True
            each.condition_holds = each.id in holding
            if each.unseen_scalars:
                each.unseen_scalars -= view.scalars.keys()
            if view.on_device:
                each.on_device |= bool(each.condition.scalar_names & view.on_device)
        return BreakpointHits(stop=stop, marks=marks)

    def _find(self, breakpoint_id: int) -> Breakpoint:
        try:
            return self._by_id[breakpoint_id]
        except KeyError:
            known = ", ".join(map(str, self._by_id)) or "none"
            raise ConfigError(f"no breakpoint {breakpoint_id}; there are {known}") from None

    def _rearm(self) -> None:
        # After every change, so that a step tests three attributes and no breakpoint.
        self.armed = tuple(each for each in self._by_id.values() if each.enabled)
        self.scalar_names = frozenset().union(*(each.condition.scalar_names for each in self.armed))
        self.needs_sample_ids = any(each.kind == "sample" for each in self.armed)


def _check_action(action: Any) -> Action:
    if action not in get_args(Action):
        raise ConfigError(f"action must be pause or mark, got {action!r}")
    return "mark" if action == "mark" else "pause"


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
