"""How each rule is decided: pure functions and classes over the numbers of one step."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
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
    """Which tensor of the layer is meant, in words."""
    key: str | None = None
    """Findings with the same key in two steps are one that persists; default: layer and tensor."""


class RuleCheck(Protocol):
    """Called once a step; returns what is newly outside its limits."""

    def check(self, view: StepView) -> list[Finding]:
        """New findings; a finding that persists is not returned again."""


class LossPlateauCheck:
    """Compares the mean losses of the two halves of a window."""

    def __init__(self, settings: RuleSettings) -> None:
        window = settings.window or 2
        self._limit = settings.limit or 0.0
        self._losses: deque[float] = deque(maxlen=max(2, window))
        # Two sums over the window cost 500 additions: ten checks per window are enough.
        self._check_every = max(1, window // 10)
        self._until_check = 0
        self._firing = False

    def check(self, view: StepView) -> list[Finding]:
        """One finding when the loss stops falling; the next one only after it fell again."""
        loss = view.scalars.get("loss")
        if loss is None or not math.isfinite(loss) or view.is_small_batch:
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
        """(first - second) / |first| of the mean losses of the two halves."""
        values = list(self._losses)
        half = len(values) // 2
        first, second = math.fsum(values[:half]) / half, math.fsum(values[-half:]) / half
        return (first - second) / abs(first) if first else -abs(second)


class OverfittingCheck:
    """Compares each validation with the best one, and the training losses before both."""

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._sum, self._count, self._strikes = 0.0, 0, 0
        self._best, self._train_at_best = math.inf, math.inf

    def check(self, view: StepView) -> list[Finding]:
        """One finding when `window` validations in a row were worse."""
        # The training loss of a validation is the mean of all losses since the validation before.
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
        hit = self._strikes == (self._settings.window or 1)  # `==`: reported once
        return [Finding(value=rise, limit=limit, what=what)] if hit else []


SPIKE_FACTOR = 100.0
"""A gradient that is larger than its median by this factor is a spike."""
MIN_SPIKE_SHARE = 0.1
"""Gradients below this share of the weight norm are never a spike."""
MAX_KEPT_GRADIENTS = 1_000_000
"""Gradient norms that are kept of all layers together; with many layers the window is shorter."""
MIN_HISTORY = 5
"""Earlier gradients that a median needs."""
MIN_WEIGHT_RMS = 1e-3
"""Lower bound of a weight's RMS, so that weights that start at zero give no false alarm."""


Violations = Callable[[LayerReport, RuleSettings], Iterable[Finding]]


class LayerCheck:
    """Finds a layer that is outside its limits in `window` measurements in a row."""

    def __init__(self, violations: Violations, settings: RuleSettings) -> None:
        self._violations, self._settings = violations, settings
        self._window = settings.window or 1
        self._runs: dict[str, int] = {}
        """Measurements in a row in which a key was found."""

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
        # `==`: a run that continues beyond the window is the same finding.
        return [findings[key] for key, run in self._runs.items() if run == self._window]


# -- per layer ------------------------------------------------------------------------------------


def vanishing_gradients(report: LayerReport, settings: RuleSettings) -> list[Finding]:
    """Gradients far smaller than the largest one; zeros are left to `all_zero_tensors`."""
    # RMS, so that layers of different sizes can be compared.
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
    """ReLU layers with too many dead units."""
    limit = settings.limit or 0.0
    for each in report.activations:
        share = each.dead_fraction
        if share is None or share <= limit:
            continue
        count = f"{round(share * each.units):,} of {each.units:,} units" if each.units else "units"
        # The count may change while the finding persists.
        yield Finding(
            layer=each.name, value=share, limit=limit, what=count, key=f"{each.name} units"
        )


def saturated_activations(report: LayerReport, settings: RuleSettings) -> Iterator[Finding]:
    """Sigmoid and tanh layers with too many outputs close to their limits."""
    shares = ((each.name, each.saturated_fraction) for each in report.activations)
    return _above_limit(shares, settings, "output")


