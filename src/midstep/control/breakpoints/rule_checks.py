"""How rules judge layers: readings of one step in, findings out. No torch, no threads, no clock."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from midstep.control.breakpoints.conditions import StepView
from midstep.control.breakpoints.layer_report import LayerReport, ParameterReading
from midstep.control.breakpoints.rule_catalog import RuleSettings


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One layer, or the whole training, outside its limit."""

    value: float
    limit: float | None = None
    layer: str | None = None
    what: str = ""
    """Which tensor of the layer, in words."""
    key: str | None = None
    """Findings of one key are one finding that goes on; layer and tensor when left out."""


class RuleCheck(Protocol):
    """Asked once a step; gives what is newly out of its limits."""

    def check(self, view: StepView) -> list[Finding]:
        """New findings; none while an old one goes on."""
        ...


class LossPlateauCheck:
    """Compares the mean loss of the two halves of a window."""

    def __init__(self, settings: RuleSettings) -> None:
        window = settings.window or 2
        self._limit = settings.limit or 0.0
        self._losses: deque[float] = deque(maxlen=max(2, window))
        self._check_every = max(1, window // 10)
        self._until_check = 0
        self._firing = False

    def check(self, view: StepView) -> list[Finding]:
        """One finding when the loss stops falling; the next only after it has fallen again."""
        loss = view.scalars.get("loss")
        if loss is None or not math.isfinite(loss):
            return []
        self._losses.append(loss)
        self._until_check -= 1
        if self._until_check > 0 or len(self._losses) < (self._losses.maxlen or 0):
            return []
        self._until_check = self._check_every
        fell = self._relative_fall()
        began = fell < self._limit and not self._firing
        self._firing = fell < self._limit
        return [Finding(value=fell, limit=self._limit, what="loss")] if began else []

    def _relative_fall(self) -> float:
        """By which share of its height the mean of the second half lies below the first's."""
        values = list(self._losses)
        half = len(values) // 2
        first, second = math.fsum(values[:half]) / half, math.fsum(values[-half:]) / half
        return (first - second) / abs(first) if first else -abs(second)


class OverfittingCheck:
    """Compares each validation with the best one, and the training loss at both."""

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._sum, self._count, self._strikes = 0.0, 0, 0
        self._best, self._train_at_best = math.inf, math.inf

    def check(self, view: StepView) -> list[Finding]:
        """One finding when validations have been worse for long enough."""
        loss = view.scalars.get("loss")
        validation = view.scalars.get(self._settings.metric or "")
        findings = []
        if validation is not None and math.isfinite(validation) and self._count:
            findings = self._compare(validation, self._sum / self._count)
            self._sum, self._count = 0.0, 0
        if loss is not None and math.isfinite(loss):
            self._sum, self._count = self._sum + loss, self._count + 1
        return findings

    def _compare(self, validation: float, train: float) -> list[Finding]:
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


SPIKE_FACTOR = 100.0
"""A gradient so many times its median is a spike."""
MIN_SPIKE_SHARE = 0.1
"""Below this share of the weights no gradient is a spike, however quiet it was before."""
MIN_HISTORY = 5
MIN_WEIGHT_RMS = 1e-3
"""Weights count as at least this large, so that those that start at zero explode nothing."""


Violations = Callable[[LayerReport, RuleSettings], Iterable[Finding]]


class LayerCheck:
    """Finds a layer when it was out of its limits in `window` measurements in a row."""

    def __init__(self, violations: Violations, settings: RuleSettings) -> None:
        self._violations, self._settings = violations, settings
        self._runs: dict[str, int] = {}

    def check(self, view: StepView) -> list[Finding]:
        """New findings; a layer is found again only after it has recovered."""
        if view.layers is None:
            return []
        wanted = self._settings.layers or ""
        findings = {
            each.key or f"{each.layer} {each.what}": each
            for each in self._violations(view.layers, self._settings)
            if wanted in (each.layer or "")
        }
        self._runs = {key: self._runs.get(key, 0) + 1 for key in findings}
        return [findings[key] for key, run in self._runs.items() if run == self.window]

    @property
    def window(self) -> int:
        """Measurements in a row."""
        return self._settings.window or 1


# -- per layer ------------------------------------------------------------------------------------


def vanishing_gradients(report: LayerReport, settings: RuleSettings) -> list[Finding]:
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


def dead_relus(report: LayerReport, settings: RuleSettings) -> Iterator[Finding]:
    """ReLU layers with many dead units."""
    limit = settings.limit or 0.0
    for each in report.activations:
        if each.dead_fraction is not None and each.dead_fraction > limit:
            yield Finding(layer=each.name, value=each.dead_fraction, limit=limit, what="units")


def saturated_activations(report: LayerReport, settings: RuleSettings) -> Iterator[Finding]:
    """Sigmoids and tanhs on their flat ends."""
    limit = settings.limit or 0.0
    for each in report.activations:
        if each.saturated_fraction is not None and each.saturated_fraction > limit:
            yield Finding(
                layer=each.name, value=each.saturated_fraction, limit=limit, what="output"
            )


def unchanged_weights(report: LayerReport, _settings: RuleSettings) -> Iterator[Finding]:
    """Parameters that a step left alone, though their gradient is not zero."""
    for each in report.parameters:
        if each.update_norm == 0.0 and each.grad_norm != 0.0:
            why = "it has no gradient" if each.grad_norm is None else "it has a gradient"
            yield Finding(layer=each.name, value=0.0, what=f"parameter; {why}")


def all_zero_tensors(report: LayerReport, _settings: RuleSettings) -> Iterator[Finding]:
    """Outputs, weights and gradients in which nothing differs from zero."""
    for module in report.activations:
        if module.low == module.high == 0.0:
            yield Finding(layer=module.name, value=0.0, what="output")
    for each in report.parameters:
        if each.is_matrix and each.weight_norm == 0.0:
            yield Finding(layer=each.name, value=0.0, what="weight")
        if each.is_matrix and each.grad_norm == 0.0:
            yield Finding(layer=each.name, value=0.0, what="gradient")


def nonfinite_layers(report: LayerReport, _settings: RuleSettings) -> list[Finding]:
    """The first output in the order of calls; else the gradient nearest the loss; else a weight."""
    readings = [
        (each.name, each.high if math.isfinite(each.low) else each.low, "output")
        for each in report.activations
        if not (math.isfinite(each.low) and math.isfinite(each.high))
    ]
    for each in reversed(report.parameters):
        if each.grad_norm is not None and not math.isfinite(each.grad_norm):
            readings.append((each.name, each.grad_norm, "gradient"))
    for each in report.parameters:
        if not math.isfinite(each.weight_norm):
            readings.append((each.name, each.weight_norm, "weight"))
    return [
        Finding(layer=name, value=value, what=what, key="first")
        for name, value, what in readings[:1]
    ]


def update_ratio_out_of_range(report: LayerReport, settings: RuleSettings) -> Iterator[Finding]:
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


class ExplodingGradientsCheck:
    """Gradients far beyond the weights, or far beyond what they were."""

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._history: dict[str, deque[float]] = {}
        self._firing: set[str] = set()

    def check(self, view: StepView) -> list[Finding]:
        """New findings, the largest first."""
        findings = []
        for each in _with_gradient(view.layers) if view.layers is not None else ():
            if (self._settings.layers or "") not in each.name:
                continue
            finding = self._compare(each)
            if finding is None:
                self._firing.discard(each.name)
            elif each.name not in self._firing:
                self._firing.add(each.name)
                findings.append(finding)
        return sorted(findings, key=lambda finding: -finding.value)

    def _compare(self, reading: ParameterReading) -> Finding | None:
        norm, limit = reading.grad_norm or 0.0, self._settings.limit or 0.0
        share = norm / max(reading.weight_norm, MIN_WEIGHT_RMS * math.sqrt(reading.elements))
        if share > limit:
            return Finding(layer=reading.name, value=share, limit=limit, what="gradient ÷ weight")
        past = self._history.setdefault(reading.name, deque(maxlen=self._settings.window))
        median = statistics.median(past) if len(past) >= MIN_HISTORY else math.inf
        if norm > SPIKE_FACTOR * median and share > MIN_SPIKE_SHARE:
            times = norm / median if median else math.inf
            return Finding(
                layer=reading.name, value=times, limit=SPIKE_FACTOR, what="gradient ÷ median"
            )
        past.append(norm)
        return None


_LAYER_CHECKS: dict[str, Violations] = {
    "vanishing_gradients": vanishing_gradients,
    "dead_relus": dead_relus,
    "saturated_activations": saturated_activations,
    "unchanged_weights": unchanged_weights,
    "all_zero_tensors": all_zero_tensors,
    "nonfinite_layer": nonfinite_layers,
    "update_ratio": update_ratio_out_of_range,
}
_STATEFUL_CHECKS: dict[str, Callable[[RuleSettings], RuleCheck]] = {
    "exploding_gradients": ExplodingGradientsCheck,
    "loss_not_falling": LossPlateauCheck,
    "overfitting": OverfittingCheck,
}


def make_rule_check(rule: str, settings: RuleSettings) -> RuleCheck:
    """A judge without a past."""
    if rule in _STATEFUL_CHECKS:
        return _STATEFUL_CHECKS[rule](settings)
    return LayerCheck(_LAYER_CHECKS[rule], settings)
