"""Rules as conditions of breakpoints: `add_breakpoint("rule", rule="dead_relus")`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from midstep.control.breakpoints.conditions import Condition, Hit, StepView
from midstep.control.breakpoints.layer_report import Measure
from midstep.control.breakpoints.rule_catalog import RULES, RuleSettings, RuleSpec
from midstep.control.breakpoints.rule_checks import KEEP_WINDOW, RULE_CHECKS, Finding, RuleCheck
from midstep.core.errors import ConfigError

MAX_OTHERS_NAMED = 5
NO_MODEL = "the layers of a model (midstep.attach, or run.show(model=…, optimizer=…))"


@dataclass(frozen=True, kw_only=True)
class Rule(Condition):
    """Holds when a rule finds something new; a finding that persists is reported once.

    >>> Rule(rule="dead_relus", limit=0.9).words
    'share of dead units in a ReLU layer > 0.9, 2 times in a row'
    """

    kind: ClassVar[str] = "rule"
    rule: str
    """A name in `midstep.control.breakpoints.rule_catalog.RULES`."""
    limit: float | None = None
    """For this and the following fields None means the default of the rule."""
    low: float | None = None
    window: int | None = None
    every: int | None = None
    layers: str | None = None
    """Only layers whose name contains this."""
    metric: str | None = None
    spec: RuleSpec = field(init=False, repr=False, compare=False)
    settings: RuleSettings = field(init=False, repr=False, compare=False)
    """All limits, with defaults filled in."""
    rule_check: RuleCheck = field(init=False, repr=False, compare=False)
    cost: dict[str, float] = field(init=False, repr=False, compare=False, default_factory=dict)
    """`last`: seconds of the last measurement; `missed`: set if a due one was not reported."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(f"no rule {self.rule!r}; there are {', '.join(RULES)}")
        spec = RULES[self.rule]
        names = [each.name for each in fields(RuleSettings)]
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if "layers" in given and not spec.measures:
            raise ConfigError(
                f"rule {self.rule!r} checks logged scalars, not layers; leave `layers` out"
            )
        settings = spec.defaults.with_overrides(given, self.rule)
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "rule_check", RULE_CHECKS[self.rule](settings))
        for name in names:
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
    def kept_values(self) -> int:
        """The window of a rule that compares losses or gradients with earlier ones."""
        return (self.window or 0) if self.rule in KEEP_WINDOW else 0

    @property
    def missing_input(self) -> str | None:
        """What it needs and has not got so far, in words."""
        return NO_MODEL if "missed" in self.cost and "last" not in self.cost else None

    @property
    def cost_s(self) -> float | None:
        """Average seconds a step that it costs; None before the first measurement."""
        taken = self.cost.get("last")
        return None if taken is None else taken / (self.every or 1)

    def measures_at(self, step: int) -> frozenset[Measure]:
        """What must be measured in the step after which `step` steps are finished."""
        return self.spec.measures if self.is_due(step) else frozenset()

    def is_due(self, step: int) -> bool:
        """Whether it may hold after that step."""
        return step % (self.every or 1) == 0

    def explain(self) -> dict[str, Any]:
        """Name and explanation of the rule, for the evidence."""
        return {"rule": self.rule, "explanation": self.spec.explain()}

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        if self.spec.measures:
            if not self.is_due(view.step):
                return None
            if view.layers is None or not self.spec.measures <= view.layers.measures:
                self.cost["missed"] = 1.0
                return None
            self.cost["last"] = view.layers.cost_s
        # Rules about logged scalars are checked in every step: they keep a window of all losses.
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
