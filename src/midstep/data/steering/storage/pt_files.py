"""One `.pt` file a table: tensors only, loaded with `weights_only`.

Older files hold the keyword ids as a list of lists; these are read too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import DatasetError, StorageError
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.layout import Form, StoredArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PtReader:
    """Reads `.pt` files; nothing but tensors, numbers and lists of these is ever loaded."""

    form: Form = "pt"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file_of(self, name: str) -> Path:
        """Where the array `name` lies."""
        return _find_file(self.folder, name)

    def has(self, array: StoredArray) -> bool:
        """Whether it is there."""
        return self.file_of(array.name).is_file()

    def read(self, array: StoredArray, *, mapped: bool) -> NDArray[Any]:
        """The array in memory; this form is not mapped."""
        del mapped
        path = self.file_of(array.name)
        value = _load(path)
        if isinstance(value, list) and path.name != f"{array.name}.pt":
            return _ragged_part(value, array, path)
        tensor = _tensor(value, path)
        problem = array.problem(path.name, tuple(tensor.shape), _type_of(tensor))
        if problem:
            raise DatasetError(problem)
        data: NDArray[Any] = tensor.contiguous().numpy()
        return data


def _find_file(folder: Path, name: str) -> Path:
    """The array's own file, or the older one that holds the whole ragged table."""
    own = folder / f"{name}.pt"
    whole = folder / f"{name.removesuffix('_offsets').removesuffix('_values')}.pt"
    return whole if not own.exists() and whole.exists() else own


def _load(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DatasetError(f"{path.name} is missing") from None
    except Exception as error:  # noqa: BLE001 - a damaged file breaks the loader in many ways
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise DatasetError(f"{path.name} is no whole file of tensors: {reason}") from None


def _tensor(value: Any, path: Path) -> Any:
    import torch

    if type(value) is not torch.Tensor or value.layout != torch.strided:
        raise DatasetError(f"{path.name} holds a {type(value).__name__}, expected one tensor")
    return value.detach()


def _type_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _ragged_part(value: list[Any], array: StoredArray, path: Path) -> NDArray[Any]:
    """The offsets or the values of an older list of lists."""
    lists = [_ids(each, index, path) for index, each in enumerate(value)]
    half = array.name.rpartition("_")[2]
    part = np.asarray(Ragged.of(lists).parts()[half])
    problem = array.problem(f"{path.name} ({len(lists)} lists)", part.shape, part.dtype.name)
    if problem:
        raise DatasetError(problem)
    return part


def _ids(value: Any, index: int, path: Path) -> list[int]:
    ids = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(ids, list):
        raise DatasetError(f"{path.name}[{index}] is {ids!r}, expected a list of keyword ids")
    for each in ids:
        if not isinstance(each, int) or isinstance(each, bool):
            raise DatasetError(f"{path.name}[{index}] holds {each!r}, expected whole numbers")
    return ids


def write_pt(folder: Path, array: StoredArray, data: NDArray[Any]) -> Path:
    """Write one array; gives its file."""
    import torch

    path = folder / f"{array.name}.pt"
    tensor = torch.from_numpy(data if data.flags.writeable else data.copy())
    try:
        with path.open("xb") as file:
            torch.save(tensor, file)
    except RuntimeError as error:  # what torch makes of a full disk
        raise StorageError(f"cannot write {path.name}: {error}; check the space left") from error
    return path
