"""The residual stream at the borders of the blocks, in memory or in one file a border."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BorderStore"]


class BorderStore:
    """Keeps tensors by key until they are taken once.

    Args:
        folder: where to spill, into a folder of its own that is removed at the end. None: memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._parent, self._folder = folder, None if folder is None else Path(folder)
        self._kept: dict[tuple[int, int], Tensor] = {}
        self._files: dict[tuple[int, int], tuple[Path, torch.Size, torch.dtype, torch.device]] = {}

    def __enter__(self) -> BorderStore:
        if self._parent is not None:
            self._folder = Path(tempfile.mkdtemp(prefix="borders-", dir=self._parent))
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def put(self, key: tuple[int, int], value: Tensor) -> None:
        """Keep a tensor; in memory it is not copied."""
        if self._folder is None:
            self._kept[key] = value
            return
        path = self._folder / f"{key[0]}_{key[1]}.bin"
        mapped = torch.from_file(str(path), shared=True, size=value.numel(), dtype=value.dtype)
        mapped.copy_(value.detach().reshape(-1).cpu())
        self._files[key] = (path, value.shape, value.dtype, value.device)

    def take(self, key: tuple[int, int]) -> Tensor:
        """Give a tensor back and forget it."""
        if key in self._kept:
            return self._kept.pop(key)
        path, shape, dtype, device = self._files.pop(key)
        mapped = torch.from_file(str(path), shared=True, size=shape.numel(), dtype=dtype)
        value = mapped.clone().view(shape).to(device)
        path.unlink()
        return value
