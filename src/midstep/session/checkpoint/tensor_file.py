"""Tensors as a safetensors file, written and read in one pass, with a hash for each.

Any reader of safetensors opens the file. The library itself is not used to write it: it would
need all tensors in host memory at once, and a second pass to hash them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import torch

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.session.checkpoint.hashes import check_hash, digest, new_hash
from midstep.session.state.shared_storage import wait_for_devices

MOST_HEADER_BYTES = 100_000_000
"""The limit that safetensors itself sets."""
CHUNK_BYTES = 16 << 20
"""Bytes that are hashed and written at a time."""

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_BY_WIDTH = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
_PARTS = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def stored_form(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a type that safetensors has: complex as pairs of floats, others as integers.

    >>> stored_form(torch.zeros(3, dtype=torch.complex64)).shape
    torch.Size([3, 2])
    """
    if tensor.dtype in _PARTS:
        return flattened(tensor).view(_PARTS[tensor.dtype]).reshape(*tensor.shape, 2)
    if tensor.dtype in _NAMES:
        return tensor
    return flattened(tensor).view(_BY_WIDTH[tensor.dtype.itemsize]).reshape(tensor.shape)


def flattened(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements in one row; a contiguous tensor is not copied."""
    flat = tensor.contiguous().reshape(-1)
    # A tensor with one element counts as contiguous with any stride, but `view(dtype)` refuses
    # a last stride other than 1.
    return flat.as_strided((flat.numel(),), (1,))


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the host, without a copy."""
    flat = flattened(tensor)
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")


class TensorWriter:
    """The bytes of a safetensors file, chunk by chunk.

    Args:
        tensors: by name, each in the form that `stored_form` returns.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        # Wide types first: then every tensor starts at a multiple of its item size, so that other
        # readers can map the file into memory.
        names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
        self._tensors = {name: tensors[name] for name in names}
        self.header = self._make_header()
        self.entries: dict[str, dict[str, Any]] = {}
        """`dtype`, `shape`, `bytes` and `blake2b` by name; filled while `chunks` is read."""
        self.bytes = len(self.header) + sum(t.numel() * t.itemsize for t in tensors.values())

    def _make_header(self) -> bytes:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end = 0
        for name, tensor in self._tensors.items():
            start, end = end, end + tensor.numel() * tensor.itemsize
            header[name] = {
                "dtype": _NAMES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [start, end],
            }
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)  # the data begins at a multiple of 8
        return len(text).to_bytes(8, "little") + text

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The header, then each tensor. Only one tensor at a time is copied to the host."""
        yield self.header
        # This runs in the writer's thread, whose CUDA stream is not ordered after the training's.
        wait_for_devices(self._tensors.values())
        for name, tensor in self._tensors.items():
            data = raw_bytes(tensor.detach().cpu().contiguous())
            tensor_hash = new_hash()
            for start in range(0, len(data), CHUNK_BYTES):
                tensor_hash.update(data[start : start + CHUNK_BYTES])
                yield data[start : start + CHUNK_BYTES]
            self.entries[name] = {**describe(tensor), "blake2b": tensor_hash.hexdigest()}


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    """Type, shape and size of a tensor in its `stored_form`, for the manifest.

    >>> describe(torch.zeros(2, 3))
    {'dtype': 'F32', 'shape': [2, 3], 'bytes': 24}
    """
    size = tensor.numel() * tensor.itemsize
    return {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "bytes": size}


def empty_tensor(name: str, described: Any) -> torch.Tensor:
    """A tensor without data, as `describe` has it; its fields were checked by `check_described`."""
    check_described(name, described)
    return torch.empty(described["shape"], dtype=_DTYPES[described["dtype"]])


def check_described(name: str, described: Any) -> None:
    """Raise `FormatError` if type, shape and size do not fit together."""
    _check_described(name, {**described, "data_offsets": [0, described.get("bytes")]})


def read_tensors(
    file: BinaryIO, header_hash: str, entries: Mapping[str, Mapping[str, Any]]
) -> dict[str, torch.Tensor]:
    """Every tensor of an open file, each checked against its hash.

    The file may be damaged in any way, so each number in it is checked before memory is allocated
    by it.

    Args:
        file: at its beginning.
        header_hash: the expected hash of the header.
        entries: the tensors as the manifest has them, each with its `blake2b`.

    Raises:
        FormatError: something does not match.
    """
    header = _read_header(file, header_hash)
    if header.keys() != entries.keys():
        name = sorted(header.keys() ^ entries.keys())[0]
        raise FormatError(f"tensor {name!r} is in the file or in the manifest, but not in both")
    _check_size(file, header)
    tensors, end = {}, 0
    for name, described in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if described["data_offsets"][0] != end:
            raise FormatError(f"tensor {name!r} overlaps another or leaves a gap")
        tensors[name] = _read_tensor(file, name, described, entries[name]["blake2b"])
        end = described["data_offsets"][1]
    if file.read(1):
        raise FormatError("there are bytes after the last tensor")
    return tensors


def _read_header(file: BinaryIO, header_hash: str) -> dict[str, Any]:
    first = file.read(8)
    size = int.from_bytes(first, "little")
    if len(first) < 8 or size > MOST_HEADER_BYTES:
        raise FormatError(f"the header is cut short, or claims {size} bytes")
    text = file.read(size)
    check_hash(digest(first + text), header_hash, "the header")
    header = strict_json.loads(text)
    if not isinstance(header, dict):
        raise FormatError("the header is not a JSON object")
    header.pop("__metadata__", None)
    for name, described in header.items():
        _check_described(name, described)
    return header


def _check_described(name: str, described: Any) -> None:
    try:
        dtype, shape = _DTYPES[described["dtype"]], described["shape"]
        start, end = described["data_offsets"]
        numbers = [*shape, start, end]
        # `type`, because True is an instance of int.
        is_whole = all(type(number) is int and number >= 0 for number in numbers)
        fits = is_whole and end - start == math.prod(shape) * dtype.itemsize
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise FormatError(f"tensor {name!r} is described wrongly: {str(described)[:80]}")


def _check_size(file: BinaryIO, header: Mapping[str, Any]) -> None:
    """Refuse a header that claims more bytes of tensors than the file has."""
    claimed = sum(
        described["data_offsets"][1] - described["data_offsets"][0] for described in header.values()
    )
    present = os.fstat(file.fileno()).st_size - file.tell()
    if claimed != present:
        raise FormatError(f"it has {present} bytes of tensors, but its header claims {claimed}")


def _read_tensor(
    file: BinaryIO, name: str, described: Mapping[str, Any], expected_hash: str
) -> torch.Tensor:
    tensor = torch.empty(described["shape"], dtype=_DTYPES[described["dtype"]])
    data = raw_bytes(tensor)  # the same memory: the file is read directly into the tensor
    tensor_hash = new_hash()
    for start in range(0, len(data), CHUNK_BYTES):
        part = data[start : start + CHUNK_BYTES]
        if file.readinto(part) != len(part):  # type: ignore[attr-defined]
            raise FormatError(f"tensor {name!r} is cut short")
        tensor_hash.update(part)
    check_hash(tensor_hash.hexdigest(), expected_hash, f"tensor {name!r}")
    return tensor
