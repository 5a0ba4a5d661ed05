"""Tensors and arrays as numpy, and their numbers as strict JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor or an array (numpy scalars are not)."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "reshape")


def shape_of(value: Any) -> list[int]:
    """The shape as plain integers."""
    return [int(side) for side in value.shape]


def dtype_name(value: Any) -> str:
    """The element type without its library's prefix.

    >>> import numpy as np
    >>> dtype_name(np.zeros(2, np.float32))
    'float32'
    """
    return str(value.dtype).removeprefix("torch.")


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A dense CPU array of `value`; types that numpy lacks (bfloat16, float8) become float32.

    Raises:
        TypeError: for what has no dense values on any device (meta, sparse, object arrays).
    """
    import numpy as np

    if not hasattr(value, "detach"):
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError("an array of Python objects")
        return array
    if value.device.type == "meta" or str(value.layout) != "torch.strided":
        raise TypeError(f"a tensor on {value.device.type} of layout {value.layout}")
    held = value.detach().cpu()
    if held.is_floating_point() and dtype_name(held) not in ("float16", "float32", "float64"):
        held = held.float()
    found: np.ndarray[Any, Any] = held.resolve_conj().resolve_neg().numpy()
    return found


def numbers(array: np.ndarray[Any, Any]) -> list[Any]:
    """Values of an array, nested as its shape; NaN and the infinities as strings.

    >>> import numpy as np
    >>> numbers(np.array([1.0, np.nan, -np.inf]))
    [1.0, 'NaN', '-Infinity']
    """
    import numpy as np

    if array.dtype.kind != "f" or bool(np.isfinite(array).all()):
        return list(array.tolist())
    held = array.astype(object)
    held[np.isnan(array)] = "NaN"
    held[np.isposinf(array)] = "Infinity"
    held[np.isneginf(array)] = "-Infinity"
    return list(held.tolist())
