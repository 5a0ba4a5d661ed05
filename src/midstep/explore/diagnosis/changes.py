"""What changed in the last steps before a stop: rates, gradients, batch, samples, dead layers.

Each change has the value before and after it, one number for each of the last steps, the step at
which it began, and a reading in words.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

LAST_STEPS = 20
RATE_FACTOR = 1.5
"""A learning rate that changes by at least this factor from one step to the next jumps."""
NORM_FACTOR = 4.0
"""A gradient norm above its median by this factor jumps."""
NOT_FINITE = "Not finite"
LEAST_KNOWN = 2
"""A norm that is known once has nothing to be compared with."""
LEAST_BEFORE = 3
"""Norms that a median needs."""
DEAD_LIMIT = 0.5
SHARE_LIMIT = 0.25
"""A sample with a larger share of the batch's loss stands out, if it is also far above 1 / B."""
SHARE_FACTOR = 5.0
MOST_RATES = 8

Line = tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class StepNumbers:
    """The numbers of one finished step; what is unknown is left out."""

    step: int
    rates: Mapping[str, float] = field(default_factory=dict)
    """Learning rates by name of the scalar: `lr`, `lr.D`."""
    grad_norm: float | None = None
    samples: int = 0
    dead: Mapping[str, float] = field(default_factory=dict)
    """Share of dead units by layer, in call order."""
    dead_counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Dead units and all units of the same layers, where they are known."""


@dataclass(frozen=True, kw_only=True)
class SampleShare:
    """The sample with the largest share of the last batch's loss."""

    share: float
    name: str
    """The sample in words, such as `sample 1,234` or `the sample at position 3`."""
    samples: int


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that is compared over the last steps."""

    key: str
    """`origin`, `inputs`, `lr`, `lr.NAME`, `grad_norm`, `batch_size`, `loss_share` or `dead`."""
    what: str
    before: float | None
    after: float | None
    line: Line
    """One number for each of the last steps; None where it is unknown."""
    step: int | None
    """When it began; None if it did not change."""
    reading: str
    is_cause: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether it did change."""
        return self.step is not None


def what_changed(
    steps: Sequence[StepNumbers],
    *,
    broken_inputs: int | None = None,
    share: SampleShare | None = None,
    proven: str | None = None,
    origin: tuple[str, str] | None = None,
    older_norms: Sequence[float] = (),
) -> list[Change]:
    """Compare the last steps: the likeliest cause first, then by step, then what did not change.

    Args:
        steps: the last steps, oldest first; the 20 last are drawn, earlier ones give medians.
        broken_inputs: values of the last batch that are not finite; None if they are unknown.
        share: of the loss of the last batch.
        proven: key of the change that was shown to be the cause, by running the model again.
        origin: where the first bad value is, if that is known and it is not an input.
        older_norms: gradient norms from before `steps`, for the median.

    >>> steps = [StepNumbers(step=n, rates={"lr": 0.1 if n < 5 else 8.0}) for n in range(1, 8)]
    >>> [(each.what, each.step, each.reading) for each in what_changed(steps)]
    [('Learning rate', 5, '× 80')]
    """
    if not steps:
        return []
    changes = _rate_changes(steps)
    rate_step = min((each.step for each in changes if each.step is not None), default=None)
    changes += _present(
        _origin_change(steps, origin),
        _input_change(steps, broken_inputs),
        _norm_change(steps, rate_step, older_norms),
        _size_change(steps),
        _share_change(steps, share),
        _dead_change(steps),
    )
    return _ordered(changes, proven if origin is None else "origin")


def _present(*changes: Change | None) -> list[Change]:
    return [each for each in changes if each is not None]


def _ordered(changes: list[Change], proven: str | None) -> list[Change]:
    changed = sorted(
        (each for each in changes if each.step is not None), key=lambda each: each.step or 0
    )
    if proven is None:
        # Neither a symptom nor a smaller rate is a cause; the earliest other change is.
        candidates = [each for each in changed if _may_be_cause(each)]
        cause = candidates[0] if candidates else None
    else:
        cause = next((each for each in changed if each.key == proven), None)
    if cause is not None:
        words = "First, explains the rest" if cause.key == "inputs" == proven else cause.reading
        first = replace(cause, is_cause=True, reading=words)
        changed = [first, *(each for each in changed if each is not cause)]
    return changed + [each for each in changes if each.step is None]


def _may_be_cause(change: Change) -> bool:
    if change.key.partition(".")[0] == "lr":
        return (change.after or 0.0) > (change.before or 0.0)
    return change.reading != NOT_FINITE  # a symptom of whatever came before


def _last(values: Sequence[float | None]) -> Line:
    return tuple(values[-LAST_STEPS:])


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


# -- one function for each ------------------------------------------------------------------------


def _rate_changes(steps: Sequence[StepNumbers]) -> list[Change]:
    names = list(dict.fromkeys(name for each in steps for name in each.rates))
    # With several optimizers `lr` is the rate of the first, which has a name of its own, too.
    named = [name for name in names if name.startswith("lr.")]
    return [_rate_change(steps, name) for name in (named or names)[:MOST_RATES]]


