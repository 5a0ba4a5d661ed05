"""Tensors as numpy arrays, and arrays as numbers of strict JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor or an array; a numpy scalar is not."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "reshape")


def shape_of(value: Any) -> list[int]:
    """The shape as plain integers."""
    return [int(side) for side in value.shape]


def dtype_name(value: Any) -> str:
    """The element type without the prefix `torch.`.

    >>> import numpy as np
    >>> dtype_name(np.zeros(2, np.float32))
    'float32'
    """
    return str(value.dtype).removeprefix("torch.")


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A dense CPU array of `value`; types that numpy lacks (bfloat16, float8) become float32.

    Raises:
        TypeError: `value` has no dense values (meta or sparse tensor, array of objects).
    """
    # Imported late here and in other modules: a server without viewers does not load numpy.
    import numpy as np

    array: np.ndarray[Any, Any]
    if not hasattr(value, "detach"):
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError("an array of Python objects")
        return array
    if value.device.type == "meta" or str(value.layout) != "torch.strided":
        raise TypeError(f"a tensor on {value.device.type} of layout {value.layout}")
    tensor = value.detach().cpu()
    if tensor.is_floating_point() and dtype_name(tensor) not in ("float16", "float32", "float64"):
        tensor = tensor.float()
    # torch marks a conjugate or a negative view with a bit, which `numpy` refuses.
    array = tensor.resolve_conj().resolve_neg().numpy()
    return array


def numbers(array: np.ndarray[Any, Any]) -> list[Any]:
    """The values of an array as nested lists; NaN and the infinities as strings.

    >>> import numpy as np
    >>> numbers(np.array([1.0, np.nan, -np.inf]))
    [1.0, 'NaN', '-Infinity']
    """
    import numpy as np

    if array.dtype.kind != "f" or bool(np.isfinite(array).all()):
        return list(array.tolist())
    values = array.astype(object)
    values[np.isnan(array)] = "NaN"
    values[np.isposinf(array)] = "Infinity"
    values[np.isneginf(array)] = "-Infinity"
    return list(values.tolist())
