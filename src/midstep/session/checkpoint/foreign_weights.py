"""`load_foreign`: weights from files that other programs wrote, without running their code."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from midstep.core.errors import FormatError
from midstep.core.files.storage import storage_error
from midstep.core.files.untrusted_files import is_plain
from midstep.session.state.state_tree import UnsavableError, walk


def load_foreign(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Any:
    """The content of a `.safetensors` file or of a file of `torch.save`, on the CPU.

    Args:
        path: the file.
        allow_pickle: unpickle the file, which runs any code in it. Only for files that you would
            also run as a program.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "weights.pt"
    >>> torch.save({"weight": torch.ones(2)}, file)
    >>> load_foreign(file)
    {'weight': tensor([1., 1.])}
    """
    file = Path(path)
    try:
        if file.suffix == ".safetensors":
            return _load_safetensors(file)
        if allow_pickle:
            return torch.load(file, map_location="cpu", weights_only=False)
        return _load_weights(file)
    except OSError as error:
        raise storage_error(file, "read", error) from error


ORIGINAL_FILES = ("best_val.pt", "model.pt", "last.pt")
"""Checkpoints of runs in the original layout, in the run directory or in its `checkpoints`."""


def list_original(run_dir: str | os.PathLike[str]) -> dict[str, Path]:
    """The checkpoints of a run in the original layout, by name: best_val, model, last.

    >>> import tempfile
    >>> run_dir = Path(tempfile.mkdtemp())
    >>> torch.save({"weight": torch.ones(2)}, run_dir / "last.pt")
    >>> [path.name for path in list_original(run_dir).values()]
    ['last.pt']
    """
    folders = (Path(run_dir), Path(run_dir) / "checkpoints")
    return {
        name.removesuffix(".pt"): folder / name
        for name in ORIGINAL_FILES
        for folder in reversed(folders)
        if is_plain(folder / name)
    }


def load_original(run_dir: str | os.PathLike[str], name: str = "best_val") -> Any:
    """A checkpoint of a run in the original layout, read with `weights_only`.

    Args:
        run_dir: the run directory.
        name: best_val, model or last.

    Raises:
        FormatError: the run has no such file, or it holds more than tensors and plain values.
    """
    known = list_original(run_dir)
    if name not in known:
        there = ", ".join(known) or "none"
        raise FormatError(f"{run_dir} has no checkpoint {name}.pt; it has: {there}")
    return load_foreign(known[name])


def _load_safetensors(file: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except SafetensorError as error:
        raise FormatError(f"{file} is not a readable safetensors file: {error}") from error


def _load_weights(file: Path) -> Any:
    """Tensors, numbers, strings and containers of these. There is no second, unsafe attempt."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
        walk(content)  # refuses classes that other code in this process declared safe to torch
    except (pickle.UnpicklingError, UnsavableError) as error:
        raise FormatError(
            f"{file} holds more than tensors, numbers, strings and lists of these: "
            f"{str(error).splitlines()[0]} If you trust it as you would trust a program, "
            "pass allow_pickle=True"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise FormatError(
            f"{file} is not a file of torch.save, or is cut short: {error}"
        ) from error
    return content
