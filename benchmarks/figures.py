"""One figure of a benchmark: a value with its noise, beside its bar."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Figure", "alternating_ratio", "percentile", "sandwiched_ratio", "spread_of"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value."""

    name: str
    """What was measured."""
    value: float
    unit: str
    low: float | None = None
    """Lower end of its 95 % interval, or the smallest seen."""
    high: float | None = None
    bar: float | None = None
    """The value it must not exceed, or must reach when `at_least`."""
    at_least: bool = False
    note: str = ""

    @property
    def passes(self) -> bool | None:
        """Whether the bar is held; None without a bar."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def row(self) -> str:
        """As a row of the table in docs/benchmarks.md."""
        noise = "" if self.low is None or self.high is None else f"{self.low:.4g} – {self.high:.4g}"
        sign = "≥" if self.at_least else "≤"
        bar = "" if self.bar is None else f"{sign} {self.bar:g}"
        verdict = {True: "held", False: "MISSED", None: ""}[self.passes]
        figure = f"{self.value:.4g} {self.unit}"
        return f"| {' | '.join((self.name, figure, noise, bar, verdict, self.note))} |"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread_of(values: Sequence[float], *, draws: int = 2000) -> tuple[float, float, float]:
    """Median with its 95 % bootstrap interval."""
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(draws))
    return statistics.median(values), medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def alternating_ratio(
    plain: Callable[[], float], treated: Callable[[], float], *, pairs: int = 40
) -> tuple[float, float, float]:
    """Median ratio treated / plain over alternating blocks in one process.

    Separate processes differ by 15 % on one machine; blocks that take turns do not.
    """
    plain(), treated()  # warm up both
    ratios = []
    for pair in range(pairs):
        if pair % 2:
            ratios.append(treated() / plain())
        else:
            base = plain()
            ratios.append(treated() / base)
    return spread_of(ratios)


def sandwiched_ratio(
    plain: Callable[[], float], treated: Callable[[], float], *, times: int
) -> tuple[float, float, float]:
    """Median ratio of a treated block to the mean of the plain ones before and behind it.

    A machine whose speed drifts from second to second favours neither.
    """
    plain(), treated()  # warm up both
    before, ratios = plain(), []
    for _ in range(times):
        between, behind = treated(), plain()
        ratios.append(2 * between / (before + behind))
        before = behind
    return spread_of(ratios)
