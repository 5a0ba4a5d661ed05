"""Which samples of a batch have values that are not finite, and where in the sample they are.

Shapes: B samples of a batch, N values of a sample.
"""

# ruff: noqa: N806 - names end in their shape
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from midstep.explore.diagnosis.finite_counts import (
    FiniteCounts,
    as_real,
    count_nonfinite,
    named_tensors,
)

if TYPE_CHECKING:
    from torch import Tensor

MOST_DESCRIBED = 8
MOST_NAMED = 128
"""Samples whose position is returned; all are counted."""
_MASKS = ("mask", "bias")
"""Fields with these words in their names may consist of minus infinity."""


@dataclass(frozen=True, kw_only=True)
class SampleInput:
    """The values of one sample that are not finite, in one field of the batch."""

    position: int
    """Position in the step: samples of earlier micro-batches come first."""
    field: str
    """Path of the tensor in the batch, such as `0` or `image`."""
    counts: FiniteCounts
    where: str
    """The part of the sample: `rows 12 to 15`, `values 3 and 9`; empty if it is all of it."""
    low: float | None
    """Smallest finite value of it; None if there is none."""
    high: float | None
    value: Tensor
    """The sample itself; a view of the batch."""


@dataclass(frozen=True, kw_only=True)
class BatchInputs:
    """What of the inputs of a step is not finite."""

    samples: int
    """Samples in the step."""
    positions: tuple[int, ...]
    """Positions of samples with values that are not finite, at most 128."""
    broken: int
    """How many samples that are."""
    counts: FiniteCounts
    """Over all tensors of the batch that are given per sample."""
    described: tuple[SampleInput, ...]
    """The first of them, at most 8."""


def nonfinite_inputs(batches: Sequence[Any]) -> BatchInputs:
    """Look for values that are not finite in the micro-batches of a step.

    >>> import torch
    >>> x = torch.zeros(3, 4)
    >>> x[1, 2] = float("nan")
    >>> [(each.position, each.where) for each in nonfinite_inputs([x]).described]
    [(1, 'value 2')]
    """
    offset, counts = 0, FiniteCounts()
    positions: list[int] = []
    described: list[SampleInput] = []
    for batch in batches:
        fields = [(name, each) for name, each in named_tensors(batch) if each.dim()]
        count = len(fields[0][1]) if fields else 0
        broken: set[int] = set()
        for name, tensor in fields:
            if len(tensor) != count:
                continue
            indices, of_field = _broken_samples(name, tensor)
            counts += of_field
            for index in indices:
                broken.add(index)
                if len(described) < MOST_DESCRIBED:
                    described.append(_describe(offset + index, name, tensor[index]))
        positions += sorted(offset + index for index in broken)
        offset += count
    return BatchInputs(
        samples=offset,
        positions=tuple(positions[:MOST_NAMED]),
        broken=len(positions),
        counts=counts,
        described=tuple(sorted(described, key=lambda each: each.position)),
    )


def _broken_samples(name: str, tensor: Tensor) -> tuple[list[int], FiniteCounts]:
    counts = count_nonfinite(tensor)
    if counts is None or not counts.bad or (_is_mask(name) and not counts.is_broken):
        return [], counts if counts is not None and not counts.bad else FiniteCounts()
    return broken_rows(tensor), counts


def _is_mask(name: str) -> bool:
    return any(word in name.rpartition(".")[2].lower() for word in _MASKS)


def broken_rows(tensor: Tensor) -> list[int]:
    """Indices along the first dimension with a value that is not finite."""
    values = as_real(tensor)
    if values is None or not values.dim():
        return []
    finite_B = values.reshape(len(values), -1).isfinite().all(dim=1)
    return (~finite_B).nonzero().flatten().tolist()


def _describe(position: int, name: str, sample: Tensor) -> SampleInput:
    values = as_real(sample)
    counts = count_nonfinite(sample)
    assert values is not None and counts is not None  # noqa: PT018, S101 - it has broken values
    finite_N = values[values.isfinite()]
    return SampleInput(
        position=position,
        field=name,
        counts=counts,
        where="" if counts.bad == counts.of else where_words(values),
        low=float(finite_N.min()) if len(finite_N) else None,
        high=float(finite_N.max()) if len(finite_N) else None,
        value=sample,
    )


def where_words(sample: Tensor) -> str:
    """Where in one sample values are not finite: rows of an image, else positions.

    >>> import torch
    >>> where_words(torch.tensor([[1.0, 1.0], [float("nan"), 1.0]]))
    'row 1'
    """
    broken = ~sample.isfinite()
    if broken.dim() == 0:
        return ""
    if broken.dim() == 1:
        return _span("value", broken)
    # The rows of an image [C, H, W] or [H, W]; the positions of a sequence [L, D].
    return _span("row", broken.reshape(-1, *broken.shape[-2:]).any(dim=0).any(dim=1))


def _span(word: str, broken: Tensor) -> str:
    """The indices that are set, in words."""
    indices = broken.nonzero().flatten().tolist()
    if len(indices) == 1:
        return f"{word} {indices[0]:,}"
    first, last = indices[0], indices[-1]
    if last - first + 1 == len(indices):
        return f"{word}s {first:,} to {last:,}"
    if len(indices) == 2:
        return f"{word}s {first:,} and {last:,}"
    return f"{len(indices):,} {word}s from {first:,} to {last:,}"
