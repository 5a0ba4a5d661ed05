"""The conditions of breakpoints; each is checked once a step."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args

from midstep.control.breakpoints.expression_grammar import CompiledExpression, compile_expression
from midstep.control.breakpoints.layer_report import LayerReport, Measure
from midstep.control.breakpoints.rolling_statistics import RollingSpread
from midstep.control.setting_checks import check_integer, check_number, check_text
from midstep.core.errors import ConfigError

Operator = Literal["<", "<=", ">", ">=", "==", "!="]
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
MIN_LOSSES_FOR_Z = 8
"""A standard deviation of fewer losses is too uncertain to stop a run."""


@dataclass(frozen=True, kw_only=True)
class StepView:
    """What conditions read: the step that has just finished."""

    step: int
    """Finished steps."""
    scalars: Mapping[str, float]
    """The logged scalars with the loss, and `step`, `epoch`, `lr` where known."""
    sample_ids: Sequence[int] | None = None
    """Ids of the samples in the batch, where known."""
    on_device: frozenset[str] = frozenset()
    """Scalars that were copied from a GPU."""
    layers: LayerReport | None = None
    """What was measured inside the model, if a condition needs it in this step."""
    is_small_batch: bool = False
    """Whether it has fewer samples than usual, as the last one of an epoch."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A condition that holds: the measured value and its limit."""

    value: float | None = None
    limit: float | None = None
    samples: tuple[int, ...] = ()
    layer: str | None = None
    """Name of the parameter or module, for rules about layers."""
    note: str | None = None


CONDITIONS: dict[str, type[Condition]] = {}
"""Every kind of condition by name, in the order in which the classes are defined."""


