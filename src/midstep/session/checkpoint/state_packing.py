"""A state split in two: a JSON document, and the tensors that it refers to by name.

`unpack` reverses `pack`. Gradients and the device are not kept: a state is restored on the device
of the object that loads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from midstep.core.errors import FormatError
from midstep.session.checkpoint import tagged_json
from midstep.session.checkpoint.tensor_file import stored_form
from midstep.session.state.large_arrays import array_bytes
from midstep.session.state.shared_storage import MemoryBlock, View, find_blocks
from midstep.session.state.state_tree import ARRAY_KINDS, Path, format_path, tensors_of


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A state as text and tensors."""

    text: str
    """Tagged JSON."""
    tensors: dict[str, torch.Tensor]
    """Tensors by name in the text, each in its `stored_form`; shared memory is there once."""


def pack(tree: Any) -> Packed:
    """Split a state.

    Raises:
        UnsavableError: something in it cannot be saved; the message has its path.
    """
    leaves = tensors_of(tree)
    names = _Names()
    references: dict[int, dict[str, Any]] = {}
    tensors: dict[str, torch.Tensor] = {}
    with torch.no_grad():  # views of parameters that require gradients
        for block in find_blocks([leaf for _, leaf in leaves]):
            # safetensors refuses tied and transposed tensors, so each block is stored once.
            name = names.unused(leaves[min(block.members)][0])
            tensors[name] = stored_form(block.source)
            for index, view in block.members.items():
                references[id(leaves[index][1])] = _reference(name, block, view, tensors[name])

    def put(value: Any, path: Path) -> dict[str, Any]:
        if isinstance(value, torch.Tensor):
            return references[id(value)]
        name = names.unused(path)
        tensors[name] = _as_bytes(value)
        return {"!array": name, "dtype": value.dtype.str, "shape": list(value.shape)}

    return Packed(text=tagged_json.dumps(tree, put), tensors=tensors)


def _as_bytes(array: Any) -> torch.Tensor:
    """The bytes of an array in C order. So byte orders and types that torch lacks work too.

    A contiguous array is not copied: it may be a replay buffer of some gigabytes.
    """
    if array.nbytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    data = array_bytes(array)
    return torch.from_numpy(data if data.flags.writeable else data.copy())


class _Names:
    """Names of tensors: their paths, with a number where two paths read the same."""

    def __init__(self) -> None:
        self._taken = {"__metadata__"}

    def unused(self, path: Path) -> str:
        plain = name = format_path(path).encode("utf-8", "replace").decode()
        count = 1
        while name in self._taken:
            count += 1
            name = f"{plain}#{count}"
        self._taken.add(name)
        return name


def _reference(
    name: str, block: MemoryBlock, view: View | None, stored: torch.Tensor
) -> dict[str, Any]:
    """The JSON object that refers to one tensor of a block."""
    reference: dict[str, Any] = {"!tensor": name}
    dtype = block.source.dtype if view is None else view.dtype
    if dtype != stored.dtype:
        reference["dtype"] = str(dtype).removeprefix("torch.")
    if view is not None:
        shape, stride = list(view.shape), list(view.stride)
        reference |= {"shape": shape, "stride": stride, "offset": view.offset}
    return reference


def unpack(text: str | bytes, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The state that `pack` split.

    Raises:
        FormatError: the document is malformed, or does not fit the tensors.
    """

    def get(document: dict[str, Any]) -> Any:
        name = document.get("!tensor", document.get("!array"))
        if not isinstance(name, str) or name not in tensors:
            raise FormatError(f"there is no tensor {name!r}")
        try:
            build = _array if "!array" in document else _tensor
            return build(tensors[name], document)
        except FormatError:  # a ValueError, too
            raise
        except (TypeError, ValueError, RuntimeError, KeyError, OverflowError) as error:
            raise FormatError(f"tensor {name!r} is not as described: {error}") from None

    return tagged_json.loads(text, get)


def _tensor(stored: torch.Tensor, document: dict[str, Any]) -> torch.Tensor:
    dtype = stored.dtype
    if "dtype" in document:
        dtype = tagged_json.decode({"!dtype": document["dtype"]})
    if "shape" in document:
        view = View(
            dtype=dtype,
            shape=tuple(document["shape"]),
            stride=tuple(document["stride"]),
            offset=document["offset"],
        )
        return view.tensor_in(stored)
    if dtype == stored.dtype:
        return stored
    shape = stored.shape[:-1] if dtype.is_complex else stored.shape
    return stored.reshape(-1).view(dtype).reshape(shape)


def _array(stored: torch.Tensor, document: dict[str, Any]) -> Any:
    dtype = np.dtype(document["dtype"])
    if dtype.kind not in ARRAY_KINDS:
        raise FormatError(f"{document['dtype']!r} is not a type of numbers or strings")
    shape = tuple(document["shape"])
    if dtype.itemsize == 0 or 0 in shape:
        return np.zeros(shape, dtype)
    if math.prod(shape) * dtype.itemsize != stored.numel():
        raise FormatError(
            f"an array of {dtype} and shape {shape} does not have {stored.numel()} bytes"
        )
    return stored.numpy().view(dtype).reshape(shape)
