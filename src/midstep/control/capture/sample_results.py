"""What a step computed for single samples: losses, shares of the batch's loss, predictions.

The training thread gives them as *results*: a function of some samples that returns their
columns. It is called only when the batch is copied. Its columns are computed from
copies, by the first reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.samples.tensor_facts import per_sample

Results = Callable[[int, int, int, int], Mapping[str, Any]]
"""`(first, stop, stride, count)`: of samples `first` up to `stop` of the `count` samples that the
shown batch has; maps have every `stride`-th row and column."""
PER_SAMPLE = ("losses", "loss_shares", "predictions", "probabilities")
"""Columns with one entry for each sample, or None."""
OF_BATCH = ("loss_note", "loss_fact", "prediction_kind")
"""Columns with one text for the whole batch, or None."""
TOO_LATE = "Viewing began during this step, so its losses are not known. The next step has them."
"""The note on a step whose loss was computed before anybody viewed it."""
OUTLIER_Z = 3.0
"""A sample whose loss is more standard deviations above the mean of its batch stands out."""


def shown_results(results: Any, chosen: slice) -> dict[str, Any]:
    """Every column by name, of some of the samples; None for what is not known. For readers.

    Args:
        results: the columns, a text that says why there are none, or None.
        chosen: which of their samples.
    """
    columns: Mapping[str, Any] = results if isinstance(results, Mapping) else {}
    is_reason = isinstance(results, str) and not results.startswith("<")
    problem = results if isinstance(results, str) else columns.get("problem")
    held = {name: columns.get(name) for name in PER_SAMPLE}
    shown = {name: None if each is None else each[chosen] for name, each in held.items()}
    shown |= {name: columns.get(name) for name in OF_BATCH}
    if problem is not None:
        words = f"The losses of single samples are not known: {problem}"
        shown["loss_note"] = problem if is_reason else words
    return shown


def results_of_losses(losses: Any) -> Results:
    """The results of losses that the loop gave, one for each sample."""
    return partial(_given_columns, losses)


def _given_columns(
    losses: Any, first: int, stop: int, _stride: int, count: int
) -> Mapping[str, Any]:
    return DeferredColumns(_read_given, losses=losses, count=count, first=first, stop=stop)


def _read_given(losses: Any, count: int, first: int, stop: int) -> Mapping[str, Any]:
    if isinstance(losses, str) or (shown := per_sample(losses, count, first, stop)) is None:
        return {}
    floats = as_floats(losses)
    shares = shares_of(floats) if len(floats) == count else None
    return {
        "losses": shown,
        "loss_shares": None if shares is None else shares[first:stop],
        "loss_fact": loss_fact(floats, shares),
    }


def as_floats(values: Any) -> list[float]:
    """Numbers of a list or tensor as floats; an empty list if one of them is not a number."""
    flat = values.reshape(-1).tolist() if hasattr(values, "reshape") else values
    if not isinstance(flat, list | tuple):
        return []
    try:
        return [float(value) for value in flat]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return []  # text, complex numbers, tensors of several elements


def shares_of(losses: Sequence[float]) -> list[float] | None:
    """The share of each sample in the sum of the losses; None if one is negative or not finite."""
    total = sum(losses)
    if not 0 < total < math.inf or min(losses) < 0:
        return None
    return [loss / total for loss in losses]


def outliers(losses: Sequence[float]) -> list[int]:
    """Positions of the losses more than three standard deviations above the mean, largest first."""
    count = len(losses)
    # `sum`, not `math.fsum`, which raises OverflowError where the sum is infinite.
    mean = sum(losses) / count
    std = math.sqrt(sum((value - mean) * (value - mean) for value in losses) / count)
    far = [i for i, value in enumerate(losses) if value > mean + OUTLIER_Z * std]
    return sorted(far, key=lambda i: -losses[i])


def loss_fact(losses: Sequence[float], shares: Sequence[float] | None) -> str | None:
    """One sentence about the samples that stand out; None if none does.

    >>> loss_fact([0.1] * 30 + [9.0, 8.0], [0.1 / 20] * 30 + [9 / 20, 8 / 20])
    '2 of 32 samples carry 85 % of the loss'
    """
    broken = sum(not math.isfinite(value) for value in losses)
    if broken:
        return f"{broken} of {len(losses)} losses {'are' if broken > 1 else 'is'} not finite"
    far = outliers(losses) if losses and shares is not None else []
    if not far or shares is None:
        return None
    carried = sum(shares[i] for i in far)
    verb = "samples carry" if len(far) > 1 else "samples carries"
    return f"{len(far)} of {len(losses)} {verb} {carried:.0%} of the loss".replace("%", " %")
