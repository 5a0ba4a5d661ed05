"""In which order the rows of a flattened output belong to the samples.

An output [B, G, C] is flattened sample by sample. One of a model that has the sequence first,
[G, B, C], is flattened position by position, which its shape does not tell. So the first targets of
the loss are compared with those that the loader gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from midstep.data.batch_structure import tensors_of
from midstep.explore.tensor_trees import tensors_in

COMPARED = 128
"""Rows that are compared."""


def row_heads(inputs: Any, batch: Any, samples: int) -> Mapping[str, Any] | None:
    """The first targets in each of the orders; None if the rows are samples, or cannot be compared.

    Args:
        inputs: of the loss.
        batch: from the loader.
        samples: in the batch.
    """
    tensors = [each for each in tensors_in(inputs) if each.dim()]
    rows = len(tensors[0]) if tensors else 0
    target = next(
        (each for each in tensors if _names_classes(each) and each.shape == (rows,)), None
    )
    if target is None or not samples or rows % samples or rows == samples:
        return None
    length = rows // samples
    given = [
        each[:, -length:]
        for each in tensors_of(batch)
        # A batch may have one token more than the output has positions: the first is not a target.
        if _names_classes(each) and each.dim() == 2 and len(each) == samples
        if each.shape[1] in (length, length + 1)
    ]
    return {
        "target": target[:COMPARED],
        "by_sample": [_head(each) for each in given],
        "by_position": [_head(each.t()) for each in given],
    }


def _names_classes(value: Any) -> bool:
    return isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex())


def _head(rows: Tensor) -> Tensor:
    width = rows.shape[1]
    return rows[: COMPARED // width + 1].reshape(-1)[:COMPARED]


def is_by_position(heads: Mapping[str, Any]) -> bool:
    """Whether the rows come position by position. On the host, for readers.

    >>> import torch
    >>> tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])
    >>> turned = tokens.t().reshape(-1)
    >>> is_by_position(row_heads([torch.zeros(6, 9), turned], [tokens], 2))
    True
    """
    target = heads["target"].cpu()

    def fits(order: str) -> bool:
        return any(target.equal(each.cpu().to(target.dtype)) for each in heads[order])

    return fits("by_position") and not fits("by_sample")
