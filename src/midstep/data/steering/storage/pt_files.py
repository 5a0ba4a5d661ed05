"""Storage form `pt`: one .pt file for each array, tensors only, loaded with `weights_only`.

Older datasets hold the keyword ids as a list of lists in one file; these are read too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError, StorageError
from midstep.core.field_checks import is_integer
from midstep.core.files.untrusted_files import file_problem, open_file
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.layout import ArrayReader, StoredArray


class PtReader(ArrayReader):
    """Reads .pt files. Only tensors, numbers and lists of these are loaded."""

    form = "pt"

    def file_of(self, name: str) -> Path:
        """The file of the array, or the older file that holds the whole ragged table."""
        path = self.folder / f"{name}.pt"
        whole = self.folder / f"{name.removesuffix('_offsets').removesuffix('_values')}.pt"
        return whole if not path.exists() and whole.exists() else path

    def read(self, array: StoredArray, *, mapped: bool) -> NDArray[Any]:
        """Read the array into memory; this form cannot be mapped."""
        del mapped
        path = self.file_of(array.name)
        value = _load(path)
        if isinstance(value, list) and path.name != f"{array.name}.pt":
            return _ragged_part(value, array, path)
        tensor = _tensor(value, path)
        array.check(path.name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        data: NDArray[Any] = tensor.contiguous().numpy()
        return data


def _load(path: Path) -> Any:
    import torch

    problem = file_problem(path)
    if problem is not None:
        raise DatasetError(problem)
    try:
        with open_file(path) as file:
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - a damaged file breaks the loader in many ways
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise DatasetError(f"{path.name} is not a complete file of tensors: {reason}") from None


def _tensor(value: Any, path: Path) -> Any:
    import torch

    if type(value) is not torch.Tensor or value.layout != torch.strided:
        raise DatasetError(f"{path.name} holds a {type(value).__name__}, expected one tensor")
    return value.detach()


def _ragged_part(value: list[Any], array: StoredArray, path: Path) -> NDArray[Any]:
    """The offsets or the values of an older list of lists."""
    lists = [_ids(each, index, path) for index, each in enumerate(value)]
    suffix = array.name.rpartition("_")[2]
    part = np.asarray(Ragged.from_lists(lists).parts()[suffix])
    array.check(f"{path.name} ({len(lists)} lists)", part.shape, part.dtype.name)
    return part


def _ids(value: Any, index: int, path: Path) -> list[int]:
    ids = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(ids, list):
        raise DatasetError(f"{path.name}[{index}] is {ids!r}, expected a list of keyword ids")
    for each in ids:
        if not is_integer(each):
            raise DatasetError(f"{path.name}[{index}] holds {each!r}, expected whole numbers")
    return ids


def write_pt(folder: Path, array: StoredArray, data: NDArray[Any]) -> Path:
    """Write one array and return its file."""
    import torch

    path = folder / f"{array.name}.pt"
    # A read-only array, such as a mapped one, is copied: torch warns of a tensor over it.
    tensor = torch.from_numpy(data if data.flags.writeable else data.copy())
    try:
        with path.open("xb") as file:
            torch.save(tensor, file)
    except RuntimeError as error:  # torch reports a full disk this way
        raise StorageError(f"cannot write {path.name}: {error}; check the space left") from error
    return path
