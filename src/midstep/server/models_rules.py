"""Rules on the wire: the book of ready-made breakpoints."""

from __future__ import annotations

from midstep.server.models import ExplanationOut, Out
from midstep.server.models_breakpoints import RuleName

__all__ = ["RuleDefaults", "RuleOut"]


class RuleDefaults(Out):
    """Limits of a rule; null: the rule does not take it."""

    limit: float | None
    low: float | None
    window: int | None
    every: int | None
    layers: str | None
    metric: str | None


class RuleOut(Out):
    """One rule: what it looks for, and what a finding means."""

    rule: RuleName
    title: str
    words: str
    """Its condition with the default limits."""
    defaults: RuleDefaults
    needs_model: bool
    """Whether it looks inside the model, which a loop without `attach` has to declare."""
    explanation: ExplanationOut
