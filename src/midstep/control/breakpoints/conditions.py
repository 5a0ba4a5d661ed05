"""Conditions of breakpoints: what is measured each step, and when it counts as a hit."""

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
"""A spread over fewer losses than this says nothing."""


@dataclass(frozen=True, kw_only=True)
class StepView:
    """What conditions may look at: the step that has just ended."""

    step: int
    """Finished steps."""
    scalars: Mapping[str, float]
    """What was logged in it, the loss included, and `step`, `epoch`, `lr` where known."""
    sample_ids: Sequence[int] | None = None
    """Ids of its samples, where known."""
    on_device: frozenset[str] = frozenset()
    """Scalars that had to be fetched from a device."""
    layers: LayerReport | None = None
    """What was measured inside the model in it, where a condition asked for that."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A condition that holds, with the measured value beside its limit."""

    value: float | None = None
    limit: float | None = None
    samples: tuple[int, ...] = ()
    layer: str | None = None
    """Name of the parameter or module, where it is one of them."""
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Condition(ABC):
    """Base of all conditions; `check` is asked once a step, on the training thread."""

    kind: ClassVar[str]
    reads: ClassVar[frozenset[str]] = frozenset()
    """Scalars it needs; on a GPU each costs a synchronisation."""

    @property
    def scalar_names(self) -> frozenset[str]:
        """Names of the scalars it needs."""
        return self.reads

    @property
    @abstractmethod
    def words(self) -> str:
        """The condition in words."""

    @abstractmethod
    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""

    def is_due(self, step: int) -> bool:  # noqa: ARG002 - for those that measure now and then
        """Whether it may hold after the step that ends as number `step`."""
        return True

    def measures_at(self, step: int) -> frozenset[Measure]:  # noqa: ARG002 - as in `due`
        """What has to be measured inside the model in that step."""
        return frozenset()

    @property
    def missing_input(self) -> str | None:
        """What it needs besides scalars and has not had so far, in words."""
        return None

    @property
    def cost_s(self) -> float | None:
        """Seconds that its measuring costs a step on average, where it measures anything."""
        return None

    def explain(self) -> dict[str, Any]:
        """`rule` and `explanation` of a hit."""
        return {"rule": None, "explanation": None}

    def parameters(self) -> dict[str, Any]:
        """Kind and settings, as they travel."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return {"kind": self.kind} | {
            k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()
        }


def _check_number(name: str, value: Any, *, above: float | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{name} must be a finite number, got {value!r}")
    if above is not None and not value > above:
        raise ConfigError(f"{name} must be above {above:g}, got {value!r}")


def _check_integer(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class StepReached(Condition):
    """Holds once, when this many steps are finished."""

    kind: ClassVar[str] = "step"
    step: int
    """Finished steps at which to park."""

    def __post_init__(self) -> None:
        _check_integer("step", self.step, least=0)

    @property
    def words(self) -> str:
        """The condition in words."""
        return f"step = {self.step:,}"

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        return Hit(value=view.step, limit=self.step) if view.step == self.step else None


@dataclass(frozen=True, kw_only=True)
class Every(Condition):
    """Holds every n steps."""

    kind: ClassVar[str] = "every"
    n: int
    """Distance between two hits, in steps."""

    def __post_init__(self) -> None:
        _check_integer("n", self.n, least=1)

    @property
    def words(self) -> str:
        """The condition in words."""
        return f"every {self.n:,} steps"

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        return Hit(value=view.step, limit=self.n) if view.step % self.n == 0 else None


@dataclass(frozen=True, kw_only=True)
class LossNonFinite(Condition):
    """Holds when the loss is NaN or infinite."""

    kind: ClassVar[str] = "loss_nonfinite"
    reads: ClassVar[frozenset[str]] = frozenset({"loss"})

    @property
    def words(self) -> str:
        """The condition in words."""
        return "loss is not finite"

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        loss = view.scalars.get("loss")
        return Hit(value=loss) if loss is not None and not math.isfinite(loss) else None


@dataclass(frozen=True, kw_only=True)
class LossZ(Condition):
    """Holds when the loss lies far above the mean of the losses before it."""

    kind: ClassVar[str] = "loss_z"
    reads: ClassVar[frozenset[str]] = frozenset({"loss"})
    limit: float = 4.0
    """Standard deviations above the mean."""
    window: int = 200
    """How many losses before this one count."""
    spread: RollingSpread = field(init=False, repr=False, compare=False)
    """Mean and spread of the window now."""

    def __post_init__(self) -> None:
        _check_number("limit", self.limit, above=0)
        _check_integer("window", self.window, least=MIN_LOSSES_FOR_Z)
        object.__setattr__(self, "spread", RollingSpread(self.window))

    @property
    def words(self) -> str:
        """The condition in words."""
        return f"loss z-score > {self.limit:g}"

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        loss = view.scalars.get("loss")
        if loss is None or not math.isfinite(loss):
            return None
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
    reads: ClassVar[frozenset[str]] = frozenset({"grad_norm"})
    limit: float
    """Largest norm that passes."""

    def __post_init__(self) -> None:
        _check_number("limit", self.limit, above=0)

    @property
    def words(self) -> str:
        """The condition in words."""
        return f"grad_norm > {self.limit:g}"

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        norm = view.scalars.get("grad_norm")
        if norm is None or norm <= self.limit:
            return None
        return Hit(value=norm, limit=self.limit)


@dataclass(frozen=True, kw_only=True)
class Metric(Condition):
    """Holds when a logged scalar compares so with a value."""

    kind: ClassVar[str] = "metric"
    name: str
    """As it was logged."""
    op: Operator
    """One of < <= > >= == !=."""
    value: float
    """What it is compared with."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"name must be the name of a logged scalar, got {self.name!r}")
        if self.op not in get_args(Operator):
            raise ConfigError(f"op must be one of {' '.join(_OPERATORS)}, got {self.op!r}")
        _check_number("value", self.value)

    @property
    def scalar_names(self) -> frozenset[str]:
        """Names of the scalars it needs."""
        return frozenset({self.name})

    @property
    def words(self) -> str:
        """The condition in words."""
        return f"{self.name} {self.op} {self.value:g}"

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        measured = view.scalars.get(self.name)
        if measured is None or not _OPERATORS[self.op](measured, self.value):
            return None
        return Hit(value=measured, limit=self.value)


