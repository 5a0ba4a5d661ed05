"""Weights of a stored run, read from its newest checkpoint one tensor at a time."""

from __future__ import annotations

import hashlib
import logging
import math
from pathlib import Path
from typing import Any, BinaryIO

from midstep.core import strict_json
from midstep.core.errors import ControlError, FormatError, StorageError
from midstep.core.files.untrusted_files import FILE_ERRORS, open_plain
from midstep.session.checkpoint.checkpoint_folders import MANIFEST, TENSORS, CheckpointFolders

log = logging.getLogger("midstep.server")
MOST_BYTES = 256 << 20
"""Largest tensor that is read; the cosine matrix takes no larger one either."""
MOST_JSON_BYTES = 16 << 20
"""Largest manifest and largest safetensors header that are parsed: some 50,000 tensors. Parsed JSON
takes up to twenty times its size in memory."""
_MODEL_PREFIX = "model."
_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes per element of the floating-point types. Rows of integers have no meaningful cosines."""


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
        """Finished steps of that checkpoint."""

    @property
    def names(self) -> list[str]:
        """Names of the tensors that have rows, sorted. Only the manifest is read."""
        if self._entries is None:
            self._entries = self._read_entries()
        return list(self._entries)

    def _read_entries(self) -> dict[str, dict[str, Any]]:
        folders = CheckpointFolders(self._run_dir)
        try:
            checkpoints = folders.names()
        except StorageError as error:
            log.warning("%s", error)
            return {}
        for checkpoint in checkpoints:  # newest first; a damaged one must not hide an older one
            folder = folders.path(checkpoint)
            try:
                entries = _matrices(folder / MANIFEST)
            except FILE_ERRORS as error:
                log.warning("checkpoint %s is skipped: %s", folder, error)
                continue
            self._folder, self.step = folder, checkpoint.step
            return entries
        return {}

    def rows(self, name: str) -> int:
        """Number of rows of a tensor."""
        return int((self._entries or {})[name]["shape"][0])

    def read(self, name: str) -> Any:
        """One tensor, checked against its hash."""
        import torch

        if name not in self.names or self._folder is None or self._entries is None:
            raise ControlError(f"the checkpoint holds no tensor {name!r} with rows")
        entry = self._entries[name]
        # A bytearray, because `frombuffer` warns about memory that is not writable.
        data = bytearray(_bytes_of(self._folder / TENSORS, _MODEL_PREFIX + name, entry))
        types = {"F64": torch.float64, "F32": torch.float32}
        types |= {"F16": torch.float16, "BF16": torch.bfloat16}
        return torch.frombuffer(data, dtype=types[entry["dtype"]]).reshape(entry["shape"])


def _matrices(path: Path) -> dict[str, dict[str, Any]]:
    """Manifest entries of the model's tensors with at least two dimensions, by parameter name."""
    with open_plain(path.parent, path.name) as file:
        listed = strict_json.loads(_read_bounded(file, MOST_JSON_BYTES))["tensors"]
    return {
        name.removeprefix(_MODEL_PREFIX): entry
        for name, entry in sorted(listed.items())
        if name.startswith(_MODEL_PREFIX) and _has_rows(entry)
    }


def _read_bounded(file: BinaryIO, most_bytes: int) -> bytes:
    data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise FormatError(f"it has more than {most_bytes:,} bytes")
    return data


def _has_rows(entry: dict[str, Any]) -> bool:
    shape, width = entry["shape"], _WIDTHS.get(entry["dtype"])
    if width is None or len(shape) < 2 or not all(type(n) is int and n > 0 for n in shape):
        return False
    return bool(entry["bytes"] == math.prod(shape) * width <= MOST_BYTES)


def _bytes_of(path: Path, name: str, entry: dict[str, Any]) -> bytes:
    try:
        with open_plain(path.parent, path.name) as file:
            # safetensors: 8 bytes with the length of a JSON header, the header, then the data.
            length = int.from_bytes(file.read(8), "little")
            if length > MOST_JSON_BYTES:
                raise FormatError(f"its header has {length:,} bytes")
            start = int(strict_json.loads(file.read(length))[name]["data_offsets"][0])
            file.seek(8 + length + start)
            data = file.read(entry["bytes"])
    except FILE_ERRORS as error:
        raise ControlError(f"the checkpoint {path.parent.name} cannot be read: {error}") from error
    if hashlib.blake2b(data, digest_size=32).hexdigest() != entry.get("blake2b"):
        raise ControlError(f"{name} of the checkpoint {path.parent.name} does not match its hash")
    return data
