"""What a rule takes and says: its limits, what it measures, and its explanation in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from midstep.control.layer_report import Measure
from midstep.core.errors import ConfigError

__all__ = ["Explanation", "RuleSettings", "RuleSpec"]

LARGEST_WINDOW = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a finding means to somebody who has never seen one."""

    means: str
    """What it means, in a sentence or two."""
    causes: tuple[str, ...]
    """What usually causes it, most frequent first."""
    advice: tuple[str, ...]
    """What to try."""

    def describe(self) -> dict[str, Any]:
        """As it travels."""
        return {"means": self.means, "causes": list(self.causes), "advice": list(self.advice)}


@dataclass(frozen=True, kw_only=True)
class RuleSettings:
    """The limits of a rule. None in a default: the rule does not take it."""

    limit: float | None = None
    """The main limit; see the rule for its meaning."""
    low: float | None = None
    """A lower limit beside it, where there are two."""
    window: int | None = None
    """How many measurements in a row it must hold, or how many steps are compared."""
    every: int | None = None
    """Measured every so many steps."""
    layers: str | None = None
    """Only layers whose name contains this."""
    metric: str | None = None
    """Name of the logged scalar that is looked at."""

    def filled(self, given: RuleSettings, rule: str) -> RuleSettings:
        """These defaults with what was given in their place, checked."""
        merged: dict[str, Any] = {}
        for each in fields(self):
            default, value = getattr(self, each.name), getattr(given, each.name)
            if value is not None and default is None and each.name != "layers":
                taken = sorted(f.name for f in fields(self) if getattr(self, f.name) is not None)
                raise ConfigError(f"rule {rule!r} takes no {each.name}; it takes {taken}")
            merged[each.name] = default if value is None else value
        made = RuleSettings(**merged)
        made._check()
        return made

    def _check(self) -> None:
        for name in ("limit", "low"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} of a rule must be a number of 0 or more, got {value!r}")
        for name in ("window", "every"):
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (is_whole and 1 <= value <= LARGEST_WINDOW):
                raise ConfigError(f"{name} of a rule must be a whole number from 1, got {value!r}")
        for name in ("layers", "metric"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ConfigError(f"{name} of a rule must be text, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class RuleSpec:
    """One entry of the book of rules."""

    name: str
    title: str
    """As a heading: `Vanishing gradients`."""
    condition: str
    """In words, with `{limit}`, `{low}`, `{window}` and `{metric}` in place of numbers."""
    defaults: RuleSettings
    explanation: Explanation
    measures: frozenset[Measure] = frozenset()
    """What it needs of the model."""
    reads_loss: bool = False
    """Whether it needs the loss of each step."""

    def scalars(self, settings: RuleSettings) -> frozenset[str]:
        """Names of the scalars it needs."""
        named = frozenset() if settings.metric is None else frozenset({settings.metric})
        return named | {"loss"} if self.reads_loss else named

    def words(self, settings: RuleSettings) -> str:
        """The condition with its limits in it."""
        told = {f.name: getattr(settings, f.name) for f in fields(settings)}
        said = self.condition.format(
            **{
                k: f"{v:,}" if isinstance(v, int) else f"{v:g}" if isinstance(v, float) else v
                for k, v in told.items()
            }
        )
        return said if settings.layers is None else f"{said}, in {settings.layers}"

    def describe(self) -> dict[str, Any]:
        """As it travels: name, words, defaults, explanation."""
        defaults = {f.name: getattr(self.defaults, f.name) for f in fields(self.defaults)}
        return {
            "rule": self.name,
            "title": self.title,
            "words": self.words(self.defaults),
            "defaults": defaults,
            "needs_model": bool(self.measures),
            "explanation": {"title": self.title, **self.explanation.describe()},
        }
