"""Rules as conditions of breakpoints: `add_breakpoint("rule", rule="dead_relus")`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from midstep.control.breakpoints.conditions import CONDITIONS, Condition, Hit, StepView
from midstep.control.breakpoints.layer_report import Measure
from midstep.control.breakpoints.rule_catalog import RULES, RuleSettings, RuleSpec
from midstep.control.breakpoints.rule_checks import Finding, RuleCheck, make_rule_check
from midstep.core.errors import ConfigError

MAX_OTHERS_NAMED = 5
NO_MODEL = "the layers of a model (midstep.attach, or run.show(model=…, optimizer=…))"


@dataclass(frozen=True, kw_only=True)
class Rule(Condition):
    """Holds when a rule of the book finds something new; what goes on is not found again.

    >>> Rule(rule="dead_relus", limit=0.9).words
    'share of dead units in a ReLU layer > 0.9, 2 times in a row'
    """

    kind: ClassVar[str] = "rule"
    rule: str
    """Name in the book; see `midstep.control.breakpoints.rule_catalog`."""
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
    rule_check: RuleCheck = field(init=False, repr=False, compare=False)
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
        settings = spec.defaults.with_overrides(given, self.rule)
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "rule_check", make_rule_check(self.rule, settings))
        for name in ("limit", "low", "window", "every", "metric"):
            object.__setattr__(self, name, getattr(settings, name))

    @property
    def scalar_names(self) -> frozenset[str]:
        """Names of the scalars it needs."""
        return self.spec.scalars(self.settings)

    @property
    def words(self) -> str:
        """The condition in words."""
        return self.spec.words(self.settings)

    @property
    def missing_input(self) -> str | None:
        """What it needs and has not had so far, in words."""
        return NO_MODEL if "missed" in self.cost and "last" not in self.cost else None

    @property
    def cost_s(self) -> float | None:
        """Seconds that it costs a step on average; None before it has measured."""
        taken = self.cost.get("last")
        return None if taken is None else taken / (self.every or 1)

    def measures_at(self, step: int) -> frozenset[Measure]:
        """What has to be measured in the step that ends as number `step`."""
        return self.spec.measures if self.is_due(step) else frozenset()

    def is_due(self, step: int) -> bool:
        """Whether it may hold after that step."""
        return step % (self.every or 1) == 0

    def explain(self) -> dict[str, Any]:
        """Name, title and explanation, for the evidence."""
        explanation = self.spec.explanation.describe()
        return {"rule": self.rule, "explanation": {"title": self.spec.title, **explanation}}

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        if self.spec.measures:
            if not self.is_due(view.step):
                return None
            if view.layers is None or not self.spec.measures <= view.layers.measures:
                self.cost["missed"] = 1.0
                return None
            self.cost["last"] = view.layers.cost_s
        findings = self.rule_check.check(view)
        return _hit(findings) if findings else None


def _hit(findings: list[Finding]) -> Hit:
    """The first finding, with the others named."""
    first, others = findings[0], findings[1:]
    names = ", ".join(f"{each.layer} ({_number(each.value)})" for each in others[:MAX_OTHERS_NAMED])
    if len(others) > MAX_OTHERS_NAMED:
        names += f" and {len(others) - MAX_OTHERS_NAMED} more"
    note = first.what if not others else f"{first.what}; also {names}"
    return Hit(value=first.value, limit=first.limit, layer=first.layer, note=note or None)


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else str(value)


CONDITIONS[Rule.kind] = Rule
