"""Weights of a stored run: tensor by tensor out of its newest checkpoint, when asked for."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from pathlib import Path
from typing import Any

from midstep.core.errors import ControlError, StorageError
from midstep.session.checkpoint.checkpoint_folders import MANIFEST, TENSORS, CheckpointFolders

log = logging.getLogger("midstep.server")
MOST_BYTES = 256 << 20
"""Of one tensor; larger ones have no picture anyway."""
MOST_JSON_BYTES = 64 << 20
_OF_MODEL = "model."
_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes of the types that have rows with a direction."""


class StoredWeights:
    """The matrices of the model in the newest checkpoint that can be read.

    Args:
        run_dir: the run directory.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._folder: Path | None = None
        self._entries: dict[str, dict[str, Any]] | None = None
        self.step = 0
        """Finished steps at that checkpoint."""

    @property
    def names(self) -> list[str]:
        """Tensors with rows, in the order of their names; only the manifest is read."""
        if self._entries is None:
            self._entries = self._find()
        return list(self._entries)

    def _find(self) -> dict[str, dict[str, Any]]:
        shelf = CheckpointFolders(self._run_dir)
        try:
            places = shelf.names()
        except StorageError as error:
            log.warning("%s", error)
            return {}
        for place in places:
            try:
                found = _matrices(shelf.path(place) / MANIFEST)
            except (OSError, ValueError, TypeError, KeyError) as error:
                log.warning("checkpoint %s is passed over: %s", shelf.path(place), error)
                continue
            self._folder, self.step = shelf.path(place), place.step
            return found
        return {}

    def rows(self, name: str) -> int:
        """How many rows a tensor has."""
        return int((self._entries or {})[name]["shape"][0])

    def read(self, name: str) -> Any:
        """One tensor, checked against its hash."""
        import torch

        if name not in self.names or self._folder is None or self._entries is None:
            raise ControlError(f"the checkpoint holds no tensor {name!r} with rows")
        entry = self._entries[name]
        data = bytearray(_bytes_of(self._folder / TENSORS, _OF_MODEL + name, entry))
        types = {"F64": torch.float64, "F32": torch.float32}
        types |= {"F16": torch.float16, "BF16": torch.bfloat16}
        return torch.frombuffer(data, dtype=types[entry["dtype"]]).reshape(entry["shape"])


def _matrices(path: Path) -> dict[str, dict[str, Any]]:
    """Entries of the model's tensors with two dimensions or more, by the model's own names."""
    if path.is_symlink() or path.stat().st_size > MOST_JSON_BYTES:
        raise ValueError("its manifest is no file of ours")
    listed = json.loads(path.read_bytes())["tensors"]
    return {
        name.removeprefix(_OF_MODEL): entry
        for name, entry in sorted(listed.items())
        if name.startswith(_OF_MODEL) and _has_rows(entry)
    }


def _has_rows(entry: dict[str, Any]) -> bool:
    shape, width = entry["shape"], _WIDTHS.get(entry["dtype"])
    if width is None or len(shape) < 2 or not all(type(n) is int and n > 0 for n in shape):
        return False
    return bool(entry["bytes"] == math.prod(shape) * width <= MOST_BYTES)


def _bytes_of(path: Path, name: str, entry: dict[str, Any]) -> bytes:
    try:
        with path.open("rb") as file:
            length = min(int.from_bytes(file.read(8), "little"), MOST_JSON_BYTES)
            start = int(json.loads(file.read(length))[name]["data_offsets"][0])
            file.seek(8 + length + start)
            data = file.read(entry["bytes"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ControlError(f"the checkpoint {path.parent.name} cannot be read: {error}") from error
    if hashlib.blake2b(data, digest_size=32).hexdigest() != entry["blake2b"]:
        raise ControlError(f"{name} of the checkpoint {path.parent.name} does not match its hash")
    return data
