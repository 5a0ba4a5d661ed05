"""Tensors as numpy arrays, and arrays as numbers of strict JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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
    # Imported late here and in all that the routes of datasets and influence import, because
    # these routes must load without numpy.
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

    if array.dtype.kind != "f" or all_finite(array):
        return list(array.tolist())
    held = array.astype(object)
    held[np.isnan(array)] = "NaN"
    held[np.isposinf(array)] = "Infinity"
    held[np.isneginf(array)] = "-Infinity"
    return list(held.tolist())


def all_finite(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array of floats holds neither NaN nor an infinity."""
    import numpy as np

    return bool(np.isfinite(array).all())


def nonfinite_pointers(value: Any, path: str = "") -> list[str]:
    """Return the JSON pointers of the non-finite floats in mappings, lists and tuples.

    A client needs them for values without a schema, where the string `NaN` may also be text.

    >>> nonfinite_pointers({"loss": float("nan"), "name": "NaN"}, "/result")
    ['/result/loss']
    """
    if isinstance(value, float):
        return [] if math.isfinite(value) else [path]
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        return []
    return [
        pointer
        for key, item in items
        for pointer in nonfinite_pointers(item, join_pointer(path, str(key)))
    ]


def join_pointer(path: str, key: str) -> str:
    """Return the JSON pointer (RFC 6901) of a key below `path`.

    >>> join_pointer("/data", "a/b")
    '/data/a~1b'
    """
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
