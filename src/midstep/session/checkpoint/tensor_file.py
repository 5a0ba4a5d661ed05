"""Tensors as safetensors, written and read in one pass, with a hash for each.

The layout is that of safetensors, so any of its readers opens the file. Ours streams: no second
copy of the tensors in memory, and each is hashed as its bytes go by.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.session.state.shared_storage import wait_for_devices

__all__ = [
    "Entry",
    "TensorWriter",
    "digest",
    "flattened",
    "raw_bytes",
    "read_tensors",
    "stored_form",
]

HASH_BYTES = 32
MOST_HEADER_BYTES = 100_000_000
"""The limit that safetensors itself sets."""
CHUNK_BYTES = 16 << 20

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


def digest(data: Any) -> str:
    """blake2b with 32 bytes, as hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=HASH_BYTES).hexdigest()


def stored_form(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as a type that safetensors has: complex as pairs, rare types as bare bits.

    >>> stored_form(torch.zeros(3, dtype=torch.complex64)).shape
    torch.Size([3, 2])
    """
    if tensor.dtype in _PARTS:
        return flattened(tensor).view(_PARTS[tensor.dtype]).reshape(*tensor.shape, 2)
    if tensor.dtype in _NAMES:
        return tensor
    return flattened(tensor).view(_BY_WIDTH[tensor.dtype.itemsize]).reshape(tensor.shape)


def flattened(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements in one row, without a copy where they lie so.

    A tensor with one element may have any stride and still count as contiguous.
    """
    flat = tensor.contiguous().reshape(-1)
    return flat.as_strided((flat.numel(),), (1,))


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the host, without a copy."""
    flat = flattened(tensor)
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One tensor of a file, as its manifest lists it."""

    dtype: str
    shape: list[int]
    bytes: int
    blake2b: str

    def describe(self) -> dict[str, Any]:
        """As it stands in the manifest."""
        return {
            "dtype": self.dtype,
            "shape": self.shape,
            "bytes": self.bytes,
            "blake2b": self.blake2b,
        }


class TensorWriter:
    """The bytes of a safetensors file, piece by piece; `entries` is filled as they go by.

    Args:
        tensors: by name, each in a form that `stored_form` gives.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        # Wide types first: then every tensor starts at a multiple of its own width.
        names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
        self._tensors = {name: tensors[name] for name in names}
        self.header = self._make_header()
        self.entries: dict[str, Entry] = {}
        self.bytes = len(self.header) + sum(t.numel() * t.itemsize for t in tensors.values())

    def _make_header(self) -> bytes:
        described: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end = 0
        for name, tensor in self._tensors.items():
            start, end = end, end + tensor.numel() * tensor.itemsize
            described[name] = {
                "dtype": _NAMES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [start, end],
            }
        text = json.dumps(described, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Header, then each tensor; one tensor at a time is brought to the host."""
        yield self.header
        wait_for_devices(self._tensors.values())
        for name, tensor in self._tensors.items():
            data = raw_bytes(tensor.detach().cpu().contiguous())
            hashed = hashlib.blake2b(digest_size=HASH_BYTES)
            for start in range(0, len(data), CHUNK_BYTES):
                hashed.update(data[start : start + CHUNK_BYTES])
                yield data[start : start + CHUNK_BYTES]
            self.entries[name] = Entry(
                dtype=_NAMES[tensor.dtype],
                shape=list(tensor.shape),
                bytes=len(data),
                blake2b=hashed.hexdigest(),
            )


def read_tensors(
    file: BinaryIO, header_hash: str, entries: Mapping[str, Mapping[str, Any]]
) -> dict[str, torch.Tensor]:
    """Every tensor of an open file, each checked against its hash before it is given back.

    Args:
        file: at its beginning.
        header_hash: what the header must hash to.
        entries: for each tensor its `dtype`, `shape`, `bytes` and `blake2b`.
    """
    header = _read_header(file, header_hash)
    if header.keys() != entries.keys():
        odd = sorted(header.keys() ^ entries.keys())[0]
        raise FormatError(f"tensor {odd!r} is in the file or in the manifest, but not in both")
    _check_room(file, header)
    found, end = {}, 0
    for name, described in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if described["data_offsets"][0] != end:
            raise FormatError(f"tensor {name!r} overlaps another or leaves a gap")
        found[name] = _read_tensor(file, name, described, entries[name]["blake2b"])
        end = described["data_offsets"][1]
    if file.read(1):
        raise FormatError("there are bytes behind the last tensor")
    return found


def _read_header(file: BinaryIO, header_hash: str) -> dict[str, Any]:
    first = file.read(8)
    size = int.from_bytes(first, "little")
    if len(first) < 8 or size > MOST_HEADER_BYTES:
        raise FormatError(f"the header is cut, or claims {size} bytes")
    text = file.read(size)
    if digest(first + text) != header_hash:
        raise FormatError("the header does not match its hash")
    header = strict_json.loads(text)
    if not isinstance(header, dict):
        raise FormatError("the header is no JSON object")
    header.pop("__metadata__", None)
    for name, described in header.items():
        _check_described(name, described)
    return header


def _check_described(name: str, described: Any) -> None:
    try:
        dtype, shape = _DTYPES[described["dtype"]], described["shape"]
        start, end = described["data_offsets"]
        numbers = [*shape, start, end]
        is_whole = all(type(number) is int and number >= 0 for number in numbers)
        fits = is_whole and end - start == math.prod(shape) * dtype.itemsize
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise FormatError(f"tensor {name!r} is described wrongly: {str(described)[:80]}")


def _check_room(file: BinaryIO, header: Mapping[str, Any]) -> None:
    """No memory is taken for more than the file holds."""
    claimed = sum(
        described["data_offsets"][1] - described["data_offsets"][0] for described in header.values()
    )
    held = os.fstat(file.fileno()).st_size - file.tell()
    if claimed != held:
        raise FormatError(f"it holds {held} bytes of tensors where {claimed} are claimed")


def _read_tensor(
    file: BinaryIO, name: str, described: Mapping[str, Any], wanted: str
) -> torch.Tensor:
    tensor = torch.empty(described["shape"], dtype=_DTYPES[described["dtype"]])
    data = raw_bytes(tensor)
    hashed = hashlib.blake2b(digest_size=HASH_BYTES)
    for start in range(0, len(data), CHUNK_BYTES):
        part = data[start : start + CHUNK_BYTES]
        if file.readinto(part) != len(part):  # type: ignore[attr-defined]
            raise FormatError(f"tensor {name!r} is cut short")
        hashed.update(part)
    if hashed.hexdigest() != wanted:
        raise FormatError(f"tensor {name!r} does not match its hash")
    return tensor
