"""How rules judge layers: readings of one step in, findings out. No torch, no threads, no clock."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from midstep.control.conditions import StepView
from midstep.control.layer_report import LayerReport, ParameterReading
from midstep.control.rule_findings import Finding, Judge
from midstep.control.rule_settings import RuleSettings
from midstep.control.rule_trends import OverfittingJudge, PlateauJudge

__all__ = ["make_judge"]

SPIKE = 100.0
"""A gradient so many times its median is a spike."""
LEAST_SPIKE = 0.1
"""Below this share of the weights no gradient is a spike, however quiet it was before."""
LEAST_HISTORY = 5
LEAST_RMS = 1e-3
"""Weights count as at least this large, so that those that start at zero explode nothing."""


Violations = Callable[[LayerReport, RuleSettings], Iterable[Finding]]


class LayerJudge:
    """Finds a layer when it was out of its limits in `window` measurements in a row."""

    def __init__(self, violations: Violations, settings: RuleSettings) -> None:
        self._violations, self._settings = violations, settings
        self._runs: dict[str, int] = {}

    def look(self, view: StepView) -> list[Finding]:
        """New findings; a layer is found again only after it has recovered."""
        if view.layers is None:
            return []
        wanted = self._settings.layers or ""
        found = {
            each.key or f"{each.layer} {each.what}": each
            for each in self._violations(view.layers, self._settings)
            if wanted in (each.layer or "")
        }
        self._runs = {key: self._runs.get(key, 0) + 1 for key in found}
        return [found[key] for key, run in self._runs.items() if run == self.window]

    @property
    def window(self) -> int:
        """Measurements in a row."""
        return self._settings.window or 1


# -- per layer ------------------------------------------------------------------------------------


def vanishing(report: LayerReport, settings: RuleSettings) -> list[Finding]:
    """Gradients far smaller than the largest one; a zero is another matter."""
    sizes = {
        each.name: each.grad_norm / math.sqrt(each.elements)
        for each in _with_gradient(report)
        if each.grad_norm
    }
    largest = max(sizes.values(), default=0.0)
    limit = settings.limit or 0.0
    low = {name: size / largest for name, size in sizes.items() if size < limit * largest}
    return [
        Finding(layer=name, value=low[name], limit=limit, what="gradient")
        for name in sorted(low, key=low.__getitem__)
    ]


def dead(report: LayerReport, settings: RuleSettings) -> Iterator[Finding]:
    """ReLU layers with many dead units."""
    limit = settings.limit or 0.0
    for each in report.activations:
        if each.dead_fraction is not None and each.dead_fraction > limit:
            yield Finding(layer=each.name, value=each.dead_fraction, limit=limit, what="units")


def saturated(report: LayerReport, settings: RuleSettings) -> Iterator[Finding]:
    """Sigmoids and tanhs on their flat ends."""
    limit = settings.limit or 0.0
    for each in report.activations:
        if each.saturated_fraction is not None and each.saturated_fraction > limit:
            yield Finding(
                layer=each.name, value=each.saturated_fraction, limit=limit, what="output"
            )


def unchanged(report: LayerReport, _settings: RuleSettings) -> Iterator[Finding]:
    """Parameters that a step left alone, though their gradient is not zero."""
    for each in report.parameters:
        if each.update_norm == 0.0 and each.grad_norm != 0.0:
            why = "it has no gradient" if each.grad_norm is None else "it has a gradient"
            yield Finding(layer=each.name, value=0.0, what=f"parameter; {why}")


def all_zero(report: LayerReport, _settings: RuleSettings) -> Iterator[Finding]:
    """Outputs, weights and gradients in which nothing differs from zero."""
    for module in report.activations:
        if module.low == module.high == 0.0:
            yield Finding(layer=module.name, value=0.0, what="output")
    for each in report.parameters:
        if each.is_matrix and each.weight_norm == 0.0:
            yield Finding(layer=each.name, value=0.0, what="weight")
        if each.is_matrix and each.grad_norm == 0.0:
            yield Finding(layer=each.name, value=0.0, what="gradient")


def nonfinite(report: LayerReport, _settings: RuleSettings) -> list[Finding]:
    """The first output in the order of calls; else the gradient nearest the loss; else a weight."""
    found = [
        (each.name, each.high if math.isfinite(each.low) else each.low, "output")
        for each in report.activations
        if not (math.isfinite(each.low) and math.isfinite(each.high))
    ]
    for each in reversed(report.parameters):
        if each.grad_norm is not None and not math.isfinite(each.grad_norm):
            found.append((each.name, each.grad_norm, "gradient"))
    for each in report.parameters:
        if not math.isfinite(each.weight_norm):
            found.append((each.name, each.weight_norm, "weight"))
    return [
        Finding(layer=name, value=value, what=what, key="first") for name, value, what in found[:1]
    ]


def out_of_range(report: LayerReport, settings: RuleSettings) -> Iterator[Finding]:
    """Updates too large or too small for their weights; no update at all is another matter."""
    high, low = settings.limit or 0.0, settings.low or 0.0
    for each in report.parameters:
        if not each.is_matrix or not each.update_norm or not each.weight_norm:
            continue
        ratio = each.update_norm / each.weight_norm
        if ratio > high or ratio < low:
            limit = high if ratio > high else low
            yield Finding(layer=each.name, value=ratio, limit=limit, what="update")


def _with_gradient(report: LayerReport) -> Iterator[ParameterReading]:
    for each in report.parameters:
        if each.is_matrix and each.grad_norm is not None and math.isfinite(each.grad_norm):
            yield each


class ExplosionJudge:
    """Gradients far beyond the weights, or far beyond what they were."""

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._history: dict[str, deque[float]] = {}
        self._firing: set[str] = set()

    def look(self, view: StepView) -> list[Finding]:
        """New findings, the largest first."""
        found = []
        for each in _with_gradient(view.layers) if view.layers is not None else ():
            if (self._settings.layers or "") not in each.name:
                continue
            finding = self._judge(each)
            if finding is None:
                self._firing.discard(each.name)
            elif each.name not in self._firing:
                self._firing.add(each.name)
                found.append(finding)
        return sorted(found, key=lambda finding: -finding.value)

    def _judge(self, reading: ParameterReading) -> Finding | None:
        norm, limit = reading.grad_norm or 0.0, self._settings.limit or 0.0
        share = norm / max(reading.weight_norm, LEAST_RMS * math.sqrt(reading.elements))
        if share > limit:
            return Finding(layer=reading.name, value=share, limit=limit, what="gradient ÷ weight")
        past = self._history.setdefault(reading.name, deque(maxlen=self._settings.window))
        median = statistics.median(past) if len(past) >= LEAST_HISTORY else math.inf
        if norm > SPIKE * median and share > LEAST_SPIKE:
            times = norm / median if median else math.inf
            return Finding(layer=reading.name, value=times, limit=SPIKE, what="gradient ÷ median")
        past.append(norm)
        return None


_PER_LAYER: dict[str, Violations] = {
    "vanishing_gradients": vanishing,
    "dead_relus": dead,
    "saturated_activations": saturated,
    "unchanged_weights": unchanged,
    "all_zero_tensors": all_zero,
    "nonfinite_layer": nonfinite,
    "update_ratio": out_of_range,
}
_OF_THEIR_OWN: dict[str, Callable[[RuleSettings], Judge]] = {
    "exploding_gradients": ExplosionJudge,
    "loss_not_falling": PlateauJudge,
    "overfitting": OverfittingJudge,
}


def make_judge(rule: str, settings: RuleSettings) -> Judge:
    """A judge without a past."""
    if rule in _OF_THEIR_OWN:
        return _OF_THEIR_OWN[rule](settings)
    return LayerJudge(_PER_LAYER[rule], settings)
