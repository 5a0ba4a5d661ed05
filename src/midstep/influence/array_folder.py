"""A folder with one JSON file and one safetensors file: there at once, checked when read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.folders import add_folder

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["read_array_folder", "write_array_folder"]

_JSON, _ARRAYS = "data.json", "arrays.safetensors"


def write_array_folder(
    path: str | os.PathLike[str], form: str, data: Mapping[str, Any], arrays: Mapping[str, Tensor]
) -> Path:
    """Write `data` and `arrays` as the new folder `path`."""
    from safetensors.torch import save

    # A view of a larger tensor, or one tensor under two names, must stand on its own in the file.
    packed = save({name: one.detach().cpu().contiguous().clone() for name, one in arrays.items()})
    told = {"format": form, "arrays_blake2b": _digest(packed), **data}
    text = (strict_json.dumps(told) + "\n").encode()
    return add_folder(path, {_ARRAYS: [packed], _JSON: [text]})


def read_array_folder(
    path: str | os.PathLike[str], form: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write_array_folder` wrote under the same `form`."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    folder = Path(path)
    try:
        told = strict_json.loads((folder / _JSON).read_bytes())
        packed = (folder / _ARRAYS).read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {folder}: {error.strerror}; check the path") from error
    if not isinstance(told, dict) or told.get("format") != form:
        raise FormatError(f"{folder} does not hold data of format {form}")
    if _digest(packed) != told.get("arrays_blake2b"):
        raise FormatError(f"{folder / _ARRAYS} is damaged: its hash differs; compute it again")
    try:
        return told, load(packed)
    except SafetensorError as error:
        raise FormatError(f"{folder / _ARRAYS} cannot be read: {error}") from None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
