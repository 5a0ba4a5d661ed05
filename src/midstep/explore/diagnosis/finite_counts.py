"""Counts of values that are not finite, in tensors and in nested batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

MOST_DEPTH = 16


@dataclass(frozen=True, kw_only=True)
class FiniteCounts:
    """How many values of a tensor are NaN or infinite."""

    nan: int = 0
    plus: int = 0
    """Values of plus infinity."""
    minus: int = 0
    """Values of minus infinity."""
    of: int = 0
    """Values in all."""

    @property
    def bad(self) -> int:
        """Values that are not finite."""
        return self.nan + self.plus + self.minus

    @property
    def share(self) -> float:
        """Share of values that are not finite."""
        return self.bad / self.of if self.of else 0.0

    @property
    def is_broken(self) -> bool:
        """Whether something is NaN or plus infinity; minus infinity alone is used as a mask."""
        return bool(self.nan or self.plus)

    @property
    def words(self) -> str:
        """What the values are: `all NaN`, `all −∞`, `NaN and ∞`.

        >>> FiniteCounts(nan=2, plus=1, of=9).words
        'NaN and ∞'
        """
        kinds = [name for name, n in (("NaN", self.nan), ("∞", self.plus), ("−∞", self.minus)) if n]
        return f"all {kinds[0]}" if len(kinds) == 1 else " and ".join(kinds)

    def __add__(self, other: FiniteCounts) -> FiniteCounts:
        return FiniteCounts(
            nan=self.nan + other.nan,
            plus=self.plus + other.plus,
            minus=self.minus + other.minus,
            of=self.of + other.of,
        )


def as_real(tensor: Any) -> Tensor | None:
    """The values of a dense tensor that may be NaN, detached; None for integers and others."""
    if not isinstance(tensor, Tensor) or tensor.layout is not torch.strided or not tensor.numel():
        return None
    if tensor.is_meta or tensor.is_quantized or getattr(tensor, "is_nested", False):
        return None
    if hasattr(tensor, "device_mesh"):  # sharded: reading it would wait for other ranks
        return None
    values = tensor.detach()
    if values.is_complex():
        return torch.view_as_real(values.resolve_conj())
    if not values.is_floating_point():
        return None
    return values.float() if values.itemsize == 1 else values  # types of 8 bits have few operations


def count_nonfinite(tensor: Any) -> FiniteCounts | None:
    """Counts of one tensor; None if its values cannot be NaN. Waits for a device.

    >>> count_nonfinite(torch.tensor([1.0, float("nan"), float("-inf")]))
    FiniteCounts(nan=1, plus=0, minus=1, of=3)
    """
    values = as_real(tensor)
    if values is None:
        return None
    if bool(values.isfinite().all()):  # nearly always
        return FiniteCounts(of=values.numel())
    kinds = (values.isnan(), values.isposinf(), values.isneginf())
    nan, plus, minus = torch.stack([kind.sum() for kind in kinds]).tolist()
    return FiniteCounts(nan=nan, plus=plus, minus=minus, of=values.numel())


def named_tensors(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in nested containers, with its path.

    >>> [name for name, _ in named_tensors({"x": [torch.ones(1), torch.ones(1)]})]
    ['x.0', 'x.1']
    """
    if isinstance(value, Tensor):
        yield name, value
    elif depth < MOST_DEPTH and isinstance(value, Mapping | list | tuple):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in pairs:
            yield from named_tensors(item, f"{name}.{key}" if name else str(key), depth + 1)


def count_all(value: Any) -> FiniteCounts:
    """Counts over every tensor in nested containers."""
    total = FiniteCounts()
    for _, tensor in named_tensors(value):
        total += count_nonfinite(tensor) or FiniteCounts()
    return total
