"""Rules as conditions of breakpoints: `add_breakpoint("rule", rule="dead_relus")`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from midstep.control.conditions import CONDITIONS, Condition, Hit, StepView
from midstep.control.layer_report import Measure
from midstep.control.rule_book import RULES
from midstep.control.rule_findings import Finding, Judge
from midstep.control.rule_judges import make_judge
from midstep.control.rule_settings import RuleSettings, RuleSpec
from midstep.core.errors import ConfigError

__all__ = ["Rule"]

OTHERS_NAMED = 5
NO_MODEL = "the layers of a model (midstep.attach, or run.show(model=…, optimizer=…))"


@dataclass(frozen=True, kw_only=True)
class Rule(Condition):
    """Holds when a rule of the book finds something new; what goes on is not found again.

    >>> Rule(rule="dead_relus", limit=0.9).words
    'share of dead units in a ReLU layer > 0.9, 2 times in a row'
    """

    kind: ClassVar[str] = "rule"
    rule: str
    """Name in the book; see `midstep.control.rule_book`."""
    limit: float | None = None
    """Here and below: the rule's own default when left out."""
    low: float | None = None
    window: int | None = None
    every: int | None = None
    layers: str | None = None
    """Only layers whose name contains this."""
    metric: str | None = None
    spec: RuleSpec = field(init=False, repr=False, compare=False)
    settings: RuleSettings = field(init=False, repr=False, compare=False)
    """All limits, defaults filled in."""
    judge: Judge = field(init=False, repr=False, compare=False)
    cost: dict[str, float] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Seconds that its `last` measuring took; whether one was `missed` for want of a model."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(f"no rule {self.rule!r}; there are {', '.join(RULES)}")
        spec = RULES[self.rule]
        given = RuleSettings(
            limit=self.limit,
            low=self.low,
            window=self.window,
            every=self.every,
            layers=self.layers,
            metric=self.metric,
        )
        if given.layers is not None and not spec.measures:
            raise ConfigError(f"rule {self.rule!r} looks at no layers, so it takes no layers")
        settings = spec.defaults.filled(given, self.rule)
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "judge", make_judge(self.rule, settings))
        for name in ("limit", "low", "window", "every", "metric"):
            object.__setattr__(self, name, getattr(settings, name))

    @property
    def names(self) -> frozenset[str]:
        """Names of the scalars it needs."""
        return self.spec.scalars(self.settings)

    @property
    def words(self) -> str:
        """The condition in words."""
        return self.spec.words(self.settings)

    @property
    def lacks(self) -> str | None:
        """What it needs and has not had so far, in words."""
        return NO_MODEL if "missed" in self.cost and "last" not in self.cost else None

    @property
    def cost_s(self) -> float | None:
        """Seconds that it costs a step on average; None before it has measured."""
        taken = self.cost.get("last")
        return None if taken is None else taken / (self.every or 1)

    def measures_at(self, step: int) -> frozenset[Measure]:
        """What has to be measured in the step that ends as number `step`."""
        return self.spec.measures if self.due(step) else frozenset()

    def due(self, step: int) -> bool:
        """Whether it may hold after that step."""
        return step % (self.every or 1) == 0

    def explain(self) -> dict[str, Any]:
        """Name, title and explanation, for the evidence."""
        told = self.spec.explanation.describe()
        return {"rule": self.rule, "explanation": {"title": self.spec.title, **told}}

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        if self.spec.measures:
            if not self.due(view.step):
                return None
            if view.layers is None or not self.spec.measures <= view.layers.measures:
                self.cost["missed"] = 1.0
                return None
            self.cost["last"] = view.layers.cost_s
        found = self.judge.look(view)
        return _hit(found) if found else None


def _hit(found: list[Finding]) -> Hit:
    """The first finding, with the others named."""
    first, others = found[0], found[1:]
    names = ", ".join(f"{each.layer} ({_number(each.value)})" for each in others[:OTHERS_NAMED])
    if len(others) > OTHERS_NAMED:
        names += f" and {len(others) - OTHERS_NAMED} more"
    note = first.what if not others else f"{first.what}; also {names}"
    return Hit(value=first.value, limit=first.limit, layer=first.layer, note=note or None)


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else str(value)


CONDITIONS[Rule.kind] = Rule
