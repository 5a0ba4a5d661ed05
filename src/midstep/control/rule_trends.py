"""How rules judge scalars over time: a loss that stands still, a validation that gets worse."""

from __future__ import annotations

import math
from collections import deque

from midstep.control.conditions import StepView
from midstep.control.rule_findings import Finding
from midstep.control.rule_settings import RuleSettings

__all__ = ["OverfittingJudge", "PlateauJudge"]


class PlateauJudge:
    """Compares the mean loss of the two halves of a window."""

    def __init__(self, settings: RuleSettings) -> None:
        window = settings.window or 2
        self._limit = settings.limit or 0.0
        self._losses: deque[float] = deque(maxlen=max(2, window))
        self._pause = max(1, window // 10)
        self._until_look = 0
        self._firing = False

    def look(self, view: StepView) -> list[Finding]:
        """One finding when the loss stops falling; the next only after it has fallen again."""
        loss = view.scalars.get("loss")
        if loss is None or not math.isfinite(loss):
            return []
        self._losses.append(loss)
        self._until_look -= 1
        if self._until_look > 0 or len(self._losses) < (self._losses.maxlen or 0):
            return []
        self._until_look = self._pause
        fell = self._fell()
        began = fell < self._limit and not self._firing
        self._firing = fell < self._limit
        return [Finding(value=fell, limit=self._limit, what="loss")] if began else []

    def _fell(self) -> float:
        """By which share of its height the mean of the second half lies below the first's."""
        values = list(self._losses)
        half = len(values) // 2
        first, second = math.fsum(values[:half]) / half, math.fsum(values[-half:]) / half
        return (first - second) / abs(first) if first else -abs(second)


class OverfittingJudge:
    """Compares each validation with the best one, and the training loss at both."""

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._sum, self._count, self._strikes = 0.0, 0, 0
        self._best, self._train_at_best = math.inf, math.inf

    def look(self, view: StepView) -> list[Finding]:
        """One finding when validations have been worse for long enough."""
        loss = view.scalars.get("loss")
        validation = view.scalars.get(self._settings.metric or "")
        found = []
        if validation is not None and math.isfinite(validation) and self._count:
            found = self._judge(validation, self._sum / self._count)
            self._sum, self._count = 0.0, 0
        if loss is not None and math.isfinite(loss):
            self._sum, self._count = self._sum + loss, self._count + 1
        return found

    def _judge(self, validation: float, train: float) -> list[Finding]:
        if validation < self._best:
            self._best, self._train_at_best, self._strikes = validation, train, 0
            return []
        rise = (validation - self._best) / abs(self._best) if self._best else math.inf
        limit = self._settings.limit or 0.0
        worse = rise > limit and train < self._train_at_best
        self._strikes = self._strikes + 1 if worse else 0
        what = f"best {self._best:.4g}, now {validation:.4g}; training loss {train:.4g}"
        hit = self._strikes == (self._settings.window or 1)
        return [Finding(value=rise, limit=limit, what=what)] if hit else []