@dataclass(frozen=True, kw_only=True)
class Condition(ABC):
    """Base of all conditions; `check` is called once a step, on the training thread."""

    kind: ClassVar[str]
    template: ClassVar[str] = ""
    """The condition in words, with the names of its settings to fill in."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """Scalars it needs; on a GPU reading them waits for the device."""

    def __init_subclass__(cls) -> None:
        CONDITIONS[cls.kind] = cls

    @property
    def scalar_names(self) -> frozenset[str]:
        """Names of the scalars it needs."""
        return self.reads

    @property
    def words(self) -> str:
        """The condition in words."""
        return self.template.format(**vars(self))

    @property
    def kept_values(self) -> int:
        """How many numbers it keeps in memory at most."""
        return 0

    @abstractmethod
    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""

    def is_due(self, step: int) -> bool:  # noqa: ARG002 - for subclasses that measure every n steps
        """Whether it may hold when `step` steps are finished."""
        return True

    def measures_at(self, step: int) -> frozenset[Measure]:  # noqa: ARG002 - as in `is_due`
        """What must be measured inside the model in that step."""
        return frozenset()

    @property
    def missing_input(self) -> str | None:
        """What it needs besides scalars and has not got so far, in words."""
        return None

    @property
    def cost_s(self) -> float | None:
        """Average seconds a step that its measurements cost; None if it measures nothing."""
        return None

    def explain(self) -> dict[str, Any]:
        """The fields `rule` and `explanation` of a hit."""
        return {"rule": None, "explanation": None}

    def parameters(self) -> dict[str, Any]:
        """Kind and settings as JSON."""
        # Only fields that a caller sets; the others hold the state of the condition.
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return {"kind": self.kind} | {
            k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()
        }


@dataclass(frozen=True, kw_only=True)
class StepReached(Condition):
    """Holds once, when `step` steps are finished."""

    kind: ClassVar[str] = "step"
    template: ClassVar[str] = "step = {step:,}"
    step: int
    """Finished steps at which to pause."""

    def __post_init__(self) -> None:
        check_integer("step", self.step, least=0)

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        # `==`, not `>=`: it stops once, and once more if the run goes back and comes again.
        return Hit(value=view.step, limit=self.step) if view.step == self.step else None


@dataclass(frozen=True, kw_only=True)
class Every(Condition):
    """Holds every n steps."""

    kind: ClassVar[str] = "every"
    template: ClassVar[str] = "every {n:,} steps"
    n: int
    """Steps between two hits."""

    def __post_init__(self) -> None:
        check_integer("n", self.n, least=1)

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        return Hit(value=view.step, limit=self.n) if view.step % self.n == 0 else None


@dataclass(frozen=True, kw_only=True)
class LossNonFinite(Condition):
    """Holds when the loss is NaN or infinite."""

    kind: ClassVar[str] = "loss_nonfinite"
    template: ClassVar[str] = "loss is not finite"
    reads: ClassVar[frozenset[str]] = frozenset({"loss"})

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        loss = view.scalars.get("loss")
        return Hit(value=loss) if loss is not None and not math.isfinite(loss) else None


@dataclass(frozen=True, kw_only=True)
class LossZ(Condition):
    """Holds when the loss is far above the mean of the losses before it."""

    kind: ClassVar[str] = "loss_z"
    template: ClassVar[str] = "loss z-score > {limit:g}"
    reads: ClassVar[frozenset[str]] = frozenset({"loss"})
    limit: float = 4.0
    """Standard deviations above the mean."""
    window: int = 200
    """How many losses before this one are used."""
    spread: RollingSpread = field(init=False, repr=False, compare=False)
    """Current mean and standard deviation of the window."""

    def __post_init__(self) -> None:
        check_number("limit", self.limit, above=0)
        check_integer("window", self.window, least=MIN_LOSSES_FOR_Z)
        # The dataclass is frozen, so that settings cannot change under the training thread.
        object.__setattr__(self, "spread", RollingSpread(self.window))

    @property
    def kept_values(self) -> int:
        """The losses of the window."""
        return self.window

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        loss = view.scalars.get("loss")
        # NaN would make the mean NaN for a whole window; `LossNonFinite` finds it.
        if loss is None or not math.isfinite(loss) or view.is_small_batch:
            return None
        # Read before the push: an outlier must not raise the mean that it is compared with.
        mean, std, count = self.spread.mean, self.spread.std, len(self.spread)
        self.spread.push(loss)
        if count < MIN_LOSSES_FOR_Z or std == 0:
            return None
        z = (loss - mean) / std
        return Hit(value=z, limit=self.limit) if z > self.limit else None


@dataclass(frozen=True, kw_only=True)
class GradNorm(Condition):
    """Holds when the gradient norm is above a limit, or not finite."""

    kind: ClassVar[str] = "grad_norm"
    template: ClassVar[str] = "grad_norm > {limit:g}"
    reads: ClassVar[frozenset[str]] = frozenset({"grad_norm"})
    limit: float
    """Largest norm that is allowed."""

    def __post_init__(self) -> None:
        check_number("limit", self.limit, above=0)

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        norm = view.scalars.get("grad_norm")
        if norm is None or norm <= self.limit:  # False for NaN, so that NaN is a hit
            return None
        return Hit(value=norm, limit=self.limit)


@dataclass(frozen=True, kw_only=True)
class Metric(Condition):
    """Holds when a logged scalar is below, above or equal to a value."""

    kind: ClassVar[str] = "metric"
    template: ClassVar[str] = "{name} {op} {value:g}"
    name: str
    """Name of the logged scalar."""
    op: Operator
    """One of < <= > >= == !=."""
    value: float
    """The value to compare with."""

    def __post_init__(self) -> None:
        check_text("name of a logged scalar", self.name)
        if self.op not in get_args(Operator):
            raise ConfigError(f"op must be one of {' '.join(_OPERATORS)}, got {self.op!r}")
        check_number("value", self.value)

    @property
    def scalar_names(self) -> frozenset[str]:
        """Names of the scalars it needs."""
        return frozenset({self.name})

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        measured = view.scalars.get(self.name)
        if measured is None or not _OPERATORS[self.op](measured, self.value):
            return None
        return Hit(value=measured, limit=self.value)


@dataclass(frozen=True, kw_only=True)
class Sample(Condition):
    """Holds when one of these samples is in the batch."""

    kind: ClassVar[str] = "sample"
    ids: tuple[int, ...]
    """Sample ids, as the loader numbers them."""

    def __post_init__(self) -> None:
        ids = tuple(self.ids)
        if not ids:
            raise ConfigError("ids must name at least one sample")
        for sample in ids:
            check_integer("ids", sample, least=0)
        object.__setattr__(self, "ids", ids)

    @property
    def words(self) -> str:
        """The condition in words."""
        if len(self.ids) == 1:
            return f"sample {self.ids[0]:,} seen"
        return f"one of {len(self.ids):,} samples seen"

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        hits = set(self.ids).intersection(view.sample_ids or ())
        return Hit(samples=tuple(sorted(hits))) if hits else None


@dataclass(frozen=True, kw_only=True)
class Expression(Condition):
    """Holds when an expression is true; see `expression_grammar`."""

    kind: ClassVar[str] = "expression"
    template: ClassVar[str] = "{expression}"
    expression: str
    """For example `loss > 2 and step > 100`."""
    _compiled: CompiledExpression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_text("expression", self.expression)
        object.__setattr__(self, "_compiled", compile_expression(self.expression))

    @property
    def scalar_names(self) -> frozenset[str]:
        """Names of the scalars it needs."""
        return self._compiled.names

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        if not self._compiled.holds(view.scalars):
            return None
        # Of a single comparison the evidence shows both sides.
        if self._compiled.sides is None:
            return Hit()
        value, limit = (float(side(view.scalars)) for side in self._compiled.sides)
        return Hit(value=value, limit=limit)


def make_condition(kind: str, settings: Mapping[str, Any]) -> Condition:
    """Make the condition `kind` and check its settings.

    >>> make_condition("loss_z", {"limit": 4.0}).words
    'loss z-score > 4'
    """
    if kind not in CONDITIONS:
        raise ConfigError(f"no condition {kind!r}; there are {', '.join(CONDITIONS)}")
    condition = CONDITIONS[kind]
    known = {f.name for f in fields(condition) if f.init}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ConfigError(
            f"condition {kind!r} has no setting {unknown[0]!r}; it takes {sorted(known)}"
        )
    try:
        return condition(**settings)
    except TypeError as error:  # a setting without a default is missing
        raise ConfigError(f"condition {kind!r}: {error}") from None
