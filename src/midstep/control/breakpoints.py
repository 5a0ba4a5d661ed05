"""Breakpoints: conditions with a switch, a count of hits, and the evidence of the last one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from midstep.control.capture import CapturedBatch, as_float, as_ids
from midstep.control.conditions import Condition, Hit, LossZ, StepView
from midstep.control.layer_report import Measure
from midstep.core.errors import ConfigError

__all__ = ["Action", "Breakpoint", "BreakpointBoard", "Verdict", "evidence_of"]

HITS_KEPT = 100
SAMPLES_SHOWN = 128
OUTLIER_Z = 3.0
Action = Literal["pause", "mark"]
"""Stop the run, or only leave a mark in its facts and on its charts."""


@dataclass(kw_only=True)
class Breakpoint:
    """A condition that stops the run, or marks it. Changed only under the controller's lock."""

    id: int
    condition: Condition
    enabled: bool = True
    action: Action = "pause"
    hits: int = 0
    hit_steps: list[int] = field(default_factory=list)
    """Steps of the last hundred hits."""
    on_device: bool = False
    """Whether a scalar that it reads has been seen to live on a GPU."""
    unseen: frozenset[str] = frozenset()
    """Scalars that it reads and no step has had so far."""
    asked: bool = False
    """Whether a step has been asked yet."""
    holds: bool = False
    """Whether its condition held after the last step: what goes on is marked once."""

    @property
    def kind(self) -> str:
        """Kind of its condition."""
        return self.condition.kind

    @property
    def words(self) -> str:
        """Its condition in words."""
        return self.condition.words

    def note_hit(self, step: int) -> None:
        """Count a hit at `step`."""
        self.hits += 1
        self.hit_steps = [*self.hit_steps[-(HITS_KEPT - 1) :], step]

    def describe(self) -> dict[str, Any]:
        """As it travels: condition, words, counts, and its window where it has one."""
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
            "missing": self._missing() if self.asked else [],
        }

    def _missing(self) -> list[str]:
        lacks = self.condition.lacks
        return [*sorted(self.unseen), *([] if lacks is None else [lacks])]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the breakpoints say of one step."""

    stop: tuple[Breakpoint, Hit] | None = None
    """The first that stops the run."""
    marks: tuple[tuple[Breakpoint, Hit], ...] = ()
    """Those that only mark it, when they begin to hold."""


class BreakpointBoard:
    """All breakpoints of a run. Not thread-safe: its owner locks, except for `check`.

    `armed`, `names` and `wants_ids` are replaced as a whole, so that the training thread
    reads them without a lock.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, Breakpoint] = {}
        self._next = 1
        self.armed: tuple[Breakpoint, ...] = ()
        self.names: frozenset[str] = frozenset()
        """Scalars that the armed ones read."""
        self.wants_ids = False

    def add(self, condition: Condition, *, enabled: bool, action: Action = "pause") -> Breakpoint:
        """A new breakpoint with an id that was never used before."""
        made = Breakpoint(
            id=self._next,
            condition=condition,
            enabled=enabled,
            action=_checked(action),
            unseen=condition.names,
        )
        self._next += 1
        self._by_id[made.id] = made
        self._rearm()
        return made

    def remove(self, breakpoint_id: int) -> Breakpoint:
        """Take one away."""
        removed = self._find(breakpoint_id)
        del self._by_id[breakpoint_id]
        self._rearm()
        return removed

    def enable(self, breakpoint_id: int, *, enabled: bool) -> Breakpoint:
        """Switch one on or off."""
        changed = self._find(breakpoint_id)
        changed.enabled = enabled
        self._rearm()
        return changed

    def act(self, breakpoint_id: int, action: Action) -> Breakpoint:
        """Choose what one does when it is hit."""
        changed = self._find(breakpoint_id)
        changed.action = _checked(action)
        return changed

    def measures_at(self, step: int) -> frozenset[Measure]:
        """What the armed ones want to be measured inside the model in that step."""
        if not self.armed:  # nearly always, and asked several times a step
            return frozenset()
        return frozenset().union(*(each.condition.measures_at(step) for each in self.armed))

    def may_stop(self, step: int) -> bool:
        """Whether one of them may stop the run after that step."""
        return any(each.action == "pause" and each.condition.due(step) for each in self.armed)

    def all(self) -> list[Breakpoint]:
        """Every breakpoint by id."""
        return list(self._by_id.values())

    def check(self, view: StepView) -> Verdict:
        """Ask every armed condition; the first that holds and stops is the one to stop at."""
        hits = [(each, hit) for each in self.armed if (hit := each.condition.check(view))]
        marks = tuple(pair for pair in hits if pair[0].action == "mark" and not pair[0].holds)
        stop = next((pair for pair in hits if pair[0].action == "pause"), None)
        holding = {each.id for each, _ in hits}
        for each, _ in hits:
            each.note_hit(view.step)
        for each in self.armed:
            each.asked = True
            each.holds = each.id in holding
            if each.unseen:
                each.unseen -= view.scalars.keys()
            if view.on_device:
                each.on_device |= bool(each.condition.names & view.on_device)
        return Verdict(stop=stop, marks=marks)

    def _find(self, breakpoint_id: int) -> Breakpoint:
        try:
            return self._by_id[breakpoint_id]
        except KeyError:
            known = ", ".join(map(str, self._by_id)) or "none"
            raise ConfigError(f"no breakpoint {breakpoint_id}; there are {known}") from None

    def _rearm(self) -> None:
        self.armed = tuple(each for each in self._by_id.values() if each.enabled)
        self.names = frozenset().union(*(each.condition.names for each in self.armed))
        self.wants_ids = any(each.kind == "sample" for each in self.armed)


