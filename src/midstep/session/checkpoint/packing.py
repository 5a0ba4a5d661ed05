"""A state in two halves: a JSON document, and the tensors it names.

`pack` and `unpack` are inverse to each other, up to what no state asks for: gradients, and the
device, since a state is put back on the device of whatever takes it.
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
from midstep.session.state.shared_storage import MemoryBlock, View, find_pieces
from midstep.session.state.state_tree import ARRAY_KINDS, Path, walk, words


@dataclass(frozen=True, kw_only=True)
class Packed:
    """The two halves of a state."""

    text: str
    """Tagged JSON."""
    tensors: dict[str, torch.Tensor]
    """By the names in the text; each piece of shared memory once, in a stored form."""


def pack(tree: Any) -> Packed:
    """Split a state; what cannot be saved raises `UnsavableError` with its path."""
    leaves = [(path, leaf) for path, leaf in walk(tree) if isinstance(leaf, torch.Tensor)]
    names = _Names()
    references: dict[int, dict[str, Any]] = {}
    tensors: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        for piece in find_pieces([leaf for _, leaf in leaves]):
            name = names.fresh(leaves[min(piece.members)][0])
            tensors[name] = stored_form(piece.source)
            for index, reference in _references(name, piece, tensors[name]):
                references[id(leaves[index][1])] = reference

    def put(value: Any, path: Path) -> dict[str, Any]:
        if isinstance(value, torch.Tensor):
            return references[id(value)]
        name = names.fresh(path)
        tensors[name] = _as_bytes(value)
        return {"!array": name, "dtype": value.dtype.str, "shape": list(value.shape)}

    return Packed(text=tagged_json.dumps(tree, put), tensors=tensors)


def _as_bytes(array: Any) -> torch.Tensor:
    """An array's bytes in C order: any byte order and any type, also those torch lacks."""
    data = bytearray(array.tobytes())
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


class _Names:
    """Names of tensors: their paths, told apart where two paths look alike."""

    def __init__(self) -> None:
        self._taken = {"__metadata__"}

    def fresh(self, path: Path) -> str:
        plain = name = words(path).encode("utf-8", "replace").decode()
        count = 1
        while name in self._taken:
            count += 1
            name = f"{plain}#{count}"
        self._taken.add(name)
        return name


def _references(
    name: str, piece: MemoryBlock, stored: torch.Tensor
) -> list[tuple[int, dict[str, Any]]]:
    """For each member of a piece, the JSON object that stands for it."""
    made = []
    for index, view in piece.members.items():
        reference: dict[str, Any] = {"!tensor": name}
        dtype = piece.source.dtype if view is None else view.dtype
        if dtype != stored.dtype:
            reference["dtype"] = str(dtype).removeprefix("torch.")
        if view is not None:
            reference |= {
                "shape": list(view.shape),
                "stride": list(view.stride),
                "offset": view.offset,
            }
        made.append((index, reference))
    return made


def unpack(text: str | bytes, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The state behind the two halves; a document that does not fit raises `FormatError`."""
    arrays = dict(tensors)

    def get(document: dict[str, Any]) -> Any:
        name = document.get("!tensor", document.get("!array"))
        if not isinstance(name, str) or name not in arrays:
            raise FormatError(f"there is no tensor {name!r}")
        try:
            build = _array if "!array" in document else _tensor
            return build(arrays[name], document)
        except FormatError:
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
        return view.of(stored)
    if dtype == stored.dtype:
        return stored
    shape = stored.shape[:-1] if dtype.is_complex else stored.shape
    return stored.reshape(-1).view(dtype).reshape(shape)


def _array(stored: torch.Tensor, document: dict[str, Any]) -> Any:
    dtype = np.dtype(document["dtype"])
    if dtype.kind not in ARRAY_KINDS:
        raise FormatError(f"{document['dtype']!r} is no type of numbers or strings")
    shape = tuple(document["shape"])
    if dtype.itemsize == 0 or 0 in shape:
        return np.zeros(shape, dtype)
    if math.prod(shape) * dtype.itemsize != stored.numel():
        raise FormatError(f"an array of shape {shape} does not have {stored.numel()} bytes")
    return stored.numpy().view(dtype).reshape(shape)
