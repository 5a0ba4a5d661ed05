"""Copies of tensors and arrays, recognised without importing the libraries that made them."""

from __future__ import annotations

import math
import sys
from typing import Any


def is_array(value: Any) -> bool:
    """Whether it is a tensor or an array with real numbers that can be copied."""
    has_shape = hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "reshape")
    if not has_shape or not (hasattr(value, "detach") or hasattr(value, "__array_interface__")):
        return False
    dtype = str(value.dtype)
    if "complex" in dtype or not any(word in dtype for word in ("float", "int", "bool")):
        return False
    is_on_meta = "meta" in str(getattr(value, "device", ""))
    return not is_on_meta and str(getattr(value, "layout", "torch.strided")) == "torch.strided"


def shape_of(array: Any) -> tuple[int, ...]:
    """The shape of an array or a tensor."""
    return tuple(int(length) for length in array.shape)


def count_of(array: Any) -> int:
    """How many elements an array or a tensor has."""
    return math.prod(shape_of(array))


def own_copy(array: Any) -> tuple[Any, Any]:
    """A copy that shares no memory with `array`, and what to wait for before it is read."""
    if not hasattr(array, "detach"):
        return array.copy(), None
    copy = array.detach().clone()
    if not copy.is_cuda:
        return copy, None
    torch: Any = sys.modules["torch"]  # already loaded: a tensor exists
    # Blocking: a thread that waits sleeps, instead of taking a core from the training.
    event = torch.cuda.Event(blocking=True)
    event.record(torch.cuda.current_stream(copy.device))
    return copy, event


def as_numpy(array: Any) -> Any:
    """A copy of ours as an array of numpy; of types that numpy lacks, as float32.

    On a GPU this waits for the device.
    """
    if not hasattr(array, "detach"):
        return array
    is_odd = "bfloat" in str(array.dtype) or "float8" in str(array.dtype)
    return (array.float() if is_odd else array).cpu().numpy()