@dataclass(frozen=True, kw_only=True)
class Sample(Condition):
    """Holds when one of these samples was in the batch."""

    kind: ClassVar[str] = "sample"
    ids: tuple[int, ...]
    """Sample ids, as the loader numbers them."""

    def __post_init__(self) -> None:
        ids = tuple(self.ids)
        if not ids:
            raise ConfigError("ids must name at least one sample")
        for sample in ids:
            _check_integer("ids", sample, least=0)
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
    """Holds when an expression of the checked grammar is true."""

    kind: ClassVar[str] = "expression"
    expression: str
    """For example `loss > 2 * loss_mean and step > 100`."""
    _compiled: CompiledExpression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise ConfigError(f"expression must be text, got {self.expression!r}")
        object.__setattr__(self, "_compiled", compile_expression(self.expression))

    @property
    def scalar_names(self) -> frozenset[str]:
        """Names of the scalars it needs."""
        return self._compiled.names

    @property
    def words(self) -> str:
        """The condition in words."""
        return self.expression

    def check(self, view: StepView) -> Hit | None:
        """The hit, or None."""
        if not self._compiled.holds(view.scalars):
            return None
        left, right = self._compiled.left, self._compiled.right
        return Hit(
            value=None if left is None else float(left(view.scalars)),
            limit=None if right is None else float(right(view.scalars)),
        )


CONDITIONS: dict[str, type[Condition]] = {  # `rules` adds its own
    condition.kind: condition
    for condition in (
        StepReached,
        Every,
        LossNonFinite,
        LossZ,
        GradNorm,
        Metric,
        Sample,
        Expression,
    )
}


def make_condition(kind: str, settings: Mapping[str, Any]) -> Condition:
    """The condition `kind` with its settings, checked.

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
    except TypeError as error:
        raise ConfigError(f"condition {kind!r}: {error}") from None