def _checked(action: Any) -> Action:
    if action not in get_args(Action):
        raise ConfigError(f"action must be pause or mark, got {action!r}")
    return "mark" if action == "mark" else "pause"


def evidence_of(
    breakpoint_: Breakpoint, hit: Hit, *, step: int, batch: CapturedBatch | None
) -> dict[str, Any]:
    """What the page shows of a hit: the measured value beside its limit, and the samples."""
    samples, about_samples = _samples(hit, batch)
    notes = [note for note in (hit.note, about_samples) if note is not None]
    return {
        "breakpoint": breakpoint_.id,
        "condition": breakpoint_.words,
        "value": hit.value,
        "limit": hit.limit,
        "step": step,
        "samples": list(samples[:SAMPLES_SHOWN]),
        "note": "; ".join(notes) or None,
        "layer": hit.layer,
        "action": breakpoint_.action,
        **breakpoint_.condition.explain(),
    }


def _samples(hit: Hit, batch: CapturedBatch | None) -> tuple[Sequence[int], str | None]:
    """Ids of the samples that carry the hit, and how much of the loss they carry."""
    if hit.samples:
        return hit.samples, None
    losses = [] if batch is None else _floats(batch.losses)
    if batch is None or not losses:
        return (), None
    known = as_ids(batch.sample_ids)
    ids = known if known is not None and len(known) == len(losses) else range(len(losses))
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
    """Per-sample losses as numbers; none at all when one of them is no number."""
    flat = values.reshape(-1).tolist() if hasattr(values, "reshape") else values
    found = [as_float(value) for value in flat] if isinstance(flat, list | tuple) else []
    kept = [value for value in found if value is not None]
    return kept if len(kept) == len(found) else []


def _outliers(losses: Sequence[float]) -> list[int]:
    """Positions of the losses more than three standard deviations above the mean, largest first."""
    count = len(losses)
    mean = sum(losses) / count  # plain sums: beyond the largest float they are infinite, not errors
    std = math.sqrt(sum((value - mean) * (value - mean) for value in losses) / count)
    far = [i for i, value in enumerate(losses) if value > mean + OUTLIER_Z * std]
    return sorted(far, key=lambda i: -losses[i])