def _above_limit(
    shares: Iterable[tuple[str, float | None]], settings: RuleSettings, what: str
) -> Iterator[Finding]:
    limit = settings.limit or 0.0
    for name, share in shares:
        if share is not None and share > limit:
            yield Finding(layer=name, value=share, limit=limit, what=what)


def unchanged_weights(report: LayerReport, _settings: RuleSettings) -> Iterator[Finding]:
    """Parameters that a step did not change, although their gradient is not zero."""
    for each in report.parameters:
        # A zero gradient explains it. No gradient (None) is a finding: the loss does not reach it.
        if each.update_norm == 0.0 and each.grad_norm != 0.0:
            why = "it has no gradient" if each.grad_norm is None else "it has a gradient"
            yield Finding(layer=each.name, value=0.0, what=f"parameter; {why}")


def all_zero_tensors(report: LayerReport, _settings: RuleSettings) -> Iterator[Finding]:
    """Outputs, weights and gradients in which every element is zero."""
    for module in report.activations:
        if module.low == module.high == 0.0:
            yield Finding(layer=module.name, value=0.0, what="output")
    for each in report.parameters:
        # Biases and scales often start at zero, so only matrices are checked.
        if each.is_matrix and each.weight_norm == 0.0:
            yield Finding(layer=each.name, value=0.0, what="weight")
        if each.is_matrix and each.grad_norm == 0.0:
            yield Finding(layer=each.name, value=0.0, what="gradient")


def nonfinite_layers(report: LayerReport, _settings: RuleSettings) -> list[Finding]:
    """The origin of NaN or infinity: one finding at most."""
    # NaN spreads forward from the first bad output, then backward from the loss: so the first
    # output in call order, else the gradient of the last layer, else a weight.
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
    """Updates too large or too small for their weights; `unchanged_weights` finds no update."""
    high, low = settings.limit or 0.0, settings.low or 0.0
    for each in report.parameters:
        # A bias that starts at zero would give any ratio.
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
    """Gradients far larger than the weights, or than the median of earlier gradients."""

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._window = self._history_length = settings.window or MIN_HISTORY
        self._history: dict[str, deque[float]] = {}
        self._firing: set[str] = set()

    def check(self, view: StepView) -> list[Finding]:
        """New findings, the largest first."""
        if view.is_small_batch:
            return []  # its gradients vary more than those of the steps it would be compared with
        findings = []
        layers = 1 if view.layers is None else max(1, len(view.layers.parameters))
        self._history_length = max(MIN_HISTORY, min(self._window, MAX_KEPT_GRADIENTS // layers))
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
        past = self._history.setdefault(reading.name, deque(maxlen=self._history_length))
        median = statistics.median(past) if len(past) >= MIN_HISTORY else math.inf
        if norm > SPIKE_FACTOR * median and share > MIN_SPIKE_SHARE:
            times = norm / median if median else math.inf
            return Finding(
                layer=reading.name, value=times, limit=SPIKE_FACTOR, what="gradient ÷ median"
            )
        past.append(norm)  # spikes are not added: they would raise the median
        return None


RULE_CHECKS: dict[str, Callable[[RuleSettings], RuleCheck]] = {
    "vanishing_gradients": partial(LayerCheck, vanishing_gradients),
    "exploding_gradients": ExplodingGradientsCheck,
    "dead_relus": partial(LayerCheck, dead_relus),
    "saturated_activations": partial(LayerCheck, saturated_activations),
    "loss_not_falling": LossPlateauCheck,
    "unchanged_weights": partial(LayerCheck, unchanged_weights),
    "all_zero_tensors": partial(LayerCheck, all_zero_tensors),
    "nonfinite_layer": partial(LayerCheck, nonfinite_layers),
    "update_ratio": partial(LayerCheck, update_ratio_out_of_range),
    "overfitting": OverfittingCheck,
}
"""Makes a new check of a rule, without history."""
KEEP_WINDOW = frozenset({"exploding_gradients", "loss_not_falling"})
"""Rules that keep as many numbers as their window is long."""