def _rate_change(steps: Sequence[StepNumbers], name: str) -> Change:
    values = [each.rates.get(name) for each in steps]
    shown = list(zip(steps, values, strict=True))[-LAST_STEPS - 1 :]
    what = "Learning rate" if name == "lr" else f"Learning rate of {name.removeprefix('lr.')}"
    known = _known([value for _, value in shown])
    change = Change(
        key=name,
        what=what,
        before=known[0] if known else None,
        after=known[-1] if known else None,
        line=_last(values),
        step=None,
        reading="Same" if len(set(known)) == 1 else "No jump",
    )
    for (_, old), (note, new) in pairwise(shown):
        if old and new and not 1 / RATE_FACTOR < new / old < RATE_FACTOR:
            factor = new / old
            words = f"× {factor:.3g}" if factor >= 0.01 else f"× {factor:.1e}"
            return replace(change, before=old, step=note.step, reading=words)
    return change


def _input_change(steps: Sequence[StepNumbers], broken: int | None) -> Change | None:
    if broken is None:
        return None
    line: Line = (*(None for _ in steps[-LAST_STEPS:-1]), float(broken))
    last = steps[-1].step
    return Change(
        key="inputs",
        what="Non-finite inputs",
        before=None,
        after=float(broken),
        line=line,
        step=last if broken else None,
        reading="In this batch" if broken else "None",
    )


def _origin_change(steps: Sequence[StepNumbers], origin: tuple[str, str] | None) -> Change | None:
    if origin is None:
        return None
    return Change(
        key="origin",
        what=origin[0],
        before=None,
        after=None,
        line=tuple(None for _ in steps[-LAST_STEPS:]),
        step=steps[-1].step,
        reading=origin[1],
    )


def _norm_change(
    steps: Sequence[StepNumbers], rate_step: int | None, older: Sequence[float]
) -> Change | None:
    norms = [each.grad_norm for each in steps]
    known = [*older, *_known(norms)]
    if len(known) < LEAST_KNOWN:
        return None
    first_shown = max(0, len(steps) - LAST_STEPS)
    change = Change(
        key="grad_norm",
        what="Gradient norm",
        before=known[0],
        after=known[-1],
        line=_last(norms),
        step=None,
        reading="No jump" if len(known) > LEAST_BEFORE else f"Known in {len(known)} steps only",
    )
    for at in range(first_shown, len(steps)):
        norm = norms[at]
        earlier = [each for each in (*older, *_known(norms[:at])) if math.isfinite(each)]
        if norm is None:
            continue
        median = statistics.median(earlier) if earlier else None
        if not math.isfinite(norm):
            return replace(change, before=median, step=steps[at].step, reading=NOT_FINITE)
        if median and len(earlier) >= LEAST_BEFORE and norm > NORM_FACTOR * median:
            step = steps[at].step
            words = f"× {norm / median:.3g}"
            if rate_step is not None and 0 <= step - rate_step <= 1:
                words += " with the rate"
            return replace(change, before=median, step=step, reading=words)
    return change


def _size_change(steps: Sequence[StepNumbers]) -> Change | None:
    sizes = [each.samples for each in steps if each.samples]
    if not sizes or not steps[-1].samples:
        return None
    line = tuple(float(each.samples) if each.samples else None for each in steps[-LAST_STEPS:])
    usual, count = Counter(sizes).most_common(1)[0]
    last = steps[-1].samples
    is_odd = last != usual and 2 * count > len(sizes)
    varies = len(set(sizes)) > 1
    return Change(
        key="batch_size",
        what="Batch size",
        before=float(usual if 2 * count > len(sizes) else sizes[0]),
        after=float(last),
        line=line,
        step=steps[-1].step if is_odd else None,
        reading=("Smaller" if last < usual else "Larger") + " than usual"
        if is_odd
        else ("As usual" if varies else "Same"),
    )


def _share_change(steps: Sequence[StepNumbers], share: SampleShare | None) -> Change | None:
    if share is None:
        return None
    name = share.name.removeprefix("the sample at ")
    is_large = share.share > max(SHARE_LIMIT, min(SHARE_FACTOR / max(1, share.samples), 0.9))
    return Change(
        key="loss_share",
        what="Largest share of loss",
        before=None,
        after=share.share,
        line=(*(None for _ in steps[-LAST_STEPS:-1]), share.share),
        step=steps[-1].step if is_large else None,
        reading=name[:1].upper() + name[1:],
    )


def _dead_change(steps: Sequence[StepNumbers]) -> Change | None:
    """The first layer in call order that is dead at the end, with the step at which it died."""
    measured = [each for each in steps if each.dead]
    if not measured:
        return None
    last = measured[-1].dead
    layer = next((name for name, share in last.items() if share > DEAD_LIMIT), None)
    name = layer or max(last, key=lambda each: last[each])
    shares = [each.dead.get(name) for each in steps]
    known = _known(shares)
    change = Change(
        key="dead",
        what=f"Dead units of {'layer ' if name.isdigit() else ''}{name}",
        before=known[0],
        after=known[-1],
        line=_last(shares),
        step=None,
        reading="Below the limit" if known[-1] else "None",
    )
    if layer is None:
        return change
    dead = next(each for each in measured if each.dead.get(name, 0.0) > DEAD_LIMIT)
    earlier = [each.dead[name] for each in measured if each.step < dead.step and name in each.dead]
    return replace(
        change,
        before=earlier[-1] if earlier else None,
        step=dead.step,
        reading=_units(measured[-1].dead_counts.get(name)),
    )


def _units(counts: tuple[int, int] | None) -> str:
    return "First dead layer" if counts is None else f"{counts[0]:,} of {counts[1]:,} units"
