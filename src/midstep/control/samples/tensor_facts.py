"""What is known of a tensor or an array without reading its values, by their methods alone.

`control` works without torch and numpy.
"""

from __future__ import annotations

import math
from typing import Any


def dtype_name(value: Any) -> str:
    """The element type without the prefix `torch.`."""
    return str(value.dtype).removeprefix("torch.")


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor or an array; a numpy scalar is not."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "reshape")


def is_dense(tensor: Any) -> bool:
    """Whether it has real numbers that can be sliced; not on `meta`, sparse, complex, objects."""
    kind = getattr(tensor.dtype, "kind", None)  # of an array
    if kind is not None:
        return kind in "biuf"
    is_strided = str(getattr(tensor, "layout", "")) == "torch.strided"
    is_real = not dtype_name(tensor).startswith(("complex", "q"))
    return is_strided and is_real and tensor.device.type != "meta"


def rows_of(tensor: Any) -> Any:
    """The values of each sample in one row, also of no samples."""
    shape = tuple(tensor.shape)
    return tensor.reshape((shape[0], math.prod(shape[1:])))


def per_sample(values: Any, count: int, first: int, stop: int) -> Any:
    """The entries of some samples; None if `values` does not have one for each sample."""
    if is_tensor(values):
        shape = tuple(values.shape)
        fits = bool(shape) and shape[0] == count and math.prod(shape) == count
        return values.reshape(-1)[first:stop] if fits else None
    if isinstance(values, list | tuple | range) and len(values) >= stop:
        return values[first:stop]
    return None
