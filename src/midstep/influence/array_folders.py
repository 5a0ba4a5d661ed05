"""Folders of one JSON file and one safetensors file: written atomically, checked by a hash.

Batches, workspaces and request results are stored in this form, under different file names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.files.atomic_folders import add_folder

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ArrayFolder:
    """One kind of folder: its format and the names of its two files."""

    format_tag: str
    """Value of the field `format` in the JSON file."""
    json_name: str
    array_name: str

    def write(
        self,
        path: str | os.PathLike[str],
        arrays: Mapping[str, Tensor],
        describe: Callable[[str], Mapping[str, Any]],
    ) -> Path:
        """Write the new folder `path`; `describe` gives the JSON fields from the arrays' hash."""
        from safetensors.torch import save

        # safetensors refuses tensors that share memory, so a view of a larger tensor and one
        # tensor under two names get storage of their own.
        packed = save(
            {name: each.detach().cpu().contiguous().clone() for name, each in arrays.items()}
        )
        description = {"format": self.format_tag, **describe(_digest(packed))}
        text = (strict_json.dumps(description) + "\n").encode()
        return add_folder(path, {self.array_name: [packed], self.json_name: [text]})

    def read(
        self, path: str | os.PathLike[str], digest_in: Callable[[dict[str, Any]], object]
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Read what `write` wrote; `digest_in` takes the arrays' hash out of the JSON fields."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        folder = Path(path)
        try:
            description = strict_json.loads((folder / self.json_name).read_bytes())
            packed = (folder / self.array_name).read_bytes()
        except OSError as error:
            raise StorageError(
                f"cannot read {folder}: {error.strerror}; give a folder with {self.json_name} and "
                f"{self.array_name}"
            ) from error
        if not isinstance(description, dict) or description.get("format") != self.format_tag:
            raise FormatError(f"{folder / self.json_name} is not of format {self.format_tag}")
        array_file = folder / self.array_name
        if _digest(packed) != digest_in(description):
            raise FormatError(f"{array_file} is damaged: its hash differs; create the folder again")
        try:
            return description, load(packed)
        except SafetensorError as error:
            raise FormatError(f"{array_file} cannot be read: {error}") from None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
